//! `remove`.

use serde_json::json;

use super::Context;
use crate::{
    apply::{OnEdit, Outcome, Store, UndoPlan, recover},
    error::Result,
    exit::Exit,
};

fn on_edit(merge: bool) -> OnEdit {
    if merge { OnEdit::Merge } else { OnEdit::Refuse }
}

fn show(undo: &UndoPlan) -> String {
    let steps = undo.steps.iter().map(|step| format!("{step}\n"));
    let runs = undo.rerun.iter().map(|run| format!("# {}\nrun {}\n", run.why, run.command()));
    steps.chain(runs).collect()
}

pub(super) fn plan(context: &mut Context<'_>, merge: bool) -> Result<Exit> {
    let worker = context.worker();
    let (mut text, mut plans) = (String::new(), Vec::new());
    for store in [Store::trial(worker.disk), Store::installed(worker.disk)] {
        if let Some(undo) = worker.plan_undo(&store, on_edit(merge))? {
            text += &show(&undo);
            plans.push(undo);
        }
    }
    if plans.is_empty() {
        text = "nothing of slot-cmdline is installed".into();
    }
    context.say(&text, &plans)?;
    Ok(Exit::Done)
}

pub(super) fn remove(context: &mut Context<'_>, merge: bool) -> Result<Exit> {
    let worker = context.worker();
    let lock = Store::lock(context.root)?;
    let mut told = recover(&worker)?;
    let (mut any, mut pending) = (!told.is_empty(), Vec::new());
    for store in [Store::trial(worker.disk), Store::installed(worker.disk)] {
        match worker.undo(&store, on_edit(merge))? {
            Outcome::Unchanged => {}
            Outcome::Changed => any = true,
            Outcome::Pending(commands) => {
                any = true;
                pending.extend(commands);
            }
        }
    }
    drop(lock);
    told.push(if any {
        "removed: every file is as it was; the dies belong to whatever driver comes first from the next boot on".into()
    } else {
        "nothing of slot-cmdline is installed".into()
    });
    if !pending.is_empty() {
        told.push(format!("now run inside that system:\n  {}", pending.join("\n  ")));
    }
    context
        .say(&told.join("\n"), &json!({ "changed": any, "pending": pending, "messages": told }))?;
    Ok(Exit::Done)
}
