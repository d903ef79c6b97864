//! Giving cards their place.

use super::*;
use crate::{MIB, Window, model::reg};

#[test]
fn a_card_takes_some_thirty_writes_once() {
    let board = Board::new("k80x16");
    for pair in board.dies.chunks(2) {
        let placed = board.place(pair[0], SLOT).expect("placed");
        let Placed::Now { config_writes } = placed else { panic!("{placed:?}") };
        assert!((15..=31).contains(&config_writes), "{config_writes}");
        assert_eq!(board.place(pair[1], SLOT).expect("placed"), Placed::Already);
    }
    let from = board.sim.config_writes();
    for die in &board.dies {
        assert_eq!(board.place(*die, SLOT).expect("placed"), Placed::Already);
    }
    assert_eq!(board.sim.config_writes(), from);
    board.no_violations();
}

#[test]
fn every_bar_has_its_place_and_nobody_overlaps() {
    let board = Board::new("k80x16");
    for die in &board.dies {
        board.place(*die, SLOT).expect("placed");
    }
    let survey = board.survey();
    let mut taken: Vec<crate::AddressRange> = Vec::new();
    for die in &board.dies {
        let function = &survey.functions[die];
        let port = &survey.functions[&function.parent.expect("a port")];
        let Window::Open(window) = port.bridge.expect("a bridge").memory else { panic!("shut") };
        for index in [0, 3] {
            let bar = function.bar(index).expect("a BAR");
            let at = bar.assigned.expect("assigned");
            assert_eq!(bar.register, Some(at.base()));
            assert!(window.contains(at));
            assert!(!taken.iter().any(|other| other.overlaps(at)));
            taken.push(at);
        }
        assert_eq!(function.bar(1).expect("BAR1").assigned, Some(board.sim.slots()[0].range()));
    }
    assert_eq!(taken.iter().map(|range| range.size()).sum::<u64>(), 16 * 48 * MIB);
}

#[test]
fn the_slot_is_taken_over_from_whom_firmware_gave_it_to() {
    let board = Board::new("k80x4");
    assert_ne!(board.read(board.slot_base(SLOT)), u32::MAX);
    board.place(board.dies[2], SLOT).expect("placed");
    assert_eq!(board.read(board.slot_base(SLOT)), u32::MAX);
    board.open(board.dies[2]);
    assert_eq!(board.place(board.dies[0], SLOT).expect("placed with it"), Placed::Already);
    board.open(board.dies[0]);
    board.no_violations();
}

#[test]
fn a_card_in_use_is_left_alone() {
    let board = Board::new("k80x4");
    let die = board.dies[0];
    board.sim.unbind(die).expect("free");
    board.sim.bind(die, &DriverName::nvidia()).expect("it owns the window from boot on");
    for other in [board.dies[1], board.dies[2]] {
        let error = board.place(other, SLOT).expect_err("the slot is a resident die's");
        assert!(reason(&error).contains("park it first"), "{error}");
    }
}

#[test]
fn places_that_cannot_be_are_refused_with_their_reason() {
    let preset: Preset = "k80x2".parse().expect("a preset");
    let slots = ["0x0+0x400000000", "0x400000000", "0x1000000000", "0xC00000000+0x200000000"];
    let slots = slots.map(|text| text.parse().expect("a slot")).to_vec();
    let clock = Arc::new(ManualClock::default());
    let sim = Simulator::with(preset, slots, Costs::NONE, clock);
    let die = sim.survey().expect("a survey").dies[0].bdf;
    for (slot, why) in [(0, "RAM"), (1, "host bridge"), (2, "address bits"), (3, "bytes")] {
        let placement = Placement { slot: SlotId(slot), gate: Gate::Window };
        let error = sim.place(die, placement).expect_err("no place");
        assert!(reason(&error).contains(why), "{slot}: {error}");
    }
    let placement = Placement { slot: SlotId(4), gate: Gate::Window };
    assert!(matches!(sim.place(die, placement), Err(MachineError::UnknownSlot(_))));
}

#[test]
fn the_office_pc_has_both_dies_at_once() {
    let board = Board::new("k80x1");
    let [a, b] = board.dies[..] else { panic!("two dies") };
    board.place(a, SlotId(0)).expect("placed");
    board.place(b, SlotId(1)).expect("placed");
    board.sim.open(SlotId(0), a).expect("opened");
    board.write(board.slot_base(SlotId(0)), 0xa);
    board.sim.open(SlotId(1), b).expect("opened");
    board.write(board.slot_base(SlotId(1)), 0xb);
    assert_eq!(board.read(board.slot_base(SlotId(0))), 0xa);
    assert_eq!(board.read(board.slot_base(SlotId(1))), 0xb);
    board.sim.shut(SlotId(0)).expect("shut");
    assert_eq!(board.read(board.slot_base(SlotId(0))), u32::MAX);
    assert_eq!(board.read(board.slot_base(SlotId(1))), 0xb);
    board.no_violations();
}

#[test]
fn a_card_in_two_slots_covers_both_and_none_in_between() {
    let board = Board::new("k80x4-win48");
    let [a, b, c, _] = board.dies[..] else { panic!("four dies") };
    board.place(a, SlotId(0)).expect("placed");
    let error = board.place(b, SlotId(2)).expect_err("slot 1 lies in between");
    assert!(reason(&error).contains("slot 1"), "{error}");
    board.place(b, SlotId(1)).expect("placed");
    board.place(c, SlotId(1)).expect("placed");
    board.sim.open(SlotId(1), c).expect("opened");
    let error = board.sim.open(SlotId(0), a).expect_err("its root port covers slot 1 too");
    assert!(reason(&error).contains(&c.to_string()), "{error}");
    board.sim.shut(SlotId(1)).expect("shut");
    board.sim.open(SlotId(0), a).expect("opened");
    let error = board.sim.open(SlotId(1), c).expect_err("it is covered by the other's");
    assert!(reason(&error).contains(&a.to_string()), "{error}");
    board.sim.open(SlotId(1), b).expect("opened");
    board.no_violations();
}

#[test]
fn a_resident_sister_stays_as_it_is_while_the_card_is_repaired() {
    let board = Board::new("k80x2");
    let [a, b] = board.dies[..] else { panic!("two dies") };
    let _hold = board.adopt(a);
    board.write(board.slot_base(SLOT), 7);
    board.sim.shut(SLOT).expect("shut");
    let write = |offset, value| {
        let at = Duration::ZERO;
        board.sim.config_write(&ConfigWrite { at, bdf: b, offset, size: 4, value });
    };
    write(0x18, 0);
    let from = board.sim.config_writes();
    assert!(matches!(board.place(b, SLOT), Ok(Placed::Now { .. })));
    assert!(board.sim.trace(from).iter().all(|write| write.bdf != a));
    board.open(a);
    assert_eq!(board.read(board.slot_base(SLOT)), 7);
    board.no_violations();
}

#[test]
fn sleeping_dies_are_placed_and_sleep_on() {
    let board = Board::new("k80x2-iommu");
    let die = board.dies[0];
    assert_eq!(board.survey().functions[&die].power, crate::PowerState::D3hot);
    board.place(die, SLOT).expect("placed");
    assert_eq!(board.survey().functions[&die].power, crate::PowerState::D3hot);
    board.open(die);
    assert_eq!(board.read(board.slot_base(SLOT)), 0, "awake for as long as it is in the slot");
    board.sim.shut(SLOT).expect("shut");
    assert_eq!(board.survey().functions[&die].power, crate::PowerState::D3hot);
    let _hold = board.adopt(die);
    board.sim.shut(SLOT).expect("shut");
    assert_eq!(board.survey().functions[&die].power, crate::PowerState::D0);
    board.no_violations();
}

#[test]
fn a_bus_reset_is_noticed_and_healed() {
    let board = Board::new("k80x2");
    let die = board.dies[0];
    board.place(die, SLOT).expect("placed");
    let port = board.survey().functions[&die].parent.expect("a port");
    for value in [0x40, 0] {
        let at = Duration::ZERO;
        let write = ConfigWrite { at, bdf: port, offset: reg::BRIDGE_CONTROL, size: 2, value };
        board.sim.config_write(&write);
    }
    let error = board.sim.open(SLOT, die).expect_err("its BARs are gone");
    assert!(reason(&error).contains("reset"), "{error}");
    assert!(matches!(board.place(die, SLOT), Ok(Placed::Now { .. })));
    board.open(die);
    assert_eq!(board.read(board.slot_base(SLOT)), 0);
}

#[test]
fn the_decode_gate_turns_decode_off_out_of_the_slot() {
    let board = Board::new("k80x2");
    let [a, b] = board.dies[..] else { panic!("two dies") };
    for die in [a, b] {
        board.sim.place(die, Placement { slot: SLOT, gate: Gate::Decode }).expect("placed");
    }
    let decodes = |die: Bdf| board.survey().functions[&die].command.expect("there") & 2 != 0;
    assert!(!decodes(a) && !decodes(b));
    assert_eq!(board.open(a).config_writes, 3);
    assert!(decodes(a) && !decodes(b));
    assert_eq!(board.open(b).config_writes, 4);
    assert!(!decodes(a) && decodes(b));
    board.sim.shut(SLOT).expect("shut");
    assert!(!decodes(b));
    board.no_violations();
}
