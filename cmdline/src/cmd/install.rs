//! `plan` and `install`.

use serde_json::json;

use super::{Choices, Context};
use crate::{
    apply::{OnEdit, Outcome, Store, recover},
    error::Result,
    exit::Exit,
    machine::Machine,
    plan::{self, Plan},
};

/// Works the plan out.
pub(super) fn make(context: &Context<'_>, choices: &Choices) -> Result<(Machine, Plan)> {
    let machine = Machine::read(context.root, &context.cli.die_ids())?;
    machine.need_dies()?;
    let plan = plan::install(context.root, &machine, choices.into())?;
    Ok((machine, plan))
}

pub(super) fn plan(context: &mut Context<'_>, choices: &Choices) -> Result<Exit> {
    let (_, plan) = make(context, choices)?;
    context.say(&plan.to_string(), &plan)?;
    Ok(Exit::Done)
}

pub(super) fn install(context: &mut Context<'_>, choices: &Choices) -> Result<Exit> {
    let worker = context.worker();
    let _lock = Store::lock(context.root)?;
    let mut told = recover(&worker)?;
    let (_, mut plan) = make(context, choices)?;
    let store = Store::installed(worker.disk);
    if !plan.is_empty() && store.load()?.is_some() {
        // Other choices, or a new kernel: the way back stays one step long.
        worker.undo(&store, OnEdit::Refuse)?;
        told.push("took the earlier installation back first".into());
        (_, plan) = make(context, choices)?;
    }
    let outcome = worker.apply(&store, &plan, None)?;
    told.push(match &outcome {
        Outcome::Unchanged => "everything is installed already: nothing was changed".into(),
        Outcome::Changed => format!(
            "installed: from the next boot on the dies wait on {}; `slot-cmdline check` tells, `slot-cmdline remove` undoes",
            plan.purpose.choice.parker
        ),
        Outcome::Pending(commands) => {
            format!("files are changed; now run inside that system:\n  {}", commands.join("\n  "))
        }
    });
    told.extend(plan.purpose.notes.iter().map(|note| format!("note: {note}")));
    let value = json!({ "outcome": outcome, "plan": plan, "messages": told });
    context.say(&told.join("\n"), &value)?;
    Ok(Exit::Done)
}
