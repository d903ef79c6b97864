//! What a register answered, with the answers that mean "nobody is there" kept apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A 32-bit register read. Source of the sentinels: nouveau and envytools (PRI faults), the PCI
/// specification (all-ones where nobody answers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The register's value.
    Value(u32),
    /// `0xffffffff`: the window is shut, the die sleeps in D3hot, or it is gone.
    AllOnes,
    /// `0xbadfxxxx` or `0xbad0xxxx`: the die answers, this register does not.
    PriFault(u32),
}

impl Reading {
    /// Sorts a raw value.
    pub const fn from_raw(raw: u32) -> Self {
        match raw {
            u32::MAX => Self::AllOnes,
            _ if matches!(raw >> 16, 0xbadf | 0xbad0) => Self::PriFault(raw),
            _ => Self::Value(raw),
        }
    }

    /// The value, where there is one.
    pub const fn value(self) -> Option<u32> {
        match self {
            Self::Value(value) => Some(value),
            Self::AllOnes | Self::PriFault(_) => None,
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value:#010x}"),
            Self::AllOnes => f.write_str("all-ones (window shut, D3hot or gone)"),
            Self::PriFault(raw) => write!(f, "PRI fault {raw:#010x}"),
        }
    }
}

/// The BAR0 registers that may be read. Reading is all that is ever done to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Register {
    /// `PMC_BOOT_0` at 0x0: the chip; GK210 answers `0x0f22d0a1`.
    Boot0,
    /// `PMC_BOOT_42` at 0xa00.
    Boot42,
    /// Temperature at 0x20400: whole degrees C, valid where [`Register::ThermalFuse`] reads 1.
    Temperature,
    /// Fuse at 0x1a8 that says whether the temperature is calibrated.
    ThermalFuse,
}

impl Register {
    /// Every register there is.
    pub const ALL: [Self; 4] = [Self::Boot0, Self::Boot42, Self::Temperature, Self::ThermalFuse];

    /// Byte offset in BAR0.
    pub const fn offset(self) -> u32 {
        match self {
            Self::Boot0 => 0x0,
            Self::Boot42 => 0xa00,
            Self::Temperature => 0x2_0400,
            Self::ThermalFuse => 0x1a8,
        }
    }
}

/// `PMC_BOOT_0` of a GK210.
pub const BOOT0_GK210: u32 = 0x0f22_d0a1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_are_no_values() {
        assert_eq!(Reading::from_raw(u32::MAX), Reading::AllOnes);
        for raw in [0xbadf_1000, 0xbad0_da22] {
            assert_eq!(Reading::from_raw(raw).value(), None);
        }
        assert_eq!(Reading::from_raw(BOOT0_GK210).value(), Some(BOOT0_GK210));
    }
}
