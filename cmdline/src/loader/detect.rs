//! Which boot loader boots this machine, from what is there. Anything in doubt is unknown.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Grub, Loader, SystemdBoot, UkiWriter, Unified, Writer, bls_files};
use crate::{
    error::{Error, Result},
    grub::Features,
    machine::efi_text,
    root::Root,
    shellvars::ShellVars,
};

/// A kind of boot loader, as on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoaderKind {
    /// GRUB.
    Grub,
    /// systemd-boot.
    SystemdBoot,
    /// Unified kernel images.
    Uki,
}

/// Where an EFI system partition is mounted.
const ESPS: [&str; 3] = ["/efi", "/boot/efi", "/boot"];

/// Finds the loader; `asked` settles what is in doubt.
pub fn detect(root: &Root, asked: Option<LoaderKind>) -> Result<Loader> {
    let found: Vec<Loader> =
        [grub(root)?, unified(root)?, systemd_boot(root)?].into_iter().flatten().collect();
    let kind = |loader: &Loader| match loader {
        Loader::Grub(_) => LoaderKind::Grub,
        Loader::SystemdBoot(_) => LoaderKind::SystemdBoot,
        Loader::Unified(_) => LoaderKind::Uki,
    };
    let unknown = |what: String| Error::UnknownSetup { what, by_hand: Vec::new() };
    if let Some(asked) = asked {
        let wanted = found.into_iter().find(|loader| kind(loader) == asked);
        return wanted
            .ok_or_else(|| unknown("the boot loader named by --loader was not found here".into()));
    }
    // What booted this machine says so itself.
    let booted = efi_text(root, "LoaderInfo").unwrap_or_default();
    let said = |loader: &Loader| match loader {
        Loader::Grub(_) => booted.starts_with("GRUB"),
        _ => booted.starts_with("systemd-boot"),
    };
    match found.as_slice() {
        [] => Err(unknown("no boot loader that slot-cmdline knows was found".into())),
        [only] => Ok(only.clone()),
        many => {
            let mut booted = many.iter().filter(|loader| said(loader));
            if let (Some(one), None) = (booted.next(), booted.next()) {
                return Ok(one.clone());
            }
            let names: Vec<_> = many.iter().map(Loader::name).collect();
            Err(unknown(format!(
                "more than one boot loader is here ({}): name the one that boots with --loader",
                names.join(", ")
            )))
        }
    }
}

fn grub(root: &Root) -> Result<Option<Loader>> {
    for folder in ["/boot/grub", "/boot/grub2"] {
        let cfg = root.real(Path::new(folder).join("grub.cfg"))?;
        let Some(text) = root.text(&cfg)?.filter(|text| !text.trim().is_empty()) else { continue };
        let Some(program) = root.program(&["grub-mkconfig", "grub2-mkconfig"]) else { continue };
        let script = root.text(&program)?.unwrap_or_default();
        let update = root.program(&["update-grub"]).is_some();
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or("grub-mkconfig");
        let mkconfig = if update {
            vec!["update-grub".to_owned()]
        } else {
            vec![name.to_owned(), "-o".into(), cfg.display().to_string()]
        };
        let entries = if Features::read(&text).blscfg {
            bls_files::find(root, Path::new("/boot"))?
        } else {
            Vec::new()
        };
        return Ok(Some(Loader::Grub(Grub {
            env: root.real(Path::new(folder).join("grubenv"))?,
            cfg,
            mkconfig,
            dropins: script.contains("default/grub.d"),
            entries,
        })));
    }
    Ok(None)
}

fn systemd_boot(root: &Root) -> Result<Option<Loader>> {
    let Some(esp) = esp_with(root, "EFI/systemd") else { return Ok(None) };
    for boot in [PathBuf::from("/boot"), esp.clone()] {
        let entries = bls_files::find(root, &boot)?;
        if entries.is_empty() {
            continue;
        }
        let token = kernel_install_token(root);
        let by_token = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            !token.is_empty() && name.starts_with(&format!("{token}-"))
        };
        let writer = if root.is_file("/etc/kernelstub/configuration")
            && root.program(&["kernelstub"]).is_some()
        {
            Writer::Kernelstub
        } else if root.program(&["kernel-install"]).is_some() && entries.iter().any(by_token) {
            Writer::KernelInstall
        } else {
            Writer::Hand
        };
        let entries = if writer == Writer::KernelInstall {
            entries.into_iter().filter(by_token).collect()
        } else {
            entries
        };
        return Ok(Some(Loader::SystemdBoot(SystemdBoot { boot, esp, entries, writer })));
    }
    Ok(None)
}

fn unified(root: &Root) -> Result<Option<Loader>> {
    let Some(esp) = esp_with(root, "EFI/Linux") else { return Ok(None) };
    let images = root.files(esp.join("EFI/Linux"), ".efi")?;
    let images: Vec<_> = images.into_iter().filter(|p| !p.ends_with(super::uki::TRIAL)).collect();
    if images.is_empty() {
        return Ok(None);
    }
    let mut install = ShellVars::default();
    for path in ["/usr/lib/kernel/install.conf", "/etc/kernel/install.conf"] {
        install.read(&root.text(path)?.unwrap_or_default());
    }
    let presets = root.files("/etc/mkinitcpio.d", ".preset")?;
    let by_preset = presets.iter().any(|path| {
        let text = root.text(path).ok().flatten().unwrap_or_default();
        text.lines().any(|line| !line.trim_start().starts_with('#') && line.contains("_uki="))
    });
    let writer = if by_preset {
        UkiWriter::Mkinitcpio
    } else if install.get("layout") == "uki" && root.program(&["kernel-install"]).is_some() {
        UkiWriter::KernelInstall
    } else {
        return Ok(None);
    };
    Ok(Some(Loader::Unified(Unified { esp, images, writer })))
}

fn esp_with(root: &Root, folder: &str) -> Option<PathBuf> {
    let esps = ESPS.iter().map(PathBuf::from);
    esps.into_iter().find(|esp| root.is_dir(esp.join(folder)))
}

/// The name that kernel-install's entries begin with.
pub(super) fn kernel_install_token(root: &Root) -> String {
    let token = root.word("/etc/kernel/entry-token");
    if token.is_empty() { root.word("/etc/machine-id") } else { token }
}
