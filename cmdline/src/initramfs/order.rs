//! Whether the parker is loaded before the drivers that would take the dies. Judged on what stands
//! in a written image, never on what a tool was told to put there.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Contents;
use crate::modprobe::{Directive, plain};

/// Drivers that take a die where they come first.
pub const RIVALS: [&str; 4] = ["nvidia", "nouveau", "nvidia_current", "nvidiafb"];

/// What to prove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The parker's module.
    pub parker: String,
    /// Drivers that must come later.
    pub rivals: Vec<String>,
}

/// How the race ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The parker comes first, because of this.
    Wins(String),
    /// Some other driver comes first, because of this.
    Loses(String),
}

impl Verdict {
    /// Whether the parker comes first.
    pub fn wins(&self) -> bool {
        matches!(self, Self::Wins(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wins(why) => write!(f, "the parker comes first: {why}"),
            Self::Loses(why) => write!(f, "the parker does not come first: {why}"),
        }
    }
}

/// Judges an image. `root_modprobe` is what modprobe.d says once the real root is there.
pub fn judge(image: &Contents, order: &Order, root_modprobe: &[Directive]) -> Verdict {
    let parker = plain(&order.parker);
    let inside = image.has_module(&parker);
    let early: Vec<_> = order.rivals.iter().filter(|rival| image.has_module(rival)).collect();
    if !inside && !early.is_empty() {
        return Verdict::Loses(format!("the image has {} and not {parker}", names(&early)));
    }
    if inside && let Some(how) = forced(image, &parker) {
        return Verdict::Wins(format!("{how} loads {parker} before devices are looked for"));
    }
    let directives = image.modprobe();
    let unled: Vec<_> = early
        .iter()
        .filter(|rival| !directives.iter().any(|(_, d)| d.loads_before(&parker, rival)))
        .copied()
        .collect();
    if !unled.is_empty() {
        // A list of modules is loaded only after udev's coldplug has loaded the rival.
        return Verdict::Loses(format!(
            "the image has {} too, and its modprobe.d has no `softdep {} pre: {parker}`",
            names(&unled),
            unled[0]
        ));
    }
    if inside && !early.is_empty() {
        return Verdict::Wins(format!("softdep of {} in the image", names(&early)));
    }
    if inside && let Some(how) = listed(image, &parker) {
        return Verdict::Wins(format!("{how} loads {parker}, and no rival is in the image"));
    }
    let led = |rival: &&String| root_modprobe.iter().any(|d| d.loads_before(&parker, rival));
    match order.rivals.iter().find(|rival| !led(rival)) {
        None => {
            Verdict::Wins("softdeps in the root file system, and no rival is in the image".into())
        }
        Some(rival) => Verdict::Loses(format!(
            "nothing in the image loads {parker}, and modprobe.d has no `softdep {rival} pre: {parker}`"
        )),
    }
}

fn names(modules: &[&String]) -> String {
    modules.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Ways of dracut and mkinitcpio that come before udev.
fn forced(image: &Contents, parker: &str) -> Option<String> {
    let word_is =
        |text: &str| text.split([' ', '\n', '\t', '"', '\'', '(', ')']).any(|w| plain(w) == parker);
    let driver_pre = image.files_in("etc/cmdline.d/").find(|(_, text)| {
        let pre = text.split_ascii_whitespace().filter_map(|w| w.strip_prefix("rd.driver.pre="));
        pre.flat_map(|list| list.split(',')).any(|module| plain(module) == parker)
    });
    if let Some((name, _)) = driver_pre {
        return Some(format!("rd.driver.pre in /{name}"));
    }
    // mkinitcpio's init loads MODULES before any hook triggers udev.
    let config = image.file("config")?;
    let list = config
        .lines()
        .find(|line| line.starts_with("MODULES=") || line.starts_with("EARLY_MODULES="))?;
    word_is(list.split_once('=')?.1).then(|| "MODULES in /config".to_owned())
}

/// Lists that are loaded, though late.
fn listed(image: &Contents, parker: &str) -> Option<String> {
    let lists = image
        .files_in("conf/modules")
        .chain(image.files_in("etc/modules-load.d/"))
        .chain(image.files_in("usr/lib/modules-load.d/"));
    let mut naming = lists.filter(|(_, text)| {
        text.lines()
            .any(|line| line.split_ascii_whitespace().next().is_some_and(|w| plain(w) == parker))
    });
    naming.next().map(|(name, _)| format!("/{name}"))
}
