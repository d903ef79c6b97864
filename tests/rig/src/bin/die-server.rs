//! Serves the rig's devices to a QEMU that somebody starts by hand, until standard input closes.

use std::{
    io::{Read, Write},
    path::PathBuf,
};

use anyhow::{Context, Result};
use clap::Parser;
use slot_rig::{device::Fleet, log::Log};
use vfio_park::model::OtherRegisters;

/// Serves dies, a neighbour and the background of slots over vfio-user.
#[derive(Parser)]
struct Options {
    /// Where the sockets go.
    #[arg(long)]
    directory: PathBuf,
    /// Where what the devices saw goes, as JSON lines.
    #[arg(long)]
    log: PathBuf,
    /// How many dies of a K80 (die0, die1, ...).
    #[arg(long, default_value_t = 0)]
    dies: u16,
    /// A T4 beside them (neighbour).
    #[arg(long)]
    neighbour: bool,
    /// Sizes of backgrounds, one for each slot (background0, ...).
    #[arg(long, value_delimiter = ',')]
    backgrounds: Vec<u64>,
    /// Unknown BAR0 registers hold what was written, for drivers that poke about.
    #[arg(long)]
    scratch_registers: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let log =
        Log::create(&options.log).with_context(|| format!("create {}", options.log.display()))?;
    let other_registers =
        if options.scratch_registers { OtherRegisters::Scratch } else { OtherRegisters::PriFault };
    let Options { dies, neighbour, backgrounds, .. } = options;
    Fleet { dies, neighbour, backgrounds, other_registers }.start(&options.directory, &log)?;
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new()).context("wait for the end of standard input")?;
    Ok(())
}
