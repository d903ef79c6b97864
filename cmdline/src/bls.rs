//! Boot Loader Specification entries (`loader/entries/*.conf`), type 1.

use crate::tokens::Line;

/// An entry. Editing keeps every byte that it does not have to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    lines: Vec<String>,
}

impl Entry {
    /// Reads an entry; every text is one, perhaps an empty one.
    pub fn parse(text: &str) -> Self {
        Self { lines: text.split_inclusive('\n').map(str::to_owned).collect() }
    }

    /// The values of `key`, in order.
    pub fn values(&self, key: &str) -> Vec<&str> {
        self.lines
            .iter()
            .filter_map(|line| field(line))
            .filter(|f| f.0 == key)
            .map(|f| f.1)
            .collect()
    }

    /// The first value of `key`.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.values(key).first().copied()
    }

    /// The whole line: several `options` are joined by blanks.
    pub fn options(&self) -> Line {
        Line::new(self.values("options").join(" "))
    }

    /// This entry with `options` in place of those that it has.
    #[must_use]
    pub fn with_options(&self, options: &Line) -> Self {
        self.with("options", &[options.as_str()])
    }

    /// This entry with these values for `key`, where the first of them stood or at the end.
    #[must_use]
    pub fn with(&self, key: &str, values: &[&str]) -> Self {
        let mut lines = Vec::new();
        let mut todo = Some(values);
        let mut put = |lines: &mut Vec<String>, gap: &str, end: &str| {
            for value in todo.take().unwrap_or_default() {
                lines.push(format!("{key}{gap}{value}{end}"));
            }
        };
        for line in &self.lines {
            match field(line) {
                Some((found, value)) if found == key => {
                    let start = line.len() - line.trim_start().len() + key.len();
                    let rest = &line[start..];
                    let gap = &rest[..rest.len() - rest.trim_start().len()];
                    let end = &rest[gap.len() + value.len()..];
                    put(&mut lines, gap, if end.is_empty() { "\n" } else { end });
                }
                _ => lines.push(line.clone()),
            }
        }
        if lines.last().is_some_and(|line| !line.ends_with('\n')) {
            lines.push("\n".to_owned());
        }
        put(&mut lines, " ", "\n");
        Self { lines }
    }

    /// The text.
    pub fn text(&self) -> String {
        self.lines.concat()
    }
}

fn field(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let (key, value) = line.split_once([' ', '\t'])?;
    Some((key, value.trim_start()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn options_are_joined_and_replaced_where_they_stand() {
        let entry =
            Entry::parse("title A\noptions  root=x quiet \r\n# options no\noptions b\nlinux /v\n");
        assert_eq!(entry.options().as_str(), "root=x quiet b");
        assert_eq!(
            entry.with_options(&Line::new("new")).text(),
            "title A\noptions  new \r\n# options no\nlinux /v\n"
        );
    }

    #[test]
    fn a_missing_key_goes_to_the_end() {
        let entry = Entry::parse("title A").with("initrd", &["/a", "/b"]);
        assert_eq!(entry.text(), "title A\ninitrd /a\ninitrd /b\n");
        assert_eq!(entry.values("initrd"), ["/a", "/b"]);
    }

    proptest! {
        #[test]
        fn the_text_survives(text in "[a-c \t\r\n#]{0,60}") {
            prop_assert_eq!(Entry::parse(&text).text(), text);
        }

        #[test]
        fn what_is_put_in_is_read_back(text in "(options|title|#|x| |\t|\n){0,9}", value in "[a-z]{1,5}( [a-z]{1,5}){0,3}") {
            let entry = Entry::parse(&text).with_options(&Line::new(value.clone()));
            let read = entry.options();
            prop_assert_eq!(read.as_str(), value);
        }
    }
}
