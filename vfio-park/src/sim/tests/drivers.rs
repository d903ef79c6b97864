//! Drivers that probe and refuse.

use super::*;
use crate::Register;

#[test]
fn vfio_pci_wants_an_iommu_or_noiommu_mode() {
    for (preset, takes) in [("k80x2", false), ("k80x2-iommu", true), ("k80x2-noiommu", true)] {
        let board = Board::new(preset);
        let die = board.dies[0];
        board.sim.unbind(die).expect("free");
        let bound = board.sim.bind(die, &DriverName::vfio_pci());
        assert_eq!(bound.is_ok(), takes, "{preset}");
        if let Err(error) = bound {
            assert!(reason(&error).contains("-22"), "{error}");
            assert_eq!(board.survey().functions[&die].driver, None);
        }
        board.sim.unbind(die).expect("free");
        board.sim.bind(die, &DriverName::pci_stub()).expect("it takes everything");
        board.no_violations();
    }
}

#[test]
fn a_die_without_bar1_binds_and_does_not_come_up() {
    let board = Board::new("k80x4");
    let die = board.dies[1];
    board.sim.unbind(die).expect("free");
    board.sim.bind(die, &DriverName::nvidia()).expect("it skips the BAR");
    let error = board.sim.hold(die).expect_err("no BAR1");
    assert!(reason(&error).contains("0x22:0xffff:667"), "{error}");
}

#[test]
fn an_adapter_comes_up_in_the_slot_only() {
    let board = Board::new("k80x4");
    let die = board.dies[1];
    board.place(die, SLOT).expect("placed");
    board.sim.unbind(die).expect("free");
    board.sim.bind(die, &DriverName::nvidia()).expect("shut gates are non-zero too");
    let error = board.sim.hold(die).expect_err("out of the slot");
    assert!(reason(&error).contains("RmInitAdapter"), "{error}");
    board.open(die);
    board.sim.hold(die).expect("comes up");
}

#[test]
fn loading_nvidia_takes_what_nobody_has() {
    let board = Board::new("k80x4-alone");
    let [a, b, c, d] = board.dies[..] else { panic!("four dies") };
    for die in &board.dies {
        board.place(*die, SLOT).expect("placed");
    }
    for die in [a, b, c] {
        board.sim.unbind(die).expect("free");
    }
    board.sim.set_driver_override(c, Some(&DriverName::pci_stub()));
    board.sim.bind(a, &DriverName::nvidia()).expect("bound");
    let driver = |die: Bdf| board.survey().functions[&die].driver.clone();
    assert_eq!(driver(b), Some(DriverName::nvidia()), "it was free");
    assert_eq!(driver(c), None, "it has an override");
    assert_eq!(driver(d), Some(DriverName::pci_stub()));
}

#[test]
fn loading_nvidia_fails_where_it_finds_nothing() {
    let board = Board::new("k80x2-alone");
    let die = board.dies[0];
    board.sim.unbind(die).expect("free");
    // Out of the root port's 32-bit window, BAR0 reaches nobody.
    let root = board.survey().cards[0].root_port;
    let at = Duration::ZERO;
    board.sim.config_write(&ConfigWrite { at, bdf: root, offset: 0x20, size: 4, value: 0xfff0 });
    let error = board.sim.bind(die, &DriverName::nvidia()).expect_err("nothing probed");
    assert!(reason(&error).contains("ENODEV"), "{error}");
}

#[test]
fn unbinding_loses_contexts_and_is_refused_while_held() {
    let board = Board::new("k80x2");
    let die = board.dies[0];
    let hold = board.adopt(die);
    board.write(board.slot_base(SLOT), 7);
    let other = board.sim.hold_as(die, "python3 (pid 4242)").expect("open");
    let error = board.sim.unbind(die).expect_err("held");
    let MachineError::InUse { holders, .. } = &error else { panic!("{error}") };
    assert_eq!(holders.len(), 2);
    assert!(error.to_string().contains("python3 (pid 4242)"), "{error}");
    drop(other);
    assert_eq!(board.read(board.slot_base(SLOT)), 7);
    drop(hold);
    assert_eq!(board.read(board.slot_base(SLOT)), 0, "the last one out");
    board.sim.unbind(die).expect("free");
    board.sim.bind(die, &DriverName::pci_stub()).expect("parked");
    let _again = board.adopt(die);
    board.no_violations();
}

#[test]
fn nvidia_writes_command_once_when_it_comes_and_twice_when_it_goes() {
    let board = Board::new("k80x2");
    let die = board.dies[0];
    board.place(die, SLOT).expect("placed");
    board.open(die);
    board.sim.unbind(die).expect("free");
    let count = |act: &dyn Fn()| {
        let from = board.sim.config_writes();
        act();
        board.sim.trace(from).iter().filter(|write| write.bdf == die).count()
    };
    let nvidia = DriverName::nvidia();
    assert_eq!(count(&|| board.sim.bind(die, &nvidia).expect("bound")), 1);
    assert_eq!(count(&|| board.sim.unbind(die).expect("free")), 2);
    assert_ne!(board.survey().functions[&die].command.expect("there") & 2, 0, "decode stays on");
}

#[test]
fn bridges_over_a_resident_die_are_kept_from_d3cold() {
    let board = Board::new("k80x4");
    let die = board.dies[0];
    let guarded = || {
        let survey = board.survey();
        let bridges = survey.functions.values().filter_map(|f| Some((f.bdf, f.bridge?)));
        let kept = bridges.filter(|(_, bridge)| bridge.d3cold_allowed == Some(false));
        kept.map(|(at, _)| at).collect::<Vec<_>>()
    };
    assert!(guarded().is_empty());
    let hold = board.adopt(die);
    assert_eq!(guarded(), board.survey().die(die).expect("a die").path);
    drop(hold);
    board.sim.unbind(die).expect("free");
    assert!(guarded().is_empty());
}

#[test]
fn peeking_needs_a_die_that_is_awake() {
    let board = Board::new("k80x2-iommu");
    let die = board.dies[0];
    let error = board.sim.peek(die, Register::Boot0).expect_err("asleep");
    assert!(reason(&error).contains("D3hot"), "{error}");
    board.sim.unbind(die).expect("free");
    for register in Register::ALL {
        assert!(board.sim.peek(die, register).expect("awake").value().is_some(), "{register:?}");
    }
    board.no_violations();
}

#[test]
fn only_dies_are_dies() {
    let board = Board::new("k80x2");
    let port = board.survey().cards[0].root_port;
    assert!(matches!(board.sim.open(SLOT, port), Err(MachineError::UnknownDie(_))));
    assert!(matches!(board.sim.shut(SlotId(9)), Err(MachineError::UnknownSlot(_))));
    let error = board.sim.hold(board.dies[0]).expect_err("parked");
    assert!(reason(&error).contains("adopt"), "{error}");
    let nouveau = DriverName::new("nouveau").expect("a name");
    board.sim.unbind(board.dies[0]).expect("free");
    assert!(matches!(board.sim.bind(board.dies[0], &nouveau), Err(MachineError::NotTaken { .. })));
}

#[test]
fn writing_a_register_is_told() {
    let board = Board::new("k80x2");
    let bar0 = board.survey().functions[&board.dies[0]].bar(0).and_then(|bar| bar.assigned);
    board.write(bar0.expect("assigned").base() + 0x200, u32::MAX);
    let violations = board.sim.violations();
    let [Violation::Bar0Write { die, write }] = &violations[..] else { panic!("{violations:?}") };
    assert_eq!(*die, board.dies[0]);
    assert_eq!(write.kind, crate::model::Bar0WriteKind::PmcEnable);
}

#[test]
fn two_paths_at_once_are_told() {
    let board = Board::new("k80x4");
    let _holds = board.adopt_all();
    board.open(board.dies[0]);
    let other = board.survey().cards[1].root_port;
    let at = Duration::ZERO;
    board.sim.config_write(&ConfigWrite { at, bdf: other, offset: 0x28, size: 4, value: 0xc });
    assert_eq!(board.read(board.slot_base(SLOT)), u32::MAX);
    let told = board.sim.violations();
    assert!(
        matches!(&told[0], Violation::TwoClaims { functions, .. } if functions.contains(&other))
    );
}
