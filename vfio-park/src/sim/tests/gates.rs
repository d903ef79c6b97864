//! The gate sequence, step by step.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    super::gate::{CardDoors, DecodeMoves, Door, Move, Moves},
    *,
};

fn bdf(bus: u8, device: u8) -> Bdf {
    Bdf::new(0, bus, device, 0).expect("an address")
}

fn card(dies: u8, decode: DecodeMoves) -> CardDoors {
    let door = |n| Door { die: bdf(3 + n, 0), port: bdf(2, 8 + n), decode };
    CardDoors { root: bdf(0, 1), doors: (0..dies).map(door).collect() }
}

/// Open gates, and dies that decode.
#[derive(Default)]
struct Registers {
    open: BTreeSet<Bdf>,
    decode: BTreeSet<Bdf>,
}

impl Registers {
    fn apply(&mut self, step: Move) {
        match step {
            Move::Open(at) => self.open.insert(at),
            Move::Shut(at) => self.open.remove(&at),
            Move::DecodeOn(die) => self.decode.insert(die),
            Move::DecodeOff(die) => self.decode.remove(&die),
        };
    }

    fn retarget(&mut self, card: &CardDoors, open: &[u8]) -> Moves {
        let open = open.iter().map(|n| bdf(3 + n, 0)).collect();
        let moves = card.retarget(|at| self.open.contains(&at), &open);
        for step in moves.shuts.iter().chain(&moves.opens) {
            self.apply(*step);
        }
        moves
    }

    /// Dies that a path leads to.
    fn reached(&self, card: &CardDoors) -> BTreeSet<Bdf> {
        let reached =
            |door: &&Door| self.open.contains(&card.root) && self.open.contains(&door.port);
        card.doors.iter().filter(reached).map(|door| door.die).collect()
    }
}

#[test]
fn the_sequence_of_a_swap_is_shut_then_open() {
    let (card, mut registers) = (card(2, DecodeMoves::No), Registers::default());
    let (root, first, second) = (bdf(0, 1), bdf(2, 8), bdf(2, 9));
    let moves = registers.retarget(&card, &[0]);
    let opens = vec![Move::Open(first), Move::Open(root)];
    assert_eq!(moves, Moves { shuts: vec![], opens });
    let moves = registers.retarget(&card, &[1]);
    let (shuts, opens) = (vec![Move::Shut(first)], vec![Move::Open(second)]);
    assert_eq!(moves, Moves { shuts, opens });
    let moves = registers.retarget(&card, &[]);
    assert_eq!(moves, Moves { shuts: vec![Move::Shut(root)], opens: vec![] });
    let moves = registers.retarget(&card, &[1]);
    assert_eq!(moves, Moves { shuts: vec![], opens: vec![Move::Open(root)] });
    registers.retarget(&card, &[]);
    let moves = registers.retarget(&card, &[0]);
    let opens = vec![Move::Open(first), Move::Open(root)];
    assert_eq!(moves, Moves { shuts: vec![Move::Shut(second)], opens });
}

#[test]
fn the_decode_gate_moves_decode_too() {
    let (card, mut registers) = (card(2, DecodeMoves::Yes), Registers::default());
    let (root, a, b) = (bdf(0, 1), bdf(3, 0), bdf(4, 0));
    assert!(registers.retarget(&card, &[0]).opens.contains(&Move::DecodeOn(a)));
    let moves = registers.retarget(&card, &[1]);
    assert_eq!(moves.shuts[0], Move::DecodeOff(a));
    assert!(moves.opens.contains(&Move::DecodeOn(b)));
    registers.retarget(&card, &[]);
    assert_eq!(registers.decode, BTreeSet::new());
    // The inner gate stands, decode moves all the same.
    let moves = registers.retarget(&card, &[1]);
    assert_eq!(moves.opens, [Move::DecodeOn(b), Move::Open(root)]);
}

proptest! {
    /// From any set of dies to any other: a die that is in neither is never reached, and before the
    /// first gate opens only those are that stay.
    #[test]
    fn no_moment_has_a_die_too_many(
        dies in 1u8..=4,
        wishes in prop::collection::vec(prop::collection::btree_set(0u8..4, 0..=4), 1..12)
    ) {
        let (card, mut registers) = (card(dies, DecodeMoves::Yes), Registers::default());
        let mut before = BTreeSet::new();
        for wish in wishes {
            let wanted: BTreeSet<Bdf> =
                wish.into_iter().filter(|n| *n < dies).map(|n| bdf(3 + n, 0)).collect();
            let stay: BTreeSet<Bdf> = before.intersection(&wanted).copied().collect();
            let moves = card.retarget(|at| registers.open.contains(&at), &wanted);
            for step in moves.shuts {
                registers.apply(step);
                prop_assert!(registers.reached(&card).is_subset(&before), "after {step:?}");
            }
            prop_assert!(registers.reached(&card).is_subset(&stay));
            for step in moves.opens {
                registers.apply(step);
                prop_assert!(registers.reached(&card).is_subset(&wanted), "after {step:?}");
            }
            prop_assert_eq!(&registers.reached(&card), &wanted);
            prop_assert_eq!(&registers.decode, &wanted);
            before = wanted;
        }
    }
}
