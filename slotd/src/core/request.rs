//! What clients ask for.

use std::time::Duration;

use slotd_client::api::{self, LeaseId, Refusal};
use vfio_park::SlotId;

use super::{
    Core, Effects, Look, Phase, Seat,
    bay::{Ended, Held, State, Task, Visitor},
    event::{Caller, ConnId, Effect, Moment, Reply, Request, Rights},
    millis, planning,
    queue::{DieIndex, Ticket, Waiter, Wish},
    reply,
};

impl Core {
    pub(super) fn request(
        &mut self,
        now: Moment,
        caller: Caller,
        request: Request,
        fx: &mut Effects,
    ) {
        let conn = caller.conn;
        let result = match request {
            Request::Status(api::Status { fresh: Some(true) }) => {
                self.look(conn, Look::Status, fx);
                return;
            }
            Request::Status(_) => Ok(Reply::Status(self.status(now))),
            Request::Look => {
                self.look(conn, Look::Only, fx);
                return;
            }
            Request::Plan(call) => self.plan(&call).map(Reply::Plan),
            _ if self.phase == Phase::Stopping => Err(Refusal::Stopping),
            Request::Acquire(call) => return self.acquire(now, caller, call, fx),
            Request::Park(call) => return self.park(now, caller, &call, fx),
            Request::Release(call) => return self.release(now, caller, call, fx),
        };
        reply(fx, conn, result);
    }

    /// Has the machine read; one reading answers all who ask before it is there.
    fn look(&mut self, conn: ConnId, look: Look, fx: &mut Effects) {
        if self.lookers.is_empty() {
            fx.push(Effect::Look);
        }
        self.lookers.push((conn, look));
    }

    fn acquire(&mut self, now: Moment, caller: Caller, call: api::Acquire, fx: &mut Effects) {
        match self.admit_visit(now, caller, call, fx) {
            Ok(()) => {}
            Err(refusal) => reply(fx, caller.conn, Err(refusal)),
        }
    }

    /// Grants, swaps, or puts in line.
    fn admit_visit(
        &mut self,
        now: Moment,
        caller: Caller,
        call: api::Acquire,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        let die = match call.die.as_deref() {
            None | Some("any") => None,
            Some(name) => Some(self.find(name)?),
        };
        match self.seats.get(&caller.conn).copied() {
            Some(Seat::Waiting(..) | Seat::Working(_)) => return Err(Refusal::AlreadyWaiting),
            Some(Seat::Holding(slot)) => {
                let visitor = Visitor { caller, client: call.client };
                return self.swap(now, slot, visitor, die, fx);
            }
            None => {}
        }
        if let Some(die) = die {
            self.knowledge.available(die)?;
        }
        let slot = self.slot_for(die)?;
        let wish = Wish::Visit { die, client: call.client };
        self.enqueue(now, slot, caller, wish, call.wait_ms, fx);
        Ok(())
    }

    /// The holder of a slot asks for a die: the one it has, or another one in its stead.
    fn swap(
        &mut self,
        now: Moment,
        slot: SlotId,
        visitor: Visitor,
        die: Option<DieIndex>,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        let Some(held) = self.bay(slot).held() else { return Err(Refusal::AlreadyWaiting) };
        let (lease, own) = (held.lease, held.die);
        let Some(die) = die.filter(|die| *die != own) else {
            let acquired = self.acquired(slot, lease, own, api::Kind::Present);
            reply(fx, visitor.caller.conn, Ok(Reply::Acquired(acquired)));
            return Ok(());
        };
        self.knowledge.available(die)?;
        if self.knowledge.home(die).is_some_and(|home| home != slot) {
            return Err(Refusal::HoldsLease { lease });
        }
        match self.bay(slot).take() {
            State::Held(held) => {
                let (free, old) = held.set_aside();
                self.visit(now, slot, free, visitor, die, Some(old), fx);
                Ok(())
            }
            other => {
                self.bay(slot).state = other;
                Err(Refusal::AlreadyWaiting)
            }
        }
    }

    fn park(&mut self, now: Moment, caller: Caller, call: &api::Park, fx: &mut Effects) {
        match self.admit_park(now, caller, call, fx) {
            Ok(()) => {}
            Err(refusal) => reply(fx, caller.conn, Err(refusal)),
        }
    }

    fn admit_park(
        &mut self,
        now: Moment,
        caller: Caller,
        call: &api::Park,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        let die = self.find(&call.die)?;
        self.knowledge.available(die)?;
        match self.seats.get(&caller.conn).copied() {
            Some(Seat::Waiting(..) | Seat::Working(_)) => return Err(Refusal::AlreadyWaiting),
            Some(Seat::Holding(slot)) => return self.park_held(now, slot, caller, die, fx),
            None => {}
        }
        let slot = self.slot_for(Some(die))?;
        self.enqueue(now, slot, caller, Wish::Park { die }, call.wait_ms, fx);
        Ok(())
    }

    /// The holder of a slot has a die parked; its lease ends with that.
    fn park_held(
        &mut self,
        now: Moment,
        slot: SlotId,
        caller: Caller,
        die: DieIndex,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        match self.bay(slot).take() {
            State::Held(held) if self.knowledge.home(die).is_none_or(|home| home == slot) => {
                let (free, ended) = held.end();
                self.tally(now, &ended);
                self.begin_park(now, slot, free, caller.conn, die, fx);
                Ok(())
            }
            State::Held(held) => {
                let lease = held.lease;
                self.bay(slot).state = State::Held(held);
                Err(Refusal::HoldsLease { lease })
            }
            other => {
                self.bay(slot).state = other;
                Err(Refusal::AlreadyWaiting)
            }
        }
    }

    fn enqueue(
        &mut self,
        now: Moment,
        slot: SlotId,
        caller: Caller,
        wish: Wish,
        wait_ms: Option<u64>,
        fx: &mut Effects,
    ) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        // A limit past the end of time is none.
        let until = wait_ms.and_then(|ms| now.checked_add(Duration::from_millis(ms)));
        if let Some(until) = until {
            self.limits.insert((until, slot, ticket));
        }
        self.seats.insert(caller.conn, Seat::Waiting(slot, ticket));
        self.bay(slot).queue.insert(ticket, Waiter { caller, wish, since: now, until });
        self.advance(now, slot, fx);
        if until.is_some_and(|until| until <= now) {
            self.tick(now, fx);
        }
    }

    fn release(&mut self, now: Moment, caller: Caller, call: api::Release, fx: &mut Effects) {
        match self.end_lease(now, caller, call) {
            Ok(slot) if call.vacate == Some(true) && self.bay(slot).queue.is_empty() => {
                self.begin_vacate(now, slot, Some((caller.conn, Reply::Done)), fx);
            }
            Ok(slot) => {
                reply(fx, caller.conn, Ok(Reply::Done));
                self.advance(now, slot, fx);
            }
            Err(refusal) => reply(fx, caller.conn, Err(refusal)),
        }
    }

    /// Ends the lease that is named, or the caller's own; tells its slot.
    fn end_lease(
        &mut self,
        now: Moment,
        caller: Caller,
        call: api::Release,
    ) -> Result<SlotId, Refusal> {
        let own = match self.seats.get(&caller.conn) {
            Some(Seat::Holding(slot)) => Some(*slot),
            Some(Seat::Waiting(..) | Seat::Working(_)) => return Err(Refusal::AlreadyWaiting),
            None => None,
        };
        let not_holder = Refusal::NotHolder { lease: call.lease };
        let slot = match call.lease {
            None => own.ok_or(not_holder)?,
            Some(lease) => {
                let slot = self.slot_of_lease(lease).ok_or(not_holder.clone())?;
                if own != Some(slot) {
                    self.allow_force(caller, slot, call.force, not_holder)?;
                }
                slot
            }
        };
        match self.bay(slot).take() {
            State::Held(held) => {
                let (free, ended) = held.end();
                self.bay(slot).state = free.stay();
                self.seats.remove(&ended.visitor.caller.conn);
                self.tally(now, &ended);
                Ok(slot)
            }
            other => {
                self.bay(slot).state = other;
                Err(Refusal::NotHolder { lease: call.lease })
            }
        }
    }

    fn slot_of_lease(&self, lease: LeaseId) -> Option<SlotId> {
        let bay = self.bays.iter().find(|bay| bay.held().is_some_and(|held| held.lease == lease));
        bay.map(|bay| bay.id)
    }

    /// Somebody else's lease: for its user and for root, and only where that is meant.
    fn allow_force(
        &mut self,
        caller: Caller,
        slot: SlotId,
        force: Option<bool>,
        not_holder: Refusal,
    ) -> Result<(), Refusal> {
        let holder = self.bay(slot).held().map(|held: &Held| held.visitor.caller.uid);
        if force != Some(true) {
            return Err(not_holder);
        }
        if caller.rights == Rights::Admin || holder == Some(caller.uid) {
            return Ok(());
        }
        let reason = "only the user who holds a lease, and root, may end it by force".to_owned();
        Err(Refusal::NotAllowed { reason })
    }

    fn plan(&mut self, call: &api::Plan) -> Result<api::PlanReply, Refusal> {
        let die = match call.die.as_deref() {
            None | Some("any") => None,
            Some(name) => Some(self.find(name)?),
        };
        if let Some(die) = die {
            self.knowledge.available(die)?;
        }
        let slot = self.slot_for(die)?;
        let plan = match (call.verb, die) {
            (api::Verb::Vacate, _) => planning::vacate(&self.knowledge, slot),
            (api::Verb::Acquire, die) => {
                let die = die.or_else(|| self.any(slot)).ok_or(Refusal::NoDie)?;
                let range = self.bay(slot).slot;
                planning::acquire(&self.knowledge, slot, range, self.manner, die).1
            }
            (api::Verb::Park, None) => return Err(Refusal::UnknownDie { die: "any".to_owned() }),
            (api::Verb::Park, Some(die)) => self.whole_park(slot, die),
        };
        Ok(plan.into())
    }

    pub(super) fn find(&self, name: &str) -> Result<DieIndex, Refusal> {
        self.knowledge.find(name).ok_or_else(|| Refusal::UnknownDie { die: name.to_owned() })
    }

    pub(super) fn disconnect(&mut self, now: Moment, conn: ConnId, fx: &mut Effects) {
        self.lookers.retain(|(looker, _)| *looker != conn);
        match self.seats.remove(&conn) {
            None => {}
            Some(Seat::Waiting(slot, ticket)) => {
                if let Some(waiter) = self.bay(slot).queue.remove(ticket) {
                    self.forget_limit(slot, ticket, &waiter);
                }
            }
            Some(Seat::Working(slot)) => {
                let old = match &mut self.bay(slot).state {
                    State::Working(working) => working.task.abandon(),
                    _ => None,
                };
                if let Some(old) = old {
                    self.tally(now, &old.end().1);
                }
            }
            Some(Seat::Holding(slot)) => {
                match self.bay(slot).take() {
                    State::Held(held) => {
                        let (free, ended) = held.end();
                        self.bay(slot).state = free.stay();
                        self.tally(now, &ended);
                    }
                    other => self.bay(slot).state = other,
                }
                self.advance(now, slot, fx);
            }
        }
    }

    pub(super) fn forget_limit(&mut self, slot: SlotId, ticket: Ticket, waiter: &Waiter) {
        if let Some(until) = waiter.until {
            self.limits.remove(&(until, slot, ticket));
        }
    }

    pub(super) fn stop(&mut self, fx: &mut Effects) {
        self.phase = Phase::Stopping;
        for index in 0..self.bays.len() {
            self.refuse_line(index, fx, |_| Refusal::Stopping);
        }
    }

    /// Empties the line of a slot.
    pub(super) fn refuse_line(
        &mut self,
        bay: usize,
        fx: &mut Effects,
        why: impl Fn(SlotId) -> Refusal,
    ) {
        let slot = self.bays[bay].id;
        while let Some((ticket, waiter)) = self.bays[bay].queue.pop() {
            self.forget_limit(slot, ticket, &waiter);
            self.seats.remove(&waiter.caller.conn);
            reply(fx, waiter.caller.conn, Err(why(slot)));
        }
    }

    /// Counts a lease that is over.
    pub(super) fn tally(&mut self, now: Moment, ended: &Ended) {
        self.knowledge.die_mut(ended.die).slot_time += now.saturating_sub(ended.since);
    }

    pub(super) fn tick(&mut self, now: Moment, fx: &mut Effects) {
        while let Some((until, slot, ticket)) = self.limits.first().copied()
            && until <= now
        {
            self.limits.pop_first();
            if let Some(waiter) = self.bay(slot).queue.remove(ticket) {
                self.seats.remove(&waiter.caller.conn);
                let waited_ms = millis(now.saturating_sub(waiter.since));
                reply(fx, waiter.caller.conn, Err(Refusal::TimedOut { waited_ms }));
            }
        }
        for index in 0..self.bays.len() {
            self.wedge_overdue(now, index, fx);
        }
    }

    /// The task of a slot's operation, for whoever has to answer for it.
    pub(super) fn answer(&mut self, task: &Task, fx: &mut Effects, refusal: Refusal) {
        if let Some(conn) = task.asker() {
            self.seats.remove(&conn);
            reply(fx, conn, Err(refusal));
        }
    }
}
