//! kernelstub's configuration (`Pop!_OS`), from which it writes systemd-boot's entries.

use serde_json::Value;

use super::{SystemdBoot, bls_files::modprobe_fallback};
use crate::{
    error::{Error, Result},
    plan::{Expect, Output, Run, Steps},
    root::Root,
    tokens::{Line, Want},
};

/// The file.
const CONFIG: &str = "/etc/kernelstub/configuration";

pub(super) fn configure(
    steps: &mut Steps<'_>,
    root: &Root,
    boot: &SystemdBoot,
    wants: &[Want],
) -> Result<()> {
    let text = root.text(CONFIG)?.unwrap_or_default();
    let new =
        merged(&text, wants, modprobe_fallback(root)?).ok_or_else(|| Error::UnknownSetup {
            what: format!("{CONFIG} has no list user.kernel_options"),
            by_hand: vec![format!("kernelstub --add-options \"{}\"", words(wants))],
        })?;
    steps.edit(CONFIG, "the options that kernelstub gives every kernel", |_| new.into_bytes())?;
    // `oldkern` is the kernel before this one: kernelstub writes it with the next kernel.
    let current: Vec<_> =
        boot.entries.iter().filter(|path| !path.to_string_lossy().contains("oldkern")).collect();
    let expect: Vec<_> = current
        .into_iter()
        .map(|path| Expect::Entry { path: path.clone(), wants: wants.to_vec() })
        .collect();
    let mut stale = !steps.is_empty();
    for entry in &expect {
        stale |= entry.complaint(root)?.is_some();
    }
    if stale {
        steps.run(Run {
            argv: vec!["kernelstub".into()],
            why: "writes the entries from its configuration".into(),
            outputs: vec![
                Output::Tree(boot.boot.join("loader")),
                Output::Tree(boot.esp.join("EFI")),
            ],
            expect,
        });
    }
    Ok(())
}

fn words(wants: &[Want]) -> String {
    wants.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The configuration with `wants` merged in; `None` where it is not one.
fn merged(text: &str, wants: &[Want], fallback: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut config: Value = serde_json::from_str(text).ok()?;
    let options = config.get_mut("user")?.get_mut("kernel_options")?.as_array_mut()?;
    let old: Option<Vec<&str>> = options.iter().map(Value::as_str).collect();
    let line = Line::new(old?.join(" "));
    if line.meets(wants) {
        return Some(text.to_owned());
    }
    let merged = line.merged(wants, fallback);
    *options = merged.words().map(|word| Value::from(word.text)).collect();
    Some(serde_json::to_string_pretty(&config).ok()? + "\n")
}
