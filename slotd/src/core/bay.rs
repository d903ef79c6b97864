//! What is going on in one slot. Each transition consumes the state it starts from, so that only
//! the legal ones can be written.

use std::mem;

use slotd_client::api::{self, LeaseId};
use vfio_park::{Slot, SlotId};

use super::{
    event::{Caller, ConnId, Moment, OperationId, Reply},
    queue::{DieIndex, Queue},
    step::Plan,
};

/// A slot: what is going on in it, and who waits.
#[derive(Debug)]
pub(super) struct Bay {
    pub(super) id: SlotId,
    pub(super) slot: Slot,
    pub(super) state: State,
    pub(super) queue: Queue,
}

impl Bay {
    pub(super) fn new(id: SlotId, slot: Slot) -> Self {
        Self { id, slot, state: State::Free(Free(())), queue: Queue::default() }
    }

    /// How much stands before a newcomer.
    pub(super) fn load(&self) -> usize {
        self.queue.len() + usize::from(!matches!(self.state, State::Free(_)))
    }

    /// Takes the state out; the caller puts the next one in.
    pub(super) fn take(&mut self) -> State {
        mem::replace(&mut self.state, State::Free(Free(())))
    }

    pub(super) fn held(&self) -> Option<&Held> {
        match &self.state {
            State::Held(held) => Some(held),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) enum State {
    Free(Free),
    Held(Held),
    Working(Working),
    Wedged(Wedged),
}

/// Nobody has the slot. Only the transitions of this module make one.
#[derive(Debug)]
pub(super) struct Free(());

#[expect(clippy::unused_self, reason = "consuming it is the point: a slot is granted once")]
impl Free {
    pub(super) fn grant(self, held: Held) -> State {
        State::Held(held)
    }

    pub(super) fn begin(self, work: Working) -> State {
        State::Working(work)
    }

    pub(super) fn stay(self) -> State {
        State::Free(self)
    }
}

/// Who has, or is to have, a lease.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    pub(super) caller: Caller,
    pub(super) client: Option<String>,
}

/// A lease is out.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) lease: LeaseId,
    pub(super) die: DieIndex,
    pub(super) visitor: Visitor,
    pub(super) since: Moment,
}

impl Held {
    pub(super) fn end(self) -> (Free, Ended) {
        (Free(()), Ended { die: self.die, visitor: self.visitor, since: self.since })
    }

    /// The lease goes on, or is kept aside while its holder swaps.
    pub(super) fn set_aside(self) -> (Free, Held) {
        (Free(()), self)
    }
}

/// A lease that is over, for the tally.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) die: DieIndex,
    pub(super) visitor: Visitor,
    pub(super) since: Moment,
}

/// An operation is under way.
#[derive(Debug)]
pub(super) struct Working {
    pub(super) id: OperationId,
    pub(super) plan: Plan,
    pub(super) task: Task,
    pub(super) deadline: Moment,
}

impl Working {
    pub(super) fn finish(self) -> (Free, Plan, Task) {
        (Free(()), self.plan, self.task)
    }

    pub(super) fn wedge(self, why: String) -> (Wedged, Task) {
        (Wedged { id: self.id, plan: self.plan, die: self.task.die(), why }, self.task)
    }
}

/// What an operation is for. Whoever asked for it may be gone before it ends.
#[derive(Debug)]
pub(super) enum Task {
    Acquire {
        visitor: Option<Visitor>,
        die: DieIndex,
        kind: api::Kind,
        /// The lease that a swap started from.
        old: Option<Held>,
    },
    Park {
        asker: Option<ConnId>,
        die: DieIndex,
    },
    Vacate {
        /// With what is answered once the slot is shut.
        asker: Option<(ConnId, Reply)>,
    },
}

impl Task {
    pub(super) fn die(&self) -> Option<DieIndex> {
        match self {
            Self::Acquire { die, .. } | Self::Park { die, .. } => Some(*die),
            Self::Vacate { .. } => None,
        }
    }

    pub(super) fn asker(&self) -> Option<ConnId> {
        match self {
            Self::Acquire { visitor, .. } => visitor.as_ref().map(|visitor| visitor.caller.conn),
            Self::Park { asker, .. } => *asker,
            Self::Vacate { asker } => asker.as_ref().map(|(conn, _)| *conn),
        }
    }

    /// Whoever asked is gone; an old lease of theirs is over.
    pub(super) fn abandon(&mut self) -> Option<Held> {
        match self {
            Self::Acquire { visitor, old, .. } => {
                *visitor = None;
                old.take()
            }
            Self::Park { asker, .. } => {
                *asker = None;
                None
            }
            Self::Vacate { asker } => {
                *asker = None;
                None
            }
        }
    }
}

/// An operation never came back.
#[derive(Debug)]
pub(super) struct Wedged {
    pub(super) id: OperationId,
    pub(super) plan: Plan,
    pub(super) die: Option<DieIndex>,
    pub(super) why: String,
}

impl Wedged {
    /// It came back after all.
    pub(super) fn heal(self) -> (Free, Plan, Option<DieIndex>) {
        (Free(()), self.plan, self.die)
    }
}
