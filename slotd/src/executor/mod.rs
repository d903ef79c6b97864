//! Carries out operations, one after another, on a thread of its own: queries are answered
//! meanwhile.

mod run;
#[cfg(test)]
mod tests;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

use rustix::event::{EventfdFlags, eventfd};
use vfio_park::{
    Gate, Machine, Slot,
    planner::{self, Request},
};

use self::run::Worker;
use crate::core::{Event, OperationId, Plan};

/// What the worker is told.
enum Job {
    Run(OperationId, Plan),
    Look,
    Layout(u64),
}

/// What the worker has done.
#[derive(Debug)]
pub enum Finished {
    /// Something for the core.
    Event(Event),
    /// The plan of the machine, for whoever asked with this number.
    Layout(u64, Result<planner::Plan, String>),
}

/// The worker, seen from the daemon's thread.
#[derive(Debug)]
pub struct Executor {
    jobs: Option<Sender<Job>>,
    finished: Receiver<Finished>,
    wake: Arc<OwnedFd>,
    abandoned: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Executor {
    /// A worker on `machine`. It touches nothing until it is told to.
    pub fn start(machine: Arc<dyn Machine>, slots: Vec<Slot>, gate: Gate) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let abandoned = Arc::new(AtomicBool::new(false));
        let (jobs, todo) = channel();
        let (done, finished) = channel();
        let worker = Worker::new(machine, Arc::clone(&abandoned));
        let (bell, request) = (Arc::clone(&wake), Request { slots, gate });
        let thread = thread::Builder::new().name("executor".to_owned());
        let thread = thread.spawn(move || work(worker, &request, &todo, &done, &bell))?;
        Ok(Self { jobs: Some(jobs), finished, wake, abandoned, thread: Some(thread) })
    }

    /// Runs an operation after those before it.
    pub fn run(&self, id: OperationId, plan: Plan) {
        self.tell(Job::Run(id, plan));
    }

    /// Reads the machine.
    pub fn look(&self) {
        self.tell(Job::Look);
    }

    /// Reads the machine and plans it.
    pub fn layout(&self, number: u64) {
        self.tell(Job::Layout(number));
    }

    fn tell(&self, job: Job) {
        // The worker ends only after this sender.
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        debug_assert!(sent, "the worker is gone");
    }

    /// What has been finished since the last call.
    pub fn finished(&self) -> Vec<Finished> {
        // Emptied before the queue is, so that nothing is left behind without a wake-up.
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        self.finished.try_iter().collect()
    }

    /// Readable when something has been finished.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// As if the process had been killed: no further step is begun, and nothing is undone.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }
}

impl Drop for Executor {
    /// Waits for the operation under way. A step that never comes back keeps the thread for ever:
    /// whoever must not wait for that leaves it behind with [`std::mem::forget`].
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(
    mut worker: Worker,
    request: &Request,
    todo: &Receiver<Job>,
    done: &Sender<Finished>,
    bell: &OwnedFd,
) {
    for job in todo {
        let finished = match job {
            Job::Run(id, plan) => match worker.run(&plan) {
                Some(outcome) => Finished::Event(Event::Done(id, outcome)),
                None => return,
            },
            Job::Look => Finished::Event(Event::Looked(worker.survey())),
            Job::Layout(number) => {
                let plan = worker.survey().map(|survey| planner::plan(&survey, request));
                Finished::Layout(number, plan)
            }
        };
        if done.send(finished).is_err() {
            return;
        }
        let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
    }
}
