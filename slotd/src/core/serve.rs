//! A slot that is free, and the next in line.

use slotd_client::api::{self, Kind, LeaseId, Refusal};
use vfio_park::SlotId;

use super::{
    Core, Effects, Seat,
    bay::{Free, Held, State, Task, Visitor, Working},
    event::{ConnId, Effect, Moment, OperationId, Reply, slot_index},
    knowledge::Standing,
    planning,
    queue::{DieIndex, Ticket, Waiter, Wish},
    reply,
    step::Plan,
};

impl Core {
    /// Serves the line while the slot is free.
    pub(super) fn advance(&mut self, now: Moment, slot: SlotId, fx: &mut Effects) {
        loop {
            let bay = self.bay(slot);
            if !matches!(bay.state, State::Free(_)) {
                return;
            }
            let Some((ticket, waiter)) = bay.queue.pop() else { return };
            self.forget_limit(slot, ticket, &waiter);
            let State::Free(free) = self.bay(slot).take() else { return };
            self.serve(now, slot, free, ticket, waiter, fx);
        }
    }

    fn serve(
        &mut self,
        now: Moment,
        slot: SlotId,
        free: Free,
        ticket: Ticket,
        waiter: Waiter,
        fx: &mut Effects,
    ) {
        let conn = waiter.caller.conn;
        let picked = match &waiter.wish {
            Wish::Visit { die: Some(die), .. } | Wish::Park { die } => {
                self.knowledge.available(*die).map(|()| *die)
            }
            Wish::Visit { die: None, .. } => self.any(slot).ok_or(Refusal::NoDie),
        };
        let die = match picked {
            Ok(die) => die,
            Err(refusal) => {
                self.bay(slot).state = free.stay();
                self.seats.remove(&conn);
                return reply(fx, conn, Err(refusal));
            }
        };
        // While it waited its card was given a place in another slot: it keeps its place in line.
        if let Some(home) = self.knowledge.home(die).filter(|home| *home != slot) {
            self.bay(slot).state = free.stay();
            if let State::Wedged(wedged) = &self.bay(home).state {
                let refusal = Refusal::Wedged { slot: home.0, reason: wedged.why.clone() };
                self.seats.remove(&conn);
                return reply(fx, conn, Err(refusal));
            }
            if let Some(until) = waiter.until {
                self.limits.insert((until, home, ticket));
            }
            self.seats.insert(conn, Seat::Waiting(home, ticket));
            self.bay(home).queue.insert(ticket, waiter);
            return self.advance(now, home, fx);
        }
        match waiter.wish {
            Wish::Visit { client, .. } => {
                let visitor = Visitor { caller: waiter.caller, client };
                self.visit(now, slot, free, visitor, die, None, fx);
            }
            Wish::Park { .. } => self.begin_park(now, slot, free, conn, die, fx),
        }
    }

    /// The die for `any` in a slot: the one in it if that is resident, else the resident one whose
    /// last visit is longest ago, else one that is not resident yet.
    pub(super) fn any(&self, slot: SlotId) -> Option<DieIndex> {
        let open = self.knowledge.open_in(slot);
        let fits = |die: &DieIndex| {
            let home = self.knowledge.home(*die);
            self.knowledge.available(*die).is_ok() && home.is_none_or(|home| home == slot)
        };
        let rank = |index: &DieIndex| {
            let die = self.knowledge.die(*index);
            let resident = die.standing == Standing::Resident;
            (!resident, open != Some(*index), die.last_visit, *index)
        };
        self.knowledge.indices().filter(fits).min_by_key(rank)
    }

    /// The slot where a request is to wait: where its die belongs, else where the least is going
    /// on.
    pub(super) fn slot_for(&self, die: Option<DieIndex>) -> Result<SlotId, Refusal> {
        let home = die.and_then(|die| self.knowledge.home(die));
        let bay = match home {
            Some(home) => self.bays.get(slot_index(home)),
            None => self
                .bays
                .iter()
                .min_by_key(|bay| (matches!(bay.state, State::Wedged(_)), bay.load())),
        };
        match bay {
            None => Err(Refusal::NoDie),
            Some(bay) => match &bay.state {
                State::Wedged(wedged) => {
                    Err(Refusal::Wedged { slot: bay.id.0, reason: wedged.why.clone() })
                }
                _ => Ok(bay.id),
            },
        }
    }

    /// Grants a lease at once where the die is in the slot, else has it brought there.
    #[allow(clippy::too_many_arguments)] // the parts of one state, from two callers
    pub(super) fn visit(
        &mut self,
        now: Moment,
        slot: SlotId,
        free: Free,
        visitor: Visitor,
        die: DieIndex,
        old: Option<Held>,
        fx: &mut Effects,
    ) {
        let range = self.bay(slot).slot;
        let (kind, plan) = planning::acquire(&self.knowledge, slot, range, self.manner, die);
        if plan.is_empty() {
            if let Some(old) = old {
                self.tally(now, &old.end().1);
            }
            return self.grant(now, slot, free, visitor, die, kind, fx);
        }
        if kind == Kind::Cold {
            self.knowledge.assign(die, slot);
        }
        self.seats.insert(visitor.caller.conn, Seat::Working(slot));
        let task = Task::Acquire { visitor: Some(visitor), die, kind, old };
        self.begin(now, slot, free, plan, task, fx);
    }

    #[allow(clippy::too_many_arguments)] // the parts of one state, from two callers
    pub(super) fn grant(
        &mut self,
        now: Moment,
        slot: SlotId,
        free: Free,
        visitor: Visitor,
        die: DieIndex,
        kind: Kind,
        fx: &mut Effects,
    ) {
        self.leases += 1;
        let lease = LeaseId(self.leases);
        let conn = visitor.caller.conn;
        self.seats.insert(conn, Seat::Holding(slot));
        self.bay(slot).state = free.grant(Held { lease, die, visitor, since: now });
        let known = self.knowledge.die_mut(die);
        known.visits += 1;
        known.last_visit = lease.0;
        let acquired = self.acquired(slot, lease, die, kind);
        reply(fx, conn, Ok(Reply::Acquired(acquired)));
    }

    pub(super) fn acquired(
        &mut self,
        slot: SlotId,
        lease: LeaseId,
        die: DieIndex,
        kind: Kind,
    ) -> api::Acquired {
        let range = self.bay(slot).slot.range();
        let die = self.knowledge.die(die);
        api::Acquired {
            lease,
            die: die.id.0,
            bdf: die.bdf.to_string(),
            label: die.label.clone(),
            slot: slot.0,
            base: range.base(),
            size: range.size(),
            kind,
        }
    }

    pub(super) fn begin_park(
        &mut self,
        now: Moment,
        slot: SlotId,
        free: Free,
        conn: ConnId,
        die: DieIndex,
        fx: &mut Effects,
    ) {
        let plan = planning::park(&self.knowledge, slot, die);
        if plan.is_empty() {
            self.bay(slot).state = free.stay();
            self.seats.remove(&conn);
            let parked = self.parked(die);
            reply(fx, conn, Ok(parked));
            // A holder's lease ended with this call, and others may wait for the slot.
            return self.advance(now, slot, fx);
        }
        self.seats.insert(conn, Seat::Working(slot));
        self.begin(now, slot, free, plan, Task::Park { asker: Some(conn), die }, fx);
    }

    pub(super) fn parked(&self, die: DieIndex) -> Reply {
        let known = self.knowledge.die(die);
        Reply::Parked(api::Parked {
            die: known.id.0,
            bdf: known.bdf.to_string(),
            label: known.label.clone(),
            parker: known.driver().unwrap_or_default(),
        })
    }

    /// Shuts a slot that is free; whoever asked is answered afterwards.
    pub(super) fn begin_vacate(
        &mut self,
        now: Moment,
        slot: SlotId,
        asker: Option<(ConnId, Reply)>,
        fx: &mut Effects,
    ) {
        let plan = planning::vacate(&self.knowledge, slot);
        let free = match self.bay(slot).take() {
            State::Free(free) if !plan.is_empty() => free,
            other => {
                self.bay(slot).state = other;
                if let Some((conn, answer)) = asker {
                    reply(fx, conn, Ok(answer));
                }
                return self.advance(now, slot, fx);
            }
        };
        if let Some((conn, _)) = &asker {
            self.seats.insert(*conn, Seat::Working(slot));
        }
        self.begin(now, slot, free, plan, Task::Vacate { asker }, fx);
    }

    fn begin(
        &mut self,
        now: Moment,
        slot: SlotId,
        free: Free,
        plan: Plan,
        task: Task,
        fx: &mut Effects,
    ) {
        self.operations += 1;
        let id = OperationId(self.operations);
        let deadline = now + self.operation_limit;
        fx.push(Effect::Start { id, plan: plan.clone() });
        self.bay(slot).state = free.begin(Working { id, plan, task, deadline });
    }

    /// A park with the shutting of the slot that follows it.
    pub(super) fn whole_park(&self, slot: SlotId, die: DieIndex) -> Plan {
        let mut plan = planning::park(&self.knowledge, slot, die);
        if !plan.is_empty() {
            plan.steps.extend(planning::vacate_after(slot).steps);
        }
        plan
    }
}
