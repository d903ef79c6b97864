//! Where everything of one card goes, whether it is there, and writing it.

use std::collections::BTreeSet;

use super::{
    bridge,
    faults::Verb,
    firmware::halves,
    gate::{shut_base, upper_halves},
    inner::{Inner, State, refused},
    kernel::Resource,
    writes::Writes,
};
use crate::{
    AddressRange, Bdf, Gate, MIB, MachineError,
    model::{command, reg},
    seam::Placement,
};

/// BAR3 and BAR0 of a die, without a hole between two dies.
const PER_DIE: u64 = 48 * MIB;
const ALIGNMENT: u64 = 32 * MIB;

/// Where everything of one card goes.
#[derive(Debug)]
pub(super) struct Layout {
    root: Bdf,
    /// Between root port and inner gates.
    middle: Vec<Bdf>,
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

impl Layout {
    /// A card that is laid out already keeps its 32-bit side.
    pub(super) fn of(
        inner: &Inner,
        state: &State,
        die: Bdf,
        placement: Placement,
    ) -> Result<Self, MachineError> {
        let no = |reason: String| refused(Verb::Place, die, reason);
        let no_bridge = || no("there is no bridge above it whose window could be moved".to_owned());
        let placements = inner.placements(state, die, placement);
        let root = state.hw.above(die).last().ok_or_else(no_bridge)?;
        let size = PER_DIE * placements.len() as u64;
        let laid_out = state.placed.contains_key(&die);
        let kept = state.kernel.functions[&root].memory.range().filter(|_| laid_out);
        let memory = kept.or_else(|| room_32bit(inner, state, die, size)).ok_or_else(|| {
            no(format!("there are no {} MiB of 32-bit space left for its card", size / MIB))
        })?;
        let mut dies = Vec::new();
        for (n, (other, placement)) in (0u64..).zip(placements) {
            let at = memory.base() + n * PER_DIE;
            // BAR3 wants 32 MiB alignment: first in an even die, last in an odd one.
            let (bar0, bar3) = if n % 2 == 0 { (at + 32 * MIB, at) } else { (at, at + 16 * MIB) };
            dies.push(DieLayout {
                die: other,
                port: state.hw.above(other).next().ok_or_else(no_bridge)?,
                placement,
                slot: inner.slot(placement.slot)?.range(),
                memory: range(at, PER_DIE),
                bar0: range(bar0, 16 * MIB),
                bar3: range(bar3, 32 * MIB),
            });
        }
        let slots = dies.iter().map(|layout| layout.slot).reduce(AddressRange::span);
        let slots = slots.ok_or_else(no_bridge)?;
        let middle = state.hw.above(die).skip(1).filter(|at| *at != root).collect();
        Ok(Self { root, middle, dies, memory, slots })
    }

    /// A bridge must not cover a slot, nor addresses, that none of its dies has.
    pub(super) fn check_windows(&self, inner: &Inner) -> Result<(), String> {
        let homes: BTreeSet<AddressRange> = self.dies.iter().map(|die| die.slot).collect();
        let foreign =
            |(_, slot): &(usize, AddressRange)| slot.overlaps(self.slots) && !homes.contains(slot);
        let slots = inner.slots.iter().map(|slot| slot.range());
        if let Some((n, _)) = slots.enumerate().find(foreign) {
            return Err(format!("its root port would cover slot {n}, which lies between its own"));
        }
        let covered: u64 = homes.iter().map(|home| home.size()).sum();
        if covered != self.slots.size() {
            return Err("its root port would cover addresses between its slots".to_owned());
        }
        Ok(())
    }

    /// Whether all registers are as meant. Gates of open dies are open, of others shut or left on.
    pub(super) fn stands(&self, state: &State, open: &BTreeSet<Bdf>) -> bool {
        let memory = window_register(self.memory);
        let bridges = self.middle.iter().chain([&self.root]).all(|at| {
            state.hw.config(*at).is_some_and(|config| {
                config.u32(reg::MEMORY_BASE) & 0xfff0_fff0 == memory
                    && gate_is_ready(config, self.slots)
            })
        });
        let open_middle = self.middle.iter().all(|at| state.hw.forwards(*at, self.slots));
        let dies = self.dies.iter().all(|layout| {
            let port = state.hw.config(layout.port);
            layout.stands(state, open.contains(&layout.die))
                && port.is_some_and(|config| gate_is_ready(config, layout.slot))
        });
        bridges && open_middle && dies
    }

    /// Its dies.
    pub(super) fn dies(&self) -> impl Iterator<Item = Bdf> {
        self.dies.iter().map(|layout| layout.die)
    }

    /// Dies of which nothing is to be changed.
    pub(super) fn standing_dies(&self, state: &State) -> BTreeSet<Bdf> {
        let stand = self.dies.iter().filter(|layout| layout.stands(state, false));
        stand.map(|layout| layout.die).collect()
    }

    /// The root port is shut first; nothing opens but what lies between root port and inner gates.
    /// The dies that `stay` are not touched, the others are awake.
    pub(super) fn write(
        &self,
        writes: &mut Writes<'_>,
        stay: &BTreeSet<Bdf>,
    ) -> Result<(), MachineError> {
        gate_registers(writes, self.root, self.slots)?;
        for at in &self.middle {
            gate_registers(writes, *at, self.slots)?;
            writes.dword(*at, reg::PREF_BASE_UPPER, upper_halves(self.slots).0)?;
        }
        for layout in &self.dies {
            gate_registers(writes, layout.port, layout.slot)?;
        }
        for layout in self.dies.iter().filter(|layout| !stay.contains(&layout.die)) {
            layout.write(writes)?;
        }
        for at in self.middle.iter().chain([&self.root]) {
            writes.dword(*at, reg::MEMORY_BASE, window_register(self.memory))?;
        }
        Ok(())
    }

    /// The kernel's resources follow.
    pub(super) fn commit(&self, state: &mut State) {
        let functions = &mut state.kernel.functions;
        for layout in &self.dies {
            if let Some(soft) = functions.get_mut(&layout.die) {
                let bars = [(0, layout.bar0), (1, layout.slot), (3, layout.bar3)];
                soft.bars = bars.map(|(index, range)| (index, Resource::Claimed(range))).into();
            }
            if let Some(soft) = functions.get_mut(&layout.port) {
                soft.memory = Resource::Claimed(layout.memory);
            }
            state.placed.insert(layout.die, layout.placement);
        }
        for at in self.middle.iter().chain([&self.root]) {
            if let Some(soft) = functions.get_mut(at) {
                soft.memory = Resource::Claimed(self.memory);
            }
        }
    }
}

impl DieLayout {
    fn stands(&self, state: &State, open: bool) -> bool {
        let at = |index| state.hw.bar_address(self.die, index);
        let decodes = state.hw.config(self.die).map(|c| c.u16(reg::COMMAND) & command::MEMORY != 0);
        let decode_meant = self.placement.gate == Gate::Window || open;
        let port = state.hw.config(self.port).map(|c| c.u32(reg::MEMORY_BASE) & 0xfff0_fff0);
        [(0, self.bar0), (1, self.slot), (3, self.bar3)]
            .into_iter()
            .all(|(index, range)| at(index) == Some(range.base()))
            && decodes == Some(decode_meant)
            && port == Some(window_register(self.memory))
    }

    fn write(&self, writes: &mut Writes<'_>) -> Result<(), MachineError> {
        let moves = [(reg::BAR0 + 12, self.bar3), (reg::BAR0 + 4, self.slot)];
        writes.command(self.die, |command| command & !command::MEMORY)?;
        writes.dword(self.die, reg::BAR0, halves(self.bar0.base())[0])?;
        for (register, at) in moves {
            let [low, upper] = halves(at.base());
            writes.dword(self.die, register, low | 0xc)?;
            writes.dword(self.die, register + 4, upper)?;
        }
        writes.dword(self.port, reg::MEMORY_BASE, window_register(self.memory))?;
        if self.placement.gate == Gate::Window {
            writes.command(self.die, |command| command | command::MEMORY)?;
        }
        Ok(())
    }
}

/// Shut, with everything but the gate itself in place.
fn gate_registers(
    writes: &mut Writes<'_>,
    at: Bdf,
    window: AddressRange,
) -> Result<(), MachineError> {
    let (_, limit) = upper_halves(window);
    writes.dword(at, reg::PREF_BASE_UPPER, shut_base(limit))?;
    writes.dword(at, reg::PREF_LIMIT_UPPER, limit)?;
    writes.dword(at, reg::PREF_BASE, window_register(window))
}

fn gate_is_ready(config: &crate::model::ConfigSpace, window: AddressRange) -> bool {
    config.u32(reg::PREF_LIMIT_UPPER) == upper_halves(window).1
        && config.u32(reg::PREF_BASE) & 0xfff0_fff0 == window_register(window)
        && config.u16(reg::COMMAND) & command::MEMORY != 0
}

fn window_register(window: AddressRange) -> u32 {
    bridge::base_limit(window.base(), window.last())
}

/// The lowest free place below 4 GiB.
fn room_32bit(inner: &Inner, state: &State, die: Bdf, size: u64) -> Option<AddressRange> {
    let taken = state.kernel.claimed_besides(&inner.functions_of_card(state, die));
    let windows = inner.preset.host_windows();
    let window = windows.into_iter().find(|window| u32::try_from(window.last()).is_ok())?;
    let first = window.base().next_multiple_of(ALIGNMENT);
    (first..=window.last())
        .step_by(usize::try_from(ALIGNMENT).ok()?)
        .filter_map(|base| AddressRange::new(base, size))
        .take_while(|room| window.contains(*room))
        .find(|room| !taken.iter().any(|(_, claimed)| claimed.overlaps(*room)))
}

fn range(base: u64, size: u64) -> AddressRange {
    AddressRange::new(base, size).expect("sizes here are not zero")
}
