//! slotd lets dies take turns in a range of addresses.
//!
//! | module | what it is |
//! |---|---|
//! | [`core`] | leases, queues and operations, without IO |
//! | [`executor`] | carries operations out, on a thread of its own |
//! | [`service`] | the Varlink service: one epoll thread for all clients |
//! | [`daemon`] | the three put together |

pub mod core;
pub mod daemon;
pub mod executor;
pub mod service;
