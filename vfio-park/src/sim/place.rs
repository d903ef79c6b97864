//! Giving a card its place: 32-bit windows, BARs and gate registers, as the window module does.

use std::collections::BTreeSet;

use super::{
    bridge,
    faults::Verb,
    firmware::halves,
    gate::Upper,
    inner::{Entry, Inner, State, refused},
    kernel::Resource,
    writes::Writes,
};
use crate::{
    AddressRange, Bdf, Gate, MIB, MachineError, PciId,
    model::{DieKind, command, reg},
    seam::{Placed, Placement},
    survey::is_parker,
};

/// BAR3 and BAR0 of a die, without a hole between two dies.
const PER_DIE: u64 = 48 * MIB;
const ALIGNMENT: u64 = 32 * MIB;

/// Where everything of one card goes.
#[derive(Debug)]
struct Layout {
    root: Bdf,
    upstream: Vec<Bdf>,
    dies: Vec<DieLayout>,
    memory: AddressRange,
    /// Over the slots of all dies.
    slots: AddressRange,
}

#[derive(Debug)]
struct DieLayout {
    die: Bdf,
    port: Bdf,
    placement: Placement,
    slot: AddressRange,
    memory: AddressRange,
    bar0: AddressRange,
    bar3: AddressRange,
}

impl Inner {
    pub(super) fn place_card(
        &self,
        entry: &Entry,
        die: Bdf,
        placement: Placement,
    ) -> Result<Placed, MachineError> {
        let (layout, evicted) = {
            let state = self.state();
            if state.hw.config(die).is_none() {
                return Err(MachineError::Absent(die));
            }
            if self.in_place(&state, die, placement) {
                return Ok(Placed::Already);
            }
            self.check_drivers(&state, die)?;
            let evicted = self.check_slot(&state, die, placement)?;
            (self.layout(&state, die, placement)?, evicted)
        };
        let mut writes = Writes::new(self, entry.fail_step);
        let written = (evicted.iter())
            .try_for_each(|root| {
                let limit = writes.read(*root, reg::PREF_LIMIT_UPPER)?;
                writes.dword(*root, reg::PREF_BASE_UPPER, Upper::shut_base(limit))
            })
            .and_then(|()| layout.write(&mut writes));
        if let Err(error) = written {
            return Err(writes.undo(Verb::Place.name(), die, error));
        }
        let config_writes = writes.count();
        self.commit(&layout, &evicted);
        self.settle_resources();
        Ok(Placed::Now { config_writes })
    }

    fn in_place(&self, state: &State, die: Bdf, placement: Placement) -> bool {
        let stands = |other: &Bdf| {
            let place = state.placed.get(other).and_then(|p| self.slot(p.slot).ok());
            let config = state.hw.config(*other);
            place.zip(config).is_some_and(|(slot, config)| {
                let at = u64::from(config.u32(reg::BAR0 + 8)) << 32
                    | u64::from(config.u32(reg::BAR0 + 4) & !0xf);
                at == slot.range().base()
            })
        };
        state.placed.get(&die) == Some(&placement)
            && self
                .card_of(state, die)
                .iter()
                .filter(|d| state.hw.config(**d).is_some())
                .all(stands)
    }

    fn check_drivers(&self, state: &State, die: Bdf) -> Result<(), MachineError> {
        for other in self.card_of(state, die) {
            if let Some(driver) = state.kernel.driver(other).filter(|driver| !is_parker(driver)) {
                let reason =
                    format!("{other} of the same card is bound to {driver}: park it first");
                return Err(refused(Verb::Place, die, reason));
            }
            if state.hw.config(other).is_none() {
                return Err(MachineError::Absent(other));
            }
            if self.open_dies(state).contains(&other) {
                let reason =
                    format!("{other} of the same card is in its slot: shut the slot first");
                return Err(refused(Verb::Place, die, reason));
            }
        }
        Ok(())
    }

    /// Whether the slot is free for dies; root ports of other cards whose firmware-given windows
    /// have to give way.
    fn check_slot(
        &self,
        state: &State,
        die: Bdf,
        placement: Placement,
    ) -> Result<BTreeSet<Bdf>, MachineError> {
        let range = self.slot(placement.slot)?.range();
        let no = |reason: String| Err(refused(Verb::Place, die, reason));
        let size = DieKind::gk210().bar1_size();
        if range.size() != size {
            return no(format!("the slot has {:#x} bytes and BAR1 has {size:#x}", range.size()));
        }
        if range.last() >> self.preset.physical_bits() != 0 {
            let bits = self.preset.physical_bits();
            return no(format!("the slot {range} is past the processor's {bits} address bits"));
        }
        if let Some(ram) = self.preset.ram().into_iter().find(|ram| ram.overlaps(range)) {
            return no(format!("the slot {range} overlaps RAM at {ram}"));
        }
        if !self.preset.host_windows().iter().any(|window| window.contains(range)) {
            return no(format!("no window of the host bridge has the slot {range}"));
        }
        let own = self.functions_of_card(state, die);
        let mut evicted = BTreeSet::new();
        for (owner, claimed) in state.kernel.claimed_besides(&own) {
            if !claimed.overlaps(range) || placed_card(state, owner) {
                continue;
            }
            let root = state.hw.above(owner).last().unwrap_or(owner);
            let below: Vec<_> = state
                .hw
                .nodes
                .iter()
                .filter(|(at, _)| state.hw.above(**at).last() == Some(root))
                .collect();
            let all_dies = below.iter().all(|(at, node)| {
                state.kernel.functions[at].bars.is_empty()
                    || node.config().u32(0) == dword(PciId::GK210)
            });
            if !all_dies {
                return no(format!("the slot {range} is in use by {owner} at {claimed}"));
            }
            for (other, _) in below {
                let driver = state.kernel.driver(*other).filter(|_| self.dies.contains(other));
                if let Some(driver) = driver.filter(|driver| !is_parker(driver)) {
                    return no(format!(
                        "{other} has the slot and is bound to {driver}: park it first"
                    ));
                }
            }
            evicted.insert(root);
        }
        Ok(evicted)
    }

    fn layout(
        &self,
        state: &State,
        die: Bdf,
        placement: Placement,
    ) -> Result<Layout, MachineError> {
        let dies = self.card_of(state, die);
        let own = self.functions_of_card(state, die);
        let laid_out = placed_card(state, die);
        let size = PER_DIE * dies.len() as u64;
        let root = state.hw.above(die).last().ok_or_else(|| no_bridge(die))?;
        let kept = state.kernel.functions[&root].memory.range().filter(|_| laid_out);
        let memory = match kept {
            Some(memory) => memory,
            None => self.room_32bit(state, &own, size).ok_or_else(|| {
                let reason =
                    format!("there are no {} MiB of 32-bit space left for its card", size / MIB);
                refused(Verb::Place, die, reason)
            })?,
        };
        let mut layouts = Vec::new();
        for (n, other) in (0u64..).zip(dies) {
            let own_place = state.placed.get(&other).copied().filter(|_| other != die);
            let placement = own_place.unwrap_or(placement);
            let at = memory.base() + n * PER_DIE;
            // BAR3 wants 32 MiB alignment: first in an even die, last in an odd one.
            let (bar0, bar3) = if n % 2 == 0 { (at + 32 * MIB, at) } else { (at, at + 16 * MIB) };
            layouts.push(DieLayout {
                die: other,
                port: state.hw.above(other).next().ok_or_else(|| no_bridge(other))?,
                placement,
                slot: self.slot(placement.slot)?.range(),
                memory: range(at, PER_DIE),
                bar0: range(bar0, 16 * MIB),
                bar3: range(bar3, 32 * MIB),
            });
        }
        let slots = layouts.iter().map(|l| l.slot).reduce(AddressRange::span);
        let slots = slots.ok_or_else(|| no_bridge(die))?;
        let upstream = state.hw.above(die).skip(1).filter(|at| *at != root).collect();
        Ok(Layout { root, upstream, dies: layouts, memory, slots })
    }

    /// The lowest free place below 4 GiB.
    fn room_32bit(&self, state: &State, own: &BTreeSet<Bdf>, size: u64) -> Option<AddressRange> {
        let taken = state.kernel.claimed_besides(own);
        let windows = self.preset.host_windows();
        let window = windows.into_iter().find(|window| u32::try_from(window.last()).is_ok())?;
        let first = window.base().next_multiple_of(ALIGNMENT);
        (first..=window.last())
            .step_by(usize::try_from(ALIGNMENT).ok()?)
            .filter_map(|base| AddressRange::new(base, size))
            .take_while(|room| window.contains(*room))
            .find(|room| !taken.iter().any(|(_, claimed)| claimed.overlaps(*room)))
    }

    fn commit(&self, layout: &Layout, evicted: &BTreeSet<Bdf>) {
        let mut state = self.state();
        let state = &mut *state;
        for root in evicted {
            let below = |at: &Bdf| at == root || state.hw.above(*at).last() == Some(*root);
            let high = |r: Resource| r.range().is_some_and(|r| r.last() > u64::from(u32::MAX));
            for (_, soft) in state.kernel.functions.iter_mut().filter(|(at, _)| below(at)) {
                let resources = soft.bars.values_mut().chain([&mut soft.prefetchable]);
                resources.filter(|r| high(**r)).for_each(|r| *r = Resource::Unassigned);
            }
        }
        for die in &layout.dies {
            let bars = [(0, die.bar0), (1, die.slot), (3, die.bar3)];
            if let Some(soft) = state.kernel.functions.get_mut(&die.die) {
                soft.bars = bars.map(|(index, range)| (index, Resource::Claimed(range))).into();
            }
            if let Some(soft) = state.kernel.functions.get_mut(&die.port) {
                soft.memory = Resource::Claimed(die.memory);
            }
            state.placed.insert(die.die, die.placement);
        }
        for at in layout.upstream.iter().chain([&layout.root]) {
            if let Some(soft) = state.kernel.functions.get_mut(at) {
                soft.memory = Resource::Claimed(layout.memory);
            }
        }
    }
}

impl Layout {
    fn write(&self, writes: &mut Writes<'_>) -> Result<(), MachineError> {
        gate_registers(writes, self.root, self.slots)?;
        for upstream in &self.upstream {
            gate_registers(writes, *upstream, self.slots)?;
            writes.dword(*upstream, reg::PREF_BASE_UPPER, Upper::of(self.slots).base)?;
        }
        for die in &self.dies {
            gate_registers(writes, die.port, die.slot)?;
        }
        for die in &self.dies {
            die.write(writes)?;
        }
        let memory = bridge::base_limit(self.memory.base(), self.memory.last());
        for at in self.upstream.iter().chain([&self.root]) {
            writes.dword(*at, reg::MEMORY_BASE, memory)?;
        }
        Ok(())
    }
}

/// Shut, with everything but the gate itself in place.
fn gate_registers(
    writes: &mut Writes<'_>,
    at: Bdf,
    range: AddressRange,
) -> Result<(), MachineError> {
    let Upper { limit, .. } = Upper::of(range);
    writes.dword(at, reg::PREF_BASE_UPPER, Upper::shut_base(limit))?;
    writes.dword(at, reg::PREF_LIMIT_UPPER, limit)?;
    writes.dword(at, reg::PREF_BASE, bridge::base_limit(range.base(), range.last()) | 0x0001_0001)
}

impl DieLayout {
    fn write(&self, writes: &mut Writes<'_>) -> Result<(), MachineError> {
        let power = u16::try_from(writes.read(self.die, reg::PMCSR)? & 0xffff).unwrap_or_default();
        let asleep = power & 3 != 0;
        // A die in D3hot loses what is programmed once the kernel wakes it: wake it first.
        if asleep {
            writes.power(self.die, power & !3)?;
        }
        let before =
            u16::try_from(writes.read(self.die, reg::COMMAND)? & 0xffff).unwrap_or_default();
        let after = match self.placement.gate {
            Gate::Window => before | command::MEMORY,
            Gate::Decode => before & !command::MEMORY,
        };
        writes.word(self.die, reg::COMMAND, before & !command::MEMORY)?;
        writes.dword(self.die, reg::BAR0, halves(self.bar0.base())[0])?;
        for (register, at) in [(reg::BAR0 + 12, self.bar3), (reg::BAR0 + 4, self.slot)] {
            let [low, upper] = halves(at.base());
            writes.dword(self.die, register, low | 0xc)?;
            writes.dword(self.die, register + 4, upper)?;
        }
        let memory = bridge::base_limit(self.memory.base(), self.memory.last());
        writes.dword(self.port, reg::MEMORY_BASE, memory)?;
        writes.word(self.die, reg::COMMAND, after)?;
        if asleep { writes.power(self.die, power) } else { Ok(()) }
    }
}

/// Whether the card that `function` belongs to has its place.
fn placed_card(state: &State, function: Bdf) -> bool {
    let root = state.hw.above(function).last().unwrap_or(function);
    state.placed.keys().any(|die| state.hw.above(*die).last() == Some(root))
}

fn no_bridge(die: Bdf) -> MachineError {
    refused(Verb::Place, die, "there is no bridge above it whose window could be moved")
}

fn range(base: u64, size: u64) -> AddressRange {
    AddressRange::new(base, size).expect("sizes here are not zero")
}

fn dword(id: PciId) -> u32 {
    u32::from(id.device) << 16 | u32::from(id.vendor)
}
