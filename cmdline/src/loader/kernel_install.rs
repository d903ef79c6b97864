//! `/etc/kernel/cmdline`, which kernel-install gives every kernel, and the entries made from it.

use super::{Loader, SystemdBoot, bls_files::modprobe_fallback, detect::kernel_install_token};
use crate::{
    error::{Error, Result},
    machine::Machine,
    plan::{Expect, Output, Run, Steps},
    root::Root,
    tokens::{Line, Want, keys},
};

/// The file.
const LINE: &str = "/etc/kernel/cmdline";
/// What a loader adds to a running line.
const LOADERS: [&str; 2] = ["BOOT_IMAGE", "initrd"];
/// What a trial adds, and what must not be inherited.
const TRIALS: [&str; 5] =
    [keys::TRIAL, "panic", "softlockup_panic", "hung_task_panic", "nmi_watchdog"];

/// Merges `wants` into the file. Where there is none, kernel-install would copy the running line,
/// whatever that is: the line of the installed entries goes there instead.
pub(super) fn configure_line(
    steps: &mut Steps<'_>,
    root: &Root,
    machine: &Machine,
    loader: &Loader,
    wants: &[Want],
) -> Result<()> {
    let fallback = modprobe_fallback(root)?;
    let old = root.text(LINE)?;
    let base = match &old {
        Some(text) => Line::new(text.clone()),
        None => Line::new(default_line(root, machine, loader)?),
    };
    if base.as_str().contains('$') {
        // Entries that take their line from GRUB's environment: kernel-install copies that.
        return Ok(());
    }
    let mut merged = base.merged(wants, fallback).as_str().to_owned();
    if old.is_none() {
        merged.push('\n');
    }
    steps.edit(LINE, "the line that kernel-install gives every kernel", |_| merged.into_bytes())
}

fn default_line(root: &Root, machine: &Machine, loader: &Loader) -> Result<String> {
    if let Some(text) = root.text("/usr/lib/kernel/cmdline")? {
        return Ok(text.trim_end().to_owned());
    }
    if let Some((_, line)) = loader.installed_lines(root)?.last() {
        return Ok(line.without(&LOADERS).as_str().to_owned());
    }
    let running = machine.running.line.without(&LOADERS);
    let on_trial = running.effective(keys::TRIAL).is_some();
    Ok(if on_trial { running.without(&TRIALS) } else { running }.as_str().to_owned())
}

/// Has every entry written again.
pub(super) fn rewrite_entries(
    steps: &mut Steps<'_>,
    root: &Root,
    machine: &Machine,
    boot: &SystemdBoot,
    wants: &[Want],
) -> Result<()> {
    let token = kernel_install_token(root);
    let folder = boot.boot.join(&token);
    if token.is_empty() || !root.is_dir(&folder) {
        return Err(Error::UnknownSetup {
            what: format!("kernel-install does nothing without the folder {}", folder.display()),
            by_hand: Vec::new(),
        });
    }
    for kernel in &machine.kernels {
        let entry =
            boot.boot.join("loader/entries").join(format!("{token}-{}.conf", kernel.release));
        let (Some(image), true) = (&kernel.image, root.is_file(&entry)) else { continue };
        let done = Expect::Entry { path: entry.clone(), wants: wants.to_vec() };
        if steps.is_empty() && done.complaint(root)?.is_none() {
            continue;
        }
        let image = image.display().to_string();
        let mut argv =
            vec!["kernel-install".to_owned(), "add".into(), kernel.release.clone(), image];
        let initrd = format!("/boot/initrd.img-{}", kernel.release);
        if root.is_file(&initrd) {
            argv.push(initrd);
        }
        steps.run(Run {
            argv,
            why: format!("writes the entry of {} again, with its initramfs", kernel.release),
            outputs: vec![Output::File(entry.clone()), Output::Tree(folder.join(&kernel.release))],
            expect: vec![done],
        });
    }
    Ok(())
}
