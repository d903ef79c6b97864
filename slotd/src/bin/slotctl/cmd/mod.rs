//! The verbs.

pub(super) mod acquire;
pub(super) mod check;
pub(super) mod park;
pub(super) mod plan;
pub(super) mod release;
pub(super) mod status;
