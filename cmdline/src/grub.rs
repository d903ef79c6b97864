//! What GRUB reads: `grub.cfg` and its environment block.

use serde::Serialize;

use crate::tokens::Line;

/// A way to boot that `grub.cfg` has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MenuEntry {
    /// Its title.
    pub title: String,
    /// Its `--id` or `$menuentry_id_option`, else the title.
    pub id: String,
    /// Lines between the braces.
    pub body: Vec<String>,
}

impl MenuEntry {
    fn command(&self, names: &[&str]) -> Option<(&str, &str)> {
        self.body.iter().find_map(|line| {
            let (command, rest) = line.trim().split_once([' ', '\t'])?;
            names.contains(&command).then_some((command, rest.trim_start()))
        })
    }

    /// Path of the kernel as GRUB is told, and the line.
    pub fn linux(&self) -> Option<(&str, Line)> {
        let (_, rest) = self.command(&["linux", "linuxefi", "linux16"])?;
        let (path, line) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        Some((path, Line::new(line.trim())))
    }

    /// Paths of the initramfs as GRUB is told.
    pub fn initrd(&self) -> Vec<&str> {
        let found = self.command(&["initrd", "initrdefi", "initrd16"]);
        found.map(|(_, rest)| rest.split_ascii_whitespace().collect()).unwrap_or_default()
    }

    /// The lines before `linux`: modules, search, root.
    pub fn prelude(&self) -> Vec<&str> {
        let lines = self.body.iter().map(|line| line.trim());
        lines
            .take_while(|line| !line.starts_with("linux"))
            .filter(|line| {
                let skip = ["echo", "savedefault", "recordfail", "gfxmode", "load_video"];
                !line.is_empty() && !skip.iter().any(|s| line.starts_with(s))
            })
            .collect()
    }
}

/// Every entry with a kernel, in order, those of submenus too.
pub fn entries(cfg: &str) -> Vec<MenuEntry> {
    let mut found = Vec::new();
    let mut open: Option<(MenuEntry, i32)> = None;
    for line in cfg.lines() {
        let text = line.trim();
        if let Some((entry, depth)) = &mut open {
            *depth += braces(text);
            if *depth > 0 {
                entry.body.push(line.to_owned());
                continue;
            }
        } else if text.starts_with("menuentry ") && braces(text) > 0 {
            open = Some((heading(text), braces(text)));
            continue;
        }
        if let Some((entry, _)) = open.take()
            && entry.linux().is_some()
        {
            found.push(entry);
        }
    }
    found
}

/// Opened minus closed braces that stand as words of their own.
fn braces(text: &str) -> i32 {
    text.split_ascii_whitespace().map(|w| i32::from(w == "{") - i32::from(w == "}")).sum()
}

fn heading(text: &str) -> MenuEntry {
    let words = words(text);
    let title = words.get(1).cloned().unwrap_or_default();
    let id = words.iter().position(|w| w == "--id" || w == "$menuentry_id_option");
    let id = id.and_then(|at| words.get(at + 1)).unwrap_or(&title).clone();
    MenuEntry { id, title, body: Vec::new() }
}

/// Words with quotes removed.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, ' ' | '\t') => words.push(String::new()),
            _ => words.last_mut().expect("never empty").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What `grub.cfg` can do at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Features {
    /// It uses `next_entry` once and clears it.
    pub one_shot: bool,
    /// It sources `custom.cfg`.
    pub custom_cfg: bool,
    /// It makes its menu from BLS entries.
    pub blscfg: bool,
}

impl Features {
    /// Reads them off the text.
    pub fn read(cfg: &str) -> Self {
        let lines = || cfg.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let has = |text: &str| lines().any(|line| line.contains(text));
        let clears = lines().any(|line| line == "set next_entry=" || line == "set next_entry=\"\"");
        Self {
            one_shot: has("default=\"${next_entry}\"") && clears && has("save_env next_entry"),
            custom_cfg: lines().any(|line| {
                let word = line.split([' ', '\t']).next().unwrap_or("");
                (word == "source" || word == ".") && line.contains("custom.cfg")
            }),
            blscfg: lines().any(|line| line.split([' ', '\t']).next() == Some("blscfg")),
        }
    }
}

/// First line of an environment block.
const ENV_HEADER: &str = "# GRUB Environment Block\n";
/// Its fixed size.
const ENV_SIZE: usize = 1024;

/// GRUB's environment block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env(Vec<(String, String)>);

impl Env {
    /// Reads a block; `None` where it is not one that GRUB would write to.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let rest = text.strip_prefix(ENV_HEADER).filter(|_| bytes.len() == ENV_SIZE)?;
        let lines = rest.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once('='));
        Some(Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()))
    }

    /// The block, in the size that GRUB writes in place.
    pub fn block(&self) -> Vec<u8> {
        let pairs = self.0.iter().fold(String::new(), |all, (k, v)| all + k + "=" + v + "\n");
        let mut bytes = format!("{ENV_HEADER}{pairs}").into_bytes();
        bytes.resize(ENV_SIZE, b'#');
        bytes
    }

    /// These variables without those of `keys`.
    #[must_use]
    pub fn without(&self, keys: &[&str]) -> Self {
        Self(self.0.iter().filter(|(key, _)| !keys.contains(&key.as_str())).cloned().collect())
    }

    /// The value of a variable, where it is not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(k, _)| k == key);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CFG: &str = r#"
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
fi
function load_video {
  true
}
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {
	load_video
	insmod gzio
	if [ x$grub_platform = xxen ]; then insmod xzio; fi
	search --no-floppy --fs-uuid --set=root 1
	echo	'Loading'
	linux	/boot/vmlinuz-6.1 root=UUID=1 ro  quiet
	initrd	/boot/initrd.img-6.1
}
submenu 'Advanced' $menuentry_id_option 'adv' {
	menuentry 'old' --class x {
		linux /boot/vmlinuz-5 ro
	}
}
menuentry 'Setup' $menuentry_id_option 'uefi' {
	fwsetup
}
if [ -f  ${config_directory}/custom.cfg ]; then
  source ${config_directory}/custom.cfg
fi
"#;

    #[test]
    fn entries_with_a_kernel_are_found() {
        let found = entries(CFG);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].id, "gnulinux-simple-1");
        assert_eq!(
            found[0].linux(),
            Some(("/boot/vmlinuz-6.1", Line::new("root=UUID=1 ro  quiet")))
        );
        assert_eq!(found[0].initrd(), ["/boot/initrd.img-6.1"]);
        assert_eq!(found[0].prelude().len(), 3, "{:?}", found[0].prelude());
        assert_eq!((found[1].title.as_str(), found[1].id.as_str()), ("old", "old"));
    }

    #[test]
    fn features_are_read_off_the_text() {
        let all = Features { one_shot: true, custom_cfg: true, blscfg: false };
        assert_eq!(Features::read(CFG), all);
        let never_cleared = CFG.replace("   set next_entry=\n", "");
        assert!(!Features::read(&never_cleared).one_shot);
        assert!(!Features::read("# source custom.cfg").custom_cfg);
    }

    #[test]
    fn only_a_whole_environment_block_counts() {
        let mut block = format!("{ENV_HEADER}saved_entry=a=b\nnext_entry=\n").into_bytes();
        assert_eq!(Env::parse(&block), None);
        block.resize(ENV_SIZE, b'#');
        let env = Env::parse(&block).expect("whole");
        assert_eq!((env.get("saved_entry"), env.get("next_entry")), (Some("a=b"), None));
    }
}
