//! The main job, once, for every world: sixteen dies take turns in one slot, and everything that
//! is promised about it is looked at.

mod job;
mod lookup;
mod recovery;

use anyhow::{Context, Result};

pub use self::lookup::Expect;
use slot_rig::phase::{Kind, Phase};

use crate::World;

/// One part of the scenario.
type Part = fn(&mut dyn World, &Expect) -> Result<()>;

/// The parts, in order; each leaves the machine as the next expects it.
const PARTS: [(&str, Part); 9] = [
    ("boot", job::boot),
    ("start", job::start),
    ("cold", job::cold),
    ("warm", job::warm),
    ("rescan", job::rescan),
    ("off-slot", job::off_slot),
    ("map", job::map),
    ("park", job::park),
    ("kill", recovery::kill),
];

/// Runs every part; stops at the first that does not hold.
pub fn run(world: &mut dyn World, expect: &Expect) -> Result<()> {
    for (name, part) in PARTS {
        world.phase(&Phase::new(Kind::Free, name))?;
        eprintln!("scenario: {name}");
        part(world, expect).with_context(|| format!("scenario: {name}"))?;
    }
    world.phase(&Phase::new(Kind::Free, "end"))
}
