//! Which parker fits this machine, why, and what the command line needs for it.

use std::fmt;

use serde::{Deserialize, Serialize};
use vfio_park::{DriverName, PciId};

use crate::{
    error::{Error, Result},
    machine::{Cpu, Driver, Iommu, Machine, PciFunction},
    tokens::{IdList, Rule, Want, keys},
};

/// A way to park.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parker {
    /// vfio-pci behind an IOMMU.
    VfioPci,
    /// vfio-pci without one: taints the kernel.
    VfioPciNoiommu,
    /// pci-stub: binds and does nothing else.
    PciStub,
}

impl Parker {
    /// Its driver.
    pub fn driver(self) -> DriverName {
        match self {
            Self::VfioPci | Self::VfioPciNoiommu => DriverName::vfio_pci(),
            Self::PciStub => DriverName::pci_stub(),
        }
    }
}

impl fmt::Display for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VfioPci => "vfio-pci",
            Self::VfioPciNoiommu => "vfio-pci (noiommu)",
            Self::PciStub => "pci-stub",
        })
    }
}

/// The parker that was chosen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Choice {
    /// It.
    pub parker: Parker,
    /// Why, in words.
    pub why: String,
    /// What the line has to say.
    pub wants: Vec<Want>,
    /// It is a module, so the initramfs has to bring it.
    pub early_load: bool,
}

/// What the operator asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// The tool chooses.
    Nothing,
    /// This driver; noiommu follows from the machine.
    VfioPci,
    /// This driver.
    PciStub,
}

/// Chooses, or says why nothing fits.
pub fn choose(machine: &Machine, asked: Asked) -> Result<Choice> {
    refuse_lookalikes(machine)?;
    let Some(kernel) = machine.kernel() else {
        return Err(Error::UnknownSetup {
            what: "no installed kernel was found under /lib/modules".into(),
            by_hand: Vec::new(),
        });
    };
    let has = |driver: Driver| driver != Driver::Absent;
    let (vfio, stub) = (has(kernel.vfio_pci), has(kernel.pci_stub));
    let noiommu = kernel.noiommu == Some(true);
    let release = &kernel.release;
    let (parker, why) = match (asked, machine.iommu.usable()) {
        (Asked::Nothing | Asked::VfioPci, true) if vfio => {
            let how = match machine.iommu {
                Iommu::Active => "the IOMMU is in use",
                _ => "firmware describes an IOMMU, which the line switches on",
            };
            (Parker::VfioPci, format!("{how} and {release} has vfio-pci"))
        }
        (Asked::Nothing, false) if stub => (
            Parker::PciStub,
            format!(
                "no IOMMU, where vfio-pci would not bind; pci-stub, which {release} has, needs none"
            ),
        ),
        (Asked::Nothing | Asked::VfioPci, false) if vfio && noiommu => (
            Parker::VfioPciNoiommu,
            format!(
                "no IOMMU, and {release} is built with CONFIG_VFIO_NOIOMMU (it taints the kernel)"
            ),
        ),
        (Asked::PciStub, _) if stub => (Parker::PciStub, "asked for by --parker".into()),
        (Asked::Nothing, true) if stub => {
            (Parker::PciStub, format!("{release} has pci-stub and no vfio-pci"))
        }
        (Asked::VfioPci, false) if vfio => {
            return Err(Error::refused(
                format!(
                    "vfio-pci binds nothing without an IOMMU, and {release} is not known to be built with CONFIG_VFIO_NOIOMMU"
                ),
                "Use --parker pci-stub, or switch VT-d / AMD-Vi on in the firmware set-up",
            ));
        }
        _ => {
            return Err(Error::refused(
                format!("{release} has no parker that would bind here"),
                "Install a kernel with vfio-pci or pci-stub (a distribution's generic kernel rather than its cloud kernel)",
            ));
        }
    };
    let driver = kernel.driver(parker.driver().as_str());
    let why = if asked == Asked::VfioPci { format!("asked for by --parker; {why}") } else { why };
    Ok(Choice { parker, why, wants: wants(machine, parker)?, early_load: driver == Driver::Module })
}

fn wants(machine: &Machine, parker: Parker) -> Result<Vec<Want>> {
    let ids = IdList::of(machine.die_ids());
    ids.fits()?;
    let mut wants = match parker {
        Parker::PciStub => vec![Want::new(keys::STUB_IDS, Rule::Ids(ids))],
        Parker::VfioPci | Parker::VfioPciNoiommu => {
            vec![Want::new(keys::VFIO_IDS, Rule::Ids(ids)), Want::equals(keys::NO_IDLE_D3, "1")]
        }
    };
    match parker {
        Parker::VfioPci => {
            if machine.cpu == Cpu::Intel {
                wants.push(Want::has(keys::INTEL_IOMMU, "on"));
            }
            wants.push(Want::has(keys::IOMMU, "pt"));
        }
        Parker::VfioPciNoiommu => wants.push(Want::equals(keys::NOIOMMU, "1")),
        Parker::PciStub => {}
    }
    Ok(wants)
}

/// A line can only name ids: a normal GPU with a die's id would be parked with them.
fn refuse_lookalikes(machine: &Machine) -> Result<()> {
    let Some(bdf) = machine.lookalikes.first() else { return Ok(()) };
    let id = machine.function(*bdf).map_or(PciId::GK210, |PciFunction { id, .. }| *id);
    let normal: Vec<_> = machine.lookalikes.iter().map(ToString::to_string).collect();
    let mut lines = vec![
        "Park by address instead, with a udev rule such as /etc/udev/rules.d/10-park-dies.rules, also put into the initramfs:".to_owned(),
    ];
    let dies = machine.dies.iter().map(|die| {
        format!("  ACTION==\"add\", SUBSYSTEM==\"pci\", KERNEL==\"{die}\", ATTR{{driver_override}}=\"vfio-pci\"")
    });
    lines.extend(dies);
    Err(Error::refused(
        format!(
            "{} is a normal GPU with the same id ({id}) as the dies, and the command line parks by id",
            normal.join(", ")
        ),
        lines.join("\n"),
    ))
}
