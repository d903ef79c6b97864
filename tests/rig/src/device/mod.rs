//! What QEMU's slots hold. QEMU speaks vfio-user to us; behind that is a [`Device`].

mod background;
mod die;
mod fleet;
mod memory;
mod server;

use std::{io, ops::Range, os::fd::BorrowedFd};

pub use self::{
    background::{Background, MARKER_OFFSET, MARKER_SIZE},
    die::DieDevice,
    fleet::Fleet,
    memory::MemfdVram,
    server::{Endpoint, serve},
};
use crate::log::Log;

/// A BAR as QEMU is told of it.
#[derive(Debug)]
pub struct BarRegion<'a> {
    /// 0 to 5.
    pub index: u8,
    /// Bytes.
    pub size: u64,
    /// Memory that the guest may touch without us seeing it, and which parts of it.
    pub direct: Option<(BorrowedFd<'a>, Vec<Range<u64>>)>,
}

/// A PCI function.
pub trait Device: Send {
    /// Its name, in QEMU and in the log.
    fn name(&self) -> &str;
    /// Its BARs.
    fn bars(&self) -> Vec<BarRegion<'_>>;
    /// Bytes of config space.
    fn config_size(&self) -> u64;
    /// Reads config space.
    fn config_read(&mut self, offset: u16, data: &mut [u8]);
    /// Writes config space.
    fn config_write(&mut self, offset: u16, data: &[u8], log: &Log) -> io::Result<()>;
    /// Reads a BAR.
    fn bar_read(&mut self, bar: u8, offset: u64, data: &mut [u8], log: &Log) -> io::Result<()>;
    /// Writes a BAR.
    fn bar_write(&mut self, bar: u8, offset: u64, data: &[u8], log: &Log) -> io::Result<()>;
    /// A reset of the bus above.
    fn reset(&mut self, log: &Log) -> io::Result<()>;
}
