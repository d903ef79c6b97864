//! Lists of PCI ids as vfio-pci and pci-stub take them.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use vfio_park::PciId;

/// Longest list that the drivers' buffer holds, without its closing NUL.
const LONGEST: usize = 1023;

/// The merged list does not fit the driver's buffer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the merged id list is {0} bytes long and the driver reads {LONGEST}: shorten the list that is there"
)]
pub struct IdsTooLong(pub usize);

/// A comma separated id list. Entries of others are kept as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdList(Vec<String>);

impl IdList {
    /// Reads a list. Entries that the kernel drops too are dropped: empty ones, and those with
    /// blanks or quotes in them.
    pub fn parse(text: &str) -> Self {
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '"';
        let entries = text.split(',').map(str::trim);
        Self(entries.filter(|e| !e.is_empty() && !e.contains(odd)).map(str::to_owned).collect())
    }

    /// A list of whole ids.
    pub fn of(ids: &[PciId]) -> Self {
        Self(ids.iter().map(PciId::to_string).collect())
    }

    /// The entries as written.
    pub fn entries(&self) -> &[String] {
        &self.0
    }

    /// Whether some entry takes every function with `id`.
    pub fn covers(&self, id: PciId) -> bool {
        self.0.iter().any(|entry| covers(entry, id))
    }

    /// Whether some entry takes every function that `entry` takes.
    fn covers_entry(&self, entry: &str) -> bool {
        self.0.iter().any(|mine| mine == entry)
            || entry.parse().is_ok_and(|id: PciId| self.covers(id))
    }

    /// Whether this list does all that `other` does.
    pub fn covers_all(&self, other: &Self) -> bool {
        other.0.iter().all(|entry| self.covers_entry(entry))
    }

    /// This list, then what `other` has on top.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for entry in &other.0 {
            if !all.covers_entry(entry) {
                all.0.push(entry.clone());
            }
        }
        all
    }

    /// Checks that the driver can read the list.
    pub fn fits(&self) -> Result<(), IdsTooLong> {
        let len = self.to_string().len();
        if len > LONGEST { Err(IdsTooLong(len)) } else { Ok(()) }
    }
}

impl fmt::Display for IdList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// `vendor:device[:subvendor[:subdevice[:class[:mask]]]]`, all hexadecimal.
fn covers(entry: &str, id: PciId) -> bool {
    let mut fields = entry.split(':').map(|field| {
        let digits = field.strip_prefix("0x").unwrap_or(field);
        u32::from_str_radix(digits, 16).ok()
    });
    let (vendor, device) = (fields.next().flatten(), fields.next().flatten());
    let any = |field: Option<Option<u32>>| matches!(field, None | Some(Some(u32::MAX)));
    let subs = any(fields.next()) && any(fields.next());
    let class_free = match (fields.next(), fields.next()) {
        (None, _) | (Some(_), None) => true,
        (Some(_), Some(mask)) => mask == Some(0),
    };
    vendor == Some(id.vendor.into()) && device == Some(id.device.into()) && subs && class_free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_a_subvendor_covers_only_some() {
        assert!(IdList::parse("8086:1,10de:102d").covers(PciId::GK210));
        assert!(IdList::parse("0x10DE:0x102D").covers(PciId::GK210));
        assert!(IdList::parse("10de:102d:ffffffff:ffffffff:0:0").covers(PciId::GK210));
        assert!(!IdList::parse("10de:102d:10de").covers(PciId::GK210));
        assert!(!IdList::parse("10de,102d").covers(PciId::GK210));
    }

    #[test]
    fn a_list_too_long_for_the_driver_is_refused() {
        let many = "10de:102d:1:1,".repeat(80);
        assert_eq!(IdList::parse(&many).fits(), Err(IdsTooLong(14 * 80 - 1)));
    }
}
