//! What this machine is, as the kernel tells it. Only files the kernel answers from memory are
//! read: no config space, no BAR.

mod boot;
mod firmware;
mod functions;
mod kernels;

use serde::Serialize;
use vfio_park::{Bdf, PciId};

pub use self::{
    boot::{Running, efi_text, efi_variable},
    firmware::{Cpu, Iommu, SecureBoot},
    functions::PciFunction,
    kernels::{Driver, Kernel},
};
use crate::{
    error::{Error, Result},
    root::Root,
};

/// Which functions are dies.
#[derive(Clone, Debug)]
pub struct DieIds {
    /// Ids of dies.
    pub ids: Vec<PciId>,
    /// Functions that are no dies though they have such an id.
    pub keep: Vec<Bdf>,
}

impl Default for DieIds {
    fn default() -> Self {
        Self { ids: vec![PciId::GK210], keep: Vec::new() }
    }
}

/// A machine, read at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Every PCI function.
    pub functions: Vec<PciFunction>,
    /// Addresses of the dies.
    pub dies: Vec<Bdf>,
    /// Functions with a die's id that are normal GPUs.
    pub lookalikes: Vec<Bdf>,
    /// Vendor of the processor and its IOMMU.
    pub cpu: Cpu,
    /// The IOMMU.
    pub iommu: Iommu,
    /// Whether firmware checks signatures.
    pub secure_boot: SecureBoot,
    /// Installed kernels, the one to boot first.
    pub kernels: Vec<Kernel>,
    /// What runs now.
    pub running: Running,
    #[serde(skip)]
    ids: Vec<PciId>,
}

impl Machine {
    /// Reads the machine below `root`.
    pub fn read(root: &Root, wanted: &DieIds) -> Result<Self> {
        let functions = functions::read(root)?;
        let with_id = || functions.iter().filter(|f| wanted.ids.contains(&f.id));
        let normal = |f: &&PciFunction| wanted.keep.contains(&f.bdf) || f.drives_a_display();
        let running = Running::read(root)?;
        Ok(Self {
            dies: with_id().filter(|f| !normal(f)).map(|f| f.bdf).collect(),
            lookalikes: with_id().filter(normal).map(|f| f.bdf).collect(),
            cpu: Cpu::read(root),
            iommu: Iommu::read(root)?,
            secure_boot: SecureBoot::read(root),
            kernels: kernels::read(root, &running.release)?,
            running,
            functions,
            ids: wanted.ids.clone(),
        })
    }

    /// The ids that dies are known by.
    pub fn die_ids(&self) -> &[PciId] {
        &self.ids
    }

    /// Ends the command where there is no die.
    pub fn need_dies(&self) -> Result<()> {
        if self.dies.is_empty() && self.lookalikes.is_empty() {
            let ids: Vec<_> = self.ids.iter().map(PciId::to_string).collect();
            return Err(Error::NoDies { ids: ids.join(", ") });
        }
        Ok(())
    }

    /// The function at `bdf`.
    pub fn function(&self, bdf: Bdf) -> Option<&PciFunction> {
        self.functions.iter().find(|function| function.bdf == bdf)
    }

    /// The kernel that the machine is going to boot, as far as can be told.
    pub fn kernel(&self) -> Option<&Kernel> {
        self.kernels.first()
    }
}
