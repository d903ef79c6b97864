//! Power-on: the tree, and what firmware and kernel have made of it when slotd comes along.

use std::{collections::BTreeMap, time::Duration};

use super::{
    bridge,
    hardware::{Hardware, Node},
    kernel::{Bound, Kernel, Resource, Soft},
    power,
    preset::{Iommu, Preset, ROOMY_BASE, ROOMY_STRIDE, Room},
};
use crate::{
    AddressRange, Bdf, DriverName, GIB, MIB, Slot,
    model::{Die, DieKind, PortType, SparseVram, command, reg},
};

/// The 32-bit space that firmware gives to the cards, and to the neighbour.
const CARDS_AT: u64 = 0xc000_0000;
const NEIGHBOUR_PREF: u64 = 0xe000_0000;
const NEIGHBOUR_MEM: u64 = 0xf400_0000;

fn bdf(bus: u8, device: u8) -> Bdf {
    Bdf::new(0, bus, device, 0).expect("devices are below 32 here")
}

fn range(base: u64, size: u64) -> AddressRange {
    AddressRange::new(base, size).expect("sizes here are not zero")
}

/// The functions of card `card`: a root port, a switch, two dies.
#[derive(Clone, Copy, Debug)]
struct CardAt {
    root: Bdf,
    upstream: Bdf,
    ports: [Bdf; 2],
    dies: [Bdf; 2],
}

impl CardAt {
    fn new(card: u8) -> Self {
        let bus = 4 * card + 1;
        Self {
            root: bdf(0, card + 1),
            upstream: bdf(bus, 0),
            ports: [bdf(bus + 1, 8), bdf(bus + 1, 16)],
            dies: [bdf(bus + 2, 0), bdf(bus + 3, 0)],
        }
    }
}

/// A machine that is being switched on.
struct Boot<'a> {
    preset: &'a Preset,
    at: Duration,
    nodes: BTreeMap<Bdf, Node>,
    parents: BTreeMap<Bdf, Bdf>,
    kernel: Kernel,
}

/// Switches the machine on.
pub(super) fn power_on(preset: &Preset, slots: &[Slot], at: Duration) -> (Hardware, Kernel) {
    let mut boot = Boot {
        preset,
        at,
        nodes: BTreeMap::new(),
        parents: BTreeMap::new(),
        kernel: Kernel::default(),
    };
    let cards: Vec<CardAt> = (0..preset.cards).map(CardAt::new).collect();
    for card in &cards {
        boot.bridge(PortType::Root, card.root, None);
        boot.bridge(PortType::Upstream, card.upstream, Some(card.root));
        for (port, die) in card.ports.into_iter().zip(card.dies) {
            boot.bridge(PortType::Downstream, port, Some(card.upstream));
            boot.die(DieKind::gk210(), die, port);
        }
    }
    let neighbour = preset.neighbour.then(|| {
        let (root, die) = (bdf(0, preset.cards + 1), bdf(4 * preset.cards + 1, 0));
        boot.bridge(PortType::Root, root, None);
        boot.die(DieKind::tu104(), die, root);
        (root, die)
    });
    let watched = slots.iter().map(|slot| slot.range()).collect();
    let mut hw =
        Hardware::new(std::mem::take(&mut boot.nodes), std::mem::take(&mut boot.parents), watched);
    for (n, card) in (0u64..).zip(&cards) {
        boot.number_buses(&mut hw, card);
        boot.assign_32bit(&mut hw, card, n);
        let owned = boot.owned_bar1s(n);
        boot.assign_64bit(&mut hw, card, owned);
        for die in card.dies {
            boot.write(&mut hw, die, reg::COMMAND, 2, command::MEMORY.into());
            boot.park(&mut hw, die);
        }
    }
    if let Some((root, die)) = neighbour {
        boot.place_neighbour(&mut hw, root, die);
    }
    (hw, boot.kernel)
}

impl Boot<'_> {
    fn soft(&mut self, at: Bdf) -> &mut Soft {
        self.kernel.functions.entry(at).or_default()
    }

    fn bridge(&mut self, port: PortType, at: Bdf, parent: Option<Bdf>) {
        self.nodes.insert(at, Node::Bridge(bridge::bridge(port)));
        self.parents.extend(parent.map(|parent| (at, parent)));
        self.soft(at).bound =
            DriverName::new("pcieport").map(|driver| Bound { driver, shows_at: Duration::ZERO });
    }

    fn die(&mut self, kind: DieKind, at: Bdf, parent: Bdf) {
        let group = 10 + u32::from(at.bus());
        let group = (self.preset.iommu == Iommu::Present).then_some(group);
        let bars = kind.bars.iter().map(|bar| (bar.index, Resource::Unassigned)).collect();
        let size = kind.bar1_size();
        self.nodes.insert(at, Node::Die(Box::new(Die::new(kind, SparseVram::new(size)))));
        self.parents.insert(at, parent);
        *self.soft(at) = Soft { bars, iommu_group: group, ..Soft::default() };
    }

    fn write(&self, hw: &mut Hardware, at: Bdf, offset: u16, size: u8, value: u32) {
        hw.config_write(self.at, at, offset, size, value);
    }

    fn number_buses(&self, hw: &mut Hardware, card: &CardAt) {
        let first = card.upstream.bus();
        let buses = |primary: u8, secondary: u8, last: u8| {
            u32::from_le_bytes([primary, secondary, last, 0])
        };
        self.write(hw, card.root, reg::PRIMARY_BUS, 4, buses(0, first, first + 3));
        self.write(hw, card.upstream, reg::PRIMARY_BUS, 4, buses(first, first + 1, first + 3));
        for (port, die) in card.ports.into_iter().zip(card.dies) {
            let below = die.bus();
            self.write(hw, port, reg::PRIMARY_BUS, 4, buses(first + 1, below, below));
        }
        for at in [card.root, card.upstream].into_iter().chain(card.ports) {
            self.shut_pref(hw, at);
            let on = command::MEMORY | command::MASTER;
            self.write(hw, at, reg::COMMAND, 2, on.into());
        }
    }

    /// As the kernel disables a prefetchable window.
    fn shut_pref(&self, hw: &mut Hardware, at: Bdf) {
        self.write(hw, at, reg::PREF_LIMIT_UPPER, 4, 0);
        self.write(hw, at, reg::PREF_BASE, 4, 0x0000_fff0);
        self.write(hw, at, reg::PREF_BASE_UPPER, 4, 0);
    }

    fn open_mem(&mut self, hw: &mut Hardware, at: Bdf, window: AddressRange) {
        let value = bridge::base_limit(window.base(), window.last());
        self.write(hw, at, reg::MEMORY_BASE, 4, value);
        self.soft(at).memory = Resource::Claimed(window);
    }

    fn open_pref(&mut self, hw: &mut Hardware, at: Bdf, window: AddressRange) {
        let upper = |address: u64| u32::try_from(address >> 32).expect("32 bits are left");
        // In the kernel's order: nothing is forwarded until the last write.
        self.write(hw, at, reg::PREF_LIMIT_UPPER, 4, 0);
        self.write(hw, at, reg::PREF_BASE_UPPER, 4, u32::MAX);
        let low = bridge::base_limit(window.base(), window.last());
        self.write(hw, at, reg::PREF_BASE, 4, low);
        self.write(hw, at, reg::PREF_LIMIT_UPPER, 4, upper(window.last()));
        self.write(hw, at, reg::PREF_BASE_UPPER, 4, upper(window.base()));
        self.soft(at).prefetchable = Resource::Claimed(window);
    }

    /// Writes a BAR's address; `claimed` says whether the kernel has it too.
    fn bar(&mut self, hw: &mut Hardware, die: Bdf, index: u8, at: AddressRange, claimed: bool) {
        let register = reg::BAR0 + 4 * u16::from(index);
        let [low, upper] = halves(at.base());
        self.write(hw, die, register, 4, low);
        if index != 0 {
            self.write(hw, die, register + 4, 4, upper);
        }
        if claimed {
            self.soft(die).bars.insert(index, Resource::Claimed(at));
        }
    }

    /// Room for exactly BAR0 of each die, as firmware gives it; BAR3 stays out.
    fn assign_32bit(&mut self, hw: &mut Hardware, card: &CardAt, n: u64) {
        let base = CARDS_AT + n * 32 * MIB;
        self.open_mem(hw, card.root, range(base, 32 * MIB));
        self.open_mem(hw, card.upstream, range(base, 32 * MIB));
        for (k, (port, die)) in (0u64..).zip(card.ports.into_iter().zip(card.dies)) {
            let bar0 = range(base + k * 16 * MIB, 16 * MIB);
            self.open_mem(hw, port, bar0);
            self.bar(hw, die, 0, bar0, true);
        }
    }

    /// Where firmware put BAR1 of the dies of card `n`, where it did.
    fn owned_bar1s(&self, n: u64) -> [Option<AddressRange>; 2] {
        let slots = self.preset.slots();
        let of = |die: u64| match self.preset.room {
            Room::Office => None,
            Room::Roomy => Some(range(ROOMY_BASE + n * ROOMY_STRIDE + die * 32 * GIB, 16 * GIB)),
            Room::One | Room::Three => {
                let index = usize::try_from(2 * n + die).ok()?;
                slots.get(index).map(|slot| slot.range())
            }
        };
        [of(0), of(1)]
    }

    fn assign_64bit(&mut self, hw: &mut Hardware, card: &CardAt, owned: [Option<AddressRange>; 2]) {
        let roomy = self.preset.room == Room::Roomy;
        let mut whole: Option<AddressRange> = None;
        for ((port, die), place) in card.ports.into_iter().zip(card.dies).zip(owned) {
            let Some(bar1) = place else {
                // What was tried and given up stays in the register.
                let stale = self.preset.slots().first().map(|slot| slot.range());
                if let Some(stale) = stale {
                    self.bar(hw, die, 1, stale, false);
                }
                continue;
            };
            self.bar(hw, die, 1, bar1, true);
            let mut window = bar1;
            if roomy {
                let bar3 = range(bar1.base() + bar1.size(), 32 * MIB);
                self.bar(hw, die, 3, bar3, true);
                window = window.span(bar3);
            }
            self.open_pref(hw, port, window);
            whole = Some(whole.map_or(window, |whole| whole.span(window)));
        }
        if let Some(whole) = whole {
            self.open_pref(hw, card.upstream, whole);
            self.open_pref(hw, card.root, whole);
        }
    }

    fn park(&mut self, hw: &mut Hardware, die: Bdf) {
        let driver = match self.preset.iommu {
            Iommu::None => DriverName::pci_stub(),
            Iommu::Present | Iommu::NoIommuMode => {
                power::suspend(hw, &mut self.kernel, self.at, die);
                DriverName::vfio_pci()
            }
        };
        self.soft(die).bound = Some(Bound { driver, shows_at: Duration::ZERO });
    }

    fn place_neighbour(&mut self, hw: &mut Hardware, root: Bdf, die: Bdf) {
        let buses = u32::from_le_bytes([0, die.bus(), die.bus(), 0]);
        self.write(hw, root, reg::PRIMARY_BUS, 4, buses);
        self.shut_pref(hw, root);
        self.open_mem(hw, root, range(NEIGHBOUR_MEM, 16 * MIB));
        self.open_pref(hw, root, range(NEIGHBOUR_PREF, 288 * MIB));
        self.bar(hw, die, 0, range(NEIGHBOUR_MEM, 16 * MIB), true);
        self.bar(hw, die, 1, range(NEIGHBOUR_PREF, 256 * MIB), true);
        self.bar(hw, die, 3, range(NEIGHBOUR_PREF + 256 * MIB, 32 * MIB), true);
        let on = u32::from(command::MEMORY | command::MASTER);
        self.write(hw, root, reg::COMMAND, 2, on);
        self.write(hw, die, reg::COMMAND, 2, on);
        self.soft(die).bound =
            Some(Bound { driver: DriverName::nvidia(), shows_at: Duration::ZERO });
        self.kernel.nvidia_loaded = true;
    }
}

/// Low and upper dword of an address.
pub(super) fn halves(address: u64) -> [u32; 2] {
    [address, address >> 32].map(|v| u32::try_from(v & 0xffff_ffff).expect("masked"))
}
