//! How `slotctl` ends.

use std::{error::Error as _, fmt::Write as _, io, process::ExitCode};

use slotd_client::{Error, api::Refusal};
use thiserror::Error;

/// Exit codes, as `slotctl --help` tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    Failed = 1,
    Unreachable = 3,
    Refused = 4,
    TimedOut = 5,
    /// As env(1): the program that was to run another one failed itself.
    Itself = 125,
    /// As env(1).
    NotExecutable = 126,
    /// As env(1).
    NotFound = 127,
}

/// Why `slotctl` could not do what it was asked to.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Slotd(#[from] Error),
    #[error("run {command}")]
    Spawn {
        command: String,
        #[source]
        source: io::Error,
    },
    #[error("{what}")]
    System {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{failed} of {all} dies could not be parked")]
    SomeNotParked { failed: usize, all: usize },
}

impl Failure {
    /// Names a failed call of the system.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }

    /// The failure and all its sources, on one line.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = self.source();
        while let Some(error) = source {
            let _ = write!(text, ": {error}");
            source = error.source();
        }
        text
    }

    fn code(&self) -> Code {
        match self {
            Self::Slotd(Error::Connect { .. } | Error::Broken(_) | Error::Closed) => {
                Code::Unreachable
            }
            Self::Slotd(Error::Refused(Refusal::TimedOut { .. })) => Code::TimedOut,
            Self::Slotd(Error::Refused(Refusal::OperationFailed { .. })) => Code::Failed,
            Self::Slotd(Error::Refused(_)) => Code::Refused,
            Self::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Code::NotFound
            }
            Self::Spawn { .. } => Code::NotExecutable,
            Self::Slotd(_) | Self::System { .. } | Self::SomeNotParked { .. } => Code::Failed,
        }
    }

    /// What to end with; `runs_a_command` asks for the codes of env(1).
    pub(crate) fn exit_code(&self, runs_a_command: bool) -> ExitCode {
        let code = match self.code() {
            code @ (Code::NotExecutable | Code::NotFound) => code,
            _ if runs_a_command => Code::Itself,
            code => code,
        };
        ExitCode::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_as_documented() {
        let timed_out = Failure::from(Error::from(Refusal::TimedOut { waited_ms: 1 }));
        assert_eq!(timed_out.code(), Code::TimedOut);
        assert_eq!(Failure::from(Error::from(Refusal::NoDie)).code(), Code::Refused);
        assert_eq!(Failure::from(Error::Closed).code(), Code::Unreachable);
        let spawn =
            |kind: io::ErrorKind| Failure::Spawn { command: "x".to_owned(), source: kind.into() };
        assert_eq!(spawn(io::ErrorKind::NotFound).code(), Code::NotFound);
        assert_eq!(spawn(io::ErrorKind::PermissionDenied).code(), Code::NotExecutable);
    }

    #[test]
    fn the_chain_is_on_one_line() {
        let failure = Failure::Spawn { command: "x".to_owned(), source: io::Error::other("why") };
        assert_eq!(failure.chain(), "run x: why");
    }
}
