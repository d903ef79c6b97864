//! What can go wrong, and the exit code that says so.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The exit codes of die-check. 2 is a wrong command line; 130 and 143 an end by SIGINT and SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Not asked for by anybody but an operator. Exit code 130 or 143.
    Stopped,
    /// die-check itself, or the machine under it. Exit code 1.
    Internal,
    /// slotd is out of reach or gives no lease. Exit code 9.
    NoLease,
    /// No driver, or one that does not fit its kernel module. Exit code 3.
    NoDriver,
    /// The driver shows no such die. Exit code 4.
    NoDie,
    /// The driver refuses the kernels; most often it is too old for them. Exit code 6.
    PtxRefused,
    /// Another refusal of the driver. Exit code 10.
    Driver,
    /// A launch did not end in its time. Exit code 7.
    TimedOut,
    /// The die fell over with a context on it. Exit code 8.
    ContextLost,
    /// The die computes or remembers wrongly. Exit code 5.
    Wrong,
}

impl Kind {
    /// The exit code. Kinds are ordered by how bad they are for the die; codes are not.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Internal => 1,
            Self::NoDriver => 3,
            Self::NoDie => 4,
            Self::Wrong => 5,
            Self::PtxRefused => 6,
            Self::TimedOut => 7,
            Self::ContextLost => 8,
            Self::NoLease => 9,
            Self::Driver => 10,
            Self::Stopped => 130,
        }
    }
}

/// One failure, as it travels from the worker to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// What kind it is.
    pub(crate) kind: Kind,
    /// What happened, and what to do, for a human.
    pub(crate) text: String,
    /// The driver's code, where it was the driver that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cuda: Option<u32>,
}

impl Failure {
    /// A failure of `kind`.
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), cuda: None }
    }

    /// The same, with the driver's code.
    pub(crate) fn with_code(self, code: u32) -> Self {
        Self { cuda: Some(code), ..self }
    }

    /// A failure of die-check's own: `operation` could not be done because of `error`.
    pub(crate) fn internal<E: fmt::Display>(operation: &str) -> impl FnOnce(E) -> Self + '_ {
        move |error| Self::new(Kind::Internal, format!("{operation}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_die_is_worse_than_any_other_failure() {
        let worst =
            [Kind::TimedOut, Kind::Wrong, Kind::NoLease, Kind::ContextLost].into_iter().max();
        assert_eq!(worst, Some(Kind::Wrong));
    }
}
