//! Who waits for a slot, first come first served.

use std::collections::BTreeMap;

use super::event::{Caller, Moment};

/// Place in line: lower is earlier, over all slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(pub(super) u64);

/// Index of a die in the core's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DieIndex(pub(super) usize);

/// What somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// A lease.
    Visit {
        /// Of this die; `None` for any.
        die: Option<DieIndex>,
        /// A name for Status.
        client: Option<String>,
    },
    /// To have a die parked.
    Park {
        /// That die.
        die: DieIndex,
    },
}

/// Somebody in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) caller: Caller,
    pub(super) wish: Wish,
    pub(super) since: Moment,
    pub(super) until: Option<Moment>,
}

/// The line of one slot. Every step is O(log n).
#[derive(Debug, Default)]
pub(super) struct Queue {
    line: BTreeMap<Ticket, Waiter>,
}

impl Queue {
    pub(super) fn insert(&mut self, ticket: Ticket, waiter: Waiter) {
        self.line.insert(ticket, waiter);
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Waiter> {
        self.line.remove(&ticket)
    }

    pub(super) fn pop(&mut self) -> Option<(Ticket, Waiter)> {
        self.line.pop_first()
    }

    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }
}
