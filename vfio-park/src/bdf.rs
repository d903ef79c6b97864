//! PCI addresses and ids: one type and one parser each.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A PCI function's address, `DDDD:BB:DD.F`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Bdf {
    domain: u16,
    bus: u8,
    device: u8,
    function: u8,
}

impl Bdf {
    /// The address of `device`.`function` on `bus`; `None` where device > 31 or function > 7.
    pub const fn new(domain: u16, bus: u8, device: u8, function: u8) -> Option<Self> {
        if device > 31 || function > 7 {
            return None;
        }
        Some(Self { domain, bus, device, function })
    }

    /// PCI domain (segment).
    pub const fn domain(self) -> u16 {
        self.domain
    }

    /// Bus number.
    pub const fn bus(self) -> u8 {
        self.bus
    }

    /// Device number, 0 to 31.
    pub const fn device(self) -> u8 {
        self.device
    }

    /// Function number, 0 to 7.
    pub const fn function(self) -> u8 {
        self.function
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// A text that is no PCI address or id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseIdError {
    /// Not `DDDD:BB:DD.F` nor `BB:DD.F`.
    #[error("`{0}` is no PCI address: write it as 0000:03:00.0 or 03:00.0")]
    Bdf(String),
    /// Not `VVVV:DDDD`.
    #[error("`{0}` is no PCI id: write it as 10de:102d")]
    PciId(String),
}

/// Hexadecimal digits only, at most `max` of them (`from_str_radix` would take a sign).
fn hex(text: &str, max: usize) -> Option<u16> {
    let fits = (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| u16::from_str_radix(text, 16).ok()).flatten()
}

impl FromStr for Bdf {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let parse = || {
            let (rest, function) = text.rsplit_once('.')?;
            let mut parts = rest.rsplitn(3, ':');
            let (device, bus) = (hex(parts.next()?, 2)?, hex(parts.next()?, 2)?);
            let domain = parts.next().map_or(Some(0), |d| hex(d, 4))?;
            let small = |v: u16| u8::try_from(v).ok();
            Self::new(domain, small(bus)?, small(device)?, small(hex(function, 1)?)?)
        };
        parse().ok_or_else(|| ParseIdError::Bdf(text.to_owned()))
    }
}

impl From<Bdf> for String {
    fn from(bdf: Bdf) -> Self {
        bdf.to_string()
    }
}

impl TryFrom<String> for Bdf {
    type Error = ParseIdError;

    fn try_from(text: String) -> Result<Self, ParseIdError> {
        text.parse()
    }
}

/// Vendor and device id of a PCI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PciId {
    /// Vendor id, e.g. `0x10de`.
    pub vendor: u16,
    /// Device id, e.g. `0x102d`.
    pub device: u16,
}

impl PciId {
    /// A die of a Tesla K80.
    pub const GK210: Self = Self { vendor: 0x10de, device: 0x102d };
}

impl fmt::Display for PciId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

impl FromStr for PciId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        text.split_once(':')
            .and_then(|(v, d)| Some(Self { vendor: hex(v, 4)?, device: hex(d, 4)? }))
            .ok_or_else(|| ParseIdError::PciId(text.to_owned()))
    }
}

impl From<PciId> for String {
    fn from(id: PciId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for PciId {
    type Error = ParseIdError;

    fn try_from(text: String) -> Result<Self, ParseIdError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bdf_survives_its_text(domain: u16, bus: u8, device in 0u8..32, function in 0u8..8) {
            let bdf = Bdf::new(domain, bus, device, function).expect("in range");
            prop_assert_eq!(bdf.to_string().parse(), Ok(bdf));
        }

        #[test]
        fn a_pci_id_survives_its_text(vendor: u16, device: u16) {
            let id = PciId { vendor, device };
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }

        #[test]
        fn any_text_parses_or_says_no(text in ".{0,20}") {
            let _ = text.parse::<Bdf>();
            let _ = text.parse::<PciId>();
        }
    }

    #[test]
    fn the_domain_may_be_left_out() {
        assert_eq!("03:00.0".parse(), "0000:03:00.0".parse::<Bdf>());
    }

    #[test]
    fn bad_addresses_are_refused() {
        for text in
            ["", "3", "03:00", "03:20.0", "03:00.8", "+3:00.0", "1:0000:03:00.0", "03:00.0 "]
        {
            assert!(text.parse::<Bdf>().is_err(), "{text:?}");
        }
    }
}
