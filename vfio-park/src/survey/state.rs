//! The state of a die as the hardware and the kernel tell it.

use serde::{Deserialize, Serialize};

use super::{ConfigSpace, Die, DriverName, Function, Survey};
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
        if function.config == ConfigSpace::AllOnes {
            return Self::Absent;
        }
        let position = slots.iter().position(|slot| answers_in(survey, die, function, *slot));
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

/// Whether BAR1 stands at the slot, in the kernel's books and in the register where that could be
/// read, the die decodes it, and every bridge above forwards it.
fn answers_in(survey: &Survey, die: &Die, function: &Function, slot: Slot) -> bool {
    let range = slot.range();
    let stands = function.bar(1).is_some_and(|bar| {
        bar.assigned == Some(range) && bar.register.is_none_or(|at| at == range.base())
    });
    stands && function.decodes_memory() && survey.path_open(die, range)
}

/// Drivers that a die can wait on.
pub fn is_parker(driver: &DriverName) -> bool {
    matches!(driver.as_str(), "vfio-pci" | "pci-stub")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Window,
        survey::testing::{board, range},
    };

    /// One card of one die whose BAR1 stands at the slot and whose path is open.
    fn in_slot() -> Survey {
        let mut survey = board(1, 1);
        let slot = Slot::BTC_S37.range();
        let die = survey.dies[0].clone();
        for bdf in &die.path {
            let bridge = &mut survey.functions.get_mut(bdf).expect("a function").bridge;
            bridge.as_mut().expect("a bridge").prefetchable = Window::Open(slot);
        }
        let function = survey.functions.get_mut(&die.bdf).expect("the die");
        let bar = function.bars.iter_mut().find(|bar| bar.index == 1).expect("BAR1");
        (bar.assigned, bar.register) = (Some(slot), Some(slot.base()));
        survey
    }

    fn edit(survey: &mut Survey, change: impl FnOnce(&mut crate::Function)) -> DieState {
        let die = survey.dies[0].clone();
        change(survey.functions.get_mut(&die.bdf).expect("the die"));
        DieState::read(survey, &die, &[Slot::BTC_S37])
    }

    #[test]
    fn the_driver_says_what_it_is() {
        let mut survey = in_slot();
        let slot = Some(SlotId(0));
        assert_eq!(
            edit(&mut survey, |_| ()),
            DieState::Parked { parker: DriverName::vfio_pci(), slot }
        );
        let nvidia = edit(&mut survey, |f| f.driver = Some(DriverName::nvidia()));
        assert_eq!(nvidia, DieState::Resident { slot });
        assert_eq!(edit(&mut survey, |f| f.driver = None), DieState::Unbound { slot });
        let nouveau = DriverName::new("nouveau").expect("a name");
        let foreign = edit(&mut survey, |f| f.driver = Some(nouveau.clone()));
        assert_eq!(foreign, DieState::Foreign { driver: nouveau });
        assert_eq!(edit(&mut survey, |f| f.config = ConfigSpace::AllOnes), DieState::Absent);
    }

    #[test]
    fn it_is_in_the_slot_only_where_everything_agrees() {
        let spoil: [fn(&mut Survey); 5] = [
            |s| {
                edit(s, |f| f.command = Some(0));
            },
            |s| {
                edit(s, |f| f.bars.retain(|bar| bar.index != 1));
            },
            |s| {
                edit(s, |f| f.bars.iter_mut().for_each(|bar| bar.register = Some(0)));
            },
            |s| {
                edit(s, |f| {
                    f.bars
                        .iter_mut()
                        .for_each(|bar| bar.assigned = Some(range(0x8_0000_0000, 16 << 30)));
                });
            },
            |s| {
                let port = s.dies[0].path[1];
                let bridge = &mut s.functions.get_mut(&port).expect("a port").bridge;
                bridge.as_mut().expect("a bridge").prefetchable =
                    Window::from_base_limit(0xff_0000_0000, 0xf_ffff_ffff);
            },
        ];
        assert_eq!(edit(&mut in_slot(), |_| ()).slot(), Some(SlotId(0)));
        for (n, spoil) in spoil.iter().enumerate() {
            let mut survey = in_slot();
            spoil(&mut survey);
            assert_eq!(edit(&mut survey, |_| ()).slot(), None, "case {n}");
        }
        let mut unread = in_slot();
        edit(&mut unread, |f| f.bars.iter_mut().for_each(|bar| bar.register = None));
        assert_eq!(edit(&mut unread, |_| ()).slot(), Some(SlotId(0)));
    }
}
