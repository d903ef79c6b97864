//! Kernel command lines: read as the kernel reads them, edited without touching the rest.

mod ids;
mod line;
mod want;

pub use self::{
    ids::{IdList, IdsTooLong},
    line::{Line, Word},
    want::{Rule, Want},
};

/// Keys that this tool writes or looks for. `-` and `_` are the same to the kernel.
pub mod keys {
    /// Ids that vfio-pci takes.
    pub const VFIO_IDS: &str = "vfio-pci.ids";
    /// Ids that pci-stub takes.
    pub const STUB_IDS: &str = "pci-stub.ids";
    /// Keeps parked dies out of D3hot, where they read as dead.
    pub const NO_IDLE_D3: &str = "vfio-pci.disable_idle_d3";
    /// Lets vfio-pci probe without an IOMMU.
    pub const NOIOMMU: &str = "vfio.enable_unsafe_noiommu_mode";
    /// Switches Intel's IOMMU on.
    pub const INTEL_IOMMU: &str = "intel_iommu";
    /// Mode of the IOMMU for the host's own devices.
    pub const IOMMU: &str = "iommu";
    /// Marks a trial boot; no driver listens to it.
    pub const TRIAL: &str = "slot_cmdline.trial";
}
