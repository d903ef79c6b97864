//! Calls of the daemon that the scenario makes.

use std::path::Path;

use anyhow::{Context, Result};
use slotd_client::{Client, api};
use vfio_park::Bdf;

use crate::World;

/// A new connection.
pub fn connect(world: &dyn World) -> Result<Client> {
    Client::connect_to(world.socket()).context("connect to slotd")
}

/// Acquires `die`, or swaps to it.
pub fn acquire(client: &mut Client, die: Bdf) -> Result<api::Acquired> {
    client.call(&api::Acquire::die(die.to_string())).with_context(|| format!("acquire {die}"))
}

/// Gives up the lease of this connection; the die stays where it is.
pub fn release(client: &mut Client) -> Result<()> {
    client.call(&api::Release::default()).map(drop).context("release")
}

/// What the daemon says of the machine.
pub fn status(world: &dyn World) -> Result<api::StatusReply> {
    connect(world)?.status().context("status")
}

/// Has the slot shut, whoever is in it.
pub fn vacate(world: &dyn World) -> Result<()> {
    let mut client = connect(world)?;
    client.call(&api::Acquire::default()).context("acquire any die")?;
    let vacate = api::Release { vacate: Some(true), ..api::Release::default() };
    client.call(&vacate).map(drop).context("release and vacate")
}

/// Parks `die`.
pub fn park(world: &dyn World, die: Bdf) -> Result<api::Parked> {
    connect(world)?.park(die.to_string()).with_context(|| format!("park {die}"))
}

/// Swaps between two dies, and parks one of them now and then, until the daemon is gone.
pub fn keep_busy(socket: &Path, die: Bdf, other: Bdf) {
    let Ok(mut client) = Client::connect_to(socket) else { return };
    for round in 0_u64.. {
        let step = match round % 4 {
            3 => client.call(&api::Park { die: die.to_string(), wait_ms: None }).map(drop),
            2 => client.call(&api::Acquire::die(other.to_string())).map(drop),
            _ => client.call(&api::Acquire::die(die.to_string())).map(drop),
        };
        // A refusal is the daemon's word; anything else means that it is gone.
        if step.is_err_and(|error| error.refusal().is_none()) {
            return;
        }
    }
}
