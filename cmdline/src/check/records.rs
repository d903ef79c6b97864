//! The records: interrupted work, the trial, files that were edited.

use super::Scene;
use crate::{
    apply::{Phase, Record, Recorded, Stored},
    error::Result,
    tokens::keys,
    trial::TrialState,
};

pub(super) fn look(scene: &mut Scene<'_>) -> Result<()> {
    for record in [scene.installed.clone(), scene.trial.clone().map(|(record, _)| record)]
        .into_iter()
        .flatten()
    {
        if record.phase != Phase::Applied {
            scene.mend(
                "record",
                "an earlier slot-cmdline was interrupted",
                "run `slot-cmdline install` or `slot-cmdline remove`: either finishes it",
            );
        } else if record.trial.is_none() {
            edited(scene, &record)?;
        }
        if !record.pending.is_empty() {
            scene.mend(
                "record",
                "commands are still to be run inside this system",
                record.pending.join("; "),
            );
        }
    }
    trial(scene);
    Ok(())
}

fn edited(scene: &mut Scene<'_>, record: &Record) -> Result<()> {
    for step in &record.steps {
        let Recorded::File(file) = step else { continue };
        let now = scene.root.content(&file.path)?;
        if now.as_ref().map(Stored::of) != file.after {
            let found = format!("{} was edited since it was installed", file.path.display());
            scene.note("record", found, "`slot-cmdline remove --merge` keeps that edit");
        }
    }
    Ok(())
}

fn trial(scene: &mut Scene<'_>) {
    let Some((record, state)) = &scene.trial else { return };
    let armed = record.trial.as_ref().map(|trial| trial.mark.clone()).unwrap_or_default();
    match state {
        TrialState::Armed => scene.note("trial", format!("armed ({armed}): the next boot is it"), "reboot, then `slot-cmdline check` and `slot-cmdline confirm`"),
        TrialState::Running => {
            scene.note("trial", "this boot is the trial", "`slot-cmdline confirm` makes it permanent; any reboot without it is the old line");
            inherits(scene);
        }
        TrialState::Frozen => scene.mend(
            "trial",
            "the trial was started by the loader and did not live to be seen: it froze, panicked or was reset, and the machine came back on the old line",
            "look at `journalctl -b -1`, /sys/fs/pstore or the serial console's log; `slot-cmdline remove` clears the trial away, another --parker may do better",
        ),
        TrialState::Unconfirmed => scene.note("trial", "the trial ran and was not confirmed: this is the old line again", "`slot-cmdline trial` again, or `slot-cmdline remove`"),
        TrialState::NeverTaken => scene.mend("trial", "the loader never started the trial: the one-shot was lost", "`slot-cmdline trial` again; if it is lost again, choose the entry by hand at a (serial) console"),
    }
}

/// kernel-install copies the running line where it has none of its own.
fn inherits(scene: &mut Scene<'_>) {
    let root = scene.root;
    let own = root.is_file("/etc/kernel/cmdline") || root.is_file("/usr/lib/kernel/cmdline");
    if !own && root.program(&["kernel-install"]).is_some() {
        let found = format!(
            "a kernel installed now would inherit the trial's line ({} among it): /etc/kernel/cmdline is missing",
            keys::TRIAL
        );
        scene.note("trial", found, "install no kernel before confirm or reboot");
    }
}
