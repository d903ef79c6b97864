//! `slotctl status`.

use std::{fmt::Write as _, process::ExitCode};

use slotd_client::api::{self, DieStatus, SlotStatus, StatusReply};

use crate::{
    args::{Args, Status},
    exit::Failure,
    output::{Output, coloured, table},
};

pub(crate) fn run(args: &Args, options: &Status, output: Output) -> Result<ExitCode, Failure> {
    let fresh = options.fresh.then_some(true);
    let status = args.connect()?.call(&api::Status { fresh })?;
    output.result(&status, text);
    Ok(ExitCode::SUCCESS)
}

fn text(status: &StatusReply) -> String {
    let mut text = format!("{}\n\n", status.machine);
    for slot in &status.slots {
        let _ = writeln!(text, "{}", slot_line(slot, &status.dies));
    }
    let mut rows = table(["DIE", "LABEL", "BDF", "CARD", "STATE", "SLOT", "VISITS", "SLOT TIME"]);
    for die in &status.dies {
        rows.add_row([
            die.die.to_string(),
            die.label.clone(),
            die.bdf.clone(),
            die.card.to_string(),
            coloured(die.state),
            die.slot.map_or_else(|| "-".to_owned(), |slot| slot.to_string()),
            die.visits.to_string(),
            seconds(die.slot_time_ms),
        ]);
    }
    let _ = writeln!(text, "\n{}", rows.trim_fmt());
    for die in &status.dies {
        if let Some(why) = &die.why {
            let _ = writeln!(text, "\n{}: {why}", die.label);
        }
    }
    for oddity in &status.oddities {
        let _ = writeln!(text, "\nodd: {oddity}");
    }
    text
}

fn slot_line(slot: &SlotStatus, dies: &[DieStatus]) -> String {
    let last = slot.base + (slot.size - 1);
    let mut line = format!("slot {} at {:#x}-{last:#x}: {}", slot.slot, slot.base, slot.state);
    let inside = slot.die.and_then(|number| dies.iter().find(|die| die.die == number));
    let _ = match inside {
        Some(die) => write!(line, ", {} is in it", die.label),
        None => write!(line, ", shut"),
    };
    if let Some(lease) = slot.lease {
        let client = slot.client.as_deref().unwrap_or("somebody");
        let _ = write!(line, ", {lease} of {client}");
        if let Some(pid) = slot.pid {
            let _ = write!(line, " (pid {pid})");
        }
        if let Some(held) = slot.held_ms {
            let _ = write!(line, " for {}", seconds(held));
        }
    }
    if let Some(doing) = &slot.doing {
        let _ = write!(line, ", {doing}");
    }
    if slot.waiting > 0 {
        let _ = write!(line, ", {} waiting", slot.waiting);
    }
    line
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03} s", milliseconds / 1000, milliseconds % 1000)
}
