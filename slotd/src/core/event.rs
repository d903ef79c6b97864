//! What goes into the core and what comes out of it.

use std::time::Duration;

use slotd_client::api;
use vfio_park::{SlotId, Survey};

use super::step::{Plan, Step};

/// Time since the daemon started.
pub type Moment = Duration;

/// A connection; a number is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// An operation; a number is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Leases.
    Member,
    /// Other people's leases too.
    Admin,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Through which connection.
    pub conn: ConnId,
    /// As which user.
    pub uid: u32,
    /// As which process.
    pub pid: i32,
    /// With which rights.
    pub rights: Rights,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// See [`api::Status`].
    Status(api::Status),
    /// See [`api::Acquire`].
    Acquire(api::Acquire),
    /// See [`api::Release`].
    Release(api::Release),
    /// See [`api::Park`].
    Park(api::Park),
    /// See [`api::Plan`].
    Plan(api::Plan),
    /// Read the machine again; answers [`Reply::Done`].
    Look,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A caller asks. Every request gets one [`Effect::Reply`], unless its connection is lost.
    Request {
        /// Who.
        caller: Caller,
        /// What.
        request: Request,
    },
    /// A connection is gone.
    Disconnect(ConnId),
    /// An operation ended.
    Done(OperationId, Outcome),
    /// The machine was read, or could not be.
    Looked(Result<Survey, String>),
    /// The time of [`super::Core::next_deadline`] has come.
    Tick,
    /// The daemon is to stop: whoever waits is refused, operations under way end.
    Stop,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer the call of a connection.
    Reply {
        /// Which.
        conn: ConnId,
        /// With what.
        reply: Result<Reply, api::Refusal>,
    },
    /// Run an operation; its end comes back as [`Event::Done`].
    Start {
        /// Its number.
        id: OperationId,
        /// Its steps.
        plan: Plan,
    },
    /// Read the machine; it comes back as [`Event::Looked`].
    Look,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To Status.
    Status(api::StatusReply),
    /// To Acquire.
    Acquired(api::Acquired),
    /// To Park.
    Parked(api::Parked),
    /// To Plan.
    Plan(api::PlanReply),
    /// To whatever answers nothing.
    Done,
}

/// How an operation ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Every step was done.
    Done,
    /// A step failed.
    Failed(Failure),
}

/// A step that failed, and what became of those before it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The step.
    pub step: Step,
    /// The error and its sources, in words.
    pub reason: String,
    /// What kind of failure it was.
    pub cause: Cause,
    /// What became of the steps before it.
    pub aftermath: Aftermath,
    /// The machine as it was read afterwards; `None` where that failed too.
    pub survey: Option<Box<Survey>>,
    /// Whether the adapter of the operation's die is held now.
    pub adapter_held: bool,
}

/// Kinds of failure that are not alike to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The die answers all-ones.
    Absent,
    /// Processes use the die: command and pid of each.
    InUse(Vec<String>),
    /// Anything else.
    Other,
}

/// What became of the steps before the one that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// They were undone.
    Undone,
    /// Not all could be undone: why, in words.
    NotUndone(String),
    /// A step never came back.
    Wedged(String),
}

/// Where a die answers, for a reply.
pub(super) fn slot_index(slot: SlotId) -> usize {
    usize::from(slot.0)
}
