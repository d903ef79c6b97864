//! Entries in `loader/entries`, read and edited as files.

use std::path::{Path, PathBuf};

use crate::{
    bls::Entry,
    error::Result,
    grub::Env,
    modprobe,
    plan::Steps,
    root::Root,
    tokens::{Line, Want},
    trial,
};

/// Entries with a kernel below `boot`, the trial's own left out.
pub(super) fn find(root: &Root, boot: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in root.files(boot.join("loader/entries"), ".conf")? {
        let entry = Entry::parse(&root.text(&path)?.unwrap_or_default());
        if entry.value("linux").is_some() && !path.ends_with(trial::ENTRY_FILE) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The lines of these entries; `$kernelopts` and the like are put in from GRUB's environment.
pub(super) fn lines(
    root: &Root,
    entries: &[PathBuf],
    env: Option<&Path>,
) -> Result<Vec<(PathBuf, Line)>> {
    let mut lines = Vec::new();
    for path in entries {
        let entry = Entry::parse(&root.text(path)?.unwrap_or_default());
        lines.push((path.clone(), expand(root, &entry.options(), env)?));
    }
    Ok(lines)
}

/// What GRUB makes of `$name` in a line.
pub(crate) fn expand(root: &Root, line: &Line, env: Option<&Path>) -> Result<Line> {
    let Some(env) = env.filter(|_| line.as_str().contains('$')) else { return Ok(line.clone()) };
    let env = root.read(env)?.and_then(|bytes| Env::parse(&bytes)).unwrap_or_default();
    let words = line.as_str().split(' ').map(|word| {
        let name = word.strip_prefix('$').map(|name| name.trim_matches(['{', '}']));
        name.map_or(word, |name| env.get(name).unwrap_or(""))
    });
    Ok(Line::new(words.collect::<Vec<_>>().join(" ")))
}

/// Edits every entry.
pub(super) fn configure(
    steps: &mut Steps<'_>,
    root: &Root,
    entries: &[PathBuf],
    env: Option<&Path>,
    wants: &[Want],
) -> Result<()> {
    for path in entries {
        let text = root.text(path)?.unwrap_or_default();
        let entry = Entry::parse(&text);
        let options = entry.options();
        let expanded = expand(root, &options, env)?;
        if expanded.meets(wants) {
            continue;
        }
        let fallback = modprobe_fallback(root)?;
        let merged = if expanded == options {
            options.merged(wants, fallback)
        } else {
            let added = expanded.additions(wants, fallback);
            added.iter().fold(options, |line, token| line.with_appended(token))
        };
        let new = entry.with_options(&merged).text().into_bytes();
        steps.edit(path, "the line of this entry", |_| new)?;
    }
    Ok(())
}

/// The value that modprobe.d gives a parameter `module.param`.
pub(crate) fn modprobe_fallback(root: &Root) -> Result<impl Fn(&str) -> Option<String>> {
    let all = modprobe::directives(root)?;
    Ok(move |key: &str| {
        let (module, param) = key.split_once('.')?;
        all.iter().filter_map(|(_, d)| d.option(module, param)).next_back().map(str::to_owned)
    })
}
