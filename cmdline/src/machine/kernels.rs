//! Installed kernels: how they were built and what they have.

use std::{cmp::Ordering, io::Read, path::PathBuf};

use serde::Serialize;

use crate::{error::Result, modprobe::plain, root::Root};

/// How a kernel has a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// Part of the kernel image: the command line alone works.
    Builtin,
    /// A module: has to be loaded early.
    Module,
    /// Not there.
    Absent,
}

/// One installed kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Kernel {
    /// Its release, e.g. `6.1.0-28-amd64`.
    pub release: String,
    /// Its image.
    pub image: Option<PathBuf>,
    /// Has vfio-pci.
    pub vfio_pci: Driver,
    /// Has pci-stub.
    pub pci_stub: Driver,
    /// Can do VFIO without an IOMMU; `None` where its configuration is not to be found.
    pub noiommu: Option<bool>,
}

impl Kernel {
    /// How it has `parker`.
    pub fn driver(&self, parker: &str) -> Driver {
        if plain(parker) == "vfio_pci" { self.vfio_pci } else { self.pci_stub }
    }
}

/// Where modules of a kernel may lie.
const MODULES: [&str; 2] = ["/usr/lib/modules", "/lib/modules"];

pub(super) fn read(root: &Root, running: &str) -> Result<Vec<Kernel>> {
    let mut releases = Vec::new();
    for folder in MODULES {
        for name in root.list(folder)? {
            let known = ["modules.dep", "modules.builtin"];
            let real = known.iter().any(|f| root.is_file(format!("{folder}/{name}/{f}")));
            if real && !releases.contains(&name) {
                releases.push(name);
            }
        }
    }
    // The newest first, and before all the running one: it is known to boot here.
    releases.sort_by(|a, b| (b == running).cmp(&(a == running)).then_with(|| by_version(b, a)));
    releases.into_iter().map(|release| one(root, release, running)).collect()
}

fn one(root: &Root, release: String, running: &str) -> Result<Kernel> {
    let config = config(root, &release, running)?;
    let images = [
        format!("/boot/vmlinuz-{release}"),
        format!("/boot/vmlinuz-{}", root.word(format!("/usr/lib/modules/{release}/pkgbase"))),
        format!("/usr/lib/modules/{release}/vmlinuz"),
        format!("/lib/modules/{release}/vmlinuz"),
    ];
    let setting = |name: &str| {
        let config = config.as_deref()?;
        let prefix = format!("{name}=");
        Some(config.lines().find_map(|line| line.strip_prefix(prefix.as_str())).unwrap_or("n"))
    };
    let driver = |module: &str, name: &str| -> Result<Driver> {
        Ok(match setting(name) {
            Some("y") => Driver::Builtin,
            Some("n") => Driver::Absent,
            _ => listed(root, &release, module)?,
        })
    };
    Ok(Kernel {
        image: images.into_iter().map(PathBuf::from).find(|path| root.is_file(path)),
        vfio_pci: driver("vfio_pci", "CONFIG_VFIO_PCI")?,
        pci_stub: driver("pci_stub", "CONFIG_PCI_STUB")?,
        noiommu: setting("CONFIG_VFIO_NOIOMMU").map(|value| value == "y"),
        release,
    })
}

/// Whether the module lists name it: a config may say `m` where the package was split.
fn listed(root: &Root, release: &str, module: &str) -> Result<Driver> {
    for folder in MODULES {
        let has = |list: &str| -> Result<bool> {
            let text = root.text(format!("{folder}/{release}/{list}"))?.unwrap_or_default();
            Ok(text.lines().any(|line| {
                let path = line.split(':').next().unwrap_or("");
                let file = path.rsplit('/').next().unwrap_or("");
                file.split_once(".ko").is_some_and(|(stem, _)| plain(stem) == module)
            }))
        };
        if has("modules.builtin")? {
            return Ok(Driver::Builtin);
        }
        if has("modules.dep")? {
            return Ok(Driver::Module);
        }
    }
    Ok(Driver::Absent)
}

fn config(root: &Root, release: &str, running: &str) -> Result<Option<String>> {
    for path in [
        format!("/boot/config-{release}"),
        format!("/usr/lib/modules/{release}/config"),
        format!("/lib/modules/{release}/config"),
    ] {
        if let Some(text) = root.text(path)? {
            return Ok(Some(text));
        }
    }
    if release == running
        && let Some(packed) = root.read("/proc/config.gz")?
    {
        let mut text = String::new();
        if flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).is_ok() {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Numbers by value, everything else by text.
fn by_version(a: &str, b: &str) -> Ordering {
    let pieces = |text: &str| {
        let mut pieces: Vec<(u64, String)> = Vec::new();
        for run in text.split(|c: char| !c.is_ascii_alphanumeric()) {
            let digits = run.find(|c: char| !c.is_ascii_digit()).unwrap_or(run.len());
            pieces.push((run[..digits].parse().unwrap_or(0), run[digits..].to_owned()));
        }
        pieces
    };
    pieces(a).cmp(&pieces(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(by_version("6.1.0-9-amd64", "6.1.0-28-amd64"), Ordering::Less);
        assert_eq!(by_version("6.12.1", "6.9.12"), Ordering::Greater);
    }
}
