//! What the module's error numbers mean for the operator, request by request (see slotwin.h).

use rustix::io::Errno;

use crate::{Bdf, MachineError, SlotId};

/// What was asked of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Place,
    Open,
    Peek,
    Map,
}

impl Asked {
    const fn operation(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Open => "open",
            Self::Peek => "peek",
            Self::Map => "map",
        }
    }
}

/// The error of a request about `die`. `absent`: the module says that it is gone.
pub(super) fn of_die(
    asked: Asked,
    die: Bdf,
    slot: Option<SlotId>,
    absent: bool,
    errno: Errno,
) -> MachineError {
    let reason = match (asked, errno) {
        (_, Errno::NODEV) => return MachineError::Absent(die),
        (_, Errno::IO) if absent => return MachineError::Absent(die),
        (_, Errno::IO) => {
            "a bridge above it answers all-ones, or a register did not read back as written; what had \
             been written is undone: see `dmesg`"
        }
        (_, Errno::NXIO) => {
            "slotwin does not know it: park its card, then load slotwin with its id in `ids=`"
        }
        (Asked::Place, Errno::BUSY) => {
            "a die of its card is open, in use, being bound, or with a driver that is no parker, or a \
             bridge that is not ours passes on the slot's range: park every die of the card, and see \
             `dmesg`"
        }
        (Asked::Place, Errno::NOSPC) => {
            "there is no room below 4 GiB for its card's windows: `slotctl plan` says what is in the way"
        }
        (Asked::Place, Errno::XDEV) => {
            "a bridge above also leads to a device that is no die, or would have to cover more than the \
             slots of its dies: move that device to another connector"
        }
        (Asked::Place, Errno::OPNOTSUPP) => {
            "a bridge above it has no 64-bit prefetchable window: move the card to another connector"
        }
        (Asked::Place, Errno::INVAL) => "its BAR1 is larger than the slot: configure a larger one",
        (Asked::Open, Errno::PERM) => {
            "it is not placed in this slot, or its BAR1 has lost it (a reset): place its card again"
        }
        (Asked::Open, Errno::BUSY) => {
            "its root port covers another slot too, which a die of another card is in: release that one"
        }
        (Asked::Peek, Errno::PERM) => "slotwin does not allow that register to be read",
        (Asked::Peek, Errno::AGAIN) => {
            "it is asleep, or does not decode memory out of the slot: adopt it, or open it first"
        }
        (Asked::Peek, Errno::ADDRNOTAVAIL) => "its BAR0 is unassigned: place its card first",
        (Asked::Map, Errno::PERM) => "it is not placed: place its card first",
        _ => return other(asked.operation(), &format!("{die}{}", in_slot(slot)), errno),
    };
    MachineError::Refused { operation: asked.operation(), die, reason: reason.to_owned() }
}

/// Any other error of the device.
pub(super) fn other(operation: &'static str, what: &str, errno: Errno) -> MachineError {
    let path = format!("{what} through the window module");
    MachineError::Io { operation, path, source: errno.into() }
}

fn in_slot(slot: Option<SlotId>) -> String {
    slot.map_or_else(String::new, |slot| format!(" in {slot}"))
}
