//! Which slots can be used, and which other places could be slots.

use super::{Obstacle, SlotPlan, space::Space};
use crate::{AddressRange, GIB, Slot, SlotId, Survey};

/// Judges the slots asked for.
pub(super) fn judge(survey: &Survey, space: &Space, slots: &[Slot]) -> Vec<SlotPlan> {
    let numbered = || slots.iter().zip(0_u8..).map(|(slot, id)| (SlotId(id), *slot));
    numbered()
        .map(|(id, slot)| {
            let mut obstacles = space.obstacles(slot.range());
            let earlier = numbered().take_while(|(other, _)| *other < id);
            obstacles.extend(
                earlier
                    .filter(|(_, other)| other.range().overlaps(slot.range()))
                    .map(|(slot, _)| Obstacle::OverlapsSlot { slot }),
            );
            SlotPlan { id, slot, obstacles, occupants: occupants(survey, slot.range()) }
        })
        .collect()
}

/// Dies whose BAR1 the kernel has there, and that are reached without the gate.
fn occupants(survey: &Survey, range: AddressRange) -> Vec<crate::Bdf> {
    let there = |die: &&crate::Die| {
        let bar = survey.function_of(die).and_then(|function| function.bar(1)?.assigned);
        bar.is_some_and(|bar| bar.overlaps(range)) && survey.path_open(die, range)
    };
    survey.dies.iter().filter(there).map(|die| die.bdf).collect()
}

/// Every aligned place that could be a slot for the largest BAR1.
pub(super) fn candidates(survey: &Survey, space: &Space, slots: &[Slot]) -> Vec<Slot> {
    let size_of = |die: &crate::Die| survey.function_of(die)?.bar(1)?.size;
    let largest = survey.dies.iter().filter_map(size_of).max();
    let size = largest.or(slots.first().map(|slot| slot.range().size())).unwrap_or(16 * GIB);
    space
        .aligned_places(size)
        .into_iter()
        .filter(|place| space.obstacles(*place).is_empty())
        .filter_map(|place| Slot::new(place.base(), size).ok())
        .collect()
}
