//! One run of die-check: what was asked for, and where its words go.

use std::io::{Write, stdout};

use serde::Serialize;

use crate::{
    failure::{Failure, Kind},
    options::Options,
    stop::Stop,
};

/// What every verb needs.
pub(crate) struct Run<'a> {
    pub(crate) options: &'a Options,
    pub(crate) stop: &'a Stop,
}

impl Run<'_> {
    /// A line for a human; nothing where a program reads.
    pub(crate) fn say(&self, line: &str) {
        if !self.options.json {
            // Whether anybody still reads it is no reason to stop half way.
            let _ = writeln!(stdout(), "{line}");
        }
    }

    /// The report for a program; nothing where a human reads.
    pub(crate) fn json<T: Serialize>(&self, report: &T) -> Result<(), Failure> {
        if self.options.json {
            let text = serde_json::to_string_pretty(report)
                .map_err(Failure::internal("writing the report"))?;
            writeln!(stdout(), "{text}").map_err(Failure::internal("writing the report"))?;
        }
        Ok(())
    }

    /// A failure where an end was asked for.
    pub(crate) fn go_on(&self) -> Result<(), Failure> {
        if self.stop.requested() {
            return Err(Failure::new(Kind::Stopped, "ended as asked"));
        }
        Ok(())
    }
}
