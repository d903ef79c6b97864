//! `slotctl park`.

use std::process::ExitCode;

use serde::Serialize;
use slotd_client::{
    Client,
    api::{self, DieState, Parked, Step, Verb},
};

use crate::{
    args::{Args, Park, milliseconds},
    exit::Failure,
    output::{Output, steps},
    progress::Progress,
};

#[derive(Debug, Serialize)]
struct AllParked {
    parked: Vec<Parked>,
    failed: Vec<NotParked>,
}

#[derive(Debug, Serialize)]
struct NotParked {
    die: String,
    error: String,
}

#[derive(Debug, Serialize)]
struct AllSteps {
    steps: Vec<Step>,
}

pub(crate) fn run(args: &Args, options: &Park, output: Output) -> Result<ExitCode, Failure> {
    let mut client = args.connect()?;
    if options.die == "all" {
        return park_all(&mut client, options, output);
    }
    if options.dry_run {
        let plan = plan(&mut client, &options.die)?;
        output.result(&plan, |plan| steps(&plan.steps));
    } else {
        output.result(&park(&mut client, &options.die, options)?, text);
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(client: &mut Client, die: &str) -> Result<api::PlanReply, Failure> {
    Ok(client.call(&api::Plan { verb: Verb::Park, die: Some(die.to_owned()) })?)
}

fn park(client: &mut Client, die: &str, options: &Park) -> Result<Parked, Failure> {
    let _progress = Progress::start(format!("parking {die}"));
    let call = api::Park { die: die.to_owned(), wait_ms: milliseconds(options.wait) };
    Ok(client.call(&call)?)
}

fn text(parked: &Parked) -> String {
    format!("{} ({}) is parked on {}", parked.label, parked.bdf, parked.parker)
}

/// Every resident die in turn; one that fails does not keep the others from it.
fn park_all(client: &mut Client, options: &Park, output: Output) -> Result<ExitCode, Failure> {
    let status = client.status()?;
    let resident: Vec<_> =
        status.dies.iter().filter(|die| die.state == DieState::Resident).collect();
    if options.dry_run {
        let mut all = AllSteps { steps: Vec::new() };
        for die in &resident {
            all.steps.extend(plan(client, &die.bdf)?.steps);
        }
        output.result(&all, |all| steps(&all.steps));
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = AllParked { parked: Vec::new(), failed: Vec::new() };
    for die in &resident {
        match park(client, &die.bdf, options) {
            Ok(parked) => all.parked.push(parked),
            // Nobody is there any more to park the others.
            Err(Failure::Slotd(error)) if error.refusal().is_none() => return Err(error.into()),
            Err(failure) => {
                all.failed.push(NotParked { die: die.label.clone(), error: failure.chain() });
            }
        }
    }
    output.result(&all, |all| {
        let parked = all.parked.iter().map(text);
        let failed = all.failed.iter().map(|failed| format!("{}: {}", failed.die, failed.error));
        let lines: Vec<String> = parked.chain(failed).collect();
        if lines.is_empty() { "no die is resident".to_owned() } else { lines.join("\n") }
    });
    if all.failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::SomeNotParked { failed: all.failed.len(), all: resident.len() })
}
