//! Operations as lists of steps: what `Plan` prints is what the executor runs.

use std::fmt;

use slotd_client::api;
use vfio_park::{AddressRange, Bdf, DriverName, Gate, SlotId};

/// How operations go about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// What makes a die reachable.
    pub gate: Gate,
    /// Whether the adapters of resident dies are kept initialised.
    pub keep_adapters: bool,
}

/// One step of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Give the card of `die` its place.
    Place {
        /// A die of the card.
        die: Bdf,
        /// The slot that its BAR1 shall hold.
        slot: SlotId,
        /// What makes it reachable.
        gate: Gate,
    },
    /// Shut the slot for whoever is in it and open it for `die`.
    Open {
        /// The slot.
        slot: SlotId,
        /// The die.
        die: Bdf,
    },
    /// Shut the slot.
    Shut {
        /// The slot.
        slot: SlotId,
    },
    /// See that the kernel and the bridges have the die where it shall be.
    VerifyPath {
        /// The die.
        die: Bdf,
        /// Where it shall be.
        range: AddressRange,
    },
    /// See that the die, awake, says what chip it is.
    VerifyAwake {
        /// The die.
        die: Bdf,
    },
    /// Take the die from its driver.
    Unbind {
        /// The die.
        die: Bdf,
        /// The driver that has it.
        driver: DriverName,
    },
    /// Hand the die to a driver, loading it where needed.
    Bind {
        /// The die.
        die: Bdf,
        /// The driver.
        driver: DriverName,
    },
    /// Keep the adapter initialised.
    Hold {
        /// The die.
        die: Bdf,
    },
    /// Stop doing that.
    LetGo {
        /// The die.
        die: Bdf,
    },
}

impl Step {
    /// What is done, in one word.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Place { .. } => "place",
            Self::Open { .. } => "open",
            Self::Shut { .. } => "shut",
            Self::VerifyPath { .. } => "verify_path",
            Self::VerifyAwake { .. } => "verify_awake",
            Self::Unbind { .. } => "unbind",
            Self::Bind { .. } => "bind",
            Self::Hold { .. } => "hold",
            Self::LetGo { .. } => "let_go",
        }
    }

    /// The die it is done to.
    pub fn die(&self) -> Option<Bdf> {
        match self {
            Self::Place { die, .. }
            | Self::Open { die, .. }
            | Self::VerifyPath { die, .. }
            | Self::VerifyAwake { die }
            | Self::Unbind { die, .. }
            | Self::Bind { die, .. }
            | Self::Hold { die }
            | Self::LetGo { die } => Some(*die),
            Self::Shut { .. } => None,
        }
    }

    fn slot(&self) -> Option<SlotId> {
        match self {
            Self::Place { slot, .. } | Self::Open { slot, .. } | Self::Shut { slot } => Some(*slot),
            _ => None,
        }
    }

    fn driver(&self) -> Option<&DriverName> {
        match self {
            Self::Unbind { driver, .. } | Self::Bind { driver, .. } => Some(driver),
            _ => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place { die, slot, gate } => {
                write!(f, "place the card of {die} at {slot} ({gate} gate)")
            }
            Self::Open { slot, die } => write!(f, "open {slot} for {die}"),
            Self::Shut { slot } => write!(f, "shut {slot}"),
            Self::VerifyPath { die, range } => write!(f, "verify that {die} answers at {range}"),
            Self::VerifyAwake { die } => write!(f, "verify that {die} is awake"),
            Self::Unbind { die, driver } => write!(f, "take {die} from {driver}"),
            Self::Bind { die, driver } => write!(f, "hand {die} to {driver}"),
            Self::Hold { die } => write!(f, "hold the adapter of {die}"),
            Self::LetGo { die } => write!(f, "let go of the adapter of {die}"),
        }
    }
}

/// A step and what takes it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    /// The step.
    pub step: Step,
    /// What is run if a later step fails; `None` where there is nothing to take back.
    pub undo: Option<Step>,
}

/// The steps of an operation in one slot, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<PlannedStep>,
}

impl Plan {
    /// A step with nothing to take back.
    pub(super) fn then(&mut self, step: Step) {
        self.steps.push(PlannedStep { step, undo: None });
    }

    /// A step and what takes it back.
    pub(super) fn then_or(&mut self, step: Step, undo: Step) {
        self.steps.push(PlannedStep { step, undo: Some(undo) });
    }

    /// Whether nothing needs doing.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl From<Plan> for api::PlanReply {
    fn from(plan: Plan) -> Self {
        let step = |planned: PlannedStep| api::Step {
            verb: planned.step.verb().to_owned(),
            die: planned.step.die().map(|die| die.to_string()),
            slot: planned.step.slot().map(|slot| slot.0),
            driver: planned.step.driver().map(ToString::to_string),
            text: planned.step.to_string(),
            undo: planned.undo.map(|undo| undo.to_string()),
        };
        Self { steps: plan.steps.into_iter().map(step).collect() }
    }
}
