//! modprobe.d: what the files say together, and which lines keep nvidia out.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{error::Result, root::Root};

/// Folders in the order in which a file of one name hides those of the same name behind it.
pub const FOLDERS: [&str; 5] = [
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
];

/// One logical line, continuations joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// First physical line, counted from 0.
    pub first: usize,
    /// Physical lines it spans.
    pub span: usize,
    /// Its words.
    pub words: Vec<String>,
}

/// Reads one file. A comment is a line that starts with `#`.
pub fn parse(text: &str) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut pending: Option<(usize, String)> = None;
    for (number, line) in text.split('\n').enumerate() {
        let (first, mut joined) = pending.take().unwrap_or_else(|| (number, String::new()));
        let line = line.strip_suffix('\r').unwrap_or(line);
        if let Some(head) = line.strip_suffix('\\') {
            joined.push_str(head);
            pending = Some((first, joined));
            continue;
        }
        joined.push_str(line);
        found.extend(directive(first, number + 1 - first, &joined));
    }
    if let Some((first, joined)) = pending {
        found.extend(directive(first, text.split('\n').count() - first, &joined));
    }
    found
}

fn directive(first: usize, span: usize, text: &str) -> Option<Directive> {
    let words: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    let said = words.first().is_some_and(|word| !word.starts_with('#'));
    said.then_some(Directive { first, span, words })
}

/// A module's name as the kernel writes it.
pub fn plain(module: &str) -> String {
    module.replace('-', "_")
}

impl Directive {
    fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// The module that it is about.
    pub fn module(&self) -> String {
        plain(self.word(1))
    }

    /// The value that an `options` line gives `param` of `module`.
    pub fn option(&self, module: &str, param: &str) -> Option<&str> {
        if self.word(0) != "options" || self.module() != plain(module) {
            return None;
        }
        let values = self.words.iter().skip(2).filter_map(|word| word.split_once('='));
        values.filter(|(key, _)| plain(key) == plain(param)).map(|(_, value)| value).next_back()
    }

    /// Whether it makes `first` be loaded before `module`.
    pub fn loads_before(&self, first: &str, module: &str) -> bool {
        if self.word(0) != "softdep" || self.module() != plain(module) {
            return false;
        }
        let listed = self.words.iter().skip(2);
        let pre = listed.skip_while(|w| *w != "pre:").skip(1).take_while(|w| *w != "post:");
        pre.into_iter().any(|word| plain(word) == plain(first))
    }

    /// Whether it keeps a module of the nvidia driver from loading.
    pub fn blocks_nvidia(&self) -> bool {
        let module = self.module();
        let ours = module == "nvidia" || module.starts_with("nvidia_");
        let refuses = |command: &str| {
            let name = command.rsplit('/').next().unwrap_or(command);
            matches!(name, "false" | "true" | ":")
        };
        ours && match self.word(0) {
            "blacklist" => true,
            "install" => refuses(self.word(2)) && self.words.len() == 3,
            "alias" => self.word(2) == "off",
            _ => false,
        }
    }
}

/// A line that keeps nvidia out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
}

/// The files that count, in the order in which modprobe reads them.
pub fn files(root: &Root) -> Result<Vec<PathBuf>> {
    let mut by_name = BTreeMap::new();
    for folder in FOLDERS {
        for path in root.files(folder, ".conf")? {
            let name = path.file_name().map(ToOwned::to_owned);
            by_name.entry(name).or_insert(path);
        }
    }
    Ok(by_name.into_values().collect())
}

/// Every directive, with its file.
pub fn directives(root: &Root) -> Result<Vec<(PathBuf, Directive)>> {
    let mut all = Vec::new();
    for path in files(root)? {
        let text = root.text(&path)?.unwrap_or_default();
        all.extend(parse(&text).into_iter().map(|directive| (path.clone(), directive)));
    }
    Ok(all)
}

/// The value that counts for `param` of `module`, apart from the kernel's command line.
pub fn option(root: &Root, module: &str, param: &str) -> Result<Option<String>> {
    let all = directives(root)?;
    Ok(all.iter().filter_map(|(_, d)| d.option(module, param)).next_back().map(str::to_owned))
}

/// Every line that keeps nvidia out.
pub fn blocks(root: &Root) -> Result<Vec<Block>> {
    let all = directives(root)?;
    let blocking = all.into_iter().filter(|(_, directive)| directive.blocks_nvidia());
    Ok(blocking
        .map(|(path, d)| Block { path, line: d.first + 1, text: d.words.join(" ") })
        .collect())
}

/// Put before a line that was moved aside.
const ASIDE: &str = "# moved aside by slot-cmdline: ";

/// `text` with the lines that keep nvidia out turned into comments; the rest byte for byte.
pub fn without_blocks(text: &[u8]) -> Vec<u8> {
    let lossy = String::from_utf8_lossy(text);
    let mut aside = Vec::new();
    for directive in parse(&lossy).iter().filter(|directive| directive.blocks_nvidia()) {
        aside.extend(directive.first..directive.first + directive.span);
    }
    let mut out = Vec::with_capacity(text.len());
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if aside.contains(&number) {
            out.extend_from_slice(ASIDE.as_bytes());
        }
        out.extend_from_slice(line);
    }
    out
}

/// Whether the file is one that only other packages may write.
pub fn is_vendors(path: &Path) -> bool {
    !path.starts_with("/etc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_nvidia_out_is_found() {
        let text = "# blacklist nvidia\nblacklist nvidia\nblacklist nouveau\nblacklist nvidiafb\n\
                    install nvidia-drm /bin/false\ninstall nvidia /sbin/modprobe -i nvidia\n\
                    alias nvidia off\nblacklist \\\n nvidia_uvm\n";
        let found: Vec<_> =
            parse(text).into_iter().filter(Directive::blocks_nvidia).map(|d| d.first).collect();
        assert_eq!(found, [1, 4, 6, 7]);
    }

    #[test]
    fn a_block_becomes_a_comment_and_the_rest_stays() {
        let text = b"blacklist nouveau\r\nblacklist \\\n nvidia\n\xff\ninstall nvidia /bin/true";
        assert_eq!(
            without_blocks(text),
            b"blacklist nouveau\r\n# moved aside by slot-cmdline: blacklist \\\n\
              # moved aside by slot-cmdline:  nvidia\n\xff\n\
              # moved aside by slot-cmdline: install nvidia /bin/true"
        );
        let again = without_blocks(text);
        assert_eq!(without_blocks(&again), again);
    }

    #[test]
    fn softdeps_and_options() {
        let lines = parse(
            "softdep nvidia pre: drm vfio-pci post: x\noptions vfio-pci a=1 ids=1:2 ids=3:4\n",
        );
        assert!(lines[0].loads_before("vfio_pci", "nvidia"));
        assert!(!lines[0].loads_before("x", "nvidia"));
        assert_eq!(lines[1].option("vfio_pci", "ids"), Some("3:4"));
    }

    #[test]
    fn a_file_in_etc_hides_its_namesake() {
        let folder = tempfile::tempdir().expect("folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folders");
            std::fs::write(path, text).expect("file");
        };
        write("etc/modprobe.d/b.conf", "options vfio-pci ids=1:1\n");
        write("usr/lib/modprobe.d/b.conf", "options vfio-pci ids=2:2\n");
        write("usr/lib/modprobe.d/a.conf", "options vfio-pci ids=3:3\n");
        write("etc/modprobe.d/c.conf.off", "options vfio-pci ids=4:4\n");
        let root = Root::new(folder.path());
        assert_eq!(option(&root, "vfio_pci", "ids").expect("read"), Some("1:1".into()));
    }
}
