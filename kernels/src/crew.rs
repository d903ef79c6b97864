//! The worker as die-check sees it: a child process that is asked, waited for, and never left behind.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::{
    failure::{Failure, Kind},
    stop::{Stop, ready},
    visible::Visible,
    wire::{self, Reply, Request},
};

/// The hidden subcommand that makes a process a worker.
pub(crate) const WORKER: &str = "worker";
/// What any request may take beyond what it was asked to take.
const SLACK: Duration = Duration::from_secs(30);
/// How long a killed process takes to be gone, unless the kernel holds it.
const QUICK: Duration = Duration::from_secs(2);
/// How long a worker that has said goodbye may take to end.
const GOODBYE: Duration = Duration::from_secs(10);

/// A worker process. Dropping it kills it, if it is still there, and waits until it is gone.
pub(crate) struct Worker {
    child: Child,
    line: UnixStream,
    received: Vec<u8>,
    /// It has ended, or ends by itself without being told to close.
    done: bool,
}

impl Worker {
    /// Starts a worker that can see what `visible` says.
    pub(crate) fn start(visible: Option<&Visible>) -> Result<Self, Failure> {
        let start = || -> io::Result<Self> {
            let (line, theirs) = UnixStream::pair()?;
            line.set_nonblocking(true)?;
            let mut command = Command::new(std::env::current_exe()?);
            command
                .arg(WORKER)
                .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
                .stdout(Stdio::from(OwnedFd::from(theirs)))
                // A terminal's Ctrl-C is for die-check, which ends the worker in order.
                .process_group(0);
            command.envs(visible.into_iter().flat_map(Visible::variables));
            Ok(Self { child: command.spawn()?, line, received: Vec::new(), done: false })
        };
        start().map_err(Failure::internal("starting a worker"))
    }

    /// Whether there is a driver library to be opened.
    pub(crate) fn probe(library: &str, stop: &Stop) -> Result<(), Failure> {
        let mut worker = Self::start(None)?;
        worker.ask(wire::Probe { library: library.to_owned() }, Duration::ZERO, stop)?;
        worker.close(false, Duration::ZERO, stop)
    }

    /// Asks, and waits for the answer: for `expected` and a good while more, after which the worker is
    /// killed. It is killed as well when the operator insists on an end.
    pub(crate) fn ask<R: Request>(
        &mut self,
        request: R,
        expected: Duration,
        stop: &Stop,
    ) -> Result<R::Answer, Failure> {
        let command: wire::Command = request.into();
        let mut line =
            serde_json::to_vec(&command).map_err(Failure::internal("writing a request"))?;
        line.push(b'\n');
        if self.line.write_all(&line).is_err() {
            return Err(self.ended());
        }
        let answer = self.receive(Instant::now() + expected + SLACK, stop)?;
        match serde_json::from_slice(&answer).map_err(Failure::internal("reading an answer"))? {
            Reply::Done(done) => Ok(done),
            Reply::Failed(failure) => {
                // It does not wait for a launch that hangs, and cannot take anything down under one.
                self.done |= failure.kind == Kind::TimedOut;
                Err(failure)
            }
        }
    }

    /// Tells the worker to take everything down, if there is still somebody to be told, and waits until
    /// it is gone.
    pub(crate) fn close(
        mut self,
        fast: bool,
        patience: Duration,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let closed = if self.done {
            Ok(())
        } else {
            self.ask(wire::Close { fast }, patience, stop).map(|_| ())
        };
        self.reap()?;
        closed
    }

    fn receive(&mut self, limit: Instant, stop: &Stop) -> Result<Vec<u8>, Failure> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let rest = self.received.split_off(end + 1);
                return Ok(std::mem::replace(&mut self.received, rest));
            }
            match self.line.read(&mut buffer) {
                Ok(0) => return Err(self.ended()),
                Ok(n) => {
                    self.received.extend_from_slice(&buffer[..n]);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(self.ended()),
            }
            if stop.count() > 1 {
                self.kill()?;
                return Err(Failure::new(Kind::Stopped, "killed the worker, as was insisted on"));
            }
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.kill()?;
                let text = "the driver did not come back in time: the worker was killed";
                return Err(Failure::new(Kind::TimedOut, text));
            }
            ready(&[self.line.as_fd(), stop.as_fd()], left)
                .map_err(Failure::internal("waiting for the worker"))?;
        }
    }

    /// The worker has gone without an answer.
    fn ended(&mut self) -> Failure {
        match self.reap() {
            Ok(status) => Failure::new(Kind::Internal, format!("the worker ended early: {status}")),
            Err(failure) => failure,
        }
    }

    /// Waits until the worker is gone; kills it if it takes too long.
    fn reap(&mut self) -> Result<ExitStatus, Failure> {
        self.done = true;
        if self.gone_within(GOODBYE)? {
            return self.child.wait().map_err(Failure::internal("reaping the worker"));
        }
        self.kill()
    }

    /// Kills the worker and waits, as long as it takes: a process that the kernel cannot end still has
    /// its context, and the die must stay in the slot for it.
    fn kill(&mut self) -> Result<ExitStatus, Failure> {
        self.done = true;
        self.child.kill().map_err(Failure::internal("killing the worker"))?;
        if !self.gone_within(QUICK)? {
            let id = self.child.id();
            eprintln!("die-check: worker {id} does not go; its die stays in the slot until it has");
        }
        self.child.wait().map_err(Failure::internal("reaping the worker"))
    }

    /// Whether the worker's end of the line closes within `time`, which it does when it ends in whatever
    /// way.
    fn gone_within(&mut self, time: Duration) -> Result<bool, Failure> {
        let limit = Instant::now() + time;
        let mut buffer = [0; 256];
        loop {
            match self.line.read(&mut buffer) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = limit.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(false);
                    }
                    ready(&[self.line.as_fd()], left)
                        .map_err(Failure::internal("waiting for the worker's end"))?;
                }
                Ok(0) | Err(_) => return Ok(true),
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.kill();
        }
    }
}
