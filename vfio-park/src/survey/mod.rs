//! What a machine looks like: dies, cards, bridges, windows, BARs, drivers.
//!
//! A [`Survey`] is plain data. It is read from sysfs by `linux`, made up by the
//! simulator, and judged by the planner; it never touches a device.

mod assemble;
pub mod parse;
mod state;
#[cfg(test)]
pub(crate) mod testing;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

pub use self::state::{DieState, is_parker};
use crate::{AddressRange, Bdf, PciId};

/// Position of a die in the order of PCI addresses, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DieId(pub u16);

impl fmt::Display for DieId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "die {}", self.0)
    }
}

/// Position of a card in the order of its first die, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CardId(pub u16);

impl fmt::Display for CardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "card {}", self.0)
    }
}

/// Name of a kernel driver as it stands under `/sys/bus/pci/drivers`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DriverName(String);

impl DriverName {
    /// A driver's name; `None` where it could not be one (empty, a path, control characters).
    pub fn new(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        let plain = |b: u8| b.is_ascii_graphic() && b != b'/';
        let fits = (1..=64).contains(&name.len()) && name.bytes().all(plain);
        (fits && name != "." && name != "..").then_some(Self(name))
    }

    /// The driver that dies are adopted by.
    pub fn nvidia() -> Self {
        Self("nvidia".to_owned())
    }

    /// The parker that works where there is an IOMMU.
    pub fn vfio_pci() -> Self {
        Self("vfio-pci".to_owned())
    }

    /// The parker that needs nothing.
    pub fn pci_stub() -> Self {
        Self("pci-stub".to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Power state of a function as the kernel knows it (`power_state` in sysfs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerState {
    /// Awake.
    D0,
    /// Light sleep.
    D1,
    /// Deeper sleep.
    D2,
    /// Asleep; config space answers, memory does not.
    D3hot,
    /// Without power; nothing answers.
    D3cold,
    /// The kernel does not know.
    Unknown,
}

/// Whether config space could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigSpace {
    /// It answers.
    #[default]
    Answers,
    /// All-ones: nobody is there.
    AllOnes,
    /// Not asked: reading would have woken the function or the bridge above it. What a survey says
    /// then comes from the kernel's books alone.
    Asleep,
    /// The file is missing, empty or too short.
    Unreadable,
}

/// A base address register and the resource the kernel keeps for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar {
    /// 0 to 5; a 64-bit BAR is named by its first half.
    pub index: u8,
    /// Where the kernel believes it to be; `None` where it is unassigned.
    pub assigned: Option<AddressRange>,
    /// Size in bytes where known (an unassigned BAR's size is not in every kernel's sysfs).
    pub size: Option<u64>,
    /// Decodes 64 address bits.
    pub is_64bit: bool,
    /// Prefetchable.
    pub prefetchable: bool,
    /// Address in the hardware's register, which the kernel's belief need not agree with; `None`
    /// where config space could not be read.
    pub register: Option<u64>,
}

/// A window of a bridge, decoded from its config registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Forwards this range.
    Open(AddressRange),
    /// Base above limit: forwards nothing.
    Shut {
        /// First byte written in the base registers.
        base: u64,
        /// Last byte written in the limit registers.
        limit: u64,
    },
}

impl Window {
    /// From the addresses of the first and last byte in the registers.
    pub fn from_base_limit(base: u64, limit: u64) -> Self {
        AddressRange::from_first_last(base, limit).map_or(Self::Shut { base, limit }, Self::Open)
    }

    /// The range it forwards.
    pub fn open_range(self) -> Option<AddressRange> {
        match self {
            Self::Open(range) => Some(range),
            Self::Shut { .. } => None,
        }
    }
}

/// What a function that is a bridge has on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bridge {
    /// Bus directly below.
    pub secondary: u8,
    /// Highest bus below.
    pub subordinate: u8,
    /// Non-prefetchable window, 32-bit.
    pub memory: Window,
    /// Prefetchable window, up to 64-bit.
    pub prefetchable: Window,
    /// Whether the prefetchable window decodes 64 address bits.
    pub wide: bool,
    /// Whether the kernel lets it fall into D3cold; `None` where sysfs does not say.
    pub d3cold_allowed: Option<bool>,
}

/// One PCI function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its address.
    pub bdf: Bdf,
    /// Vendor and device.
    pub id: PciId,
    /// Class code, 24 bits (`0x030200` is a 3D controller).
    pub class: u32,
    /// The bridge directly above; `None` on a root bus.
    pub parent: Option<Bdf>,
    /// BARs that exist.
    pub bars: Vec<Bar>,
    /// Set where it is a bridge.
    pub bridge: Option<Bridge>,
    /// Bound driver.
    pub driver: Option<DriverName>,
    /// `driver_override`, where set.
    pub driver_override: Option<String>,
    /// IOMMU group, where there is an IOMMU.
    pub iommu_group: Option<u32>,
    /// Power state.
    pub power: PowerState,
    /// Whether config space could be read.
    pub config: ConfigSpace,
    /// Command register (memory decode is bit 1); `None` where config space could not be read.
    pub command: Option<u16>,
}

impl Function {
    /// BAR number `index`.
    pub fn bar(&self, index: u8) -> Option<&Bar> {
        self.bars.iter().find(|bar| bar.index == index)
    }

    /// Whether it decodes memory, or forwards it where it is a bridge; taken for granted where
    /// config space was not asked.
    pub fn decodes_memory(&self) -> bool {
        match (self.config, self.command) {
            (ConfigSpace::AllOnes, _) => false,
            (_, command) => command.is_none_or(|command| command & 2 != 0),
        }
    }
}

/// A die: a GPU with memory of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Die {
    /// Its number.
    pub id: DieId,
    /// Its address.
    pub bdf: Bdf,
    /// The card it sits on.
    pub card: CardId,
    /// Bridges from the root port down to the port directly above the die.
    pub path: Vec<Bdf>,
}

/// The dies behind one root port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Its number.
    pub id: CardId,
    /// The root port whose window chooses the card.
    pub root_port: Bdf,
    /// Its dies.
    pub dies: Vec<DieId>,
}

/// An entry of `/proc/iomem`, with nesting depth from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IomemEntry {
    /// The range.
    pub range: AddressRange,
    /// The owner's name, e.g. `System RAM` or `PCI Bus 0000:00`.
    pub name: String,
    /// 0 for the outermost.
    pub depth: u8,
}

/// A machine, read at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Physical address bits of the processor; `None` where unknown.
    pub physical_bits: Option<u8>,
    /// Physical address space as the kernel hands it out; empty where addresses are hidden.
    pub iomem: Vec<IomemEntry>,
    /// Every PCI function.
    pub functions: BTreeMap<Bdf, Function>,
    /// The dies, in order of address.
    pub dies: Vec<Die>,
    /// The cards, in order of their first die.
    pub cards: Vec<Card>,
    /// What could not be read or made sense of, in words.
    pub oddities: Vec<String>,
}

impl Survey {
    /// The die at `bdf`.
    pub fn die(&self, bdf: Bdf) -> Option<&Die> {
        self.dies.iter().find(|die| die.bdf == bdf)
    }

    /// The PCI function of `die`.
    pub fn function_of(&self, die: &Die) -> Option<&Function> {
        self.functions.get(&die.bdf)
    }

    /// Whether every bridge above `die` forwards the whole of `range` just now.
    pub fn path_open(&self, die: &Die, range: AddressRange) -> bool {
        !die.path.is_empty()
            && die.path.iter().all(|bdf| {
                let function = self.functions.get(bdf).filter(|f| f.decodes_memory());
                let bridge = function.and_then(|function| function.bridge);
                let window = bridge.and_then(|bridge| bridge.prefetchable.open_range());
                window.is_some_and(|window| window.contains(range))
            })
    }
}
