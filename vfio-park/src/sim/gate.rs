//! Which registers move when a slot changes hands: a pure function.
//!
//! Only the upper halves of prefetchable windows move. A window is shut by a base above its limit,
//! both halves non-zero, and opened by the slot's own upper base: one dword each. A card's inner
//! gates stay on their last die, where the shut root port makes them harmless.

use std::collections::BTreeSet;

use crate::{AddressRange, Bdf, Slot};

/// The upper halves of a bridge's prefetchable window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Upper {
    /// Register 0x28.
    pub(super) base: u32,
    /// Register 0x2c.
    pub(super) limit: u32,
}

impl Upper {
    /// A window that forwards `range`.
    pub(super) fn of(range: AddressRange) -> Self {
        let upper = |address: u64| u32::try_from(address >> 32).expect("32 bits are left");
        Self { base: upper(range.base()), limit: upper(range.last()) }
    }

    /// The base that shuts a window with this limit.
    pub(super) fn shut_base(limit: u32) -> u32 {
        if limit < 0xff { 0xff } else { u32::MAX }
    }

    fn open(self) -> bool {
        self.base <= self.limit
    }

    fn within(self, other: Self) -> bool {
        other.open() && other.base <= self.base && self.limit <= other.limit
    }

    fn meets(self, other: Self) -> bool {
        self.open() && other.open() && self.base <= other.limit && other.base <= self.limit
    }
}

/// A die of a card, as its gate sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Door {
    /// The die.
    pub(super) die: Bdf,
    /// The port directly above it.
    pub(super) port: Bdf,
    /// The slot its BAR1 holds.
    pub(super) slot: Slot,
    /// Whether its memory decode moves with the gate.
    pub(super) decode: bool,
}

/// A card in its place: the upstream port is open to all its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CardDoors {
    /// The root port.
    pub(super) root: Bdf,
    /// Its dies.
    pub(super) doors: Vec<Door>,
}

/// Half of a bridge's upper window, or a die's memory decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Write register 0x28.
    Base(Bdf, u32),
    /// Write register 0x2c.
    Limit(Bdf, u32),
    /// Turn memory decode of a die on or off.
    Decode(Bdf, Decode),
}

/// Memory decode of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decode {
    /// On.
    On,
    /// Off.
    Off,
}

/// What is to be written: first everything that shuts, then everything that opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// Narrows or shuts. To be read back before the first of `opens`.
    pub(super) shuts: Vec<Move>,
    /// Widens or opens, inner gates before outer ones.
    pub(super) opens: Vec<Move>,
}

impl CardDoors {
    /// The window that the root port has with exactly `open` in their slots.
    pub(super) fn root_window(&self, open: &BTreeSet<Bdf>) -> Option<AddressRange> {
        let ranges = self.doors.iter().filter(|d| open.contains(&d.die)).map(|d| d.slot.range());
        ranges.reduce(AddressRange::span)
    }

    /// From the registers as `live` reads them to exactly `open` in their slots.
    pub(super) fn retarget(&self, live: impl Fn(Bdf) -> Upper, open: &BTreeSet<Bdf>) -> Moves {
        let mut moves = Moves::default();
        let target = self.root_window(open).map(Upper::of);
        let (root_shuts, root_opens) = root_moves(self.root, live(self.root), target);
        let root_now = live(self.root);
        for door in &self.doors {
            let decode = |decode| door.decode.then_some(Move::Decode(door.die, decode));
            let (port, slot) = (live(door.port), Upper::of(door.slot.range()));
            let was_open = slot.within(port) && slot.within(root_now);
            if open.contains(&door.die) {
                if !was_open {
                    moves.opens.extend(decode(Decode::On));
                }
                if !slot.within(port) {
                    moves.opens.push(Move::Base(door.port, slot.base));
                }
                continue;
            }
            if was_open {
                moves.shuts.extend(decode(Decode::Off));
            }
            // A gate that is left open must not come to lie under the root port's window.
            if target.is_some_and(|root| root.meets(port)) {
                moves.shuts.push(Move::Base(door.port, Upper::shut_base(port.limit)));
            }
        }
        moves.shuts.splice(0..0, root_shuts);
        moves.opens.extend(root_opens);
        moves
    }
}

/// Moves of the root port that shut, and those that open.
fn root_moves(root: Bdf, now: Upper, target: Option<Upper>) -> (Vec<Move>, Vec<Move>) {
    let shut = |limit| Move::Base(root, Upper::shut_base(limit));
    let (mut shuts, mut opens) = (Vec::new(), Vec::new());
    match target {
        None if now.open() => shuts.push(shut(now.limit)),
        None => {}
        Some(target) if now.meets(target) => {
            let base = Move::Base(root, target.base);
            let limit = Move::Limit(root, target.limit);
            match now.base.cmp(&target.base) {
                std::cmp::Ordering::Less => shuts.push(base),
                std::cmp::Ordering::Greater => opens.push(base),
                std::cmp::Ordering::Equal => {}
            }
            match now.limit.cmp(&target.limit) {
                std::cmp::Ordering::Greater => shuts.push(limit),
                std::cmp::Ordering::Less => opens.push(limit),
                std::cmp::Ordering::Equal => {}
            }
        }
        Some(target) => {
            if now.open() {
                shuts.push(shut(now.limit.max(target.limit)));
            }
            if now.limit != target.limit {
                // Shut by a base that is above both limits, or else shut again.
                if !now.open() && now.base <= target.limit {
                    shuts.push(shut(target.limit));
                }
                shuts.push(Move::Limit(root, target.limit));
            }
            opens.push(Move::Base(root, target.base));
        }
    }
    (shuts, opens)
}
