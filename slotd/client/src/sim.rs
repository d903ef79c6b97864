//! `org.barswap.Sim`: act as the processor and the operator of a simulated machine.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::api::{Empty, Method};

/// Name of the interface.
pub const INTERFACE: &str = "org.barswap.Sim";

/// The most bytes that one [`Read`] or [`Write`] takes.
pub const MAX_BYTES: u64 = 65_536;

/// Reads physical memory through the windows as they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// First address.
    pub address: u64,
    /// How many bytes, at most [`MAX_BYTES`].
    pub length: u64,
}

/// Answer of [`Read`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadReply {
    /// The bytes.
    #[serde(with = "hexadecimal")]
    pub bytes: Vec<u8>,
}

/// Writes physical memory through the windows as they stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// First address.
    pub address: u64,
    /// The bytes, at most [`MAX_BYTES`].
    #[serde(with = "hexadecimal")]
    pub bytes: Vec<u8>,
}

/// Asks for the rules of the machine that were broken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Violations {}

/// Answer of [`Violations`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViolationsReply {
    /// In words; empty in a good run.
    pub violations: Vec<String>,
}

/// Turns the machine off and on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerCycle {}

/// What `echo 1 > /sys/bus/pci/rescan` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rescan {}

macro_rules! methods {
    ($($call:ty => $name:literal, $reply:ty;)*) => {
        $(impl Method for $call {
            const NAME: &'static str = concat!("org.barswap.Sim.", $name);
            type Reply = $reply;
        })*
    };
}

methods! {
    Read => "Read", ReadReply;
    Write => "Write", Empty;
    Violations => "Violations", ViolationsReply;
    PowerCycle => "PowerCycle", Empty;
    Rescan => "Rescan", Empty;
}

/// Why the simulator refused.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(tag = "error", content = "parameters")]
#[non_exhaustive]
pub enum Refusal {
    /// With its reason.
    #[serde(rename = "org.barswap.Sim.Refused")]
    #[error("the simulator refused: {reason}")]
    Refused {
        /// In words.
        reason: String,
    },
}

/// Bytes as two hexadecimal digits each.
mod hexadecimal {
    use std::fmt::Write as _;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let pair = |pair: &[u8]| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        };
        let bytes = text.as_bytes().chunks(2).map(pair).collect::<Option<Vec<u8>>>();
        bytes.ok_or_else(|| D::Error::custom("not pairs of hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_their_text() {
        let write = Write { address: 1, bytes: (0..=255).collect() };
        let text = serde_json::to_string(&write).expect("plain data");
        assert_eq!(serde_json::from_str::<Write>(&text).expect("its own text"), write);
        for bad in ["f", "0g", "+1", "0x00"] {
            let text = format!(r#"{{"address":0,"bytes":"{bad}"}}"#);
            assert!(serde_json::from_str::<Write>(&text).is_err(), "{bad}");
        }
    }
}
