//! Where the fetched and built parts of the rig lie.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{Kernel, Nvidia, Options};

/// A part of the rig.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// QEMU.
    Qemu,
    /// Busybox, kmod and pciutils for the guest.
    Guest,
    /// A kernel's image.
    Image(Kernel),
    /// A kernel's tree: `release`, `lib/modules`.
    Kernel(Kernel),
    /// The window module.
    Slotwin(Kernel),
    /// The stand-in for nvidia.
    Standin(Kernel),
    /// NVIDIA's own module.
    Nvidia(Kernel),
}

impl Part {
    /// Where it is.
    pub(super) fn path(self, rig: &Path) -> PathBuf {
        match self {
            Self::Qemu => rig.join("qemu-system-x86_64"),
            Self::Guest => rig.join("guest"),
            Self::Image(kernel) => rig.join(format!("kernel/{kernel}/vmlinuz")),
            Self::Kernel(kernel) => rig.join(format!("kernel/{kernel}")),
            Self::Slotwin(kernel) => rig.join(format!("modules/{kernel}/slotwin.ko")),
            Self::Standin(kernel) => rig.join(format!("modules/{kernel}/nvidia.ko")),
            Self::Nvidia(kernel) => rig.join(format!("nvidia/{kernel}/nvidia.ko")),
        }
    }

    /// What makes it.
    fn recipe(self) -> String {
        match self {
            Self::Qemu => "fetch.sh qemu".to_owned(),
            Self::Guest => "fetch.sh guest".to_owned(),
            Self::Image(kernel) | Self::Kernel(kernel) => format!("fetch.sh {kernel}"),
            Self::Slotwin(kernel) | Self::Standin(kernel) => format!("modules.sh {kernel}"),
            Self::Nvidia(_) => "nvidia.sh".to_owned(),
        }
    }
}

/// The folder of the parts.
pub(super) fn rig(options: &Options) -> PathBuf {
    let root = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.rig");
    options.rig.clone().unwrap_or_else(root)
}

/// The modules of ours that the guest gets.
pub(super) fn own_modules(options: &Options) -> Vec<Part> {
    let nvidia = match options.nvidia {
        Nvidia::Standin => Some(Part::Standin(options.kernel)),
        Nvidia::Real => Some(Part::Nvidia(options.kernel)),
        Nvidia::None => None,
    };
    let slotwin = options.slotwin.then_some(Part::Slotwin(options.kernel));
    slotwin.into_iter().chain(nvidia).collect()
}

/// Ends with the name of the first part that is missing.
pub(super) fn check(options: &Options, rig: &Path) -> Result<()> {
    let parts =
        [Part::Qemu, Part::Guest, Part::Image(options.kernel), Part::Kernel(options.kernel)];
    for part in parts.into_iter().chain(own_modules(options)) {
        let path = part.path(rig);
        ensure!(path.exists(), "{} is missing: run tests/rig/{}", path.display(), part.recipe());
    }
    Ok(())
}

/// The kernel's release.
pub(super) fn release(kernel: Kernel, rig: &Path) -> Result<String> {
    let path = Part::Kernel(kernel).path(rig).join("release");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(text.trim().to_owned())
}
