//! What people and programs get to see.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use slotd_client::api::DieState;

use super::exit::Failure;

/// Standard output, for people or for programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

#[derive(Serialize)]
struct JsonFailure<'a> {
    error: &'a str,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// A result: as JSON, or as `text` makes it.
    pub(crate) fn result<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) {
        let line = if self.json { json(value) } else { text(value) };
        print(&line);
    }

    /// Why it did not work.
    pub(crate) fn failure(self, failure: &Failure) {
        let chain = failure.chain();
        if self.json {
            print(&json(&JsonFailure { error: &chain }));
        } else {
            eprintln!("slotctl: {chain}");
        }
    }

    /// Something worth knowing, for people only.
    pub(crate) fn note(self, text: &str) {
        if !self.json {
            eprintln!("slotctl: {text}");
        }
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!(r#"{{"error":"{error}"}}"#))
}

/// Whoever reads may have gone (`slotctl status | head -1`): that is no failure of ours.
fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{}", text.trim_end_matches('\n'));
}

/// A table with columns just wide enough.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// A state, coloured where standard output is a terminal and `NO_COLOR` is not set.
pub(crate) fn coloured(state: DieState) -> String {
    let style = match state {
        DieState::Resident => console::Style::new().green(),
        DieState::Parked => console::Style::new(),
        DieState::Unbound | DieState::Foreign => console::Style::new().yellow(),
        DieState::Absent | DieState::Quarantined | DieState::Wedged => console::Style::new().red(),
    };
    style.apply_to(state).to_string()
}

/// Steps, numbered.
pub(crate) fn steps(steps: &[slotd_client::api::Step]) -> String {
    if steps.is_empty() {
        return "nothing needs doing".to_owned();
    }
    let line = |(number, step): (usize, &slotd_client::api::Step)| match &step.undo {
        Some(undo) => format!("{number:>2}. {}\n      undone by: {undo}", step.text),
        None => format!("{number:>2}. {}", step.text),
    };
    (1..).zip(steps).map(line).collect::<Vec<_>>().join("\n")
}
