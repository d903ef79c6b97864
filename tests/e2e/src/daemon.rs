//! The daemon in this process.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use slotd::{
    daemon::{Daemon, Setup},
    service::{End, Listener},
};
use vfio_park::sim::Simulator;

/// A daemon on a thread.
pub(crate) struct InProcess(Daemon);

impl InProcess {
    pub(crate) fn start(machine: &Simulator, socket: &Path) -> Result<Self> {
        let listener = Listener::bind(socket)?;
        let daemon = Daemon::start(Setup::simulated(machine, "simulated"), listener);
        Ok(Self(daemon.context("start slotd")?))
    }

    pub(crate) fn kill(self) -> Result<()> {
        let end = self.0.kill()?;
        ensure!(end == End::Killed, "killed, slotd ended {end:?}");
        Ok(())
    }

    pub(crate) fn stop(self) -> Result<()> {
        let end = self.0.stop()?;
        ensure!(end == End::Clean, "stopped, slotd ended {end:?}");
        Ok(())
    }
}
