//! The simulated machine does what the real one was seen to do.

mod drivers;
mod faults;
mod gates;
mod places;
mod planned;
mod promises;
mod threads;
mod visits;

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    Bdf, DieState, DriverName, Gate, Machine, MachineError, SlotId, Survey,
    seam::{Hold, Opened, Placed, Placement},
};

const SLOT: SlotId = SlotId(0);

/// A simulated machine that stands still in time unless told otherwise.
struct Board {
    sim: Simulator,
    clock: Arc<ManualClock>,
    dies: Vec<Bdf>,
}

impl Board {
    fn new(preset: &str) -> Self {
        let preset: Preset = preset.parse().expect("a preset");
        let slots = preset.slots();
        let clock = Arc::new(ManualClock::default());
        let sim = Simulator::with(preset, slots, Costs::NONE, clock.clone());
        let dies = sim.survey().expect("a survey").dies.iter().map(|die| die.bdf).collect();
        Self { sim, clock, dies }
    }

    fn survey(&self) -> Survey {
        self.sim.survey().expect("a survey")
    }

    fn state(&self, die: Bdf) -> DieState {
        let survey = self.survey();
        DieState::read(&survey, survey.die(die).expect("a die"), self.sim.slots())
    }

    fn slot_base(&self, slot: SlotId) -> u64 {
        self.sim.slots()[usize::from(slot.0)].range().base()
    }

    fn place(&self, die: Bdf, slot: SlotId) -> Result<Placed, MachineError> {
        self.sim.place(die, Placement { slot, gate: Gate::Window })
    }

    /// Cold: place, open, hand over, initialise.
    fn adopt(&self, die: Bdf) -> Box<dyn Hold> {
        self.place(die, SLOT).expect("placed");
        self.sim.open(SLOT, die).expect("opened");
        self.sim.unbind(die).expect("free");
        self.sim.bind(die, &DriverName::nvidia()).expect("bound");
        self.sim.hold(die).expect("initialised")
    }

    fn adopt_all(&self) -> Vec<Box<dyn Hold>> {
        for die in &self.dies {
            self.place(*die, SLOT).expect("placed");
        }
        self.dies.iter().map(|die| self.adopt(*die)).collect()
    }

    fn open(&self, die: Bdf) -> Opened {
        self.sim.open(SLOT, die).expect("opened")
    }

    fn read(&self, address: u64) -> u32 {
        let mut data = [0; 4];
        self.sim.cpu_read(address, &mut data);
        u32::from_le_bytes(data)
    }

    fn write(&self, address: u64, value: u32) {
        self.sim.cpu_write(address, &value.to_le_bytes());
    }

    /// Both ends of the slot.
    fn ends(&self, slot: SlotId) -> [u64; 2] {
        let range = self.sim.slots()[usize::from(slot.0)].range();
        [range.base(), range.last() - 3]
    }

    fn no_violations(&self) {
        assert_eq!(self.sim.violations(), []);
    }
}

fn mark(die: Bdf, end: u32) -> u32 {
    0x4d00_0000 | u32::from(die.bus()) << 8 | end
}

fn reason(error: &MachineError) -> String {
    match error {
        MachineError::Refused { reason, .. } | MachineError::NotTaken { reason, .. } => {
            reason.clone()
        }
        other => other.to_string(),
    }
}
