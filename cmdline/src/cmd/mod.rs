//! The verbs.

mod install;
mod remove;
mod trial;

use std::io::{self, Write};

use serde::Serialize;

use crate::{
    apply::{Commands, Disk, Faults, Worker},
    cli::{Choices, Cli, Verb},
    error::{Error, Result},
    exit::Exit,
    root::Root,
};

/// Version of the JSON output.
const API: u32 = 1;

/// What a verb works with.
pub struct Context<'a> {
    /// The command line.
    pub cli: &'a Cli,
    /// The file system.
    pub root: &'a Root,
    /// Runs commands; `None` where the root is not the running system.
    pub commands: Option<&'a dyn Commands>,
    /// Crash points.
    pub faults: &'a Faults<'a>,
    /// Where results go.
    pub out: &'a mut dyn Write,
}

impl<'a> Context<'a> {
    /// Carries out and takes back.
    pub fn worker(&self) -> Worker<'a> {
        Worker { disk: Disk::new(self.root, self.faults), commands: self.commands }
    }

    /// Prints a result, as text or as JSON.
    fn say(&mut self, text: &str, value: &impl Serialize) -> Result<()> {
        let written = if self.cli.json {
            let wrapped = serde_json::json!({ "api": API, "result": value });
            writeln!(self.out, "{wrapped:#}")
        } else {
            writeln!(self.out, "{}", text.trim_end())
        };
        match written {
            // Whoever read it has read enough.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(Error::io("write to", "standard output")),
        }
    }
}

/// Runs the verb.
pub fn run(context: &mut Context<'_>) -> Result<Exit> {
    match context.cli.verb.clone() {
        Verb::Plan(choices) | Verb::Install { choices, dry_run: true } => {
            install::plan(context, &choices)
        }
        Verb::Install { choices, dry_run: false } => install::install(context, &choices),
        Verb::Trial { choices, dry_run } => trial::trial(context, &choices, dry_run),
        Verb::Confirm => trial::confirm(context),
        Verb::Check(choices) => trial::check(context, &choices),
        Verb::Remove { dry_run: true, merge } => remove::plan(context, merge),
        Verb::Remove { dry_run: false, merge } => remove::remove(context, merge),
    }
}
