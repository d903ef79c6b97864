//! What kinds of machine the rig can be.

use clap::ValueEnum;
use vfio_park::{GIB, Slot};

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// The board: 36 address bits, 8 cards, and a window of exactly one slot at 0xC00000000. One
    /// die of sixteen gets the window at boot.
    Win16,
    /// 36 address bits, 8 cards, and a window of three slots from 0x400000000 on.
    Win48,
    /// 42 address bits: every BAR1 has its place. Only one slot is used all the same.
    Roomy,
    /// An office PC: one card, and a window of two slots from 0x400000000 on.
    Office,
}

/// Where slots begin; the sizes are those of BAR1.
const PLACES: [u64; 3] = [0x4_0000_0000, 0x8_0000_0000, 0xC_0000_0000];
/// With 42 address bits, firmware puts the window near their end; this is where the last die is.
const ROOMY: u64 = 0x37C_0000_0000;

impl Profile {
    /// How many cards of two dies.
    pub const fn cards(self) -> u8 {
        match self {
            Self::Win16 | Self::Win48 | Self::Roomy => 8,
            Self::Office => 1,
        }
    }

    /// The slots there could be: each has a background that answers all-ones.
    pub fn slots(self) -> Vec<Slot> {
        let places: &[u64] = match self {
            Self::Win16 => &PLACES[2..],
            Self::Roomy => &[ROOMY],
            Self::Win48 => &PLACES[..],
            Self::Office => &PLACES[..2],
        };
        places.iter().filter_map(|base| Slot::new(*base, 16 * GIB).ok()).collect()
    }

    /// QEMU's options for processor, memory and the host bridge's window. QEMU puts the window
    /// behind the place that `maxmem` reserves for more memory, at the first multiple of a BAR1.
    pub fn machine(self, memory_mib: u32) -> Vec<String> {
        let (bits, maxmem, hole) = match self {
            Self::Win16 => (36, "36G", "16G"),
            Self::Win48 => (36, "5G", "48G"),
            Self::Roomy => (42, "5G", "1024G"),
            Self::Office => (36, "5G", "32G"),
        };
        vec![
            "-cpu".to_owned(),
            format!("max,phys-bits={bits}"),
            "-m".to_owned(),
            format!("{memory_mib},slots=1,maxmem={maxmem}"),
            "-global".to_owned(),
            format!("q35-pcihost.pci-hole64-size={hole}"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_slots() {
        for profile in Profile::value_variants() {
            assert!(!profile.slots().is_empty(), "{profile:?}");
        }
        assert_eq!(Profile::Win16.slots(), [Slot::BTC_S37]);
    }
}
