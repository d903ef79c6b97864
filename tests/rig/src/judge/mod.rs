//! The judge: replays what was done to the hardware and says where it broke the rules.
//!
//! | module | what it is |
//! |---|---|
//! | `trace` | QEMU's trace of config writes, read |
//! | `replay` | bridges and BARs as the writes left them |
//! | `phases` | writes and events, cut at the markers |
//! | `rules` | what is forbidden when |
//! | `verdict` | what was found, and what phases cost |
//!
//! Rules that always hold once the first marker was set: never two open paths to a slot, never two
//! functions of one bus that claim it (so a window is shut before the next opens), the neighbour
//! keeps its windows, BARs and decode, no die is reset, no BAR0 register is written and no slot is
//! touched while no die is in it, unless the phase says so. Quiet and warm phases forbid more.

mod phases;
mod replay;
mod rules;
mod trace;
mod verdict;

#[cfg(test)]
mod tests;

use std::{fs, io, path::Path};

use thiserror::Error;

pub use self::{
    trace::{TraceError, parse_trace},
    verdict::{Cost, Finding, Rule, Verdict},
};
use crate::{
    log::{self, Event},
    topology::Topology,
};
use vfio_park::model::ConfigWrite;

/// All that a run left behind.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Which device sat where.
    pub topology: Topology,
    /// Every config write since power-on.
    pub writes: Vec<ConfigWrite>,
    /// What the devices saw.
    pub events: Vec<Event>,
}

/// Why evidence could not be read.
#[derive(Debug, Error)]
pub enum EvidenceError {
    /// A file could not be read.
    #[error("read {path}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The trace makes no sense.
    #[error("read the trace {path}")]
    Trace {
        /// Which.
        path: String,
        /// Where.
        #[source]
        source: TraceError,
    },
}

impl Evidence {
    /// Reads the trace and the devices' log of a run.
    pub fn read(topology: Topology, trace: &Path, devices: &Path) -> Result<Self, EvidenceError> {
        let name = |path: &Path| path.display().to_string();
        let text = fs::read_to_string(trace)
            .map_err(|source| EvidenceError::Read { path: name(trace), source })?;
        let writes = parse_trace(&text)
            .map_err(|source| EvidenceError::Trace { path: name(trace), source })?;
        let events = log::read(devices)
            .map_err(|source| EvidenceError::Read { path: name(devices), source })?;
        Ok(Self { topology, writes, events })
    }

    /// Judges it.
    pub fn judge(&self) -> Verdict {
        rules::judge(self)
    }
}
