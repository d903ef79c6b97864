//! `org.barswap.Slot` as types. The interface text tells what they mean to a client.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Name of the interface.
pub const INTERFACE: &str = "org.barswap.Slot";

/// A call: its parameters, and with them what it answers.
pub trait Method: Serialize {
    /// Full name of the method.
    const NAME: &'static str;
    /// What it answers.
    type Reply: DeserializeOwned;
}

/// Number of a lease, unique while a daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease {}", self.0)
    }
}

/// What is known of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DieState {
    /// On its parker.
    Parked,
    /// Bound to nvidia, in or out of the slot.
    Resident,
    /// No driver has it.
    Unbound,
    /// A driver that is neither a parker nor nvidia has it.
    Foreign,
    /// It answers all-ones.
    Absent,
    /// A failure could not be undone.
    Quarantined,
    /// An operation on it never came back.
    Wedged,
}

impl fmt::Display for DieState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Parked => "parked",
            Self::Resident => "resident",
            Self::Unbound => "unbound",
            Self::Foreign => "foreign",
            Self::Absent => "absent",
            Self::Quarantined => "quarantined",
            Self::Wedged => "wedged",
        })
    }
}

/// What is going on in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// No lease.
    Free,
    /// A lease is out.
    Held,
    /// An operation is under way.
    Working,
    /// An operation never came back.
    Wedged,
}

impl fmt::Display for SlotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Free => "free",
            Self::Held => "held",
            Self::Working => "working",
            Self::Wedged => "wedged",
        })
    }
}

/// What an acquire took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Placed, and handed over from its parker to nvidia.
    Cold,
    /// The window moved.
    Warm,
    /// It was in the slot already.
    Present,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Present => "present",
        })
    }
}

/// What [`Plan`] plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Bring a die into the slot.
    Acquire,
    /// Give a die back to its parker.
    Park,
    /// Shut the slot.
    Vacate,
}

/// The slots and dies as slotd knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Read the machine again first; that writes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<bool>,
}

/// Answer of [`Status`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReply {
    /// What the machine is: `linux`, or the simulator's preset.
    pub machine: String,
    /// The slots, by number.
    pub slots: Vec<SlotStatus>,
    /// The dies, by number.
    pub dies: Vec<DieStatus>,
    /// What could not be read or made sense of.
    pub oddities: Vec<String>,
}

/// A slot in [`StatusReply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotStatus {
    /// Its number.
    pub slot: u8,
    /// First address.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
    /// What is going on.
    pub state: SlotState,
    /// The die that answers in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub die: Option<u16>,
    /// The lease that is out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseId>,
    /// How the holder called itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The holder's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// How long the lease has been out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<u64>,
    /// How many wait in line.
    pub waiting: u64,
    /// The operation under way, or what wedged the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
}

/// A die in [`StatusReply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DieStatus {
    /// Its number.
    pub die: u16,
    /// Its PCI address.
    pub bdf: String,
    /// Its label.
    pub label: String,
    /// The number of its card.
    pub card: u16,
    /// What is known of it.
    pub state: DieState,
    /// The driver that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The slot in which it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u8>,
    /// The lease that is out on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseId>,
    /// Leases given since slotd started.
    pub visits: u64,
    /// How long they lasted.
    pub slot_time_ms: u64,
    /// What led to quarantined, wedged or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Waits in line, brings a die into the slot, gives a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// A name for [`Status`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Number, PCI address or label of a die, or `any`, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub die: Option<String>,
    /// The longest wait in line, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

impl Acquire {
    /// That die, however long the line is.
    pub fn die(die: impl Into<String>) -> Self {
        Self { die: Some(die.into()), ..Self::default() }
    }
}

/// Answer of [`Acquire`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquired {
    /// The lease.
    pub lease: LeaseId,
    /// Number of the die.
    pub die: u16,
    /// Its PCI address.
    pub bdf: String,
    /// Its label.
    pub label: String,
    /// The slot it is in.
    pub slot: u8,
    /// First address at which it answers.
    pub base: u64,
    /// How many bytes from there.
    pub size: u64,
    /// What it took.
    pub kind: Kind,
}

/// Ends a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Which; the caller's own where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseId>,
    /// Shut the slot, unless somebody waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vacate: Option<bool>,
    /// End a lease of another connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// Answer of a method that answers nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// Gives a die back to its parker; destroys its contexts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Park {
    /// Number, PCI address or label of a die.
    pub die: String,
    /// The longest wait in line, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Answer of [`Park`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// Number of the die.
    pub die: u16,
    /// Its PCI address.
    pub bdf: String,
    /// Its label.
    pub label: String,
    /// The driver it waits on now.
    pub parker: String,
}

/// The steps that an operation would take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The operation.
    pub verb: Verb,
    /// Its die.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub die: Option<String>,
}

/// Answer of [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanReply {
    /// In the order in which they would run.
    pub steps: Vec<Step>,
}

/// A step in [`PlanReply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What is done, in one word.
    pub verb: String,
    /// To which die, by PCI address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub die: Option<String>,
    /// In which slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u8>,
    /// With which driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// All of it, in words.
    pub text: String,
    /// What takes it back, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

/// Asks what fits in the machine, and what is in the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {}

/// Answer of [`Layout`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayoutReply {
    /// In words.
    pub text: String,
    /// The same as data: slots, candidates, cards and dies.
    pub plan: serde_json::Value,
}

macro_rules! methods {
    ($($call:ty => $name:literal, $reply:ty;)*) => {
        $(impl Method for $call {
            const NAME: &'static str = concat!("org.barswap.Slot.", $name);
            type Reply = $reply;
        })*
    };
}

methods! {
    Status => "Status", StatusReply;
    Acquire => "Acquire", Acquired;
    Release => "Release", Empty;
    Park => "Park", Parked;
    Plan => "Plan", PlanReply;
    Layout => "Layout", LayoutReply;
}

/// Why slotd refused a call.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(tag = "error", content = "parameters")]
#[non_exhaustive]
pub enum Refusal {
    /// No such die.
    #[serde(rename = "org.barswap.Slot.UnknownDie")]
    #[error("`{die}` is no die of this machine: `slotctl status` lists them")]
    UnknownDie {
        /// What was asked for.
        die: String,
    },
    /// The die cannot be visited or parked as it stands.
    #[serde(rename = "org.barswap.Slot.NotAvailable")]
    #[error("{die} is {state}: {reason}")]
    NotAvailable {
        /// The die's label.
        die: String,
        /// How it stands.
        state: DieState,
        /// Why that is in the way, and what to do.
        reason: String,
    },
    /// `any` was asked for and no die can be visited.
    #[serde(rename = "org.barswap.Slot.NoDie")]
    #[error("no die can be visited: `slotctl status` tells why for each")]
    NoDie,
    /// This connection waits already.
    #[serde(rename = "org.barswap.Slot.AlreadyWaiting")]
    #[error("this connection waits already")]
    AlreadyWaiting,
    /// This connection holds a lease of another slot.
    #[serde(rename = "org.barswap.Slot.HoldsLease")]
    #[error("this connection holds {lease} of another slot: release it first")]
    HoldsLease {
        /// That lease.
        lease: LeaseId,
    },
    /// Not the caller's lease, or ended.
    #[serde(rename = "org.barswap.Slot.NotHolder")]
    #[error("{}", not_holder(*.lease))]
    NotHolder {
        /// The lease that was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<LeaseId>,
    },
    /// The caller has not the right to do that.
    #[serde(rename = "org.barswap.Slot.NotAllowed")]
    #[error("not allowed: {reason}")]
    NotAllowed {
        /// Whose right it is.
        reason: String,
    },
    /// The wait limit passed.
    #[serde(rename = "org.barswap.Slot.TimedOut")]
    #[error("not yet one's turn after {waited_ms} ms in line")]
    TimedOut {
        /// How long it was.
        waited_ms: u64,
    },
    /// An operation is under way in the slot.
    #[serde(rename = "org.barswap.Slot.Busy")]
    #[error("slot {slot} is busy: {doing}")]
    Busy {
        /// The slot.
        slot: u8,
        /// The operation.
        doing: String,
    },
    /// Processes use the die.
    #[serde(rename = "org.barswap.Slot.InUse")]
    #[error("{die} is in use by {}: end it first", .holders.join(", "))]
    InUse {
        /// The die's label.
        die: String,
        /// Command and pid of each.
        holders: Vec<String>,
    },
    /// A step failed.
    #[serde(rename = "org.barswap.Slot.OperationFailed")]
    #[error("{step}: {reason} ({})", aftermath(*.undone))]
    OperationFailed {
        /// The die's label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        die: Option<String>,
        /// The step.
        step: String,
        /// Why it failed.
        reason: String,
        /// Whether what had been done before was undone.
        undone: bool,
        /// The lease that the caller still holds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<LeaseId>,
    },
    /// An operation never came back.
    #[serde(rename = "org.barswap.Slot.Wedged")]
    #[error("slot {slot} is wedged: {reason}")]
    Wedged {
        /// The slot.
        slot: u8,
        /// Which operation.
        reason: String,
    },
    /// slotd is stopping.
    #[serde(rename = "org.barswap.Slot.Stopping")]
    #[error("slotd is stopping")]
    Stopping,
}

fn not_holder(lease: Option<LeaseId>) -> String {
    match lease {
        Some(lease) => format!("{lease} is not this connection's, or it has ended"),
        None => "this connection holds no lease".to_owned(),
    }
}

fn aftermath(undone: bool) -> &'static str {
    if undone {
        "what had been done before was undone"
    } else {
        "it could not be undone, the die is quarantined"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_looks_like_a_varlink_error() {
        let text = serde_json::to_string(&Refusal::Stopping).expect("plain data");
        assert_eq!(text, r#"{"error":"org.barswap.Slot.Stopping"}"#);
        let refusal = Refusal::NotHolder { lease: Some(LeaseId(3)) };
        let text = serde_json::to_string(&refusal).expect("plain data");
        assert_eq!(text, r#"{"error":"org.barswap.Slot.NotHolder","parameters":{"lease":3}}"#);
        assert_eq!(serde_json::from_str::<Refusal>(&text).expect("its own text"), refusal);
    }

    #[test]
    fn what_is_not_asked_for_is_left_out() {
        assert_eq!(serde_json::to_string(&Acquire::default()).expect("plain data"), "{}");
        let text = serde_json::to_string(&Acquire::die("A0")).expect("plain data");
        assert_eq!(text, r#"{"die":"A0"}"#);
    }
}
