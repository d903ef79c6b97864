//! Hand-made runs: a good one, and a bad one for every rule.

use std::{collections::BTreeMap, time::Duration};

use vfio_park::{
    Bdf, Slot,
    model::{ConfigWrite, reg},
};

use super::{Evidence, Rule, Verdict};
use crate::{
    device::MARKER_OFFSET,
    log::{Event, What},
    phase::encode,
    topology::{Node, Role, Topology},
};

const BACKGROUND: &str = "00:1e.0";
/// Two cards: root port, upstream port, downstream ports, dies.
const CARDS: [(&str, &str, [&str; 2], [&str; 2]); 2] = [
    ("00:02.0", "01:00.0", ["02:08.0", "02:10.0"], ["03:00.0", "04:00.0"]),
    ("00:03.0", "05:00.0", ["06:08.0", "06:10.0"], ["07:00.0", "08:00.0"]),
];
const NEIGHBOUR: [&str; 2] = ["00:10.0", "09:00.0"];

fn bdf(text: &str) -> Bdf {
    text.parse().expect("an address")
}

fn topology() -> Topology {
    let mut nodes = BTreeMap::new();
    let mut add = |at: &str, name: String, role, parent: Option<&str>, bridge| {
        nodes.insert(bdf(at), Node { name, role, parent: parent.map(bdf), bridge });
    };
    for (card, (root, up, downs, dies)) in CARDS.into_iter().enumerate() {
        add(root, format!("rp{card}"), Role::Gate, None, true);
        add(up, format!("up{card}"), Role::Gate, Some(root), true);
        for half in 0..2 {
            let die = card * 2 + half;
            add(downs[half], format!("dn{die}"), Role::Gate, Some(up), true);
            add(dies[half], format!("die{die}"), Role::Die, Some(downs[half]), false);
        }
    }
    add(NEIGHBOUR[0], "neighbour-port".to_owned(), Role::Neighbour, None, true);
    add(NEIGHBOUR[1], "neighbour".to_owned(), Role::Neighbour, Some(NEIGHBOUR[0]), false);
    add(BACKGROUND, "background0".to_owned(), Role::Rig, None, false);
    Topology { nodes, slots: vec![Slot::BTC_S37] }
}

/// A run that is being made up.
struct Run(Evidence);

impl Run {
    /// Booted: every die placed, every bridge set up and shut but the upstream ports.
    fn booted() -> Self {
        let mut run = Self(Evidence { topology: topology(), ..Evidence::default() });
        for (root, up, downs, dies) in CARDS {
            for bridge in [root, up, downs[0], downs[1]] {
                run.write(bridge, reg::PREF_BASE_UPPER, 0xff);
                run.write(bridge, reg::PREF_LIMIT_UPPER, 0xf);
                run.write(bridge, reg::PREF_BASE, 0xfff1_0001);
                run.write(bridge, reg::COMMAND, 6);
            }
            run.open(up);
            for die in dies {
                run.write(die, reg::BAR0 + 4, 0xc);
                run.write(die, reg::BAR0 + 8, 0xc);
                run.write(die, reg::COMMAND, 6);
            }
        }
        run.write(NEIGHBOUR[0], reg::MEMORY_BASE, 0x5000_4000);
        run.write(NEIGHBOUR[0], reg::COMMAND, 6);
        run.write(NEIGHBOUR[1], reg::BAR0, 0x4000_0000);
        run.write(NEIGHBOUR[1], reg::COMMAND, 6);
        run.mark("free boot done");
        run
    }

    fn write(&mut self, at: &str, offset: u16, value: u32) {
        let size = if matches!(offset, reg::COMMAND | reg::BRIDGE_CONTROL) { 2 } else { 4 };
        let at_time = Duration::from_millis(self.0.writes.len() as u64);
        self.0.writes.push(ConfigWrite { at: at_time, bdf: bdf(at), offset, size, value });
    }

    fn event(&mut self, device: &str, what: What) {
        self.0.events.push(Event { at: Duration::ZERO, device: device.to_owned(), what });
    }

    fn mark(&mut self, text: &str) {
        for (offset, word) in (MARKER_OFFSET..).step_by(4).zip(encode(text).chunks(4)) {
            let word = word.try_into().expect("four bytes");
            self.write(BACKGROUND, offset, u32::from_le_bytes(word));
        }
        self.event("background0", What::Marker { text: text.to_owned() });
    }

    fn open(&mut self, bridge: &str) {
        self.write(bridge, reg::PREF_BASE_UPPER, 0xc);
    }

    fn shut(&mut self, bridge: &str) {
        self.write(bridge, reg::PREF_BASE_UPPER, 0xff);
    }

    /// In a phase of its own, die 0 gets the slot.
    fn with_die_0_open() -> Self {
        let mut run = Self::booted();
        run.mark("cold die 0");
        run.open(CARDS[0].2[0]);
        run.open(CARDS[0].0);
        run
    }

    fn judge(&self) -> Verdict {
        self.0.judge()
    }

    /// The rules that were broken, each once.
    fn broken(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = self.judge().findings.iter().map(|found| found.rule).collect();
        rules.sort();
        rules.dedup();
        rules
    }
}

fn access(offset: u64) -> What {
    What::Write { bar: 0, offset, size: 4, value: u64::from(u32::MAX) }
}

#[test]
fn a_good_run_is_good_and_its_costs_are_told() {
    let mut run = Run::booted();
    run.mark("quiet modprobe slotwin");
    run.mark("cold die 0");
    run.write(CARDS[0].3[0], reg::COMMAND, 7);
    run.open(CARDS[0].2[0]);
    run.open(CARDS[0].0);
    run.event("die0", What::Read { bar: 0, offset: 0, size: 4, value: 0x0f22_d0a1 });
    run.mark("warm die 1, same card");
    run.shut(CARDS[0].2[0]);
    run.open(CARDS[0].2[1]);
    run.mark("warm die 2, other card, inner gate shut");
    run.shut(CARDS[0].0);
    run.open(CARDS[1].2[0]);
    run.open(CARDS[1].0);
    run.mark("warm die 1 again, inner gate right");
    run.shut(CARDS[1].0);
    run.open(CARDS[0].0);
    run.mark("warm die 3, inner gate wrong");
    run.shut(CARDS[0].0);
    run.shut(CARDS[1].2[0]);
    run.open(CARDS[1].2[1]);
    run.open(CARDS[1].0);
    run.mark("warm die 3, open already");
    run.mark("free+stray shut, and a look at the slot");
    run.shut(CARDS[1].0);
    run.event("background0", What::Read { bar: 0, offset: 0, size: 4, value: 0xffff_ffff });
    run.mark("cold+registers the vendor's driver");
    run.event("die3", access(0x200));
    run.write(NEIGHBOUR[1], reg::COMMAND, 0x106);
    let verdict = run.judge();
    assert_eq!(verdict.findings, []);
    let costs: Vec<_> =
        verdict.costs[2..].iter().map(|cost| (cost.to_gates, cost.to_dies)).collect();
    assert_eq!(costs, [(0, 0), (2, 1), (2, 0), (3, 0), (2, 0), (4, 0), (0, 0), (1, 0), (0, 0)]);
    assert_eq!(verdict.costs[3].register_reads, 1);
    assert!(verdict.to_string().contains("warm: config writes to gates 1 times 0, 2 times 2, 1 times 3, 1 times 4; to dies 5 times 0"), "{verdict}");
}

#[test]
fn two_paths_are_found() {
    let mut run = Run::with_die_0_open();
    run.open(CARDS[1].2[1]);
    run.open(CARDS[1].0);
    assert_eq!(run.broken(), [Rule::TwoPaths, Rule::Rivals]);
    assert!(run.judge().findings[0].message.contains("0000:03:00.0 and 0000:08:00.0"));
}

#[test]
fn a_window_opened_before_the_other_is_shut_is_found() {
    // Behind the other card's root port nobody listens, and yet two ports claim the slot.
    let mut run = Run::with_die_0_open();
    run.open(CARDS[1].0);
    run.shut(CARDS[0].0);
    assert_eq!(run.broken(), [Rule::Rivals]);
    // The same inside a card that is shut.
    let mut run = Run::booted();
    run.open(CARDS[0].2[0]);
    run.open(CARDS[0].2[1]);
    assert_eq!(run.broken(), [Rule::Rivals]);
}

#[test]
fn rivals_left_by_boot_are_found() {
    let mut run = Run(Run::booted().0);
    run.0.writes.retain(|write| write.bdf != bdf(BACKGROUND));
    run.0.events.clear();
    run.open(CARDS[0].0);
    run.open(CARDS[1].0);
    run.mark("free boot done");
    assert_eq!(run.broken(), [Rule::Rivals]);
}

#[test]
fn memory_decode_and_sleep_are_heeded() {
    for (offset, value) in [(reg::COMMAND, 4), (reg::PMCSR, 3)] {
        let mut run = Run::with_die_0_open();
        run.write(CARDS[0].3[0], offset, value);
        run.open(CARDS[0].2[1]);
        // The ports are rivals, but only one die answers.
        assert_eq!(run.broken(), [Rule::Rivals]);
    }
    let mut run = Run::with_die_0_open();
    run.write(CARDS[0].0, reg::COMMAND, 4);
    run.open(CARDS[1].0);
    assert_eq!(run.broken(), []);
}

#[test]
fn a_neighbour_that_is_touched_is_found() {
    for (at, offset, value) in [
        (NEIGHBOUR[0], reg::MEMORY_BASE, 0x6000_4000),
        (NEIGHBOUR[0], reg::PREF_BASE_UPPER, 0xc),
        (NEIGHBOUR[0], reg::COMMAND, 4),
        (NEIGHBOUR[1], reg::BAR0, 0x5000_0000),
        (NEIGHBOUR[1], reg::COMMAND, 0),
    ] {
        let mut run = Run::booted();
        run.write(at, offset, value);
        assert_eq!(run.broken(), [Rule::Neighbour], "{at} {offset:#x}");
    }
    let mut run = Run::booted();
    run.write(NEIGHBOUR[0], reg::MEMORY_BASE, 0x5000_4000);
    assert_eq!(run.broken(), [], "the same once more is no change");
}

#[test]
fn resets_are_found() {
    let mut run = Run::booted();
    run.event("die2", What::Reset);
    assert_eq!(run.broken(), [Rule::Reset]);
    let mut run = Run::booted();
    run.write(CARDS[0].2[0], reg::BRIDGE_CONTROL, 0x40);
    assert_eq!(run.broken(), [Rule::Reset]);
}

#[test]
fn register_writes_are_found() {
    for (device, offset, rule) in [
        ("die1", 0x1fe, Rule::PmcEnable),
        ("die1", 0x200, Rule::PmcEnable),
        ("die1", 0x204, Rule::Registers),
        ("neighbour", 0x140, Rule::Registers),
    ] {
        for phase in ["free x", "cold x", "warm x", "park x", "quiet x"] {
            let mut run = Run::booted();
            run.mark(phase);
            run.event(device, access(offset));
            assert_eq!(run.broken(), [rule], "{device} {offset:#x} {phase}");
        }
    }
}

#[test]
fn strays_are_found() {
    for what in [access(8), What::Read { bar: 0, offset: 0, size: 4, value: 0xffff_ffff }] {
        let mut run = Run::booted();
        run.event("background0", what);
        assert_eq!(run.broken(), [Rule::Stray]);
    }
}

#[test]
fn noise_in_a_quiet_phase_is_found() {
    for at in [CARDS[0].0, CARDS[1].3[1], "00:1f.0"] {
        let mut run = Run::booted();
        run.mark("quiet modprobe slotwin");
        run.write(at, 0x3c, 0);
        assert_eq!(run.broken(), [Rule::Quiet], "{at}");
    }
}

#[test]
fn a_warm_swap_that_writes_to_a_die_is_found() {
    let mut run = Run::with_die_0_open();
    run.mark("warm die 1");
    run.shut(CARDS[0].2[0]);
    run.write(CARDS[0].3[1], reg::COMMAND, 6);
    run.open(CARDS[0].2[1]);
    assert_eq!(run.broken(), [Rule::DieWritten]);
}

#[test]
fn a_dear_warm_swap_is_found() {
    // Four writes within a card.
    let mut run = Run::with_die_0_open();
    run.mark("warm die 1");
    run.shut(CARDS[0].0);
    run.shut(CARDS[0].2[0]);
    run.open(CARDS[0].2[1]);
    run.open(CARDS[0].0);
    assert_eq!(run.broken(), [Rule::WarmCost]);
    // Five across cards.
    let mut run = Run::with_die_0_open();
    run.mark("warm die 3");
    run.shut(CARDS[0].0);
    run.shut(CARDS[0].2[0]);
    run.shut(CARDS[1].2[0]);
    run.open(CARDS[1].2[1]);
    run.open(CARDS[1].0);
    assert_eq!(run.broken(), [Rule::WarmCost]);
    // Three across cards, where the inner gate stood right.
    let mut run = Run::with_die_0_open();
    run.open(CARDS[1].2[1]);
    run.mark("warm die 3");
    run.shut(CARDS[0].0);
    run.open(CARDS[1].2[1]);
    run.open(CARDS[1].0);
    assert_eq!(run.broken(), [Rule::WarmCost]);
    // Any, for a die that is open already.
    let mut run = Run::with_die_0_open();
    run.mark("warm die 0");
    run.open(CARDS[0].0);
    assert_eq!(run.broken(), [Rule::WarmCost]);
}

#[test]
fn evidence_with_holes_is_found() {
    let mut run = Run::booted();
    run.0.events.clear();
    assert_eq!(run.broken(), [Rule::Evidence], "a marker that no device saw");
    let mut run = Run::booted();
    run.mark("swap");
    assert_eq!(run.broken(), [Rule::Evidence], "a marker of no kind");
    let mut run = Run::booted();
    run.event("die9", What::Reset);
    assert_eq!(run.broken(), [Rule::Evidence], "a device that is not there");
    assert_eq!(Run(Evidence::default()).broken(), [Rule::Evidence], "nothing at all");
}
