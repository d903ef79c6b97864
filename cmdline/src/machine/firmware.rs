//! Processor, IOMMU and Secure Boot.

use serde::Serialize;

use super::boot::efi_variable;
use crate::{error::Result, root::Root};

/// Whose kind of IOMMU it has, or would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cpu {
    /// Needs `intel_iommu=on`.
    Intel,
    /// On by itself where firmware has it.
    Amd,
    /// Neither.
    Other,
}

impl Cpu {
    /// Firmware's table says it; the processor where there is none.
    pub(super) fn read(root: &Root) -> Self {
        if root.is_file("/sys/firmware/acpi/tables/DMAR") {
            return Self::Intel;
        }
        if root.is_file("/sys/firmware/acpi/tables/IVRS") {
            return Self::Amd;
        }
        let info = root.text("/proc/cpuinfo").ok().flatten().unwrap_or_default();
        let line = info.lines().find(|line| line.starts_with("vendor_id")).unwrap_or("");
        match line.rsplit(':').next().map(str::trim) {
            Some("GenuineIntel") => Self::Intel,
            Some("AuthenticAMD" | "HygonGenuine") => Self::Amd,
            _ => Self::Other,
        }
    }
}

/// What there is of an IOMMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Iommu {
    /// The kernel uses one.
    Active,
    /// Firmware describes one (DMAR or IVRS table) and the kernel does not use it yet.
    Dormant,
    /// None.
    None,
}

impl Iommu {
    pub(super) fn read(root: &Root) -> Result<Self> {
        let table = |name: &str| root.is_file(format!("/sys/firmware/acpi/tables/{name}"));
        Ok(if !root.list("/sys/class/iommu")?.is_empty() {
            Self::Active
        } else if table("DMAR") || table("IVRS") {
            Self::Dormant
        } else {
            Self::None
        })
    }

    /// Whether there will be one with the right line.
    pub fn usable(self) -> bool {
        self != Self::None
    }
}

/// Whether firmware checks what it boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SecureBoot {
    /// No EFI, or it does not say.
    Absent,
    /// Off.
    Off,
    /// On: modules and unified images must be signed.
    On,
}

impl SecureBoot {
    pub(super) fn read(root: &Root) -> Self {
        match efi_variable(root, "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").as_deref() {
            Some([1, ..]) => Self::On,
            Some(_) => Self::Off,
            None => Self::Absent,
        }
    }
}
