//! Exit codes. They are part of the interface.

use std::process::ExitCode;

use crate::error::Error;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, or nothing to do.
    Done = 0,
    /// Something failed; the message says what.
    Failed = 1,
    /// The machine has no die.
    NoDies = 2,
    /// The set-up is not known; the lines to add by hand were printed, nothing was changed.
    UnknownSetup = 3,
    /// `check` or `confirm` found something that has to be mended.
    Findings = 4,
    /// Refused, with the reason and the way out.
    Refused = 5,
    /// The command line was not understood.
    Usage = 64,
}

/// The table of exit codes, for help texts.
pub const TABLE: &str = "Exit codes:
  0  done, or nothing to do
  1  something failed; what was changed was taken back, or the message says what was not
  2  the machine has no die
  3  unknown set-up: the lines to add by hand were printed, nothing was changed
  4  check found something to mend
  5  refused, with the reason and the way out
  64 the command line was not understood";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error {
            Error::NoDies { .. } => Self::NoDies,
            Error::UnknownSetup { .. } => Self::UnknownSetup,
            Error::Refused { .. } | Error::Edited { .. } | Error::Ids(_) => Self::Refused,
            _ => Self::Failed,
        }
    }
}
