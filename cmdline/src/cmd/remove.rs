//! `remove`.

use std::path::PathBuf;

use serde_json::json;

use super::Context;
use crate::{
    apply::{OnEdit, Outcome, Store, UndoPlan, recover},
    error::Result,
    exit::Exit,
    loader::detect,
    plan::Purpose,
    root::Root,
    tokens::Line,
};

fn on_edit(merge: bool) -> OnEdit {
    if merge { OnEdit::Merge } else { OnEdit::Refuse }
}

fn show(undo: &UndoPlan) -> String {
    let steps = undo.steps.iter().map(|step| format!("{step}\n"));
    let runs = undo.rerun.iter().map(|run| format!("# {}\nrun {}\n", run.why, run.command()));
    steps.chain(runs).collect()
}

/// Lines of kernels that were installed since, which no record knows.
fn leftovers(root: &Root, purpose: Option<&Purpose>) -> Vec<String> {
    let lines = detect(root, None).and_then(|loader| loader.installed_lines(root));
    let (Some(purpose), Ok(lines)) = (purpose, lines) else { return Vec::new() };
    let still = lines.into_iter().filter(|(_, line)| line.meets(&purpose.choice.wants));
    let tell = |(path, line): (PathBuf, Line)| {
        format!(
            "note: {} still parks ({line}): it was written since the installation; have its kernel's entry written again (update-grub, kernel-install add, or by hand)",
            path.display()
        )
    };
    still.map(tell).collect()
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
    let purpose = Store::installed(worker.disk).load()?.map(|record| record.purpose);
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
    told.extend(leftovers(context.root, purpose.as_ref()));
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
