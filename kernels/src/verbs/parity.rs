//! parity: does the die compute what the processor computes?

use std::time::Duration;

use serde::Serialize;

use crate::{
    door::Place,
    failure::{Failure, Kind},
    guard::DieGuard,
    run::Run,
    wire::{self, Opened},
};

/// Elements a run: many for each thread of a die, and few enough for a processor without fused
/// multiply-add, which takes a second for them.
const ELEMENTS: u32 = 1 << 18;

/// What all runs together gave.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Verdict {
    pub(crate) elements: u64,
    wrong_integers: u64,
    wrong_singles: u64,
    wrong_doubles: u64,
    /// Runs in which the die's own fold over its results disagreed.
    wrong_parities: u32,
    /// Multiprocessors that gave a wrong result.
    suspects: Vec<u32>,
}

impl Verdict {
    /// Compares `times` times.
    pub(crate) fn of(run: &Run<'_>, guard: &mut DieGuard<'_>, times: u32) -> Result<Self, Failure> {
        let mut verdict = Self::default();
        for time in 0..times {
            run.go_on()?;
            let ask =
                wire::Parity { elements: ELEMENTS, seed: 0x5eed_0001_u32.wrapping_mul(time + 1) };
            // The processor takes a few seconds for its part where it is a slow one.
            let compared = guard.ask(ask, Duration::from_secs(30))?;
            verdict.elements += u64::from(compared.elements);
            verdict.wrong_integers += u64::from(compared.wrong_integers);
            verdict.wrong_singles += u64::from(compared.wrong_singles);
            verdict.wrong_doubles += u64::from(compared.wrong_doubles);
            verdict.wrong_parities += u32::from(!compared.parity_agrees);
            verdict.suspects.extend(compared.suspects);
            guard.give_way()?;
        }
        verdict.suspects.sort_unstable();
        verdict.suspects.dedup();
        Ok(verdict)
    }

    /// The failure that it is, if anything was wrong.
    pub(crate) fn judge(&self) -> Result<(), Failure> {
        let Self { elements, wrong_integers, wrong_singles, wrong_doubles, .. } = self;
        if wrong_integers + wrong_singles + wrong_doubles == 0 && self.wrong_parities == 0 {
            return Ok(());
        }
        let text = format!(
            "the die computes wrongly: of {elements} elements {wrong_integers} integers, \
             {wrong_singles} singles and {wrong_doubles} doubles, and {} folds, differ from the \
             processor's; multiprocessors {:?}",
            self.wrong_parities, self.suspects
        );
        Err(Failure::new(Kind::Wrong, text))
    }
}

#[derive(Serialize)]
struct Report {
    place: Place,
    gpu: Opened,
    right: bool,
    #[serde(flatten)]
    verdict: Verdict,
}

/// Compares and reports.
pub(crate) fn parity(run: &Run<'_>, mut guard: DieGuard<'_>, times: u32) -> Result<(), Failure> {
    let verdict = Verdict::of(run, &mut guard, times)?;
    let (place, gpu) = (guard.place.clone(), guard.gpu.clone());
    guard.close()?;
    let judged = verdict.judge();
    if judged.is_ok() {
        run.say(&format!(
            "{place}: {} elements of each kind, every one as the processor has it",
            verdict.elements
        ));
    }
    run.json(&Report { place, gpu, right: judged.is_ok(), verdict })?;
    judged
}
