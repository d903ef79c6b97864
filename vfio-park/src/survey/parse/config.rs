//! The first 64 bytes of PCI config space: what any user may read.

use thiserror::Error;

use crate::{PciId, Window};

/// What the standard header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigHeader {
    /// Vendor and device.
    pub id: PciId,
    /// Class code, 24 bits.
    pub class: u32,
    /// Command register.
    pub command: u16,
    /// What comes after the common part.
    pub header: Header,
}

/// The part of the header that depends on its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// Type 0: six BARs.
    Endpoint {
        /// The raw BAR registers.
        bars: [u32; 6],
    },
    /// Type 1: two BARs and the windows.
    Bridge {
        /// The raw BAR registers.
        bars: [u32; 2],
        /// Bus directly below.
        secondary: u8,
        /// Highest bus below.
        subordinate: u8,
        /// Non-prefetchable window.
        memory: Window,
        /// Prefetchable window.
        prefetchable: Window,
        /// The prefetchable window decodes 64 address bits.
        wide: bool,
    },
    /// Any other type (`CardBus`), with its number.
    Other(u8),
}

/// Config space that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Fewer than 64 bytes.
    #[error("config space gave {0} of 64 bytes")]
    Short(usize),
    /// The id reads all-ones.
    #[error("config space reads all-ones: the function is off the bus or without power")]
    AllOnes,
}

/// A memory BAR as its register holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawBar {
    /// Address.
    pub address: u64,
    /// Decodes 64 address bits.
    pub is_64bit: bool,
    /// Prefetchable.
    pub prefetchable: bool,
}

impl ConfigHeader {
    /// Parses the header.
    ///
    /// ```
    /// use vfio_park::survey::parse::{ConfigError, ConfigHeader};
    ///
    /// assert_eq!(ConfigHeader::parse(&[0xff; 64]), Err(ConfigError::AllOnes));
    /// assert_eq!(ConfigHeader::parse(b"short"), Err(ConfigError::Short(5)));
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Self, ConfigError> {
        let Some(bytes) = bytes.first_chunk::<64>() else {
            return Err(ConfigError::Short(bytes.len()));
        };
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let dword = |at: usize| u32::from(word(at)) | u32::from(word(at + 2)) << 16;
        if dword(0) == u32::MAX {
            return Err(ConfigError::AllOnes);
        }
        let header = match bytes[0x0e] & 0x7f {
            0 => Header::Endpoint { bars: std::array::from_fn(|n| dword(0x10 + 4 * n)) },
            1 => {
                let (prefetchable, wide) = prefetchable(dword(0x24), dword(0x28), dword(0x2c));
                Header::Bridge {
                    bars: [dword(0x10), dword(0x14)],
                    secondary: bytes[0x19],
                    subordinate: bytes[0x1a],
                    memory: window(dword(0x20), 0, 0),
                    prefetchable,
                    wide,
                }
            }
            other => Header::Other(other),
        };
        Ok(Self {
            id: PciId { vendor: word(0), device: word(2) },
            class: dword(0x08) >> 8,
            command: word(0x04),
            header,
        })
    }

    /// BAR number `index`, where it is a memory BAR and not the upper half of the one before.
    pub fn memory_bar(&self, index: u8) -> Option<RawBar> {
        let bars: &[u32] = match &self.header {
            Header::Endpoint { bars } => bars,
            Header::Bridge { bars, .. } => bars,
            Header::Other(_) => &[],
        };
        let wide = |bar: u32| bar & 0b111 == 0b100;
        let mut at = 0;
        while at < usize::from(index) {
            at += if wide(*bars.get(at)?) { 2 } else { 1 };
        }
        let low = *bars.get(at).filter(|bar| at == usize::from(index) && **bar & 1 == 0)?;
        let high = if wide(low) { *bars.get(at + 1)? } else { 0 };
        Some(RawBar {
            address: u64::from(high) << 32 | u64::from(low & !0xf),
            is_64bit: wide(low),
            prefetchable: low & 0b1000 != 0,
        })
    }
}

fn prefetchable(low: u32, base_upper: u32, limit_upper: u32) -> (Window, bool) {
    let wide = low & 0xf == 1;
    let upper = |half: u32| if wide { u64::from(half) << 32 } else { 0 };
    (window(low, upper(base_upper), upper(limit_upper)), wide)
}

/// A window from its base (lower half) and limit (upper half), 1 MiB granular.
fn window(register: u32, base_upper: u64, limit_upper: u64) -> Window {
    let base = base_upper | u64::from(register & 0xfff0) << 16;
    let limit = limit_upper | u64::from(register >> 16 & 0xfff0) << 16 | 0xf_ffff;
    Window::from_base_limit(base, limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Slot;

    fn header(dwords: &[(usize, u32)]) -> [u8; 64] {
        let mut bytes = [0; 64];
        for (at, value) in dwords {
            bytes[*at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    const BRIDGE: [(usize, u32); 3] =
        [(0x00, 0x8747_10b5), (0x0c, 0x0001_0000), (0x18, 0x0004_0302)];

    fn pref(base_upper: u32) -> Window {
        let gate = [(0x24, 0xfff1_0001), (0x28, base_upper), (0x2c, 0xf)];
        let bytes = header(&[BRIDGE.as_slice(), &gate].concat());
        match ConfigHeader::parse(&bytes).expect("a header").header {
            Header::Bridge { prefetchable, wide: true, secondary: 3, subordinate: 4, .. } => {
                prefetchable
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_gate_is_one_dword() {
        assert_eq!(pref(0xc), Window::Open(Slot::BTC_S37.range()));
        assert_eq!(pref(0xff).open_range(), None);
    }

    #[test]
    fn a_narrow_window_ignores_the_upper_halves() {
        let bytes =
            header(&[BRIDGE.as_slice(), &[(0x24, 0xe010_e000), (0x28, 7), (0x2c, 7)]].concat());
        let Header::Bridge { prefetchable, wide, .. } =
            ConfigHeader::parse(&bytes).expect("a header").header
        else {
            panic!("no bridge")
        };
        assert!(!wide);
        assert_eq!(prefetchable, Window::from_base_limit(0xe000_0000, 0xe01f_ffff));
    }

    #[test]
    fn the_bars_of_a_die() {
        let bars = [
            (0x00, 0x102d_10de),
            (0x10, 0xf000_0000),
            (0x14, 0xc),
            (0x18, 0xc),
            (0x1c, 0xf200_000c),
            (0x24, 0xe001),
        ];
        let config = ConfigHeader::parse(&header(&bars)).expect("a header");
        let addresses: Vec<_> =
            (0..7).map(|n| config.memory_bar(n).map(|bar| bar.address)).collect();
        let expected =
            [Some(0xf000_0000), Some(0xc_0000_0000), None, Some(0xf200_0000), None, None, None];
        assert_eq!(addresses, expected);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(config) = ConfigHeader::parse(&bytes) {
                for index in 0..=u8::MAX {
                    let _ = config.memory_bar(index);
                }
            }
        }
    }
}
