//! Which gates move when a slot changes hands: a pure function.
//!
//! The window of every bridge over a placed card is fixed: the slots of the dies below it. It is
//! shut by a base above its limit, both upper halves non-zero, and opened by its own base: one
//! dword each. What lies between root port and inner gates stays open. Between cards only the root
//! port is shut, so that a card's inner gate stays on its last die.

use std::collections::BTreeSet;

use crate::{AddressRange, Bdf};

/// A die of a card, and the port directly above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Door {
    pub(super) die: Bdf,
    pub(super) port: Bdf,
    pub(super) decode: DecodeMoves,
}

/// Whether memory decode of the die moves with the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecodeMoves {
    No,
    Yes,
}

/// A card in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CardDoors {
    pub(super) root: Bdf,
    pub(super) doors: Vec<Door>,
}

/// One write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// The upper half of a bridge's base goes above its limit.
    Shut(Bdf),
    /// It goes back to what it is.
    Open(Bdf),
    /// Memory decode of a die goes on.
    DecodeOn(Bdf),
    /// Memory decode of a die goes off.
    DecodeOff(Bdf),
}

/// What is to be written: first everything that shuts, then everything that opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// To be read back before the first of `opens`.
    pub(super) shuts: Vec<Move>,
    /// Inner gates before outer ones.
    pub(super) opens: Vec<Move>,
}

impl CardDoors {
    /// From the gates as `is_open` reads them off the registers to exactly `open` in their slots.
    pub(super) fn retarget(&self, is_open: impl Fn(Bdf) -> bool, open: &BTreeSet<Bdf>) -> Moves {
        let mut moves = Moves::default();
        let root_opens = self.doors.iter().any(|door| open.contains(&door.die));
        let root_is_open = is_open(self.root);
        if root_is_open && !root_opens {
            moves.shuts.push(Move::Shut(self.root));
        }
        for door in &self.doors {
            let port_is_open = is_open(door.port);
            let answers = port_is_open && root_is_open;
            let wanted = open.contains(&door.die);
            if wanted && !port_is_open {
                moves.opens.push(Move::Open(door.port));
            }
            // A gate that stands on another die would let it answer too.
            if !wanted && port_is_open && root_opens {
                moves.shuts.push(Move::Shut(door.port));
            }
            if door.decode == DecodeMoves::Yes && wanted && !answers {
                moves.opens.push(Move::DecodeOn(door.die));
            }
            if door.decode == DecodeMoves::Yes && !wanted && answers {
                moves.shuts.insert(0, Move::DecodeOff(door.die));
            }
        }
        if root_opens && !root_is_open {
            moves.opens.push(Move::Open(self.root));
        }
        moves
    }
}

/// The upper halves of base and limit of an open window.
pub(super) fn upper_halves(window: AddressRange) -> (u32, u32) {
    let upper = |address: u64| u32::try_from(address >> 32).expect("32 bits are left");
    (upper(window.base()), upper(window.last()))
}

/// The upper half of the base that shuts a window with this upper half of the limit.
pub(super) fn shut_base(limit: u32) -> u32 {
    if limit < 0xff { 0xff } else { u32::MAX }
}
