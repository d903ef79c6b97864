//! Carrying a plan out, and taking it back. Everything that this crate writes is written here.

mod commands;
mod disk;
mod execute;
mod record;
mod undo;

pub use self::{
    commands::{Commands, Ended, System},
    disk::{Disk, Faults, Point, no_faults},
    execute::{Outcome, Worker, recover},
    record::{Phase, Record, Recorded, Store, Stored},
    undo::{OnEdit, UndoPlan},
};
