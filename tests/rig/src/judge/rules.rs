//! What is forbidden when.

use std::collections::{BTreeMap, BTreeSet};

use vfio_park::{
    Bdf, Slot,
    model::{ConfigWrite, reg},
};

use super::{
    Evidence,
    phases::{Chapter, chapters},
    replay::{Decoding, Replay},
    verdict::{Cost, Finding, Rule, Verdict},
};
use crate::{
    log::{Event, What},
    phase::{Kind, Phase},
    topology::{Role, Topology},
};

const PMC_ENABLE: std::ops::Range<u64> = 0x200..0x204;
const BUS_RESET: u32 = 1 << 6;
/// Config writes of a warm swap: within a card, or where the card's inner gate stands right.
const CHEAP: usize = 2;
/// Config writes of any other warm swap, at most.
const DEAR: usize = 4;

/// Judges all of it.
pub(super) fn judge(evidence: &Evidence) -> Verdict {
    let (chapters, mut findings) = chapters(evidence);
    let topology = &evidence.topology;
    if topology.with_role(Role::Die).next().is_none() || topology.slots.is_empty() {
        findings.push(Finding::new(Rule::Evidence, "", "no die or no slot is known".to_owned()));
    }
    let mut bench =
        Bench { topology, replay: Replay::new(topology), findings, wrong: BTreeSet::new() };
    let mut costs = Vec::new();
    let mut neighbour = BTreeMap::new();
    for (number, chapter) in chapters.iter().enumerate() {
        if number == 1 {
            // As boot left it, so it stays.
            neighbour = bench.neighbour();
            bench.paths(&chapter.phase);
        }
        costs.push(bench.chapter(chapter, &neighbour));
    }
    Verdict { findings: bench.findings, costs }
}

struct Bench<'a> {
    topology: &'a Topology,
    replay: Replay<'a>,
    findings: Vec<Finding>,
    /// What is wrong with the paths just now: told once, when it begins.
    wrong: BTreeSet<(Rule, String)>,
}

/// What was open before a warm phase.
struct Before {
    open: Vec<Bdf>,
    right: Vec<Bdf>,
}

impl Bench<'_> {
    fn find(&mut self, rule: Rule, phase: &Phase, message: String) {
        self.findings.push(Finding::new(rule, &phase.to_string(), message));
    }

    fn role(&self, bdf: Bdf) -> Role {
        self.topology.nodes.get(&bdf).map_or(Role::Board, |node| node.role)
    }

    fn neighbour(&self) -> BTreeMap<Bdf, Decoding> {
        let functions = self.topology.with_role(Role::Neighbour);
        functions.map(|bdf| (bdf, self.replay.decoding(bdf))).collect()
    }

    fn chapter(&mut self, chapter: &Chapter<'_>, neighbour: &BTreeMap<Bdf, Decoding>) -> Cost {
        let phase = &chapter.phase;
        let before: Vec<Before> =
            self.topology.slots.iter().map(|slot| self.before(*slot)).collect();
        for write in &chapter.writes {
            self.replay.apply(write);
            if phase.kind != Kind::Boot {
                self.write(phase, write, neighbour);
            }
        }
        let mut cost = Cost { phase: phase.clone(), to_gates: 0, to_dies: 0, register_reads: 0 };
        for write in &chapter.writes {
            match self.role(write.bdf) {
                Role::Gate => cost.to_gates += 1,
                Role::Die => cost.to_dies += 1,
                Role::Neighbour | Role::Rig | Role::Board => {}
            }
        }
        for event in &chapter.events {
            let role = self.topology.named(&event.device).map(|bdf| self.role(bdf));
            if role == Some(Role::Die) && matches!(event.what, What::Read { bar: 0, .. }) {
                cost.register_reads += 1;
            }
            if phase.kind != Kind::Boot {
                self.event(phase, event, role);
            }
        }
        if phase.kind == Kind::Warm {
            self.warm(phase, &before, &cost);
        }
        cost
    }

    fn before(&self, slot: Slot) -> Before {
        let dies = self.topology.with_role(Role::Die);
        let right = dies.filter(|die| self.replay.inner_gate_right(*die, slot)).collect();
        Before { open: self.replay.open_dies(slot), right }
    }

    /// Rules about a single write, which has been applied.
    fn write(&mut self, phase: &Phase, write: &ConfigWrite, neighbour: &BTreeMap<Bdf, Decoding>) {
        let role = self.role(write.bdf);
        let text = format!("{} @{:#x} <- {:#x}", write.bdf, write.offset, write.value);
        if phase.kind == Kind::Quiet && role != Role::Rig {
            self.find(Rule::Quiet, phase, format!("config write {text}"));
        }
        if phase.kind == Kind::Warm && role == Role::Die {
            self.find(Rule::DieWritten, phase, text.clone());
        }
        let bridge = self.topology.nodes.get(&write.bdf).is_some_and(|node| node.bridge);
        if bridge && write.offset == reg::BRIDGE_CONTROL && write.value & BUS_RESET != 0 {
            self.find(Rule::Reset, phase, format!("bus reset below {text}"));
        }
        let was = neighbour.get(&write.bdf);
        if was.is_some_and(|was| self.replay.decoding(write.bdf) != *was) {
            self.find(Rule::Neighbour, phase, text);
        }
        if matches!(role, Role::Die | Role::Gate | Role::Neighbour) {
            self.paths(phase);
        }
    }

    /// At most one path, at most one claim on a bus.
    fn paths(&mut self, phase: &Phase) {
        let list = |functions: &[Bdf]| {
            functions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
        };
        let mut wrong = BTreeSet::new();
        for slot in &self.topology.slots {
            let open = self.replay.open_dies(*slot);
            if open.len() > 1 {
                wrong.insert((Rule::TwoPaths, format!("{} both answer at {slot}", list(&open))));
            }
            if let Some(rivals) = self.replay.rivals(*slot) {
                let message = format!("{} of one bus both claim {slot}", list(&rivals));
                wrong.insert((Rule::Rivals, message));
            }
        }
        let before = std::mem::replace(&mut self.wrong, wrong);
        let new: Vec<_> = self.wrong.difference(&before).cloned().collect();
        for (rule, message) in new {
            self.find(rule, phase, message);
        }
    }

    /// Rules about what a device saw.
    fn event(&mut self, phase: &Phase, event: &Event, role: Option<Role>) {
        let device = &event.device;
        match (&event.what, role) {
            (What::Reset, Some(Role::Die | Role::Neighbour)) => {
                self.find(Rule::Reset, phase, format!("{device} was reset"));
            }
            (What::Write { bar: 0, offset, size, value }, Some(Role::Die | Role::Neighbour)) => {
                let end = offset + *size as u64;
                let enable = *offset < PMC_ENABLE.end && PMC_ENABLE.start < end;
                let rule = if enable { Rule::PmcEnable } else { Rule::Registers };
                if !phase.registers {
                    let message = format!("{device} BAR0+{offset:#x} <- {value:#x}");
                    self.find(rule, phase, message);
                }
            }
            (What::Read { offset, .. } | What::Write { offset, .. }, Some(Role::Rig))
                if !phase.stray =>
            {
                let message = format!("{device}: nobody was at offset {offset:#x} of the slot");
                self.find(Rule::Stray, phase, message);
            }
            (_, None) => {
                let message = format!("{device} is in the log, but not in the machine");
                self.find(Rule::Evidence, phase, message);
            }
            _ => {}
        }
    }

    /// What a warm swap may cost.
    fn warm(&mut self, phase: &Phase, before: &[Before], cost: &Cost) {
        let mut allowed = 0;
        for (slot, before) in self.topology.slots.iter().zip(before) {
            let open = self.replay.open_dies(*slot);
            let Some(die) = open.first().filter(|_| open != before.open) else { continue };
            let card = |die: Bdf| self.topology.path(die).last().copied();
            let same_card = before.open.first().is_some_and(|old| card(*old) == card(*die));
            allowed += if same_card || before.right.contains(die) { CHEAP } else { DEAR };
        }
        if cost.to_gates > allowed {
            let message = format!("{} writes to gates where {allowed} are allowed", cost.to_gates);
            self.find(Rule::WarmCost, phase, message);
        }
    }
}
