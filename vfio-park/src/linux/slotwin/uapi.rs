//! Mirror of `kmod-minimal/slotwin.h`, field by field. A test compiles the header and compares.

use rustix::ioctl::{Opcode, opcode};

pub(super) const API: u32 = 1;
pub(super) const MAX_SLOTS: usize = 8;
pub(super) const NO_SLOT: u32 = u32::MAX;
pub(super) const NO_DIE: u32 = u32::MAX;

pub(super) const GATE_WINDOW: u32 = 0;
pub(super) const GATE_DECODE: u32 = 1;

pub(super) const DIE_PLACED: u32 = 1 << 0;
pub(super) const DIE_OPEN: u32 = 1 << 1;
pub(super) const DIE_PARKED: u32 = 1 << 2;
pub(super) const DIE_RESIDENT: u32 = 1 << 3;
pub(super) const DIE_ABSENT: u32 = 1 << 4;
pub(super) const DIE_ASLEEP: u32 = 1 << 5;

const TYPE: u8 = 0xb5;

/// A structure that a request takes: it starts with its own size, and holds integers only.
pub(super) trait Request: Default {
    /// The request's number.
    const OPCODE: Opcode;

    /// The leading size, to be set before the structure is sent.
    fn size(&mut self) -> &mut u32;
}

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident = $number:literal { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default)]
            pub(super) struct $name { pub(super) size: u32, $(pub(super) $field: $type),* }

            impl Request for $name {
                const OPCODE: Opcode = opcode::none(TYPE, $number);

                fn size(&mut self) -> &mut u32 {
                    &mut self.size
                }
            }
        )*

        /// Name, size, number and fields of every request, as the compiler of Rust sees them.
        #[cfg(test)]
        pub(super) fn layouts() -> Vec<Layout> {
            vec![$(Layout {
                name: stringify!($name).to_lowercase(),
                size: size_of::<$name>(),
                opcode: $name::OPCODE,
                fields: vec![
                    ("size", std::mem::offset_of!($name, size)),
                    $((stringify!($field), std::mem::offset_of!($name, $field))),*
                ],
            }),*]
        }
    };
}

requests! {
    /// What the module is and which slots it owns.
    Info = 0x00 {
        flags: u32, api: u32, nr_slots: u32, nr_dies: u32, reserved: u32, slots: [InfoSlot; MAX_SLOTS],
    }
    /// One die, by its index.
    Survey = 0x01 {
        index: u32, bdf: u32, state: u32, slot: u32, gate: u32, bar0: u64, bar1: u64, bar3: u64,
    }
    /// Gives the card of a die its place.
    Place = 0x02 { flags: u32, die: u32, slot: u32, gate: u32, config_writes: u32 }
    /// Makes a die the one that answers in its slot.
    Open = 0x03 {
        flags: u32, die: u32, slot: u32, config_writes: u32, reserved: u32, base: u64, bytes: u64,
    }
    /// Afterwards no die answers in the slot.
    Shut = 0x04 { flags: u32, slot: u32, config_writes: u32 }
    /// Reads one register.
    Peek = 0x05 { flags: u32, die: u32, offset: u32, value: u32, reserved: u32 }
    /// A descriptor whose mapping is the die's BAR1.
    Map = 0x06 { flags: u32, die: u32, fd: i32 }
}

/// A slot in [`Info`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InfoSlot {
    pub(super) base: u64,
    pub(super) bytes: u64,
    pub(super) open: u32,
    pub(super) reserved: u32,
}

/// How a structure lies in memory.
#[cfg(test)]
pub(super) struct Layout {
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) opcode: Opcode,
    pub(super) fields: Vec<(&'static str, usize)>,
}

/// Every mapping of a descriptor from [`Map`] ends. Takes no structure.
pub(super) const MAP_REVOKE: Opcode = opcode::none(TYPE, 0x20);
