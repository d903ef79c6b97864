//! What the scenario needs of a world: a machine with dies, a daemon on it, and a processor that
//! can read and write physical addresses.

use std::path::Path;

use anyhow::Result;
use slot_rig::phase::Phase;
use vfio_park::{Bdf, Slot, Survey};

/// A machine under test. The simulator and the guest of the QEMU rig implement it.
pub trait World {
    /// The slots the daemon is started with.
    fn slots(&self) -> Vec<Slot>;

    /// Socket of the daemon.
    fn socket(&self) -> &Path;

    /// Loads what the daemon needs and starts it; returns once it answers.
    fn start(&mut self) -> Result<()>;

    /// Ends the daemon without a word to it, as SIGKILL does.
    fn kill(&mut self) -> Result<()>;

    /// Ends the daemon the clean way and returns once it is gone.
    fn stop(&mut self) -> Result<()>;

    /// Reads the machine behind the daemon's back.
    fn survey(&self) -> Result<Survey>;

    /// Reads 32 bits at a physical address.
    fn read(&self, address: u64) -> Result<u32>;

    /// Writes 32 bits at a physical address.
    fn write(&self, address: u64, value: u32) -> Result<()>;

    /// Maps BAR1 of a die through the window device.
    fn map(&self, die: Bdf) -> Result<Box<dyn Mapping>>;

    /// Starts a program that maps the die, which must be in the slot, and has touched it once.
    fn start_toucher(&self, die: Bdf) -> Result<Box<dyn Toucher>>;

    /// Looks for new PCI devices everywhere, as `echo 1 > /sys/bus/pci/rescan` does.
    fn rescan(&self) -> Result<()>;

    /// Tells the judge that a phase begins.
    fn phase(&self, phase: &Phase) -> Result<()>;

    /// The driver's own word on a die it has: the text of its information file.
    fn information(&self, die: Bdf) -> Result<String>;

    /// Bridges above resident dies that sleep just now.
    fn sleeping_bridges(&self) -> Result<Vec<Bdf>>;

    /// Anything in the kernel's log that no run should leave there.
    fn complaints(&self) -> Result<Vec<String>>;
}

/// A mapping that can be revoked.
pub trait Mapping {
    /// Reads 32 bits at an offset in BAR1; `None` where the access would end the program (SIGBUS).
    fn read(&self, offset: u64) -> Result<Option<u32>>;

    /// Writes 32 bits; `None` where the access would end the program (SIGBUS).
    fn write(&self, offset: u64, value: u32) -> Result<Option<()>>;
}

/// A program with a mapping of its own.
pub trait Toucher {
    /// Has the program touch its mapping once more and waits for its end; whether that was SIGBUS.
    fn ends_with_sigbus(self: Box<Self>) -> Result<bool>;
}
