//! Making a trial's entry and image, and telling the loader to use them once.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{ENTRY, ENTRY_FILE, IMAGE, TAKEN, Trial, once, safety_net};
use crate::{
    apply::Stored,
    bls::Entry,
    error::{Error, Result},
    grub::{self, Env, MenuEntry},
    initramfs::OwnBuild,
    loader::{Grub, Loader, SystemdBoot, Unified, bls_expand, detect, modprobe_fallback, uki},
    machine::{Kernel, Machine, SecureBoot, efi_text},
    parker::{Choice, choose},
    plan::{
        Content, Expect, Options, Output, Plan, Purpose, Run, Step, Steps, order, softdeps, tool,
    },
    root::Root,
    tokens::{Line, Want},
};

/// Folder for what only the trial needs.
const SCRATCH: &str = "/var/lib/slot-cmdline/trial";

/// A new trial.
pub fn arm(machine: &Machine, options: Options) -> Trial {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = format!("{}{}", machine.running.boot_id, now.as_nanos());
    let mark = Stored::of(&Content::new(seed)).sha256[..12].to_owned();
    Trial { mark, armed_in: machine.running.boot_id.clone(), seen_in: None, options }
}

/// What is booted: kernel, line and images as the loader names them.
struct Base<'a> {
    kernel: &'a Kernel,
    choice: &'a Choice,
    wants: Vec<Want>,
}

/// The plan that arms `trial`.
pub fn plan(root: &Root, machine: &Machine, trial: &Trial) -> Result<Plan> {
    let choice = choose(machine, trial.options.parker)?;
    let loader = detect(root, trial.options.loader)?;
    let kernel = machine.kernel().ok_or_else(|| unusable("no installed kernel was found"))?;
    let mut wants = choice.wants.clone();
    wants.extend(safety_net(&trial.mark));
    let base = Base { kernel, choice: &choice, wants };
    let mut steps = Steps::new(root);
    match &loader {
        Loader::Grub(grub) => {
            once::grub(root, grub)?;
            with_grub(&mut steps, root, &base, trial, grub)?;
        }
        Loader::SystemdBoot(boot) => {
            once::systemd_boot(root)?;
            with_systemd_boot(&mut steps, root, &base, trial, boot)?;
        }
        Loader::Unified(unified) => {
            once::systemd_boot(root)?;
            with_unified(&mut steps, root, machine, &base, trial, unified)?;
        }
    }
    let initramfs = choice.early_load.then(|| tool(root, trial.options)).transpose()?;
    let notes = vec![
        "one boot only: without `slot-cmdline confirm` the boot after it is the old one".to_owned(),
        format!("the trial's line carries {}", text(&safety_net(&trial.mark))),
    ];
    let initramfs = initramfs.map(|tool| format!("{}, an image of the trial's own", tool.name()));
    let purpose = Purpose { choice, loader: loader.name().to_owned(), initramfs, notes };
    Ok(Plan { purpose, steps: steps.finish() })
}

fn text(wants: &[Want]) -> String {
    wants.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn unusable(what: &str) -> Error {
    Error::UnknownSetup { what: what.to_owned(), by_hand: Vec::new() }
}

/// Builds the trial's own initramfs at `image`; whether there is one.
fn own_image(
    steps: &mut Steps<'_>,
    root: &Root,
    base: &Base<'_>,
    trial: &Trial,
    image: &Path,
) -> Result<bool> {
    if !base.choice.early_load {
        return Ok(false);
    }
    let parker = base.choice.parker.driver();
    let build = OwnBuild { scratch: PathBuf::from(SCRATCH), image: image.to_owned() };
    let tool = tool(root, trial.options)?;
    let argv = tool.own_build(steps, root, base.kernel, parker.as_str(), &build)?;
    steps.run(Run {
        argv,
        why: "builds the trial's own initramfs, beside the old one".into(),
        outputs: vec![Output::File(image.to_owned())],
        expect: vec![Expect::Written(image.to_owned())],
    });
    steps.push(Step::Append {
        image: image.to_owned(),
        files: vec![("etc/modprobe.d/zz-slot-cmdline.conf".into(), softdeps(parker.as_str()))],
        expect: vec![Expect::Initramfs {
            path: image.to_owned(),
            order: order(base.choice),
            unblocked: false,
        }],
    });
    Ok(true)
}

/// Where a path of the loader's lies: on the boot partition, which is mounted at `boot` or is the
/// root file system.
fn on_disk(root: &Root, boot: &Path, path: &str) -> Option<PathBuf> {
    let bare = path.strip_prefix("($root)").unwrap_or(path);
    let inside = boot.join(bare.trim_start_matches('/'));
    [inside, PathBuf::from(bare)].into_iter().find(|path| root.is_file(path))
}

/// `paths` with the last one, the distribution's own image, replaced by one beside it.
fn beside(paths: &[&str]) -> Option<(Vec<String>, String)> {
    let (last, others) = paths.split_last()?;
    let (folder, _) = last.rsplit_once('/')?;
    let ours = format!("{folder}/{IMAGE}");
    let mut all: Vec<String> = others.iter().map(|path| (*path).to_owned()).collect();
    all.push(ours.clone());
    Some((all, ours))
}

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

fn with_grub(
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
        crate::shellvars::end_line(&mut bytes);
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

fn with_systemd_boot(
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

fn with_unified(
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
