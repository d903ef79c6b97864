//! Physical addresses, sizes and slots.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One gibibyte in bytes.
pub const GIB: u64 = 1 << 30;
/// One mebibyte in bytes.
pub const MIB: u64 = 1 << 20;

/// A non-empty range of physical addresses that does not wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AddressRange {
    base: u64,
    size: u64,
}

impl AddressRange {
    /// `size` bytes from `base`; `None` where that is empty or passes the end of 64 bits.
    pub const fn new(base: u64, size: u64) -> Option<Self> {
        if size == 0 || base.checked_add(size - 1).is_none() {
            return None;
        }
        Some(Self { base, size })
    }

    /// From the first to the last byte, both included.
    pub const fn from_first_last(first: u64, last: u64) -> Option<Self> {
        if last < first || last - first == u64::MAX {
            return None;
        }
        Some(Self { base: first, size: last - first + 1 })
    }

    /// First byte.
    pub const fn base(self) -> u64 {
        self.base
    }

    /// Length in bytes.
    pub const fn size(self) -> u64 {
        self.size
    }

    /// Last byte.
    pub const fn last(self) -> u64 {
        self.base + (self.size - 1)
    }

    /// Whether `other` lies wholly inside.
    pub const fn contains(self, other: Self) -> bool {
        self.base <= other.base && other.last() <= self.last()
    }

    /// Whether the two share a byte.
    pub const fn overlaps(self, other: Self) -> bool {
        self.base <= other.last() && other.base <= self.last()
    }

    /// The smallest range that holds both.
    #[must_use]
    pub fn span(self, other: Self) -> Self {
        let (first, last) = (self.base.min(other.base), self.last().max(other.last()));
        Self { base: first, size: last - first + 1 }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}-{:#x}", self.base, self.last())
    }
}

/// Position of a slot in the configured list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotId(pub u8);

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.0)
    }
}

/// A place where dies take turns: a power-of-two size, aligned to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Slot(AddressRange);

impl Slot {
    /// The slot of the BTC-S37 board: 16 GiB at `0xC00000000`.
    pub const BTC_S37: Self = Self(AddressRange { base: 0xC_0000_0000, size: 16 * GIB });

    /// `size` bytes at `base`.
    ///
    /// # Errors
    /// Where the size is no power of two, or the base is no multiple of it.
    pub fn new(base: u64, size: u64) -> Result<Self, ParseSlotError> {
        let range = AddressRange::new(base, size).ok_or(ParseSlotError::Range { base, size })?;
        if !size.is_power_of_two() || !base.is_multiple_of(size) {
            return Err(ParseSlotError::Unaligned { base, size });
        }
        Ok(Self(range))
    }

    /// The addresses of the slot.
    pub const fn range(self) -> AddressRange {
        self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}+{:#x}", self.0.base, self.0.size)
    }
}

/// A text or a pair of numbers that is no slot.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseSlotError {
    /// Not `BASE` nor `BASE+SIZE`.
    #[error("`{0}` is no slot: write it as 0xC00000000 (16 GiB) or 0xC00000000+0x400000000")]
    Text(String),
    /// Empty, or past the end of 64 bits.
    #[error("{size:#x} bytes at {base:#x} are no range of addresses")]
    Range {
        /// The first byte asked for.
        base: u64,
        /// The size asked for.
        size: u64,
    },
    /// A BAR could not decode it.
    #[error(
        "a slot of {size:#x} bytes must be a power of two and start at a multiple of its size, {base:#x} does not"
    )]
    Unaligned {
        /// The first byte asked for.
        base: u64,
        /// The size asked for.
        size: u64,
    },
}

impl FromStr for Slot {
    type Err = ParseSlotError;

    fn from_str(text: &str) -> Result<Self, ParseSlotError> {
        let number = |t: &str| {
            let digits = t.strip_prefix("0x").or_else(|| t.strip_prefix("0X"))?;
            let hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
            hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        };
        let parsed = match text.split_once('+') {
            Some((base, size)) => number(base).zip(number(size)),
            None => number(text).zip(Some(16 * GIB)),
        };
        let (base, size) = parsed.ok_or_else(|| ParseSlotError::Text(text.to_owned()))?;
        Self::new(base, size)
    }
}

impl From<Slot> for String {
    fn from(slot: Slot) -> Self {
        slot.to_string()
    }
}

impl TryFrom<String> for Slot {
    type Error = ParseSlotError;

    fn try_from(text: String) -> Result<Self, ParseSlotError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_slot_survives_its_text(order in 12u32..40, n in 1u64..64) {
            let size = 1u64 << order;
            let slot = Slot::new(n * size, size).expect("aligned");
            prop_assert_eq!(slot.to_string().parse(), Ok(slot));
        }

        #[test]
        fn ranges_that_contain_each_other_overlap(a: u32, n in 1u32.., b: u32, m in 1u32..) {
            let (x, y) = (AddressRange::new(a.into(), n.into()), AddressRange::new(b.into(), m.into()));
            let (x, y) = (x.expect("fits"), y.expect("fits"));
            prop_assert!(!x.contains(y) || x.overlaps(y));
            prop_assert_eq!(x.overlaps(y), y.overlaps(x));
            prop_assert!(x.span(y).contains(x) && x.span(y).contains(y));
        }
    }

    #[test]
    fn the_size_defaults_to_16_gib() {
        assert_eq!("0xC00000000".parse(), Ok(Slot::BTC_S37));
    }

    #[test]
    fn bad_slots_are_refused() {
        for text in [
            "",
            "0x",
            "C00000000",
            "0xC00000001",
            "0x0+0x0",
            "0x100000000+0x180000000",
            "0xC00000000+",
        ] {
            assert!(text.parse::<Slot>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_last_byte_of_64_bits_can_be_in_a_range() {
        assert!(AddressRange::new(u64::MAX, 1).is_some());
        assert!(AddressRange::new(u64::MAX, 2).is_none());
    }
}
