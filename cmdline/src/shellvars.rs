//! Assignments in shell files such as `/etc/default/grub`, evaluated as the shell would, as far as
//! that goes without running anything.

use std::{collections::BTreeMap, iter::Peekable, str::Chars};

/// A variable's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// The text, as far as it is known.
    pub text: String,
    /// Part of it comes from running something.
    pub opaque: bool,
}

/// Variables after a file, or several in turn, have been read.
#[derive(Clone, Debug, Default)]
pub struct ShellVars {
    vars: BTreeMap<String, Value>,
    /// What could only be skipped.
    pub oddities: Vec<String>,
}

impl ShellVars {
    /// Reads one more file on top of what is known.
    pub fn read(&mut self, text: &str) {
        if text.contains("\r\n") {
            self.oddities.push("lines end in CRLF, so that values carry a stray CR".into());
        }
        let mut input = text.chars().peekable();
        let mut words = Vec::new();
        loop {
            skip_blanks(&mut input);
            match input.peek() {
                None => break self.command(&mut words),
                Some('\n' | ';' | '&' | '|') => {
                    input.next();
                    self.command(&mut words);
                }
                Some('#') => while input.next_if(|c| *c != '\n').is_some() {},
                Some(_) => words.push(self.word(&mut input)),
            }
        }
    }

    /// The text of a variable; empty where it is not set.
    pub fn get(&self, name: &str) -> &str {
        self.vars.get(name).map_or("", |value| value.text.as_str())
    }

    /// A variable, where it is set.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.vars.get(name)
    }

    /// A simple command has ended: keep its assignments, or say that it was skipped.
    fn command(&mut self, words: &mut Vec<Value>) {
        let mut rest = words.drain(..).peekable();
        rest.next_if(|word| word.text == "export");
        let mut assigned = Vec::new();
        for word in rest {
            let Some((name, add, value)) = assignment(&word.text) else {
                self.oddities.push(format!("`{}` was not run", word.text.escape_default()));
                return;
            };
            assigned.push((name.to_owned(), add, Value { text: value.to_owned(), ..word }));
        }
        for (name, add, value) in assigned {
            let slot = self.vars.entry(name).or_default();
            if add {
                slot.text.push_str(&value.text);
                slot.opaque |= value.opaque;
            } else {
                *slot = value;
            }
        }
    }

    /// One word, quotes removed and variables put in. An array `(a b)` is one word of its members.
    fn word(&mut self, input: &mut Peekable<Chars<'_>>) -> Value {
        let mut word = Value::default();
        let mut depth = 0_u32;
        while let Some(&c) = input.peek() {
            match c {
                '(' if word.text.ends_with('=') => depth += 1,
                ')' if depth > 0 => depth -= 1,
                ' ' | '\t' | '\n' if depth > 0 => word.text.push(' '),
                ' ' | '\t' | '\n' | ';' | '&' | '|' => break,
                '\'' => {
                    input.next();
                    word.text.extend(std::iter::from_fn(|| input.next_if(|c| *c != '\'')));
                }
                '"' => {
                    input.next();
                    self.quoted(input, &mut word);
                    continue;
                }
                '\\' => {
                    input.next();
                    word.text.extend(input.peek().filter(|c| **c != '\n'));
                }
                '$' | '`' => {
                    self.expansion(input, &mut word);
                    continue;
                }
                _ => word.text.push(c),
            }
            input.next();
        }
        word
    }

    fn quoted(&self, input: &mut Peekable<Chars<'_>>, word: &mut Value) {
        while let Some(&c) = input.peek() {
            match c {
                '"' => {
                    input.next();
                    return;
                }
                '\\' => {
                    input.next();
                    match input.next() {
                        Some('\n') | None => {}
                        Some(c @ ('"' | '\\' | '$' | '`')) => word.text.push(c),
                        Some(c) => word.text.extend(['\\', c]),
                    }
                }
                '$' | '`' => self.expansion(input, word),
                _ => {
                    word.text.push(c);
                    input.next();
                }
            }
        }
    }

    /// `$NAME` and `${NAME}` are put in; what would have to be run is left out and marked.
    fn expansion(&self, input: &mut Peekable<Chars<'_>>, word: &mut Value) {
        let opening = input.next();
        if opening == Some('`') {
            while input.next().is_some_and(|c| c != '`') {}
            word.opaque = true;
            return;
        }
        let closing = match input.peek() {
            Some('(') => Some(('(', ')')),
            Some('{') => Some(('{', '}')),
            _ => None,
        };
        let name: String = if let Some((open, close)) = closing {
            let mut depth = 0_u32;
            let inner = std::iter::from_fn(|| {
                let c = input.next()?;
                depth = if c == open { depth + 1 } else { depth - u32::from(c == close) };
                (depth > 0).then_some(c)
            });
            inner.skip(1).collect()
        } else {
            let in_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            std::iter::from_fn(|| input.next_if(in_name)).collect()
        };
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if closing.is_none_or(|(open, _)| open == '{') && plain {
            if let Some(value) = self.vars.get(&name) {
                word.text.push_str(&value.text);
                word.opaque |= value.opaque;
            }
        } else if name.is_empty() && closing.is_none() {
            word.text.push('$');
        } else {
            word.opaque = true;
        }
    }
}

fn skip_blanks(input: &mut Peekable<Chars<'_>>) {
    loop {
        while input.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        let mut ahead = input.clone();
        if (ahead.next(), ahead.next()) != (Some('\\'), Some('\n')) {
            return;
        }
        *input = ahead;
    }
}

/// `NAME=value` or `NAME+=value`.
fn assignment(word: &str) -> Option<(&str, bool, &str)> {
    let (name, value) = word.split_once('=')?;
    let (name, add) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let fits = starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    fits.then_some((name, add, value))
}

/// Makes sure that a line put behind `bytes` is a line of its own: a last line that goes on would
/// swallow it.
pub fn end_line(bytes: &mut Vec<u8>) {
    if bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(b'\n');
    }
    if bytes.ends_with(b"\\\n") {
        bytes.push(b'\n');
    }
}

/// `text` as one shell word in double quotes that are not closed or opened here.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> ShellVars {
        let mut vars = ShellVars::default();
        vars.read(text);
        vars
    }

    #[test]
    fn quotes_comments_and_continuations() {
        let vars = read(concat!(
            "# A=comment\nA=plain # and more\nB='a \"b\" $A'\nC=\"x $A ${A} \\\"q\\\" \\\ny\"\n",
            "export D=one\\ two; E=\"$D\"three\nF='it'\"'\"'s'\n"
        ));
        assert_eq!(vars.get("A"), "plain");
        assert_eq!(vars.get("B"), "a \"b\" $A");
        assert_eq!(vars.get("C"), "x plain plain \"q\" y");
        assert_eq!((vars.get("D"), vars.get("E")), ("one two", "one twothree"));
        assert_eq!(vars.get("F"), "it's");
    }

    #[test]
    fn the_last_assignment_counts_and_plus_adds() {
        let vars = read("A=1\nA=2\nA+=3\nB=\"$A $A\"\n");
        assert_eq!((vars.get("A"), vars.get("B")), ("23", "23 23"));
    }

    #[test]
    fn what_would_have_to_be_run_is_marked() {
        let vars = read(
            "D=`lsb_release -i 2> /dev/null || echo Debian`\nE=$(a; b (c))x\nF=$D\nif x; then\n",
        );
        assert!(["D", "E", "F"].iter().all(|n| vars.value(n).is_some_and(|v| v.opaque)));
        assert_eq!(vars.get("E"), "x");
        assert_eq!(vars.oddities.len(), 2, "{:?}", vars.oddities);
    }

    #[test]
    fn arrays_are_lists_of_words() {
        assert_eq!(read("P=('default' 'fallback')\n").get("P"), "default fallback");
    }

    #[test]
    fn crlf_and_an_unfinished_line_are_survived() {
        let vars = read("A=\"quiet\"\r\nB=x \\");
        assert_eq!(vars.get("A"), "quiet\r");
        assert_eq!(vars.oddities.len(), 2, "{:?}", vars.oddities);
    }

    proptest! {
        #[test]
        fn what_is_escaped_reads_back(text in "\\PC{0,40}") {
            let vars = read(&format!("A=\"{}\"\n", escaped(&text)));
            prop_assert_eq!(vars.get("A"), text);
        }

        #[test]
        fn any_text_is_survived(text in "[A-C='\"\\\\$`(){};# \n\r\tx]{0,60}") {
            let _ = read(&text);
        }
    }
}
