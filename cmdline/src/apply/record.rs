//! What was changed, with the original bytes: the way back.

use std::{
    fmt::Write,
    fs::File,
    path::{Path, PathBuf},
};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::disk::Disk;
use crate::{
    error::{Error, Result},
    plan::{Content, Expect, Purpose, Run},
    root::Root,
    trial::Trial,
};

/// Version of the record's form.
const VERSION: u32 = 1;
/// Where records are.
const FOLDER: &str = "/var/lib/slot-cmdline";

/// Content, its bytes kept under their hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// SHA-256 of the bytes.
    pub sha256: String,
    /// Permissions.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
}

impl Stored {
    /// What `content` is kept as.
    pub fn of(content: &Content) -> Self {
        let mut sha256 = String::new();
        for byte in Sha256::digest(&content.bytes) {
            let _ = write!(sha256, "{byte:02x}");
        }
        Self { sha256, mode: content.mode, owner: content.owner }
    }
}

/// A file, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The file.
    pub path: PathBuf,
    /// As it was.
    pub before: Option<Stored>,
    /// As it was left.
    pub after: Option<Stored>,
}

/// A step, as far as it got.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Recorded {
    /// A folder that was made.
    Folder {
        /// It.
        path: PathBuf,
    },
    /// A file that was changed.
    File(FileRecord),
    /// A command.
    Run {
        /// It.
        run: Run,
        /// What it wrote; until it is done, everything it could write, as it was before. `None`
        /// until that is known.
        outputs: Option<Vec<FileRecord>>,
        /// Whether it ended and was found to have done its work.
        done: bool,
    },
    /// Files put behind an image that an earlier command wrote.
    Append {
        /// The image.
        image: PathBuf,
        /// Paths and texts.
        files: Vec<(String, String)>,
        /// What has to hold.
        expect: Vec<Expect>,
    },
}

/// How far a plan got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Being carried out.
    Applying,
    /// Carried out.
    Applied,
    /// Being taken back.
    Undoing,
}

/// A plan's record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// How far.
    pub phase: Phase,
    /// What for.
    pub purpose: Purpose,
    /// The steps.
    pub steps: Vec<Recorded>,
    /// Commands that are still to be run, because the root is not the running system.
    pub pending: Vec<String>,
    /// Set where it is a trial's.
    pub trial: Option<Trial>,
}

impl Record {
    /// A record of steps that are about to be carried out.
    pub fn new(purpose: Purpose, steps: Vec<Recorded>, trial: Option<Trial>) -> Self {
        Self {
            version: VERSION,
            phase: Phase::Applying,
            purpose,
            steps,
            pending: Vec::new(),
            trial,
        }
    }
}

/// The folder of records.
pub struct Store<'a> {
    disk: Disk<'a>,
    name: &'static str,
}

impl<'a> Store<'a> {
    /// The record of what is installed for good.
    pub fn installed(disk: Disk<'a>) -> Self {
        Self { disk, name: "installed.json" }
    }

    /// The record of a trial.
    pub fn trial(disk: Disk<'a>) -> Self {
        Self { disk, name: "trial.json" }
    }

    /// Keeps other runs out until it is dropped.
    pub fn lock(root: &Root) -> Result<Option<File>> {
        // Not our own folder: the first run has to make that, and the last one removes it.
        let folder = "/var/lib";
        if !root.is_dir(folder) {
            return Ok(None);
        }
        let open = File::open(root.host(&root.real(folder)?)).map_err(Error::io("open", folder))?;
        match rustix::fs::flock(&open, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(open)),
            Err(_) => Err(Error::refused(
                "another slot-cmdline is at work",
                "Wait for it to end; nothing has to be cleaned up if it was killed",
            )),
        }
    }

    /// Makes the folders.
    pub fn open(&self) -> Result<()> {
        for folder in ["/var", "/var/lib", FOLDER] {
            if !self.disk.root().is_dir(folder) {
                self.disk.make_folder(Path::new(folder))?;
            }
        }
        let objects = self.objects();
        if self.disk.root().is_dir(&objects) { Ok(()) } else { self.disk.make_folder(&objects) }
    }

    fn path(&self) -> PathBuf {
        Path::new(FOLDER).join(self.name)
    }

    fn objects(&self) -> PathBuf {
        Path::new(FOLDER).join(self.name.replace(".json", ".objects"))
    }

    /// The record, where there is one.
    pub fn load(&self) -> Result<Option<Record>> {
        let path = self.path();
        let Some(bytes) = self.disk.root().read(&path)? else { return Ok(None) };
        let broken = |problem: String| Error::State { path: path.clone(), problem };
        let record: Record = serde_json::from_slice(&bytes).map_err(|e| broken(e.to_string()))?;
        if record.version == VERSION {
            Ok(Some(record))
        } else {
            Err(broken(format!("its version is {}, not {VERSION}", record.version)))
        }
    }

    /// Writes the record.
    pub fn save(&self, record: &Record) -> Result<()> {
        let mut bytes = serde_json::to_vec_pretty(record)
            .map_err(|e| Error::State { path: self.path(), problem: e.to_string() })?;
        bytes.push(b'\n');
        self.disk.replace(&self.path(), &Content { bytes, mode: 0o600, owner: (0, 0) })
    }

    /// Keeps bytes.
    pub fn keep(&self, content: &Content) -> Result<Stored> {
        let stored = Stored::of(content);
        let path = self.objects().join(&stored.sha256);
        if !self.disk.root().is_file(&path) {
            self.disk.replace(&path, &Content { mode: 0o600, owner: (0, 0), ..content.clone() })?;
        }
        Ok(stored)
    }

    /// The bytes of what was kept.
    pub fn fetch(&self, stored: &Stored) -> Result<Content> {
        let path = self.objects().join(&stored.sha256);
        let bytes = self.disk.root().read(&path)?.unwrap_or_default();
        let content = Content { bytes, mode: stored.mode, owner: stored.owner };
        if Stored::of(&content) == *stored {
            Ok(content)
        } else {
            Err(Error::State { path, problem: "its bytes do not match their hash".into() })
        }
    }

    /// Drops kept bytes that no record names.
    pub fn prune(&self, record: &Record) -> Result<()> {
        let files = record.steps.iter().flat_map(|step| match step {
            Recorded::File(file) => std::slice::from_ref(file),
            Recorded::Run { outputs, .. } => outputs.as_deref().unwrap_or_default(),
            _ => &[],
        });
        let named: Vec<_> =
            files.flat_map(|f| [&f.before, &f.after]).flatten().map(|s| s.sha256.clone()).collect();
        for name in self.disk.root().list(self.objects())? {
            if !named.contains(&name) {
                self.disk.delete(&self.objects().join(name))?;
            }
        }
        Ok(())
    }

    /// Takes away what a crash left before there was a record, or after it was forgotten.
    pub(super) fn sweep_leftovers(&self) -> Result<()> {
        if self.disk.root().is_dir(FOLDER) { self.forget() } else { Ok(()) }
    }

    /// Forgets everything: the record first, so that a crash leaves no record without its bytes.
    pub fn forget(&self) -> Result<()> {
        self.disk.delete(&self.path())?;
        for name in self.disk.root().list(self.objects())? {
            self.disk.delete(&self.objects().join(name))?;
        }
        self.disk.remove_folder(&self.objects())?;
        self.disk.sweep(&self.path())?;
        self.disk.remove_folder(Path::new(FOLDER))
    }
}
