//! A trial with GRUB: an entry of its own in `custom.cfg`, used once.

use std::path::Path;

use super::{
    ENTRY, IMAGE, TAKEN, Trial,
    arm::{Base, beside, on_disk, own_image, unusable},
};
use crate::{
    bls::Entry,
    error::Result,
    grub::{self, Env, MenuEntry},
    loader::{Grub, bls_expand, modprobe_fallback},
    machine::Kernel,
    plan::{Content, Expect, Output, Run, Steps},
    root::Root,
    shellvars::end_line,
    tokens::Line,
};

/// The entry that boots the kernel that is known to boot.
fn grub_base(root: &Root, kernel: &Kernel, grub: &Grub) -> Result<MenuEntry> {
    let image = kernel.image.as_ref().and_then(|path| path.file_name()?.to_str()).unwrap_or("");
    let boots = |path: &str| path.rsplit('/').next() == Some(image);
    for path in &grub.entries {
        let entry = Entry::parse(&root.text(path)?.unwrap_or_default());
        if entry.value("linux").is_some_and(boots) {
            let line = bls_expand(root, &entry.options(), Some(&grub.env))?;
            let linux = entry.value("linux").unwrap_or("");
            let initrds = entry.values("initrd").join(" ");
            let plain = initrds
                .split(' ')
                .filter(|word| !word.starts_with('$'))
                .map(|p| format!("($root){p}"));
            let initrds = plain.collect::<Vec<_>>().join(" ");
            return Ok(MenuEntry {
                title: String::new(),
                id: String::new(),
                body: vec![format!("linux ($root){linux} {line}"), format!("initrd {initrds}")],
            });
        }
    }
    let entries = grub::entries(&root.text(&grub.cfg)?.unwrap_or_default());
    let normal = |line: &Line| !line.words().any(|word| matches!(word.text, "single" | "recovery"));
    let found = entries
        .into_iter()
        .find(|entry| entry.linux().is_some_and(|(path, line)| boots(path) && normal(&line)));
    found
        .ok_or_else(|| unusable(&format!("{} has no entry that boots {image}", grub.cfg.display())))
}

pub(super) fn with_grub(
    steps: &mut Steps<'_>,
    root: &Root,
    base: &Base<'_>,
    trial: &Trial,
    grub: &Grub,
) -> Result<()> {
    let old = grub_base(root, base.kernel, grub)?;
    let (linux, line) = old.linux().ok_or_else(|| unusable("the entry has no kernel"))?;
    let new = line.merged(&base.wants, modprobe_fallback(root)?);
    let mut initrd: Vec<String> = old.initrd().iter().map(|path| (*path).to_owned()).collect();
    if let (Some((paths, ours)), Some(last)) = (beside(&old.initrd()), old.initrd().last()) {
        let there = on_disk(root, Path::new("/boot"), last)
            .ok_or_else(|| unusable(&format!("{last} was not found below /boot")))?;
        let image = there.with_file_name(ours.rsplit('/').next().unwrap_or(IMAGE));
        if own_image(steps, root, base, trial, &image)? {
            initrd = paths;
        }
    }
    let entry = grub_entry(&old, linux, (&line, &new), &initrd, &trial.mark);
    let custom = grub.cfg.with_file_name("custom.cfg");
    steps.edit(custom, "the trial's own entry", |existing| {
        let mut bytes = existing.unwrap_or_default().to_vec();
        end_line(&mut bytes);
        bytes.extend_from_slice(entry.as_bytes());
        bytes
    })?;
    if root.read(&grub.env)?.is_none() {
        steps.write(&grub.env, "GRUB's environment block", Content::new(Env::default().block()))?;
    }
    let reboot = root
        .program(&["grub-reboot", "grub2-reboot"])
        .ok_or_else(|| unusable("grub-reboot is not installed"))?;
    let reboot =
        reboot.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    steps.run(Run {
        argv: vec![reboot, ENTRY.into()],
        why: "the trial's entry is used at the next boot, once".into(),
        outputs: vec![Output::File(grub.env.clone())],
        expect: vec![Expect::GrubEnv {
            path: grub.env.clone(),
            key: "next_entry".into(),
            value: ENTRY.into(),
        }],
    });
    Ok(())
}

/// The entry itself makes sure that it is used once: it reads back from disk whether GRUB could
/// clear `next_entry`, and boots the old line where it could not.
fn grub_entry(
    old: &MenuEntry,
    linux: &str,
    (line, new): (&Line, &Line),
    initrd: &[String],
    mark: &str,
) -> String {
    let prelude: String =
        old.prelude().iter().fold(String::new(), |all, line| all + "\t" + line + "\n");
    let command = |name: &str, rest: &str| {
        if rest.is_empty() { String::new() } else { format!("\t\t{name} {rest}\n") }
    };
    let (ours, theirs) =
        (command("initrd", &initrd.join(" ")), command("initrd", &old.initrd().join(" ")));
    format!(
        "menuentry 'slot-cmdline trial (once)' --id {ENTRY} {{\n{prelude}\
         \tset next_entry=\n\tload_env next_entry\n\
         \tif [ -z \"${{next_entry}}\" ]; then\n\
         \t\tset {TAKEN}={mark}\n\t\tsave_env {TAKEN}\n\
         \t\tlinux {linux} {new}\n{ours}\
         \telse\n\t\techo 'slot-cmdline: GRUB could not clear the one-shot: the old line'\n\
         \t\tlinux {linux} {line}\n{theirs}\tfi\n}}\n"
    )
}
