//! Ctrl-C and SIGTERM: asked for once, the work ends in order; asked for again, the worker is killed
//! (with its die in the slot) and the kernel takes down what it had.

use std::{
    cell::Cell,
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
    low_level::pipe,
};

/// The signals that ask for an end.
pub(crate) struct Stop {
    signals: UnixStream,
    last: Arc<AtomicUsize>,
    count: Cell<usize>,
}

impl Stop {
    /// Catches the signals from now on.
    pub(crate) fn new() -> io::Result<Self> {
        let (signals, write) = UnixStream::pair()?;
        signals.set_nonblocking(true)?;
        let last = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_usize(signal, Arc::clone(&last), usize::try_from(signal).unwrap_or(0))?;
            pipe::register(signal, write.try_clone()?)?;
        }
        Ok(Self { signals, last, count: Cell::new(0) })
    }

    /// How often an end was asked for.
    pub(crate) fn count(&self) -> usize {
        let mut bytes = [0; 16];
        while let Ok(n @ 1..) = (&self.signals).read(&mut bytes) {
            self.count.set(self.count.get() + n);
        }
        self.count.get()
    }

    /// Whether an end was asked for.
    pub(crate) fn requested(&self) -> bool {
        self.count() > 0
    }

    /// The exit code of a program that a signal ended.
    pub(crate) fn exit_code(&self) -> u8 {
        u8::try_from(128 + self.last.load(Ordering::Relaxed)).unwrap_or(1)
    }

    /// Waits for `time`, or until an end is asked for; says whether it was.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        self.wait_beyond(0, time)
    }

    /// Waits for `time`, or until an end was asked for more than `count` times; says whether it was.
    pub(crate) fn wait_beyond(&self, count: usize, time: Duration) -> bool {
        let end = Instant::now() + time;
        while self.count() <= count {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // An error is EINTR: the signal that it was interrupted by has been counted by then.
            let _ = ready(&[self.signals.as_fd()], left);
        }
        true
    }

    /// Readable once another signal has come.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

/// Waits until one of `fds` is readable, at most for `time`.
pub(crate) fn ready(fds: &[BorrowedFd<'_>], time: Duration) -> io::Result<()> {
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let time = Timespec::try_from(time).map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut polled, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
