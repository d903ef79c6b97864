//! A machine that behaves: bridges and dies with config space, windows that route, drivers that
//! probe and refuse, memory that persists, engines that run on, and faults on request.
//!
//! | module | what it is |
//! |---|---|
//! | `hardware` | the tree, the way of an access, the judge |
//! | `gate` | which registers move when a slot changes hands |
//! | `firmware` | power-on |
//! | `kernel`, `drivers` | resources, drivers and their rules |
//! | `place`, `layout`, `window` | the window module's work |
//! | `faults` | what goes wrong |
//!
//! Nothing in here says anything about how fast a real machine is.

mod bridge;
mod clock;
mod drivers;
mod faults;
mod firmware;
mod gate;
mod hardware;
mod inner;
mod kernel;
mod layout;
mod map;
mod place;
mod power;
mod preset;
mod simulator;
mod surveying;
mod window;
mod writes;

#[cfg(test)]
mod tests;

pub use self::{
    clock::{Clock, ManualClock, RealClock},
    drivers::AdapterHold,
    faults::{Effect, Fault, FaultPlan, Faults, Verb},
    hardware::Violation,
    map::{BusError, DieMap},
    preset::{Costs, Iommu, ParsePresetError, Preset, Room},
    simulator::Simulator,
};
pub use crate::model::ConfigWrite;
