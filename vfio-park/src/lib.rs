//! Topology, slot planner, handover, and the machine behind a seam.
//!
//! | module | what it is |
//! |---|---|
//! | [`survey`] | what a machine looks like, as data |
//! | [`planner`] | what can be done with it, as data |
//! | [`seam`] | the verbs that change it, as a trait |
//! | [`model`] | one die as behaviour |
//! | [`linux`] | this machine, behind that trait |
//! | [`sim`] | a machine that behaves, behind that trait |

mod address;
mod bdf;
pub mod linux;
pub mod model;
pub mod planner;
mod reading;
pub mod seam;
pub mod sim;
pub mod survey;

pub use self::{
    address::{AddressRange, GIB, MIB, ParseSlotError, Slot, SlotId},
    bdf::{Bdf, ParseIdError, PciId},
    planner::Gate,
    reading::{BOOT0_GK210, Reading, Register},
    seam::{Machine, MachineError},
    survey::{
        Bar, Bridge, Card, CardId, ConfigSpace, Die, DieId, DieState, DriverName, Function,
        IomemEntry, PowerState, Survey, Window,
    },
};
