//! The main job: cold once, warm ever after.

use super::*;
use crate::model::{DOORBELL_OFFSET, Job, JobOutcome, Work, doorbell};

#[test]
fn firmware_leaves_one_die_in_the_window_and_all_parked() {
    let board = Board::new("k80x16");
    let survey = board.survey();
    assert_eq!((survey.dies.len(), survey.cards.len()), (16, 8));
    let bdfs: Vec<String> = survey.dies.iter().take(3).map(|die| die.bdf.to_string()).collect();
    assert_eq!(bdfs, ["0000:03:00.0", "0000:04:00.0", "0000:07:00.0"]);
    assert!(survey.dies.iter().all(|die| die.path.len() == 3));
    let in_slot: Vec<bool> =
        board.dies.iter().map(|die| board.state(*die).slot().is_some()).collect();
    assert_eq!(in_slot.iter().filter(|in_slot| **in_slot).count(), 1);
    assert!(in_slot[0]);
    let parked = |die: &Bdf| matches!(board.state(*die), DieState::Parked { .. });
    assert!(board.dies.iter().all(parked));
    assert!(survey.oddities.is_empty());
    board.no_violations();
}

#[test]
fn sixteen_cold_then_two_hundred_warm() {
    let board = Board::new("k80x16");
    let mut holds = Vec::new();
    for die in &board.dies {
        holds.push(board.adopt(*die));
        for (end, at) in (0u32..).zip(board.ends(SLOT)) {
            board.write(at, mark(*die, end));
        }
    }
    let from = board.sim.config_writes();
    let mut order = 7usize;
    let mut last = *board.dies.last().expect("a die");
    for _ in 0..200 {
        order = (order * 1_103_515_245 + 12_345) % (1 << 31);
        let die = board.dies[order / 7 % board.dies.len()];
        let opened = board.open(die);
        let at_most = if die == last { 0 } else { 4 };
        assert!(opened.config_writes <= at_most, "{last} -> {die}: {}", opened.config_writes);
        last = die;
        for (end, at) in (0u32..).zip(board.ends(SLOT)) {
            assert_eq!(board.read(at), mark(die, end));
        }
        assert_eq!(board.state(die), DieState::Resident { slot: Some(SLOT) });
    }
    let to_dies = board.sim.trace(from).iter().filter(|w| board.dies.contains(&w.bdf)).count();
    assert_eq!(to_dies, 0);
    assert_eq!(board.sim.trace(from).len() as u64, board.sim.config_writes() - from);
    board.no_violations();
}

#[test]
fn two_writes_within_a_card_and_where_the_inner_gate_stands() {
    let board = Board::new("k80x4");
    let _holds = board.adopt_all();
    let [a0, a1, b0, _] = board.dies[..] else { panic!("four dies") };
    board.open(a0);
    assert_eq!(board.open(a1).config_writes, 2);
    assert_eq!(board.open(a1).config_writes, 0);
    assert_eq!(board.open(b0).config_writes, 4);
    assert_eq!(board.open(a1).config_writes, 2);
    assert_eq!(board.open(b0).config_writes, 2);
    assert_eq!(board.open(a0).config_writes, 4);
    board.no_violations();
}

#[test]
fn a_shut_slot_is_all_ones_and_registers_still_answer() {
    let board = Board::new("k80x4");
    let _holds = board.adopt_all();
    let die = board.dies[1];
    board.open(die);
    board.write(board.slot_base(SLOT), 7);
    board.sim.shut(SLOT).expect("shut");
    for at in board.ends(SLOT) {
        board.write(at, 1);
        assert_eq!(board.read(at), u32::MAX);
    }
    for die in &board.dies {
        let reading = board.sim.peek(*die, crate::Register::Boot0).expect("awake");
        assert_eq!(reading.value(), Some(crate::BOOT0_GK210));
        assert_eq!(board.state(*die), DieState::Resident { slot: None });
    }
    board.open(die);
    assert_eq!(board.read(board.slot_base(SLOT)), 7);
    board.no_violations();
}

#[test]
fn a_job_goes_on_while_another_die_is_in_the_slot() {
    let board = Board::new("k80x4");
    let _holds = board.adopt_all();
    let base = board.slot_base(SLOT);
    let job = |n: u32| Job {
        work: Work::Fill,
        destination: 0x10_0000,
        count: 5000,
        factor: n,
        addend: 3,
        duration: Duration::from_millis(100),
    };
    for (n, die) in (1u32..).zip(&board.dies) {
        board.open(*die);
        board.sim.cpu_write(base + 0x1000, &job(n).to_bytes());
        board.write(base + DOORBELL_OFFSET + doorbell::RING, 0x10);
        assert_eq!(board.read(base + DOORBELL_OFFSET + doorbell::PENDING), 1);
    }
    board.clock.advance(Duration::from_millis(100));
    for (n, die) in (1u32..).zip(&board.dies) {
        board.open(*die);
        let mut outcome = [0; 8];
        board.sim.cpu_read(base + 0x1000 + Job::OUTCOME_AT, &mut outcome);
        assert_eq!(JobOutcome::from_bytes(outcome), Some(JobOutcome::Done { number: 1 }));
        assert_eq!(board.read(base + 0x10_0000 + 4 * 4999), 4999 * n + 3);
    }
    board.no_violations();
}

#[test]
fn the_neighbour_notices_nothing() {
    let board = Board::new("k80x4");
    let neighbour = |board: &Board| {
        let mut functions = board.survey().functions;
        functions.retain(|_, function| function.id.device == 0x1eb8);
        functions.into_values().next().expect("a neighbour")
    };
    let before = neighbour(&board);
    let at = before.bar(1).and_then(|bar| bar.assigned).expect("assigned").base();
    board.write(at, 0x7e57);
    let from = board.sim.config_writes();
    let _holds = board.adopt_all();
    for die in &board.dies {
        board.open(*die);
    }
    assert_eq!(neighbour(&board), before);
    assert_eq!(board.read(at), 0x7e57);
    let root = before.parent.expect("a root port");
    let touched = |w: &&ConfigWrite| w.bdf == before.bdf || w.bdf == root;
    assert_eq!(board.sim.trace(from).iter().filter(touched).count(), 0);
}

#[test]
fn a_power_cycle_brings_the_boot_state_back() {
    let board = Board::new("k80x4");
    let before = board.survey();
    let holds = board.adopt_all();
    board.sim.fall_off(board.dies[3]);
    board.sim.power_cycle();
    assert!(board.survey() == before);
    drop(holds);
    let hold = board.adopt(board.dies[3]);
    assert_eq!(board.read(board.slot_base(SLOT)), 0);
    drop(hold);
    board.no_violations();
}

#[test]
fn a_mapping_faults_out_of_the_slot_and_works_again_in_it() {
    let board = Board::new("k80x4");
    let [a, b, c, _] = board.dies[..] else { panic!("four dies") };
    assert!(board.sim.map(a).is_err(), "not placed");
    let _holds = board.adopt_all();
    let map = board.sim.map(a).expect("placed");
    let read = || {
        let mut data = [0; 4];
        map.read(0x40, &mut data).map(|()| u32::from_le_bytes(data))
    };
    assert_eq!(read(), Err(BusError(a)));
    board.open(a);
    map.write(0x40, &7u32.to_le_bytes()).expect("in the slot");
    assert_eq!(read(), Ok(7));
    for other in [b, c] {
        board.open(other);
        assert_eq!(map.write(0x40, &[0; 4]), Err(BusError(a)));
        assert_eq!(board.read(board.slot_base(SLOT) + 0x40), 0);
    }
    board.open(a);
    assert_eq!(read(), Ok(7));
    assert_eq!(map.read(crate::GIB * 16 - 2, &mut [0; 4]), Err(BusError(a)), "past the end");
    board.sim.power_cycle();
    assert_eq!(read(), Err(BusError(a)));
}

#[test]
fn the_driver_tells_of_its_dies_only() {
    let board = Board::new("k80x4");
    let die = board.dies[1];
    assert_eq!(board.sim.information(die), None);
    let _hold = board.adopt(die);
    let text = board.sim.information(die).expect("resident");
    assert!(text.contains("Tesla K80") && text.contains(&die.to_string()), "{text}");
}
