//! persist: the proof that the product rests on. A kernel is launched, its die leaves the slot, and when
//! it comes back the kernel has ended and every element is right.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{
    door::Place,
    failure::{Failure, Kind},
    guard::DieGuard,
    report::{self, Progress},
    run::Run,
    wire,
};

/// What happened on one die. Times in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Times {
    pub(crate) place: Place,
    /// Without a slot the kernel was only waited for.
    has_slot: bool,
    launch: f64,
    /// From before the launch to after the release.
    released_after: f64,
    /// Out of the slot.
    away: f64,
    re_acquire: f64,
    ended_before: bool,
    synchronise: f64,
    kernel: f64,
    elements: u32,
    wrong: u32,
    zeros: u32,
}

impl Times {
    /// The failure that it is, if the kernel did not do its work while the die was away.
    pub(crate) fn judge(&self) -> Result<(), Failure> {
        if self.wrong > 0 {
            let text = format!(
                "{}: {} of {} elements are wrong, {} of them zero",
                self.place, self.wrong, self.elements, self.zeros
            );
            return Err(Failure::new(Kind::Wrong, text));
        }
        if self.has_slot && !self.ended_before {
            let text = format!(
                "{}: the kernel had not ended when the die came back, and took {:.0} ms more: the die \
                 stood still while it was out of the slot",
                self.place, self.synchronise
            );
            return Err(Failure::new(Kind::TimedOut, text));
        }
        Ok(())
    }
}

/// A kernel under way on a die.
struct UnderWay<'a> {
    guard: DieGuard<'a>,
    launch: f64,
    released_after: f64,
    left: Instant,
    /// When the kernel should have ended.
    due: Instant,
}

impl<'a> UnderWay<'a> {
    /// Calibrates, launches, and lets the die out of the slot at once.
    fn start(mut guard: DieGuard<'a>, time: Duration) -> Result<Self, Failure> {
        let ms = report::millis(time);
        let calibrated = guard.ask(wire::Calibrate { ms }, time)?;
        let before = Instant::now();
        let launch = wire::Launch { seed: 0x5eed_0001, rounds: calibrated.rounds };
        let launched = guard.ask(launch, Duration::ZERO)?;
        guard.leave_slot()?;
        let left = Instant::now();
        Ok(Self {
            guard,
            launch: launched.ms,
            released_after: left.duration_since(before).as_secs_f64() * 1e3,
            left,
            // Calibration looks at a tenth of a second; a die that gets warm slows down afterwards.
            due: before + time.mul_f64(1.25) + Duration::from_millis(500),
        })
    }

    /// Comes back for the result; everything on the die is taken down afterwards.
    fn collect(mut self, time: Duration) -> Result<Times, Failure> {
        let away = self.left.elapsed();
        let re_acquire = self.guard.return_to_slot()?;
        let collected = self.guard.ask(wire::Collect {}, time)?;
        let (place, has_slot) = (self.guard.place.clone(), self.guard.has_slot());
        self.guard.close()?;
        Ok(Times {
            place,
            has_slot,
            launch: self.launch,
            released_after: self.released_after,
            away: away.as_secs_f64() * 1e3,
            re_acquire: re_acquire.as_secs_f64() * 1e3,
            ended_before: collected.done_before,
            synchronise: collected.sync_ms,
            kernel: collected.kernel_ms,
            elements: collected.elements,
            wrong: collected.wrong,
            zeros: collected.zeros,
        })
    }
}

/// Launches on one die after another, waits while all are away, and collects.
pub(crate) fn prove<'a>(
    run: &Run<'_>,
    dies: impl Iterator<Item = Result<DieGuard<'a>, Failure>>,
    time: Duration,
) -> Result<Vec<Times>, Failure> {
    let mut under_way = Vec::new();
    for guard in dies {
        under_way.push(UnderWay::start(guard?, time)?);
        run.go_on()?;
    }
    if let Some(due) = under_way.iter().map(|one| one.due).max() {
        let start = Instant::now();
        let total = due.saturating_duration_since(start);
        let progress = Progress::new("out of the slot", report::millis(total));
        while Instant::now() < due {
            let left = due.saturating_duration_since(Instant::now());
            run.stop.wait(left.min(Duration::from_millis(100)));
            run.go_on()?;
            progress.at(report::millis(start.elapsed()));
        }
    }
    under_way.into_iter().map(|one| one.collect(time)).collect()
}

#[derive(Serialize)]
struct Report {
    dies: Vec<Times>,
    /// From the first launch's preparation to the last result, in milliseconds.
    wall: f64,
    /// What the kernels took, one after another.
    sum_of_kernels: f64,
}

/// Proves and reports.
pub(crate) fn persist<'a>(
    run: &Run<'_>,
    dies: impl Iterator<Item = Result<DieGuard<'a>, Failure>>,
    time: Duration,
) -> Result<(), Failure> {
    let start = Instant::now();
    let times = prove(run, dies, time)?;
    let wall = start.elapsed().as_secs_f64() * 1e3;
    for one in &times {
        say(run, one);
    }
    let sum = times.iter().map(|one| one.kernel).sum::<f64>();
    if times.len() > 1 {
        run.say(&format!(
            "{} kernels of {:.1} s in all: {:.1} s from first to last, context and calibration included",
            times.len(),
            sum / 1e3,
            wall / 1e3
        ));
    }
    let judged = times.iter().try_for_each(Times::judge);
    run.json(&Report { dies: times, wall, sum_of_kernels: sum })?;
    judged
}

fn say(run: &Run<'_>, one: &Times) {
    run.say(&format!("{}:", one.place));
    run.say(&format!("  launched in         {:>10.3} ms", one.launch));
    if one.has_slot {
        run.say(&format!("  released after      {:>10.3} ms", one.released_after));
        run.say(&format!("  out of the slot for {:>10.1} ms", one.away));
        run.say(&format!("  re-acquired in      {:>10.3} ms", one.re_acquire));
    }
    let state = if one.ended_before { "had ended" } else { "STILL RAN" };
    run.say(&format!("  synchronised in     {:>10.3} ms  (the kernel {state})", one.synchronise));
    run.say(&format!("  kernel ran for      {:>10.1} ms  by the die's own clock", one.kernel));
    run.say(&format!(
        "  elements right      {:>10} of {}, zeros {}",
        one.elements - one.wrong,
        one.elements,
        one.zeros
    ));
}
