//! Config writes as a judge reads them, whether they come from the simulator or from QEMU's trace.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Bdf;

/// One write to config space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigWrite {
    /// When, since power-on.
    pub at: Duration,
    /// To which function.
    pub bdf: Bdf,
    /// First byte written.
    pub offset: u16,
    /// Bytes written: 1, 2 or 4.
    pub size: u8,
    /// What was written, before write masks.
    pub value: u32,
}
