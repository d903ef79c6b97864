//! Handing a die from one driver to another: the one place that writes sysfs.

use std::{
    io,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use rustix::io::Errno;

use super::{
    Roots,
    holders::{Node, holders, read_minor},
    process::{Ended, Writer, run, write_once},
    roots::{failed, link_name, text},
    survey::unset,
    wait::Events,
};
use crate::{Bdf, DriverName, MachineError};

/// How often a bind is tried that says "busy".
const TRIES: u32 = 10;

/// One die on its way from one driver to another.
pub(super) struct Handover<'a> {
    pub(super) roots: &'a Roots,
    pub(super) writer: &'a Writer,
    pub(super) modprobe: &'a PathBuf,
    pub(super) die: Bdf,
}

impl Handover<'_> {
    /// The driver that has the die.
    pub(super) fn driver(&self) -> Result<Option<DriverName>, MachineError> {
        let path = self.attribute("driver");
        let name = link_name(&path).map_err(failed("read", &path))?;
        Ok(name.and_then(DriverName::new))
    }

    /// Gives an unbound die to `driver`. `driver_override` is as before afterwards, unless the step
    /// never ended: it then could not be written without hanging as well.
    pub(super) fn bind(&self, driver: &DriverName, patience: Duration) -> Result<(), MachineError> {
        let path = self.attribute("driver_override");
        let before = text(&path).map_err(failed("read", &path))?.filter(|name| !unset(name));
        let name = driver.as_str();
        if before.as_deref() != Some(name) {
            write_once(&path, name.as_bytes()).map_err(failed("write", &path))?;
        }
        let bound = self.bind_overridden(driver, patience);
        if matches!(bound, Err(MachineError::Deadline { .. })) || before.as_deref() == Some(name) {
            return bound;
        }
        // Nothing at all would leave it as it is: a newline clears it.
        let before = before.unwrap_or_else(|| "\n".to_owned());
        match (write_once(&path, before.as_bytes()).map_err(failed("put back", &path)), bound) {
            (Ok(()), bound) => bound,
            (Err(error), Ok(())) => Err(error),
            (Err(undo), Err(source)) => Err(MachineError::NotUndone {
                operation: "bind",
                die: self.die,
                undo: undo.to_string(),
                source: Box::new(source),
            }),
        }
    }

    fn bind_overridden(&self, driver: &DriverName, patience: Duration) -> Result<(), MachineError> {
        let deadline = Instant::now() + patience;
        let late = || MachineError::Deadline {
            operation: "bind",
            die: self.die,
            seconds: patience.as_secs(),
        };
        let events = Events::listen(self.roots);
        let folder = self.roots.sys.join("bus/pci/drivers").join(driver.as_str());
        if !folder.exists() {
            // The override is set, so that loading binds it.
            self.load(driver, deadline)?.then_some(()).ok_or_else(late)?;
        }
        let bound = || self.driver().is_ok_and(|now| now.as_ref() == Some(driver));
        let bind = folder.join("bind");
        let mut tries = 0;
        while !bound() {
            let written = self.writer.write(&bind, &self.die.to_string(), deadline);
            let error = match written.ok_or_else(late)? {
                Ok(()) => break,
                Err(error) => error,
            };
            tries += 1;
            let busy = matches!(Errno::from_io_error(&error), Some(Errno::BUSY | Errno::AGAIN));
            if !busy || tries == TRIES {
                return Err(self.not_taken(driver, &error));
            }
            events.next(deadline).then_some(()).ok_or_else(late)?;
        }
        events.until(deadline, bound).then_some(()).ok_or_else(late)
    }

    /// Loads a driver; false where that does not end in time.
    fn load(&self, driver: &DriverName, deadline: Instant) -> Result<bool, MachineError> {
        let mut modprobe = Command::new(self.modprobe);
        let ended = run(modprobe.arg(driver.as_str()), deadline);
        match ended.map_err(failed("run", self.modprobe))? {
            Ended::Not => Ok(false),
            Ended::With(status, _) if status.success() => Ok(true),
            Ended::With(status, said) => {
                let meaning = if said.contains("No such device") {
                    ": it found no device that it could drive, so it refused this one; `dmesg` \
                     says why"
                } else {
                    ""
                };
                let reason = format!("modprobe {driver} ended with {status}, {said}{meaning}");
                Err(MachineError::NotTaken { driver: driver.clone(), die: self.die, reason })
            }
        }
    }

    fn not_taken(&self, driver: &DriverName, error: &io::Error) -> MachineError {
        if !self.roots.function(self.die).exists() {
            return MachineError::Absent(self.die);
        }
        let meaning = match Errno::from_io_error(error) {
            Some(Errno::NODEV) => "its probe refused the die, `dmesg` says why",
            Some(Errno::INVAL) if *driver == DriverName::vfio_pci() => {
                "without an IOMMU vfio-pci takes no die: park on pci-stub"
            }
            Some(Errno::BUSY | Errno::AGAIN) => "it stayed busy",
            _ => "`dmesg` may say more",
        };
        let reason = format!("{error}: {meaning}");
        MachineError::NotTaken { driver: driver.clone(), die: self.die, reason }
    }

    /// Takes the die from `driver`, unless somebody uses it: the driver would wait for them, and
    /// nothing could end that.
    pub(super) fn unbind(
        &self,
        driver: &DriverName,
        patience: Duration,
    ) -> Result<(), MachineError> {
        let holders = holders(self.roots, &self.nodes(driver)?)?;
        if !holders.is_empty() {
            return Err(MachineError::InUse { die: self.die, holders });
        }
        let deadline = Instant::now() + patience;
        let late = || MachineError::Deadline {
            operation: "unbind",
            die: self.die,
            seconds: patience.as_secs(),
        };
        let events = Events::listen(self.roots);
        let free = || matches!(self.driver(), Ok(None));
        let path = self.roots.sys.join("bus/pci/drivers").join(driver.as_str()).join("unbind");
        match self.writer.write(&path, &self.die.to_string(), deadline).ok_or_else(late)? {
            Ok(()) => events.until(deadline, free).then_some(()).ok_or_else(late),
            Err(_) if free() => Ok(()),
            Err(error) => Err(failed("write", &path)(error)),
        }
    }

    /// The nodes through which a die is used.
    fn nodes(&self, driver: &DriverName) -> Result<Vec<Node>, MachineError> {
        if *driver == DriverName::nvidia() {
            return Ok(vec![Node::nvidia(self.roots, read_minor(self.roots, self.die)?)]);
        }
        let path = self.attribute("iommu_group");
        let group = link_name(&path).map_err(failed("read", &path))?;
        let vfio = |group: &String| {
            ["", "noiommu-"].map(|kind| self.roots.dev.join(format!("vfio/{kind}{group}")))
        };
        let paths = group.iter().flat_map(vfio);
        Ok(paths.map(|path| Node { path, device: None }).collect())
    }

    fn attribute(&self, name: &str) -> PathBuf {
        self.roots.function(self.die).join(name)
    }
}
