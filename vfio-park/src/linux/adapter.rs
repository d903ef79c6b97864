//! Keeping an adapter up: nvidia starts it at the first open of its node and stops it at the last
//! close, and its contexts with it.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::{
    Roots,
    holders::{NVIDIA_MAJOR, Node, read_minor},
    process::in_time,
    roots::failed,
};
use crate::{Bdf, MachineError, seam::Hold};

const CONTROL_MINOR: u32 = 255;

/// An open `/dev/nvidiaN`.
#[derive(Debug)]
pub(super) struct AdapterHold {
    _node: File,
}

impl Hold for AdapterHold {}

/// Opens the node of a die that nvidia has, making it where udev or nvidia-modprobe have not.
pub(super) fn hold(
    roots: &Roots,
    die: Bdf,
    patience: Duration,
) -> Result<AdapterHold, MachineError> {
    let minor = read_minor(roots, die)?;
    make(&roots.dev.join("nvidiactl"), CONTROL_MINOR)?;
    let path = Node::nvidia(roots, minor).path;
    make(&path, minor)?;
    let node = path.clone();
    let open = move || OpenOptions::new().read(true).write(true).open(node);
    match in_time(Instant::now() + patience, open) {
        Some(Ok(node)) => Ok(AdapterHold { _node: node }),
        Some(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
            let reason = "its adapter did not come up: the window must be open, and `dmesg` has \
                          the driver's word (RmInitAdapter)";
            Err(MachineError::Refused { operation: "hold", die, reason: reason.to_owned() })
        }
        Some(Err(error)) => Err(failed("open", &path)(error)),
        None => Err(MachineError::Deadline { operation: "hold", die, seconds: patience.as_secs() }),
    }
}

/// A node that everybody may open, as nvidia's own tools make them.
fn make(path: &Path, minor: u32) -> Result<(), MachineError> {
    if path.exists() {
        return Ok(());
    }
    let device = makedev(NVIDIA_MAJOR, minor);
    match mknodat(CWD, path, FileType::CharacterDevice, Mode::from_raw_mode(0o600), device) {
        Ok(()) => {
            fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(failed("chmod", path))
        }
        Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(errno) => Err(failed("make", path)(io::Error::from(errno))),
    }
}
