//! Where a trial stands, told from what runs and from what the loader left behind.

use serde::Serialize;

use super::{ENTRY, TAKEN, Trial};
use crate::{
    error::Result,
    grub::Env,
    loader::{Loader, detect},
    machine::{Machine, efi_text},
    root::Root,
    tokens::keys,
};

/// Where a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialState {
    /// The next boot is it.
    Armed,
    /// This boot is it.
    Running,
    /// It was booted, and ended before `check` or `confirm` saw it: it froze, panicked or was reset.
    Frozen,
    /// It was seen to run and was not confirmed.
    Unconfirmed,
    /// The loader never used it.
    NeverTaken,
}

/// Tells where `trial` stands.
pub fn state(root: &Root, machine: &Machine, trial: &Trial) -> Result<TrialState> {
    let running = &machine.running;
    if running.line.effective(keys::TRIAL) == Some(trial.mark.as_str()) {
        return Ok(TrialState::Running);
    }
    if running.boot_id == trial.armed_in {
        return Ok(TrialState::Armed);
    }
    if trial.seen_in.is_some() {
        return Ok(TrialState::Unconfirmed);
    }
    let taken = match detect(root, trial.options.loader)? {
        Loader::Grub(grub) => {
            let env =
                root.read(&grub.env)?.and_then(|bytes| Env::parse(&bytes)).unwrap_or_default();
            env.get(TAKEN) == Some(trial.mark.as_str())
        }
        // The loader deletes the variable before it starts the entry.
        _ => efi_text(root, "LoaderEntryOneShot").is_none_or(|id| !id.starts_with(ENTRY)),
    };
    Ok(if taken { TrialState::Frozen } else { TrialState::NeverTaken })
}
