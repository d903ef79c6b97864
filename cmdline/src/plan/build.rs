//! From a machine to a plan.

use serde::{Deserialize, Serialize};

use super::{Expect, Output, Plan, Purpose, Run, Steps};
use crate::{
    error::{Error, Result},
    initramfs::{InitramfsTool, Order, RIVALS},
    loader::{Loader, LoaderKind, UkiWriter, detect},
    machine::Machine,
    modprobe,
    parker::{Asked, Choice, choose},
    root::Root,
};

/// Our file in modprobe.d; behind those of others.
const SOFTDEPS: &str = "/etc/modprobe.d/zz-slot-cmdline.conf";

/// What the operator may settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The parker.
    pub parker: Asked,
    /// The boot loader.
    pub loader: Option<LoaderKind>,
    /// The initramfs tool.
    pub initramfs: Option<InitramfsTool>,
    /// What happens to lines that keep nvidia out.
    pub blacklist: Blacklist,
}

/// What happens to lines that keep nvidia out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blacklist {
    /// They stay and are shown.
    Keep,
    /// They are moved aside.
    Replace,
}

impl Default for Options {
    fn default() -> Self {
        Self { parker: Asked::Nothing, loader: None, initramfs: None, blacklist: Blacklist::Keep }
    }
}

/// Softdeps that load the parker before every driver that would take a die.
pub fn softdeps(parker: &str) -> String {
    let lines = RIVALS.iter().map(|rival| format!("softdep {rival} pre: {parker}\n"));
    lines.collect()
}

/// The order to prove for a parker.
pub fn order(choice: &Choice) -> Order {
    Order {
        parker: modprobe::plain(choice.parker.driver().as_str()),
        rivals: RIVALS.iter().map(ToString::to_string).collect(),
    }
}

/// What has to be added by hand to do the same.
pub fn by_hand(root: &Root, choice: &Choice, tool: Option<InitramfsTool>) -> Vec<String> {
    let parker = choice.parker.driver();
    let line: Vec<_> = choice.wants.iter().map(ToString::to_string).collect();
    let mut lines = vec![format!(
        "kernel command line (merge lists of ids that are there): {}",
        line.join(" ")
    )];
    if choice.early_load {
        let deps = softdeps(parker.as_str());
        lines.extend(deps.lines().map(|dep| format!("{SOFTDEPS}: {dep}")));
        match tool {
            Some(tool) => {
                let (path, text) = tool.line(root, parker.as_str());
                lines.push(format!("{}: {}", path.display(), text.trim_end()));
            }
            None => lines
                .push(format!("initramfs: bring {parker} and load it before nvidia and nouveau")),
        }
        lines.push("then rebuild the initramfs".into());
    }
    lines
}

/// The initramfs tool to use.
pub fn tool(root: &Root, options: Options) -> Result<InitramfsTool> {
    let found = InitramfsTool::detect(root);
    let unknown = |what: &str| Error::UnknownSetup { what: what.into(), by_hand: Vec::new() };
    match (options.initramfs, found.as_slice()) {
        (Some(asked), _) if found.contains(&asked) => Ok(asked),
        (Some(_), _) => Err(unknown("the initramfs tool named by --initramfs is not installed")),
        (None, [only]) => Ok(*only),
        (None, []) => Err(unknown("no initramfs tool that slot-cmdline knows was found")),
        (None, _) => Err(unknown(
            "more than one initramfs tool is installed: name the one in use with --initramfs",
        )),
    }
}

/// The plan that parks the dies at every boot.
pub fn install(root: &Root, machine: &Machine, options: Options) -> Result<Plan> {
    let choice = choose(machine, options.parker)?;
    let known_tool = tool(root, options);
    let hint = known_tool.as_ref().ok().copied();
    build(root, machine, options, choice.clone(), known_tool).map_err(|error| match error {
        Error::UnknownSetup { what, by_hand: lines } if lines.is_empty() => {
            Error::UnknownSetup { what, by_hand: by_hand(root, &choice, hint) }
        }
        error => error,
    })
}

fn build(
    root: &Root,
    machine: &Machine,
    options: Options,
    choice: Choice,
    tool: Result<InitramfsTool>,
) -> Result<Plan> {
    let loader = detect(root, options.loader)?;
    let parker = choice.parker.driver();
    let mut steps = Steps::new(root);
    let mut notes = notes(root, machine, options)?;
    let mut rebuild = false;
    if options.blacklist == Blacklist::Replace {
        rebuild = move_blocks_aside(&mut steps, root)?;
    }
    let tool = if choice.early_load || rebuild { Some(tool?) } else { None };
    if let Some(tool) = tool.filter(|_| choice.early_load) {
        let text = softdeps(parker.as_str());
        steps.edit(SOFTDEPS, "the parker is loaded before nvidia and nouveau", |_| {
            text.into_bytes()
        })?;
        tool.configure(&mut steps, root, parker.as_str())?;
    }
    let unified_by_tool =
        matches!(&loader, Loader::Unified(u) if u.writer == UkiWriter::Mkinitcpio);
    if !unified_by_tool && let Some(tool) = tool {
        rebuild_images(&mut steps, root, machine, &loader, tool, &choice, rebuild)?;
    }
    loader.configure(&mut steps, root, machine, &choice.wants, &mut notes)?;
    if let Loader::Unified(unified) = &loader {
        rewrite_unified(&mut steps, root, machine, unified, &choice)?;
    }
    let initramfs = tool.map(|tool| tool.name().to_owned());
    let purpose = Purpose { choice, loader: loader.name().to_owned(), initramfs, notes };
    Ok(Plan { purpose, steps: steps.finish() })
}

fn rebuild_images(
    steps: &mut Steps<'_>,
    root: &Root,
    machine: &Machine,
    loader: &Loader,
    tool: InitramfsTool,
    choice: &Choice,
    unblocked: bool,
) -> Result<()> {
    let jobs = tool.jobs(root, machine)?;
    // kernel-install has a unified image's initramfs made by itself.
    if jobs.is_empty() && !matches!(loader, Loader::Unified(_)) {
        return Err(Error::UnknownSetup {
            what: format!("{} is installed and has no image in /boot", tool.name()),
            by_hand: Vec::new(),
        });
    }
    for job in jobs {
        let expect: Vec<_> = job
            .images
            .iter()
            .map(|path| Expect::Initramfs { path: path.clone(), order: order(choice), unblocked })
            .filter(|_| choice.early_load)
            .collect();
        let mut stale = !steps.is_empty();
        for image in &expect {
            stale = stale || image.complaint(root)?.is_some();
        }
        if stale {
            let mut outputs: Vec<_> = job.images.iter().cloned().map(Output::File).collect();
            // Hooks of the distribution copy the image for the loader.
            outputs.extend(loader.outputs(root));
            let why = "rebuilds the initramfs with the parker in it".to_owned();
            steps.run(Run { argv: job.argv, why, outputs, expect });
        }
    }
    Ok(())
}

fn rewrite_unified(
    steps: &mut Steps<'_>,
    root: &Root,
    machine: &Machine,
    unified: &crate::loader::Unified,
    choice: &Choice,
) -> Result<()> {
    let order = choice.early_load.then(|| order(choice));
    let expect = |path: &std::path::Path| Expect::Unified {
        path: path.to_owned(),
        wants: choice.wants.clone(),
        order: order.clone(),
    };
    let mut runs = Vec::new();
    if unified.writer == UkiWriter::Mkinitcpio {
        for job in InitramfsTool::Mkinitcpio.jobs(root, machine)? {
            runs.push((job.argv, job.images));
        }
    } else {
        for kernel in &machine.kernels {
            let mine = unified
                .images
                .iter()
                .filter(|path| path.to_string_lossy().contains(&kernel.release));
            let (Some(image), mine) = (&kernel.image, mine.cloned().collect::<Vec<_>>()) else {
                continue;
            };
            let image = image.display().to_string();
            let argv =
                ["kernel-install", "add", &kernel.release, &image].map(str::to_owned).to_vec();
            if !mine.is_empty() {
                runs.push((argv, mine));
            }
        }
    }
    for (argv, images) in runs {
        let unified = images.iter().filter(|path| path.extension().is_some_and(|e| e == "efi"));
        let expect: Vec<_> = unified.map(|path| expect(path)).collect();
        let mut stale = !steps.is_empty();
        for image in &expect {
            stale = stale || image.complaint(root)?.is_some();
        }
        if stale {
            let outputs = images.into_iter().map(Output::File).collect();
            let why = "writes the unified image with the new line".to_owned();
            steps.run(Run { argv, why, outputs, expect });
        }
    }
    Ok(())
}

/// Turns the lines that keep nvidia out into comments; whether there were any.
fn move_blocks_aside(steps: &mut Steps<'_>, root: &Root) -> Result<bool> {
    let mut any = false;
    for block in modprobe::blocks(root)? {
        if modprobe::is_vendors(&block.path) {
            let name = block
                .path
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            // A file of the same name in /etc hides a package's.
            let hiding = std::path::Path::new("/etc/modprobe.d").join(name);
            let text = root.read(&block.path)?.unwrap_or_default();
            steps.edit(hiding, "hides a package's file that keeps nvidia out", |_| {
                modprobe::without_blocks(&text)
            })?;
        } else {
            steps.edit(&block.path, "moves aside what keeps nvidia out", |old| {
                modprobe::without_blocks(old.unwrap_or_default())
            })?;
        }
        any = true;
    }
    Ok(any)
}

fn notes(root: &Root, machine: &Machine, options: Options) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    if options.blacklist == Blacklist::Keep {
        for block in modprobe::blocks(root)? {
            notes.push(format!(
                "{}:{}: `{}` keeps nvidia out; --replace-blacklist moves it aside",
                block.path.display(),
                block.line,
                block.text
            ));
        }
    }
    if let Some(kernel) =
        machine.kernel().filter(|k| k.noiommu.is_none() && !machine.iommu.usable())
    {
        notes.push(format!(
            "the configuration of {} was not found, so noiommu was not considered",
            kernel.release
        ));
    }
    Ok(notes)
}
