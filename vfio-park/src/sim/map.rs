//! What a program has of a die: a mapping that the window module can revoke, and the driver's word.

use std::{fmt, sync::Arc};

use thiserror::Error;

use super::{
    faults::Verb,
    inner::{Inner, State, refused},
};
use crate::{Bdf, DriverName, MachineError, Slot};

/// A program's mapping of BAR1, as `/dev/slotwin` hands it out.
pub struct DieMap {
    inner: Arc<Inner>,
    die: Bdf,
    power_ons: u64,
}

/// The die is not in its slot: a real program would get SIGBUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} is not in its slot: a program that touches its mapping gets SIGBUS")]
pub struct BusError(pub Bdf);

impl DieMap {
    /// Reads at an offset in BAR1.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), BusError> {
        let mut state = self.inner.state();
        let address = self.fault(&state, offset, data.len())?;
        let now = self.inner.now(&state);
        state.hw.read(now, address, data);
        Ok(())
    }

    /// Writes at an offset in BAR1.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), BusError> {
        let mut state = self.inner.state();
        let address = self.fault(&state, offset, data.len())?;
        let now = self.inner.now(&state);
        state.hw.write(now, address, data);
        Ok(())
    }

    /// The address behind an offset, while the die is in its slot.
    fn fault(&self, state: &State, offset: u64, len: usize) -> Result<u64, BusError> {
        let slot = state.placed.get(&self.die).and_then(|p| self.inner.slot(p.slot).ok());
        let here =
            state.power_ons == self.power_ons && self.inner.open_dies(state).contains(&self.die);
        let range = slot.map(Slot::range).filter(|_| here).ok_or(BusError(self.die))?;
        let end = offset.checked_add(len as u64).filter(|end| *end <= range.size());
        end.map(|_| range.base() + offset).ok_or(BusError(self.die))
    }
}

impl fmt::Debug for DieMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DieMap").field("die", &self.die).finish_non_exhaustive()
    }
}

impl Inner {
    pub(super) fn map_die(self: &Arc<Self>, die: Bdf) -> Result<DieMap, MachineError> {
        self.die(die)?;
        let state = self.state();
        if !state.placed.contains_key(&die) {
            return Err(refused(Verb::Open, die, "it has no place: place its card first"));
        }
        Ok(DieMap { inner: Arc::clone(self), die, power_ons: state.power_ons })
    }

    /// Nothing in here asks the die: the real file is made of what was cached, too.
    pub(super) fn information(&self, die: Bdf) -> Option<String> {
        let state = self.state();
        let resident =
            self.dies.iter().filter(|at| state.kernel.driver(**at) == Some(&DriverName::nvidia()));
        let minor = resident.copied().position(|at| at == die)?;
        let up = !state.kernel.functions.get(&die)?.holders.is_empty();
        let uuid = if up {
            format!("GPU-{:08x}-0000-0000-0000-000000000000", die.bus())
        } else {
            "GPU-????????-????-????-????-????????????".to_owned()
        };
        Some(format!(
            "Model: \t\t Tesla K80\nIRQ:   \t\t {}\nGPU UUID: \t {uuid}\nVideo BIOS: \t ??.??.??.??.??\n\
             Bus Type: \t PCIe\nDMA Size: \t {bits} bits\nDMA Mask: \t {mask:#x}\n\
             Bus Location: \t {die}\nDevice Minor: \t {minor}\n",
            16 + minor,
            bits = self.preset.physical_bits(),
            mask = (1u64 << self.preset.physical_bits()) - 1,
        ))
    }
}
