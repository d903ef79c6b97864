//! A distribution's commands: they write what the real ones write, as far as it is read here.

use std::{
    cell::RefCell,
    fmt::Write as _,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use slot_cmdline::{
    apply::{Commands, Ended},
    bls::Entry,
    error::Result,
    grub::{Env, entries},
    initramfs::archive_of,
    loader::{GrubLines, Loader, detect, uki},
    machine::efi_text,
    root::Root,
    shellvars::ShellVars,
    tokens::Line,
    trial,
};

/// How the commands behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// They do their work.
    Honest,
    /// They return 0 and do nothing.
    Idle,
    /// They write their output without what was configured, and return 0.
    Forgetful,
}

pub struct Distro<'a> {
    root: &'a Root,
    pub mood: Mood,
    pub ran: RefCell<Vec<String>>,
}

impl Commands for Distro<'_> {
    fn run(&self, argv: &[String]) -> Result<Ended> {
        self.ran.borrow_mut().push(argv.join(" "));
        if self.mood != Mood::Idle {
            let words: Vec<&str> = argv.iter().map(String::as_str).collect();
            self.act(&words);
        }
        Ok(Ended { success: true, last_words: "done".into() })
    }
}

impl<'a> Distro<'a> {
    pub fn new(root: &'a Root) -> Self {
        Self { root, mood: Mood::Honest, ran: RefCell::default() }
    }

    /// Writes what an installed system has.
    pub fn settle(&self) {
        for kernel in self.kernels() {
            let has = |names: &[&str]| self.root.program(names).is_some();
            if has(&["update-initramfs"]) {
                self.act(&["update-initramfs", "-u", "-k", &kernel]);
            }
            if has(&["dracut"]) {
                let image = if has(&["grub2-mkconfig"]) {
                    format!("/boot/initramfs-{kernel}.img")
                } else {
                    format!("/boot/initrd.img-{kernel}")
                };
                self.act(&["dracut", "--force", &image, &kernel]);
            }
            if has(&["mkinitcpio"]) {
                self.act(&["mkinitcpio", "-p", "linux"]);
            }
        }
        if self.root.program(&["kernel-install"]).is_some() && self.root.is_dir("/boot/efi") {
            for kernel in self.kernels() {
                let token = self.root.word("/etc/machine-id");
                let image = self.root.read(format!("/boot/initrd.img-{kernel}")).expect("readable");
                let path = format!("/boot/efi/{token}/{kernel}/initrd.img-{kernel}");
                self.write(path, &image.expect("there"));
            }
        }
        if self.root.program(&["update-grub"]).is_some() {
            self.act(&["update-grub"]);
        } else if self.root.program(&["grub-mkconfig"]).is_some() {
            self.act(&["grub-mkconfig", "-o", "/boot/grub/grub.cfg"]);
        } else if self.root.program(&["grub2-mkconfig"]).is_some() {
            self.act(&["grub2-mkconfig", "-o", "/boot/grub2/grub.cfg"]);
        }
        if self.root.is_dir("/boot/grub") && !self.root.is_file("/boot/grub/grubenv") {
            self.write("/boot/grub/grubenv", &env_block(&[]));
        }
    }

    fn kernels(&self) -> Vec<String> {
        self.root.list("/usr/lib/modules").expect("modules")
    }

    fn text(&self, path: impl AsRef<Path>) -> String {
        self.root.text(path).expect("readable").unwrap_or_default()
    }

    fn write(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let path = self.root.host(path.as_ref());
        fs::create_dir_all(path.parent().expect("parent")).expect("folders");
        fs::write(path, bytes).expect("write");
    }

    fn set_env(&self, path: impl AsRef<Path>, pairs: &[(&str, &str)]) {
        let old = self.text(&path);
        let kept = old
            .lines()
            .filter_map(|line| line.split_once('='))
            .filter(|(key, _)| pairs.iter().all(|(new, _)| new != key));
        let all: Vec<_> = kept.chain(pairs.iter().copied()).collect();
        self.write(path, &env_block(&all));
    }

    fn act(&self, argv: &[&str]) {
        match argv {
            ["update-grub"] => self.grub_mkconfig("/boot/grub/grub.cfg"),
            ["grub-mkconfig" | "grub2-mkconfig", "-o", path] => self.grub_mkconfig(path),
            ["update-initramfs", "-u", "-k", kernel] => {
                let list = self.text("/etc/initramfs-tools/modules");
                let image = format!("/boot/initrd.img-{kernel}");
                self.initramfs_tools(&image, &list);
                // The hook that systemd-boot brings.
                if self.root.program(&["kernel-install"]).is_some() {
                    self.kernel_install(kernel, &[&format!("/boot/vmlinuz-{kernel}"), &image]);
                }
            }
            ["mkinitramfs", "-d", folder, "-o", out, _] => {
                let list = self.text(Path::new(folder).join("modules"));
                self.initramfs_tools(out, &list);
            }
            ["dracut", "--force", "--force-drivers", forced, out, _] => self.dracut(out, forced),
            ["dracut", "--force", out, _] => {
                let mut vars = ShellVars::default();
                for path in self.root.files("/etc/dracut.conf.d", ".conf").expect("list") {
                    vars.read(&self.text(path));
                }
                self.dracut(out, vars.get("force_drivers"));
            }
            ["mkinitcpio", "-p", preset] => self.mkinitcpio(preset),
            ["mkinitcpio", "-k", _, "-c", config, "-g", out] => {
                let image = self.mkinitcpio_image(&self.text(config));
                self.write(out, &image);
            }
            ["kernel-install", "add", kernel, rest @ ..] => self.kernel_install(kernel, rest),
            ["kernelstub"] => self.kernelstub(),
            ["grub-reboot" | "grub2-reboot", id] => {
                let folder =
                    if self.root.is_dir("/boot/grub2") { "/boot/grub2" } else { "/boot/grub" };
                self.set_env(Path::new(folder).join("grubenv"), &[("next_entry", id)]);
            }
            ["bootctl", "set-oneshot", id] => self.write(ONE_SHOT, &efi_bytes(id)),
            ["ukify", "build", rest @ ..] => self.ukify(rest),
            other => panic!("the distribution has no such command: {other:?}"),
        }
    }

    /// What the loader boots next, as the real ones choose it.
    pub fn next_line(&self) -> String {
        let loader = detect(self.root, None).expect("known");
        let (_, first) = loader.installed_lines(self.root).expect("lines").remove(0);
        match &loader {
            Loader::Grub(grub) => {
                let env = self
                    .root
                    .read(&grub.env)
                    .expect("readable")
                    .and_then(|b| Env::parse(&b))
                    .unwrap_or_default();
                if env.get("next_entry") != Some(trial::ENTRY) {
                    return first.as_str().to_owned();
                }
                let custom = self.text(grub.cfg.with_file_name("custom.cfg"));
                let entry =
                    entries(&custom).into_iter().find(|e| e.id == trial::ENTRY).expect("entry");
                let mark = entry
                    .body
                    .iter()
                    .find_map(|l| l.trim().strip_prefix("set slot_cmdline_trial="));
                let mut pairs = vec![("next_entry", "")];
                pairs.extend(mark.map(|mark| ("slot_cmdline_trial", mark)));
                self.set_env(&grub.env, &pairs);
                entry.linux().expect("kernel").1.as_str().to_owned()
            }
            Loader::SystemdBoot(boot) => {
                let Some(id) = efi_text(self.root, "LoaderEntryOneShot") else {
                    return first.as_str().to_owned();
                };
                fs::remove_file(self.root.host(Path::new(ONE_SHOT))).expect("taken");
                let path = boot.boot.join("loader/entries").join(id);
                Entry::parse(&self.text(path)).options().as_str().to_owned()
            }
            Loader::Unified(unified) => {
                let Some(id) = efi_text(self.root, "LoaderEntryOneShot") else {
                    return first.as_str().to_owned();
                };
                fs::remove_file(self.root.host(Path::new(ONE_SHOT))).expect("taken");
                let bytes = self
                    .root
                    .read(unified.esp.join("EFI/Linux").join(id))
                    .expect("readable")
                    .expect("there");
                String::from_utf8(uki::section(&bytes, ".cmdline").expect("line")).expect("text")
            }
        }
    }

    fn grub_mkconfig(&self, out: &str) {
        let mut texts = vec![self.text("/etc/default/grub")];
        if self.text("/usr/sbin/grub-mkconfig").contains("grub.d") && self.mood == Mood::Honest {
            let paths = self.root.files("/etc/default/grub.d", ".cfg").expect("list");
            texts.extend(paths.into_iter().map(|path| self.text(path)));
        }
        let lines = GrubLines::of(texts.iter().map(String::as_str));
        let bls = texts[0].contains("GRUB_ENABLE_BLSCFG=true");
        let mut cfg = String::from(
            "if [ \"${next_entry}\" ] ; then\n   set default=\"${next_entry}\"\n   set next_entry=\n   save_env next_entry\n   set boot_once=true\nfi\n",
        );
        for kernel in self.kernels() {
            let image = format!("/boot/vmlinuz-{kernel}");
            let image =
                if self.root.is_file(&image) { image } else { "/boot/vmlinuz-linux".into() };
            let initrd = format!("/boot/initrd.img-{kernel}");
            let initrd = if self.root.is_file(&initrd) {
                initrd
            } else {
                "/boot/initramfs-linux.img".into()
            };
            for (title, line) in [
                ("Linux", lines.joined()),
                ("Linux (recovery)", Line::new(format!("single {}", lines.all))),
            ] {
                if !bls {
                    let _ = writeln!(
                        cfg,
                        "menuentry '{title}' --class os $menuentry_id_option 'gnulinux-{kernel}' {{\n\tinsmod ext2\n\tsearch --fs-uuid --set=root 1\n\techo 'Loading'\n\tlinux\t{image} root=UUID=1 ro {line}\n\tinitrd\t{initrd}\n}}"
                    );
                }
            }
        }
        if bls {
            cfg += "insmod blscfg\nblscfg\n";
        }
        cfg += "if [ -f  ${config_directory}/custom.cfg ]; then\n  source ${config_directory}/custom.cfg\nfi\n";
        self.write(out, cfg.as_bytes());
    }

    /// modprobe.d and modules as an image has them; a build number, as no two builds are alike.
    fn image(&self, mut modules: Vec<String>, mut files: Vec<(String, String)>) -> Vec<u8> {
        modules.push("ext4".into());
        if self.root.is_file("/etc/rival-in-initramfs") {
            modules.push("nouveau".into());
        }
        if self.mood == Mood::Honest {
            for path in self.root.files("/etc/modprobe.d", ".conf").expect("list") {
                files.push((
                    path.display().to_string().trim_start_matches('/').into(),
                    self.text(&path),
                ));
            }
        } else {
            modules.retain(|module| !module.contains("vfio") && !module.contains("stub"));
        }
        let nth = BUILDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        files.push(("etc/built".into(), format!("{nth}")));
        for module in modules {
            files.push((format!("usr/lib/modules/6/kernel/{module}.ko"), String::new()));
        }
        let files: Vec<_> = files.iter().map(|(n, t)| (n.as_str(), t.as_bytes())).collect();
        let mut out =
            GzEncoder::new(archive_of(&[("kernel/x86/microcode", b"early")]), Compression::fast());
        out.write_all(&archive_of(&files)).expect("packed");
        out.finish().expect("packed")
    }

    fn initramfs_tools(&self, out: &str, list: &str) {
        let modules: Vec<String> = list
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect();
        let image = self.image(modules.clone(), vec![("conf/modules".into(), modules.join("\n"))]);
        self.write(out, &image);
    }

    fn dracut(&self, out: &str, forced: &str) {
        let modules: Vec<String> = forced.split_ascii_whitespace().map(str::to_owned).collect();
        let lines = modules.iter().fold(String::new(), |all, m| all + "rd.driver.pre=" + m + "\n");
        let image =
            self.image(modules, vec![("etc/cmdline.d/20-force_drivers.conf".into(), lines)]);
        self.write(out, &image);
    }

    fn mkinitcpio_image(&self, config: &str) -> Vec<u8> {
        let mut modules = String::new();
        for line in config.lines().filter_map(|line| line.strip_prefix("MODULES=(")) {
            let names =
                line.trim_end().trim_end_matches(')').replace("\"${MODULES[@]}\"", &modules);
            names.trim().clone_into(&mut modules);
        }
        let list: Vec<String> = modules.split_ascii_whitespace().map(str::to_owned).collect();
        self.image(list, vec![("config".into(), format!("MODULES=\"{modules}\"\n"))])
    }

    fn mkinitcpio(&self, preset: &str) {
        let mut config = self.text("/etc/mkinitcpio.conf");
        for path in self.root.files("/etc/mkinitcpio.conf.d", ".conf").expect("list") {
            config += &self.text(path);
        }
        let mut vars = ShellVars::default();
        vars.read(&self.text(format!("/etc/mkinitcpio.d/{preset}.preset")));
        for name in vars.get("PRESETS").split_ascii_whitespace() {
            let image = self.mkinitcpio_image(&config);
            let (plain, uki) =
                (vars.get(&format!("{name}_image")), vars.get(&format!("{name}_uki")));
            if !plain.is_empty() {
                self.write(plain, &image);
            }
            if !uki.is_empty() {
                let honest = self.mood == Mood::Honest;
                let line = if honest { self.text("/etc/kernel/cmdline") } else { "quiet".into() };
                self.write(uki, &pe(&[(".cmdline", line.as_bytes()), (".initrd", &image)]));
            }
        }
    }

    fn kernel_install(&self, kernel: &str, rest: &[&str]) {
        let token = self.root.word("/etc/machine-id");
        let boot = PathBuf::from("/boot/efi");
        let folder = boot.join(&token).join(kernel);
        if !self.root.is_dir(boot.join(&token)) {
            return;
        }
        let own = self.root.is_file("/etc/kernel/cmdline");
        let line = match self.mood {
            Mood::Honest if own => self.text("/etc/kernel/cmdline"),
            // As the real one does it: whatever runs now.
            Mood::Honest => {
                let running = Line::new(self.text("/proc/cmdline"));
                running.without(&["BOOT_IMAGE", "initrd"]).as_str().to_owned()
            }
            _ => "quiet".into(),
        };
        let path = boot.join("loader/entries").join(format!("{token}-{kernel}.conf"));
        let entry = Entry::parse(&self.text(&path)).with_options(&Line::new(line.trim()));
        self.write(&path, entry.text().as_bytes());
        if let [_, initrd] = rest {
            let bytes = self.root.read(initrd).expect("readable").expect("there");
            self.write(folder.join(format!("initrd.img-{kernel}")), &bytes);
        }
    }

    fn kernelstub(&self) {
        let config: serde_json::Value =
            serde_json::from_str(&self.text("/etc/kernelstub/configuration")).expect("json");
        let options = config["user"]["kernel_options"].as_array().expect("list");
        let words: Vec<_> = options.iter().filter_map(|value| value.as_str()).collect();
        let path = "/boot/efi/loader/entries/Pop_OS-current.conf";
        let line = Line::new(format!("root=UUID=1 ro {}", words.join(" ")));
        self.write(path, Entry::parse(&self.text(path)).with_options(&line).text().as_bytes());
    }

    fn ukify(&self, rest: &[&str]) {
        let value = |name: &str| {
            let prefix = format!("--{name}=");
            rest.iter().find_map(|word| word.strip_prefix(&prefix)).expect("argument").to_owned()
        };
        let image = self.root.read(value("initrd")).expect("readable").expect("there");
        let line = value("cmdline");
        self.write(value("output"), &pe(&[(".cmdline", line.as_bytes()), (".initrd", &image)]));
    }
}

/// The variable that names the next boot's entry.
const ONE_SHOT: &str =
    "/sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// A variable's file: attributes, then UTF-16.
pub fn efi_bytes(text: &str) -> Vec<u8> {
    let mut bytes = vec![7, 0, 0, 0];
    bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    bytes
}

static BUILDS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// GRUB's environment block with these variables.
pub fn env_block(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut block = b"# GRUB Environment Block\n".to_vec();
    for (key, value) in pairs {
        block.extend_from_slice(format!("{key}={value}\n").as_bytes());
    }
    block.resize(1024, b'#');
    block
}

/// A PE file of nothing but sections.
pub fn pe(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let count = u16::try_from(sections.len()).expect("few");
    let mut head = vec![0; 64];
    head[..2].copy_from_slice(b"MZ");
    head[60] = 64;
    head.extend_from_slice(b"PE\0\0");
    head.extend_from_slice(&0x8664_u16.to_le_bytes());
    head.extend_from_slice(&count.to_le_bytes());
    head.extend_from_slice(&[0; 12]);
    head.extend_from_slice(&240_u16.to_le_bytes());
    head.extend_from_slice(&0x22_u16.to_le_bytes());
    let optional = head.len();
    head.resize(optional + 240, 0);
    head[optional..optional + 2].copy_from_slice(&0x20b_u16.to_le_bytes());
    head[optional + 108..optional + 112].copy_from_slice(&16_u32.to_le_bytes());
    let mut data = vec![0; (head.len() + sections.len() * 40).next_multiple_of(512)];
    let start = data.len();
    for (name, bytes) in sections {
        let size = u32::try_from(bytes.len()).expect("small");
        let at = u32::try_from(data.len()).expect("small");
        let mut header = [0; 40];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[8..12].copy_from_slice(&size.to_le_bytes());
        header[12..16].copy_from_slice(&at.to_le_bytes());
        header[16..20].copy_from_slice(&size.next_multiple_of(512).to_le_bytes());
        header[20..24].copy_from_slice(&at.to_le_bytes());
        head.extend_from_slice(&header);
        data.extend_from_slice(bytes);
        data.resize(data.len().next_multiple_of(512), 0);
    }
    assert!(head.len() <= start);
    data[..head.len()].copy_from_slice(&head);
    data
}
