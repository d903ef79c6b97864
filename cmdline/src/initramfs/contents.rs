//! What matters of an initramfs.

use std::collections::BTreeMap;

use super::{
    archive::ArchiveEntry,
    unpack::{UnpackError, walk},
};
use crate::modprobe::{Directive, parse, plain};

/// Modules and small configuration files in an image.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    modules: Vec<String>,
    files: BTreeMap<String, String>,
}

/// Configuration kept for a look; everything else is only listed.
fn is_config(name: &str) -> bool {
    let folders = [
        "etc/modprobe.d/",
        "usr/lib/modprobe.d/",
        "lib/modprobe.d/",
        "run/modprobe.d/",
        "etc/cmdline.d/",
        "etc/modules-load.d/",
        "usr/lib/modules-load.d/",
        "conf/",
    ];
    name == "config"
        || name == "buildconfig"
        || folders.iter().any(|folder| name.starts_with(folder))
        || (name.contains("modules/") && name.ends_with("/modules.builtin"))
}

impl Contents {
    /// Reads an image.
    pub fn read(image: &[u8]) -> Result<Self, UnpackError> {
        let mut contents = Self::default();
        walk(image, &mut |entry| contents.note(entry))?;
        Ok(contents)
    }

    fn note(&mut self, entry: ArchiveEntry<'_>) {
        let name = entry.name.trim_start_matches("./").trim_start_matches('/');
        let file = name.rsplit('/').next().unwrap_or(name);
        if let Some((stem, _)) = file.split_once(".ko").filter(|_| name.contains("modules/")) {
            let stem = plain(stem);
            if !self.modules.contains(&stem) {
                self.modules.push(stem);
            }
        } else if is_config(name) && entry.mode & 0o170_000 == 0o100_000 {
            // A later archive's file takes the place of an earlier one's, as in the kernel.
            self.files.insert(name.to_owned(), String::from_utf8_lossy(entry.data).into_owned());
        }
    }

    /// Whether it brings a module.
    pub fn has_module(&self, module: &str) -> bool {
        let module = plain(module);
        self.modules.contains(&module)
    }

    /// A configuration file's text.
    pub fn file(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(String::as_str)
    }

    /// Texts of the configuration files in `folder`.
    pub fn files_in<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(name, _)| name.starts_with(folder))
            .map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Directives of its modprobe.d, with their file.
    pub fn modprobe(&self) -> Vec<(&str, Directive)> {
        let files = self.files.iter().filter(|(name, _)| {
            name.contains("modprobe.d/") && name.strip_suffix(".conf").is_some()
        });
        files
            .flat_map(|(name, text)| parse(text).into_iter().map(move |d| (name.as_str(), d)))
            .collect()
    }
}
