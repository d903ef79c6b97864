//! Unified kernel images: one PE file with kernel, line and initramfs.

use std::path::PathBuf;

use object::{Object, ObjectSection};

use crate::{error::Result, root::Root, tokens::Line};

/// File name of the trial's own image.
pub const TRIAL: &str = "slot-cmdline-trial.efi";

/// The bytes of a section; `None` where there is none or this is no PE file.
pub fn section(image: &[u8], name: &str) -> Option<Vec<u8>> {
    let pe = object::File::parse(image).ok()?;
    let section = pe.section_by_name(name)?;
    let data = section.data().ok()?;
    // Padding up to the file alignment is no part of it.
    let size = usize::try_from(section.size()).unwrap_or(usize::MAX).min(data.len());
    Some(data[..size].to_vec())
}

/// The lines in these images.
pub(super) fn lines(root: &Root, images: &[PathBuf]) -> Result<Vec<(PathBuf, Line)>> {
    let mut lines = Vec::new();
    for path in images {
        let image = root.read(path)?.unwrap_or_default();
        let line = section(&image, ".cmdline").unwrap_or_default();
        let line = String::from_utf8_lossy(&line).trim_end_matches('\0').trim().to_owned();
        lines.push((path.clone(), Line::new(line)));
    }
    Ok(lines)
}
