//! One command line as text, with its words.

use std::fmt;

use linux_kernel_cmdline::utf8::{Cmdline, Parameter, ParameterKey};
use serde::{Deserialize, Serialize};

use super::Want;

/// A kernel command line. Editing keeps every byte that it does not have to change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Line(String);

/// A word of a line and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The word, quotes included.
    pub text: &'a str,
    /// Byte offset in the line.
    pub start: usize,
}

impl<'a> Word<'a> {
    /// Whether the kernel reads this word as `key`.
    pub fn is(&self, key: &str) -> bool {
        Parameter::parse(self.text).is_some_and(|p| p.key() == ParameterKey::from(key))
    }

    /// The value, without its quotes; `None` for a word without `=`.
    pub fn value(&self) -> Option<&'a str> {
        let bare = self.text.trim_matches('"');
        let (_, value) = bare.split_once('=')?;
        Some(value.strip_prefix('"').unwrap_or(value))
    }
}

impl Line {
    /// A line as it stands in a file or in `/proc/cmdline`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The words that the kernel itself reads: those before `--`, which hands the rest to init.
    pub fn words(&self) -> impl Iterator<Item = Word<'_>> {
        self.all_words().take_while(|word| word.text != "--")
    }

    fn all_words(&self) -> impl Iterator<Item = Word<'_>> {
        let mut from = 0;
        Cmdline::from(self.0.as_str()).iter_str().map(str::len).collect::<Vec<_>>().into_iter().map(
            move |len| {
                let rest = &self.0[from..];
                let start = from + (rest.len() - rest.trim_ascii_start().len());
                from = start + len;
                Word { text: &self.0[start..from], start }
            },
        )
    }

    /// Every value given for `key`, in order.
    pub fn values(&self, key: &str) -> Vec<&str> {
        self.words().filter(|word| word.is(key)).map(|word| word.value().unwrap_or("")).collect()
    }

    /// The value that counts: the last one wins.
    pub fn effective(&self, key: &str) -> Option<&str> {
        self.values(key).pop()
    }

    /// Whether everything wanted is in effect.
    pub fn meets(&self, wants: &[Want]) -> bool {
        wants.iter().all(|want| want.met_by(self.effective(want.key())))
    }

    /// What has to stand behind this line so that everything wanted is in effect. `fallback` gives
    /// the value that counts where the line has none (from modprobe.d).
    pub fn additions(
        &self,
        wants: &[Want],
        fallback: impl Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let mut tokens = Vec::new();
        for want in wants {
            let here = self.effective(want.key());
            if !want.met_by(here) {
                let base = here.map(str::to_owned).or_else(|| fallback(want.key()));
                tokens.push(want.token(base.as_deref()));
            }
        }
        tokens
    }

    /// This line with everything wanted in effect: a word that has to change is changed where it
    /// stands, a new one is put at the end (before `--`).
    #[must_use]
    pub fn merged(&self, wants: &[Want], fallback: impl Fn(&str) -> Option<String>) -> Self {
        let mut line = self.clone();
        for want in wants {
            let last = line.words().filter(|word| word.is(want.key())).last();
            let here = last.map(|word| word.value().unwrap_or(""));
            if want.met_by(here) {
                continue;
            }
            let base = here.map(str::to_owned).or_else(|| fallback(want.key()));
            let token = want.token(base.as_deref());
            line = match last {
                Some(word) if want.replaces() => {
                    line.with_range(word.start, word.text.len(), &token)
                }
                _ => line.with_appended(&token),
            };
        }
        line
    }

    /// This line with `token` as the last word that the kernel reads.
    #[must_use]
    pub fn with_appended(&self, token: &str) -> Self {
        let Some(init) = self.all_words().find(|word| word.text == "--") else {
            let kept = self.0.trim_ascii_end().len();
            let (head, tail) = self.0.split_at(kept);
            let gap = if head.is_empty() { "" } else { " " };
            return Self(format!("{head}{gap}{token}{tail}"));
        };
        let (head, tail) = self.0.split_at(init.start);
        Self(format!("{head}{token} {tail}"))
    }

    /// This line without the words of these keys.
    #[must_use]
    pub fn without(&self, gone: &[&str]) -> Self {
        let kept: Vec<_> = self
            .all_words()
            .filter(|word| !gone.iter().any(|key| word.is(key)))
            .map(|word| word.text)
            .collect();
        Self(kept.join(" "))
    }

    fn with_range(&self, start: usize, len: usize, text: &str) -> Self {
        Self(format!("{}{text}{}", &self.0[..start], &self.0[start + len..]))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
