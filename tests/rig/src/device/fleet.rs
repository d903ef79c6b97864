//! All the devices of a machine, each served on a thread of its own.

use std::{path::Path, thread};

use anyhow::{Context, Result};
use vfio_park::model::{DieKind, OtherRegisters};

use super::{Background, Device, DieDevice, Endpoint, serve};
use crate::log::Log;

/// Which devices there are.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// How many dies of a K80: `die0`, `die1`, ...
    pub dies: u16,
    /// A T4 beside them: `neighbour`.
    pub neighbour: bool,
    /// Bytes of each slot's background: `background0`, ...
    pub backgrounds: Vec<u64>,
    /// What BAR0 registers do that are not modelled.
    pub other_registers: OtherRegisters,
}

impl Fleet {
    fn devices(&self) -> Result<Vec<Box<dyn Device>>> {
        let mut devices: Vec<Box<dyn Device>> = Vec::new();
        for n in 0..self.dies {
            let kind = DieKind::gk210().with_other_registers(self.other_registers);
            devices.push(Box::new(DieDevice::new(format!("die{n}"), kind)?));
        }
        if self.neighbour {
            let kind = DieKind::tu104().with_other_registers(self.other_registers);
            devices.push(Box::new(DieDevice::new("neighbour".to_owned(), kind)?));
        }
        for (n, size) in self.backgrounds.iter().enumerate() {
            devices.push(Box::new(Background::new(format!("background{n}"), *size)));
        }
        Ok(devices)
    }

    /// Starts serving. When this returns, every socket is in `directory` and QEMU can connect; it
    /// ends with the process. Each device serves one connection.
    pub fn start(&self, directory: &Path, log: &Log) -> Result<()> {
        for device in self.devices().context("make the devices")? {
            let name = device.name().to_owned();
            let endpoint = Endpoint::bind(directory, device, log.clone())?;
            thread::Builder::new().name(name).spawn(move || {
                if let Err(error) = serve(endpoint) {
                    eprintln!("rig: {:#}", anyhow::Error::from(error));
                }
            })?;
        }
        Ok(())
    }
}
