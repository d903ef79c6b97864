//! What a line has to say, and how that is merged with what it says.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::IdList;

/// How a key's value is judged and merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The list has these ids, besides those of others.
    Ids(IdList),
    /// The value is this one.
    Equals(String),
    /// The comma list, read in order by the kernel, has this member.
    Has(String),
}

/// One key and its rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    key: String,
    rule: Rule,
}

impl Want {
    /// `key` under `rule`.
    pub fn new(key: &str, rule: Rule) -> Self {
        Self { key: key.to_owned(), rule }
    }

    /// `key=value`.
    pub fn equals(key: &str, value: &str) -> Self {
        Self::new(key, Rule::Equals(value.to_owned()))
    }

    /// `member` in the comma list of `key`.
    pub fn has(key: &str, member: &str) -> Self {
        Self::new(key, Rule::Has(member.to_owned()))
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The ids, where it is about ids.
    pub fn ids(&self) -> Option<&IdList> {
        if let Rule::Ids(ids) = &self.rule { Some(ids) } else { None }
    }

    /// Whether the value that counts does.
    pub fn met_by(&self, value: Option<&str>) -> bool {
        let Some(value) = value else { return false };
        match &self.rule {
            Rule::Ids(ids) => IdList::parse(value).covers_all(ids),
            Rule::Equals(wanted) => value == wanted,
            Rule::Has(member) => value.split(',').any(|part| part == member),
        }
    }

    /// The token that makes it so, merged with the value that counted so far.
    pub fn token(&self, value: Option<&str>) -> String {
        let key = &self.key;
        match &self.rule {
            Rule::Ids(ids) => {
                format!("{key}={}", value.map(IdList::parse).unwrap_or_default().union(ids))
            }
            Rule::Equals(text) | Rule::Has(text) => format!("{key}={text}"),
        }
    }

    /// Whether a word that does not meet the rule is replaced. One of a list that the kernel reads
    /// in order stays, since each of its members does something.
    pub(super) fn replaces(&self) -> bool {
        !matches!(self.rule, Rule::Has(_))
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.token(None))
    }
}
