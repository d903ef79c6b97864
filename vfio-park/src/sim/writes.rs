//! Config writes that can be undone.

use std::io;

use super::inner::Inner;
use crate::{Bdf, MachineError, model::reg};

/// Writes of one verb: each is read back, and all can be undone in reverse.
#[derive(Debug)]
pub(super) struct Writes<'a> {
    inner: &'a Inner,
    /// Function, register, size, value before.
    undo: Vec<(Bdf, u16, u8, u32)>,
    count: u32,
    fail_step: Option<(u32, bool)>,
}

impl<'a> Writes<'a> {
    pub(super) fn new(inner: &'a Inner, fail_step: Option<(u32, bool)>) -> Self {
        Self { inner, undo: Vec::new(), count: 0, fail_step }
    }

    /// How many there were, sleep and wake left out.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn dword(&mut self, at: Bdf, offset: u16, value: u32) -> Result<(), MachineError> {
        self.put(at, offset, 4, value)
    }

    pub(super) fn word(&mut self, at: Bdf, offset: u16, value: u16) -> Result<(), MachineError> {
        self.put(at, offset, 2, value.into())
    }

    /// Reads a register; an error where the function answers all-ones.
    pub(super) fn read(&self, at: Bdf, offset: u16) -> Result<u32, MachineError> {
        let state = self.inner.state();
        let config = state.hw.config(at).ok_or_else(|| self.absent(at))?;
        Ok(config.u32(offset))
    }

    /// The kernel's power management moves a die to D0 or D3hot, as its state asks.
    pub(super) fn power(&mut self, die: Bdf, bits: u16) -> Result<(), MachineError> {
        self.put(die, reg::PMCSR, 2, bits.into())?;
        self.count -= 1;
        Ok(())
    }

    fn put(&mut self, at: Bdf, offset: u16, size: u8, value: u32) -> Result<(), MachineError> {
        self.count += 1;
        if self.fail_step.is_some_and(|(step, _)| step == self.count) {
            return Err(eio(at, offset));
        }
        {
            let mut state = self.inner.state();
            let now = self.inner.now(&state);
            let before = state.hw.config(at).ok_or_else(|| self.absent(at))?.u32(offset);
            let before = if size == 2 { before & 0xffff } else { before };
            state.hw.config_write(now, at, offset, size, value);
            self.undo.push((at, offset, size, before));
            let after = state.hw.config(at).ok_or_else(|| self.absent(at))?.u32(offset);
            // Bits that cannot be written stay: PMCSR and BARs have some, windows too.
            let fixed = match offset {
                reg::PMCSR => 0xffff_fffc,
                reg::PREF_BASE_UPPER | reg::PREF_LIMIT_UPPER => 0,
                _ => 0x000f_000f,
            };
            let fixed = if size == 2 { fixed | 0xffff_0000 } else { fixed };
            if (after ^ value) & !fixed != 0 {
                return Err(eio(at, offset));
            }
        }
        self.inner.clock.sleep(self.inner.costs.config_write);
        Ok(())
    }

    /// Puts everything back in reverse and says `error`, or that it could not.
    pub(super) fn undo(
        self,
        operation: &'static str,
        die: Bdf,
        error: MachineError,
    ) -> MachineError {
        let fails =
            self.fail_step.is_some_and(|(step, undo_fails)| undo_fails && step <= self.count);
        let mut lost = None;
        for (at, offset, size, before) in self.undo.into_iter().rev() {
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
