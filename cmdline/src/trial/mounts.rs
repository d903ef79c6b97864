//! What is mounted where, and on what kind of device.

use std::path::{Path, PathBuf};

use crate::{error::Result, root::Root};

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where.
    pub at: PathBuf,
    /// `major:minor`.
    pub device: String,
    /// ext4, btrfs, ...
    pub kind: String,
    /// Mounted read-only, or only readable.
    pub read_only: bool,
}

/// Reads a `mountinfo`; lines that are not understood are left out.
pub fn mounts(text: &str) -> Vec<Mount> {
    text.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let front: Vec<_> = front.split(' ').collect();
    let back: Vec<_> = back.split(' ').collect();
    let read_only = |options: &str| options.split(',').any(|option| option == "ro");
    Some(Mount {
        at: PathBuf::from(unescaped(front.get(4)?)),
        device: (*front.get(2)?).to_owned(),
        kind: (*back.first()?).to_owned(),
        read_only: read_only(front.get(5)?)
            || back.get(2).is_some_and(|options| read_only(options)),
    })
}

/// `\040` and the like.
fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        out.push(code.unwrap_or(first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The file system that `path` lies on.
pub fn mount_of(root: &Root, path: &Path) -> Result<Option<Mount>> {
    let real = root.real(path)?;
    let text = root.text("/proc/self/mountinfo")?.unwrap_or_default();
    let over = mounts(&text).into_iter().filter(|mount| real.starts_with(&mount.at));
    // Of two on one place the later one counts.
    Ok(over.max_by_key(|mount| mount.at.components().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_their_escapes() {
        let text = "36 35 98:0 /mnt1 /a\\040b rw,noatime master:1 - ext4 /dev/root ro,errors=continue\n\
                    25 1 8:2 / / rw shared:1 - xfs /dev/sda2 rw\nbroken line\n";
        let all = mounts(text);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].at.to_str(), all[0].read_only), (Some("/a b"), true));
        assert_eq!((all[1].kind.as_str(), all[1].read_only), ("xfs", false));
    }
}
