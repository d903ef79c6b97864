//! Judges a run again, from the files that `rig --keep` left.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use slot_rig::{judge::Evidence, topology::Topology};

/// Replays the config writes of a run and says where they broke the rules.
#[derive(Parser)]
struct Options {
    /// The folder that `rig --keep` filled.
    directory: PathBuf,
}

fn main() -> Result<ExitCode> {
    let directory = Options::parse().directory;
    let path = directory.join("topology.json");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let topology: Topology =
        serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
    let (trace, devices) = (directory.join("trace.log"), directory.join("devices.jsonl"));
    let verdict = Evidence::read(topology, &trace, &devices)?.judge();
    println!("{verdict}");
    Ok(if verdict.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
