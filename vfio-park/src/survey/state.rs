//! The state of a die as the hardware and the kernel tell it.

use serde::{Deserialize, Serialize};

use super::{Die, DriverName, Survey};
use crate::{Slot, SlotId};

/// What the machine itself says of a die. `quarantined` and `wedged` are the daemon's knowledge
/// and come on top.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum DieState {
    /// On its parker; `slot` where its path is open all the same.
    Parked {
        /// The parker.
        parker: DriverName,
        /// The slot its path is open to.
        slot: Option<SlotId>,
    },
    /// Bound to nvidia, in or out of the slot.
    Resident {
        /// The slot it is in.
        slot: Option<SlotId>,
    },
    /// No driver has it.
    Unbound {
        /// The slot its path is open to.
        slot: Option<SlotId>,
    },
    /// A driver that is neither a parker nor nvidia has it.
    Foreign {
        /// That driver.
        driver: DriverName,
    },
    /// Config space answers all-ones.
    Absent,
}

impl DieState {
    /// Reads the state of `die` off a survey.
    pub fn read(survey: &Survey, die: &Die, slots: &[Slot]) -> Self {
        let Some(function) = survey.function_of(die) else { return Self::Absent };
        if function.command.is_none() {
            return Self::Absent;
        }
        let bar1 = function.bar(1).and_then(|bar| bar.assigned);
        let position = slots
            .iter()
            .position(|slot| bar1 == Some(slot.range()) && survey.path_open(die, slot.range()));
        let slot = position.and_then(|index| u8::try_from(index).ok()).map(SlotId);
        match &function.driver {
            None => Self::Unbound { slot },
            Some(driver) if *driver == DriverName::nvidia() => Self::Resident { slot },
            Some(driver) if is_parker(driver) => Self::Parked { parker: driver.clone(), slot },
            Some(driver) => Self::Foreign { driver: driver.clone() },
        }
    }

    /// The slot it is in.
    pub fn slot(&self) -> Option<SlotId> {
        match self {
            Self::Parked { slot, .. } | Self::Resident { slot } | Self::Unbound { slot } => *slot,
            Self::Foreign { .. } | Self::Absent => None,
        }
    }
}

/// Drivers that a die can wait on.
pub fn is_parker(driver: &DriverName) -> bool {
    matches!(driver.as_str(), "vfio-pci" | "pci-stub")
}
