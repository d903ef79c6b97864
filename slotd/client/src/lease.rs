//! A lease that ends with its guard.

use std::ops::Deref;

use crate::{Client, Error, api};

/// The right to one visit. Dropping it releases the lease.
///
/// Be done with the slot before: unmap it, or have promised to leave it alone.
#[derive(Debug)]
#[must_use = "dropping a lease releases it"]
pub struct Lease<'c> {
    client: &'c mut Client,
    acquired: api::Acquired,
    over: bool,
}

impl<'c> Lease<'c> {
    pub(crate) fn new(client: &'c mut Client, acquired: api::Acquired) -> Self {
        Self { client, acquired, over: false }
    }

    /// Releases; the die stays where it is until somebody needs the slot.
    pub fn release(self) -> Result<(), Error> {
        self.finish(None)
    }

    /// Releases and has the slot shut, unless somebody waits for it.
    pub fn vacate(self) -> Result<(), Error> {
        self.finish(Some(true))
    }

    fn finish(mut self, vacate: Option<bool>) -> Result<(), Error> {
        self.over = true;
        let lease = Some(self.acquired.lease);
        self.client.call(&api::Release { lease, vacate, force: None }).map(drop)
    }

    /// Goes on to another die, in one round trip and without waiting in line. Where that fails
    /// the error says whether the old lease is still held.
    pub fn swap(&mut self, die: impl Into<String>) -> Result<(), Error> {
        match self.client.call(&api::Acquire::die(die)) {
            Ok(acquired) => self.acquired = acquired,
            Err(error) => {
                if let Some(api::Refusal::OperationFailed { lease, .. }) = error.refusal() {
                    self.over = lease.is_none();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// The connection that holds the lease, for other calls meanwhile.
    pub fn client(&mut self) -> &mut Client {
        self.client
    }
}

impl Deref for Lease<'_> {
    type Target = api::Acquired;

    fn deref(&self) -> &api::Acquired {
        &self.acquired
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if !self.over {
            let lease = Some(self.acquired.lease);
            // Where this fails the connection is broken, and the lease ended with it.
            let _ = self.client.call(&api::Release { lease, ..api::Release::default() });
        }
    }
}
