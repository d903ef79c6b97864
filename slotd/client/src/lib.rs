//! Client of slotd, the daemon that lets dies take turns in a range of addresses.
//!
//! ```no_run
//! # fn main() -> Result<(), slotd_client::Error> {
//! use slotd_client::{Client, api};
//!
//! let mut client = Client::connect()?;
//! let lease = client.acquire(&api::Acquire::die("A0"))?;
//! println!("{} answers at {:#x}", lease.bdf, lease.base);
//! lease.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`api`] | the protocol as types; slotd uses the same ones |
//! | [`sim`] | the simulated machine behind `slotd --sim` |
//!
//! A [`Lease`] is given back when it goes out of scope. A process that dies gives its lease back
//! too: the lease ends with the connection.

pub mod api;
mod client;
mod error;
mod lease;
pub mod sim;

pub use self::{
    client::{Client, DEFAULT_SOCKET, SOCKET_VARIABLE, socket_path},
    error::Error,
    lease::Lease,
};
