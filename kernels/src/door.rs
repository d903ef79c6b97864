//! The way to a die: through slotd, which lets dies take turns, or straight to a GPU that needs no turn.

use std::fmt;

use serde::Serialize;
use vfio_park::Bdf;

use crate::{failure::Failure, stop::Stop};

/// Where a die is in the machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Place {
    /// slotd's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) die: Option<u64>,
    /// Its PCI address.
    pub(crate) bdf: Bdf,
    /// The label of its riser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// The card it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) card: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.label, self.die) {
            (Some(label), Some(die)) => write!(f, "die {die} ({label}, {})", self.bdf),
            (None, Some(die)) => write!(f, "die {die} ({})", self.bdf),
            _ => write!(f, "GPU {}", self.bdf),
        }
    }
}

/// A way to one die.
pub(crate) trait Door {
    /// Waits for the die's turn. An end asked for meanwhile ends the waiting.
    fn acquire(&mut self, stop: &Stop) -> Result<Place, Failure>;

    /// Ends the turn; the die stays as it is, and out of the slot if there is one.
    fn release(&mut self) -> Result<(), Failure>;

    /// Waits for another turn of a die with a context on it. It is not to be given up: the context has to
    /// be taken down in the slot, so this comes back with a turn, or with a failure that no waiting heals.
    fn return_with_context(&mut self) -> Result<(), Failure>;

    /// Whether somebody waits for the slot.
    fn others_wait(&mut self) -> Result<bool, Failure>;

    /// Whether there is a slot to be in or out of.
    fn has_slot(&self) -> bool;
}

/// No slotd: a GPU that is always there.
pub(crate) struct AlwaysOpen(pub(crate) Bdf);

impl Door for AlwaysOpen {
    fn acquire(&mut self, _stop: &Stop) -> Result<Place, Failure> {
        Ok(Place { die: None, bdf: self.0, label: None, card: None })
    }

    fn release(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn return_with_context(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn others_wait(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    fn has_slot(&self) -> bool {
        false
    }
}
