//! Surveys of recorded trees, odd and broken ones among them.

use std::{collections::BTreeSet, fs};

use super::read;
use crate::{
    AddressRange, Bdf, ConfigSpace, DieState, DriverName, GIB, MIB, MachineError, PciId,
    PowerState, Slot, SlotId, Survey,
    linux::{
        Roots,
        testing::{Tree, write},
    },
};

const SLOTS: [Slot; 1] = [Slot::BTC_S37];

fn survey(tree: &Tree) -> Survey {
    read(&tree.roots, &[PciId::GK210], &BTreeSet::new()).expect("a survey")
}

fn at(text: &str) -> Bdf {
    text.parse().expect("an address")
}

fn states(survey: &Survey) -> Vec<DieState> {
    survey.dies.iter().map(|die| DieState::read(survey, die, &SLOTS)).collect()
}

#[test]
fn the_board_with_one_die_in_the_slot() {
    let survey = survey(&Tree::fixture("btc"));
    assert_eq!(survey.oddities, [""; 0]);
    assert_eq!((survey.dies.len(), survey.cards.len()), (16, 8));
    assert_eq!(survey.physical_bits, Some(36));
    let states = states(&survey);
    let parker = DriverName::pci_stub();
    let parked = |slot| DieState::Parked { parker: parker.clone(), slot };
    let owner = survey.die(at("20:00.0")).expect("the die that owns the slot");
    for (die, state) in survey.dies.iter().zip(&states) {
        assert_eq!(*state, parked((die.bdf == owner.bdf).then_some(SlotId(0))), "{}", die.bdf);
        assert_eq!(die.path.len(), 3);
    }
    let die = survey.functions.get(&at("03:00.0")).expect("a die");
    let sizes: Vec<_> = die.bars.iter().map(|bar| (bar.index, bar.size)).collect();
    assert_eq!(sizes, [(0, Some(16 * MIB)), (1, Some(16 * GIB)), (3, Some(32 * MIB))]);
    let bar1 = die.bar(1).expect("BAR1");
    // What the kernel gave up on still stands in the register, and the die decodes it.
    assert_eq!((bar1.assigned, bar1.register), (None, Some(0x84_0000_0000)));
    assert!(die.decodes_memory() && bar1.is_64bit && bar1.prefetchable);
    let above = survey.iomem.iter().filter(|e| e.range == Slot::BTC_S37.range());
    assert_eq!(above.map(|e| e.depth).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_neighbour_is_no_die() {
    let survey = survey(&Tree::fixture("btc"));
    let t4 = PciId { vendor: 0x10de, device: 0x1eb8 };
    let neighbour = survey.functions.values().find(|f| f.id == t4).expect("the T4");
    assert!(survey.die(neighbour.bdf).is_none());
    let bars: Vec<_> =
        neighbour.bars.iter().map(|bar| (bar.index, bar.assigned.is_some())).collect();
    assert_eq!(bars, [(0, true), (1, true), (3, true)]);
}

#[test]
fn with_an_iommu_dies_sleep_in_groups_of_their_own() {
    let survey = survey(&Tree::fixture("iommu"));
    let dies = survey.dies.iter().map(|die| survey.function_of(die).expect("a function"));
    let groups: BTreeSet<_> = dies.clone().map(|die| die.iommu_group).collect();
    assert!(groups.len() == 16 && !groups.contains(&None));
    for die in dies {
        assert_eq!(
            (die.power, die.driver.clone()),
            (PowerState::D3hot, Some(DriverName::vfio_pci()))
        );
        assert_eq!(die.config, ConfigSpace::Answers);
    }
}

#[test]
fn an_office_pc_with_one_card() {
    let survey = survey(&Tree::fixture("office"));
    assert_eq!((survey.dies.len(), survey.cards.len()), (2, 1));
    assert_eq!(survey.dies[1].path, [at("00:01.0"), at("01:00.0"), at("02:10.0")]);
    for (die, base) in survey.dies.iter().zip([0xf000_0000, 0xf100_0000]) {
        let function = survey.function_of(die).expect("a function");
        let assigned: Vec<_> = function.bars.iter().map(|bar| bar.assigned).collect();
        assert_eq!(assigned, [AddressRange::new(base, 16 * MIB), None, None]);
        let port = survey.functions[die.path.last().expect("a port")].bridge.expect("a bridge");
        assert_eq!(port.memory.open_range(), AddressRange::new(base, 16 * MIB));
        assert_eq!(port.prefetchable.open_range(), None);
    }
    assert_eq!(states(&survey), vec![DieState::Resident { slot: None }; 2]);
}

#[test]
fn nothing_outside_the_roots_is_read() {
    let tree = Tree::new();
    tree.expand(
        "[devices/pci0000:fe/0000:fe:1f.7]\nvendor = 0xbeef\ndevice = 0xcafe\n\
         (proc/iomem)\n|123400000000-1234ffffffff : planted\n\
         (proc/cpuinfo)\n|address sizes\t: 57 bits physical, 1 bits virtual\n",
    );
    let planted = survey(&tree);
    let ids: Vec<_> = planted.functions.values().map(|f| f.id.to_string()).collect();
    assert_eq!(ids, ["beef:cafe"]);
    assert_eq!((planted.physical_bits, planted.iomem[0].name.as_str()), (Some(57), "planted"));
    assert_eq!(planted.iomem.len(), 1);
    let empty = survey(&Tree::new());
    assert!(empty.functions.is_empty() && empty.iomem.is_empty() && empty.physical_bits.is_none());
    assert_eq!(empty.oddities.len(), 3, "{:?}", empty.oddities);
    let nowhere = Roots::below(&tree.roots.dev.join("nowhere"));
    assert!(matches!(
        read(&nowhere, &[], &BTreeSet::new()),
        Err(MachineError::Io { operation: "list", .. })
    ));
}

/// The BTC board after something was done to its first die.
fn spoiled(change: impl FnOnce(&Tree)) -> Survey {
    let tree = Tree::fixture("btc");
    change(&tree);
    survey(&tree)
}

const DIE: &str = "03:00.0";

#[test]
fn a_die_that_answers_all_ones_is_absent() {
    let survey = spoiled(|tree| write(&tree.attribute(DIE, "config"), &[0xff; 64]));
    let die = &survey.functions[&at(DIE)];
    assert_eq!((die.config, die.command), (ConfigSpace::AllOnes, None));
    assert!(die.bars.iter().all(|bar| bar.register.is_none()));
    assert_eq!(states(&survey)[0], DieState::Absent);
    assert!(survey.oddities[0].starts_with("0000:03:00.0: config space reads all-ones"));
}

#[test]
fn sixty_four_bytes_are_enough_and_fewer_are_odd() {
    let cut = |length: usize| {
        spoiled(|tree| {
            let path = tree.attribute(DIE, "config");
            let bytes = fs::read(&path).expect("config space");
            write(&path, &bytes[..length]);
        })
    };
    assert_eq!(cut(64).oddities, [""; 0]);
    for length in [0, 4, 63] {
        let survey = cut(length);
        assert_eq!(survey.functions[&at(DIE)].config, ConfigSpace::Unreadable);
        assert!(matches!(states(&survey)[0], DieState::Parked { .. }), "{length}");
        assert_eq!(survey.oddities.len(), 1);
    }
}

#[test]
fn what_sleeps_is_left_asleep() {
    let survey = spoiled(|tree| {
        write(&tree.attribute("00:02.0", "power_state"), b"D3hot\n");
        // Reading one of these would be told.
        for bdf in ["01:00.0", "02:08.0", DIE] {
            write(&tree.attribute(bdf, "config"), &[0xff; 64]);
        }
    });
    assert_eq!(survey.oddities, [""; 0]);
    assert_eq!(survey.functions[&at("00:02.0")].config, ConfigSpace::Answers);
    for bdf in ["01:00.0", "02:08.0", DIE] {
        assert_eq!(survey.functions[&at(bdf)].config, ConfigSpace::Asleep);
    }
    let switch = survey.functions[&at("01:00.0")].bridge.expect("from the kernel's books");
    assert_eq!((switch.secondary, switch.subordinate), (2, 4));
    assert_eq!(switch.memory.open_range(), AddressRange::new(0xfb00_0000, 32 * MIB));
    assert!(matches!(states(&survey)[0], DieState::Parked { .. }));
}

#[test]
fn a_port_that_runtime_power_management_suspended_is_left_asleep_though_it_says_d0() {
    let survey = spoiled(|tree| {
        let status = tree.attribute("02:08.0", "power/runtime_status");
        fs::create_dir_all(status.parent().expect("a folder")).expect("made");
        write(&status, b"suspended\n");
        write(&tree.attribute(DIE, "config"), &[0xff; 64]);
    });
    assert_eq!(survey.functions[&at("02:08.0")].config, ConfigSpace::Answers);
    assert_eq!(survey.functions[&at(DIE)].config, ConfigSpace::Asleep);
    assert!(matches!(states(&survey)[0], DieState::Parked { .. }));
}

#[test]
fn half_removed_and_broken_functions_become_words() {
    type Change = fn(&Tree);
    let cases: [(Change, &str); 9] = [
        (|t| fs::remove_file(t.attribute(DIE, "vendor")).expect("gone"), "its ids can't be read"),
        (|t| write(&t.attribute(DIE, "device"), b"gibberish"), "device: `gibberish` is no number"),
        (|t| write(&t.attribute(DIE, "device"), b"0x12345678"), "its ids can't be read"),
        (|t| fs::remove_file(t.attribute(DIE, "resource")).expect("gone"), "`resource` is missing"),
        (|t| write(&t.attribute(DIE, "resource"), b"\xff\xfe what"), "1 lines of `resource`"),
        (|t| fs::remove_file(t.attribute(DIE, "config")).expect("gone"), "its config space: "),
        (
            |t| write(&t.roots.devices().join("nonsense/vendor"), b"0x1"),
            "`nonsense` is no PCI address",
        ),
        (|t| write(&t.roots.proc.join("iomem"), b"\x00\x01\n0-0 : ok\n"), "iomem: 1 lines"),
        (
            |t| write(&t.roots.proc.join("iomem"), b"0-0 : System RAM\n  0-0 : Kernel code\n"),
            "iomem: addresses are hidden",
        ),
    ];
    for (change, words) in cases {
        let survey = spoiled(change);
        assert!(
            survey.oddities.iter().any(|odd| odd.contains(words)),
            "{words}: {:?}",
            survey.oddities
        );
        assert!(survey.dies.len() >= 15 && survey.cards.len() == 8);
    }
}

#[test]
fn a_bridge_that_vanished_ends_the_path() {
    let survey = spoiled(|tree| {
        fs::remove_file(tree.roots.function(at("02:08.0"))).expect("gone");
    });
    assert!(survey.die(at(DIE)).expect("the die").path.is_empty());
    assert!(survey.oddities[0].contains("the bridge 0000:02:08.0 above it is missing"));
}
