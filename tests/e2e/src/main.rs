//! The scenario in a guest of the QEMU rig.

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use slot_e2e::{
    guest::{GuestWorld, touch_twice},
    scenario::{self, Expect},
};
use vfio_park::{Bdf, DriverName, PciId, Slot};

/// Runs the main job in a guest of the QEMU rig. Never run it on a real machine: it writes to
/// physical memory.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The scenario.
    Run {
        /// The slot.
        #[arg(long, env = "RIG_SLOTS")]
        slot: Slot,
        /// The driver that dies wait on.
        #[arg(long, env = "RIG_PARKER", value_parser = driver)]
        parker: DriverName,
        /// How many dies there are.
        #[arg(long, default_value_t = 16)]
        dies: usize,
        /// How many warm visits.
        #[arg(long, default_value_t = 200)]
        visits: u32,
        /// How often the daemon is killed.
        #[arg(long, default_value_t = 10)]
        kills: u32,
        /// A GPU beside the dies, by PCI id.
        #[arg(long)]
        neighbour: Option<PciId>,
    },
    /// A program that maps a die and touches it twice.
    Touch {
        /// The die.
        die: Bdf,
        /// Its slot.
        slot: Slot,
    },
}

fn driver(name: &str) -> Result<DriverName, String> {
    DriverName::new(name).ok_or_else(|| format!("`{name}` is no name of a driver"))
}

fn main() -> Result<()> {
    match Args::parse().command {
        Command::Touch { die, slot } => touch_twice(die, slot),
        Command::Run { slot, parker, dies, visits, kills, neighbour } => {
            if !std::path::Path::new("/rig/environment").exists() {
                bail!("this is no guest of the rig: nothing was done");
            }
            if neighbour.is_some() {
                // A normal GPU has its driver loaded for it at boot.
                let status = std::process::Command::new("modprobe").arg("nvidia").status()?;
                anyhow::ensure!(status.success(), "modprobe nvidia failed for the neighbour");
            }
            let expect = Expect { dies, parker, neighbour, warm_visits: visits, kills };
            scenario::run(&mut GuestWorld::new(vec![slot])?, &expect)?;
            println!("scenario: everything holds");
            Ok(())
        }
    }
}
