//! Child processes that are given a time.

use std::{
    ffi::{OsStr, OsString},
    fs::OpenOptions,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

/// What a child came to in its time.
pub(super) enum Ended {
    /// It ended, and this is what it had to say.
    With(ExitStatus, String),
    /// It has not ended; it is left alone, since one that hangs in the kernel can't be killed.
    Not,
}

/// Runs `command`; its standard error is kept.
pub(super) fn run(command: &mut Command, deadline: Instant) -> io::Result<Ended> {
    let pipes = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = pipes.spawn()?;
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    if !ends(&pidfd, deadline)? {
        reap(child);
        return Ok(Ended::Not);
    }
    let status = child.wait()?;
    let mut said = Vec::new();
    if let Some(stderr) = &mut child.stderr {
        stderr.take(4096).read_to_end(&mut said)?;
    }
    Ok(Ended::With(status, String::from_utf8_lossy(&said).trim().to_owned()))
}

fn ends(pidfd: &OwnedFd, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Waits for a child that took too long, whenever it ends, so that no zombie is left.
fn reap(mut child: Child) {
    thread::spawn(move || child.wait());
}

const HELPER: &str = "slot-sysfs-write";

/// Who writes to attributes whose writer can hang in the kernel for good.
#[derive(Clone, Debug)]
pub(super) enum Writer {
    /// A thread. If it hangs, the process can't end.
    Thread,
    /// This program once more, whose `main` calls [`helper`] first.
    Process(PathBuf),
}

impl Writer {
    /// Writes `value` to `path`; `None` where it does not end in time.
    pub(super) fn write(
        &self,
        path: &Path,
        value: &str,
        deadline: Instant,
    ) -> Option<io::Result<()>> {
        match self {
            Self::Thread => {
                let (path, value) = (path.to_owned(), value.to_owned());
                in_time(deadline, move || write_once(&path, value.as_bytes()))
            }
            Self::Process(program) => {
                let mut command = Command::new(program);
                command.arg0(HELPER).arg(path).arg(value);
                match run(&mut command, deadline) {
                    Ok(Ended::Not) => None,
                    Ok(Ended::With(status, said)) => Some(match status.code() {
                        Some(0) => Ok(()),
                        Some(errno @ 1..=133) => Err(io::Error::from_raw_os_error(errno)),
                        _ => {
                            Err(io::Error::other(format!("the helper ended with {status}: {said}")))
                        }
                    }),
                    Err(error) => Some(Err(error)),
                }
            }
        }
    }
}

/// The helper process of [`super::Linux::with_helper`]: call it first in `main`. Returns where this
/// process is none, and never where it is.
pub fn helper() {
    let mut arguments = std::env::args_os();
    if arguments.next().as_deref() != Some(OsStr::new(HELPER)) {
        return;
    }
    let written = match (arguments.next(), arguments.next().map(OsString::into_string)) {
        (Some(path), Some(Ok(value))) => write_once(Path::new(&path), value.as_bytes()),
        _ => Err(io::Error::from_raw_os_error(rustix::io::Errno::INVAL.raw_os_error())),
    };
    let code = written.map_or_else(|e| e.raw_os_error().unwrap_or(255), |()| 0);
    std::process::exit(code);
}

/// One write, as sysfs wants it. The file must be there.
pub(super) fn write_once(path: &Path, value: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    match file.write(value)? {
        n if n == value.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Runs `work` on a thread of its own; `None` where it does not end in time. It then goes on, and
/// what it comes to is dropped.
pub(super) fn in_time<T: Send + 'static>(
    deadline: Instant,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
}

/// How long the steps may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Binding, which loads firmware and, for nvidia, may load the module.
    pub bind: Duration,
    /// Unbinding; nvidia shuts the adapter down.
    pub unbind: Duration,
    /// Bringing an adapter up.
    pub hold: Duration,
    /// Loading the window module.
    pub load: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { bind: seconds(60), unbind: seconds(30), hold: seconds(60), load: seconds(30) }
    }
}
