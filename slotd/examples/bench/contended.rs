//! One slot among many clients.

use std::{
    path::Path,
    sync::{Arc, Barrier},
    thread,
    time::Instant,
};

use anyhow::{Context, Result};
use slotd_client::{Client, api};

/// Visits of all clients together.
const VISITS: usize = 3200;

/// Hand-offs a second of the die in the slot among `clients` that hold it for no time.
pub(crate) fn handoffs(socket: &Path, clients: usize) -> Result<f64> {
    let barrier = Arc::new(Barrier::new(clients + 1));
    let visit = |barrier: Arc<Barrier>| -> Result<()> {
        let mut client = Client::connect_to(socket)?;
        barrier.wait();
        for _ in 0..VISITS / clients {
            client.call(&api::Acquire::die("0"))?;
            client.call(&api::Release::default())?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let start = |_| {
            let barrier = Arc::clone(&barrier);
            scope.spawn(move || visit(barrier))
        };
        let threads: Vec<_> = (0..clients).map(start).collect();
        barrier.wait();
        let begin = Instant::now();
        for thread in threads {
            match thread.join() {
                Ok(result) => result.context("a client")?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        let visits = u32::try_from(VISITS / clients * clients)?;
        Ok(f64::from(visits) / seconds)
    })
}
