//! Boot loaders: which one boots this machine, what its line is made of, and how that is changed.

mod bls_files;
mod detect;
mod grub_defaults;
mod kernel_install;
mod kernelstub;
pub mod uki;

use std::path::PathBuf;

use serde::Serialize;

pub(crate) use self::bls_files::{expand as bls_expand, modprobe_fallback};
pub use self::{
    detect::{LoaderKind, detect},
    grub_defaults::GrubLines,
};
use crate::{
    error::Result,
    machine::Machine,
    plan::{Output, Steps},
    root::Root,
    tokens::{Line, Want},
};

/// Where GRUB's files are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grub {
    /// `grub.cfg`.
    pub cfg: PathBuf,
    /// The environment block.
    pub env: PathBuf,
    /// The program that writes `grub.cfg`, with its arguments.
    pub mkconfig: Vec<String>,
    /// Whether it reads `/etc/default/grub.d`.
    pub dropins: bool,
    /// BLS entries, where the menu is made of them.
    pub entries: Vec<PathBuf>,
}

/// Who writes systemd-boot's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// kernel-install, from `/etc/kernel/cmdline`.
    KernelInstall,
    /// kernelstub, from its configuration (`Pop!_OS`).
    Kernelstub,
    /// Somebody's editor.
    Hand,
}

/// Where systemd-boot's files are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SystemdBoot {
    /// The partition's mount point: paths in entries start here.
    pub boot: PathBuf,
    /// The EFI system partition's mount point.
    pub esp: PathBuf,
    /// Entries.
    pub entries: Vec<PathBuf>,
    /// Who writes them.
    pub writer: Writer,
}

/// How unified images are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UkiWriter {
    /// kernel-install with `layout=uki`.
    KernelInstall,
    /// mkinitcpio presets with `*_uki`.
    Mkinitcpio,
}

/// Unified kernel images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unified {
    /// The EFI system partition's mount point.
    pub esp: PathBuf,
    /// The images.
    pub images: Vec<PathBuf>,
    /// Who writes them.
    pub writer: UkiWriter,
}

/// The boot loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loader {
    /// GRUB, with or without BLS entries.
    Grub(Grub),
    /// systemd-boot with type 1 entries.
    SystemdBoot(SystemdBoot),
    /// Unified images, whatever starts them.
    Unified(Unified),
}

impl Loader {
    /// In a word or two.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Grub(grub) if grub.entries.is_empty() => "GRUB",
            Self::Grub(_) => "GRUB with BLS entries",
            Self::SystemdBoot(boot) => match boot.writer {
                Writer::KernelInstall => "systemd-boot (kernel-install)",
                Writer::Kernelstub => "systemd-boot (kernelstub)",
                Writer::Hand => "systemd-boot (entries by hand)",
            },
            Self::Unified(_) => "unified kernel images",
        }
    }

    /// The lines that the machine will boot with, as they are installed, with where from.
    pub fn installed_lines(&self, root: &Root) -> Result<Vec<(PathBuf, Line)>> {
        match self {
            Self::Grub(grub) if grub.entries.is_empty() => {
                let cfg = root.text(&grub.cfg)?.unwrap_or_default();
                let entries = crate::grub::entries(&cfg).into_iter();
                Ok(entries.filter_map(|e| Some((grub.cfg.clone(), e.linux()?.1))).collect())
            }
            Self::Grub(Grub { entries, env, .. }) => bls_files::lines(root, entries, Some(env)),
            Self::SystemdBoot(boot) => bls_files::lines(root, &boot.entries, None),
            Self::Unified(unified) => uki::lines(root, &unified.images),
        }
    }

    /// What other tools write for this loader when a kernel or an initramfs changes.
    pub fn outputs(&self, root: &Root) -> Vec<Output> {
        match self {
            Self::Grub(_) => Vec::new(),
            Self::SystemdBoot(boot) => match boot.writer {
                Writer::Hand => Vec::new(),
                Writer::KernelInstall => vec![
                    Output::Tree(boot.boot.join("loader/entries")),
                    Output::Tree(boot.boot.join(detect::kernel_install_token(root))),
                ],
                Writer::Kernelstub => {
                    vec![Output::Tree(boot.boot.join("loader")), Output::Tree(boot.esp.join("EFI"))]
                }
            },
            Self::Unified(unified) => vec![Output::Tree(unified.esp.join("EFI/Linux"))],
        }
    }

    /// Adds the steps that put `wants` into the line of every kernel.
    pub fn configure(
        &self,
        steps: &mut Steps<'_>,
        root: &Root,
        machine: &Machine,
        wants: &[Want],
        notes: &mut Vec<String>,
    ) -> Result<()> {
        match self {
            Self::Grub(grub) => {
                if !grub.entries.is_empty() {
                    bls_files::configure(steps, root, &grub.entries, Some(&grub.env), wants)?;
                    kernel_install::configure_line(steps, root, machine, self, wants)?;
                }
                grub_defaults::configure(steps, root, grub, wants, notes)
            }
            Self::SystemdBoot(boot) => match boot.writer {
                Writer::Hand => bls_files::configure(steps, root, &boot.entries, None, wants),
                Writer::Kernelstub => kernelstub::configure(steps, root, boot, wants),
                Writer::KernelInstall => {
                    kernel_install::configure_line(steps, root, machine, self, wants)?;
                    kernel_install::rewrite_entries(steps, root, machine, boot, wants)
                }
            },
            Self::Unified(_) => kernel_install::configure_line(steps, root, machine, self, wants),
        }
    }
}
