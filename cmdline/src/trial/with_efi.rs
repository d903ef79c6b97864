//! A trial with systemd-boot: an entry or a unified image of its own, used once.

use std::path::{Path, PathBuf};

use super::{
    ENTRY_FILE, IMAGE, Trial,
    arm::{Base, SCRATCH, beside, on_disk, own_image, unusable},
};
use crate::{
    bls::Entry,
    error::{Error, Result},
    loader::{SystemdBoot, Unified, modprobe_fallback, uki},
    machine::{Kernel, Machine, SecureBoot, efi_text},
    plan::{Expect, Output, Run, Steps, order},
    root::Root,
    tokens::Line,
};

pub(super) fn with_systemd_boot(
    steps: &mut Steps<'_>,
    root: &Root,
    base: &Base<'_>,
    trial: &Trial,
    boot: &SystemdBoot,
) -> Result<()> {
    let (path, old) = sd_base(root, base.kernel, boot)?;
    let new = old.options().merged(&base.wants, modprobe_fallback(root)?);
    let mut entry = old.with("title", &["slot-cmdline trial (once)"]).with_options(&new);
    if let (Some((paths, ours)), Some(last)) =
        (beside(&old.values("initrd")), old.values("initrd").last())
    {
        let there = on_disk(root, &boot.boot, last).ok_or_else(|| {
            unusable(&format!("{last} was not found below {}", boot.boot.display()))
        })?;
        let image = there.with_file_name(ours.rsplit('/').next().unwrap_or(IMAGE));
        if own_image(steps, root, base, trial, &image)? {
            let paths: Vec<_> = paths.iter().map(String::as_str).collect();
            entry = entry.with("initrd", &paths);
        }
    }
    pin_default(steps, root, &boot.esp, &path)?;
    let file = boot.boot.join("loader/entries").join(ENTRY_FILE);
    steps.edit(file, "the trial's own entry", |_| entry.text().into_bytes())?;
    steps.run(one_shot(ENTRY_FILE));
    Ok(())
}

fn one_shot(id: &str) -> Run {
    Run {
        argv: ["bootctl", "set-oneshot", id].map(str::to_owned).to_vec(),
        why: "the trial's entry is used at the next boot, once".into(),
        outputs: Vec::new(),
        expect: vec![Expect::OneShot(id.to_owned())],
    }
}

fn sd_base(root: &Root, kernel: &Kernel, boot: &SystemdBoot) -> Result<(PathBuf, Entry)> {
    let selected = efi_text(root, "LoaderEntrySelected").unwrap_or_default();
    let chosen = boot
        .entries
        .iter()
        .find(|path| path.file_name().is_some_and(|name| name == selected.as_str()));
    let by_release =
        || boot.entries.iter().find(|path| path.to_string_lossy().contains(&kernel.release));
    let path = chosen.or_else(by_release).or_else(|| boot.entries.first());
    let path = path.ok_or_else(|| unusable("systemd-boot has no entry"))?;
    Ok((path.clone(), Entry::parse(&root.text(path)?.unwrap_or_default())))
}

/// Without a default that names an entry, the loader sorts them, and the trial's might come first
/// for good.
fn pin_default(steps: &mut Steps<'_>, root: &Root, esp: &Path, entry: &Path) -> Result<()> {
    let path = esp.join("loader/loader.conf");
    let conf = Entry::parse(&root.text(&path)?.unwrap_or_default());
    let named =
        conf.value("default").map(|pattern| pattern == "@saved" || !matches(pattern, ENTRY_FILE));
    if named == Some(true) {
        return Ok(());
    }
    let id = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let new = conf.with("default", &[&id]).text();
    steps.edit(path, "the old entry stays the default", |_| new.into_bytes())
}

/// A pattern with `*` and `?`, as the loader matches entry ids.
fn matches(pattern: &str, name: &str) -> bool {
    let mut rest = name;
    let mut pieces = pattern.split('*').peekable();
    let fits = |piece: &str, text: &str| {
        text.len() >= piece.len()
            && piece.bytes().zip(text.bytes()).all(|(p, t)| p == b'?' || p.eq_ignore_ascii_case(&t))
    };
    let mut first = true;
    while let Some(piece) = pieces.next() {
        let last = pieces.peek().is_none();
        let at = (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).find(|at| {
            (!first || *at == 0)
                && fits(piece, &rest[*at..])
                && (!last || piece.is_empty() || rest.len() - at == piece.len())
        });
        let Some(at) = at else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or("");
        if last && first {
            return rest.is_empty();
        }
        first = false;
    }
    true
}

pub(super) fn with_unified(
    steps: &mut Steps<'_>,
    root: &Root,
    machine: &Machine,
    base: &Base<'_>,
    trial: &Trial,
    unified: &Unified,
) -> Result<()> {
    if machine.secure_boot == SecureBoot::On {
        return Err(Error::refused(
            "Secure Boot is on, and a trial's own unified image would not be signed",
            "Sign one by hand, or switch Secure Boot off for the trial",
        ));
    }
    if root.program(&["ukify"]).is_none() {
        return Err(Error::refused(
            "a trial with unified images needs ukify, which is not installed",
            "Install systemd-ukify",
        ));
    }
    let (path, kernel) = (unified.images.first(), base.kernel.image.as_ref());
    let (Some(path), Some(kernel)) = (path, kernel) else {
        return Err(unusable("no unified image was found"));
    };
    let bytes = root.read(path)?.unwrap_or_default();
    let line = uki::section(&bytes, ".cmdline").unwrap_or_default();
    let line = Line::new(String::from_utf8_lossy(&line).trim_end_matches('\0').trim());
    let new = line.merged(&base.wants, modprobe_fallback(root)?);
    let image = Path::new(SCRATCH).join(IMAGE);
    if !own_image(steps, root, base, trial, &image)? {
        return Err(Error::refused(
            "the trial of a built-in parker with unified images is not supported",
            "Use `slot-cmdline install`",
        ));
    }
    let target = unified.esp.join("EFI/Linux").join(uki::TRIAL);
    let arguments = [
        format!("--linux={}", kernel.display()),
        format!("--initrd={}", image.display()),
        format!("--cmdline={new}"),
        format!("--output={}", target.display()),
    ];
    let mut argv = vec!["ukify".to_owned(), "build".into()];
    argv.extend(arguments);
    steps.run(Run {
        argv,
        why: "the trial's own unified image".into(),
        outputs: vec![Output::File(target.clone())],
        expect: vec![Expect::Unified {
            path: target,
            wants: base.wants.clone(),
            order: Some(order(base.choice)),
        }],
    });
    pin_default(steps, root, &unified.esp, path)?;
    steps.run(one_shot(uki::TRIAL));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_the_loaders_do() {
        for (pattern, fits) in [
            ("slot-cmdline-trial.conf", true),
            ("SLOT-*", true),
            ("*", true),
            ("*trial*", true),
            ("slot?cmdline*.conf", true),
            ("debian-*", false),
            ("slot", false),
            ("*.efi", false),
        ] {
            assert_eq!(matches(pattern, ENTRY_FILE), fits, "{pattern}");
        }
    }
}
