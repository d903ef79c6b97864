//! The main job on the simulator: sixteen dies compute behind one doorway.
//!
//! Starts slotd with a simulated machine and is its only client. Every die is acquired (cold), given
//! a computation and released; then all are visited in turn (warm) to collect the results, which
//! are computed again here and compared.

mod daemon;
mod report;
mod work;

use std::{process::ExitCode, thread, time::Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use slotd_client::{Client, api, sim};

use self::{
    daemon::Daemon,
    report::{DieReport, Report},
    work::{Collected, Computation},
};

/// The main job on a simulated machine: every die computes while others are in the slot.
#[derive(Debug, Parser)]
#[command(name = "demo")]
struct Args {
    /// Which machine to simulate.
    #[arg(long, default_value = "k80x16")]
    machine: String,
    /// How long each die computes, in milliseconds.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    compute_ms: u64,
    /// Answers in JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let daemon = Daemon::start(&args.machine)?;
    let report = run(&args, &daemon)?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("{report}");
    }
    daemon.stop()?;
    Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(args: &Args, daemon: &Daemon) -> Result<Report> {
    let mut client = Client::connect_to(daemon.socket()).context("connect to slotd")?;
    let dies = client.status()?.dies;
    ensure!(!dies.is_empty(), "{} has no dies", args.machine);
    let bar = progress(u64::try_from(dies.len())? * 2, args.json);
    let begin = Instant::now();
    let mut reports = Vec::new();
    let mut jobs = Vec::new();
    for (number, die) in (0_u32..).zip(&dies) {
        bar.set_message(format!("launch on {}", die.label));
        let start = Instant::now();
        let lease = acquire(&mut client, die)?;
        let cold = start.elapsed();
        ensure!(
            lease.kind == api::Kind::Cold,
            "the first acquire of {} was {}",
            die.label,
            lease.kind
        );
        let base = lease.base;
        let mut computation = Computation::of(number, args.compute_ms);
        let mut lease = lease;
        computation.launch(lease.client(), base)?;
        lease.release()?;
        jobs.push(computation);
        reports.push(DieReport::launched(die, cold));
        bar.inc(1);
    }
    collect(&mut client, &dies, &jobs, &mut reports, &bar)?;
    let wall = begin.elapsed();
    bar.finish_and_clear();
    for (report, die) in reports.iter_mut().zip(client.status()?.dies) {
        report.end(&die);
    }
    let violations = client.call(&sim::Violations {})?.violations;
    Ok(Report::new(args.machine.clone(), args.compute_ms, wall, reports, violations))
}

/// Visits the dies in turn, each when its computation should be done. Whoever is late is visited
/// again in the next round: nobody waits in the doorway.
fn collect(
    client: &mut Client,
    dies: &[api::DieStatus],
    jobs: &[Computation],
    reports: &mut [DieReport],
    bar: &ProgressBar,
) -> Result<()> {
    while reports.iter().any(DieReport::pending) {
        for ((die, job), report) in dies.iter().zip(jobs).zip(reports.iter_mut()) {
            if !report.pending() {
                continue;
            }
            bar.set_message(format!("collect from {}", die.label));
            thread::sleep(job.left());
            let start = Instant::now();
            let mut lease = acquire(client, die)?;
            let (kind, took, base) = (lease.kind, start.elapsed(), lease.base);
            ensure!(kind != api::Kind::Cold, "{} lost its driver", die.label);
            let collected = job.collect(lease.client(), base)?;
            lease.release()?;
            report.visited(kind, took);
            if let Collected::Result { right } = collected {
                report.collected(right);
                bar.inc(1);
            }
        }
    }
    Ok(())
}

fn acquire<'c>(client: &'c mut Client, die: &api::DieStatus) -> Result<slotd_client::Lease<'c>> {
    let call = api::Acquire { client: Some("demo".to_owned()), ..api::Acquire::die(&*die.bdf) };
    client.acquire(&call).with_context(|| format!("acquire {}", die.label))
}

fn progress(steps: u64, quiet: bool) -> ProgressBar {
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(steps) };
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}
