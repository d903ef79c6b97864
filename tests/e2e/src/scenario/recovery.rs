//! The daemon ends without a word, and a new one finds the truth.

use std::{thread, time::Duration};

use anyhow::{Context, Result, ensure};
use vfio_park::{Bdf, DieState};

use super::lookup::{Expect, in_the_slot, no_complaints, states, the_slot};
use crate::{World, calls, random::Random};

/// Kills the daemon in the middle of swaps, parks and cold acquires; looks, restarts, compares.
pub(super) fn kill(world: &mut dyn World, expect: &Expect) -> Result<()> {
    let slot = the_slot(world)?;
    let dies: Vec<Bdf> = world.survey()?.dies.iter().map(|die| die.bdf).collect();
    let mut random = Random::new(0x9111);
    for round in 0..expect.kills {
        let socket = world.socket().to_owned();
        let (die, other) = (dies[random.below(dies.len())], dies[random.below(dies.len())]);
        let busy = thread::spawn(move || calls::keep_busy(&socket, die, other));
        // Any moment will do: the point is that it is not chosen.
        thread::sleep(Duration::from_micros(200 * u64::try_from(random.below(400))?));
        world.kill()?;
        busy.join().expect("the busy client does not panic");
        let survey = world.survey()?;
        let open: Vec<Bdf> = in_the_slot(&survey, slot).iter().map(|die| die.bdf).collect();
        ensure!(open.len() <= 1, "kill {round}: open are {open:?}");
        world.start().with_context(|| format!("restart {round}"))?;
        let status = calls::status(world)?;
        let survey = world.survey()?;
        let open: Vec<String> =
            in_the_slot(&survey, slot).iter().map(|die| die.bdf.to_string()).collect();
        let told: Vec<String> =
            status.dies.iter().filter(|d| d.slot.is_some()).map(|d| d.bdf.clone()).collect();
        ensure!(open == told, "kill {round}: open is {open:?}, status says {told:?}");
        for (die, state) in states(world)? {
            let told = status.dies.iter().find(|told| told.bdf == die.to_string());
            let driver = told.and_then(|told| told.driver.as_deref());
            let matches = match &state {
                DieState::Parked { parker, .. } => driver == Some(parker.as_str()),
                DieState::Resident { .. } => driver == Some("nvidia"),
                DieState::Unbound { .. } => driver.is_none(),
                DieState::Foreign { .. } | DieState::Absent => false,
            };
            ensure!(matches, "kill {round}: {die} is {state:?}");
        }
        // Whatever state it was left in, the die can be had.
        let mut client = calls::connect(world)?;
        calls::acquire(&mut client, die).with_context(|| format!("after kill {round}"))?;
        calls::release(&mut client)?;
    }
    no_complaints(world)
}
