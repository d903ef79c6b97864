//! Operations that ended, or never did.

use slotd_client::api::{Kind, Refusal};
use vfio_park::{SlotId, Survey};

use super::{
    Core, Effects, Look, Seat,
    bay::{Free, Held, State, Task, Visitor},
    event::{Aftermath, Cause, ConnId, Failure, Moment, OperationId, Outcome, Reply},
    knowledge::Mark,
    queue::DieIndex,
    reply,
    step::{Plan, Step},
};

impl Core {
    pub(super) fn done(
        &mut self,
        now: Moment,
        id: OperationId,
        outcome: Outcome,
        fx: &mut Effects,
    ) {
        let is = |state: &State| match state {
            State::Working(working) => working.id == id,
            State::Wedged(wedged) => wedged.id == id,
            State::Free(_) | State::Held(_) => false,
        };
        let Some(slot) = self.bays.iter().find(|bay| is(&bay.state)).map(|bay| bay.id) else {
            return;
        };
        match self.bay(slot).take() {
            State::Working(working) => match outcome {
                Outcome::Done => {
                    let (free, plan, task) = working.finish();
                    self.knowledge.apply_all(&plan);
                    self.succeeded(now, slot, free, task, fx);
                }
                Outcome::Failed(Failure { aftermath: Aftermath::Wedged(why), .. }) => {
                    let (wedged, task) = working.wedge(why);
                    self.bay(slot).state = State::Wedged(wedged);
                    self.wedged(now, slot, task, fx);
                }
                Outcome::Failed(failure) => {
                    let (free, plan, task) = working.finish();
                    self.failed(now, slot, free, &plan, task, &failure, fx);
                }
            },
            State::Wedged(wedged) => {
                let (free, plan, die) = wedged.heal();
                self.bay(slot).state = free.stay();
                self.came_back(&plan, die, outcome);
            }
            other => self.bay(slot).state = other,
        }
        self.advance(now, slot, fx);
    }

    fn succeeded(&mut self, now: Moment, slot: SlotId, free: Free, task: Task, fx: &mut Effects) {
        match task {
            Task::Acquire { visitor, die, kind, old } => {
                if let Some(old) = old {
                    self.tally(now, &old.end().1);
                }
                match visitor {
                    Some(visitor) => self.grant(now, slot, free, visitor, die, kind, fx),
                    None => self.bay(slot).state = free.stay(),
                }
            }
            Task::Park { asker, die } => {
                self.bay(slot).state = free.stay();
                let answer = self.parked(die);
                if self.bay(slot).queue.is_empty() {
                    let asker = asker.map(|conn| (conn, answer));
                    return self.begin_vacate_for(now, slot, asker, fx);
                }
                self.conclude(asker.map(|conn| (conn, answer)), fx);
            }
            Task::Vacate { asker } => {
                self.bay(slot).state = free.stay();
                self.conclude(asker, fx);
            }
        }
    }

    fn begin_vacate_for(
        &mut self,
        now: Moment,
        slot: SlotId,
        asker: Option<(ConnId, Reply)>,
        fx: &mut Effects,
    ) {
        if let Some((conn, _)) = &asker {
            self.seats.remove(conn);
        }
        self.begin_vacate(now, slot, asker, fx);
    }

    fn conclude(&mut self, asker: Option<(ConnId, Reply)>, fx: &mut Effects) {
        if let Some((conn, answer)) = asker {
            self.seats.remove(&conn);
            reply(fx, conn, Ok(answer));
        }
    }

    #[allow(clippy::too_many_arguments)] // the parts of one state, from one caller
    fn failed(
        &mut self,
        now: Moment,
        slot: SlotId,
        free: Free,
        plan: &Plan,
        task: Task,
        failure: &Failure,
        fx: &mut Effects,
    ) {
        let die = task.die();
        self.learn(plan, die, failure);
        let refusal = self.refusal(die, failure);
        match task {
            Task::Acquire {
                visitor: Some(visitor),
                kind: Kind::Cold | Kind::Warm,
                old: Some(old),
                ..
            } if failure.aftermath == Aftermath::Undone
                && self.knowledge.open_in(slot) == Some(old.die) =>
            {
                self.keep(slot, free, &visitor, old, refusal, fx);
            }
            mut task => {
                self.bay(slot).state = free.stay();
                self.answer(&task, fx, refusal);
                if let Some(old) = task.abandon() {
                    self.tally(now, &old.end().1);
                }
            }
        }
    }

    /// A swap failed and the old die is in the slot again: its holder keeps its lease.
    fn keep(
        &mut self,
        slot: SlotId,
        free: Free,
        visitor: &Visitor,
        old: Held,
        mut refusal: Refusal,
        fx: &mut Effects,
    ) {
        if let Refusal::OperationFailed { lease, .. } = &mut refusal {
            *lease = Some(old.lease);
        }
        let conn = visitor.caller.conn;
        self.seats.insert(conn, Seat::Holding(slot));
        self.bay(slot).state = free.grant(old);
        reply(fx, conn, Err(refusal));
    }

    /// Takes over what a failure tells.
    fn learn(&mut self, plan: &Plan, die: Option<DieIndex>, failure: &Failure) {
        if let Some(survey) = &failure.survey {
            self.knowledge.refresh(survey);
        }
        let Some(index) = die else { return };
        if plan.steps.iter().any(|planned| matches!(planned.step, Step::Place { .. })) {
            self.knowledge.doubt_place(index);
        }
        let die = self.knowledge.die_mut(index);
        die.adapter_held = failure.adapter_held;
        let story = format!("{}: {}", failure.step, failure.reason);
        die.mark = match (&failure.aftermath, &failure.cause) {
            (Aftermath::NotUndone(undo), _) => Some(Mark::Quarantined(format!("{story}; {undo}"))),
            (_, Cause::Absent) => Some(Mark::Absent(story)),
            _ if failure.survey.is_none() => Some(Mark::Quarantined(format!(
                "{story}; the machine could not be read afterwards"
            ))),
            _ => die.mark.take(),
        };
    }

    fn refusal(&self, die: Option<DieIndex>, failure: &Failure) -> Refusal {
        let label = die.map(|die| self.knowledge.die(die).label.clone());
        let undone = failure.aftermath == Aftermath::Undone;
        match (&failure.cause, label) {
            (Cause::InUse(holders), Some(die)) if undone => {
                Refusal::InUse { die, holders: holders.clone() }
            }
            (_, die) => Refusal::OperationFailed {
                die,
                step: failure.step.to_string(),
                reason: failure.reason.clone(),
                undone,
                lease: None,
            },
        }
    }

    /// The deadline of a slot's operation, if that has passed.
    pub(super) fn wedge_overdue(&mut self, now: Moment, bay: usize, fx: &mut Effects) {
        let slot = self.bays[bay].id;
        match self.bay(slot).take() {
            State::Working(working) if working.deadline <= now => {
                let steps = working.plan.steps.iter();
                let steps = steps.map(|planned| planned.step.to_string()).collect::<Vec<_>>();
                let limit = self.operation_limit.as_secs();
                let why = format!("not back after {limit} s: {}", steps.join(", "));
                let (wedged, task) = working.wedge(why);
                self.bay(slot).state = State::Wedged(wedged);
                self.wedged(now, slot, task, fx);
            }
            other => self.bay(slot).state = other,
        }
    }

    /// Nothing is done in this slot any more: refuses whoever waits for it.
    fn wedged(&mut self, now: Moment, slot: SlotId, mut task: Task, fx: &mut Effects) {
        let State::Wedged(wedged) = &self.bay(slot).state else { return };
        let why = wedged.why.clone();
        if let Some(die) = task.die() {
            self.knowledge.die_mut(die).mark = Some(Mark::Wedged(why.clone()));
        }
        let refusal = Refusal::Wedged { slot: slot.0, reason: why };
        self.answer(&task, fx, refusal.clone());
        if let Some(old) = task.abandon() {
            self.tally(now, &old.end().1);
        }
        self.refuse_line(super::slot_index(slot), fx, |_| refusal.clone());
    }

    /// An operation that counted as wedged came back. The slot serves again, the die does not.
    fn came_back(&mut self, plan: &Plan, die: Option<DieIndex>, outcome: Outcome) {
        let story = match outcome {
            Outcome::Done => {
                self.knowledge.apply_all(plan);
                "it came back late".to_owned()
            }
            Outcome::Failed(failure) => {
                self.learn(plan, die, &failure);
                format!("it came back late: {}: {}", failure.step, failure.reason)
            }
        };
        if let Some(die) = die {
            self.knowledge.die_mut(die).mark = Some(Mark::Quarantined(story));
        }
    }

    /// The machine was read: believes it, and answers those who waited for that.
    pub(super) fn looked(&mut self, now: Moment, result: Result<Survey, String>, fx: &mut Effects) {
        let failed = result.as_ref().err().cloned();
        if let Ok(survey) = result {
            self.knowledge.refresh(&survey);
            self.knowledge.forget_absent();
        }
        for (conn, look) in std::mem::take(&mut self.lookers) {
            let answer = match (&failed, look) {
                (Some(reason), _) => Err(Refusal::OperationFailed {
                    die: None,
                    step: "read the machine".to_owned(),
                    reason: reason.clone(),
                    undone: true,
                    lease: None,
                }),
                (None, Look::Status) => Ok(Reply::Status(self.status(now))),
                (None, Look::Only) => Ok(Reply::Done),
            };
            reply(fx, conn, answer);
        }
    }
}
