//! Where the small BARs go: the 32-bit side of each card.
//!
//! Firmware gives each downstream port a window of just its die's BAR0, so that BAR3 is left out.
//! Each card gets one new block in which every die has its small BARs side by side; a die starts
//! with its larger BAR where that is aligned, else with its smaller one, so that a card of two GK210
//! takes 96 MiB without a gap.

use std::collections::BTreeMap;

use super::{Obstacle, space::Space, space::without};
use crate::{AddressRange, Bdf, Card, CardId, Die, MIB, Survey};

/// Bridges forward whole MiB below 4 GiB.
const GRAIN: u64 = MIB;

/// The 32-bit side of every card.
#[derive(Debug, Default)]
pub(super) struct Low {
    /// Where each card's block is, or why it has none.
    pub(super) blocks: BTreeMap<CardId, Result<Block, Obstacle>>,
}

/// The 32-bit side of one card.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) range: AddressRange,
    /// Part of each die, and its BARs in there.
    pub(super) dies: BTreeMap<Bdf, Part>,
    /// Everything can stay where it is.
    pub(super) stays: bool,
}

/// The part of one die.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) window: AddressRange,
    pub(super) bars: Vec<(u8, AddressRange)>,
}

pub(super) fn lay_out(survey: &Survey, space: &Space) -> Low {
    let mut holes = space.low_holes();
    let mut low = Low::default();
    for card in &survey.cards {
        if let Some(block) = stays(survey, card) {
            take(&mut holes, block.range);
            low.blocks.insert(card.id, Ok(block));
        }
    }
    for card in &survey.cards {
        low.blocks.entry(card.id).or_insert_with(|| fresh(survey, card, &mut holes));
    }
    low
}

fn dies<'a>(survey: &'a Survey, card: &'a Card) -> impl Iterator<Item = &'a Die> {
    survey.dies.iter().filter(|die| card.dies.contains(&die.id))
}

/// The small BARs that a die has: all but BAR1.
fn small(survey: &Survey, die: &Die) -> Result<Vec<(u8, u64)>, Obstacle> {
    let bars = survey.function_of(die).map(|function| &function.bars[..]).unwrap_or_default();
    let small = bars.iter().filter(|bar| bar.index != 1);
    small
        .map(|bar| {
            let size = bar.size.or(bar.assigned.map(AddressRange::size));
            size.map(|size| (bar.index, size)).ok_or(Obstacle::UnknownBar { index: bar.index })
        })
        .collect()
}

/// The card's block as it is, where every small BAR is forwarded by every bridge above it.
fn stays(survey: &Survey, card: &Card) -> Option<Block> {
    let mut parts = BTreeMap::new();
    for die in dies(survey, card) {
        let function = survey.function_of(die)?;
        let small = function.bars.iter().filter(|bar| bar.index != 1);
        let bars: Vec<_> =
            small.map(|bar| Some((bar.index, bar.assigned?))).collect::<Option<_>>()?;
        let inner = die.path.last()?;
        let window = survey.functions.get(inner)?.bridge?.memory.open_range()?;
        let forwarded = |bridge: &Bdf| {
            let window = survey.functions.get(bridge).and_then(|f| f.bridge?.memory.open_range());
            window.is_some_and(|window| bars.iter().all(|(_, bar)| window.contains(*bar)))
        };
        if !die.path.iter().all(forwarded) {
            return None;
        }
        parts.insert(die.bdf, Part { window, bars });
    }
    let range = survey.functions.get(&card.root_port)?.bridge?.memory.open_range()?;
    Some(Block { range, dies: parts, stays: true })
}

fn fresh(survey: &Survey, card: &Card, holes: &mut Vec<AddressRange>) -> Result<Block, Obstacle> {
    // Laid out from 0 first: every die's part, then the whole block is moved into a hole.
    let (mut parts, mut at, mut align) = (Vec::new(), 0_u64, GRAIN);
    for die in dies(survey, card) {
        let mut bars = small(survey, die)?;
        bars.sort_unstable_by_key(|(_, size)| std::cmp::Reverse(*size));
        align = bars.iter().map(|(_, size)| *size).fold(align, u64::max);
        if bars.first().is_some_and(|(_, size)| !at.is_multiple_of(*size)) {
            bars.reverse();
        }
        let start = at;
        let mut placed = Vec::new();
        for (index, size) in bars {
            at = at.next_multiple_of(size);
            placed.push((index, at, size));
            at += size;
        }
        at = at.next_multiple_of(GRAIN).max(start + GRAIN);
        parts.push((die.bdf, start, at - start, placed));
    }
    let size = at.max(GRAIN);
    let largest = || holes.iter().map(|hole| hole.size()).max().unwrap_or(0);
    let range = holes.iter().find_map(|hole| {
        let base = hole.base().checked_next_multiple_of(align)?;
        AddressRange::new(base, size).filter(|range| hole.contains(*range))
    });
    let range = range.ok_or_else(|| Obstacle::NoLowRoom { needed: size, largest: largest() })?;
    take(holes, range);
    let place = |start: u64, size: u64| AddressRange::new(range.base() + start, size);
    let mut dies = BTreeMap::new();
    for (bdf, start, size, placed) in parts {
        let bar = |(index, start, size)| Some((index, place(start, size)?));
        let bars = placed.into_iter().filter_map(bar).collect();
        if let Some(window) = place(start, size) {
            dies.insert(bdf, Part { window, bars });
        }
    }
    Ok(Block { range, dies, stays: false })
}

fn take(holes: &mut Vec<AddressRange>, taken: AddressRange) {
    *holes = holes.iter().flat_map(|hole| without(*hole, taken)).flatten().collect();
}
