//! The plan: what is going to be changed, as data. The same object is printed and executed.

mod build;
mod expect;
mod show;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::{
    build::{Blacklist, Options, by_hand, install, order, softdeps, tool},
    expect::{Expect, judge_image},
    show::difference,
};
use crate::{error::Result, parker::Choice, root::Root};

/// A file's bytes and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Permissions.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
}

impl Content {
    /// A new file of root's that everybody may read.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), mode: 0o644, owner: (0, 0) }
    }

    /// The same file with other bytes.
    #[must_use]
    pub fn with(&self, bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), ..*self }
    }
}

/// A file that changes, appears or goes.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// The file, links followed.
    pub path: PathBuf,
    /// As it is; `None` where there is none.
    pub before: Option<Content>,
    /// As it will be.
    pub after: Option<Content>,
    /// What for.
    pub why: String,
}

/// What a command writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// One file.
    File(PathBuf),
    /// Everything below a folder.
    Tree(PathBuf),
}

/// A command, what it writes and what has to stand there afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// What for.
    pub why: String,
    /// What it writes: kept before, so that it can be put back.
    pub outputs: Vec<Output>,
    /// Read back afterwards: the exit code proves nothing.
    pub expect: Vec<Expect>,
}

impl Run {
    /// The command as one would type it.
    pub fn command(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@".contains(c);
        let quoted = self.argv.iter().map(|word| {
            let bare = !word.is_empty() && word.chars().all(plain);
            if bare { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
        });
        quoted.collect::<Vec<_>>().join(" ")
    }
}

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// A folder that is not there yet.
    MakeFolder(PathBuf),
    /// A file.
    File(FileChange),
    /// A command.
    Run(Run),
    /// Files put behind an initramfs image as an archive of their own, which the kernel unpacks
    /// over what comes before it.
    Append {
        /// The image; an earlier step wrote it.
        image: PathBuf,
        /// Paths in the image, and texts.
        files: Vec<(String, String)>,
        /// What has to hold afterwards.
        expect: Vec<Expect>,
    },
}

/// What a plan is for, kept with the record of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Purpose {
    /// The parker and what the line has to say for it.
    pub choice: Choice,
    /// The boot loader, in a word or two.
    pub loader: String,
    /// The initramfs tool, where one has work to do.
    pub initramfs: Option<String>,
    /// What the operator should know.
    pub notes: Vec<String>,
}

/// Steps in order, and what for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What for.
    pub purpose: Purpose,
    /// In order.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Collects steps; a change that changes nothing is dropped.
#[derive(Debug)]
pub struct Steps<'a> {
    root: &'a Root,
    steps: Vec<Step>,
}

impl<'a> Steps<'a> {
    /// None yet.
    pub fn new(root: &'a Root) -> Self {
        Self { root, steps: Vec::new() }
    }

    /// Changes a file: `edit` gets the bytes (none for no file) and gives the new ones.
    pub fn edit(
        &mut self,
        path: impl AsRef<Path>,
        why: &str,
        edit: impl FnOnce(Option<&[u8]>) -> Vec<u8>,
    ) -> Result<()> {
        let path = self.root.real(path)?;
        let before = self.root.content(&path)?;
        let bytes = edit(before.as_ref().map(|content| content.bytes.as_slice()));
        let after =
            before.as_ref().map_or_else(|| Content::new(bytes.clone()), |b| b.with(bytes.clone()));
        if before.as_ref() != Some(&after) {
            self.folders(path.parent().unwrap_or(Path::new("/")));
            self.steps.push(Step::File(FileChange {
                path,
                before,
                after: Some(after),
                why: why.into(),
            }));
        }
        Ok(())
    }

    /// Writes a file with permissions of its own.
    pub fn write(&mut self, path: impl AsRef<Path>, why: &str, after: Content) -> Result<()> {
        let path = self.root.real(path)?;
        let before = self.root.content(&path)?;
        if before.as_ref() != Some(&after) {
            self.folders(path.parent().unwrap_or(Path::new("/")));
            self.steps.push(Step::File(FileChange {
                path,
                before,
                after: Some(after),
                why: why.into(),
            }));
        }
        Ok(())
    }

    fn folders(&mut self, folder: &Path) {
        let planned =
            self.steps.iter().any(|step| matches!(step, Step::MakeFolder(p) if p == folder));
        if planned || self.root.is_dir(folder) {
            return;
        }
        if let Some(above) = folder.parent() {
            self.folders(above);
        }
        self.steps.push(Step::MakeFolder(folder.to_owned()));
    }

    /// Runs a command.
    pub fn run(&mut self, run: Run) {
        self.steps.push(Step::Run(run));
    }

    /// Adds a step as it is.
    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Whether nothing changes so far.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps.
    pub fn finish(self) -> Vec<Step> {
        self.steps
    }
}
