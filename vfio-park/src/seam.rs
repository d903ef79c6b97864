//! The seam: what slotd asks of a machine. Linux and the simulator answer behind the same trait.

use std::fmt;

use thiserror::Error;

use crate::{AddressRange, Bdf, DriverName, Gate, Reading, Register, Slot, SlotId, Survey};

/// A machine with dies and slots.
///
/// Every verb is one step that has either happened when it returns `Ok`, or has been undone when
/// it returns `Err` (the error says so where it could not be). Verbs block; callers that must not
/// block run them on a thread of their own. One verb that changes something runs at a time:
/// implementations serialise.
pub trait Machine: Send + Sync {
    /// Reads the machine. Writes nothing, wakes nothing.
    fn survey(&self) -> Result<Survey, MachineError>;

    /// Gives the whole card of `die` its place: BARs, 32-bit windows, gate registers. All dies of
    /// the card must be parked. A card that is in place already costs nothing.
    fn place(&self, die: Bdf, placement: Placement) -> Result<Placed, MachineError>;

    /// Makes `die` the one that answers in `slot`. Whoever was open there is shut first, the shut
    /// is read back, then the path to `die` is opened. A die that is open already costs nothing.
    fn open(&self, slot: SlotId, die: Bdf) -> Result<Opened, MachineError>;

    /// Shuts `slot`: afterwards reads of it are all-ones.
    fn shut(&self, slot: SlotId) -> Result<(), MachineError>;

    /// Binds `driver` to an unbound die, loading it where needed, and waits until it holds.
    /// `driver_override` is as before afterwards.
    fn bind(&self, die: Bdf, driver: &DriverName) -> Result<(), MachineError>;

    /// Takes `die` from its driver and waits until it is free. For nvidia this destroys contexts.
    fn unbind(&self, die: Bdf) -> Result<(), MachineError>;

    /// Reads one register of an awake die.
    fn peek(&self, die: Bdf, register: Register) -> Result<Reading, MachineError>;

    /// Keeps the adapter of a resident die initialised until the guard is dropped.
    fn hold(&self, die: Bdf) -> Result<Box<dyn Hold>, MachineError>;
}

/// A kept-open adapter; dropping it lets go.
pub trait Hold: Send + fmt::Debug {}

/// Where a card's dies are to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The slot that the die's BAR1 shall hold.
    pub slot: SlotId,
    /// What makes a die reachable.
    pub gate: Gate,
}

/// What [`Machine::place`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The card was in place already.
    Already,
    /// The card has its place now.
    Now {
        /// Config writes it took.
        config_writes: u32,
    },
}

/// What [`Machine::open`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Physical addresses at which the die answers.
    pub range: AddressRange,
    /// Config writes it took; 0 where the die was there already.
    pub config_writes: u32,
}

/// A configured list of slots, looked up by id.
pub fn slot_of(slots: &[Slot], id: SlotId) -> Option<Slot> {
    slots.get(usize::from(id.0)).copied()
}

/// Why a verb failed. `Display` never repeats the source; print the chain once, at the top.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MachineError {
    /// An operating system call failed.
    #[error("{operation} {path}")]
    Io {
        /// What was being done, e.g. `write`.
        operation: &'static str,
        /// To what.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// No such die.
    #[error("{0} is no die of this machine: `slotctl status` lists them")]
    UnknownDie(Bdf),
    /// No such slot.
    #[error("there is no {0}: `slotctl status` lists them")]
    UnknownSlot(SlotId),
    /// The die answers all-ones.
    #[error(
        "{0} answers all-ones: it is off the bus or without power; a power cycle may bring it back"
    )]
    Absent(Bdf),
    /// The window module is not there.
    #[error("the window module is not loaded (/dev/slotwin is missing): run `modprobe slotwin`")]
    NoWindowModule,
    /// A refusal with its reason in words.
    #[error("{operation} {die}: refused, {reason}")]
    Refused {
        /// The verb.
        operation: &'static str,
        /// The die.
        die: Bdf,
        /// Why, and what to do.
        reason: String,
    },
    /// The driver did not take the die.
    #[error("{driver} did not take {die}: {reason}")]
    NotTaken {
        /// The driver.
        driver: DriverName,
        /// The die.
        die: Bdf,
        /// What is known of the why.
        reason: String,
    },
    /// Somebody uses the die.
    #[error("{die} is in use by {}: end it first", .holders.join(", "))]
    InUse {
        /// The die.
        die: Bdf,
        /// `command (pid N)` each.
        holders: Vec<String>,
    },
    /// A step did not end in time. What it was doing may still be going on.
    #[error(
        "{operation} {die} did not end within {seconds} s: leave the die alone, a power cycle heals it"
    )]
    Deadline {
        /// The verb.
        operation: &'static str,
        /// The die.
        die: Bdf,
        /// How long it was given, in seconds.
        seconds: u64,
    },
    /// A failure, and then the undoing failed too.
    #[error(
        "{operation} {die} failed and could not be undone ({undo}): do not touch the die, a power cycle heals it"
    )]
    NotUndone {
        /// The verb.
        operation: &'static str,
        /// The die.
        die: Bdf,
        /// Why the undoing failed.
        undo: String,
        /// The first failure.
        #[source]
        source: Box<MachineError>,
    },
}
