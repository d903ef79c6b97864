//! One operation: its steps in order, and back again if one fails.

use std::{
    collections::HashMap,
    error::Error as _,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tracing::{info, warn};
use vfio_park::{
    AddressRange, Bdf, Machine, MachineError, Reading, Register, Survey,
    seam::{Hold, Placement},
};

use crate::core::{Aftermath, Cause, Failure, Outcome, Plan, PlannedStep, Step};

/// The machine, and the adapters that are kept initialised.
pub(super) struct Worker {
    machine: Arc<dyn Machine>,
    holds: HashMap<Bdf, Box<dyn Hold>>,
    abandoned: Arc<AtomicBool>,
}

impl Worker {
    pub(super) fn new(machine: Arc<dyn Machine>, abandoned: Arc<AtomicBool>) -> Self {
        Self { machine, holds: HashMap::new(), abandoned }
    }

    /// Reads the machine; the error in words.
    pub(super) fn survey(&self) -> Result<Survey, String> {
        self.machine.survey().map_err(|error| chain(&error))
    }

    /// Runs the steps; on failure undoes those before it, last first. `None` where the worker was
    /// abandoned in between.
    pub(super) fn run(&mut self, plan: &Plan) -> Option<Outcome> {
        for (index, PlannedStep { step, .. }) in plan.steps.iter().enumerate() {
            if self.abandoned.load(Ordering::Relaxed) {
                return None;
            }
            info!(%step, "step");
            if let Err(error) = self.step(step) {
                let reason = chain(&error);
                warn!(%step, reason, "failed");
                return self.failed(plan, index, step.clone(), &error, reason);
            }
        }
        Some(Outcome::Done)
    }

    fn failed(
        &mut self,
        plan: &Plan,
        index: usize,
        step: Step,
        error: &MachineError,
        reason: String,
    ) -> Option<Outcome> {
        let aftermath = match error {
            MachineError::Deadline { .. } => Aftermath::Wedged(reason.clone()),
            MachineError::NotUndone { undo, .. } => Aftermath::NotUndone(undo.clone()),
            _ => self.undo(&plan.steps[..index])?,
        };
        let die = plan.steps.iter().find_map(|planned| planned.step.die());
        let failure = Failure {
            step,
            reason,
            cause: cause(error),
            aftermath,
            survey: self.survey().ok().map(Box::new),
            adapter_held: die.is_some_and(|die| self.holds.contains_key(&die)),
        };
        Some(Outcome::Failed(failure))
    }

    /// Takes steps back, last first; stops at the first that can't be.
    fn undo(&mut self, done: &[PlannedStep]) -> Option<Aftermath> {
        for undo in done.iter().rev().filter_map(|planned| planned.undo.as_ref()) {
            if self.abandoned.load(Ordering::Relaxed) {
                return None;
            }
            info!(step = %undo, "undo");
            if let Err(error) = self.step(undo) {
                let reason = format!("{undo}: {}", chain(&error));
                warn!(reason, "could not be undone");
                return Some(match error {
                    MachineError::Deadline { .. } => Aftermath::Wedged(reason),
                    _ => Aftermath::NotUndone(reason),
                });
            }
        }
        Some(Aftermath::Undone)
    }

    fn step(&mut self, step: &Step) -> Result<(), MachineError> {
        let machine = &self.machine;
        match step {
            Step::Place { die, slot, gate } => {
                machine.place(*die, Placement { slot: *slot, gate: *gate }).map(drop)
            }
            Step::Open { slot, die } => machine.open(*slot, *die).map(drop),
            Step::Shut { slot } => machine.shut(*slot),
            Step::VerifyPath { die, range } => verify_path(&machine.survey()?, *die, *range),
            Step::VerifyAwake { die } => verify_awake(&**machine, *die),
            Step::Unbind { die, .. } => machine.unbind(*die),
            Step::Bind { die, driver } => machine.bind(*die, driver),
            Step::Hold { die } => {
                let hold = machine.hold(*die)?;
                self.holds.insert(*die, hold);
                Ok(())
            }
            Step::LetGo { die } => {
                self.holds.remove(die);
                Ok(())
            }
        }
    }
}

/// The driver caches what the kernel says of BAR1, so it must be right before the die is handed
/// over: kernel, register and bridges of one mind.
fn verify_path(survey: &Survey, at: Bdf, range: AddressRange) -> Result<(), MachineError> {
    let refused = |reason: String| MachineError::Refused { operation: "verify", die: at, reason };
    let die = survey.die(at).ok_or(MachineError::UnknownDie(at))?;
    let function = survey.function_of(die).ok_or(MachineError::UnknownDie(at))?;
    if function.command.is_none() {
        return Err(MachineError::Absent(at));
    }
    let bar = function.bar(1).ok_or_else(|| refused("it has no BAR1".to_owned()))?;
    let assigned = bar.assigned.map_or(u64::MAX, AddressRange::base);
    if assigned != range.base() {
        return Err(refused(format!("the kernel has its BAR1 at {assigned:#x}, not in {range}")));
    }
    if let Some(register) = bar.register.filter(|register| *register != range.base()) {
        return Err(refused(format!("its BAR1 register holds {register:#x}, not {range}")));
    }
    if !survey.path_open(die, range) {
        return Err(refused(format!("a bridge above it does not forward {range}")));
    }
    Ok(())
}

fn verify_awake(machine: &dyn Machine, die: Bdf) -> Result<(), MachineError> {
    match machine.peek(die, Register::Boot0)? {
        Reading::Value(_) => Ok(()),
        Reading::AllOnes => Err(MachineError::Absent(die)),
        fault @ Reading::PriFault(_) => {
            let reason = format!("PMC_BOOT_0 reads {fault}");
            Err(MachineError::Refused { operation: "verify", die, reason })
        }
    }
}

fn cause(error: &MachineError) -> Cause {
    match error {
        MachineError::Absent(_) => Cause::Absent,
        MachineError::InUse { holders, .. } => Cause::InUse(holders.clone()),
        _ => Cause::Other,
    }
}

/// An error and its sources, on one line.
fn chain(error: &MachineError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    text
}
