//! What BARs a known device has, for those whose size the kernel forgot.
//!
//! After a failed assignment the kernel keeps neither size nor type of a BAR, and the only other way
//! to ask is to write all-ones into the register of a device that may be decoding.

use crate::{GIB, MIB, PciId};

/// A BAR as the device's makers built it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBar {
    /// 0 to 5.
    pub index: u8,
    /// Bytes.
    pub size: u64,
    /// Decodes 64 address bits.
    pub is_64bit: bool,
    /// Prefetchable.
    pub prefetchable: bool,
}

const GK210: [KnownBar; 3] = [
    KnownBar { index: 0, size: 16 * MIB, is_64bit: false, prefetchable: false },
    KnownBar { index: 1, size: 16 * GIB, is_64bit: true, prefetchable: true },
    KnownBar { index: 3, size: 32 * MIB, is_64bit: true, prefetchable: true },
];

/// The memory BARs of `id`; empty where it is not known.
pub const fn known_bars(id: PciId) -> &'static [KnownBar] {
    match id {
        PciId::GK210 => &GK210,
        _ => &[],
    }
}
