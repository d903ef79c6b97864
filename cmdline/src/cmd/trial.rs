//! `trial`, `confirm` and `check`.

use serde_json::json;

use super::{Choices, Context};
use crate::{
    apply::{OnEdit, Outcome, Record, Store, recover},
    check,
    error::{Error, Result},
    exit::Exit,
    machine::Machine,
    plan::{self, Options},
    trial::{self, TrialState},
};

fn machine(context: &Context<'_>) -> Result<Machine> {
    let machine = Machine::read(context.root, &context.cli.die_ids())?;
    machine.need_dies()?;
    Ok(machine)
}

pub(super) fn trial(context: &mut Context<'_>, choices: &Choices, dry_run: bool) -> Result<Exit> {
    let worker = context.worker();
    let machine = machine(context)?;
    let options: Options = choices.into();
    if options.blacklist == plan::Blacklist::Replace {
        return Err(Error::refused(
            "a trial changes nothing outside its own entry, so it cannot move a blacklist aside",
            "Try without --replace-blacklist; after confirm, `slot-cmdline install --replace-blacklist` does it",
        ));
    }
    let new = trial::arm(&machine, options);
    if dry_run {
        let plan = trial::plan(context.root, &machine, &new)?;
        context.say(&plan.to_string(), &plan)?;
        return Ok(Exit::Done);
    }
    let _lock = Store::lock(context.root)?;
    let mut told = recover(&worker)?;
    if Store::installed(worker.disk).load()?.is_some() {
        return Err(Error::refused(
            "slot-cmdline is installed for good already",
            "Run `slot-cmdline remove` first to try something else",
        ));
    }
    let store = Store::trial(worker.disk);
    if let Some(old) = store.load()?.and_then(|record| record.trial) {
        if trial::state(context.root, &machine, &old)? == TrialState::Running {
            return Err(Error::refused(
                "this boot is a trial",
                "Run `slot-cmdline confirm`, or reboot to end it",
            ));
        }
        worker.undo(&store, OnEdit::Refuse)?;
        told.push("took the earlier trial away first".into());
    }
    let plan = trial::plan(context.root, &machine, &new)?;
    let outcome = worker.apply(&store, &plan, Some(new))?;
    told.push(match &outcome {
        Outcome::Pending(commands) => format!("files are written; now run inside that system:\n  {}", commands.join("\n  ")),
        _ => "armed: the next boot is the trial. After it `slot-cmdline confirm` makes it permanent; without that the boot after it is the old one".into(),
    });
    context
        .say(&told.join("\n"), &json!({ "outcome": outcome, "plan": plan, "messages": told }))?;
    Ok(Exit::Done)
}

pub(super) fn confirm(context: &mut Context<'_>) -> Result<Exit> {
    let worker = context.worker();
    let machine = machine(context)?;
    let _lock = Store::lock(context.root)?;
    let mut told = recover(&worker)?;
    let store = Store::trial(worker.disk);
    let Some((record, trial)) = store.load()?.and_then(|r| r.trial.clone().map(|t| (r, t))) else {
        return Err(Error::refused(
            "there is no trial to confirm",
            "Run `slot-cmdline trial` and reboot first",
        ));
    };
    let state = trial::state(context.root, &machine, &trial)?;
    if state != TrialState::Running {
        return Err(Error::refused(
            format!("this boot is not the trial ({})", describe(state)),
            "`slot-cmdline check` says what became of it",
        ));
    }
    note_seen(&store, record, &machine)?;
    let report = check::check(context.root, &machine, trial.options)?;
    if !report.passes() {
        told.push(format!("not confirmed: check found something to mend\n{report}"));
        context.say(
            &told.join("\n"),
            &json!({ "confirmed": false, "check": report, "messages": told }),
        )?;
        return Ok(Exit::Findings);
    }
    let plan = plan::install(context.root, &machine, trial.options)?;
    let outcome = worker.apply(&Store::installed(worker.disk), &plan, None)?;
    worker.undo(&store, OnEdit::Refuse)?;
    told.push(
        "confirmed: the dies are parked at every boot; `slot-cmdline remove` undoes it".into(),
    );
    context.say(
        &told.join("\n"),
        &json!({ "confirmed": true, "outcome": outcome, "plan": plan, "messages": told }),
    )?;
    Ok(Exit::Done)
}

fn describe(state: TrialState) -> &'static str {
    match state {
        TrialState::Armed => "it is armed, and the next boot is it",
        TrialState::Running => "it runs",
        TrialState::Frozen => "it froze or was reset",
        TrialState::Unconfirmed => "it ran and the machine was rebooted",
        TrialState::NeverTaken => "the loader never started it",
    }
}

/// So that a reboot from here on is not taken for a freeze.
fn note_seen(store: &Store<'_>, mut record: Record, machine: &Machine) -> Result<()> {
    if let Some(trial) = &mut record.trial
        && trial.seen_in.is_none()
    {
        trial.seen_in = Some(machine.running.boot_id.clone());
        store.save(&record)?;
    }
    Ok(())
}

pub(super) fn check(context: &mut Context<'_>, choices: &Choices) -> Result<Exit> {
    let machine = machine(context)?;
    let report = check::check(context.root, &machine, choices.into())?;
    if report.trial == Some(TrialState::Running) {
        let store = Store::trial(context.worker().disk);
        if let Some(record) = store.load()? {
            // Whoever may only read can check too; confirm notes it again.
            let _ = note_seen(&store, record, &machine);
        }
    }
    context.say(&report.to_string(), &report)?;
    Ok(if report.passes() { Exit::Done } else { Exit::Findings })
}
