//! What is in the way, as data and in words.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{AddressRange, Bdf, SlotId};

/// Why something can't be had. `Display` says it to an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum Obstacle {
    /// The processor has too few address lines.
    AddressBits {
        /// How many it has.
        bits: u8,
        /// How many it would take.
        needed: u8,
    },
    /// Memory is there.
    Ram {
        /// Where.
        range: AddressRange,
    },
    /// Something else is there.
    Claimed {
        /// Who, as the kernel calls it.
        owner: String,
        /// Where.
        range: AddressRange,
    },
    /// A BAR of a device that is no die is there.
    NeighbourBar {
        /// Whose.
        device: Bdf,
        /// Which.
        index: u8,
        /// Where.
        range: AddressRange,
    },
    /// A bridge that leads to no die forwards it.
    NeighbourWindow {
        /// Which bridge.
        bridge: Bdf,
        /// What it forwards.
        range: AddressRange,
    },
    /// No host bridge leads there.
    OutsideHostWindows,
    /// The kernel hides physical addresses from us.
    AddressesHidden,
    /// It overlaps another slot.
    OverlapsSlot {
        /// Which.
        slot: SlotId,
    },
    /// No slot can be used.
    NoSlot,
    /// BAR1 is larger than its slot.
    SlotTooSmall {
        /// BAR1's size in bytes.
        needed: u64,
    },
    /// The size of a BAR is not known.
    UnknownBar {
        /// Which.
        index: u8,
    },
    /// The die answers all-ones.
    Absent,
    /// There is no bridge above.
    NoBridge,
    /// The prefetchable window of a bridge above has 32 bits only.
    NarrowBridge {
        /// Which bridge.
        bridge: Bdf,
    },
    /// A bridge above leads to another device, too.
    SharedBridge {
        /// Which device.
        device: Bdf,
    },
    /// There is no room for BAR0 and BAR3 below 4 GiB.
    NoLowRoom {
        /// What the card takes, in bytes.
        needed: u64,
        /// The largest hole, in bytes.
        largest: u64,
    },
    /// A window over the card's slots would also cover something in between.
    Between {
        /// The window.
        window: AddressRange,
        /// What it would cover.
        covers: Box<Obstacle>,
    },
}

const MIB: u64 = crate::MIB;

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressBits { bits, needed } => {
                write!(f, "the processor has {bits} physical address bits, it takes {needed}")
            }
            Self::Ram { range } => write!(f, "RAM is at {range}"),
            Self::Claimed { owner, range } => write!(f, "`{owner}` is at {range}"),
            Self::NeighbourBar { device, index, range } => {
                write!(f, "BAR{index} of {device} is at {range}")
            }
            Self::NeighbourWindow { bridge, range } => {
                write!(f, "the bridge {bridge}, which leads to no die, forwards {range}")
            }
            Self::OutsideHostWindows => f.write_str("no host bridge leads there"),
            Self::AddressesHidden => {
                f.write_str("the kernel hides physical addresses: run slotd as root")
            }
            Self::OverlapsSlot { slot } => write!(f, "it overlaps {slot}"),
            Self::NoSlot => f.write_str("no slot can be used"),
            Self::SlotTooSmall { needed } => {
                write!(f, "its BAR1 of {} MiB is larger than the slot", needed / MIB)
            }
            Self::UnknownBar { index } => write!(f, "the size of its BAR{index} is not known"),
            Self::Absent => f.write_str("it answers all-ones: off the bus or without power"),
            Self::NoBridge => f.write_str("no bridge is above it that could be shut"),
            Self::NarrowBridge { bridge } => {
                write!(f, "the prefetchable window of {bridge} has 32 bits only")
            }
            Self::SharedBridge { device } => {
                write!(f, "{device}, which is no die, is behind the same root port")
            }
            Self::NoLowRoom { needed, largest } => write!(
                f,
                "32-bit space is too small: the card takes {} MiB, the largest hole has {} MiB",
                needed / MIB,
                largest / MIB
            ),
            Self::Between { window, covers } => {
                write!(f, "one window over its slots, {window}, would cover more: {covers}")
            }
        }
    }
}
