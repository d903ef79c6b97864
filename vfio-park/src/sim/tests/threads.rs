//! Many at once: verbs serialise, and a reader never meets the wrong die.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::*;

#[test]
fn a_reader_meets_nobody_or_a_die_that_was_asked_for() {
    let board = Board::new("k80x6");
    let _holds = board.adopt_all();
    for die in &board.dies {
        board.open(*die);
        board.write(board.slot_base(SLOT), mark(*die, 0));
    }
    let marks: BTreeSet<u32> = board.dies.iter().map(|die| mark(*die, 0)).collect();
    let stop = AtomicBool::new(false);
    let met = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut met = BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                met.insert(board.read(board.slot_base(SLOT)));
            }
            met
        });
        let openers = [1usize, 5].map(|stride| {
            let board = &board;
            scope.spawn(move || {
                for n in 0..300 {
                    board.open(board.dies[n * stride % board.dies.len()]);
                }
            })
        });
        for opener in openers {
            opener.join().expect("no panic");
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("no panic")
    });
    let strange: Vec<_> = met.iter().filter(|v| **v != u32::MAX && !marks.contains(v)).collect();
    assert!(strange.is_empty(), "{strange:x?}");
    board.no_violations();
}

#[test]
fn a_power_cycle_ends_what_hangs_and_spares_the_new_machine() {
    let board = Board::new("k80x2");
    let die = board.dies[0];
    board.sim.faults().add(Fault::at(Verb::Unbind, Effect::Hang { deadline_ms: None }).times(1));
    let sim = board.sim.clone();
    let stuck = thread::spawn(move || sim.unbind(die));
    while board.sim.faults().hanging() == 0 {
        thread::yield_now();
    }
    board.sim.power_cycle();
    assert!(stuck.join().expect("no panic").is_err());
    assert!(matches!(board.state(die), DieState::Parked { .. }));
}
