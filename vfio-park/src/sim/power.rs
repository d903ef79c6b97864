//! The kernel's power management of dies: what it saves when one falls asleep, it writes back when
//! the die wakes. Whoever programs a sleeping die loses what was programmed.

use std::time::Duration;

use super::{hardware::Hardware, kernel::Kernel};
use crate::{Bdf, model::reg};

const D3HOT: u16 = 3;
const BARS: [u16; 5] = [reg::BAR0, 0x14, 0x18, 0x1c, 0x20];

/// Command register and BARs, as they were when the die fell asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    command: u16,
    bars: [u32; BARS.len()],
}

/// To D3hot, unless it is there or off the bus.
pub(super) fn suspend(hw: &mut Hardware, kernel: &mut Kernel, now: Duration, die: Bdf) {
    let Some(config) = hw.config(die) else { return };
    let pmcsr = config.u16(reg::PMCSR);
    if pmcsr & D3HOT != 0 {
        return;
    }
    let saved = Saved { command: config.u16(reg::COMMAND), bars: BARS.map(|at| config.u32(at)) };
    kernel.functions.entry(die).or_default().saved = Some(saved);
    hw.config_write(now, die, reg::PMCSR, 2, (pmcsr | D3HOT).into());
}

/// To D0; whether it was asleep.
pub(super) fn resume(hw: &mut Hardware, kernel: &mut Kernel, now: Duration, die: Bdf) -> bool {
    let Some(config) = hw.config(die) else { return false };
    let pmcsr = config.u16(reg::PMCSR);
    if pmcsr & D3HOT == 0 {
        return false;
    }
    hw.config_write(now, die, reg::PMCSR, 2, (pmcsr & !D3HOT).into());
    if let Some(saved) = kernel.functions.entry(die).or_default().saved.take() {
        for (at, value) in BARS.into_iter().zip(saved.bars) {
            if hw.config(die).is_some_and(|config| config.u32(at) != value) {
                hw.config_write(now, die, at, 4, value);
            }
        }
        if hw.config(die).is_some_and(|config| config.u16(reg::COMMAND) != saved.command) {
            hw.config_write(now, die, reg::COMMAND, 2, saved.command.into());
        }
    }
    true
}
