//! What is installed: lines, initramfs contents, what keeps nvidia out.

use super::Scene;
use crate::{
    error::Result,
    initramfs::{Contents, InitramfsTool},
    loader::Loader,
    machine::Driver,
    modprobe,
    plan::{judge_image, order, tool},
    tokens::Line,
};

pub(super) fn look(scene: &mut Scene<'_>) -> Result<()> {
    running_line(scene);
    installed_lines(scene)?;
    images(scene)?;
    blocks(scene)
}

fn running_line(scene: &mut Scene<'_>) {
    let (Some(choice), line) = (scene.choice.clone(), scene.machine.running.line.clone()) else {
        return;
    };
    if line.as_str().is_empty() {
        scene.note("running", "no running kernel to ask (/proc/cmdline is empty)", "");
    } else if line.meets(&choice.wants) {
        scene.fine("running", format!("the running line parks: {}", words(&line, &choice.wants)));
    } else if scene.trial_runs() {
        scene.mend(
            "running",
            format!("the trial's line lacks what it needs: {line}"),
            "`slot-cmdline trial` again",
        );
    } else if scene.installed.is_some() {
        scene.note("running", "the running line does not park yet", "reboot");
    } else {
        scene.note(
            "running",
            "the running line does not park",
            "`slot-cmdline trial`, or `slot-cmdline install`",
        );
    }
}

fn words(line: &Line, wants: &[crate::tokens::Want]) -> String {
    let found =
        wants.iter().filter_map(|w| Some(format!("{}={}", w.key(), line.effective(w.key())?)));
    found.collect::<Vec<_>>().join(" ")
}

fn installed_lines(scene: &mut Scene<'_>) -> Result<()> {
    let Some(loader) = scene.loader.clone() else {
        scene.note(
            "loader",
            "the boot loader is not known, or there is more than one",
            "name it with --loader",
        );
        return Ok(());
    };
    let (Some(choice), lines) = (scene.choice.clone(), loader.installed_lines(scene.root)?) else {
        return Ok(());
    };
    let bad: Vec<_> = lines.iter().filter(|(_, line)| !line.meets(&choice.wants)).collect();
    let name = loader.name();
    match (scene.installed.is_some(), bad.first()) {
        (true, None) => {
            scene.fine("installed", format!("all {} lines of {name} park", lines.len()));
        }
        (true, Some((path, line))) => {
            let found = format!(
                "{} of {} lines of {name} do not park, e.g. in {}: {line}",
                bad.len(),
                lines.len(),
                path.display()
            );
            scene.mend("installed", found, "`slot-cmdline install` again");
        }
        (false, _) => scene.note("installed", format!("nothing is installed in {name}"), ""),
    }
    Ok(())
}

fn images(scene: &mut Scene<'_>) -> Result<()> {
    let Some(choice) = scene.choice.clone() else { return Ok(()) };
    if scene
        .machine
        .kernel()
        .is_some_and(|k| k.driver(choice.parker.driver().as_str()) == Driver::Builtin)
    {
        scene.fine(
            "initramfs",
            format!("{} is built into the kernel: the line alone parks", choice.parker.driver()),
        );
        return Ok(());
    }
    let Ok(tool) = tool(scene.root, scene.options) else {
        scene.note(
            "initramfs",
            "the initramfs tool is not known, or there is more than one",
            "name it with --initramfs",
        );
        return Ok(());
    };
    if matches!(scene.loader, Some(Loader::Unified(_))) && tool == InitramfsTool::Mkinitcpio {
        return Ok(());
    }
    for job in tool.jobs(scene.root, scene.machine)? {
        for image in job.images {
            let Some(bytes) = scene.root.read(&image)? else { continue };
            let verdict = judge_image(scene.root, &bytes, &order(&choice))?;
            let found = format!("{}: {verdict}", image.display());
            match (verdict.wins(), scene.installed.is_some()) {
                (true, _) => scene.fine("initramfs", found),
                (false, true) => scene.mend("initramfs", found, "`slot-cmdline install` again"),
                (false, false) => scene.note("initramfs", found, ""),
            }
            let blocked = Contents::read(&bytes).ok().map(|c| {
                let all = c.modprobe().into_iter().filter(|(_, d)| d.blocks_nvidia());
                all.map(|(file, d)| format!("/{file}: {}", d.words.join(" "))).collect::<Vec<_>>()
            });
            if let Some(first) = blocked.and_then(|all| all.into_iter().next()) {
                scene.note(
                    "blacklist",
                    format!("{} has {first}", image.display()),
                    "`slot-cmdline install --replace-blacklist`",
                );
            }
        }
    }
    Ok(())
}

fn blocks(scene: &mut Scene<'_>) -> Result<()> {
    let blocks = modprobe::blocks(scene.root)?;
    for block in &blocks {
        let found = format!("{}:{}: {}", block.path.display(), block.line, block.text);
        scene.note("blacklist", found, "it keeps nvidia from the dies too: `slot-cmdline install --replace-blacklist` moves it aside");
    }
    let line = &scene.machine.running.line;
    let listed: Vec<_> = ["modprobe.blacklist", "module_blacklist", "rd.driver.blacklist"]
        .into_iter()
        .flat_map(|key| line.values(key).into_iter().map(move |value| (key, value.to_owned())))
        .filter(|(_, value)| {
            value.split(',').any(|module| modprobe::plain(module).starts_with("nvidia"))
        })
        .collect();
    for (key, value) in &listed {
        scene.note(
            "blacklist",
            format!("the running line has {key}={value}"),
            "take it out of the boot loader's configuration by hand",
        );
    }
    if blocks.is_empty() && listed.is_empty() {
        scene.fine("blacklist", "nothing keeps nvidia out");
    }
    Ok(())
}
