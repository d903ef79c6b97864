//! Boots a machine with dies in QEMU, runs a test in it, and judges what it did to the hardware.

use std::{
    fs,
    path::Path,
    process::{ExitCode, Termination},
};

use anyhow::{Context, Result};
use clap::Parser;
use slot_rig::{
    judge::Evidence,
    runner::{Options, Outcome, run},
};

/// How a run ended, and so `rig`.
enum End {
    /// The test passed and the judge is content.
    Good,
    /// The test failed, with its own exit status.
    Test(u8),
    /// The test passed, but rules were broken (or none, where some should have been).
    Judge,
    /// The test passed, but the guest's kernel complained.
    Kernel,
}

impl Termination for End {
    fn report(self) -> ExitCode {
        match self {
            Self::Good => ExitCode::SUCCESS,
            Self::Test(status) => ExitCode::from(status),
            Self::Judge => ExitCode::from(101),
            Self::Kernel => ExitCode::from(102),
        }
    }
}

fn keep(work: &Path, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    for name in ["trace.log", "devices.jsonl", "topology.json", "console.log", "qemu.log"] {
        let from = work.join(name);
        if from.exists() {
            fs::copy(&from, directory.join(name)).with_context(|| format!("keep {name}"))?;
        }
    }
    Ok(())
}

fn judge(options: &Options, outcome: Outcome) -> Result<End> {
    let Outcome { status, complaints, seconds, .. } = outcome;
    let verdict = Evidence::read(outcome.topology, &outcome.trace, &outcome.devices)?.judge();
    println!("{verdict}");
    for line in &complaints {
        println!("rig: the guest's kernel complained: {line}");
    }
    println!("rig: the test ended with status {status} after {seconds:.1} s");
    Ok(if status != 0 {
        End::Test(status)
    } else if verdict.is_good() == options.expect_findings {
        End::Judge
    } else if complaints.is_empty() {
        End::Good
    } else {
        End::Kernel
    })
}

fn main() -> Result<End> {
    let options = Options::parse();
    let work = tempfile::Builder::new().prefix("slot-rig-").tempdir().context("make a folder")?;
    let outcome = run(&options, work.path());
    if let Some(directory) = &options.keep {
        keep(work.path(), directory)?;
    }
    judge(&options, outcome?)
}
