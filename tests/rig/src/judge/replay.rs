//! Bridges and BARs as the writes left them.

use std::collections::BTreeMap;

use vfio_park::{
    AddressRange, Bdf, Slot,
    model::{ConfigWrite, DieKind, command, reg},
    survey::Window,
};

use crate::topology::{Role, Topology};

/// Bits of a window's 16-bit base and limit that are an address; the others tell the kind.
const WINDOW_BITS: u32 = 0xfff0;
/// A window's low end of address space below which the limit register adds ones.
const GRANULE: u64 = 0xf_ffff;

/// The first 256 bytes of config space, as far as they were written. Unwritten is zero, as after
/// power-on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Registers(BTreeMap<u16, u8>);

impl Registers {
    fn write(&mut self, write: &ConfigWrite) {
        for (at, byte) in (write.offset..).zip(write.value.to_le_bytes()).take(write.size.into()) {
            self.0.insert(at, byte);
        }
    }

    fn u32(&self, offset: u16) -> u32 {
        let byte = |at| u32::from(self.0.get(&at).copied().unwrap_or(0));
        (0..4).rev().fold(0, |sum, at| sum << 8 | byte(offset + at))
    }

    fn memory_on(&self) -> bool {
        self.u32(reg::COMMAND) & u32::from(command::MEMORY) != 0
    }
}

/// What of a function decides who decodes what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decoding {
    /// Whether memory decode is on.
    pub(super) memory_on: bool,
    /// BARs, or bus numbers and windows.
    pub(super) registers: Vec<u32>,
}

/// The machine, write by write.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    topology: &'a Topology,
    functions: BTreeMap<Bdf, Registers>,
    bar1_size: u64,
}

impl<'a> Replay<'a> {
    /// After power-on.
    pub(super) fn new(topology: &'a Topology) -> Self {
        let bar1_size = DieKind::gk210().bar1_size();
        Self { topology, functions: BTreeMap::new(), bar1_size }
    }

    /// One more write.
    pub(super) fn apply(&mut self, write: &ConfigWrite) {
        self.functions.entry(write.bdf).or_default().write(write);
    }

    fn registers(&self, bdf: Bdf) -> Registers {
        self.functions.get(&bdf).cloned().unwrap_or_default()
    }

    /// What decides who decodes what, of `bdf`.
    pub(super) fn decoding(&self, bdf: Bdf) -> Decoding {
        let registers = self.registers(bdf);
        let bridge = self.topology.nodes.get(&bdf).is_some_and(|node| node.bridge);
        // A bridge's secondary status, beside its IO window, is no matter of decoding.
        let offsets: &[u16] = if bridge {
            &[0x18, 0x20, 0x24, 0x28, 0x2c]
        } else {
            &[0x10, 0x14, 0x18, 0x1c, 0x20, 0x24]
        };
        let values = offsets.iter().map(|offset| registers.u32(*offset)).collect();
        Decoding { memory_on: registers.memory_on(), registers: values }
    }

    /// The prefetchable window of a bridge.
    pub(super) fn window(&self, bridge: Bdf) -> Window {
        let registers = self.registers(bridge);
        let low = registers.u32(reg::PREF_BASE);
        let part = |half: u32, upper: u16| {
            u64::from(registers.u32(upper)) << 32 | u64::from(half & WINDOW_BITS) << 16
        };
        let base = part(low & 0xffff, reg::PREF_BASE_UPPER);
        let limit = part(low >> 16, reg::PREF_LIMIT_UPPER) | GRANULE;
        Window::from_base_limit(base, limit)
    }

    /// Whether `bdf` answers, or forwards, addresses of `slot`.
    pub(super) fn claims(&self, bdf: Bdf, slot: Slot) -> bool {
        let registers = self.registers(bdf);
        if !registers.memory_on() {
            return false;
        }
        let Some(node) = self.topology.nodes.get(&bdf) else { return false };
        if node.bridge {
            let window = self.window(bdf).open_range();
            return window.is_some_and(|window| window.overlaps(slot.range()));
        }
        if node.role != Role::Die || registers.u32(reg::PMCSR) & 3 != 0 {
            return false;
        }
        let upper = u64::from(registers.u32(reg::BAR0 + 8)) << 32;
        let address = (upper | u64::from(registers.u32(reg::BAR0 + 4))) & !(self.bar1_size - 1);
        let bar = AddressRange::new(address, self.bar1_size);
        address != 0 && bar.is_some_and(|bar| bar.overlaps(slot.range()))
    }

    /// The dies that answer in `slot`: they claim it, and so does every bridge above.
    pub(super) fn open_dies(&self, slot: Slot) -> Vec<Bdf> {
        let open = |die: &Bdf| {
            let path = self.topology.path(*die);
            self.claims(*die, slot) && path.iter().all(|bridge| self.claims(*bridge, slot))
        };
        self.topology.with_role(Role::Die).filter(open).collect()
    }

    /// Functions of one bus that claim `slot` together, where there are more than one.
    pub(super) fn rivals(&self, slot: Slot) -> Option<Vec<Bdf>> {
        let mut buses: BTreeMap<Option<Bdf>, Vec<Bdf>> = BTreeMap::new();
        for (bdf, node) in &self.topology.nodes {
            if node.role != Role::Rig && self.claims(*bdf, slot) {
                buses.entry(node.parent).or_default().push(*bdf);
            }
        }
        buses.into_values().find(|claiming| claiming.len() > 1)
    }

    /// Whether the ports of the switch above `die` stand so that opening the card is enough.
    pub(super) fn inner_gate_right(&self, die: Bdf, slot: Slot) -> bool {
        let path = self.topology.path(die);
        let Some((port, above)) = path.split_first() else { return false };
        let siblings = self.topology.nodes.iter().filter(|(bdf, node)| {
            node.parent == above.first().copied() && *bdf != port && node.bridge
        });
        let mut others = siblings.map(|(bdf, _)| *bdf);
        self.claims(*port, slot) && !others.any(|other| self.claims(other, slot))
    }
}
