//! Making a trial's entry and image, and telling the loader to use them once.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    IMAGE, Trial, once, safety_net,
    with_efi::{with_systemd_boot, with_unified},
    with_grub::with_grub,
};
use crate::{
    apply::Stored,
    error::{Error, Result},
    initramfs::OwnBuild,
    loader::{Loader, detect},
    machine::{Kernel, Machine},
    parker::{Choice, choose},
    plan::{
        Content, Expect, Options, Output, Plan, Purpose, Run, Step, Steps, order, softdeps, tool,
    },
    root::Root,
    tokens::Want,
};

/// Folder for what only the trial needs.
pub(super) const SCRATCH: &str = "/var/lib/slot-cmdline/trial";

/// A new trial.
pub fn arm(machine: &Machine, options: Options) -> Trial {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = format!("{}{}", machine.running.boot_id, now.as_nanos());
    let mark = Stored::of(&Content::new(seed)).sha256[..12].to_owned();
    Trial { mark, armed_in: machine.running.boot_id.clone(), seen_in: None, options }
}

/// What is booted: kernel, line and images as the loader names them.
pub(super) struct Base<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) choice: &'a Choice,
    pub(super) wants: Vec<Want>,
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

pub(super) fn unusable(what: &str) -> Error {
    Error::UnknownSetup { what: what.to_owned(), by_hand: Vec::new() }
}

/// Builds the trial's own initramfs at `image`; whether there is one.
pub(super) fn own_image(
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
pub(super) fn on_disk(root: &Root, boot: &Path, path: &str) -> Option<PathBuf> {
    let bare = path.strip_prefix("($root)").unwrap_or(path);
    let inside = boot.join(bare.trim_start_matches('/'));
    [inside, PathBuf::from(bare)].into_iter().find(|path| root.is_file(path))
}

/// `paths` with the last one, the distribution's own image, replaced by one beside it.
pub(super) fn beside(paths: &[&str]) -> Option<(Vec<String>, String)> {
    let (last, others) = paths.split_last()?;
    let (folder, _) = last.rsplit_once('/')?;
    let ours = format!("{folder}/{IMAGE}");
    let mut all: Vec<String> = others.iter().map(|path| (*path).to_owned()).collect();
    all.push(ours.clone());
    Some((all, ours))
}
