//! PCI functions, from the attributes that the kernel answers from memory.

use std::path::PathBuf;

use serde::Serialize;
use vfio_park::{Bdf, PciId};

use crate::{error::Result, root::Root};

/// A PCI function.
#[derive(Clone, Debug, Serialize)]
pub struct PciFunction {
    /// Its address.
    pub bdf: Bdf,
    /// Vendor and device.
    pub id: PciId,
    /// Class code, 24 bits.
    pub class: u32,
    /// Bound driver.
    pub driver: Option<String>,
    /// The firmware showed its messages on it.
    pub boot_vga: bool,
    /// A monitor is plugged in.
    pub monitor: bool,
    /// IOMMU group.
    pub iommu_group: Option<String>,
}

impl PciFunction {
    /// Whether it is a GPU that somebody looks at: dies have no display at all.
    pub fn drives_a_display(&self) -> bool {
        self.boot_vga || self.monitor || self.class >> 8 == 0x0300
    }
}

pub(super) fn read(root: &Root) -> Result<Vec<PciFunction>> {
    let mut found = Vec::new();
    for name in root.list("/sys/bus/pci/devices")? {
        let Ok(bdf) = name.parse() else { continue };
        let folder = PathBuf::from("/sys/bus/pci/devices").join(&name);
        let hex = |file: &str| {
            let word = root.word(folder.join(file));
            u32::from_str_radix(word.trim_start_matches("0x"), 16).ok()
        };
        let small = |file: &str| hex(file).and_then(|value| u16::try_from(value).ok());
        let (Some(vendor), Some(device)) = (small("vendor"), small("device")) else { continue };
        found.push(PciFunction {
            bdf,
            id: PciId { vendor, device },
            class: hex("class").unwrap_or(0),
            driver: linked(root, &folder.join("driver")),
            boot_vga: root.word(folder.join("boot_vga")) == "1",
            monitor: monitor(root, &folder)?,
            iommu_group: linked(root, &folder.join("iommu_group")),
        });
    }
    Ok(found)
}

/// The last part of what a link names.
fn linked(root: &Root, link: &std::path::Path) -> Option<String> {
    if !root.is_dir(link) {
        return None;
    }
    let real = root.real(link).ok()?;
    Some(real.file_name()?.to_str()?.to_owned())
}

fn monitor(root: &Root, folder: &std::path::Path) -> Result<bool> {
    for card in root.list(folder.join("drm"))? {
        for connector in root.list(folder.join("drm").join(&card))? {
            let status = folder.join("drm").join(&card).join(connector).join("status");
            if root.word(status) == "connected" {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
