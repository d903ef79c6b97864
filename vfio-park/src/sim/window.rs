//! Opening and shutting: what the window module does, on the simulated registers.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    faults::Verb,
    gate::{CardDoors, DecodeMoves, Door, Move, Moves, shut_base, upper_halves},
    inner::{Entry, Inner, State, refused},
    kernel::Resource,
    writes::Writes,
};
use crate::{
    AddressRange, Bdf, DriverName, Gate, MachineError, Slot, SlotId,
    model::{command, reg},
    seam::Opened,
};

/// Every bridge over a placed card, and the window it is to have.
pub(super) type Windows = BTreeMap<Bdf, AddressRange>;

impl Inner {
    pub(super) fn open_die(
        &self,
        entry: &Entry,
        slot: SlotId,
        die: Bdf,
    ) -> Result<Opened, MachineError> {
        let range = self.slot(slot)?.range();
        let (moves, windows, leaving) = {
            let state = self.state();
            let open = self.open_dies(&state);
            if state.hw.config(die).is_none() {
                return Err(MachineError::Absent(die));
            }
            self.may_open(&state, slot, die, &open)?;
            if open.contains(&die) {
                return Ok(Opened { range, config_writes: 0 });
            }
            let leaving = in_slot(&state, slot, &open);
            let after = open.difference(&leaving).copied().chain([die]).collect();
            (self.moves(&state, &after), self.windows(&state), leaving)
        };
        let mut writes = Writes::new(self, entry.fail_step);
        // A die is awake while it is in the slot.
        let woken = self.wake(die);
        if let Err(error) = carry_out(&mut writes, &windows, &moves) {
            let error = writes.undo(Verb::Open.name(), die, error);
            self.let_sleep(woken.then_some(die));
            self.settle_resources();
            return Err(error);
        }
        let config_writes = writes.count();
        self.settle_resources();
        self.left(&leaving);
        Ok(Opened { range, config_writes })
    }

    pub(super) fn shut_slot(&self, entry: &Entry, slot: SlotId) -> Result<(), MachineError> {
        self.slot(slot)?;
        let (moves, windows, leaving) = {
            let state = self.state();
            let open = self.open_dies(&state);
            let leaving = in_slot(&state, slot, &open);
            let after = open.difference(&leaving).copied().collect();
            (self.moves(&state, &after), self.windows(&state), leaving)
        };
        let Some(die) = leaving.first().copied() else { return Ok(()) };
        let mut writes = Writes::new(self, entry.fail_step);
        let done = carry_out(&mut writes, &windows, &moves)
            .map_err(|error| writes.undo(Verb::Shut.name(), die, error));
        self.settle_resources();
        if done.is_ok() {
            self.left(&leaving);
        }
        done
    }

    fn may_open(
        &self,
        state: &State,
        slot: SlotId,
        die: Bdf,
        open: &BTreeSet<Bdf>,
    ) -> Result<(), MachineError> {
        let range = self.slot(slot)?.range();
        let no = |reason: String| Err(refused(Verb::Open, die, reason));
        if state.placed.get(&die).map(|placement| placement.slot) != Some(slot) {
            return no(format!("it has no place in {slot}: place its card first"));
        }
        if state.hw.bar_address(die, 1) != Some(range.base()) {
            return no("its BAR1 has lost the slot (was it reset?): place it again".to_owned());
        }
        let windows = self.windows(state);
        let above: Vec<Bdf> = state.hw.above(die).collect();
        let [_, inner @ .., root] = &above[..] else {
            return no("there are no two bridges above it".to_owned());
        };
        if let Some(at) = inner.iter().find(|at| !state.hw.forwards(**at, windows[*at])) {
            return no(format!("the switch port {at} does not forward the slot: place it again"));
        }
        // An open root port claims its whole window, whatever is open below it.
        let claims = |other: &&Bdf| {
            let elsewhere = state.placed.get(*other).is_some_and(|p| p.slot != slot);
            let other_root = state.hw.above(**other).last().filter(|other| other != root);
            elsewhere && other_root.is_some_and(|other| windows[&other].overlaps(windows[root]))
        };
        match open.iter().find(claims) {
            Some(other) => no(format!(
                "its root port and that of {other}, which is in its slot, would claim the same \
                 addresses: shut that one first"
            )),
            None => Ok(()),
        }
    }

    /// Dies whose path is open to the slot they were placed in, as the registers have it.
    pub(super) fn open_dies(&self, state: &State) -> BTreeSet<Bdf> {
        let open = |die: &Bdf| {
            let slot = state.placed.get(die).and_then(|placement| self.slot(placement.slot).ok());
            let Some(range) = slot.map(Slot::range) else { return false };
            state.hw.above(*die).all(|bridge| state.hw.forwards(bridge, range))
        };
        self.dies.iter().copied().filter(open).collect()
    }

    pub(super) fn windows(&self, state: &State) -> Windows {
        let mut windows = Windows::new();
        for (die, placement) in &state.placed {
            let Ok(slot) = self.slot(placement.slot) else { continue };
            for bridge in state.hw.above(*die) {
                let window = windows.entry(bridge).or_insert(slot.range());
                *window = window.span(slot.range());
            }
        }
        windows
    }

    fn moves(&self, state: &State, open: &BTreeSet<Bdf>) -> Moves {
        let windows = self.windows(state);
        let is_open = |at: Bdf| windows.get(&at).is_some_and(|w| state.hw.forwards(at, *w));
        let mut moves = Moves::default();
        for card in cards(state) {
            let card_moves = card.retarget(is_open, open);
            moves.shuts.extend(card_moves.shuts);
            moves.opens.extend(card_moves.opens);
        }
        moves
    }

    /// Out of the slot, a die on vfio-pci goes back to sleep.
    fn left(&self, dies: &BTreeSet<Bdf>) {
        let idle = |die: &Bdf| self.state().kernel.driver(*die) == Some(&DriverName::vfio_pci());
        let idle: Vec<Bdf> = dies.iter().copied().filter(idle).collect();
        self.let_sleep(idle);
    }

    /// The kernel's tree follows the registers: what is open is in it, what is not is set aside.
    pub(super) fn settle_resources(&self) {
        let mut state = self.state();
        let open = self.open_dies(&state);
        let windows = self.windows(&state);
        let placed: Vec<(Bdf, SlotId)> =
            state.placed.iter().map(|(die, placement)| (*die, placement.slot)).collect();
        let in_use: BTreeSet<Bdf> = open.iter().flat_map(|die| state.hw.above(*die)).collect();
        for (die, slot) in placed {
            let Ok(range) = self.slot(slot).map(Slot::range) else { continue };
            if let Some(soft) = state.kernel.functions.get_mut(&die) {
                soft.bars.insert(1, Resource::placed(range, open.contains(&die)));
            }
        }
        for (bridge, window) in windows {
            if let Some(soft) = state.kernel.functions.get_mut(&bridge) {
                soft.prefetchable = Resource::placed(window, in_use.contains(&bridge));
            }
        }
    }
}

fn in_slot(state: &State, slot: SlotId, open: &BTreeSet<Bdf>) -> BTreeSet<Bdf> {
    let here = |die: &&Bdf| state.placed.get(*die).is_some_and(|p| p.slot == slot);
    open.iter().filter(here).copied().collect()
}

/// Placed cards, in order of their root ports.
fn cards(state: &State) -> Vec<CardDoors> {
    let mut cards: BTreeMap<Bdf, CardDoors> = BTreeMap::new();
    for (die, placement) in &state.placed {
        let mut above = state.hw.above(*die);
        let (Some(port), Some(root)) = (above.next(), above.last()) else { continue };
        let decode = match placement.gate {
            Gate::Window => DecodeMoves::No,
            Gate::Decode => DecodeMoves::Yes,
        };
        let card = cards.entry(root).or_insert(CardDoors { root, doors: Vec::new() });
        card.doors.push(Door { die: *die, port, decode });
    }
    cards.into_values().collect()
}

fn carry_out(
    writes: &mut Writes<'_>,
    windows: &Windows,
    moves: &Moves,
) -> Result<(), MachineError> {
    moves.shuts.iter().chain(&moves.opens).try_for_each(|step| match *step {
        Move::Shut(at) => {
            let (_, limit) = upper_halves(windows[&at]);
            writes.dword(at, reg::PREF_BASE_UPPER, shut_base(limit))
        }
        Move::Open(at) => writes.dword(at, reg::PREF_BASE_UPPER, upper_halves(windows[&at]).0),
        // A die that is off the bus decodes nothing.
        Move::DecodeOff(die) if writes.is_absent(die) => Ok(()),
        Move::DecodeOff(die) => writes.command(die, |command| command & !command::MEMORY),
        Move::DecodeOn(die) => writes.command(die, |command| command | command::MEMORY),
    })
}
