//! memtest: does the die's memory keep what is written to it?

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::plan::{Pass, passes};
use crate::{
    door::Place,
    failure::{Failure, Kind},
    guard::DieGuard,
    options::{Memtest, Plant},
    report::{self, Progress},
    run::Run,
    wire::{self, Found, Opened, Step},
};

/// The slot is kept for about this long at a time while others wait.
const STRETCH: u64 = 250;

/// What is to be tested.
pub(crate) struct Scope {
    pub(crate) size: Option<u64>,
    pub(crate) chunk: Option<u64>,
    pub(crate) passes: u32,
    pub(crate) plant: Option<Plant>,
}

impl From<&Memtest> for Scope {
    fn from(ask: &Memtest) -> Self {
        Self { size: ask.size, chunk: ask.chunk, passes: ask.passes, plant: ask.plant }
    }
}

/// Bytes and time of one kind of step.
#[derive(Clone, Copy, Default)]
struct Tally {
    bytes: f64,
    ms: f64,
}

impl Tally {
    /// Bytes a second that were moved; a step that reads and writes moves each byte twice.
    fn rate(self, moves: f64) -> f64 {
        if self.ms > 0.0 { self.bytes * moves / (self.ms / 1e3) } else { 0.0 }
    }
}

/// Throughput in bytes a second, by the die's own clock, and what plain commands reach in the same run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Throughput {
    pub(crate) fill: f64,
    pub(crate) check: f64,
    pub(crate) invert: f64,
    pub(crate) memset: f64,
    pub(crate) copy: f64,
    pub(crate) fill_of_memset: f64,
    pub(crate) check_of_copy: f64,
    pub(crate) invert_of_copy: f64,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) bytes: u64,
    pub(crate) chunks: u64,
    pub(crate) passes: usize,
    /// How often the slot was given to others in between.
    pub(crate) gave_way: u64,
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) found: Found,
    /// The passes that found something.
    pub(crate) found_by: Vec<String>,
    pub(crate) throughput: Throughput,
}

impl Verdict {
    /// Tests the memory of a die.
    pub(crate) fn of(
        run: &Run<'_>,
        guard: &mut DieGuard<'_>,
        scope: &Scope,
    ) -> Result<Self, Failure> {
        let start = Instant::now();
        let chunk = scope.chunk.unwrap_or(guard.gpu.memory / 64).max(1 << 20);
        // Measuring the yardstick goes over some of the memory a few times.
        let reserve = wire::Reserve { bytes: scope.size, chunk };
        let reserved = guard.ask(reserve, Duration::from_mins(1))?;
        let passes = passes(scope.passes);
        let sweeps: u64 = passes.iter().map(|pass| pass.steps.len() as u64).sum();
        let progress = Progress::new("memtest", sweeps * reserved.chunks);
        let mut tester = Tester {
            run,
            guard,
            progress,
            chunks: reserved.chunks,
            sweeps: 0,
            gave_way: 0,
            tallies: [Tally::default(); 3],
        };
        let (mut found, mut found_by) = (Found::default(), Vec::new());
        for pass in &passes {
            tester.pass(pass, scope.plant)?;
            let after = tester.guard.ask(wire::Findings {}, Duration::ZERO)?;
            if after.wrong_words > found.wrong_words {
                found_by.push(pass.name.clone());
            }
            found = after;
        }
        let [fill, check, invert] = tester.tallies;
        let (fill, check, invert) = (fill.rate(1.0), check.rate(1.0), invert.rate(2.0));
        let (memset, copy) = (reserved.memset, reserved.copy);
        Ok(Self {
            bytes: reserved.bytes,
            chunks: reserved.chunks,
            passes: passes.len(),
            gave_way: tester.gave_way,
            seconds: start.elapsed().as_secs_f64(),
            found,
            found_by,
            throughput: Throughput {
                fill,
                check,
                invert,
                memset,
                copy,
                fill_of_memset: fill / memset,
                check_of_copy: check / copy,
                invert_of_copy: invert / copy,
            },
        })
    }

    /// The failure that it is, if a bit was lost.
    pub(crate) fn judge(&self) -> Result<(), Failure> {
        let Found { wrong_words, wrong_bits, bit_mask, first_offset, samples } = &self.found;
        let Some(first) = first_offset else { return Ok(()) };
        let mut text = format!(
            "the memory is faulty: {wrong_words} words wrong in {wrong_bits} bits (mask \
             {bit_mask:#010x}), the first at offset {first:#x}; found by {}",
            self.found_by.join(", ")
        );
        for sample in samples {
            let flips = sample.want ^ sample.got;
            let _ = write!(
                text,
                "\n  offset {:#013x}  address {:#014x}  want {:#010x}  got {:#010x}  flipped {flips:#010x}",
                sample.offset, sample.address, sample.want, sample.got
            );
        }
        Err(Failure::new(Kind::Wrong, text))
    }
}

/// A memory test under way.
struct Tester<'t, 'g> {
    run: &'t Run<'t>,
    guard: &'t mut DieGuard<'g>,
    progress: Progress,
    chunks: u64,
    sweeps: u64,
    gave_way: u64,
    /// Of fill, check and invert.
    tallies: [Tally; 3],
}

impl Tester<'_, '_> {
    fn pass(&mut self, pass: &Pass, plant: Option<Plant>) -> Result<(), Failure> {
        for (index, &step) in pass.steps.iter().enumerate() {
            self.sweep(pass, step)?;
            if let Some(Plant { offset, mask }) = plant.filter(|_| index == 0) {
                self.guard.ask(wire::Plant { offset, mask }, Duration::ZERO)?;
            }
        }
        Ok(())
    }

    /// One step over all chunks, a stretch at a time; between two the slot is anybody's.
    fn sweep(&mut self, pass: &Pass, step: Step) -> Result<(), Failure> {
        let which = match step {
            Step::Fill(_) => 0,
            Step::Check(_) => 1,
            Step::Invert(_) => 2,
        };
        let mut from = 0;
        while from < self.chunks {
            self.run.go_on()?;
            let ask = wire::Sweep { step, from, ms: STRETCH };
            let swept = self.guard.ask(ask, Duration::from_millis(STRETCH))?;
            let tally = &mut self.tallies[which];
            tally.bytes += report::float(swept.bytes);
            tally.ms += swept.ms;
            let rate = report::float(swept.bytes) / swept.ms.max(1e-3) / 1e6;
            from = swept.next;
            self.progress.at(self.sweeps * self.chunks + from);
            self.progress.say(format!("{}: {} {rate:.0} GB/s", pass.name, name(step)));
            self.gave_way += u64::from(self.guard.give_way()?);
        }
        self.sweeps += 1;
        Ok(())
    }
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Fill(_) => "fill",
        Step::Check(_) => "check",
        Step::Invert(_) => "invert",
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

/// Tests and reports.
pub(crate) fn memtest(
    run: &Run<'_>,
    mut guard: DieGuard<'_>,
    scope: &Scope,
) -> Result<(), Failure> {
    let verdict = Verdict::of(run, &mut guard, scope)?;
    let (place, gpu) = (guard.place.clone(), guard.gpu.clone());
    guard.close()?;
    let Throughput { fill, check, invert, memset, copy, .. } = verdict.throughput;
    let rate = |what: &str, rate: f64, than: &str, plain: f64| {
        let share = rate / plain * 100.0;
        run.say(&format!("  {what:<7} {:>8.1} GB/s, {share:>5.1} % of a plain {than}", rate / 1e9));
    };
    run.say(&format!(
        "{place}: {} in {} chunks, {} passes, {:.1} s; gave way {} times",
        report::bytes(verdict.bytes),
        verdict.chunks,
        verdict.passes,
        verdict.seconds,
        verdict.gave_way
    ));
    rate("fill", fill, "memset", memset);
    rate("check", check, "copy", copy);
    rate("invert", invert, "copy", copy);
    run.say(&format!("  plain   {:>8.1} GB/s memset, {:.1} GB/s copy", memset / 1e9, copy / 1e9));
    let judged = verdict.judge();
    if judged.is_ok() {
        run.say("  every word as it was written");
    }
    run.json(&Report { place, gpu, right: judged.is_ok(), verdict })?;
    judged
}
