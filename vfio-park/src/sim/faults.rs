//! The fault plan: what goes wrong, at which verb, for which die.

use std::{
    fmt,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::Bdf;

/// The verbs of the seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// [`crate::Machine::survey`].
    Survey,
    /// [`crate::Machine::place`].
    Place,
    /// [`crate::Machine::open`].
    Open,
    /// [`crate::Machine::shut`]; it names no die.
    Shut,
    /// [`crate::Machine::bind`].
    Bind,
    /// [`crate::Machine::unbind`].
    Unbind,
    /// [`crate::Machine::peek`].
    Peek,
    /// [`crate::Machine::hold`].
    Hold,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Verb {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Survey => "survey",
            Self::Place => "place",
            Self::Open => "open",
            Self::Shut => "shut",
            Self::Bind => "bind",
            Self::Unbind => "unbind",
            Self::Peek => "peek",
            Self::Hold => "hold",
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Effect {
    /// The verb starts so much later.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
    /// The verb does not return until [`Faults::release`]; then it goes on as if nothing had been.
    /// With a deadline it then fails with `Deadline`, and has done nothing.
    Hang {
        /// Milliseconds of real time; without it, hung until released.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u64>,
    },
    /// The die falls off the bus before the verb starts, and stays off until a power cycle.
    AllOnes,
    /// The system says EBUSY. `bind` and `unbind` try again a few times by themselves.
    Busy,
    /// `bind` only: the driver has the die, its link in sysfs shows up so much later.
    LateDriverLink {
        /// Milliseconds; a second where left out.
        #[serde(default = "one_second")]
        ms: u64,
    },
    /// `place`, `open` and `shut`: the n-th config write fails, counted from 1, and the verb undoes
    /// what it wrote.
    FailStep {
        /// Which write.
        step: u32,
        /// Whether the undoing fails too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        undo_fails: bool,
    },
}

fn one_second() -> u64 {
    1000
}

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// At which verb; at any where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// For which die; for any where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub die: Option<Bdf>,
    /// How many times it is let pass first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: u32,
    /// How many times it happens; always where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// What.
    pub effect: Effect,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Fault {
    /// `effect` at every `verb`.
    pub fn at(verb: Verb, effect: Effect) -> Self {
        Self { verb: Some(verb), die: None, after: 0, times: None, effect }
    }

    /// For this die only.
    #[must_use]
    pub fn of(self, die: Bdf) -> Self {
        Self { die: Some(die), ..self }
    }

    /// So many times only.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Only after so many that go well.
    #[must_use]
    pub fn after(self, after: u32) -> Self {
        Self { after, ..self }
    }

    fn matches(&self, verb: Verb, die: Option<Bdf>) -> bool {
        self.verb.is_none_or(|v| v == verb) && (self.die.is_none() || self.die == die)
    }
}

/// Everything that goes wrong, as a JSON file has it: `{"faults": [{"verb": "bind", "die":
/// "0000:03:00.0", "after": 1, "times": 1, "effect": {"kind": "delay", "ms": 500}}]}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// Whether it is in force from the start; it is, where left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub off: bool,
    /// The faults. All that match happen, in this order.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// The plan in force, and who hangs in it.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Mutex<FaultPlan>,
    hangs: Mutex<Hangs>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Hangs {
    releases: u64,
    hanging: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Faults {
    /// Puts a plan in force in place of the one before.
    pub fn set(&self, plan: FaultPlan) {
        *lock(&self.plan) = plan;
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        lock(&self.plan).faults.push(fault);
    }

    /// Nothing goes wrong until [`Faults::on`].
    pub fn off(&self) {
        lock(&self.plan).off = true;
    }

    /// Things go wrong again.
    pub fn on(&self) {
        lock(&self.plan).off = false;
    }

    /// Lets everything that hangs go on.
    pub fn release(&self) {
        lock(&self.hangs).releases += 1;
        self.released.notify_all();
    }

    /// How many verbs hang.
    pub fn hanging(&self) -> usize {
        lock(&self.hangs).hanging
    }

    /// What happens at `verb` for `die` now; counts it.
    pub(super) fn take(&self, verb: Verb, die: Option<Bdf>) -> Vec<Effect> {
        let mut plan = lock(&self.plan);
        if plan.off {
            return Vec::new();
        }
        let mut effects = Vec::new();
        for fault in plan.faults.iter_mut().filter(|fault| fault.matches(verb, die)) {
            if fault.after > 0 {
                fault.after -= 1;
            } else if fault.times != Some(0) {
                fault.times = fault.times.map(|times| times - 1);
                effects.push(fault.effect);
            }
        }
        effects
    }

    /// Waits for [`Faults::release`]; `false` where `deadline` passed first.
    pub(super) fn hang(&self, deadline: Option<Duration>) -> bool {
        let mut hangs = lock(&self.hangs);
        let since = hangs.releases;
        hangs.hanging += 1;
        let held = |hangs: &mut Hangs| hangs.releases == since;
        let mut hangs = match deadline {
            None => self.released.wait_while(hangs, held).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) => {
                let waited = self.released.wait_timeout_while(hangs, deadline, held);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        hangs.hanging -= 1;
        hangs.releases != since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_from_json() {
        let text = r#"{"faults": [
            {"verb": "bind", "die": "03:00.0", "times": 2, "effect": {"kind": "busy"}},
            {"verb": "bind", "effect": {"kind": "late_driver_link"}},
            {"effect": {"kind": "hang"}},
            {"verb": "place", "effect": {"kind": "fail_step", "step": 7}}]}"#;
        let plan: FaultPlan = serde_json::from_str(text).expect("a plan");
        let die = "03:00.0".parse().expect("an address");
        let expected = vec![
            Fault::at(Verb::Bind, Effect::Busy).of(die).times(2),
            Fault::at(Verb::Bind, Effect::LateDriverLink { ms: 1000 }),
            Fault {
                verb: None,
                die: None,
                after: 0,
                times: None,
                effect: Effect::Hang { deadline_ms: None },
            },
            Fault::at(Verb::Place, Effect::FailStep { step: 7, undo_fails: false }),
        ];
        assert_eq!(plan, FaultPlan { off: false, faults: expected });
        let again = serde_json::to_string(&plan).expect("text");
        assert_eq!(serde_json::from_str::<FaultPlan>(&again).expect("a plan"), plan);
        assert!(serde_json::from_str::<FaultPlan>(r#"{"fault": []}"#).is_err());
    }

    #[test]
    fn faults_pass_count_and_stop() {
        let faults = Faults::default();
        faults.add(Fault::at(Verb::Open, Effect::Busy).after(1).times(1));
        let take = || faults.take(Verb::Open, None);
        assert!(take().is_empty());
        assert!(faults.take(Verb::Bind, None).is_empty());
        assert_eq!(take(), [Effect::Busy]);
        assert!(take().is_empty());
        faults.set(FaultPlan { off: true, faults: vec![Fault::at(Verb::Open, Effect::Busy)] });
        assert!(take().is_empty());
        faults.on();
        assert_eq!(take(), [Effect::Busy]);
    }
}
