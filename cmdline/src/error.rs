//! What can go wrong, and what the operator does about it.

use std::{io, path::PathBuf};

use thiserror::Error;

/// Everything that ends a command early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be worked with.
    #[error("could not {operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No die in this machine.
    #[error(
        "this machine has no die ({ids} not found under /sys/bus/pci/devices): nothing to park; name other ids with --die-id"
    )]
    NoDies {
        /// The ids looked for.
        ids: String,
    },
    /// The set-up is not known well enough to change it.
    #[error("{what}; nothing was changed")]
    UnknownSetup {
        /// What is not known.
        what: String,
        /// The exact lines that do the same by hand.
        by_hand: Vec<String>,
    },
    /// The tool could, and does not.
    #[error("refused: {reason}. {way_out}")]
    Refused {
        /// Why.
        reason: String,
        /// What to do instead.
        way_out: String,
    },
    /// A file was edited since.
    #[error("{} was edited since slot-cmdline wrote it, and was left alone: run `slot-cmdline remove --merge` to keep that edit, or put the file back\n{difference}", path.display())]
    Edited {
        /// The file.
        path: PathBuf,
        /// The three-way difference.
        difference: String,
    },
    /// A command did not do what it is for.
    #[error("`{command}` {complaint}")]
    Command {
        /// The command line.
        command: String,
        /// What is wrong with what it wrote, and its last words.
        complaint: String,
    },
    /// A step failed and so did putting things back.
    #[error(
        "{failure}; and putting things back failed too ({undo}): run `slot-cmdline remove` once that is mended"
    )]
    NotUndone {
        /// The first failure.
        failure: String,
        /// The second.
        undo: String,
    },
    /// The state file is not one of ours.
    #[error("the state file {} cannot be read ({problem}): it came from another version or was damaged; it holds the way back, so move it aside only after undoing by hand", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The list does not fit.
    #[error(transparent)]
    Ids(#[from] crate::tokens::IdsTooLong),
}

impl Error {
    /// For `map_err` after an operation on `path`.
    pub fn io(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { operation, path, source }
    }

    /// Something that the tool will not do.
    pub fn refused(reason: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into(), way_out: way_out.into() }
    }
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;
