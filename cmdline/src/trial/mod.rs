//! The new line for one boot only. The entries and images of the old line are not touched: the
//! trial brings an entry and an initramfs of its own, and the loader is told to use them once.

mod arm;
mod mounts;
mod once;
mod state;
mod with_efi;
mod with_grub;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use self::{
    arm::{arm, plan},
    mounts::{Mount, mount_of, mounts},
    state::{TrialState, state},
};
use crate::{
    grub::Env,
    plan::{Content, Options},
    tokens::{Want, keys},
};

/// Id of the trial's entry.
pub const ENTRY: &str = "slot-cmdline-trial";
/// File name of the trial's own loader entry.
pub const ENTRY_FILE: &str = "slot-cmdline-trial.conf";
/// File name of the trial's own initramfs.
const IMAGE: &str = "slot-cmdline-trial.img";
/// GRUB variable in which the trial's entry says that it was started.
const TAKEN: &str = "slot_cmdline_trial";

/// A trial that was armed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Marks the trial's line.
    pub mark: String,
    /// The boot in which it was armed.
    pub armed_in: String,
    /// The boot in which `check` or `confirm` saw it run.
    pub seen_in: Option<String>,
    /// What confirm is going to install.
    pub options: Options,
}

/// A file as it is to be put back; `None` inside for no file.
pub(crate) struct PutBack(pub(crate) Option<Content>);

/// GRUB's environment without the trial's variables: as it was, where nothing else changed since.
/// `None` where this is no environment block.
pub(crate) fn env_without(
    path: &Path,
    now: Option<&Content>,
    before: Option<Content>,
) -> Option<PutBack> {
    let now = now.filter(|_| path.ends_with("grubenv"))?;
    let clean =
        |content: &Content| Some(Env::parse(&content.bytes)?.without(&["next_entry", TAKEN]));
    let current = clean(now)?;
    let same = before.as_ref().and_then(clean).unwrap_or_default() == current;
    Some(PutBack(if same { before } else { Some(now.with(current.block())) }))
}

/// What a trial's line says on top: whatever hangs ends in a reboot, which is the old line's.
pub fn safety_net(mark: &str) -> Vec<Want> {
    let fixed = [
        ("panic", "30"),
        ("softlockup_panic", "1"),
        ("hung_task_panic", "0"),
        ("nmi_watchdog", "1"),
    ];
    let mut wants: Vec<_> = fixed.iter().map(|(key, value)| Want::equals(key, value)).collect();
    wants.push(Want::equals(keys::TRIAL, mark));
    wants
}
