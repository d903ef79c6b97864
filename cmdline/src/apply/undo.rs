//! Taking a plan back, byte for byte.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use diffy::merge_bytes;
use serde::Serialize;

use super::{
    execute::{Outcome, Worker},
    record::{Phase, Record, Recorded, Store, Stored},
};
use crate::{
    error::{Error, Result},
    plan::{Content, Expect, FileChange, Run, Step, difference},
    root::Root,
    trial::{self, PutBack},
};

/// What happens to a file that somebody edited since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEdit {
    /// Nothing is changed at all.
    Refuse,
    /// The edit is kept, and only what was added goes.
    Merge,
}

/// What taking back is going to do.
#[derive(Debug, Serialize)]
pub struct UndoPlan {
    /// Files put back, the last one changed first.
    pub steps: Vec<Step>,
    /// Commands that have to write their outputs again, because something else did since.
    #[serde(skip)]
    pub rerun: Vec<Run>,
}

/// Files as they are going to be, over those on disk.
struct Overlay<'a> {
    root: &'a Root,
    files: BTreeMap<PathBuf, (Option<Content>, Option<Content>)>,
    order: Vec<PathBuf>,
}

impl Overlay<'_> {
    fn now(&self, path: &Path) -> Result<Option<Content>> {
        match self.files.get(path) {
            Some((_, planned)) => Ok(planned.clone()),
            None => self.root.content(path),
        }
    }

    fn put(&mut self, path: &Path, content: Option<Content>) -> Result<()> {
        if let Some((_, planned)) = self.files.get_mut(path) {
            *planned = content;
            return Ok(());
        }
        let disk = self.root.content(path)?;
        if disk != content {
            self.files.insert(path.to_owned(), (disk, content));
            self.order.push(path.to_owned());
        }
        Ok(())
    }

    fn steps(mut self) -> Vec<Step> {
        let changed = self.order.iter().filter_map(|path| {
            let (before, after) = self.files.remove(path)?;
            let change = FileChange { path: path.clone(), before, after, why: "as it was".into() };
            (change.before != change.after).then_some(Step::File(change))
        });
        changed.collect()
    }
}

/// Works out how to take `record` back, and changes nothing.
pub(super) fn plan(
    worker: &Worker<'_>,
    store: &Store<'_>,
    record: &Record,
    on_edit: OnEdit,
) -> Result<UndoPlan> {
    let root = worker.disk.root();
    let mut overlay = Overlay { root, files: BTreeMap::new(), order: Vec::new() };
    let mut rerun = Vec::new();
    let fetch = |stored: &Option<Stored>| stored.as_ref().map(|s| store.fetch(s)).transpose();
    for step in record.steps.iter().rev() {
        match step {
            Recorded::Folder { .. } | Recorded::Append { .. } => {}
            Recorded::Run { run, outputs, done } => {
                let mut foreign = outputs.is_none() && !record.pending.is_empty();
                for file in outputs.iter().flatten() {
                    let now = overlay.now(&file.path)?;
                    let hash = now.as_ref().map(Stored::of);
                    if hash == file.before {
                        continue;
                    }
                    let before = fetch(&file.before)?;
                    if let Some(PutBack(content)) =
                        trial::env_without(&file.path, now.as_ref(), before.clone())
                    {
                        overlay.put(&file.path, content)?;
                    } else if hash == file.after || !done || record.trial.is_some() {
                        // A trial's image was appended to since; it is deleted as it is.
                        overlay.put(&file.path, before)?;
                    } else {
                        foreign = true;
                    }
                }
                if foreign {
                    rerun.push(forgotten(run));
                }
            }
            Recorded::File(file) => {
                let now = overlay.now(&file.path)?;
                let hash = now.as_ref().map(Stored::of);
                if hash == file.before {
                    continue;
                }
                let (before, after) = (fetch(&file.before)?, fetch(&file.after)?);
                let restored = if hash == file.after {
                    before
                } else {
                    edited(&file.path, on_edit, before.as_ref(), after.as_ref(), now.as_ref())?
                };
                overlay.put(&file.path, restored)?;
            }
        }
    }
    // Commands run in the order in which they ran.
    rerun.reverse();
    Ok(UndoPlan { steps: overlay.steps(), rerun })
}

/// The command, expected only to write again.
fn forgotten(run: &Run) -> Run {
    let written = run.expect.iter().map(|expect| match expect {
        Expect::GrubCfg { path, .. } => Expect::GrubCfg { path: path.clone(), wants: Vec::new() },
        Expect::Entry { path, .. }
        | Expect::Unified { path, .. }
        | Expect::Initramfs { path, .. } => Expect::Written(path.clone()),
        other => other.clone(),
    });
    Run { expect: written.collect(), why: "writes again what changed since".into(), ..run.clone() }
}

/// A file that is neither as it was nor as it was left.
fn edited(
    path: &Path,
    on_edit: OnEdit,
    before: Option<&Content>,
    after: Option<&Content>,
    now: Option<&Content>,
) -> Result<Option<Content>> {
    let refuse = || {
        let difference = format!(
            "what slot-cmdline changed:\n{}what was edited since:\n{}",
            difference(before, after),
            difference(after, now)
        );
        Err(Error::Edited { path: path.to_owned(), difference })
    };
    if on_edit == OnEdit::Refuse {
        return refuse();
    }
    let bytes = |content: Option<&Content>| content.map_or(Vec::new(), |c| c.bytes.clone());
    // What was there, plus the edit on top of ours.
    match (merge_bytes(&bytes(after), &bytes(now), &bytes(before)), now) {
        (Ok(merged), Some(now)) => {
            let gone = before.is_none() && merged.trim_ascii().is_empty();
            Ok((!gone).then(|| now.with(merged)))
        }
        // Somebody deleted it: that is the edit.
        (_, None) => Ok(None),
        (Err(_), _) => refuse(),
    }
}

/// Makes what is there the record's "after" and what is about to be written its "before", so that
/// a crash in between cannot take a merged file for an edited one.
fn aim(store: &Store<'_>, record: &mut Record, planned: &UndoPlan) -> Result<()> {
    for step in &planned.steps {
        let Step::File(change) = step else { continue };
        let keep = |content: &Option<Content>| content.as_ref().map(|c| store.keep(c)).transpose();
        let (now, target) = (keep(&change.before)?, keep(&change.after)?);
        for step in &mut record.steps {
            if let Recorded::File(file) = step
                && file.path == change.path
            {
                file.before.clone_from(&target);
                file.after.clone_from(&now);
            }
        }
    }
    Ok(())
}

/// Takes `record` back and forgets it.
pub(super) fn undo(
    worker: &Worker<'_>,
    store: &Store<'_>,
    record: &mut Record,
    on_edit: OnEdit,
) -> Result<Outcome> {
    let planned = plan(worker, store, record, on_edit)?;
    record.phase = Phase::Undoing;
    aim(store, record, &planned)?;
    store.save(record)?;
    for step in &planned.steps {
        if let Step::File(change) = step {
            worker.disk.put(&change.path, change.after.as_ref())?;
        }
    }
    for step in record.steps.iter().rev() {
        match step {
            Recorded::Folder { path } => worker.disk.remove_folder(path)?,
            Recorded::File(file) => worker.disk.sweep(&file.path)?,
            Recorded::Append { image, .. } => worker.disk.sweep(image)?,
            Recorded::Run { .. } => {}
        }
    }
    let mut pending = Vec::new();
    for run in &planned.rerun {
        match worker.commands {
            Some(commands) => {
                let ended = commands.run(&run.argv)?;
                worker.verify(&run.command(), &run.expect, &ended.last_words, ended.success)?;
            }
            None => pending.push(run.command()),
        }
    }
    store.forget()?;
    Ok(if pending.is_empty() { Outcome::Changed } else { Outcome::Pending(pending) })
}

impl Worker<'_> {
    /// What taking back the record in `store` would do; `None` where there is no record.
    pub fn plan_undo(&self, store: &Store<'_>, on_edit: OnEdit) -> Result<Option<UndoPlan>> {
        store.load()?.map(|record| plan(self, store, &record, on_edit)).transpose()
    }

    /// Takes the record in `store` back.
    pub fn undo(&self, store: &Store<'_>, on_edit: OnEdit) -> Result<Outcome> {
        match store.load()? {
            Some(mut record) => undo(self, store, &mut record, on_edit),
            None => Ok(Outcome::Unchanged),
        }
    }
}
