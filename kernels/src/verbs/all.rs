//! all: every die in turn, and a table.

use std::time::Duration;

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use super::{memtest, parity, persist};
use crate::{
    door::Place,
    failure::{Failure, Kind},
    guard::DieGuard,
    options::Aim,
    run::Run,
};

/// How often arithmetic is compared on each die.
const PARITIES: u32 = 2;

/// One die's line.
#[derive(Serialize)]
struct Line {
    /// As it was asked for; where it is, is known once it was acquired.
    die: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<Place>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parity: Option<parity::Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persist: Option<persist::Times>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memtest: Option<memtest::Verdict>,
    /// The worst that happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
}

#[derive(Serialize)]
struct Report {
    dies: Vec<Line>,
    right: bool,
}

/// Checks every die and reports; the failure is that of the worst die.
pub(crate) fn all<'a>(
    run: &Run<'_>,
    dies: &[Aim],
    take: impl Fn(&Aim) -> Result<DieGuard<'a>, Failure>,
    scope: &memtest::Scope,
    time: Duration,
) -> Result<(), Failure> {
    let mut lines = Vec::new();
    for die in dies {
        run.say(&format!("checking {die}"));
        let line = check(run, die, &take, scope, time);
        let stopped = line.failure.as_ref().is_some_and(|failure| failure.kind == Kind::Stopped);
        lines.push(line);
        if stopped {
            break;
        }
    }
    run.say(&table(&lines).to_string());
    let failures = lines.iter().filter_map(|line| line.failure.clone());
    let worst = failures.max_by_key(|failure| failure.kind);
    run.json(&Report { dies: lines, right: worst.is_none() })?;
    worst.map_or(Ok(()), Err)
}

fn check<'a>(
    run: &Run<'_>,
    die: &Aim,
    take: &impl Fn(&Aim) -> Result<DieGuard<'a>, Failure>,
    scope: &memtest::Scope,
    time: Duration,
) -> Line {
    let mut line = Line {
        die: die.to_string(),
        place: None,
        parity: None,
        persist: None,
        memtest: None,
        failure: None,
    };
    let outcome = (|| {
        let mut guard = take(die)?;
        line.place = Some(guard.place.clone());
        let verdict = parity::Verdict::of(run, &mut guard, PARITIES)?;
        let first = verdict.judge();
        line.parity = Some(verdict);
        let verdict = memtest::Verdict::of(run, &mut guard, scope)?;
        let second = verdict.judge();
        line.memtest = Some(verdict);
        let times = persist::prove(run, std::iter::once(Ok(guard)), time)?;
        let third = times.iter().try_for_each(persist::Times::judge);
        line.persist = times.into_iter().next();
        first.and(second).and(third)
    })();
    line.failure = outcome.err();
    line
}

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(["die", "bdf", "parity", "memtest", "fill/check GB/s", "persist", "verdict"]);
    for line in lines {
        let mark = |done: Option<bool>| match done {
            Some(true) => "right".to_owned(),
            Some(false) => "WRONG".to_owned(),
            None => "-".to_owned(),
        };
        let rates = line.memtest.as_ref().map_or("-".to_owned(), |verdict| {
            let of = &verdict.throughput;
            format!("{:.0}/{:.0}", of.fill / 1e9, of.check / 1e9)
        });
        let verdict = line.failure.as_ref().map_or("right", |failure| match failure.kind {
            Kind::Wrong => "WRONG",
            Kind::ContextLost => "fell over",
            Kind::TimedOut => "hung",
            Kind::Stopped => "stopped",
            _ => "not checked",
        });
        let place = line.place.as_ref();
        table.add_row([
            place.and_then(|place| place.label.clone()).unwrap_or_else(|| line.die.clone()),
            place.map_or("-".to_owned(), |place| place.bdf.to_string()),
            mark(line.parity.as_ref().map(|verdict| verdict.judge().is_ok())),
            mark(line.memtest.as_ref().map(|verdict| verdict.judge().is_ok())),
            rates,
            mark(line.persist.as_ref().map(|times| times.judge().is_ok())),
            verdict.to_owned(),
        ]);
    }
    table
}
