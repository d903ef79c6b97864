//! A die in use: its lease and the process that has a context on it, ended in order whatever happens.
//!
//! The order is: back into the slot, synchronise, free, module, stream, context, the process gone, lease
//! released. It is kept on the normal way, on an error's, a signal's and a panic's.

use std::time::{Duration, Instant};

use vfio_park::Bdf;

use crate::{
    crew::Worker,
    door::{Door, Place},
    failure::{Failure, Kind},
    options::Options,
    stop::Stop,
    visible::Visible,
    wire::{self, Request},
};

/// A die that is leased, with a worker on it.
pub(crate) struct DieGuard<'a> {
    worker: Option<Worker>,
    door: Box<dyn Door + 'a>,
    in_slot: bool,
    /// Where the die is.
    pub(crate) place: Place,
    /// What the driver says about it.
    pub(crate) gpu: wire::Opened,
    options: &'a Options,
    stop: &'a Stop,
}

impl<'a> DieGuard<'a> {
    /// Acquires the die behind `door`, and opens a context on it and on no other.
    pub(crate) fn take(
        mut door: Box<dyn Door + 'a>,
        options: &'a Options,
        stop: &'a Stop,
    ) -> Result<Self, Failure> {
        let place = door.acquire(stop)?;
        let open = |bdf: Bdf| {
            let visible = Visible::only(bdf, &options.root)
                .map_err(Failure::internal("reading which GPUs the driver has"))?;
            let mut worker = Worker::start(Some(&visible))?;
            let open = wire::Open {
                pci: bdf,
                library: options.libcuda.clone(),
                launch_limit_ms: options.launch_limit_ms(),
            };
            match worker.ask(open, options.launch_limit, stop) {
                Ok(gpu) => Ok((worker, gpu)),
                Err(failure) => {
                    worker.close(options.exit_fast(), options.patience(), stop)?;
                    Err(failure)
                }
            }
        };
        match open(options.compute_on.unwrap_or(place.bdf)) {
            Ok((worker, gpu)) => {
                Ok(Self { worker: Some(worker), door, in_slot: true, place, gpu, options, stop })
            }
            // The worker is gone by now.
            Err(failure) => {
                door.release()?;
                Err(failure)
            }
        }
    }

    /// Asks the worker; the request should take about `expected`. The die has to be in the slot.
    pub(crate) fn ask<R: Request>(
        &mut self,
        request: R,
        expected: Duration,
    ) -> Result<R::Answer, Failure> {
        let limit = expected + self.options.launch_limit;
        match &mut self.worker {
            Some(worker) if self.in_slot => worker.ask(request, limit, self.stop),
            _ => Err(Failure::new(Kind::Internal, "asked of a die that is out of the slot")),
        }
    }

    /// Lets the die out of the slot. Its context and whatever runs on it stay.
    pub(crate) fn leave_slot(&mut self) -> Result<(), Failure> {
        self.in_slot = false;
        self.door.leave()
    }

    /// Brings the die back into the slot; says how long that took.
    pub(crate) fn return_to_slot(&mut self) -> Result<Duration, Failure> {
        let before = Instant::now();
        self.door.come_back(self.stop)?;
        self.in_slot = true;
        Ok(before.elapsed())
    }

    /// Lets others in if they wait, and comes back.
    pub(crate) fn give_way(&mut self) -> Result<bool, Failure> {
        if !self.door.others_wait()? {
            return Ok(false);
        }
        self.in_slot = false;
        self.door.release()?;
        self.return_to_slot()?;
        Ok(true)
    }

    /// Whether the die takes turns at all.
    pub(crate) fn has_slot(&self) -> bool {
        self.door.has_slot()
    }

    /// Ends everything in order; says how long the taking down took.
    pub(crate) fn close(mut self) -> Result<Duration, Failure> {
        self.end()
    }

    fn end(&mut self) -> Result<Duration, Failure> {
        let Some(worker) = self.worker.take() else { return Ok(Duration::ZERO) };
        // A turn that was lost meanwhile may be somebody else's by now.
        if !self.in_slot || !self.door.holds() {
            self.in_slot = false;
            self.door.come_back(self.stop)?;
            self.in_slot = true;
        }
        let before = Instant::now();
        let closed = worker.close(self.options.exit_fast(), self.options.patience(), self.stop);
        // Only now is nothing left on the die.
        let took = before.elapsed();
        self.in_slot = false;
        self.door.release()?;
        closed.map(|()| took)
    }
}

impl Drop for DieGuard<'_> {
    fn drop(&mut self) {
        // On a lost context nothing can be taken down; that it is lost has been said.
        if let Err(failure) = self.end()
            && failure.kind != Kind::ContextLost
        {
            eprintln!("die-check: {}: while giving the die back: {failure}", self.place.bdf);
        }
    }
}
