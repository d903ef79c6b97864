//! BAR0: the few registers that may be read, and a record of every write.

use std::time::Duration;

use super::{DieKind, config::ConfigSpace, kind::OtherRegisters};
use crate::Register;

const PMC_ENABLE: u64 = 0x200;
const PARTITION_COUNT: u32 = 0x2_2438;
const PARTITION_DISABLE: u32 = 0x2_2554;
const PARTITION_SIZE: u32 = 0x11_020c;
const CONFIG_MIRROR: std::ops::Range<u64> = 0x8_8000..0x8_9000;
/// What a register that does not exist answers.
const PRI_FAULT: u32 = 0xbadf_1000;

/// What kind of register was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar0WriteKind {
    /// `PMC_ENABLE`, which has set a card on fire: nobody but the vendor's driver, ever.
    PmcEnable,
    /// The mirror of config space.
    ConfigMirror,
    /// Any other.
    Other,
}

/// A write to BAR0. Nothing of ours ever makes one; who runs the model judges where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar0Write {
    /// When.
    pub at: Duration,
    /// Byte offset in BAR0.
    pub offset: u64,
    /// The first up to eight bytes, little endian.
    pub value: u64,
    /// What kind of register it hit.
    pub kind: Bar0WriteKind,
}

impl Bar0Write {
    pub(super) fn new(at: Duration, offset: u64, data: &[u8]) -> Self {
        let value = data.iter().take(8).rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let end = offset + data.len() as u64;
        let kind = if offset < PMC_ENABLE + 4 && PMC_ENABLE < end {
            Bar0WriteKind::PmcEnable
        } else if CONFIG_MIRROR.contains(&offset) {
            Bar0WriteKind::ConfigMirror
        } else {
            Bar0WriteKind::Other
        };
        Self { at, offset, value, kind }
    }
}

/// A known register's value; `None` where it is not modelled. `offset` is a multiple of four.
pub(super) fn known(kind: &DieKind, config: &ConfigSpace, offset: u64) -> Option<u32> {
    if CONFIG_MIRROR.contains(&offset) {
        return u16::try_from(offset - CONFIG_MIRROR.start).ok().map(|at| config.u32(at));
    }
    let offset = u32::try_from(offset).ok()?;
    let named = [
        (Register::Boot0.offset(), kind.boot0),
        (Register::Boot42.offset(), kind.boot42),
        (Register::Temperature.offset(), kind.temperature),
        (Register::ThermalFuse.offset(), 1),
        (PARTITION_COUNT, kind.partitions),
        (PARTITION_DISABLE, 0),
    ];
    let partition = |i: &u32| PARTITION_SIZE + 0x1000 * i == offset;
    let size = || (0..kind.partitions).find(partition).map(|_| kind.partition_mib);
    named.iter().find(|(at, _)| *at == offset).map(|(_, value)| *value).or_else(size)
}

/// What a register that is not modelled reads as; `None` where it holds what was written.
pub(super) fn unknown(kind: &DieKind) -> Option<u32> {
    match kind.other_registers {
        OtherRegisters::PriFault => Some(PRI_FAULT),
        OtherRegisters::Scratch => None,
    }
}
