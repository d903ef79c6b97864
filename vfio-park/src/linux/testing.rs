//! Trees like the kernel's, expanded from the manifests in `tests/fixtures` that `record.sh` prints.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::Roots;
use crate::Bdf;

/// A tree of its own; gone with it.
pub(crate) struct Tree {
    folder: TempDir,
    pub(crate) roots: Roots,
}

impl Tree {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = Roots::below(folder.path());
        for root in [&roots.devices(), &roots.proc, &roots.dev] {
            fs::create_dir_all(root).expect("a folder");
        }
        Self { folder, roots }
    }

    /// The one of `tests/fixtures/NAME.txt`.
    pub(crate) fn fixture(name: &str) -> Self {
        let path = format!("{}/tests/fixtures/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let tree = Self::new();
        tree.expand(&fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}")));
        tree
    }

    /// Adds what a manifest says.
    pub(crate) fn expand(&self, manifest: &str) {
        let mut at = PathBuf::new();
        let mut resources = Vec::new();
        for line in manifest.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            if let Some(device) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                at = self.device(device);
                resources = vec!["0x0000000000000000 0x0000000000000000 0x0000000000000000"; 17];
                write(&at.join("resource"), lines(&resources).as_bytes());
            } else if let Some(file) = line.strip_prefix('(').and_then(|l| l.strip_suffix(')')) {
                at = self.folder.path().join(file);
                write(&at, b"");
            } else if let Some(text) = line.strip_prefix('|') {
                let before = fs::read_to_string(&at).expect("the file above");
                write(&at, format!("{before}{text}\n").as_bytes());
            } else if let Some((name, target)) = line.split_once(" -> ") {
                symlink(Path::new("../../anywhere").join(target), at.join(name)).expect("a link");
            } else {
                let (name, value) = line.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
                if let Some(n) = name.strip_prefix("resource.") {
                    resources[n.parse::<usize>().expect("a number")] = value;
                    write(&at.join("resource"), lines(&resources).as_bytes());
                } else if name == "config" {
                    write(&at.join(name), &bytes(value));
                } else {
                    write(&at.join(name), format!("{value}\n").as_bytes());
                }
            }
        }
    }

    fn device(&self, device: &str) -> PathBuf {
        let at = self.roots.sys.join(device);
        fs::create_dir_all(&at).expect("a folder");
        let name = at.file_name().expect("a name");
        symlink(Path::new("../../..").join(device), self.roots.devices().join(name))
            .expect("a link");
        at
    }

    /// An attribute of a function.
    pub(crate) fn attribute(&self, bdf: &str, name: &str) -> PathBuf {
        let bdf: Bdf = bdf.parse().expect("an address");
        self.roots.function(bdf).join(name)
    }
}

fn lines(lines: &[&str]) -> String {
    lines.iter().fold(String::new(), |all, line| all + line + "\n")
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Writes a file and the folders above it.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
