//! `/etc/default/grub` and its drop-ins: what `grub-mkconfig` makes the line of.

use std::path::Path;

use super::{Grub, bls_files::modprobe_fallback};
use crate::{
    error::{Error, Result},
    plan::{Expect, Output, Run, Steps},
    root::Root,
    shellvars::{ShellVars, end_line, escaped},
    tokens::{Line, Want},
};

/// The defaults.
const DEFAULTS: &str = "/etc/default/grub";
/// Drop-ins, read in glob order.
const DROPINS: &str = "/etc/default/grub.d";
/// Ours comes behind those of others, so that nothing overrides it.
const OURS: &str = "/etc/default/grub.d/zz-slot-cmdline.cfg";
/// Around our lines where they stand in the defaults themselves.
const BEGIN: &str = "# slot-cmdline begin (slot-cmdline remove takes this out)\n";
/// See [`BEGIN`].
const END: &str = "# slot-cmdline end\n";

/// The two variables that a line is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrubLines {
    /// `GRUB_CMDLINE_LINUX`: every entry has it, in front.
    pub all: Line,
    /// `GRUB_CMDLINE_LINUX_DEFAULT`: normal entries have it, behind.
    pub normal: Line,
    /// What could not be followed.
    pub oddities: Vec<String>,
}

impl GrubLines {
    /// What these texts, read in turn, make of the variables.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut vars = ShellVars::default();
        texts.into_iter().for_each(|text| vars.read(text));
        let line = |name: &str| Line::new(vars.get(name));
        Self {
            all: line("GRUB_CMDLINE_LINUX"),
            normal: line("GRUB_CMDLINE_LINUX_DEFAULT"),
            oddities: vars.oddities.clone(),
        }
    }

    /// The line of a normal entry.
    pub fn joined(&self) -> Line {
        Line::new(format!("{} {}", self.all, self.normal))
    }

    /// The assignments that, read after these, put `wants` in effect everywhere.
    fn assignments(&self, wants: &[Want], fallback: &dyn Fn(&str) -> Option<String>) -> String {
        let effective = self.joined();
        let base =
            |key: &str| effective.effective(key).map(str::to_owned).or_else(|| fallback(key));
        let mut text =
            append("GRUB_CMDLINE_LINUX", &self.all, &self.all.merged(wants, base), wants, &base);
        // What stands behind would win again.
        let contested: Vec<Want> = wants
            .iter()
            .filter(|want| {
                self.normal.effective(want.key()).is_some_and(|value| !want.met_by(Some(value)))
            })
            .cloned()
            .collect();
        text += &append(
            "GRUB_CMDLINE_LINUX_DEFAULT",
            &self.normal,
            &self.normal.merged(&contested, base),
            &contested,
            &base,
        );
        text
    }
}

/// An assignment that appends, or one of the whole line where words for init are at its end.
fn append(
    name: &str,
    line: &Line,
    merged: &Line,
    wants: &[Want],
    base: &dyn Fn(&str) -> Option<String>,
) -> String {
    if line.meets(wants) {
        return String::new();
    }
    if line.words().count() < line.as_str().split_ascii_whitespace().count()
        && line.as_str().contains("-- ")
    {
        return format!("{name}=\"{}\"\n", escaped(merged.as_str()));
    }
    let added = line.additions(wants, base).join(" ");
    format!("{name}=\"${name} {}\"\n", escaped(&added))
}

pub(super) fn configure(
    steps: &mut Steps<'_>,
    root: &Root,
    grub: &Grub,
    wants: &[Want],
    notes: &mut Vec<String>,
) -> Result<()> {
    let (mut texts, mut own) = (vec![root.text(DEFAULTS)?.unwrap_or_default()], None);
    if grub.dropins {
        for path in root.files(DROPINS, ".cfg")? {
            let text = root.text(&path)?.unwrap_or_default();
            if path == Path::new(OURS) { own = Some(text) } else { texts.push(text) }
        }
    }
    let others = GrubLines::of(texts.iter().map(String::as_str));
    let (path, with_ours): (_, String) =
        if grub.dropins { (OURS, own.unwrap_or_default()) } else { (DEFAULTS, String::new()) };
    let in_effect = GrubLines::of(texts.iter().map(String::as_str).chain([with_ours.as_str()]));
    if !(in_effect.all.meets(wants) && in_effect.joined().meets(wants)) {
        notes.extend(in_effect.oddities.iter().map(|oddity| format!("{DEFAULTS}: {oddity}")));
        let assignments = others.assignments(wants, &modprobe_fallback(root)?);
        let all = texts.iter().map(String::as_str).chain([assignments.as_str()]);
        if !GrubLines::of(all).joined().meets(wants) {
            return Err(Error::UnknownSetup {
                what: format!("{DEFAULTS} could not be followed well enough to add to it"),
                by_hand: vec![format!("append to {path}:\n{assignments}")],
            });
        }
        let why = "the line that grub-mkconfig gives every kernel";
        if grub.dropins {
            let text = format!(
                "# Written by slot-cmdline; `slot-cmdline remove` deletes it.\n{assignments}"
            );
            steps.edit(path, why, |_| text.into_bytes())?;
        } else {
            steps.edit(path, why, |old| with_block(old.unwrap_or_default(), &assignments))?;
        }
    }
    let cfg = root.text(&grub.cfg)?.unwrap_or_default();
    let expect = Expect::GrubCfg { path: grub.cfg.clone(), wants: wants.to_vec() };
    let stale = grub.entries.is_empty() && expect.complaint(root)?.is_some() && !cfg.is_empty();
    // With BLS entries grub.cfg holds no line: what was edited is what counts.
    if stale {
        steps.run(Run {
            argv: grub.mkconfig.clone(),
            why: "writes grub.cfg from the defaults".into(),
            outputs: vec![Output::File(grub.cfg.clone())],
            expect: vec![expect],
        });
    }
    Ok(())
}

/// `old` with our lines at the end.
fn with_block(old: &[u8], assignments: &str) -> Vec<u8> {
    let mut bytes = old.to_vec();
    end_line(&mut bytes);
    bytes.extend_from_slice(format!("{BEGIN}{assignments}{END}").as_bytes());
    bytes
}
