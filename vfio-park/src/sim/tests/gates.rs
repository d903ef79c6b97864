//! The gate sequence, step by step.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::gate::{CardDoors, Decode, Door, Move, Moves, Upper};
use super::*;
use crate::{GIB, Slot};

fn bdf(bus: u8, device: u8) -> Bdf {
    Bdf::new(0, bus, device, 0).expect("an address")
}

/// One card whose dies are in the given slots (in units of 16 GiB).
fn card(slots: &[u64], decode: bool) -> CardDoors {
    let door = |(n, at): (u8, &u64)| Door {
        die: bdf(3 + n, 0),
        port: bdf(2, 8 + n),
        slot: Slot::new(at * 16 * GIB, 16 * GIB).expect("a slot"),
        decode,
    };
    CardDoors { root: bdf(0, 1), doors: (0u8..).zip(slots).map(door).collect() }
}

/// Gate registers of a card, shut as placement leaves them.
struct Registers(BTreeMap<Bdf, Upper>);

impl Registers {
    fn placed(card: &CardDoors) -> Self {
        let all: BTreeSet<Bdf> = card.doors.iter().map(|door| door.die).collect();
        let shut = |range| {
            let limit = Upper::of(range).limit;
            Upper { base: Upper::shut_base(limit), limit }
        };
        let root = card.root_window(&all).expect("dies");
        let ports = card.doors.iter().map(|door| (door.port, shut(door.slot.range())));
        Self(ports.chain([(card.root, shut(root))]).collect())
    }

    fn apply(&mut self, step: Move) {
        match step {
            Move::Base(at, base) => self.0.get_mut(&at).expect("known").base = base,
            Move::Limit(at, limit) => self.0.get_mut(&at).expect("known").limit = limit,
            Move::Decode(..) => {}
        }
    }

    fn apply_all(&mut self, steps: Vec<Move>) {
        for step in steps {
            self.apply(step);
        }
    }

    /// Dies that answer in their slot.
    fn answering(&self, card: &CardDoors) -> BTreeSet<Bdf> {
        let passes = |at: &Bdf, slot: Slot| {
            let (window, slot) = (self.0[at], Upper::of(slot.range()));
            window.base <= slot.base && slot.limit <= window.limit
        };
        let open = |door: &&Door| passes(&card.root, door.slot) && passes(&door.port, door.slot);
        card.doors.iter().filter(open).map(|door| door.die).collect()
    }
}

#[test]
fn the_sequence_of_a_swap_is_shut_then_open() {
    let card = card(&[3, 3], false);
    let mut registers = Registers::placed(&card);
    let [first, second] = [3, 4].map(|bus| BTreeSet::from([bdf(bus, 0)]));
    let moves = card.retarget(|at| registers.0[&at], &first);
    let opens = vec![Move::Base(bdf(2, 8), 0xc), Move::Base(bdf(0, 1), 0xc)];
    assert_eq!(moves, Moves { shuts: vec![], opens: opens.clone() });
    registers.apply_all(opens);
    let moves = card.retarget(|at| registers.0[&at], &second);
    let shuts = vec![Move::Base(bdf(2, 8), 0xff)];
    assert_eq!(moves, Moves { shuts, opens: vec![Move::Base(bdf(2, 9), 0xc)] });
    let moves = card.retarget(|at| registers.0[&at], &BTreeSet::new());
    assert_eq!(moves, Moves { shuts: vec![Move::Base(bdf(0, 1), 0xff)], opens: vec![] });
}

#[test]
fn the_decode_gate_moves_decode_too() {
    let card = card(&[3, 3], true);
    let mut registers = Registers::placed(&card);
    let [first, second] = [3, 4].map(|bus| BTreeSet::from([bdf(bus, 0)]));
    let moves = card.retarget(|at| registers.0[&at], &first);
    assert_eq!(moves.opens[0], Move::Decode(bdf(3, 0), Decode::On));
    registers.apply_all(moves.opens);
    let moves = card.retarget(|at| registers.0[&at], &second);
    assert_eq!(moves.shuts[0], Move::Decode(bdf(3, 0), Decode::Off));
    assert_eq!(moves.opens[0], Move::Decode(bdf(4, 0), Decode::On));
    // Shut, and opened again: the inner gate stands, decode moves all the same.
    let moves = card.retarget(|at| registers.0[&at], &BTreeSet::new());
    registers.apply_all(moves.shuts);
    let moves = card.retarget(|at| registers.0[&at], &first);
    assert_eq!(moves.opens, [Move::Decode(bdf(3, 0), Decode::On), Move::Base(bdf(0, 1), 0xc)]);
}

proptest! {
    /// From any set of dies to any other: at no moment does a die answer that is in neither, no
    /// slot has two, and at the end exactly the wanted ones do.
    #[test]
    fn no_moment_has_a_die_too_many(
        slots in prop::collection::vec(1u64..=4, 1..=3),
        wishes in prop::collection::vec(prop::collection::btree_set(0usize..3, 0..=3), 1..12)
    ) {
        let card = card(&slots, false);
        let mut registers = Registers::placed(&card);
        let mut before = BTreeSet::new();
        for wish in wishes {
            let mut taken = BTreeSet::new();
            let wanted: BTreeSet<Bdf> = card.doors.iter().enumerate()
                .filter(|(n, door)| wish.contains(n) && taken.insert(door.slot))
                .map(|(_, door)| door.die).collect();
            let moves = card.retarget(|at| registers.0[&at], &wanted);
            let shuts = moves.shuts.len();
            let both: BTreeSet<Bdf> = before.intersection(&wanted).copied().collect();
            for (n, step) in moves.shuts.into_iter().chain(moves.opens).enumerate() {
                registers.apply(step);
                let now = registers.answering(&card);
                let allowed = if n < shuts { &before } else { &wanted };
                prop_assert!(now.is_subset(allowed), "{now:?} after {step:?}");
                if n + 1 == shuts {
                    prop_assert!(now.is_subset(&both), "{now:?} are left before the first opens");
                }
            }
            prop_assert_eq!(&registers.answering(&card), &wanted);
            before = wanted;
        }
    }
}
