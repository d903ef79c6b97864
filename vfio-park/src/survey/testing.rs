//! Boards made up for unit tests.

use std::collections::BTreeMap;

use super::{
    Bar, Bridge, ConfigSpace, DriverName, Function, IomemEntry, PowerState, Survey, Window,
};
use crate::{AddressRange, Bdf, GIB, MIB, PciId, Slot};

pub(crate) const SWITCH: PciId = PciId { vendor: 0x10b5, device: 0x8747 };

pub(crate) fn range(base: u64, size: u64) -> AddressRange {
    AddressRange::new(base, size).expect("a range")
}

pub(crate) fn bdf(bus: u8, device: u8) -> Bdf {
    Bdf::new(0, bus, device, 0).expect("an address")
}

pub(crate) fn bridge(at: Bdf, parent: Option<Bdf>, secondary: u8, subordinate: u8) -> Function {
    let shut = Window::from_base_limit(0xfff0_0000, 0xf_ffff);
    Function {
        bridge: Some(Bridge {
            secondary,
            subordinate,
            memory: shut,
            prefetchable: shut,
            wide: true,
            d3cold_allowed: Some(true),
        }),
        id: SWITCH,
        class: 0x06_0400,
        ..endpoint(at, parent, SWITCH)
    }
}

pub(crate) fn endpoint(at: Bdf, parent: Option<Bdf>, id: PciId) -> Function {
    Function {
        bdf: at,
        id,
        class: 0x03_0200,
        parent,
        bars: Vec::new(),
        bridge: None,
        driver: None,
        driver_override: None,
        iommu_group: None,
        power: PowerState::D0,
        config: ConfigSpace::Answers,
        command: Some(2),
    }
}

pub(crate) fn unassigned(index: u8, size: u64, is_64bit: bool) -> Bar {
    let prefetchable = is_64bit;
    Bar { index, assigned: None, size: Some(size), is_64bit, prefetchable, register: Some(0) }
}

pub(crate) fn die(at: Bdf, parent: Option<Bdf>) -> Function {
    let bars = vec![
        unassigned(0, 16 * MIB, false),
        unassigned(1, 16 * GIB, true),
        unassigned(3, 32 * MIB, true),
    ];
    Function { bars, driver: Some(DriverName::vfio_pci()), ..endpoint(at, parent, PciId::GK210) }
}

pub(crate) fn iomem(first: u64, last: u64, name: &str, depth: u8) -> IomemEntry {
    let range = AddressRange::from_first_last(first, last).expect("a range");
    IomemEntry { range, name: name.to_owned(), depth }
}

/// Cards of switches, 36 address bits, 8 GiB of RAM, one host window below 4 GiB and one that is
/// the slot of the BTC-S37.
pub(crate) fn board(cards: u8, dies_per_card: u8) -> Survey {
    let mut functions = BTreeMap::new();
    let mut add = |function: Function| functions.insert(function.bdf, function);
    for card in 0..cards {
        let bus = 1 + card * (dies_per_card + 2);
        let last = bus + 1 + dies_per_card;
        let (root, upstream) = (bdf(0, 1 + card), bdf(bus, 0));
        add(bridge(root, None, bus, last));
        add(bridge(upstream, Some(root), bus + 1, last));
        for n in 0..dies_per_card {
            let port = bdf(bus + 1, 8 + 8 * n);
            add(bridge(port, Some(upstream), bus + 2 + n, bus + 2 + n));
            add(die(bdf(bus + 2 + n, 0), Some(port)));
        }
    }
    let mut survey = Survey::assemble(functions, &[PciId::GK210]);
    survey.physical_bits = Some(36);
    survey.iomem = vec![
        iomem(0x10_0000, 0xbfff_ffff, "System RAM", 0),
        iomem(0xc000_0000, 0xfebf_ffff, "PCI Bus 0000:00", 0),
        iomem(0x1_0000_0000, 0x2_3fff_ffff, "System RAM", 0),
        iomem(Slot::BTC_S37.range().base(), Slot::BTC_S37.range().last(), "PCI Bus 0000:00", 0),
    ];
    survey
}
