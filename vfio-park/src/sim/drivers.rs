//! Drivers that probe and refuse, by the rules of the real ones.

use std::{sync::Arc, time::Duration};

use super::{
    faults::Verb,
    inner::{Entry, Inner, State, refused},
    kernel::{Bound, Resource},
    preset::Iommu,
};
use crate::{
    BOOT0_GK210, Bdf, DriverName, MachineError, Reading, Register,
    model::{command, reg},
    seam::Hold,
};

/// How often `bind` and `unbind` try again where the system says EBUSY, and how long they wait.
const BUSY_RETRIES: u32 = 4;
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// How long a driver's link may take to show up.
const LINK_DEADLINE: Duration = Duration::from_secs(10);

impl Inner {
    /// Like [`Inner::enter`], but EBUSY is tried again.
    pub(super) fn enter_patiently(&self, verb: Verb, die: Bdf) -> Result<Entry, MachineError> {
        let mut retries = 0;
        loop {
            match self.enter(verb, Some(die)) {
                Err(MachineError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::ResourceBusy
                        && retries < BUSY_RETRIES =>
                {
                    retries += 1;
                    self.clock.sleep(BUSY_WAIT);
                }
                entered => return entered,
            }
        }
    }

    pub(super) fn bind_die(
        &self,
        entry: &Entry,
        die: Bdf,
        driver: &DriverName,
    ) -> Result<(), MachineError> {
        {
            let state = self.state();
            if state.hw.config(die).is_none() {
                return Err(MachineError::Absent(die));
            }
            match state.kernel.driver(die) {
                Some(bound) if bound == driver => return Ok(()),
                Some(bound) => {
                    let reason = format!("{bound} has it: unbind it first");
                    return Err(refused(Verb::Bind, die, reason));
                }
                None => {}
            }
        }
        self.clock.sleep(self.costs.bind);
        {
            let mut state = self.state();
            let now = self.now(&state);
            if state.hw.config(die).is_none() {
                return Err(MachineError::Absent(die));
            }
            self.probe(&mut state, die, driver).map_err(|reason| MachineError::NotTaken {
                driver: driver.clone(),
                die,
                reason,
            })?;
            let shows_at = now.saturating_add(entry.late_link);
            if let Some(soft) = state.kernel.functions.get_mut(&die) {
                soft.bound = Some(Bound { driver: driver.clone(), shows_at });
            }
        }
        self.clock.sleep(entry.late_link.min(LINK_DEADLINE));
        if entry.late_link > LINK_DEADLINE {
            let seconds = LINK_DEADLINE.as_secs();
            return Err(MachineError::Deadline { operation: Verb::Bind.name(), die, seconds });
        }
        Ok(())
    }

    /// Loads the driver where needed and lets it look at the die; the reason where it refuses.
    fn probe(&self, state: &mut State, die: Bdf, driver: &DriverName) -> Result<(), String> {
        let now = self.now(state);
        match driver.as_str() {
            "pci-stub" => Ok(()),
            "vfio-pci" => {
                if self.preset.iommu == Iommu::None {
                    return Err("probe failed with error -22 (EINVAL): there is no IOMMU, and \
                                vfio's noiommu mode is off; park on pci-stub"
                        .to_owned());
                }
                // In the slot it is kept awake.
                if !self.open_dies(state).contains(&die) {
                    state.suspend(now, die);
                }
                Ok(())
            }
            "nvidia" if state.kernel.nvidia_loaded => nvidia_probe(state, now, die),
            "nvidia" => {
                // Loading it probes every die that nobody has, this one among them.
                let free = |at: &Bdf| state.kernel.driver(*at).is_none() && *at != die;
                let others: Vec<Bdf> = self.dies.iter().copied().filter(free).collect();
                let probed = nvidia_probe(state, now, die);
                let mut taken = probed.is_ok();
                for other in others {
                    let wanted = state.kernel.functions[&other].driver_override.is_none();
                    if wanted && nvidia_probe(state, now, other).is_ok() {
                        let driver = driver.clone();
                        let bound = Some(Bound { driver, shows_at: now });
                        state.kernel.functions.entry(other).or_default().bound = bound;
                        taken = true;
                    }
                }
                state.kernel.nvidia_loaded = taken;
                if taken { probed } else { Err(no_devices(&probed)) }
            }
            _ => Err(format!("there is no driver of that name: `modprobe {driver}` finds none")),
        }
    }

    pub(super) fn unbind_die(&self, die: Bdf) -> Result<(), MachineError> {
        let driver = {
            let state = self.state();
            let Some(driver) = state.kernel.driver(die).cloned() else { return Ok(()) };
            if state.hw.config(die).is_none() {
                return Err(MachineError::Absent(die));
            }
            let holders: Vec<String> =
                state.kernel.functions[&die].holders.values().cloned().collect();
            if !holders.is_empty() {
                return Err(MachineError::InUse { die, holders });
            }
            driver
        };
        self.clock.sleep(self.costs.unbind);
        let mut state = self.state();
        let now = self.now(&state);
        if state.hw.config(die).is_none() {
            return Err(MachineError::Absent(die));
        }
        match driver.as_str() {
            "nvidia" => {
                // It turns the bus master off, and then disables the device; decode stays on.
                for _ in 0..2 {
                    let command = state.hw.config(die).map_or(0, |c| c.u16(reg::COMMAND));
                    let off = u32::from(command & !command::MASTER);
                    state.hw.config_write(now, die, reg::COMMAND, 2, off);
                }
                shut_adapter_down(&mut state, now, die);
            }
            "vfio-pci" => drop(state.resume(now, die)),
            _ => {}
        }
        if let Some(soft) = state.kernel.functions.get_mut(&die) {
            soft.bound = None;
        }
        Ok(())
    }

    pub(super) fn peek_die(&self, die: Bdf, register: Register) -> Result<Reading, MachineError> {
        let mut state = self.state();
        let now = self.now(&state);
        let Some(config) = state.hw.config(die) else { return Err(MachineError::Absent(die)) };
        let asleep = config.u16(reg::PMCSR) & 3 != 0;
        if config.u16(reg::COMMAND) & command::MEMORY == 0 {
            let reason = "it does not decode memory, being out of the slot: open it first";
            return Err(refused(Verb::Peek, die, reason));
        }
        if asleep {
            let reason = "it is asleep in D3hot: adopt it, or read it when it is awake";
            return Err(refused(Verb::Peek, die, reason));
        }
        let Some(bar0) = state.kernel.bar(die, 0).range() else {
            return Err(refused(Verb::Peek, die, "its BAR0 is unassigned: place its card first"));
        };
        let mut data = [0; 4];
        state.hw.read(now, bar0.base() + u64::from(register.offset()), &mut data);
        Ok(Reading::from_raw(u32::from_le_bytes(data)))
    }

    pub(super) fn hold_die(
        self: &Arc<Self>,
        die: Bdf,
        who: String,
    ) -> Result<AdapterHold, MachineError> {
        let resident = |state: &State| {
            if state.hw.config(die).is_none() {
                return Err(MachineError::Absent(die));
            }
            if state.kernel.driver(die) != Some(&DriverName::nvidia()) {
                return Err(refused(Verb::Hold, die, "it is not bound to nvidia: adopt it first"));
            }
            Ok(state.kernel.functions[&die].holders.is_empty())
        };
        let first = resident(&self.state())?;
        if first {
            self.clock.sleep(self.costs.adapter_up);
        }
        let mut state = self.state();
        let first = resident(&state)?;
        if first {
            adapter_comes_up(&state, die).map_err(|reason| refused(Verb::Hold, die, reason))?;
        }
        let number = state.next_holder;
        state.next_holder += 1;
        if let Some(soft) = state.kernel.functions.get_mut(&die) {
            soft.holders.insert(number, who);
        }
        Ok(AdapterHold { inner: Arc::clone(self), die, number, power_ons: state.power_ons })
    }
}

/// What nvidia 470 checks before it takes a die.
fn nvidia_probe(state: &mut State, now: Duration, die: Bdf) -> Result<(), String> {
    state.resume(now, die);
    let Some(bar0) = state.kernel.bar(die, 0).range() else {
        return Err("pci_enable_device: BAR 0 is unassigned".to_owned());
    };
    // BARs without a resource are left out silently; with BAR1 the upstream bridge is looked at.
    if state.kernel.bar(die, 1) != Resource::Unassigned {
        let upstream = state.hw.above(die).next().and_then(|at| state.hw.config(at));
        let upper = |register| upstream.map_or(0, |config| config.u32(register));
        if upper(reg::PREF_BASE_UPPER) == 0 || upper(reg::PREF_LIMIT_UPPER) == 0 {
            return Err("the PCI bridge immediately upstream of this GPU does not define a \
                        matching prefetchable memory window"
                .to_owned());
        }
    }
    let mut boot0 = [0; 4];
    let command = state.hw.config(die).map_or(0, |config| config.u16(reg::COMMAND));
    let on = command | command::MEMORY | command::MASTER;
    state.hw.config_write(now, die, reg::COMMAND, 2, on.into());
    state.hw.read(now, bar0.base(), &mut boot0);
    match Reading::from_raw(u32::from_le_bytes(boot0)) {
        Reading::Value(BOOT0_GK210) => Ok(()),
        reading => Err(format!("PMC_BOOT_0 reads {reading}: BAR0 does not reach the die")),
    }
}

fn no_devices(probed: &Result<(), String>) -> String {
    let why = probed.as_ref().err().map_or("nothing to probe", String::as_str);
    format!("modprobe nvidia: -19 (ENODEV), no NVIDIA devices probed; {why}")
}

/// What the adapter needs at its first open.
fn adapter_comes_up(state: &State, die: Bdf) -> Result<(), String> {
    let failed = |why| Err(format!("RmInitAdapter failed! (0x22:0xffff:667): {why}"));
    let Some(bar1) = state.kernel.bar(die, 1).range() else {
        return failed("BAR1 is unassigned");
    };
    match state.hw.route(bar1.base()) {
        Some((reached, 1, 0)) if reached == die => Ok(()),
        _ => failed("BAR1 does not reach the die, open its window first"),
    }
}

fn shut_adapter_down(state: &mut State, now: Duration, die: Bdf) {
    if let Some(die) = state.hw.die_mut(die) {
        die.shut_adapter_down(now).expect("sparse memory can be forgotten");
    }
}

/// An open `/dev/nvidiaN`. The last one to go shuts the adapter down, and its contexts are lost.
#[derive(Debug)]
pub struct AdapterHold {
    inner: Arc<Inner>,
    die: Bdf,
    number: u64,
    power_ons: u64,
}

impl Hold for AdapterHold {}

impl Drop for AdapterHold {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        if state.power_ons != self.power_ons {
            return;
        }
        let Some(soft) = state.kernel.functions.get_mut(&self.die) else { return };
        soft.holders.remove(&self.number);
        if soft.holders.is_empty() {
            let now = self.inner.now(&state);
            shut_adapter_down(&mut state, now, self.die);
        }
    }
}
