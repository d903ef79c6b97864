//! One die as behaviour: config space, BAR0 registers, video memory, compute engine.
//!
//! The model does no IO of its own and knows no clock: video memory is plugged in ([`Vram`]) and
//! every access says what time it is. The simulator and the die server of the QEMU rig both run
//! it, so that the two cannot drift apart.

mod config;
mod die;
mod engine;
mod job;
mod kind;
mod registers;
mod trace;
mod vram;

#[cfg(test)]
mod tests;

pub use self::{
    config::{CONFIG_SIZE, ConfigSpace, PortType, command, reg},
    die::Die,
    engine::{DOORBELL_OFFSET, DOORBELL_SIZE, EngineError, doorbell},
    job::{Job, JobOutcome, Work},
    kind::{BarLayout, DieKind, OtherRegisters},
    registers::{Bar0Write, Bar0WriteKind},
    trace::ConfigWrite,
    vram::{SparseVram, Vram},
};
