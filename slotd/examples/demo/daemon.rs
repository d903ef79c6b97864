//! slotd on a simulated machine, as a process of its own.

use std::{
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A running daemon; it ends when dropped.
pub(crate) struct Daemon {
    child: Child,
    socket: PathBuf,
    _folder: TempDir,
}

impl Daemon {
    /// Starts slotd on `machine`. It is handed a socket that listens already, as systemd would, so
    /// that clients can connect at once.
    pub(crate) fn start(machine: &str) -> Result<Self> {
        let folder = TempDir::new().context("make a folder for the socket")?;
        let socket = folder.path().join("slotd.sock");
        let listener = UnixListener::bind(&socket).context("listen for slotd")?;
        let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
        let program = program()?;
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&program).args(["--sim", machine, "--quiet"]);
        let child = command.stdin(OwnedFd::from(listener)).spawn();
        let child = child.with_context(|| format!("start {}", program.display()))?;
        Ok(Self { child, socket, _folder: folder })
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends it the clean way.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process id")?, Signal::TERM).context("stop slotd")?;
        let status = self.child.wait().context("wait for slotd")?;
        ensure!(status.success(), "slotd ended with {status}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Nothing to do where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// slotd lies one folder above the examples.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    let folder = own.parent().and_then(Path::parent).context("find the folder of slotd")?;
    let program = folder.join("slotd");
    ensure!(program.exists(), "{} is missing: run `make demo`", program.display());
    Ok(program)
}
