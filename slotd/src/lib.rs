//! slotd.
