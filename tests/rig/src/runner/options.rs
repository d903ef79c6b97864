//! What a run can be told.

use std::{fmt, path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

use super::Profile;

/// Kernels that are booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kernel {
    /// Debian 12's.
    #[value(name = "6.1")]
    V6_1,
    /// Debian 13's.
    #[value(name = "6.12")]
    V6_12,
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
        })
    }
}

/// Which module named nvidia the guest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Nvidia {
    /// The stand-in of this folder.
    Standin,
    /// NVIDIA's own, made by `nvidia.sh`.
    Real,
    /// None.
    None,
}

/// Boots a machine with dies in QEMU, runs a test in it, and judges what it did to the hardware.
#[derive(Clone, Debug, Parser)]
#[command(name = "rig", version)]
#[expect(clippy::struct_excessive_bools, reason = "a command line's flags")]
pub struct Options {
    /// Which machine.
    #[arg(long, value_enum, default_value_t = Profile::Win16)]
    pub profile: Profile,
    /// Which kernel.
    #[arg(long, value_enum, default_value_t = Kernel::V6_1)]
    pub kernel: Kernel,
    /// With an IOMMU, and dies parked on vfio-pci.
    #[arg(long, overrides_with = "no_iommu")]
    pub iommu: bool,
    /// Without an IOMMU, and dies parked on pci-stub (the default).
    #[arg(long)]
    pub no_iommu: bool,
    /// Parks on this driver, whatever fits.
    #[arg(long)]
    pub parker: Option<String>,
    /// Which nvidia module the guest has.
    #[arg(long, value_enum, default_value_t = Nvidia::Standin)]
    pub nvidia: Nvidia,
    /// Leaves the window module out.
    #[arg(long = "no-slotwin", action = clap::ArgAction::SetFalse)]
    pub slotwin: bool,
    /// Leaves the T4 out.
    #[arg(long = "no-neighbour", action = clap::ArgAction::SetFalse)]
    pub neighbour: bool,
    /// Ports can be hot-plugged; the kernel then fills the window with room for that.
    #[arg(long)]
    pub hotplug: bool,
    /// More for the kernel's command line.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub append: String,
    /// Processors.
    #[arg(long, default_value_t = 1)]
    pub smp: u8,
    /// MiB of memory.
    #[arg(long, default_value_t = 1024)]
    pub memory: u32,
    /// Seconds until the run is given up.
    #[arg(long, default_value = "180", value_parser = seconds)]
    pub timeout: Duration,
    /// Programs that the guest gets into its /bin, with the libraries they need.
    #[arg(long = "bin", value_name = "PATH")]
    pub programs: Vec<PathBuf>,
    /// Other kernel modules that the guest gets, by name.
    #[arg(long = "module", value_name = "NAME")]
    pub modules: Vec<String>,
    /// Environment for the test.
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub environment: Vec<String>,
    /// Keeps trace, logs and console of the run here.
    #[arg(long, value_name = "DIRECTORY")]
    pub keep: Option<PathBuf>,
    /// The judge is to find something: a run without a finding fails, and only then.
    #[arg(long)]
    pub expect_findings: bool,
    /// Says nothing but the result.
    #[arg(long, short)]
    pub quiet: bool,
    /// Where the rig's parts are; `.rig` at the root of the repository otherwise.
    #[arg(long, env = "SLOT_RIG_DIR", value_name = "DIRECTORY")]
    pub rig: Option<PathBuf>,
    /// The test (a program or script of this machine) and its arguments.
    #[arg(last = true, required = true)]
    pub test: Vec<String>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: u64 = text.parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    Ok(Duration::from_secs(number))
}

impl Options {
    /// The driver that dies are parked on.
    pub fn parker(&self) -> &str {
        match &self.parker {
            Some(parker) => parker,
            None if self.iommu => "vfio-pci",
            None => "pci-stub",
        }
    }
}
