//! Where the kernel's file systems are.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Bdf, MachineError};

/// Roots of the kernel's file systems. Nothing outside them is read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// sysfs.
    pub sys: PathBuf,
    /// procfs.
    pub proc: PathBuf,
    /// devtmpfs.
    pub dev: PathBuf,
}

impl Default for Roots {
    /// Those of this machine.
    fn default() -> Self {
        Self::below(Path::new("/"))
    }
}

impl Roots {
    /// `sys`, `proc` and `dev` in one folder.
    pub fn below(folder: &Path) -> Self {
        let at = |name| folder.join(name);
        Self { sys: at("sys"), proc: at("proc"), dev: at("dev") }
    }

    /// The folder that lists every PCI function.
    pub(super) fn devices(&self) -> PathBuf {
        self.sys.join("bus/pci/devices")
    }

    /// A function's folder.
    pub(super) fn function(&self, bdf: Bdf) -> PathBuf {
        self.devices().join(bdf.to_string())
    }
}

/// The error of an operation on a path.
pub(super) fn failed(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> MachineError {
    let path = path.display().to_string();
    move |source| MachineError::Io { operation, path, source }
}

/// A text attribute without its newline; `None` where there is none.
pub(super) fn text(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The name that a link points to; `None` where there is no link.
pub(super) fn link_name(path: &Path) -> io::Result<Option<String>> {
    match fs::read_link(path) {
        Ok(target) => Ok(target.file_name().map(|name| name.to_string_lossy().into_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
