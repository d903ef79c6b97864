//! Running commands of the system.

use std::process::{Command, Stdio};

use crate::error::{Error, Result};

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Whether its exit code was 0. A hint, no proof.
    pub success: bool,
    /// The last lines that it printed.
    pub last_words: String,
}

/// Somebody who runs commands.
pub trait Commands {
    /// Runs one to its end.
    fn run(&self, argv: &[String]) -> Result<Ended>;
}

/// Runs commands of the machine that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

/// Lines kept of what a command printed.
const LAST_LINES: usize = 12;

impl Commands for System {
    fn run(&self, argv: &[String]) -> Result<Ended> {
        let (program, arguments) = argv.split_first().expect("a plan has no empty command");
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let output = Command::new(program)
            .args(arguments)
            .env("PATH", path)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .map_err(Error::io("run", program))?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let lines: Vec<_> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        Ok(Ended { success: output.status.success(), last_words: last })
    }
}
