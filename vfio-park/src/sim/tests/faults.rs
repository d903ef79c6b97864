//! Things go wrong on request, and are undone.

use std::io;

use super::*;

#[test]
fn placing_that_fails_at_any_step_is_undone() {
    for preset in ["k80x4", "k80x4-iommu", "k80x4-roomy"] {
        let board = Board::new(preset);
        let before = board.survey();
        let mut step = 0;
        loop {
            step += 1;
            let effect = Effect::FailStep { step, undo_fails: false };
            board.sim.faults().set(FaultPlan::default());
            board.sim.faults().add(Fault::at(Verb::Place, effect));
            // Firmware gave the slot to another card: that is undone, too.
            match board.place(board.dies[2], SLOT) {
                Err(MachineError::Io { .. }) => {
                    assert!(board.survey() == before, "{preset}, step {step}");
                }
                Err(other) => panic!("step {step}: {other}"),
                Ok(placed) => {
                    let Placed::Now { config_writes } = placed else { panic!("{placed:?}") };
                    assert_eq!(config_writes + 1, step);
                    break;
                }
            }
        }
        board.no_violations();
    }
}

#[test]
fn opening_that_fails_leaves_the_slot_as_it_was() {
    let board = Board::new("k80x4");
    let _holds = board.adopt_all();
    let [a, _, c, _] = board.dies[..] else { panic!("four dies") };
    board.open(a);
    for step in 1..=4 {
        let effect = Effect::FailStep { step, undo_fails: false };
        board.sim.faults().add(Fault::at(Verb::Open, effect).times(1));
        assert!(matches!(board.sim.open(SLOT, c), Err(MachineError::Io { .. })), "step {step}");
        assert_eq!(board.state(a), DieState::Resident { slot: Some(SLOT) });
    }
    let effect = Effect::FailStep { step: 3, undo_fails: true };
    board.sim.faults().add(Fault::at(Verb::Open, effect).times(1));
    assert!(matches!(board.sim.open(SLOT, c), Err(MachineError::NotUndone { .. })));
    assert!(board.dies.iter().all(|die| board.state(*die).slot().is_none()), "left shut");
    board.open(c);
    board.no_violations();
}

#[test]
fn busy_is_tried_again_a_few_times() {
    let board = Board::new("k80x2");
    let die = board.dies[0];
    board.sim.faults().add(Fault::at(Verb::Unbind, Effect::Busy).of(die).times(3));
    board.sim.unbind(die).expect("in the end");
    board.sim.faults().add(Fault::at(Verb::Bind, Effect::Busy));
    let error = board.sim.bind(die, &DriverName::pci_stub()).expect_err("always busy");
    let MachineError::Io { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.kind(), io::ErrorKind::ResourceBusy);
}

#[test]
fn a_late_link_is_waited_for() {
    let board = Board::new("k80x2");
    let die = board.dies[0];
    board.sim.unbind(die).expect("free");
    board.sim.faults().add(Fault::at(Verb::Bind, Effect::LateDriverLink { ms: 1000 }).times(1));
    let before = board.clock.now();
    board.sim.bind(die, &DriverName::pci_stub()).expect("bound");
    assert_eq!(board.clock.now(), before + Duration::from_secs(1));
    assert_eq!(board.survey().functions[&die].driver, Some(DriverName::pci_stub()));
}

#[test]
fn a_die_falls_off_the_bus_and_the_slot_goes_on() {
    let board = Board::new("k80x4");
    let _holds = board.adopt_all();
    let [a, b, c, _] = board.dies[..] else { panic!("four dies") };
    board.open(a);
    board.sim.fall_off(a);
    assert_eq!(board.state(a), DieState::Absent);
    assert_eq!(board.read(board.slot_base(SLOT)), u32::MAX);
    assert!(matches!(board.sim.open(SLOT, a), Err(MachineError::Absent(_))));
    board.open(b);
    board.sim.faults().add(Fault::at(Verb::Open, Effect::AllOnes).of(c));
    assert!(matches!(board.sim.open(SLOT, c), Err(MachineError::Absent(_))));
    assert_eq!(board.state(b), DieState::Resident { slot: Some(SLOT) });
    board.no_violations();
}

#[test]
fn a_hang_ends_when_it_is_released_and_nobody_else_waits() {
    let board = Board::new("k80x2");
    let [a, b] = board.dies[..] else { panic!("two dies") };
    board.sim.faults().add(Fault::at(Verb::Unbind, Effect::Hang { deadline_ms: None }).of(a));
    let sim = board.sim.clone();
    let stuck = std::thread::spawn(move || sim.unbind(a));
    while board.sim.faults().hanging() == 0 {
        std::thread::yield_now();
    }
    board.survey();
    board.sim.unbind(b).expect("free");
    assert!(matches!(board.state(a), DieState::Parked { .. }));
    board.sim.faults().release();
    stuck.join().expect("no panic").expect("free");
    assert!(matches!(board.state(a), DieState::Unbound { .. }));
}

#[test]
fn a_hang_with_a_deadline_says_so() {
    let board = Board::new("k80x2");
    let die = board.dies[0];
    let effect = Effect::Hang { deadline_ms: Some(1) };
    board.sim.faults().add(Fault::at(Verb::Unbind, effect).of(die));
    assert!(matches!(board.sim.unbind(die), Err(MachineError::Deadline { .. })));
    assert!(matches!(board.state(die), DieState::Parked { .. }));
}

#[test]
fn a_delay_takes_its_time() {
    let board = Board::new("k80x2");
    board.sim.faults().add(Fault::at(Verb::Survey, Effect::Delay { ms: 30 }));
    let before = board.clock.now();
    board.survey();
    assert_eq!(board.clock.now(), before + Duration::from_millis(30));
}

#[test]
fn a_bridge_that_falls_off_takes_its_dies_along() {
    let board = Board::new("k80x4");
    let [a, b, c, _] = board.dies[..] else { panic!("four dies") };
    let path = board.survey().die(a).expect("a die").path.clone();
    board.sim.fall_off(path[2]);
    assert_eq!(board.state(a), DieState::Absent);
    assert!(matches!(board.state(b), DieState::Parked { .. }));
    board.sim.fall_off(path[0]);
    assert_eq!(board.state(b), DieState::Absent);
    assert!(matches!(board.place(b, SLOT), Err(MachineError::Absent(_))));
    assert!(matches!(board.state(c), DieState::Parked { .. }));
    board.no_violations();
}

#[test]
fn a_reset_behind_the_root_port_loses_the_bus_numbers_below() {
    let board = Board::new("k80x4");
    let root = board.survey().cards[0].root_port;
    let at = Duration::ZERO;
    let write = ConfigWrite { at, bdf: root, offset: 0x3e, size: 2, value: 0x40 };
    board.sim.config_write(&write);
    assert_eq!(board.state(board.dies[0]), DieState::Absent);
    assert!(matches!(board.state(board.dies[2]), DieState::Parked { .. }));
    board.sim.power_cycle();
    assert!(matches!(board.state(board.dies[0]), DieState::Parked { .. }));
    board.no_violations();
}

#[test]
fn a_hang_of_a_verb_without_a_die_times_out_too() {
    let board = Board::new("k80x2");
    board.sim.faults().add(Fault::at(Verb::Shut, Effect::Hang { deadline_ms: Some(1) }));
    let Err(MachineError::Io { source, .. }) = board.sim.shut(SLOT) else { panic!("no deadline") };
    assert_eq!(source.kind(), io::ErrorKind::TimedOut);
}
