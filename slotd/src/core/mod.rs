//! Leases, queues and operations as a state machine without IO: [`Event`]s in, [`Effect`]s out.
//!
//! The core knows no bytes, descriptors, clocks or threads. Whoever drives it carries out the
//! effects and reports back; the time comes with each event.
//!
//! | file | what it is |
//! |---|---|
//! | `event` | what goes in and comes out |
//! | `step`, `planning` | operations as lists of steps, and how they come about |
//! | `knowledge`, `naming` | what is known of the dies, and how they are called |
//! | `bay`, `queue` | what is going on in a slot, and who waits for it |
//! | `request` | what clients ask for |
//! | `serve` | a slot that is free, and the next in line |
//! | `finish` | operations that ended, or never did |
//! | `status` | what is told |
//!
//! Rules, each kept by one function:
//! - one lease per slot and per connection; nobody else's lease is out while a window moves;
//! - first come, first served in each slot; a connection that is lost leaves the line;
//! - a holder that acquires another die swaps without waiting in line; if that fails it keeps its
//!   lease where its die is still, or again, in the slot;
//! - a die on which something could not be undone is quarantined until slotd is restarted;
//! - an operation that outlives its limit wedges its die and its slot: whoever waits there is
//!   refused, everything else is still answered.

mod bay;
mod event;
mod finish;
mod knowledge;
mod naming;
mod planning;
mod queue;
mod request;
mod serve;
mod status;
mod step;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use slotd_client::api::Refusal;
use vfio_park::{Bdf, DriverName, Slot, SlotId, Survey};

use self::{
    bay::{Bay, State},
    event::slot_index,
    knowledge::Knowledge,
    queue::Ticket,
};
pub use self::{
    event::{
        Aftermath, Caller, Cause, ConnId, Effect, Event, Failure, Moment, OperationId, Outcome,
        Reply, Request, Rights,
    },
    naming::is_label,
    step::{Manner, Plan, PlannedStep, Step},
};

/// What the core is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the machine is called in Status.
    pub machine: String,
    /// The slots.
    pub slots: Vec<Slot>,
    /// How operations go about it.
    pub manner: Manner,
    /// The parker of dies that were resident when slotd started; the usual one where `None`.
    pub parker: Option<DriverName>,
    /// Labels of dies.
    pub labels: HashMap<Bdf, String>,
    /// How long an operation may take before its die and slot count as wedged.
    pub operation_limit: Duration,
}

/// The state machine.
#[derive(Debug)]
pub struct Core {
    machine: String,
    manner: Manner,
    operation_limit: Duration,
    knowledge: Knowledge,
    bays: Vec<Bay>,
    seats: HashMap<ConnId, Seat>,
    /// Wait limits of those in line.
    limits: BTreeSet<(Moment, SlotId, Ticket)>,
    /// Who waits for the machine to be read, and with what they are answered.
    lookers: Vec<(ConnId, Look)>,
    tickets: u64,
    leases: u64,
    operations: u64,
    phase: Phase,
}

/// What a connection has going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Waiting(SlotId, Ticket),
    Working(SlotId),
    Holding(SlotId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Status,
    Only,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    Stopping,
}

type Effects = Vec<Effect>;

impl Core {
    /// A core that believes `survey`. Nothing is to be done to the machine.
    pub fn new(settings: &Settings, survey: &Survey) -> Self {
        let parker = settings.parker.as_ref();
        let ids = (0..=u8::MAX).map(SlotId);
        Self {
            machine: settings.machine.clone(),
            manner: settings.manner,
            operation_limit: settings.operation_limit,
            knowledge: Knowledge::new(survey, &settings.slots, &settings.labels, parker),
            bays: ids.zip(&settings.slots).map(|(id, slot)| Bay::new(id, *slot)).collect(),
            seats: HashMap::new(),
            limits: BTreeSet::new(),
            lookers: Vec::new(),
            tickets: 0,
            leases: 0,
            operations: 0,
            phase: Phase::Serving,
        }
    }

    /// Takes in one event; appends what is to be done, in order.
    pub fn handle(&mut self, now: Moment, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Request { caller, request } => self.request(now, caller, request, effects),
            Event::Disconnect(conn) => self.disconnect(now, conn, effects),
            Event::Done(id, outcome) => self.done(now, id, outcome, effects),
            Event::Looked(result) => self.looked(now, result, effects),
            Event::Tick => self.tick(now, effects),
            Event::Stop => self.stop(effects),
        }
    }

    /// When the next [`Event::Tick`] is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        let limit = self.limits.first().map(|(until, _, _)| *until);
        let working = self.bays.iter().filter_map(|bay| match &bay.state {
            State::Working(working) => Some(working.deadline),
            _ => None,
        });
        working.chain(limit).min()
    }

    /// Whether no operation is under way.
    pub fn at_rest(&self) -> bool {
        let working = |bay: &Bay| matches!(bay.state, State::Working(_));
        self.lookers.is_empty() && !self.bays.iter().any(working)
    }

    /// Whether no operation is under way and no lease is out.
    pub fn unused(&self) -> bool {
        self.at_rest() && self.bays.iter().all(|bay| matches!(bay.state, State::Free(_)))
    }

    fn bay(&mut self, slot: SlotId) -> &mut Bay {
        &mut self.bays[slot_index(slot)]
    }
}

fn reply(effects: &mut Effects, conn: ConnId, reply: Result<Reply, Refusal>) {
    effects.push(Effect::Reply { conn, reply });
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
