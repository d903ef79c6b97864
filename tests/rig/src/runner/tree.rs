//! The guest's root, as a folder and then as an archive.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use cpio::newc;

/// A root that is being filled.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Fills `root`, an empty folder.
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The folder.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn at(&self, path: &str) -> Result<PathBuf> {
        let target = self.root.join(path.trim_start_matches('/'));
        let parent = target.parent().context("a path in the tree has a parent")?;
        fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
        Ok(target)
    }

    /// A text that can be run.
    pub(super) fn script(&self, path: &str, text: &str) -> Result<()> {
        let target = self.at(path)?;
        fs::write(&target, text).with_context(|| format!("write {}", target.display()))?;
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// A symbolic link.
    pub(super) fn link(&self, path: &str, to: &str) -> Result<()> {
        let target = self.at(path)?;
        symlink(to, &target).with_context(|| format!("link {}", target.display()))
    }

    /// A file or folder of this machine.
    pub(super) fn copy(&self, from: &Path, path: &str) -> Result<()> {
        let target = self.at(path)?;
        if from.is_dir() {
            fs::create_dir_all(&target)?;
            for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
                let entry = entry?;
                let name = entry.file_name();
                self.copy(&entry.path(), &format!("{path}/{}", name.to_string_lossy()))?;
            }
            return Ok(());
        }
        fs::copy(from, &target)
            .with_context(|| format!("copy {} to {}", from.display(), target.display()))?;
        Ok(())
    }

    /// A program with the libraries it needs, each where it is on this machine.
    pub(super) fn program(&self, from: &Path, path: &str) -> Result<()> {
        self.copy(from, path)?;
        for library in libraries(from)? {
            let library = library.to_string_lossy();
            if !self.root.join(library.trim_start_matches('/')).exists() {
                self.copy(Path::new(&*library), &library)?;
            }
        }
        Ok(())
    }

    /// Writes the archive that the kernel unpacks.
    pub(super) fn archive(&self, to: &Path) -> Result<()> {
        let file = File::create(to).with_context(|| format!("create {}", to.display()))?;
        let mut out = BufWriter::new(file);
        let mut number = 1;
        append(&mut out, &self.root, &self.root, &mut number)?;
        newc::trailer(&mut out)?;
        out.flush()?;
        Ok(())
    }
}

fn append(out: &mut BufWriter<File>, root: &Path, folder: &Path, number: &mut u32) -> Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| format!("read {}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        let metadata = fs::symlink_metadata(&path)?;
        let content = if metadata.is_symlink() {
            fs::read_link(&path)?.as_os_str().as_bytes().to_vec()
        } else if metadata.is_file() {
            fs::read(&path)?
        } else {
            Vec::new()
        };
        let name = path.strip_prefix(root)?.to_string_lossy();
        let length = u32::try_from(content.len()).context("a file larger than 4 GiB")?;
        *number += 1;
        let mut entry = newc::Builder::new(&name)
            .ino(*number)
            .nlink(1)
            .mode(metadata.mode())
            .write(&mut *out, length);
        entry.write_all(&content)?;
        entry.finish()?;
        if metadata.is_dir() {
            append(out, root, &path, number)?;
        }
    }
    Ok(())
}

/// What `ldd` says that a program needs; nothing for scripts and static programs.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let mut magic = [0; 4];
    let mut file = File::open(program).with_context(|| format!("open {}", program.display()))?;
    let elf = std::io::Read::read_exact(&mut file, &mut magic).is_ok() && magic == *b"\x7fELF";
    if !elf {
        return Ok(Vec::new());
    }
    let output = Command::new("ldd").arg(program).output().context("run ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let is_static = text.contains("statically linked") || said.contains("not a dynamic");
    if is_static {
        return Ok(Vec::new());
    }
    ensure!(output.status.success(), "ldd {}: {said}", program.display());
    parse_ldd(&text).with_context(|| format!("ldd {}", program.display()))
}

fn parse_ldd(text: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        ensure!(!line.contains("not found"), "{line}: install it");
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        let path = path.split_once(" (").map_or(path, |(path, _)| path);
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_is_understood() {
        let text = "\tlinux-vdso.so.1 (0x00007f)\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n\t/lib64/ld-linux.so.2 (0x00007f)\n";
        let paths = parse_ldd(text).expect("complete");
        assert_eq!(paths, [Path::new("/lib/libc.so.6"), Path::new("/lib64/ld-linux.so.2")]);
        assert!(parse_ldd("\tlibudev.so.1 => not found\n").is_err());
    }

    #[test]
    fn an_archive_holds_files_links_and_folders() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let tree = Tree::new(folder.path().join("root"));
        tree.script("/rig/test", "#!/bin/sh\n").expect("written");
        tree.link("/init", "rig/test").expect("linked");
        let to = folder.path().join("archive");
        tree.archive(&to).expect("archived");
        let mut file = File::open(&to).expect("opened");
        let mut seen = Vec::new();
        loop {
            let mut reader = newc::Reader::new(file).expect("an entry");
            let entry = reader.entry().clone();
            if entry.is_trailer() {
                break;
            }
            let mut content = String::new();
            std::io::Read::read_to_string(&mut reader, &mut content).expect("text");
            seen.push((entry.name().to_owned(), entry.mode() & 0o170_000, content));
            file = reader.finish().expect("finished");
        }
        let file = |name: &str, kind, text: &str| (name.to_owned(), kind, text.to_owned());
        assert_eq!(
            seen,
            [
                file("init", 0o120_000, "rig/test"),
                file("rig", 0o040_000, ""),
                file("rig/test", 0o100_000, "#!/bin/sh\n"),
            ]
        );
    }
}
