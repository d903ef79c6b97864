//! Giving a card its place, as the window module does: 32-bit windows, BARs, gate registers.

use std::collections::BTreeSet;

use super::{
    bridge,
    faults::Verb,
    hardware::Node,
    inner::{Entry, Inner, State, refused},
    layout::Layout,
    writes::Writes,
};
use crate::{
    Bdf, MachineError, PciId, SlotId,
    model::DieKind,
    seam::{Placed, Placement},
    survey::is_parker,
};

impl Inner {
    /// Cards that firmware put into a slot are placed first, so that they leave it.
    pub(super) fn place_card(
        &self,
        entry: &Entry,
        die: Bdf,
        placement: Placement,
    ) -> Result<Placed, MachineError> {
        let mut writes = Writes::new(self, entry.fail_step);
        let before = self.state().resources();
        let mut woken = Vec::new();
        let placed = self.place_with(&mut writes, &mut woken, die, placement);
        let placed = match placed {
            Ok(true) => Ok(Placed::Already),
            Ok(false) => Ok(Placed::Now { config_writes: writes.count() }),
            Err(error) => {
                let error = writes.undo(Verb::Place.name(), die, error);
                self.state().restore(before);
                Err(error)
            }
        };
        self.let_sleep(woken);
        placed
    }

    /// Whether there was nothing to do.
    fn place_with(
        &self,
        writes: &mut Writes<'_>,
        woken: &mut Vec<Bdf>,
        die: Bdf,
        placement: Placement,
    ) -> Result<bool, MachineError> {
        if self.in_place(die, placement)? {
            return Ok(true);
        }
        self.check_slot(&self.state(), die, placement.slot)?;
        let in_the_way = self.in_the_way(&self.state(), die)?;
        for (other, slot) in in_the_way {
            self.place_one(writes, woken, other, Placement { slot, gate: placement.gate })?;
        }
        self.place_one(writes, woken, die, placement)?;
        Ok(false)
    }

    fn in_place(&self, die: Bdf, placement: Placement) -> Result<bool, MachineError> {
        let state = self.state();
        if state.hw.config(die).is_none() {
            return Err(MachineError::Absent(die));
        }
        if state.placed.get(&die) != Some(&placement) {
            return Ok(false);
        }
        let layout = Layout::of(self, &state, die, placement)?;
        let open = self.open_dies(&state);
        Ok(layout.stands(&state, &open))
    }

    fn place_one(
        &self,
        writes: &mut Writes<'_>,
        woken: &mut Vec<Bdf>,
        die: Bdf,
        placement: Placement,
    ) -> Result<(), MachineError> {
        let (layout, stay) = {
            let state = self.state();
            let layout = Layout::of(self, &state, die, placement)?;
            self.check_card(&state, die, &layout)?;
            let stay = layout.standing_dies(&state);
            (layout, stay)
        };
        // A die in D3hot loses what is programmed once the kernel wakes it: wake it first.
        woken.extend(layout.dies().filter(|die| !stay.contains(die) && self.wake(*die)));
        layout.write(writes, &stay)?;
        layout.commit(&mut self.state());
        self.settle_resources();
        Ok(())
    }

    fn check_card(&self, state: &State, die: Bdf, layout: &Layout) -> Result<(), MachineError> {
        let open = self.open_dies(state);
        for other in self.card_of(state, die) {
            if state.hw.config(other).is_none() {
                return Err(MachineError::Absent(other));
            }
            if open.contains(&other) {
                let reason = format!("{other} of its card is in its slot: shut the slot first");
                return Err(refused(Verb::Place, die, reason));
            }
            let driver = state.kernel.driver(other).filter(|driver| !is_parker(driver));
            if let Some(driver) = driver.filter(|_| !layout.standing_dies(state).contains(&other)) {
                let reason = format!("{other} of its card is bound to {driver}: park it first");
                return Err(refused(Verb::Place, die, reason));
            }
        }
        layout.check_windows(self).map_err(|reason| refused(Verb::Place, die, reason))
    }

    /// Whether the slot can be one.
    fn check_slot(&self, state: &State, die: Bdf, slot: SlotId) -> Result<(), MachineError> {
        let range = self.slot(slot)?.range();
        let no = |reason: String| Err(refused(Verb::Place, die, reason));
        let size = DieKind::gk210().bar1_size();
        if range.size() != size {
            return no(format!("the slot has {:#x} bytes and BAR1 has {size:#x}", range.size()));
        }
        let bits = self.preset.physical_bits();
        if range.last() >> bits != 0 {
            return no(format!("the slot {range} is past the processor's {bits} address bits"));
        }
        if let Some(ram) = self.preset.ram().into_iter().find(|ram| ram.overlaps(range)) {
            return no(format!("the slot {range} overlaps RAM at {ram}"));
        }
        if !self.preset.host_windows().iter().any(|window| window.contains(range)) {
            return no(format!("no window of the host bridge has the slot {range}"));
        }
        let foreign =
            |owner: &Bdf| !only_dies_below(state, state.hw.above(*owner).last().unwrap_or(*owner));
        let claimed = state.kernel.claimed_besides(&BTreeSet::new());
        match claimed.iter().find(|(owner, at)| at.overlaps(range) && foreign(owner)) {
            Some((owner, at)) => no(format!("the slot {range} is in use by {owner} at {at}")),
            None => Ok(()),
        }
    }

    /// Other cards whose root ports lead into a slot although they have no place: a die of each,
    /// and the slot.
    fn in_the_way(&self, state: &State, die: Bdf) -> Result<Vec<(Bdf, SlotId)>, MachineError> {
        let own = state.hw.above(die).last();
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for other in &self.dies {
            let Some(root) = state.hw.above(*other).last() else { continue };
            let known = state.placed.contains_key(other) || Some(root) == own;
            if known || !seen.insert(root) {
                continue;
            }
            let Some(config) = state.hw.config(root) else { continue };
            let Some(window) = bridge::prefetchable(config).open_range() else { continue };
            let slot = self.slots.iter().position(|slot| slot.range().overlaps(window));
            let Some(slot) = slot.and_then(|index| u8::try_from(index).ok()) else { continue };
            if !only_dies_below(state, root) {
                let reason = format!("{root} leads into {} and not to dies only", SlotId(slot));
                return Err(refused(Verb::Place, die, reason));
            }
            found.push((*other, SlotId(slot)));
        }
        Ok(found)
    }

    /// Every die of the card gets `placement`, apart from those that have a place of their own.
    pub(super) fn placements(
        &self,
        state: &State,
        die: Bdf,
        placement: Placement,
    ) -> Vec<(Bdf, Placement)> {
        let of = |other: Bdf| {
            let own = state.placed.get(&other).filter(|_| other != die);
            (other, own.map_or(placement, |own| Placement { gate: placement.gate, ..*own }))
        };
        self.card_of(state, die).into_iter().map(of).collect()
    }
}

fn only_dies_below(state: &State, root: Bdf) -> bool {
    let gk210 = u32::from(PciId::GK210.device) << 16 | u32::from(PciId::GK210.vendor);
    let below = state.hw.nodes.iter().filter(|(at, _)| state.hw.above(**at).last() == Some(root));
    let mut ends = below.filter(|(_, node)| matches!(node, Node::Die(_)));
    ends.all(|(_, node)| node.config().u32(0) == gk210)
}
