//! How a test in the guest tells the judge what it is about to do.
//!
//! A marker is a text written into the config space of a background device. It goes the same way
//! as the config writes that are judged, so that it stands in QEMU's trace exactly between those
//! before and those after it, and in the devices' log likewise.
//!
//! The text is `KIND[+stray][+registers] anything`, at most 64 bytes.

use std::{fmt, fs, io, os::unix::fs::FileExt, path::PathBuf, str::FromStr};

use crate::device::{MARKER_OFFSET, MARKER_SIZE};

/// What kind of thing the guest is about to do, and so what the judge allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Before the first marker: firmware and kernel set the machine up. Nothing is judged.
    Boot,
    /// Anything that keeps to the rules that always hold.
    Free,
    /// No config write at all, no write to a die's registers: loading slotwin, starting slotd.
    Quiet,
    /// One swap of a die that is resident already: two config writes, or four, none to a die.
    Warm,
    /// A die's first acquire: place, open, bind. Config writes to dies are allowed.
    Cold,
    /// A die goes back to its parker.
    Park,
}

impl Kind {
    const NAMES: [(Self, &'static str); 6] = [
        (Self::Boot, "boot"),
        (Self::Free, "free"),
        (Self::Quiet, "quiet"),
        (Self::Warm, "warm"),
        (Self::Cold, "cold"),
        (Self::Park, "park"),
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(kind, _)| kind == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// A phase of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What is about to happen.
    pub kind: Kind,
    /// Somebody may touch a slot while no die is in it.
    pub stray: bool,
    /// BAR0 registers may be written: the vendor's driver is at work.
    pub registers: bool,
    /// For people.
    pub text: String,
}

impl Phase {
    /// A phase in which nothing beyond its kind is allowed.
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, stray: false, registers: false, text: text.into() }
    }

    /// The same, but slots may be touched while no die is in them.
    #[must_use]
    pub fn with_stray(mut self) -> Self {
        self.stray = true;
        self
    }

    /// The same, but BAR0 registers may be written.
    #[must_use]
    pub fn with_registers(mut self) -> Self {
        self.registers = true;
        self
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        f.write_str(if self.stray { "+stray" } else { "" })?;
        f.write_str(if self.registers { "+registers" } else { "" })?;
        if self.text.is_empty() { Ok(()) } else { write!(f, " {}", self.text) }
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (head, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mut words = head.split('+');
        let name = words.next().unwrap_or_default();
        let kind = Kind::NAMES.iter().find(|(_, n)| *n == name).map(|(kind, _)| *kind);
        let kind =
            kind.ok_or_else(|| format!("`{name}` is no kind of phase, in marker `{text}`"))?;
        let mut phase = Self::new(kind, rest);
        for word in words {
            match word {
                "stray" => phase.stray = true,
                "registers" => phase.registers = true,
                _ => return Err(format!("`+{word}` is unknown, in marker `{text}`")),
            }
        }
        Ok(phase)
    }
}

/// A text as the bytes of a marker; cut where it is too long.
pub fn encode(text: &str) -> [u8; MARKER_SIZE] {
    let mut bytes = [0; MARKER_SIZE];
    for (byte, new) in bytes.iter_mut().zip(text.bytes()) {
        *byte = new;
    }
    bytes
}

/// The text of a marker's bytes.
pub fn decode(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches(['\0', ' ']).to_owned()
}

/// In the guest: tells the judge that `phase` begins.
pub fn mark(phase: &Phase) -> io::Result<()> {
    let config = marker_device()?.join("config");
    let file = fs::File::options().write(true).open(config)?;
    file.write_all_at(&encode(&phase.to_string()), MARKER_OFFSET.into())
}

fn marker_device() -> io::Result<PathBuf> {
    for entry in fs::read_dir("/sys/bus/pci/devices")? {
        let path = entry?.path();
        let id = |name| fs::read_to_string(path.join(name)).map(|text| text.trim().to_owned());
        if id("vendor")? == "0x1b36" && id("device")? == "0x00ff" {
            return Ok(path);
        }
    }
    let missing = "no background device: markers are for guests of the rig";
    Err(io::Error::new(io::ErrorKind::NotFound, missing))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_phase_survives_its_marker(
            kind in prop::sample::select(Kind::NAMES.map(|(kind, _)| kind).to_vec()),
            stray: bool, registers: bool, text in "[a-z0-9]([ -~]{0,30}[a-z0-9])?"
        ) {
            let phase = Phase { kind, stray, registers, text };
            prop_assert_eq!(decode(&encode(&phase.to_string())).parse(), Ok(phase));
        }
    }

    #[test]
    fn unknown_markers_are_refused() {
        for text in ["", "swap", "warm+loud", "Warm"] {
            assert!(text.parse::<Phase>().is_err(), "{text:?}");
        }
    }
}
