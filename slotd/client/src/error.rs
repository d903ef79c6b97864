//! Why a call got no answer.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::{api, sim};

/// Why a call got no answer. `Display` never repeats the source: print the chain.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody listens.
    #[error("cannot reach slotd at {}: is it running, and are you in group `slot`?", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The connection broke; a lease it held has ended.
    #[error("the connection to slotd broke; a lease it held has ended")]
    Broken(#[source] io::Error),
    /// slotd closed the connection; a lease it held has ended.
    #[error("slotd closed the connection; a lease it held has ended")]
    Closed,
    /// The answer is not what the protocol says.
    #[error("cannot make sense of the answer to {method}: are client and slotd of one version?")]
    Answer {
        /// The method called.
        method: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// slotd refused.
    #[error(transparent)]
    Refused(#[from] api::Refusal),
    /// The simulator refused.
    #[error(transparent)]
    Simulator(#[from] sim::Refusal),
    /// An error of the Varlink service, or one that this client does not know.
    #[error("{name} {parameters}")]
    Service {
        /// Full name.
        name: String,
        /// Its parameters, as JSON.
        parameters: String,
    },
}

impl Error {
    /// The refusal, where slotd refused.
    pub fn refusal(&self) -> Option<&api::Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}
