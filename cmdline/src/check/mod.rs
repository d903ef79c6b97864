//! What runs against what is installed, in findings that each name the next step. Files only: no
//! device is touched.

mod dies;
mod installed;
mod records;

use std::fmt;

use serde::Serialize;

use crate::{
    apply::{Disk, Record, Store, no_faults},
    error::Result,
    loader::{Loader, detect},
    machine::Machine,
    parker::{Choice, choose},
    plan::Options,
    root::Root,
    trial::{TrialState, state},
};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Fine,
    /// Good to know.
    Note,
    /// Something to mend.
    Mend,
}

/// One thing that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What it is about.
    pub topic: &'static str,
    /// How much it matters.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do next; nothing where all is well.
    pub next: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.level {
            Level::Fine => "ok  ",
            Level::Note => "note",
            Level::Mend => "MEND",
        };
        write!(f, "{mark} {:<10} {}", self.topic, self.found)?;
        if let Some(next) = &self.next {
            write!(f, "\n{:>16}next: {next}", "")?;
        }
        Ok(())
    }
}

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The findings.
    pub findings: Vec<Finding>,
    /// Where the trial stands, where there is one.
    pub trial: Option<TrialState>,
}

impl Report {
    /// Whether nothing has to be mended.
    pub fn passes(&self) -> bool {
        self.findings.iter().all(|finding| finding.level != Level::Mend)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))
    }
}

/// What findings are made from.
struct Scene<'a> {
    root: &'a Root,
    machine: &'a Machine,
    installed: Option<Record>,
    trial: Option<(Record, TrialState)>,
    /// The parker that is installed, on trial, or that would be chosen.
    choice: Option<Choice>,
    loader: Option<Loader>,
    options: Options,
    found: Vec<Finding>,
}

impl Scene<'_> {
    fn fine(&mut self, topic: &'static str, found: impl Into<String>) {
        self.found.push(Finding { topic, level: Level::Fine, found: found.into(), next: None });
    }

    fn note(&mut self, topic: &'static str, found: impl Into<String>, next: impl Into<String>) {
        let next = Some(next.into()).filter(|next: &String| !next.is_empty());
        self.found.push(Finding { topic, level: Level::Note, found: found.into(), next });
    }

    fn mend(&mut self, topic: &'static str, found: impl Into<String>, next: impl Into<String>) {
        self.found.push(Finding {
            topic,
            level: Level::Mend,
            found: found.into(),
            next: Some(next.into()),
        });
    }

    fn trial_runs(&self) -> bool {
        matches!(self.trial, Some((_, TrialState::Running)))
    }

    /// Whether this boot is one with the dies parked, by all that is known.
    fn should_be_parked(&self) -> bool {
        let line = &self.machine.running.line;
        let asked = self.choice.as_ref().is_some_and(|choice| line.meets(&choice.wants));
        self.trial_runs() || (self.installed.is_some() && asked)
    }
}

/// Looks at everything.
pub fn check(root: &Root, machine: &Machine, options: Options) -> Result<Report> {
    let disk = Disk::new(root, &no_faults);
    let installed = Store::installed(disk).load()?;
    let trial_record = Store::trial(disk).load()?;
    let trial = match trial_record {
        Some(record) => match record.trial.clone() {
            Some(trial) => Some((record, state(root, machine, &trial)?)),
            None => None,
        },
        None => None,
    };
    let known = installed.as_ref().or(trial.as_ref().map(|(record, _)| record));
    let choice = known.map(|record| record.purpose.choice.clone());
    let mut scene = Scene {
        root,
        machine,
        choice,
        loader: detect(root, options.loader).ok(),
        installed,
        trial,
        options,
        found: Vec::new(),
    };
    if scene.choice.is_none() {
        match choose(machine, options.parker) {
            Ok(choice) => scene.choice = Some(choice),
            Err(error) => scene.mend("parker", error.to_string(), "see above"),
        }
    }
    records::look(&mut scene)?;
    installed::look(&mut scene)?;
    dies::look(&mut scene);
    let trial = scene.trial.map(|(_, state)| state);
    Ok(Report { findings: scene.found, trial })
}
