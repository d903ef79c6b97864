//! Waiting for the kernel to say that something changed.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use udev::{MonitorBuilder, MonitorSocket};

use super::Roots;

/// How often the state itself is looked at where no event comes: a link can show up after its event,
/// and a tree that is not the kernel's has no events.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Events of PCI devices from the kernel, from when this was made.
pub(super) struct Events(Option<MonitorSocket>);

impl Events {
    pub(super) fn listen(roots: &Roots) -> Self {
        let socket = || MonitorBuilder::new_kernel()?.match_subsystem("pci")?.listen();
        if roots.sys != Path::new("/sys") {
            return Self(None);
        }
        let socket = socket().inspect_err(|error| {
            tracing::warn!(%error, "no events from the kernel: looking at sysfs time and again");
        });
        Self(socket.ok())
    }

    /// Waits until `done` says so; whether it did before `deadline`.
    pub(super) fn until(&self, deadline: Instant, mut done: impl FnMut() -> bool) -> bool {
        loop {
            if done() {
                return true;
            }
            if !self.next(deadline) {
                return done();
            }
        }
    }

    /// Waits for the next event, or a little; false at the deadline.
    pub(super) fn next(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let timeout = Timespec::try_from(left.min(LOOK_AGAIN)).ok();
        let mut fds: Vec<_> = self.0.iter().map(|s| PollFd::new(s, PollFlags::IN)).collect();
        // An interruption only makes it look again.
        let _ = poll(&mut fds, timeout.as_ref());
        self.0.iter().for_each(|socket| socket.iter().for_each(drop));
        true
    }
}
