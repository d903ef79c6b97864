//! The simulator as a [`Machine`], and what can be done to it beside the seam.

use std::sync::Arc;

use super::{
    clock::{Clock, RealClock},
    drivers::AdapterHold,
    faults::{Faults, Verb},
    hardware::Violation,
    inner::{Inner, State},
    map::DieMap,
    preset::{Costs, Preset},
};
use crate::{
    Bdf, DriverName, Machine, MachineError, Reading, Register, Slot, SlotId, Survey,
    model::ConfigWrite,
    seam::{Hold, Opened, Placed, Placement},
};

/// A simulated machine. Cheap to clone; clones are the same machine.
#[derive(Clone, Debug)]
pub struct Simulator(Arc<Inner>);

impl Simulator {
    /// A machine in real time, with the slots of its preset.
    pub fn new(preset: Preset) -> Self {
        let slots = preset.slots();
        Self::with(preset, slots, Costs::default(), Arc::new(RealClock::new()))
    }

    /// A machine with slots, costs and a clock of your own.
    pub fn with(preset: Preset, slots: Vec<Slot>, costs: Costs, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner::new(preset, slots, costs, clock)))
    }

    /// What machine it is.
    pub fn preset(&self) -> &Preset {
        &self.0.preset
    }

    /// Its slots.
    pub fn slots(&self) -> &[Slot] {
        &self.0.slots
    }

    /// What goes wrong.
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// A processor's read of physical addresses. Where nobody answers, and of RAM, which is not
    /// simulated: all-ones.
    pub fn cpu_read(&self, address: u64, data: &mut [u8]) {
        let mut state = self.0.state();
        let now = self.0.now(&state);
        state.hw.read(now, address, data);
    }

    /// A processor's write. Where nobody answers it is lost.
    pub fn cpu_write(&self, address: u64, data: &[u8]) {
        let mut state = self.0.state();
        let now = self.0.now(&state);
        state.hw.write(now, address, data);
    }

    /// Reads config space of any function; all-ones where it does not answer.
    pub fn config_read(&self, function: Bdf, offset: u16) -> u32 {
        self.0.state().hw.config(function).map_or(u32::MAX, |config| config.u32(offset))
    }

    /// Writes config space behind everybody's back, as `setpci` does.
    pub fn config_write(&self, write: &ConfigWrite) {
        let mut state = self.0.state();
        let now = self.0.now(&state);
        state.hw.config_write(now, write.bdf, write.offset, write.size, write.value);
    }

    /// Config writes since power-on, firmware's among them.
    pub fn config_writes(&self) -> u64 {
        self.0.state().hw.traced()
    }

    /// Config writes from number `from` on, counted from 0 at power-on; the oldest ones are dropped
    /// after some 260,000.
    pub fn trace(&self, from: u64) -> Vec<ConfigWrite> {
        self.0.state().hw.trace(from)
    }

    /// What happened that must never happen, since the simulator was made.
    pub fn violations(&self) -> Vec<Violation> {
        self.0.state().hw.violations().to_vec()
    }

    /// Somebody else opens `/dev/nvidiaN` of a resident die.
    pub fn hold_as(&self, die: Bdf, who: impl Into<String>) -> Result<AdapterHold, MachineError> {
        self.0.die(die)?;
        self.0.hold_die(die, who.into())
    }

    /// Maps a placed die, as a program does through `/dev/slotwin`.
    pub fn map(&self, die: Bdf) -> Result<DieMap, MachineError> {
        self.0.map_die(die)
    }

    /// The text of `/proc/driver/nvidia/gpus/<die>/information`; there is none of a die that is not
    /// resident.
    pub fn information(&self, die: Bdf) -> Option<String> {
        self.0.information(die)
    }

    /// Sets or clears `driver_override` of a function. A die with one is left alone by drivers that
    /// come along by themselves.
    pub fn set_driver_override(&self, function: Bdf, driver: Option<&DriverName>) {
        if let Some(soft) = self.0.state().kernel.functions.get_mut(&function) {
            soft.driver_override = driver.map(DriverName::to_string);
        }
    }

    /// A die, or a bridge, falls off the bus.
    pub fn fall_off(&self, function: Bdf) {
        self.0.state().hw.gone.insert(function);
    }

    /// `echo 1 > /sys/bus/pci/rescan`. It waits for the verb that runs, and finds nothing to do:
    /// what is in its slot is in the resource tree, what is not is set aside, and an idle slot is
    /// held by a placeholder.
    pub fn rescan(&self) {
        drop(self.0.one_at_a_time());
    }

    /// Off and on again: everything as firmware and kernel leave it, and nothing hangs any more.
    /// What the dies held is gone.
    pub fn power_cycle(&self) {
        {
            let _alone = self.0.one_at_a_time();
            let mut state = self.0.state();
            let mut fresh = State::power_on(&self.0.preset, &self.0.slots, self.0.clock.now());
            fresh.power_ons = state.power_ons + 1;
            fresh.hw.keep_violations(&state.hw);
            *state = fresh;
        }
        self.0.faults.release();
    }
}

impl Machine for Simulator {
    fn survey(&self) -> Result<Survey, MachineError> {
        self.0.enter(Verb::Survey, None)?;
        Ok(self.0.read_survey())
    }

    fn place(&self, die: Bdf, placement: Placement) -> Result<Placed, MachineError> {
        self.0.die(die)?;
        self.0.slot(placement.slot)?;
        let entry = self.0.enter(Verb::Place, Some(die))?;
        let _alone = self.0.one_at_a_time();
        self.0.place_card(&entry, die, placement)
    }

    fn open(&self, slot: SlotId, die: Bdf) -> Result<Opened, MachineError> {
        self.0.die(die)?;
        self.0.slot(slot)?;
        let entry = self.0.enter(Verb::Open, Some(die))?;
        let _alone = self.0.one_at_a_time();
        self.0.open_die(&entry, slot, die)
    }

    fn shut(&self, slot: SlotId) -> Result<(), MachineError> {
        self.0.slot(slot)?;
        let entry = self.0.enter(Verb::Shut, None)?;
        let _alone = self.0.one_at_a_time();
        self.0.shut_slot(&entry, slot)
    }

    fn bind(&self, die: Bdf, driver: &DriverName) -> Result<(), MachineError> {
        self.0.die(die)?;
        let entry = self.0.enter_patiently(Verb::Bind, die)?;
        let _alone = self.0.one_at_a_time();
        self.0.bind_die(&entry, die, driver)
    }

    fn unbind(&self, die: Bdf) -> Result<(), MachineError> {
        self.0.die(die)?;
        self.0.enter_patiently(Verb::Unbind, die)?;
        let _alone = self.0.one_at_a_time();
        self.0.unbind_die(die)
    }

    fn peek(&self, die: Bdf, register: Register) -> Result<Reading, MachineError> {
        self.0.die(die)?;
        self.0.enter(Verb::Peek, Some(die))?;
        self.0.peek_die(die, register)
    }

    fn hold(&self, die: Bdf) -> Result<Box<dyn Hold>, MachineError> {
        self.0.die(die)?;
        self.0.enter(Verb::Hold, Some(die))?;
        let who = format!("slotd (pid {})", std::process::id());
        Ok(Box::new(self.0.hold_die(die, who)?))
    }
}
