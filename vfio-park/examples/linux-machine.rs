//! The verbs of the seam on this machine, one at a time. For trying a machine out by hand, and for
//! the rig.

use std::{io::BufRead, path::PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use vfio_park::{
    Bdf, DieState, DriverName, Gate, Machine, PciId, Register, Slot, SlotId,
    linux::{Linux, Roots, helper},
    seam::Placement,
};

#[derive(Parser)]
struct Options {
    /// Slots, in order.
    #[arg(long, default_value = "0xC00000000", value_delimiter = ',')]
    slots: Vec<Slot>,
    /// Ids of the dies.
    #[arg(long, default_value = "10de:102d", value_delimiter = ',')]
    ids: Vec<PciId>,
    /// Which slot.
    #[arg(long, default_value_t = 0)]
    slot: u8,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Reads the machine: a line for each die, or everything.
    Survey {
        #[arg(long)]
        json: bool,
    },
    /// Gives the card of a die its place.
    Place {
        die: Bdf,
        #[arg(long, default_value_t)]
        gate: Gate,
    },
    /// Opens the path to a die.
    Open { die: Bdf },
    /// Shuts the slot.
    Shut,
    /// Gives an unbound die to a driver.
    Bind { die: Bdf, driver: String },
    /// Takes a die from its driver.
    Unbind { die: Bdf },
    /// Reads the safe registers of a die.
    Peek { die: Bdf },
    /// Keeps the adapter of a die up until standard input ends.
    Hold { die: Bdf },
}

fn main() -> Result<()> {
    helper();
    let options = Options::parse();
    let machine = Linux::new(Roots::default(), options.ids, options.slots.clone())
        .with_helper(PathBuf::from("/proc/self/exe"));
    let slot = SlotId(options.slot);
    match options.verb {
        Verb::Survey { json } => survey(&machine, &options.slots, json)?,
        Verb::Place { die, gate } => {
            println!("{:?}", machine.place(die, Placement { slot, gate })?);
        }
        Verb::Open { die } => {
            let opened = machine.open(slot, die)?;
            println!("{} config writes, at {}", opened.config_writes, opened.range);
        }
        Verb::Shut => machine.shut(slot)?,
        Verb::Bind { die, driver } => {
            machine.bind(die, &DriverName::new(driver).context("that is no driver's name")?)?;
        }
        Verb::Unbind { die } => machine.unbind(die)?,
        Verb::Peek { die } => {
            for register in Register::ALL {
                println!("{register:?}: {}", machine.peek(die, register)?);
            }
        }
        Verb::Hold { die } => {
            let _held = machine.hold(die)?;
            println!("held");
            std::io::stdin().lock().lines().for_each(drop);
        }
    }
    Ok(())
}

fn survey(machine: &Linux, slots: &[Slot], json: bool) -> Result<()> {
    let survey = machine.survey()?;
    if json {
        println!("{}", serde_json::to_string(&survey)?);
        return Ok(());
    }
    for die in &survey.dies {
        println!("{} {}", die.bdf, serde_json::to_string(&DieState::read(&survey, die, slots))?);
    }
    survey.oddities.iter().for_each(|oddity| println!("odd: {oddity}"));
    Ok(())
}
