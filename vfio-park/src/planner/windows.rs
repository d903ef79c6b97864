//! Puts slots, homes and 32-bit blocks together: what each bridge forwards, how each die lives.

use super::{
    BarPlan, CardPlan, DiePlan, Obstacle, Residence, SlotPlan, WindowPlan,
    homes::{Homes, span},
    low::{Block, Low},
};
use crate::{AddressRange, Bdf, Card, Die, Survey};

pub(super) fn cards(
    survey: &Survey,
    slots: &[SlotPlan],
    homes: &Homes,
    low: &Low,
) -> Vec<CardPlan> {
    let plan = |card: &Card| {
        let block = low.blocks.get(&card.id).and_then(|block| block.as_ref().ok());
        let obstacles = card_obstacles(survey, card, slots);
        let blocked = !obstacles.is_empty();
        CardPlan {
            card: card.id,
            root_port: card.root_port,
            dies: card.dies.clone(),
            obstacles,
            together: homes.together.get(&card.id).cloned(),
            windows: if blocked { Vec::new() } else { windows(survey, card, homes, block) },
            stays: block.is_some_and(|block| block.stays),
        }
    };
    survey.cards.iter().map(plan).collect()
}

fn members<'a>(survey: &'a Survey, card: &'a Card) -> impl Iterator<Item = &'a Die> {
    survey.dies.iter().filter(|die| card.dies.contains(&die.id))
}

/// What keeps a whole card from being placed.
fn card_obstacles(survey: &Survey, card: &Card, slots: &[SlotPlan]) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    if slots.iter().all(|slot| !slot.obstacles.is_empty()) {
        obstacles.push(Obstacle::NoSlot);
    }
    let Some(bridge) = survey.functions.get(&card.root_port).and_then(|root| root.bridge) else {
        obstacles.push(Obstacle::NoBridge);
        return obstacles;
    };
    let domain = card.root_port.domain();
    let below = survey.functions.values().filter(|function| {
        function.bdf.domain() == domain
            && (bridge.secondary..=bridge.subordinate).contains(&function.bdf.bus())
    });
    for function in below {
        let bdf = function.bdf;
        let ours = survey.dies.iter().any(|die| die.bdf == bdf || die.path.contains(&bdf));
        // A bridge that leads to nobody, such as an unused port of the switch, is in nobody's way.
        if !ours && function.bridge.is_none() {
            obstacles.push(Obstacle::SharedBridge { device: bdf });
        }
    }
    let mut path: Vec<Bdf> = members(survey, card).flat_map(|die| die.path.clone()).collect();
    path.sort_unstable();
    path.dedup();
    for bridge in path {
        let wide = survey.functions.get(&bridge).and_then(|f| f.bridge).is_some_and(|b| b.wide);
        if !wide {
            obstacles.push(Obstacle::NarrowBridge { bridge });
        }
    }
    obstacles
}

fn windows(survey: &Survey, card: &Card, homes: &Homes, block: Option<&Block>) -> Vec<WindowPlan> {
    let mut bridges: Vec<Bdf> = Vec::new();
    for die in members(survey, card) {
        for bridge in &die.path {
            if !bridges.contains(bridge) {
                bridges.push(*bridge);
            }
        }
    }
    let plan = |bridge: Bdf| {
        let below = || members(survey, card).filter(|die| die.path.contains(&bridge));
        let home = |die: &Die| homes.of.get(&die.bdf).map(|(_, slot)| slot.range());
        let part = |die: &Die| Some(block?.dies.get(&die.bdf)?.window);
        let fresh = span(below().filter_map(part));
        let now = survey.functions.get(&bridge).and_then(|f| f.bridge?.memory.open_range());
        let stays = block.is_some_and(|block| block.stays);
        let memory = if stays { now } else { fresh };
        Some(WindowPlan { bridge, prefetchable: span(below().filter_map(home))?, memory })
    };
    bridges.into_iter().filter_map(plan).collect()
}

pub(super) fn dies(survey: &Survey, slots: &[SlotPlan], homes: &Homes, low: &Low) -> Vec<DiePlan> {
    let plan = |die: &Die| {
        let home = homes.of.get(&die.bdf).copied();
        let card = survey.cards.iter().find(|card| card.id == die.card);
        let obstacle = card
            .and_then(|card| card_obstacles(survey, card, slots).into_iter().next())
            .or_else(|| die_obstacle(survey, die, home.map(|(_, slot)| slot.range())));
        let part = low.blocks.get(&die.card);
        let residence = match (obstacle, part) {
            (Some(why), _) => Residence::Refused { why },
            (None, Some(Err(why @ Obstacle::UnknownBar { .. }))) => {
                Residence::Refused { why: why.clone() }
            }
            (None, Some(Err(why))) => Residence::Exclusive { why: why.clone() },
            (None, _) => Residence::Resident,
        };
        let refused = matches!(residence, Residence::Refused { .. });
        let home = home.filter(|_| !refused);
        let small = part.and_then(|block| block.as_ref().ok()?.dies.get(&die.bdf));
        let small = small.filter(|_| !refused).map(|part| &part.bars[..]).unwrap_or_default();
        let large = home.and_then(|(_, slot)| bar1(survey, die, slot.range()));
        let mut bars: Vec<BarPlan> =
            small.iter().map(|(index, range)| BarPlan { index: *index, range: *range }).collect();
        bars.extend(large.map(|range| BarPlan { index: 1, range }));
        bars.sort_unstable_by_key(|bar| bar.index);
        DiePlan { die: die.id, bdf: die.bdf, home: home.map(|(id, _)| id), residence, bars }
    };
    survey.dies.iter().map(plan).collect()
}

/// BAR1 stands at the start of its slot.
fn bar1(survey: &Survey, die: &Die, slot: AddressRange) -> Option<AddressRange> {
    let size = survey.function_of(die)?.bar(1)?.size?;
    AddressRange::new(slot.base(), size)
}

fn die_obstacle(survey: &Survey, die: &Die, home: Option<AddressRange>) -> Option<Obstacle> {
    let Some(function) = survey.function_of(die) else { return Some(Obstacle::Absent) };
    if function.command.is_none() {
        return Some(Obstacle::Absent);
    }
    let Some(size) = function.bar(1).and_then(|bar| bar.size) else {
        return Some(Obstacle::UnknownBar { index: 1 });
    };
    match home {
        None => Some(Obstacle::NoSlot),
        Some(home) if size > home.size() => Some(Obstacle::SlotTooSmall { needed: size }),
        Some(_) => None,
    }
}
