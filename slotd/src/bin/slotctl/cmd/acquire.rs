//! `slotctl acquire`.

use std::process::ExitCode;

use slotd_client::api::{self, Acquired, Verb};

use crate::{
    args::{Acquire, Args, milliseconds},
    exit::Failure,
    hold::{self, Signals},
    output::{Output, steps},
    progress::Progress,
};

pub(crate) fn run(args: &Args, options: &Acquire, output: Output) -> Result<ExitCode, Failure> {
    let mut client = args.connect()?;
    if options.dry_run {
        let plan = api::Plan { verb: Verb::Acquire, die: Some(options.die.clone()) };
        output.result(&client.call(&plan)?, |plan| steps(&plan.steps));
        return Ok(ExitCode::SUCCESS);
    }
    // The command gets these signals until its end; only then is the lease given up.
    let signals = if options.command.is_empty() { None } else { Some(Signals::catch()?) };
    let call = api::Acquire {
        client: Some(client_name()),
        die: Some(options.die.clone()),
        wait_ms: milliseconds(options.wait),
    };
    let lease = {
        let _progress = Progress::start(format!("waiting for {}", options.die));
        client.acquire(&call)?
    };
    let code = if let Some(signals) = signals {
        output.note(&text(&lease));
        hold::command(&options.command, &lease, &signals)?
    } else {
        let signals = Signals::catch()?;
        output.result(&*lease, text);
        output.note("holding it; Ctrl-C or the end of standard input releases it");
        hold::wait(&signals)?;
        ExitCode::SUCCESS
    };
    lease.release()?;
    Ok(code)
}

fn client_name() -> String {
    let user = std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned());
    format!("slotctl of {user}")
}

fn text(acquired: &Acquired) -> String {
    let Acquired { lease, label, bdf, slot, base, size, kind, .. } = acquired;
    let last = base + (size - 1);
    format!("{lease}: {label} ({bdf}) answers in slot {slot} at {base:#x}-{last:#x}, {kind}")
}
