//! The new line for one boot only.

use serde::{Deserialize, Serialize};

/// File name of the trial's own loader entry.
pub const ENTRY_FILE: &str = "slot-cmdline-trial.conf";

/// A trial that was armed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Marks the trial's line.
    pub mark: String,
    /// The boot in which it was armed.
    pub armed_in: String,
    /// The boot in which it was seen to run.
    pub seen_in: Option<String>,
}
