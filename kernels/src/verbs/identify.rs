//! identify: which card is it?

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{
    door::Place,
    failure::Failure,
    guard::DieGuard,
    report::{self, Progress},
    run::Run,
    wire::{self, Opened},
};

/// One request's worth of work: so long at the most until an end that was asked for is seen.
const STRETCH: u64 = 250;

#[derive(Serialize)]
struct Report {
    place: Place,
    gpu: Opened,
    launches: u32,
    /// Part of the time that the die was at work.
    duty: f64,
    seconds: f64,
}

/// Keeps the die busy. Ctrl-C is the usual way to say that it was seen, and no failure.
pub(crate) fn identify(run: &Run<'_>, guard: DieGuard<'_>, seconds: u64) -> Result<(), Failure> {
    let (mut guard, start) = (guard, Instant::now());
    let place = guard.place.clone();
    run.say(&format!("{} on {place}", guard.gpu.name));
    run.say(&format!("  card   {}", place.card.map_or("unknown".into(), |card| card.to_string())));
    run.say(&format!("  riser  {}", place.label.as_deref().unwrap_or("has no label")));
    run.say("Look for the card whose activity LED flickers; Ctrl-C when you have seen it.");
    let progress = Progress::new("busy", seconds * 1000);
    let (mut launches, mut busy_ms) = (0, 0.0);
    while start.elapsed() < Duration::from_secs(seconds) && !run.stop.requested() {
        let busied = guard.ask(wire::Busy { ms: STRETCH }, Duration::from_millis(STRETCH))?;
        launches += busied.launches;
        busy_ms += busied.busy_ms;
        progress.at(report::millis(start.elapsed()));
        guard.give_way()?;
    }
    progress.done();
    let took = start.elapsed();
    let gpu = guard.gpu.clone();
    guard.close()?;
    let duty = busy_ms / 1e3 / took.as_secs_f64();
    let seconds = took.as_secs_f64();
    run.say(&format!("{launches} launches in {seconds:.1} s, busy {:.0} % of it", duty * 100.0));
    run.json(&Report { place, gpu, launches, duty, seconds })
}
