//! The command line.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args as ClapArgs, Parser, Subcommand};
use slotd_client::{Client, DEFAULT_SOCKET, SOCKET_VARIABLE, api::LeaseId};

use super::exit::Failure;

const AFTER_HELP: &str = "\
A DIE is named by its number (3), its PCI address (0000:03:00.0 or 03:00.0) or its label.

Exit codes:
  0    done
  1    an operation failed; what had been done was undone, or the message says what was not
  2    the command line makes no sense
  3    slotd cannot be reached, or went away
  4    slotd refused; nothing was changed
  5    the turn did not come within --wait
  With `acquire DIE -- COMMAND`: the command's own exit code (128 + N if signal N ended it);
  125 if slotctl failed, 126 if the command cannot be run, 127 if it is not there.
  With `identify` and `check`: those of `die-check`, which `die-check --help` lists.

Examples:
  slotctl status
  slotctl acquire 3 --dry-run           what would be done to bring die 3 into the slot
  slotctl acquire 3 -- ./my-program     runs it while die 3 is in the slot
  slotctl park all                      gives every die back to its parker

Never run nvidia-smi on a machine whose dies take turns: it asks dies that are not in the slot.";

/// Brings dies into the slot and back to their parker.
#[derive(Debug, Parser)]
#[command(name = "slotctl", version, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Where slotd listens.
    #[arg(long, global = true, env = SOCKET_VARIABLE, default_value = DEFAULT_SOCKET,
          value_name = "PATH")]
    socket: PathBuf,
    /// Answers in JSON, one object on one line, errors too.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows the slots and the dies.
    Status(Status),
    /// Brings a die into the slot and holds the lease until Ctrl-C, or while a command runs.
    ///
    /// The first acquire of a die is cold: its card is given its place, the die is taken from its
    /// parker and handed to nvidia. Every later one is warm: the window moves, nothing else. The die
    /// stays bound to nvidia after the release, its contexts and kernels live on.
    Acquire(Acquire),
    /// Ends a lease of somebody else, or shuts a slot that nobody holds.
    ///
    /// It does not stop the holder: be sure that it has stopped using the slot. Only the user who
    /// holds the lease, and root, may do that.
    Release(Release),
    /// Gives a die back to its parker. This destroys its contexts and what is in its memory.
    Park(Park),
    /// Shows what fits in this machine and what is in the way, or the steps of one operation.
    Plan(Plan),
    /// Keeps a die busy, so that the activity LED of its card shows which card it is.
    ///
    /// Runs `die-check identify`.
    Identify(Identify),
    /// Checks the arithmetic and the memory of dies, and that kernels run on out of the slot.
    ///
    /// Runs `die-check all`. It takes the memory that is free on a die, for some seconds each.
    Check(Check),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Status {
    /// Reads the machine again first; that writes nothing.
    #[arg(long)]
    pub(crate) fresh: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Acquire {
    /// Which die; `any` takes one that is in the slot, else a resident one, else a parked one.
    #[arg(default_value = "any")]
    pub(crate) die: String,
    /// The longest wait in line; 0 does not wait. Without it, as long as it takes.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    /// Shows the steps that would be taken, and takes none.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Runs this while the die is in the slot. It finds `SLOTD_LEASE`, `SLOTD_DIE`
    /// and `SLOTD_BDF` set.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Release {
    /// Number of the lease, as `slotctl status` shows it.
    #[arg(value_name = "LEASE", value_parser = lease, required_unless_present = "vacate")]
    pub(crate) lease: Option<LeaseId>,
    /// Shuts the slot, unless somebody waits for it. Without a LEASE: every slot that nobody holds.
    #[arg(long)]
    pub(crate) vacate: bool,
    /// Shows what would be done, and does nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Park {
    /// Which die; `all` parks every resident one, one after another.
    pub(crate) die: String,
    /// The longest wait in line; 0 does not wait. Without it, as long as it takes.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    /// Shows the steps that would be taken, and takes none.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Plan {
    /// The steps that bring this die into the slot; without it, the plan of the machine.
    pub(crate) die: Option<String>,
    /// The steps that park the die instead.
    #[arg(long, requires = "die")]
    pub(crate) park: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Identify {
    /// Which die.
    pub(crate) die: String,
    /// For how long; Ctrl-C ends it earlier.
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
    /// More words for die-check.
    #[arg(last = true, value_name = "OPTIONS")]
    pub(crate) more: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// Which dies; all where none is named.
    #[arg(value_name = "DIE")]
    pub(crate) dies: Vec<String>,
    /// More words for die-check, such as `--size 1G`.
    #[arg(last = true, value_name = "OPTIONS")]
    pub(crate) more: Vec<OsString>,
}

impl Args {
    /// Where slotd listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Connects to slotd.
    pub(crate) fn connect(&self) -> Result<Client, Failure> {
        Ok(Client::connect_to(&self.socket)?)
    }

    /// Whether exit codes are those of a program that runs another one.
    pub(crate) fn runs_a_command(&self) -> bool {
        match &self.command {
            Command::Acquire(options) => !options.command.is_empty(),
            Command::Identify(_) | Command::Check(_) => true,
            _ => false,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

fn lease(text: &str) -> Result<LeaseId, String> {
    text.parse().map(LeaseId).map_err(|_| format!("`{text}` is no number of a lease"))
}

/// A wait limit as the protocol has it.
pub(crate) fn milliseconds(wait: Option<Duration>) -> Option<u64> {
    wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn waits_are_checked() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["-1", "nan", "inf", "1e300", "soon", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
