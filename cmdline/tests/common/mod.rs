//! A machine in a folder: a distribution's files, a kernel's answers, and its commands.
// Each test file uses a part of it.
#![allow(dead_code, unreachable_pub)]

mod distro;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use clap::Parser;
use slot_cmdline::{
    apply::{Faults, no_faults},
    cli::Cli,
    cmd::{Context, run},
    error::Error,
    exit::Exit,
    root::Root,
};
use tempfile::TempDir;

#[allow(unused_imports)]
pub use self::distro::{Distro, Mood, env_block};

/// Every set-up that can be installed on.
pub const KNOWN: [&str; 24] = [
    "arch-grub",
    "arch-systemd-boot",
    "arch-uki",
    "debian-11",
    "debian-12",
    "debian-12-backslash",
    "debian-12-crlf",
    "debian-12-custom",
    "debian-12-ids",
    "debian-12-init-words",
    "debian-12-modprobe-ids",
    "debian-12-no-newline",
    "debian-12-quotes",
    "debian-12-systemd-boot",
    "debian-12-systemd-boot-hooks",
    "debian-12-twice",
    "debian-13",
    "fedora-32-kernelopts",
    "fedora-40",
    "pop-22.04",
    "ubuntu-20.04",
    "ubuntu-22.04",
    "ubuntu-24.04",
    "ubuntu-24.04-cloud",
];

/// Vendor of the loader's variables.
pub const LOADER: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// A machine's files, mode and bytes, apart from what the kernel answers.
pub type Tree = BTreeMap<PathBuf, (u32, Option<Vec<u8>>)>;

pub struct Sandbox {
    folder: TempDir,
    pub root: Root,
}

/// How a verb ended and what it printed.
#[derive(Debug)]
pub struct Ran {
    pub exit: Exit,
    pub text: String,
    pub error: Option<Error>,
}

impl Sandbox {
    /// The fixture with sixteen dies behind an IOMMU, every image built once.
    pub fn new(fixture: &str) -> Self {
        // In memory: a thousand synced writes would wear out the patience of a disk.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.expect("folder");
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture),
            folder.path(),
        );
        fs::create_dir_all(folder.path().join("var/lib")).expect("folders");
        let root = Root::new(folder.path());
        let sandbox = Self { folder, root };
        sandbox.sixteen_dies();
        sandbox.write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\n");
        sandbox.write("sys/class/iommu/dmar0/name", "");
        sandbox.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=UUID=1 ro quiet\n");
        sandbox.write("proc/sys/kernel/random/boot_id", "boot-1\n");
        sandbox.plain_disk("ext4");
        sandbox.write("proc/modules", "vfio_pci 16384 0 - Live 0x0\next4 1 1 - Live 0x0\n");
        sandbox.distro().settle();
        sandbox
    }

    fn sixteen_dies(&self) {
        for die in 0..16 {
            let (card, side) = (die / 2, die % 2);
            let bdf = format!("0000:{:02x}:00.0", 3 + card * 4 + side);
            self.function(&bdf, "0x10de", "0x102d", "0x030200");
        }
        self.function("0000:00:02.0", "0x8086", "0x0152", "0x030000");
    }

    /// Everything lies on one partition of a plain disk; EFI variables are writable.
    pub fn plain_disk(&self, kind: &str) {
        self.write(
            "proc/self/mountinfo",
            format!("25 1 8:2 / / rw shared:1 - {kind} /dev/sda2 rw\n30 25 0:22 / /sys/firmware/efi/efivars rw - efivarfs efivarfs rw\n"),
        );
        self.write("sys/devices/ata1/block/sda/sda2/partition", "2\n");
        let link = self.path("sys/dev/block/8:2");
        fs::create_dir_all(link.parent().expect("parent")).expect("folders");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("../../devices/ata1/block/sda/sda2", link).expect("link");
        if self.root.is_dir("/boot/EFI")
            || self.root.is_dir("/boot/efi")
            || self.root.is_dir("/efi")
        {
            self.efi_text("LoaderInfo", "systemd-boot 252.1");
        }
    }

    /// Sets one of the loader's variables.
    pub fn efi_text(&self, name: &str, text: &str) {
        self.write(&format!("sys/firmware/efi/efivars/{name}-{LOADER}"), distro::efi_bytes(text));
    }

    /// Boots: a one-shot is used once, else the first installed line. The parker takes the dies
    /// where the line names it.
    pub fn boot(&self) -> String {
        let line = self.distro().next_line();
        let boot = self
            .text("proc/sys/kernel/random/boot_id")
            .trim()
            .trim_start_matches("boot-")
            .parse::<u32>();
        self.write(
            "proc/sys/kernel/random/boot_id",
            format!("boot-{}\n", boot.expect("number") + 1),
        );
        self.write("proc/cmdline", &line);
        let parked = line.contains("vfio-pci.ids=");
        self.bind(if parked { "vfio-pci" } else { "nvidia" });
        self.write(
            "proc/modules",
            if parked {
                "nvidia 1 0 - Live 0x0\nvfio_pci 1 0 - Live 0x0\n"
            } else {
                "nvidia 1 0 - Live 0x0\n"
            },
        );
        line
    }

    /// Adds a PCI function.
    pub fn function(&self, bdf: &str, vendor: &str, device: &str, class: &str) {
        for (file, text) in [("vendor", vendor), ("device", device), ("class", class)] {
            self.write(&format!("sys/bus/pci/devices/{bdf}/{file}"), text);
        }
    }

    /// Binds every die to `driver`.
    pub fn bind(&self, driver: &str) {
        let folder = self.path("sys/bus/pci/drivers").join(driver);
        fs::create_dir_all(folder).expect("driver");
        for name in self.root.list("/sys/bus/pci/devices").expect("devices") {
            if self.root.word(format!("/sys/bus/pci/devices/{name}/device")) == "0x102d" {
                let link = self.path("sys/bus/pci/devices").join(name).join("driver");
                let _ = fs::remove_file(&link);
                std::os::unix::fs::symlink(format!("/sys/bus/pci/drivers/{driver}"), link)
                    .expect("link");
            }
        }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("folders");
        fs::write(path, text).expect("file");
    }

    pub fn text(&self, path: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(path)).unwrap_or_default()).into_owned()
    }

    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }

    pub fn distro(&self) -> Distro<'_> {
        Distro::new(&self.root)
    }

    /// Runs a verb with the distribution's commands.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &self.distro(), &no_faults)
    }

    /// Runs a verb.
    pub fn run_with(&self, arguments: &[&str], distro: &Distro<'_>, faults: &Faults<'_>) -> Ran {
        self.raw(arguments, Some(distro), faults)
    }

    /// Runs a verb on a root that is not the running system: no commands.
    pub fn run_offline(&self, arguments: &[&str]) -> Ran {
        self.raw(arguments, None, &no_faults)
    }

    fn raw(&self, arguments: &[&str], distro: Option<&Distro<'_>>, faults: &Faults<'_>) -> Ran {
        let all = ["slot-cmdline"].iter().chain(arguments);
        let cli = Cli::try_parse_from(all).expect("arguments");
        let mut out = Vec::new();
        let commands = distro.map(|distro| distro as &dyn slot_cmdline::apply::Commands);
        let context = &mut Context { cli: &cli, root: &self.root, commands, faults, out: &mut out };
        let result = run(context);
        let text = String::from_utf8(out).expect("text");
        match result {
            Ok(exit) => Ran { exit, text, error: None },
            Err(error) => Ran { exit: (&error).into(), text, error: Some(error) },
        }
    }

    /// Everything but what the kernel answers.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        walk(self.folder.path(), self.folder.path(), &mut tree);
        tree.retain(|path, _| !path.starts_with("proc") && !path.starts_with("sys"));
        tree
    }
}

fn walk(folder: &Path, base: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(folder).expect("folder") {
        let path = entry.expect("entry").path();
        let name = path.strip_prefix(base).expect("below").to_owned();
        let meta = fs::symlink_metadata(&path).expect("there");
        let mode = meta.permissions().mode();
        if meta.is_dir() {
            tree.insert(name, (mode, None));
            walk(&path, base, tree);
        } else {
            tree.insert(name, (mode, fs::read(&path).ok()));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("fixture") {
        let path = entry.expect("entry").path();
        let target = to.join(path.file_name().expect("name"));
        if path.is_dir() {
            fs::create_dir_all(&target).expect("folder");
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("file");
        }
    }
}

/// What differs between two trees, in words.
pub fn differences(before: &Tree, after: &Tree) -> Vec<String> {
    let mut all = Vec::new();
    for (path, old) in before {
        match after.get(path) {
            None => all.push(format!("{} is gone", path.display())),
            Some(new) if new != old => {
                let show = |c: &(u32, Option<Vec<u8>>)| {
                    format!(
                        "{:o} {}",
                        c.0,
                        String::from_utf8_lossy(c.1.as_deref().unwrap_or_default())
                    )
                };
                let (old, new) = (show(old), show(new));
                let short = |text: &str| text.chars().take(600).collect::<String>();
                all.push(format!("{}: {}\n=>\n{}", path.display(), short(&old), short(&new)));
            }
            _ => {}
        }
    }
    let new = after.keys().filter(|path| !before.contains_key(*path));
    all.extend(new.map(|path| format!("{} is new", path.display())));
    all
}
