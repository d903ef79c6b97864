//! What was found, and what phases cost.

use std::{collections::BTreeMap, fmt};

use crate::phase::{Kind, Phase};

/// A rule that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Two dies answer in one slot.
    TwoPaths,
    /// Two functions of one bus claim the slot: a window was opened before the other was shut.
    Rivals,
    /// The neighbour's windows, BARs or decode changed.
    Neighbour,
    /// A die, or what is above it, was reset.
    Reset,
    /// A BAR0 register was written.
    Registers,
    /// `PMC_ENABLE` was written.
    PmcEnable,
    /// A slot was touched while no die was in it.
    Stray,
    /// A quiet phase was not quiet.
    Quiet,
    /// A warm swap wrote to a die.
    DieWritten,
    /// A warm swap took too many writes.
    WarmCost,
    /// The evidence is incomplete or does not fit together.
    Evidence,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which.
    pub rule: Rule,
    /// In which phase.
    pub phase: String,
    /// What happened.
    pub message: String,
}

impl Finding {
    pub(super) fn new(rule: Rule, phase: &str, message: String) -> Self {
        Self { rule, phase: phase.to_owned(), message }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, in phase `{}`: {}", self.rule, self.phase, self.message)
    }
}

/// What one phase cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The phase.
    pub phase: Phase,
    /// Config writes to bridges above dies.
    pub to_gates: usize,
    /// Config writes to dies.
    pub to_dies: usize,
    /// Reads of BAR0 registers of dies.
    pub register_reads: usize,
}

/// What the judge says.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Broken rules, in order.
    pub findings: Vec<Finding>,
    /// Every phase, in order.
    pub costs: Vec<Cost>,
}

impl Verdict {
    /// Whether no rule was broken.
    pub fn is_good(&self) -> bool {
        self.findings.is_empty()
    }
}

/// `12 times 2, 3 times 4`.
fn histogram(values: impl Iterator<Item = usize>) -> String {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let parts = counts.iter().map(|(value, count)| format!("{count} times {value}"));
    parts.collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in [Kind::Quiet, Kind::Cold, Kind::Warm, Kind::Park, Kind::Free] {
            let of_kind = || self.costs.iter().filter(|cost| cost.phase.kind == kind);
            if of_kind().next().is_some() {
                let (gates, dies) = (
                    histogram(of_kind().map(|c| c.to_gates)),
                    histogram(of_kind().map(|c| c.to_dies)),
                );
                writeln!(f, "judge: {kind}: config writes to gates {gates}; to dies {dies}")?;
            }
        }
        for finding in &self.findings {
            writeln!(f, "judge: {finding}")?;
        }
        write!(f, "judge: {} phases, {} findings", self.costs.len(), self.findings.len())
    }
}
