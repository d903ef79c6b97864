//! The way to a die: through slotd, which lets dies take turns, or straight to a GPU that needs no turn.

mod slotd;

use std::fmt;

use serde::Serialize;
use vfio_park::Bdf;

pub(crate) use self::slotd::{Slotd, all_dies};
use crate::{failure::Failure, stop::Stop};

/// Where a die is in the machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Place {
    /// slotd's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) die: Option<u16>,
    /// Its PCI address.
    pub(crate) bdf: Bdf,
    /// The label of its riser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// The card it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) card: Option<u16>,
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

    /// Ends the turn and has the slot shut, so that the die is out of it even if nobody comes after.
    fn leave(&mut self) -> Result<(), Failure>;

    /// Ends the turn.
    fn release(&mut self) -> Result<(), Failure>;

    /// Waits for another turn of a die with a context on it. The context has to be taken down in the
    /// slot, so this waits until there is a turn, whatever is in the way, and only an end that is insisted
    /// on ends the waiting.
    fn come_back(&mut self, stop: &Stop) -> Result<(), Failure>;

    /// Whether the turn is still this door's. One that slotd has lost, or ended, is not.
    fn holds(&mut self) -> bool;

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

    fn leave(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn release(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn come_back(&mut self, _stop: &Stop) -> Result<(), Failure> {
        Ok(())
    }

    fn holds(&mut self) -> bool {
        true
    }

    fn others_wait(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    fn has_slot(&self) -> bool {
        false
    }
}
