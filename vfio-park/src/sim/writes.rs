//! Config writes that can be undone.

use std::io;

use super::{hardware::Node, inner::Inner};
use crate::{Bdf, MachineError, model::reg};

/// Writes of one verb. What holds its value already is not written; the rest is read back, and all
/// of it can be undone in reverse.
#[derive(Debug)]
pub(super) struct Writes<'a> {
    inner: &'a Inner,
    undo: Vec<Undo>,
    count: u32,
    fail_step: Option<(u32, bool)>,
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    at: Bdf,
    offset: u16,
    size: u8,
    before: u32,
}

impl<'a> Writes<'a> {
    pub(super) fn new(inner: &'a Inner, fail_step: Option<(u32, bool)>) -> Self {
        Self { inner, undo: Vec::new(), count: 0, fail_step }
    }

    /// How many there were.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn dword(&mut self, at: Bdf, offset: u16, value: u32) -> Result<(), MachineError> {
        self.put(at, offset, 4, value)
    }

    /// Changes the command register.
    pub(super) fn command(
        &mut self,
        at: Bdf,
        change: impl Fn(u16) -> u16,
    ) -> Result<(), MachineError> {
        let before = self.read(at, reg::COMMAND)? & 0xffff;
        let after = change(u16::try_from(before).expect("masked"));
        self.put(at, reg::COMMAND, 2, after.into())
    }

    /// Reads a register; an error where the function answers all-ones.
    pub(super) fn read(&self, at: Bdf, offset: u16) -> Result<u32, MachineError> {
        let state = self.inner.state();
        let config = state.hw.config(at).ok_or_else(|| self.absent(at))?;
        Ok(config.u32(offset))
    }

    fn put(&mut self, at: Bdf, offset: u16, size: u8, value: u32) -> Result<(), MachineError> {
        if self.apply(at, offset, size, value)? {
            self.inner.clock.sleep(self.inner.costs.config_write);
        }
        Ok(())
    }

    /// Whether there was anything to write.
    fn apply(&mut self, at: Bdf, offset: u16, size: u8, value: u32) -> Result<bool, MachineError> {
        let mut state = self.inner.state();
        let bridge = matches!(state.hw.nodes.get(&at), Some(Node::Bridge(_)));
        let mask = match (offset, size) {
            // The low bits of a window tell its kind, whatever is written.
            (reg::MEMORY_BASE | reg::PREF_BASE, _) if bridge => 0xfff0_fff0,
            (_, 2) => 0xffff,
            _ => u32::MAX,
        };
        let before = state.hw.config(at).ok_or_else(|| self.absent(at))?.u32(offset);
        if (before ^ value) & mask == 0 {
            return Ok(false);
        }
        self.count += 1;
        if self.fail_step.is_some_and(|(step, _)| step == self.count) {
            return Err(eio(at, offset));
        }
        let now = self.inner.now(&state);
        self.undo.push(Undo { at, offset, size, before: before & mask });
        state.hw.config_write(now, at, offset, size, value);
        let after = state.hw.config(at).ok_or_else(|| self.absent(at))?.u32(offset);
        if (after ^ value) & mask != 0 { Err(eio(at, offset)) } else { Ok(true) }
    }

    /// Puts everything back in reverse and says `error`, or that it could not.
    pub(super) fn undo(
        &mut self,
        operation: &'static str,
        die: Bdf,
        error: MachineError,
    ) -> MachineError {
        let failed = |(step, undo_fails)| undo_fails && step <= self.count;
        let fails = self.fail_step.is_some_and(failed);
        let mut lost = None;
        for Undo { at, offset, size, before } in self.undo.drain(..).rev() {
            let mut state = self.inner.state();
            let now = self.inner.now(&state);
            if fails || state.hw.config(at).is_none() {
                lost = lost.or(Some((at, offset)));
                continue;
            }
            state.hw.config_write(now, at, offset, size, before);
        }
        match lost {
            None => error,
            // A die that is off the bus has nothing left to undo.
            Some(_) if matches!(error, MachineError::Absent(_)) && !fails => error,
            Some((at, offset)) => MachineError::NotUndone {
                operation,
                die,
                undo: format!("config register {offset:#x} of {at} did not take its old value"),
                source: Box::new(error),
            },
        }
    }

    /// Whether a function answers all-ones.
    pub(super) fn is_absent(&self, at: Bdf) -> bool {
        self.inner.state().hw.config(at).is_none()
    }

    fn absent(&self, at: Bdf) -> MachineError {
        if self.inner.dies.contains(&at) { MachineError::Absent(at) } else { eio(at, 0) }
    }
}

fn eio(at: Bdf, offset: u16) -> MachineError {
    let source = io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
    MachineError::Io { operation: "write", path: format!("config {offset:#x} of {at}"), source }
}
