//! Carrying a plan out, step by step, with the way back written before each.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    commands::Commands,
    disk::{Disk, Point},
    record::{FileRecord, Phase, Record, Recorded, Store, Stored},
    undo::{OnEdit, undo},
};
use crate::{
    error::{Error, Result},
    initramfs::archive_of,
    plan::{Expect, Output, Plan, Run, Step},
    trial::Trial,
};

/// How carrying out ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything was so already.
    Unchanged,
    /// Done and read back.
    Changed,
    /// Files are changed; these commands have to be run inside the system that they belong to.
    Pending(Vec<String>),
}

/// Carries out and takes back.
pub struct Worker<'a> {
    /// Writes files.
    pub disk: Disk<'a>,
    /// Runs commands; `None` where the root is not the running system.
    pub commands: Option<&'a dyn Commands>,
}

impl Worker<'_> {
    /// Carries `plan` out. A step that fails takes everything back.
    pub fn apply(&self, store: &Store<'_>, plan: &Plan, trial: Option<Trial>) -> Result<Outcome> {
        if plan.is_empty() {
            return Ok(Outcome::Unchanged);
        }
        store.open()?;
        let steps: Result<Vec<_>> = plan.steps.iter().map(|step| recorded(store, step)).collect();
        let mut record = Record::new(plan.purpose.clone(), steps?, trial);
        store.save(&record)?;
        self.carry_on(store, &mut record)
    }

    /// Carries out what a record says, from wherever it got to.
    pub(super) fn carry_on(&self, store: &Store<'_>, record: &mut Record) -> Result<Outcome> {
        for index in 0..record.steps.len() {
            if let Err(failure) = self.step(store, record, index) {
                return Err(match undo(self, store, record, OnEdit::Refuse) {
                    Ok(_) => failure,
                    Err(undo) => {
                        Error::NotUndone { failure: failure.to_string(), undo: undo.to_string() }
                    }
                });
            }
        }
        record.phase = Phase::Applied;
        store.save(record)?;
        store.prune(record)?;
        Ok(match record.pending.as_slice() {
            [] => Outcome::Changed,
            pending => Outcome::Pending(pending.to_vec()),
        })
    }

    fn step(&self, store: &Store<'_>, record: &mut Record, index: usize) -> Result<()> {
        match record.steps[index].clone() {
            Recorded::Folder { path } => self.disk.make_folder(&path),
            Recorded::File(file) => self.file(store, &file),
            Recorded::Run { done: true, .. } => Ok(()),
            Recorded::Run { run, outputs, .. } => self.run(store, record, index, &run, outputs),
            Recorded::Append { image, files, expect } => self.append(&image, &files, &expect),
        }
    }

    fn file(&self, store: &Store<'_>, file: &FileRecord) -> Result<()> {
        let now = self.disk.root().content(&file.path)?;
        let now = now.as_ref().map(Stored::of);
        if now == file.after {
            return self.disk.sweep(&file.path);
        }
        if now != file.before {
            return Err(Error::refused(
                format!("{} changed while it was being worked on", file.path.display()),
                "Run the command again",
            ));
        }
        let after = file.after.as_ref().map(|stored| store.fetch(stored)).transpose()?;
        self.disk.put(&file.path, after.as_ref())
    }

    fn run(
        &self,
        store: &Store<'_>,
        record: &mut Record,
        index: usize,
        run: &Run,
        known: Option<Vec<FileRecord>>,
    ) -> Result<()> {
        let Some(commands) = self.commands else {
            record.pending.push(run.command());
            return Ok(());
        };
        // After a crash within the command, what was kept first is still the original.
        let mut outputs = known.map_or_else(|| self.snapshot(store, run), Ok)?;
        set(record, index, &outputs, false);
        store.save(record)?;
        self.disk.at(Point::BeforeCommand, &record_path(run));
        let ended = commands.run(&run.argv)?;
        self.disk.at(Point::AfterCommand, &record_path(run));
        for path in self.written(run)? {
            let after = self.disk.root().content(&path)?.as_ref().map(Stored::of);
            match outputs.iter_mut().find(|output| output.path == path) {
                Some(output) => output.after = after,
                None => outputs.push(FileRecord { path, before: None, after }),
            }
        }
        set(record, index, &outputs, false);
        self.verify(&run.command(), &run.expect, &ended.last_words, ended.success)?;
        outputs.retain(|output| output.before != output.after);
        set(record, index, &outputs, true);
        store.save(record)
    }

    /// Reads back what a command wrote.
    pub(super) fn verify(
        &self,
        command: &str,
        expect: &[Expect],
        said: &str,
        success: bool,
    ) -> Result<()> {
        for one in expect {
            if let Some(complaint) = one.complaint(self.disk.root())? {
                let ended = if success { "ended with 0" } else { "failed" };
                let said =
                    if said.is_empty() { String::new() } else { format!("\nit said:\n{said}") };
                let complaint = format!("{ended} and {complaint}{said}");
                return Err(Error::Command { command: command.to_owned(), complaint });
            }
        }
        // Nothing to read back: then its exit code is all there is.
        if expect.is_empty() && !success {
            let complaint = format!("failed\nit said:\n{said}");
            return Err(Error::Command { command: command.to_owned(), complaint });
        }
        Ok(())
    }

    fn append(&self, image: &Path, files: &[(String, String)], expect: &[Expect]) -> Result<()> {
        let Some(content) = self.disk.root().content(image)? else {
            return if self.commands.is_some() {
                Err(Error::refused(
                    format!("{} is not there", image.display()),
                    "Run the command again",
                ))
            } else {
                Ok(())
            };
        };
        let members: Vec<_> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
        let archive = archive_of(&members);
        if !content.bytes.ends_with(&archive) {
            let mut bytes = content.bytes.clone();
            bytes.resize(bytes.len().next_multiple_of(512), 0);
            bytes.extend_from_slice(&archive);
            self.disk.replace(image, &content.with(bytes))?;
        }
        self.verify("append", expect, "", true)
    }

    fn snapshot(&self, store: &Store<'_>, run: &Run) -> Result<Vec<FileRecord>> {
        let mut records = Vec::new();
        for path in self.written(run)? {
            let content = self.disk.root().content(&path)?;
            let before = content.as_ref().map(|content| store.keep(content)).transpose()?;
            records.push(FileRecord { path, before, after: None });
        }
        Ok(records)
    }

    fn written(&self, run: &Run) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for output in &run.outputs {
            match output {
                Output::File(path) => paths.push(self.disk.root().real(path)?),
                Output::Tree(folder) => self.tree(folder, &mut paths)?,
            }
        }
        Ok(paths)
    }

    fn tree(&self, folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
        for name in self.disk.root().list(folder)? {
            let path = folder.join(name);
            if self.disk.root().is_dir(&path) {
                self.tree(&path, paths)?;
            } else {
                paths.push(path);
            }
        }
        Ok(())
    }
}

fn record_path(run: &Run) -> PathBuf {
    run.argv.first().map(PathBuf::from).unwrap_or_default()
}

fn set(record: &mut Record, index: usize, files: &[FileRecord], ended: bool) {
    if let Recorded::Run { outputs, done, .. } = &mut record.steps[index] {
        *outputs = Some(files.to_vec());
        *done = ended;
    }
}

fn recorded(store: &Store<'_>, step: &Step) -> Result<Recorded> {
    Ok(match step {
        Step::MakeFolder(path) => Recorded::Folder { path: path.clone() },
        Step::File(change) => Recorded::File(FileRecord {
            path: change.path.clone(),
            before: change.before.as_ref().map(|c| store.keep(c)).transpose()?,
            after: change.after.as_ref().map(|c| store.keep(c)).transpose()?,
        }),
        Step::Run(run) => Recorded::Run { run: run.clone(), outputs: None, done: false },
        Step::Append { image, files, expect } => {
            Recorded::Append { image: image.clone(), files: files.clone(), expect: expect.clone() }
        }
    })
}

/// Finishes what a crash interrupted: an installation forwards, taking back to its end, a trial
/// backwards. Says what it did.
pub fn recover(worker: &Worker<'_>) -> Result<Vec<String>> {
    let mut told = Vec::new();
    let stores =
        [(Store::trial(worker.disk), "trial"), (Store::installed(worker.disk), "installation")];
    for (store, name) in stores {
        let Some(mut record) = store.load()? else {
            store.sweep_leftovers()?;
            continue;
        };
        match (record.phase, record.trial.is_some()) {
            (Phase::Applied, _) => {}
            (Phase::Applying, false) => {
                worker.carry_on(&store, &mut record)?;
                told.push(format!("finished the {name} that was interrupted"));
            }
            (Phase::Applying, true) | (Phase::Undoing, _) => {
                undo(worker, &store, &mut record, OnEdit::Refuse)?;
                told.push(format!("took back the {name} that was interrupted"));
            }
        }
    }
    Ok(told)
}
