//! `slotctl release`.

use std::process::ExitCode;

use serde::Serialize;
use slotd_client::{
    Client,
    api::{self, LeaseId, SlotState, Verb},
};

use crate::{
    args::{Args, Release},
    exit::Failure,
    output::{Output, steps},
};

#[derive(Debug, Default, Serialize)]
struct Released {
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseId>,
    /// Slots that were shut.
    vacated: Vec<u8>,
}

pub(crate) fn run(args: &Args, options: &Release, output: Output) -> Result<ExitCode, Failure> {
    let mut client = args.connect()?;
    if options.dry_run {
        return dry_run(&mut client, options, output);
    }
    let mut released = Released { lease: options.lease, vacated: Vec::new() };
    match options.lease {
        // It is never this connection's own lease.
        Some(lease) => {
            let vacate = options.vacate.then_some(true);
            client.call(&api::Release { lease: Some(lease), vacate, force: Some(true) })?;
        }
        None => released.vacated = vacate_idle(&mut client)?,
    }
    output.result(&released, |released| match (released.lease, &released.vacated[..]) {
        (Some(lease), _) => format!("{lease} is over"),
        (None, []) => "nothing to shut: no slot is idle with a die in it".to_owned(),
        (None, slots) => {
            let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
            format!("shut slot {}", slots.join(", "))
        }
    });
    Ok(ExitCode::SUCCESS)
}

fn dry_run(client: &mut Client, options: &Release, output: Output) -> Result<ExitCode, Failure> {
    let plan = if options.vacate {
        client.call(&api::Plan { verb: Verb::Vacate, die: None })?
    } else {
        api::PlanReply { steps: Vec::new() }
    };
    output.result(&plan, |plan| match options.lease {
        Some(lease) if plan.steps.is_empty() => format!("{lease} would end; no window moves"),
        _ => steps(&plan.steps),
    });
    Ok(ExitCode::SUCCESS)
}

/// Shuts every slot that has a die in it and no holder: a visit to the die that is there already
/// moves nothing, and its end can shut the slot.
fn vacate_idle(client: &mut Client) -> Result<Vec<u8>, Failure> {
    let status = client.status()?;
    let mut vacated = Vec::new();
    for slot in status.slots.iter().filter(|slot| slot.state == SlotState::Free) {
        let Some(die) = slot.die else { continue };
        let call =
            api::Acquire { die: Some(die.to_string()), wait_ms: Some(0), ..Default::default() };
        client.acquire(&call)?.vacate()?;
        vacated.push(slot.slot);
    }
    Ok(vacated)
}
