//! What has to stand where a command wrote. Read from the files themselves.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    bls::Entry,
    error::Result,
    grub,
    initramfs::{Contents, Order, Verdict, judge},
    loader::uki,
    machine::efi_text,
    modprobe,
    root::Root,
    tokens::{Line, Want},
};

/// One thing to find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// Every entry with a kernel in this `grub.cfg` has a line that says so.
    GrubCfg {
        /// The file.
        path: PathBuf,
        /// What its lines say.
        wants: Vec<Want>,
    },
    /// This loader entry has a line that says so.
    Entry {
        /// The file.
        path: PathBuf,
        /// What its line says.
        wants: Vec<Want>,
    },
    /// This unified image has a line that says so, and wins the order where one is given.
    Unified {
        /// The file.
        path: PathBuf,
        /// What its line says.
        wants: Vec<Want>,
        /// What has to come first in its initramfs.
        order: Option<Order>,
    },
    /// In this image the parker comes first, and nothing keeps nvidia out where that was moved.
    Initramfs {
        /// The image.
        path: PathBuf,
        /// Who has to come first.
        order: Order,
        /// Whether lines that keep nvidia out must be gone.
        unblocked: bool,
    },
    /// GRUB's environment block has this value.
    GrubEnv {
        /// The block.
        path: PathBuf,
        /// The variable.
        key: String,
        /// Its value.
        value: String,
    },
    /// The EFI variable for the next boot names this entry.
    OneShot(String),
    /// There is such a file, and it is not empty.
    Written(PathBuf),
}

impl Expect {
    /// What is wrong; `None` where it is as it should be.
    pub fn complaint(&self, root: &Root) -> Result<Option<String>> {
        Ok(match self {
            Self::GrubCfg { path, wants } => {
                let cfg = root.text(path)?.unwrap_or_default();
                let entries: Vec<_> = grub::entries(&cfg)
                    .into_iter()
                    .filter_map(|e| Some((e.linux()?.1, e.title)))
                    .collect();
                // BLS entries are looked at one by one.
                if entries.is_empty() && !grub::Features::read(&cfg).blscfg {
                    Some(format!("wrote no entry with a kernel to {}", path.display()))
                } else {
                    let bad = entries.iter().find(|(line, _)| !line.meets(wants));
                    bad.map(|(line, title)| {
                        format!(
                            "left the entry `{title}` of {} without what is needed: {line}",
                            path.display()
                        )
                    })
                }
            }
            Self::Entry { path, wants } => match root.text(path)? {
                None => Some(format!("wrote no {}", path.display())),
                Some(text) => line_complaint(&Entry::parse(&text).options(), wants, path),
            },
            Self::Unified { path, wants, order } => match root.read(path)? {
                None => Some(format!("wrote no {}", path.display())),
                Some(bytes) => {
                    let line = uki::section(&bytes, ".cmdline").unwrap_or_default();
                    let line =
                        Line::new(String::from_utf8_lossy(&line).trim_end_matches('\0').trim());
                    let image = uki::section(&bytes, ".initrd").unwrap_or_default();
                    match (line_complaint(&line, wants, path), order) {
                        (None, Some(order)) => order_complaint(root, &image, order, path)?,
                        (complaint, _) => complaint,
                    }
                }
            },
            Self::Initramfs { path, order, unblocked } => match root.read(path)? {
                None => Some(format!("wrote no {}", path.display())),
                Some(image) => match order_complaint(root, &image, order, path)? {
                    None if *unblocked => blocked(&image, path),
                    complaint => complaint,
                },
            },
            Self::GrubEnv { path, key, value } => {
                let env = root.read(path)?.and_then(|bytes| grub::Env::parse(&bytes));
                let found = env.as_ref().and_then(|env| env.get(key));
                (found != Some(value.as_str()))
                    .then(|| format!("left {key} in {} at {found:?}", path.display()))
            }
            Self::OneShot(id) => {
                let found = efi_text(root, "LoaderEntryOneShot");
                (found.as_deref() != Some(id.as_str()))
                    .then(|| format!("left the EFI variable LoaderEntryOneShot at {found:?}"))
            }
            Self::Written(path) => {
                let empty = root.read(path)?.is_none_or(|bytes| bytes.is_empty());
                empty.then(|| format!("wrote nothing to {}", path.display()))
            }
        })
    }
}

fn line_complaint(line: &Line, wants: &[Want], path: &Path) -> Option<String> {
    (!line.meets(wants)).then(|| format!("left {} without what is needed: {line}", path.display()))
}

/// Judges the order in an image.
pub fn judge_image(root: &Root, image: &[u8], order: &Order) -> Result<Verdict> {
    let later: Vec<_> = modprobe::directives(root)?.into_iter().map(|(_, d)| d).collect();
    Ok(match Contents::read(image) {
        Ok(contents) => judge(&contents, order, &later),
        Err(error) => Verdict::Loses(format!("the image cannot be read: {error}")),
    })
}

fn order_complaint(
    root: &Root,
    image: &[u8],
    order: &Order,
    path: &Path,
) -> Result<Option<String>> {
    let verdict = judge_image(root, image, order)?;
    Ok((!verdict.wins()).then(|| format!("wrote {}, in which {verdict}", path.display())))
}

fn blocked(image: &[u8], path: &Path) -> Option<String> {
    let contents = Contents::read(image).ok()?;
    let found = contents.modprobe().into_iter().find(|(_, directive)| directive.blocks_nvidia());
    found.map(|(file, d)| format!("left `{}` in /{file} of {}", d.words.join(" "), path.display()))
}
