//! Which die takes its turns in which slot.
//!
//! Slots are dealt out to cards in runs of neighbours, as even as possible, and each card deals its
//! run out to its dies. Where there are more cards than slots, cards share. A card gets more than
//! one slot only where one window over them covers nothing else.

use std::collections::BTreeMap;

use super::{Obstacle, SlotPlan, space::Space};
use crate::{AddressRange, Bdf, Card, CardId, Slot, SlotId, Survey};

/// Who lives where.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// Home of each die.
    pub(super) of: BTreeMap<Bdf, (SlotId, Slot)>,
    /// Why dies of a card share a slot that need not for the number of slots.
    pub(super) together: BTreeMap<CardId, Obstacle>,
}

pub(super) fn assign(survey: &Survey, space: &Space, slots: &[SlotPlan]) -> Homes {
    let mut usable: Vec<(SlotId, Slot)> =
        slots.iter().filter(|s| s.obstacles.is_empty()).map(|s| (s.id, s.slot)).collect();
    usable.sort_unstable_by_key(|(_, slot)| slot.range().base());
    let mut homes = Homes::default();
    let groups = usable.len().min(survey.cards.len());
    if groups == 0 {
        return homes;
    }
    let runs = deal(&usable, groups);
    for (index, card) in survey.cards.iter().enumerate() {
        let run = runs[index % groups];
        let run = &run[..run.len().min(card.dies.len()).max(1)];
        let others = slots.iter().filter(|slot| !run.iter().any(|(id, _)| *id == slot.id));
        let run = match between(space, run, others) {
            None => run,
            Some(obstacle) => {
                homes.together.insert(card.id, obstacle);
                &run[..1]
            }
        };
        settle(survey, card, run, &mut homes.of);
    }
    homes
}

/// Cuts `usable` into `groups` runs whose lengths differ by one at the most.
fn deal(usable: &[(SlotId, Slot)], groups: usize) -> Vec<&[(SlotId, Slot)]> {
    let (each, more) = (usable.len() / groups, usable.len() % groups);
    let mut rest = usable;
    let mut runs = Vec::with_capacity(groups);
    for group in 0..groups {
        let (run, after) = rest.split_at(each + usize::from(group < more));
        runs.push(run);
        rest = after;
    }
    runs
}

/// What one window over all of `run` would cover that is not the card's.
fn between<'a>(
    space: &Space,
    run: &[(SlotId, Slot)],
    mut others: impl Iterator<Item = &'a SlotPlan>,
) -> Option<Obstacle> {
    let window = span(run.iter().map(|(_, slot)| slot.range()))?;
    let foreign = || {
        let hit = others.find(|other| other.slot.range().overlaps(window));
        hit.map(|other| Obstacle::OverlapsSlot { slot: other.id })
    };
    let covers = space.obstacles(window).into_iter().next().or_else(foreign)?;
    Some(Obstacle::Between { window, covers: Box::new(covers) })
}

fn settle(
    survey: &Survey,
    card: &Card,
    run: &[(SlotId, Slot)],
    homes: &mut BTreeMap<Bdf, (SlotId, Slot)>,
) {
    for (index, id) in card.dies.iter().enumerate() {
        if let Some(die) = survey.dies.iter().find(|die| die.id == *id) {
            homes.insert(die.bdf, run[index % run.len()]);
        }
    }
}

/// The smallest range around all of `ranges`.
pub(super) fn span(ranges: impl IntoIterator<Item = AddressRange>) -> Option<AddressRange> {
    ranges.into_iter().reduce(AddressRange::span)
}
