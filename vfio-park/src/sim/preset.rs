//! Machines to simulate, by name.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

use crate::{AddressRange, GIB, Slot};

/// How much address space there is for the dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// One slot, which firmware gave to the first die.
    One,
    /// Three slots in 36 bits, which firmware gave to the first three dies.
    Three,
    /// An office PC without "Above 4G decoding": room for two slots, used by nobody.
    Office,
    /// Enough: firmware placed every die.
    Roomy,
}

/// What vfio-pci finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iommu {
    /// Nothing: vfio-pci takes no die, the parker is pci-stub.
    None,
    /// An IOMMU; the parker is vfio-pci, and dies sleep in D3hot.
    Present,
    /// No IOMMU, but `enable_unsafe_noiommu_mode=1` set before the first probe.
    NoIommuMode,
}

/// A machine to simulate.
///
/// As text: `k80xN` (N dies, two a card), then `-win48` (three slots) or `-roomy`, then `-iommu` or
/// `-noiommu`, then `-alone` (without the T4 beside the dies). `k80x1` is something else: the
/// office PC with one K80, which has room for two slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Cards of two dies each, 1 to 28.
    pub cards: u8,
    /// Room for the dies.
    pub room: Room,
    /// What vfio-pci finds.
    pub iommu: Iommu,
    /// Whether a T4 sits beside them, bound to nvidia from boot on.
    pub neighbour: bool,
}

/// A text that names no machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no simulated machine: use k80x1 (an office PC) or k80xN with an even number N of dies up to 56, \
     then as you like -win48 or -roomy, -iommu or -noiommu, -alone; e.g. k80x16, k80x4-roomy-alone"
)]
pub struct ParsePresetError(pub String);

impl Preset {
    /// Eight cards on a BTC-S37: `k80x16`.
    pub const BTC_S37: Self =
        Self { cards: 8, room: Room::One, iommu: Iommu::None, neighbour: true };

    /// Physical address bits of the processor.
    pub fn physical_bits(&self) -> u8 {
        if self.room == Room::Roomy { 46 } else { 36 }
    }

    /// The slots that such a machine is configured with.
    pub fn slots(&self) -> Vec<Slot> {
        let bases: &[u64] = match self.room {
            Room::One => &[0xC_0000_0000],
            Room::Three => &[0x4_0000_0000, 0x8_0000_0000, 0xC_0000_0000],
            Room::Office => &[0x8_0000_0000, 0xC_0000_0000],
            Room::Roomy => &[ROOMY_BASE],
        };
        bases.iter().filter_map(|base| Slot::new(*base, 16 * GIB).ok()).collect()
    }

    /// Physical addresses with memory in them.
    pub(super) fn ram(&self) -> Vec<AddressRange> {
        let (low, high) = match self.room {
            Room::Office => (3 * GIB, 13 * GIB),
            Room::One | Room::Three | Room::Roomy => (2 * GIB, 6 * GIB),
        };
        [(0x1000, 0x9_f000), (0x10_0000, low - 0x10_0000), (4 * GIB, high)]
            .into_iter()
            .filter_map(|(base, size)| AddressRange::new(base, size))
            .collect()
    }

    /// Physical addresses that reach PCI.
    pub(super) fn host_windows(&self) -> Vec<AddressRange> {
        let low = if self.room == Room::Office { 3 * GIB } else { 2 * GIB };
        let high = match self.room {
            Room::One => (0xC_0000_0000, 16 * GIB),
            Room::Three => (0x4_0000_0000, 48 * GIB),
            Room::Office => (0x8_0000_0000, 32 * GIB),
            Room::Roomy => (ROOMY_BASE, ROOMY_STRIDE * u64::from(self.cards)),
        };
        [(low, 0xfec0_0000 - low), high]
            .into_iter()
            .filter_map(|(base, size)| AddressRange::new(base, size))
            .collect()
    }
}

/// Where a roomy machine has its dies.
pub(super) const ROOMY_BASE: u64 = 512 * GIB;
/// What a card has there: two dies 32 GiB apart.
pub(super) const ROOMY_STRIDE: u64 = 64 * GIB;

impl FromStr for Preset {
    type Err = ParsePresetError;

    fn from_str(text: &str) -> Result<Self, ParsePresetError> {
        let parse = || {
            let mut parts = text.split('-').peekable();
            let dies = parts.next()?.strip_prefix("k80x")?;
            let plain = dies.bytes().all(|b| b.is_ascii_digit()) && !dies.starts_with('0');
            let dies: u8 = dies.parse().ok().filter(|_| plain)?;
            let office = dies == 1;
            let cards = if office { 1 } else { dies / 2 };
            if !office && (!dies.is_multiple_of(2) || !(2..=56).contains(&dies)) {
                return None;
            }
            let room = if office {
                Room::Office
            } else if parts.next_if_eq(&"win48").is_some() {
                Room::Three
            } else if parts.next_if_eq(&"roomy").is_some() {
                Room::Roomy
            } else {
                Room::One
            };
            let iommu = if parts.next_if_eq(&"iommu").is_some() {
                Iommu::Present
            } else if parts.next_if_eq(&"noiommu").is_some() {
                Iommu::NoIommuMode
            } else {
                Iommu::None
            };
            let alone = parts.next_if_eq(&"alone").is_some();
            let neighbour = !alone && !office;
            parts.next().is_none().then_some(Self { cards, room, iommu, neighbour })
        };
        parse().ok_or_else(|| ParsePresetError(text.to_owned()))
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let office = self.room == Room::Office;
        let dies = if office { 1 } else { 2 * u16::from(self.cards) };
        let room = match self.room {
            Room::One | Room::Office => "",
            Room::Three => "-win48",
            Room::Roomy => "-roomy",
        };
        let iommu = match self.iommu {
            Iommu::None => "",
            Iommu::Present => "-iommu",
            Iommu::NoIommuMode => "-noiommu",
        };
        let alone = if self.neighbour || office { "" } else { "-alone" };
        write!(f, "k80x{dies}{room}{iommu}{alone}")
    }
}

/// How long things take. All of them are made up: a simulation says nothing about the speed of a
/// real machine, where an adapter takes about 2.5 s to come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// One config write.
    pub config_write: Duration,
    /// A driver taking a die.
    pub bind: Duration,
    /// A driver letting a die go.
    pub unbind: Duration,
    /// The first hold of a die: the adapter comes up.
    pub adapter_up: Duration,
}

impl Costs {
    /// Nothing takes time.
    pub const NONE: Self = Self {
        config_write: Duration::ZERO,
        bind: Duration::ZERO,
        unbind: Duration::ZERO,
        adapter_up: Duration::ZERO,
    };
}

impl Default for Costs {
    /// As a demonstration likes it: cold some 60 ms, warm below one.
    fn default() -> Self {
        Self {
            config_write: Duration::from_micros(50),
            bind: Duration::from_millis(15),
            unbind: Duration::from_millis(20),
            adapter_up: Duration::from_millis(45),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_preset() -> impl Strategy<Value = Preset> {
        let rooms = prop::sample::select(vec![Room::One, Room::Three, Room::Office, Room::Roomy]);
        let iommus = prop::sample::select(vec![Iommu::None, Iommu::Present, Iommu::NoIommuMode]);
        (1u8..=28, rooms, iommus, any::<bool>()).prop_map(|(cards, room, iommu, neighbour)| {
            let office = room == Room::Office;
            let cards = if office { 1 } else { cards };
            Preset { cards, room, iommu, neighbour: neighbour && !office }
        })
    }

    proptest! {
        #[test]
        fn a_preset_survives_its_name(preset in any_preset()) {
            prop_assert_eq!(preset.to_string().parse(), Ok(preset));
        }

        #[test]
        fn slots_lie_in_a_host_window_and_not_in_ram(preset in any_preset()) {
            for slot in preset.slots() {
                prop_assert!(preset.host_windows().iter().any(|w| w.contains(slot.range())));
                prop_assert!(!preset.ram().iter().any(|r| r.overlaps(slot.range())));
                prop_assert!(slot.range().last() >> preset.physical_bits() == 0);
            }
        }
    }

    #[test]
    fn names_of_nothing_are_refused() {
        for text in [
            "",
            "k80",
            "k80x0",
            "k80x3",
            "k80x58",
            "k80x+4",
            "k80x04",
            "k80x4-",
            "k80x4-iommu-win48",
            "p100x4",
        ] {
            assert!(text.parse::<Preset>().is_err(), "{text:?}");
        }
        assert_eq!("k80x16".parse(), Ok(Preset::BTC_S37));
    }
}
