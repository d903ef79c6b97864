//! The file system below an injected root, read only. Writing is `apply::disk`'s.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};

use crate::{
    error::{Error, Result},
    plan::Content,
};

/// More links than this in one path is a loop.
const MAX_LINKS: u32 = 40;

/// A machine's file system. Paths given to it are absolute as that machine sees them, and symbolic
/// links never lead out of it.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The file system below `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Whether it is the file system this process runs in.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Where `path` lies for this process, links not followed.
    pub fn host(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// `path` with every symbolic link followed inside the root. The last parts may not exist.
    pub fn real(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let asked = path.as_ref();
        let mut todo: Vec<PathBuf> = parts(asked);
        let (mut done, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = todo.pop() {
            if part == Path::new("..") {
                done.pop();
                continue;
            }
            let next = done.join(&part);
            match fs::read_link(self.host(&next)) {
                Ok(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        let looped = io::Error::from(rustix::io::Errno::LOOP);
                        return Err(Error::io("follow the links of", asked)(looped));
                    }
                    if target.is_absolute() {
                        done = PathBuf::from("/");
                    }
                    todo.extend(parts(&target));
                }
                Err(_) => done = next,
            }
        }
        Ok(done)
    }

    /// The bytes of a file; `None` where there is none.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>> {
        let real = self.real(&path)?;
        match fs::read(self.host(&real)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if absent(&e) => Ok(None),
            Err(source) => Err(Error::io("read", path.as_ref())(source)),
        }
    }

    /// A file's bytes with its owner and permissions; `None` where there is none.
    pub fn content(&self, path: impl AsRef<Path>) -> Result<Option<Content>> {
        let Some(bytes) = self.read(&path)? else { return Ok(None) };
        let host = self.host(&self.real(&path)?);
        let meta = fs::metadata(&host).map_err(Error::io("look at", path.as_ref()))?;
        let mode = meta.permissions().mode() & 0o7777;
        Ok(Some(Content { bytes, mode, owner: (meta.uid(), meta.gid()) }))
    }

    /// A file as text, bytes that are no UTF-8 replaced: to look at, never to write back.
    pub fn text(&self, path: impl AsRef<Path>) -> Result<Option<String>> {
        Ok(self.read(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// A small file's text without blanks around it; empty where it cannot be read.
    pub fn word(&self, path: impl AsRef<Path>) -> String {
        self.text(path).ok().flatten().unwrap_or_default().trim().to_owned()
    }

    /// Names in a folder, sorted; none where there is no such folder.
    pub fn list(&self, folder: impl AsRef<Path>) -> Result<Vec<String>> {
        let real = self.real(&folder)?;
        let entries = match fs::read_dir(self.host(&real)) {
            Ok(entries) => entries,
            Err(e) if absent(&e) => return Ok(Vec::new()),
            Err(source) => return Err(Error::io("list", folder.as_ref())(source)),
        };
        let mut names: Vec<String> = entries
            .filter_map(std::result::Result::ok)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Files directly in `folder` with this ending, sorted.
    pub fn files(&self, folder: impl AsRef<Path>, ending: &str) -> Result<Vec<PathBuf>> {
        let folder = folder.as_ref();
        let names = self.list(folder)?;
        let paths = names.into_iter().filter(|n| n.ends_with(ending)).map(|n| folder.join(n));
        Ok(paths.filter(|path| self.is_file(path)).collect())
    }

    /// Whether there is a file.
    pub fn is_file(&self, path: impl AsRef<Path>) -> bool {
        self.real(path).is_ok_and(|real| self.host(&real).is_file())
    }

    /// Whether there is a folder.
    pub fn is_dir(&self, path: impl AsRef<Path>) -> bool {
        self.real(path).is_ok_and(|real| self.host(&real).is_dir())
    }

    /// The first of these programs that is there, by its path.
    pub fn program(&self, names: &[&str]) -> Option<PathBuf> {
        let folders =
            ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"];
        let paths = names.iter().flat_map(|n| folders.iter().map(move |f| Path::new(f).join(n)));
        paths.into_iter().find(|path| self.is_file(path))
    }
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The parts of a path, last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    });
    let mut parts: Vec<_> = parts.collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_inside_the_root() {
        let folder = tempfile::tempdir().expect("folder");
        let root = Root::new(folder.path());
        fs::create_dir_all(folder.path().join("etc/deep")).expect("folders");
        fs::write(folder.path().join("etc/file"), "inside").expect("file");
        symlink("/etc/file", folder.path().join("etc/absolute")).expect("link");
        symlink("../../../../etc/file", folder.path().join("etc/deep/up")).expect("link");
        symlink("loop", folder.path().join("etc/loop")).expect("link");
        assert_eq!(root.word("/etc/absolute"), "inside");
        assert_eq!(root.real("/etc/deep/up").expect("real"), Path::new("/etc/file"));
        assert!(root.read("/etc/loop").is_err());
        assert_eq!(root.read("/etc/none").expect("no error"), None);
    }
}
