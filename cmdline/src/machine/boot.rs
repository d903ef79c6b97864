//! What runs now, and what the loader left behind in EFI variables.

use serde::Serialize;

use crate::{error::Result, root::Root, tokens::Line};

/// The boot that is running.
#[derive(Clone, Debug, Serialize)]
pub struct Running {
    /// `/proc/cmdline`.
    pub line: Line,
    /// Kernel release; empty where there is no kernel to ask.
    pub release: String,
    /// Tells boots apart; empty where there is no kernel to ask.
    pub boot_id: String,
    /// Loaded modules, the first one loaded first.
    pub modules: Vec<String>,
}

impl Running {
    pub(super) fn read(root: &Root) -> Result<Self> {
        let modules = root.text("/proc/modules")?.unwrap_or_default();
        let mut modules: Vec<String> =
            modules.lines().filter_map(|l| Some(l.split_once(' ')?.0.to_owned())).collect();
        // The kernel lists the newest first.
        modules.reverse();
        Ok(Self {
            line: Line::new(root.word("/proc/cmdline")),
            release: root.word("/proc/sys/kernel/osrelease"),
            boot_id: root.word("/proc/sys/kernel/random/boot_id"),
            modules,
        })
    }
}

/// The data of an EFI variable, without the four bytes of attributes.
pub fn efi_variable(root: &Root, name: &str) -> Option<Vec<u8>> {
    let bytes = root.read(format!("/sys/firmware/efi/efivars/{name}")).ok()??;
    bytes.get(4..).map(<[u8]>::to_vec)
}

/// A text that systemd-boot or GRUB left in its own variables, e.g. `LoaderInfo`.
pub fn efi_text(root: &Root, name: &str) -> Option<String> {
    let bytes = efi_variable(root, &format!("{name}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"))?;
    let (units, _) = bytes.as_chunks::<2>();
    let text =
        String::from_utf16_lossy(&units.iter().map(|u| u16::from_le_bytes(*u)).collect::<Vec<_>>());
    Some(text.trim_end_matches('\0').to_owned())
}
