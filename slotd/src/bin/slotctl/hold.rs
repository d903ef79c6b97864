//! What happens while a lease is held: a command runs, or somebody waits.

use std::{
    ffi::OsString,
    io::{self, Read},
    os::unix::{net::UnixStream, process::ExitStatusExt},
    process::{Child, Command, ExitCode, ExitStatus},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{FileType, fstat},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
    termios::isatty,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use slotd_client::api::Acquired;

use super::exit::Failure;

/// Signals that end `slotctl`, as bytes on sockets.
pub(crate) struct Signals {
    /// SIGINT: a terminal sends it to the command as well.
    interrupt: UnixStream,
    /// SIGTERM and SIGHUP: for `slotctl` alone, to be handed on.
    terminate: UnixStream,
}

impl Signals {
    /// From here on these signals no longer end the process by themselves: the lease is released
    /// first.
    pub(crate) fn catch() -> Result<Self, Failure> {
        Ok(Self { interrupt: socket_for(&[SIGINT])?, terminate: socket_for(&[SIGTERM, SIGHUP])? })
    }
}

fn socket_for(signals: &[i32]) -> Result<UnixStream, Failure> {
    let (ours, theirs) = UnixStream::pair().map_err(Failure::system("make a socket pair"))?;
    for signal in signals {
        let writer = theirs.try_clone().map_err(Failure::system("copy a descriptor"))?;
        signal_hook::low_level::pipe::register(*signal, writer)
            .map_err(Failure::system("catch a signal"))?;
    }
    Ok(ours)
}

fn empty(mut socket: &UnixStream) {
    let _ = socket.read(&mut [0; 16]);
}

/// Waits until a signal comes, or standard input ends where somebody may be typing or piping.
pub(crate) fn wait(signals: &Signals) -> Result<(), Failure> {
    let stdin = io::stdin();
    let listens = isatty(&stdin)
        || fstat(&stdin).is_ok_and(|stat| {
            let kind = FileType::from_raw_mode(stat.st_mode);
            matches!(kind, FileType::Fifo | FileType::Socket)
        });
    loop {
        let mut fds = vec![
            PollFd::new(&signals.interrupt, PollFlags::IN),
            PollFd::new(&signals.terminate, PollFlags::IN),
        ];
        if listens {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) => (),
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(Failure::system("wait")(error)),
        }
        if fds[..2].iter().any(|fd| !fd.revents().is_empty()) {
            return Ok(());
        }
        let ended = fds.get(2).is_some_and(|fd| !fd.revents().is_empty())
            && stdin.lock().read(&mut [0; 512]).map_err(Failure::system("read input"))? == 0;
        if ended {
            return Ok(());
        }
    }
}

/// Runs a command and waits for it. Its exit code is what it ended with, as a shell has it.
pub(crate) fn command(
    command: &[OsString],
    acquired: &Acquired,
    signals: &Signals,
) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = command.split_first() else { return Ok(ExitCode::SUCCESS) };
    let spawned = Command::new(program)
        .args(arguments)
        .env("SLOTD_LEASE", acquired.lease.0.to_string())
        .env("SLOTD_DIE", acquired.die.to_string())
        .env("SLOTD_BDF", &acquired.bdf)
        .spawn();
    let mut child = spawned.map_err(|source| {
        let command = program.to_string_lossy().into_owned();
        Failure::Spawn { command, source }
    })?;
    let status = reap(&mut child, signals)?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)))
}

/// Waits for the end of the child, and hands on what is meant to end it.
fn reap(child: &mut Child, signals: &Signals) -> Result<ExitStatus, Failure> {
    let waited = Failure::system("wait for the command");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else { return child.wait().map_err(waited) };
    let ended =
        pidfd_open(pid, PidfdFlags::empty()).map_err(Failure::system("watch the command"))?;
    loop {
        let mut fds = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::new(&signals.interrupt, PollFlags::IN),
            PollFd::new(&signals.terminate, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) => (),
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(Failure::system("wait for the command")(error)),
        }
        let [ended, interrupted, terminated] = fds.map(|fd| !fd.revents().is_empty());
        if ended {
            return child.wait().map_err(waited);
        }
        if interrupted {
            empty(&signals.interrupt);
        }
        if terminated {
            empty(&signals.terminate);
            // It may have ended just now; then there is nobody to tell.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
