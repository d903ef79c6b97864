//! What the guest boots into.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    Nvidia, Options,
    files::{Part, own_modules, release},
    tree::Tree,
};

const INIT: &str = include_str!("../../guest/init");
const MARK: &str = include_str!("../../guest/mark");
/// Modules that every guest has: both parkers, so that a test can change its mind.
const MODULES: [&str; 3] = ["pci-stub", "vfio-pci", "vfio_iommu_type1"];

/// Makes the archive that the kernel unpacks, at `to`. `staging` is an empty folder.
pub(super) fn build(options: &Options, rig: &Path, staging: &Path, to: &Path) -> Result<()> {
    let tree = Tree::new(staging.to_owned());
    for folder in ["proc", "sys", "dev", "run", "tmp", "root", "etc", "var/lib", "var/log"] {
        fs::create_dir_all(staging.join(folder))?;
    }
    let guest = Part::Guest.path(rig);
    tree.copy(&guest.join("bin/busybox"), "/bin/busybox")?;
    // This machine's shell: busybox's own would run its modprobe in place of kmod's.
    let shell = fs::canonicalize("/bin/sh").context("find /bin/sh")?;
    tree.program(&shell, "/bin/sh")?;
    tree.copy(&guest.join("lib"), "/opt/rig/lib")?;
    tree.copy(&guest.join("bin"), "/opt/rig/bin")?;
    tree.link("/sbin/modprobe", "/opt/rig/bin/modprobe")?;
    tree.link("/usr/share/misc/pci.ids", "/opt/rig/lib/pci.ids")?;
    tree.script("/init", INIT)?;
    tree.script("/opt/rig/bin/mark", MARK)?;
    tree.script("/rig/environment", &environment(options)?)?;
    modules(options, rig, &tree)?;
    for program in &options.programs {
        let name =
            program.file_name().with_context(|| format!("{} has no name", program.display()))?;
        tree.program(program, &format!("/bin/{}", name.to_string_lossy()))?;
    }
    let (test, arguments) = options.test.split_first().context("a test is needed")?;
    tree.program(Path::new(test), "/rig/test")?;
    let words: Vec<String> = arguments.iter().map(|word| quote(word)).collect();
    tree.script("/rig/run", &format!("exec /rig/test {}\n", words.join(" ")))?;
    tree.archive(to)
}

/// A word that the shell takes as it is.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn environment(options: &Options) -> Result<String> {
    let slots: Vec<String> = options.profile.slots().iter().map(ToString::to_string).collect();
    let mut lines = vec![
        format!("export RIG_KERNEL={}", options.kernel),
        format!("export RIG_PROFILE={}", quote(&format!("{:?}", options.profile).to_lowercase())),
        format!("export RIG_PARKER={}", quote(options.parker())),
        format!("export RIG_SLOTS={}", quote(&slots.join(","))),
        format!("export RIG_NVIDIA={}", quote(&format!("{:?}", options.nvidia).to_lowercase())),
    ];
    for pair in &options.environment {
        let (name, value) =
            pair.split_once('=').with_context(|| format!("`{pair}` is not NAME=VALUE"))?;
        lines.push(format!("export {name}={}", quote(value)));
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// Puts in the modules of the kernel that are wanted, with what they need, and those of ours.
fn modules(options: &Options, rig: &Path, tree: &Tree) -> Result<()> {
    let release = release(options.kernel, rig)?;
    let from = Part::Kernel(options.kernel).path(rig).join("lib/modules").join(&release);
    let to = format!("/lib/modules/{release}");
    let path = from.join("modules.dep");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let drm = (options.nvidia == Nvidia::Real).then_some("drm");
    let extra = options.modules.iter().map(String::as_str);
    for file in closure(&text, MODULES.into_iter().chain(drm).chain(extra))? {
        tree.copy(&from.join(&file), &format!("{to}/{file}"))?;
    }
    for name in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        tree.copy(&from.join(name), &format!("{to}/{name}"))?;
    }
    for part in own_modules(options) {
        let path = part.path(rig);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        tree.copy(&path, &format!("{to}/updates/{name}"))?;
    }
    let depmod = Part::Guest.path(rig).join("bin/depmod");
    let status = Command::new(depmod).arg("-b").arg(tree.root()).arg(&release).status();
    ensure!(status.context("run depmod")?.success(), "depmod failed for {release}");
    Ok(())
}

/// The files of `wanted` and of all that they need, from a `modules.dep`.
fn closure<'a>(
    dependencies: &str,
    wanted: impl Iterator<Item = &'a str>,
) -> Result<BTreeSet<String>> {
    let plain = |name: &str| name.replace('-', "_");
    let mut files = BTreeSet::new();
    for name in wanted {
        let line = dependencies.lines().find(|line| {
            let file = line.split(':').next().unwrap_or_default();
            let file = PathBuf::from(file);
            let stem = file.file_name().map(|name| name.to_string_lossy().into_owned());
            stem.is_some_and(|stem| {
                plain(stem.split('.').next().unwrap_or_default()) == plain(name)
            })
        });
        let Some((file, needs)) = line.and_then(|line| line.split_once(':')) else {
            bail!("the kernel has no module `{name}`")
        };
        files.insert(file.to_owned());
        files.extend(needs.split_whitespace().map(str::to_owned));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_bring_what_they_need() {
        let text = "kernel/a/vfio-pci.ko.xz: kernel/b/vfio.ko.xz kernel/c/irqbypass.ko.xz\n\
                    kernel/b/vfio.ko.xz:\nkernel/c/irqbypass.ko.xz:\n";
        let files = closure(text, ["vfio_pci"].into_iter()).expect("there");
        assert_eq!(files.len(), 3);
        assert!(closure(text, ["vfio_pc"].into_iter()).is_err());
    }

    #[test]
    fn words_reach_the_test_as_they_are() {
        assert_eq!(quote("it's $HOME"), r"'it'\''s $HOME'");
    }
}
