//! Writing files so that a crash leaves the old bytes or the new ones.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

use rustix::fs::XattrFlags;

use crate::{
    error::{Error, Result},
    plan::Content,
    root::Root,
};

/// A moment at which a crash can be made to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Point {
    /// The new file stands beside the old one, empty.
    TempMade,
    /// It has its bytes.
    TempWritten,
    /// They are on disk.
    TempSynced,
    /// It took the old one's place.
    Renamed,
    /// So does the folder say, on disk.
    FolderSynced,
    /// A file was deleted.
    Deleted,
    /// A folder was made.
    FolderMade,
    /// A folder was removed.
    FolderRemoved,
    /// A command is about to run.
    BeforeCommand,
    /// A command has ended and is not yet recorded.
    AfterCommand,
}

impl Point {
    /// Every point there is.
    pub const ALL: [Self; 10] = [
        Self::TempMade,
        Self::TempWritten,
        Self::TempSynced,
        Self::Renamed,
        Self::FolderSynced,
        Self::Deleted,
        Self::FolderMade,
        Self::FolderRemoved,
        Self::BeforeCommand,
        Self::AfterCommand,
    ];
}

/// Called at every point; a test makes it panic there.
pub type Faults<'a> = dyn Fn(Point, &Path) + 'a;

/// Nothing happens.
pub fn no_faults(_: Point, _: &Path) {}

/// The one place that writes.
#[derive(Clone, Copy)]
pub struct Disk<'a> {
    root: &'a Root,
    faults: &'a Faults<'a>,
}

impl<'a> Disk<'a> {
    /// Writes below `root`.
    pub fn new(root: &'a Root, faults: &'a Faults<'a>) -> Self {
        Self { root, faults }
    }

    /// The file system.
    pub fn root(&self) -> &'a Root {
        self.root
    }

    /// Tells the fault plan where things are.
    pub(super) fn at(&self, point: Point, path: &Path) {
        (self.faults)(point, path);
    }

    /// Puts `content` in the place of what is there, at once or not at all. The name of the file
    /// beside it is always the same, so that what a crash left is written over.
    pub fn replace(&self, path: &Path, content: &Content) -> Result<()> {
        let real = self.root.real(path)?;
        let (host, temp) = (self.root.host(&real), self.root.host(&beside(&real)));
        let wrap = |operation| Error::io(operation, path);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&temp)
            .map_err(wrap("make a new file beside"))?;
        self.at(Point::TempMade, path);
        file.write_all(&content.bytes).map_err(wrap("write the new bytes of"))?;
        self.at(Point::TempWritten, path);
        // vfat knows no owners: what cannot be kept there was not there before either.
        let _ = fchown(&file, Some(content.owner.0), Some(content.owner.1));
        let _ = file.set_permissions(Permissions::from_mode(content.mode));
        keep_label(&host, &file);
        file.sync_all().map_err(wrap("sync"))?;
        self.at(Point::TempSynced, path);
        fs::rename(&temp, &host).map_err(wrap("replace"))?;
        self.at(Point::Renamed, path);
        self.sync_folder(&real)
    }

    /// Deletes a file that may be gone already.
    pub fn delete(&self, path: &Path) -> Result<()> {
        let real = self.root.real(path)?;
        match fs::remove_file(self.root.host(&real)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("delete", path)(e));
            }
            _ => self.at(Point::Deleted, path),
        }
        self.sync_folder(&real)
    }

    /// Puts `content` there; `None` deletes.
    pub fn put(&self, path: &Path, content: Option<&Content>) -> Result<()> {
        match content {
            Some(content) => self.replace(path, content),
            None => self.delete(path),
        }
    }

    /// Takes away what a crash left beside `path`.
    pub fn sweep(&self, path: &Path) -> Result<()> {
        let temp = beside(&self.root.real(path)?);
        if self.root.is_file(&temp) { self.delete(&temp) } else { Ok(()) }
    }

    /// Makes a folder that may be there already.
    pub fn make_folder(&self, path: &Path) -> Result<()> {
        let real = self.root.real(path)?;
        match fs::create_dir(self.root.host(&real)) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::io("make the folder", path)(e));
            }
            _ => self.at(Point::FolderMade, path),
        }
        self.sync_folder(&real)
    }

    /// Removes a folder, unless somebody put something into it.
    pub fn remove_folder(&self, path: &Path) -> Result<()> {
        let real = self.root.real(path)?;
        if fs::remove_dir(self.root.host(&real)).is_ok() {
            self.at(Point::FolderRemoved, path);
            self.sync_folder(&real)?;
        }
        Ok(())
    }

    fn sync_folder(&self, real: &Path) -> Result<()> {
        let folder = real.parent().unwrap_or(Path::new("/"));
        match File::open(self.root.host(folder)) {
            Ok(open) => open.sync_all().map_err(Error::io("sync the folder", folder))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("open the folder", folder)(e)),
        }
        self.at(Point::FolderSynced, real);
        Ok(())
    }
}

/// Name of the new file before it takes the old one's place. The ending keeps it out of every
/// folder that is read by ending.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.slot-cmdline~"))
}

/// Carries the `SELinux` label over; a file system without labels has none to carry.
fn keep_label(old: &Path, new: &File) {
    let mut label = [0_u8; 256];
    if let Ok(len) = rustix::fs::getxattr(old, "security.selinux", &mut label) {
        let _ = rustix::fs::fsetxattr(new, "security.selinux", &label[..len], XattrFlags::empty());
    }
}
