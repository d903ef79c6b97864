//! From a survey and slots to a plan: a pure function.
//!
//! | module | question |
//! |---|---|
//! | `space` | whose is which address |
//! | `obstacle` | what is in the way, in words |
//! | `slots` | which slots can be used, which other places could be slots |
//! | `homes` | which die takes its turns where |
//! | `low` | where the small BARs go, and whose do not fit |
//! | `windows` | what each bridge has to forward |

mod gate;
mod homes;
mod low;
mod obstacle;
mod slots;
mod space;
mod text;
mod windows;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::{gate::Gate, obstacle::Obstacle};
use crate::{AddressRange, Bdf, CardId, DieId, Slot, SlotId, Survey};

/// What is asked of the planner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The slots, as configured.
    pub slots: Vec<Slot>,
    /// What shall make a die reachable.
    pub gate: Gate,
}

/// What can be done with a machine, and why the rest can't.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What makes a die reachable.
    pub gate: Gate,
    /// The slots asked for.
    pub slots: Vec<SlotPlan>,
    /// Every aligned place that could be a slot, those asked for among them. Whether a place works
    /// only trying tells: boards are known where an access to one that looks good hangs.
    pub candidates: Vec<Slot>,
    /// The cards.
    pub cards: Vec<CardPlan>,
    /// The dies.
    pub dies: Vec<DiePlan>,
}

/// Whether a slot can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotPlan {
    /// Its number.
    pub id: SlotId,
    /// Its place.
    pub slot: Slot,
    /// What is in the way; empty where it can be used.
    pub obstacles: Vec<Obstacle>,
    /// Dies that firmware or kernel put there; they leave it when their card is placed.
    pub occupants: Vec<Bdf>,
}

/// A card's bridges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardPlan {
    /// Its number.
    pub card: CardId,
    /// Its root port.
    pub root_port: Bdf,
    /// Its dies.
    pub dies: Vec<DieId>,
    /// What keeps the card from being placed; empty where nothing does.
    pub obstacles: Vec<Obstacle>,
    /// Why its dies can't have different slots, though there are enough.
    pub together: Option<Obstacle>,
    /// What its bridges have to forward; empty where the card can't be placed.
    pub windows: Vec<WindowPlan>,
    /// Whether BAR0 and BAR3 can stay where they are.
    pub stays: bool,
}

/// What one bridge has to forward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowPlan {
    /// The bridge.
    pub bridge: Bdf,
    /// Its prefetchable window while open.
    pub prefetchable: AddressRange,
    /// Its 32-bit window: the kernel chooses, this is where there is room now. `None` where there
    /// is none.
    pub memory: Option<AddressRange>,
}

/// Where a die goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiePlan {
    /// Its number.
    pub die: DieId,
    /// Its address.
    pub bdf: Bdf,
    /// The slot in which it takes its turns.
    pub home: Option<SlotId>,
    /// How it can live.
    pub residence: Residence,
    /// Where its BARs go.
    pub bars: Vec<BarPlan>,
}

/// How a die can live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Residence {
    /// Stays bound to nvidia while others are in the slot.
    Resident,
    /// Can only be bound while it is in the slot.
    Exclusive {
        /// Why.
        why: Obstacle,
    },
    /// Can't be used.
    Refused {
        /// Why.
        why: Obstacle,
    },
}

/// Where a BAR goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarPlan {
    /// Its number.
    pub index: u8,
    /// Its place.
    pub range: AddressRange,
}

impl Plan {
    /// The plan of a die.
    pub fn die(&self, bdf: Bdf) -> Option<&DiePlan> {
        self.dies.iter().find(|die| die.bdf == bdf)
    }

    /// How many dies can be resident together.
    pub fn resident(&self) -> usize {
        self.dies.iter().filter(|die| die.residence == Residence::Resident).count()
    }

    /// Whether every die has a slot of its own, so that nobody waits for anybody.
    pub fn without_turns(&self) -> bool {
        let mut homes: Vec<_> = self.dies.iter().filter_map(|die| die.home).collect();
        homes.sort_unstable();
        homes.dedup();
        !homes.is_empty() && homes.len() == self.dies.len()
    }
}

/// Plans.
pub fn plan(survey: &Survey, request: &Request) -> Plan {
    let space = space::Space::of(survey);
    let slots = slots::judge(survey, &space, &request.slots);
    let candidates = slots::candidates(survey, &space, &request.slots);
    let homes = homes::assign(survey, &space, &slots);
    let low = low::lay_out(survey, &space);
    let cards = windows::cards(survey, &slots, &homes, &low);
    let dies = windows::dies(survey, &slots, &homes, &low);
    Plan { gate: request.gate, slots, candidates, cards, dies }
}
