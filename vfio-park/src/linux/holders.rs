//! Who has a device node open.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Dev, makedev};

use super::{
    Roots,
    roots::{failed, text},
};
use crate::MachineError;

pub(super) const NVIDIA_MAJOR: u32 = 195;

/// A device node.
pub(super) struct Node {
    pub(super) path: PathBuf,
    /// Its number, where that is known: a node of another name is the same device.
    pub(super) device: Option<Dev>,
}

impl Node {
    /// `/dev/nvidiaN`.
    pub(super) fn nvidia(roots: &Roots, minor: u32) -> Self {
        let device = Some(makedev(NVIDIA_MAJOR, minor));
        Self { path: roots.dev.join(format!("nvidia{minor}")), device }
    }
}

/// `command (pid N)` of every process that has one of `nodes` open.
///
/// This process is no exception: an unbind that waits for a descriptor of one's own never ends.
/// Processes that end meanwhile hold nothing. Descriptors that can't be looked at (not root) count
/// as none.
pub(super) fn holders(roots: &Roots, nodes: &[Node]) -> Result<Vec<String>, MachineError> {
    let mut holders = Vec::new();
    for entry in fs::read_dir(&roots.proc).map_err(failed("list", &roots.proc))? {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if holds(&entry.path().join("fd"), nodes) {
            let command = text(&entry.path().join("comm")).ok().flatten().unwrap_or_default();
            holders.push((pid, format!("{command} (pid {pid})")));
        }
    }
    holders.sort();
    Ok(holders.into_iter().map(|(_, holder)| holder).collect())
}

fn holds(descriptors: &Path, nodes: &[Node]) -> bool {
    let Ok(descriptors) = fs::read_dir(descriptors) else { return false };
    descriptors.flatten().any(|descriptor| {
        let path = descriptor.path();
        let target = fs::read_link(&path).unwrap_or_default();
        let device = || fs::metadata(&path).ok().filter(is_device).map(|meta| meta.rdev());
        nodes
            .iter()
            .any(|node| target == node.path || (node.device.is_some() && device() == node.device))
    })
}

fn is_device(meta: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_char_device(&meta.file_type())
}

/// The minor number of a die that nvidia has, from its information file, which is cached: reading it
/// asks no hardware.
pub(super) fn minor(information: &str) -> Option<u32> {
    let line = information.lines().find_map(|line| line.strip_prefix("Device Minor:"))?;
    line.trim().parse().ok()
}

/// See [`minor`].
pub(super) fn read_minor(roots: &Roots, die: crate::Bdf) -> Result<u32, MachineError> {
    let path = roots.proc.join(format!("driver/nvidia/gpus/{die}/information"));
    let read = fs::read_to_string(&path);
    let minor = read.and_then(|text| {
        minor(&text).ok_or_else(|| io::Error::other("there is no `Device Minor` in it"))
    });
    minor.map_err(failed("read", &path))
}
