//! Boots a machine with dies in QEMU, runs a test in it, and judges what it did to the hardware.

use std::{fs, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use slot_rig::runner::{Options, run};

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let work = tempfile::Builder::new().prefix("slot-rig-").tempdir().context("make a folder")?;
    let outcome = run(&options, work.path());
    if let Some(keep) = &options.keep {
        fs::create_dir_all(keep).with_context(|| format!("make {}", keep.display()))?;
        for name in ["trace.log", "devices.jsonl", "topology.json", "console.log"] {
            let from = work.path().join(name);
            if from.exists() {
                fs::copy(&from, keep.join(name)).with_context(|| format!("keep {name}"))?;
            }
        }
    }
    let outcome = outcome?;
    println!("rig: exit status {} after {:.1} s", outcome.status, outcome.seconds);
    Ok(ExitCode::from(outcome.status))
}
