//! What all verbs share: the state behind its lock, costs, faults, and undoable writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    clock::Clock,
    faults::{Effect, Faults, Verb},
    firmware,
    hardware::Hardware,
    kernel::{Kernel, Resource, Soft},
    power,
    preset::{Costs, Preset},
};
use crate::{Bdf, DieId, MachineError, Slot, SlotId, seam::Placement};

type Books = (BTreeMap<u8, Resource>, Resource, Resource);
pub(super) type Resources = (BTreeMap<Bdf, Books>, BTreeMap<Bdf, Placement>);

/// The machine at one moment.
#[derive(Debug)]
pub(super) struct State {
    pub(super) hw: Hardware,
    pub(super) kernel: Kernel,
    /// Dies that have their place.
    pub(super) placed: BTreeMap<Bdf, Placement>,
    /// Counts power-ons: what was held before one means nothing after it.
    pub(super) power_ons: u64,
    pub(super) next_holder: u64,
    on_since: Duration,
}

impl State {
    pub(super) fn power_on(preset: &Preset, slots: &[Slot], now: Duration) -> Self {
        let (hw, kernel) = firmware::power_on(preset, slots, Duration::ZERO);
        let placed = BTreeMap::new();
        Self { hw, kernel, placed, power_ons: 0, next_holder: 0, on_since: now }
    }

    /// Wakes a die; whether it was asleep.
    pub(super) fn resume(&mut self, now: Duration, die: Bdf) -> bool {
        power::resume(&mut self.hw, &mut self.kernel, now, die)
    }

    /// Lets a die sleep.
    pub(super) fn suspend(&mut self, now: Duration, die: Bdf) {
        power::suspend(&mut self.hw, &mut self.kernel, now, die);
    }

    /// What placing changes of the kernel's books.
    pub(super) fn resources(&self) -> Resources {
        let of =
            |(at, soft): (&Bdf, &Soft)| (*at, (soft.bars.clone(), soft.memory, soft.prefetchable));
        (self.kernel.functions.iter().map(of).collect(), self.placed.clone())
    }

    /// Puts the books back.
    pub(super) fn restore(&mut self, (functions, placed): Resources) {
        for (at, (bars, memory, prefetchable)) in functions {
            if let Some(soft) = self.kernel.functions.get_mut(&at) {
                (soft.bars, soft.memory, soft.prefetchable) = (bars, memory, prefetchable);
            }
        }
        self.placed = placed;
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) preset: Preset,
    pub(super) slots: Vec<Slot>,
    pub(super) costs: Costs,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) faults: Faults,
    /// The dies, in order of address.
    pub(super) dies: Vec<Bdf>,
    /// Held by the one verb that changes something.
    verbs: Mutex<()>,
    pub(super) state: Mutex<State>,
}

/// What a verb was let in with.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) fail_step: Option<(u32, bool)>,
    pub(super) late_link: Duration,
}

impl Inner {
    pub(super) fn new(
        preset: Preset,
        slots: Vec<Slot>,
        costs: Costs,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let state = State::power_on(&preset, &slots, clock.now());
        let gk210 = crate::PciId::GK210;
        let is_die = |at: &&Bdf| state.hw.nodes[at].config().u32(0) == gk210_word(gk210);
        let dies = state.hw.nodes.keys().filter(is_die).copied().collect();
        let faults = Faults::default();
        let state = Mutex::new(state);
        Self { preset, slots, costs, clock, faults, dies, verbs: Mutex::new(()), state }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a die; whether it was asleep.
    pub(super) fn wake(&self, die: Bdf) -> bool {
        let mut state = self.state();
        let now = self.now(&state);
        state.resume(now, die)
    }

    /// Lets dies sleep.
    pub(super) fn let_sleep(&self, dies: impl IntoIterator<Item = Bdf>) {
        let mut state = self.state();
        let now = self.now(&state);
        for die in dies {
            state.suspend(now, die);
        }
    }

    pub(super) fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.verbs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since power-on.
    pub(super) fn now(&self, state: &State) -> Duration {
        self.clock.now().saturating_sub(state.on_since)
    }

    /// Lets the faults of `verb` happen that come before it starts.
    pub(super) fn enter(&self, verb: Verb, die: Option<Bdf>) -> Result<Entry, MachineError> {
        let power_ons = self.state().power_ons;
        let mut entry = Entry::default();
        for effect in self.faults.take(verb, die) {
            match effect {
                Effect::Delay { ms } => self.clock.sleep(Duration::from_millis(ms)),
                Effect::Hang { deadline_ms } => self.hang(verb, die, deadline_ms)?,
                Effect::AllOnes => {
                    if let Some(die) = die {
                        self.state().hw.gone.insert(die);
                    }
                }
                Effect::Busy => return Err(busy(verb, die)),
                Effect::LateDriverLink { ms } => entry.late_link = Duration::from_millis(ms),
                Effect::FailStep { step, undo_fails } => entry.fail_step = Some((step, undo_fails)),
            }
        }
        self.same_power_on(power_ons)?;
        Ok(entry)
    }

    /// An error where the machine was switched off meanwhile.
    fn same_power_on(&self, power_ons: u64) -> Result<(), MachineError> {
        if self.state().power_ons == power_ons {
            return Ok(());
        }
        let source = io::Error::from(io::ErrorKind::ConnectionReset);
        Err(MachineError::Io { operation: "wait for", path: "the machine".to_owned(), source })
    }

    fn hang(
        &self,
        verb: Verb,
        die: Option<Bdf>,
        deadline: Option<u64>,
    ) -> Result<(), MachineError> {
        let released = self.faults.hang(deadline.map(Duration::from_millis));
        if released {
            return Ok(());
        }
        let seconds = deadline.unwrap_or_default().div_ceil(1000);
        let operation = verb.name();
        Err(die.map_or_else(
            || {
                let source = io::Error::from(io::ErrorKind::TimedOut);
                MachineError::Io { operation, path: "the machine".to_owned(), source }
            },
            |die| MachineError::Deadline { operation, die, seconds },
        ))
    }

    pub(super) fn die(&self, die: Bdf) -> Result<DieId, MachineError> {
        let index = self.dies.binary_search(&die).ok();
        index
            .and_then(|index| u16::try_from(index).ok())
            .map(DieId)
            .ok_or(MachineError::UnknownDie(die))
    }

    pub(super) fn slot(&self, slot: SlotId) -> Result<Slot, MachineError> {
        crate::seam::slot_of(&self.slots, slot).ok_or(MachineError::UnknownSlot(slot))
    }

    /// The dies behind the root port of `die`.
    pub(super) fn card_of(&self, state: &State, die: Bdf) -> Vec<Bdf> {
        let root = state.hw.above(die).last();
        let same = |other: &Bdf| state.hw.above(*other).last() == root;
        self.dies.iter().copied().filter(same).collect()
    }

    /// Every function of the card of `die`, bridges too.
    pub(super) fn functions_of_card(&self, state: &State, die: Bdf) -> BTreeSet<Bdf> {
        let dies = self.card_of(state, die);
        dies.iter().flat_map(|die| state.hw.above(*die).chain([*die])).collect()
    }
}

fn gk210_word(id: crate::PciId) -> u32 {
    u32::from(id.device) << 16 | u32::from(id.vendor)
}

fn busy(verb: Verb, die: Option<Bdf>) -> MachineError {
    let sysfs = |file: &str| {
        die.map(|die| format!("/sys/bus/pci/devices/{die}/{file}")).unwrap_or_default()
    };
    let (operation, path) = match verb {
        Verb::Bind => ("write", "/sys/bus/pci/drivers_probe".to_owned()),
        Verb::Unbind => ("write", sysfs("driver/unbind")),
        Verb::Survey => ("read", "/sys/bus/pci/devices".to_owned()),
        Verb::Hold => ("open", "/dev/nvidia*".to_owned()),
        Verb::Place | Verb::Open | Verb::Shut | Verb::Peek => ("ioctl", "/dev/slotwin".to_owned()),
    };
    let source = io::Error::from(io::ErrorKind::ResourceBusy);
    MachineError::Io { operation, path, source }
}

/// A refusal in words.
pub(super) fn refused(verb: Verb, die: Bdf, reason: impl Into<String>) -> MachineError {
    MachineError::Refused { operation: verb.name(), die, reason: reason.into() }
}
