//! Opening and shutting: what the window module does, on the simulated registers.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    bridge,
    faults::Verb,
    gate::{CardDoors, Decode, Door, Move, Moves, Upper},
    inner::{Entry, Inner, State, refused},
    kernel::Resource,
    writes::Writes,
};
use crate::{
    Bdf, Gate, MachineError, Slot, SlotId,
    model::{command, reg},
    seam::Opened,
};

impl Inner {
    pub(super) fn open_die(
        &self,
        entry: &Entry,
        slot: SlotId,
        die: Bdf,
    ) -> Result<Opened, MachineError> {
        let range = self.slot(slot)?.range();
        let (moves, already) = {
            let state = self.state();
            if state.hw.config(die).is_none() {
                return Err(MachineError::Absent(die));
            }
            if state.placed.get(&die).map(|placement| placement.slot) != Some(slot) {
                let reason = format!("it has no place in {slot}: place its card first");
                return Err(refused(Verb::Open, die, reason));
            }
            let bar1 = state.hw.config(die).map(|config| config.u32(reg::BAR0 + 8));
            if bar1.map(u64::from) != Some(range.base() >> 32) {
                let reason = "its BAR1 is not at the slot any more (was it reset?): place it again";
                return Err(refused(Verb::Open, die, reason));
            }
            let inner = state.hw.above(die).skip(1).filter(|at| state.hw.parents.contains_key(at));
            let forwards = |at: Bdf| {
                let window = bridge::prefetchable(state.hw.nodes[&at].config()).open_range();
                window.is_some_and(|window| window.contains(range))
            };
            if let Some(at) = inner.into_iter().find(|at| !forwards(*at)) {
                let reason =
                    format!("the switch port {at} does not forward the slot: place it again");
                return Err(refused(Verb::Open, die, reason));
            }
            let open = self.open_dies(&state);
            (self.moves(&state, Verb::Open, slot, Some(die))?, open.contains(&die))
        };
        if already && moves.shuts.is_empty() && moves.opens.is_empty() {
            return Ok(Opened { range, config_writes: 0 });
        }
        let config_writes = self.carry_out(entry, Verb::Open, die, &moves)?;
        Ok(Opened { range, config_writes })
    }

    pub(super) fn shut_slot(&self, entry: &Entry, slot: SlotId) -> Result<(), MachineError> {
        self.slot(slot)?;
        let moves = self.moves(&self.state(), Verb::Shut, slot, None)?;
        let die = self.state().placed.keys().next().copied().unwrap_or(self.dies[0]);
        self.carry_out(entry, Verb::Shut, die, &moves).map(drop)
    }

    /// Dies whose path is open to the slot they were placed in, as the registers have it.
    pub(super) fn open_dies(&self, state: &State) -> BTreeSet<Bdf> {
        let open = |die: &Bdf| {
            let slot = state.placed.get(die).and_then(|placement| self.slot(placement.slot).ok());
            let Some(range) = slot.map(Slot::range) else { return false };
            state.hw.above(*die).all(|bridge| {
                let config = state.hw.nodes[&bridge].config();
                let window = bridge::prefetchable(config).open_range();
                window.is_some_and(|window| window.contains(range))
            })
        };
        self.dies.iter().copied().filter(open).collect()
    }

    /// Placed cards by root port.
    fn cards(&self, state: &State) -> BTreeMap<Bdf, CardDoors> {
        let mut cards = BTreeMap::new();
        for (die, placement) in &state.placed {
            let mut above = state.hw.above(*die);
            let (Some(port), Some(root)) = (above.next(), above.last()) else { continue };
            let Ok(slot) = self.slot(placement.slot) else { continue };
            let decode = placement.gate == Gate::Decode;
            let card = cards.entry(root).or_insert(CardDoors { root, doors: Vec::new() });
            card.doors.push(Door { die: *die, port, slot, decode });
        }
        cards
    }

    /// From the registers as they are to `die`, or nobody, in `slot`.
    fn moves(
        &self,
        state: &State,
        verb: Verb,
        slot: SlotId,
        die: Option<Bdf>,
    ) -> Result<Moves, MachineError> {
        let live = |at: Bdf| {
            let config = state.hw.nodes[&at].config();
            let (base, limit) = (reg::PREF_BASE_UPPER, reg::PREF_LIMIT_UPPER);
            Upper { base: config.u32(base), limit: config.u32(limit) }
        };
        let before = self.open_dies(state);
        let in_slot = |at: &Bdf| state.placed.get(at).is_some_and(|p| p.slot == slot);
        let mut after: BTreeSet<Bdf> = before.iter().copied().filter(|d| !in_slot(d)).collect();
        after.extend(die);
        let cards = self.cards(state);
        let windows: Vec<_> =
            cards.values().filter_map(|c| Some((c.root, c.root_window(&after)?))).collect();
        for (n, (root, window)) in windows.iter().enumerate() {
            let met = windows[n + 1..].iter().find(|(_, other)| other.overlaps(*window));
            if let Some(((other, _), die)) = met.zip(die) {
                let reason = format!(
                    "the windows of {root} and {other} would overlap: a card whose dies are in two slots \
                     covers every slot in between; shut that one first"
                );
                return Err(refused(verb, die, reason));
            }
        }
        let mut moves = Moves::default();
        for card in cards.values() {
            let card_moves = card.retarget(live, &after);
            moves.shuts.extend(card_moves.shuts);
            moves.opens.extend(card_moves.opens);
        }
        Ok(moves)
    }

    fn carry_out(
        &self,
        entry: &Entry,
        verb: Verb,
        die: Bdf,
        moves: &Moves,
    ) -> Result<u32, MachineError> {
        let mut writes = Writes::new(self, entry.fail_step);
        let done = moves.shuts.iter().chain(&moves.opens).try_for_each(|m| carry(&mut writes, *m));
        let result = match done {
            Ok(()) => Ok(writes.count()),
            Err(error) => Err(writes.undo(verb.name(), die, error)),
        };
        self.settle_resources();
        result
    }

    /// The kernel's tree follows the registers: what is open is in it, what is not is set aside.
    pub(super) fn settle_resources(&self) {
        let mut state = self.state();
        let open = self.open_dies(&state);
        let cards = self.cards(&state);
        let placed: Vec<_> = state.placed.iter().map(|(die, p)| (*die, p.slot)).collect();
        for (die, slot) in placed {
            let Ok(slot) = self.slot(slot) else { continue };
            let range = slot.range();
            let resource = |in_tree: bool| {
                if in_tree { Resource::Claimed(range) } else { Resource::Aside(range) }
            };
            let is_open = open.contains(&die);
            let above: Vec<Bdf> = state.hw.above(die).collect();
            if let Some(soft) = state.kernel.functions.get_mut(&die) {
                soft.bars.insert(1, resource(is_open));
            }
            if let Some(soft) = above.first().and_then(|p| state.kernel.functions.get_mut(p)) {
                soft.prefetchable = resource(is_open);
            }
        }
        for card in cards.values() {
            let window = card.root_window(&open);
            let all = card.doors.iter().map(|d| d.slot.range()).reduce(crate::AddressRange::span);
            let resource = window.map(Resource::Claimed).or(all.map(Resource::Aside));
            let Some(door) = card.doors.first() else { continue };
            let above: Vec<Bdf> = state.hw.above(door.die).skip(1).collect();
            for bridge in above {
                if let Some(soft) = state.kernel.functions.get_mut(&bridge) {
                    soft.prefetchable = resource.unwrap_or_default();
                }
            }
        }
    }
}

fn carry(writes: &mut Writes<'_>, step: Move) -> Result<(), MachineError> {
    match step {
        Move::Base(bridge, value) => writes.dword(bridge, reg::PREF_BASE_UPPER, value),
        Move::Limit(bridge, value) => writes.dword(bridge, reg::PREF_LIMIT_UPPER, value),
        Move::Decode(die, Decode::Off) if writes.is_absent(die) => Ok(()),
        Move::Decode(die, decode) => {
            let command = u16::try_from(writes.read(die, reg::COMMAND)? & 0xffff).unwrap_or(0);
            let command = match decode {
                Decode::On => command | command::MEMORY,
                Decode::Off => command & !command::MEMORY,
            };
            writes.word(die, reg::COMMAND, command)
        }
    }
}
