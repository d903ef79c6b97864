//! Core, executor and service put together, as a thread of this process or as all of it.

use std::{
    collections::HashMap,
    io::{self, Write},
    os::unix::net::UnixStream,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use thiserror::Error;
use vfio_park::{Bdf, Gate, Machine, MachineError, Slot, sim::Simulator};

use crate::{
    core::{Core, Manner, Settings},
    executor::Executor,
    service::{End, EventLoop, Listener, Parts},
};

/// How long an operation may take before its die and slot count as wedged.
/// Longer than the deadlines of its steps together, which name the step that hangs.
const OPERATION_LIMIT: Duration = Duration::from_mins(4);

/// What to serve.
pub struct Setup {
    /// The machine.
    pub machine: Arc<dyn Machine>,
    /// What it is called in Status.
    pub name: String,
    /// Its slots.
    pub slots: Vec<Slot>,
    /// How operations go about it.
    pub manner: Manner,
    /// Labels of dies.
    pub labels: HashMap<Bdf, String>,
    /// The same machine, where it is simulated and clients may act as its processor.
    pub simulator: Option<Simulator>,
}

impl Setup {
    /// A simulated machine with its own slots.
    pub fn simulated(machine: &Simulator, name: impl Into<String>) -> Self {
        Self {
            machine: Arc::new(machine.clone()),
            name: name.into(),
            slots: machine.slots().to_vec(),
            manner: Manner { gate: Gate::Window, keep_adapters: true },
            labels: HashMap::new(),
            simulator: Some(machine.clone()),
        }
    }
}

/// Why the daemon could not start, or go on.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The machine could not be read.
    #[error("read the machine")]
    Survey(#[from] MachineError),
    /// A call of the system failed.
    #[error("serve clients")]
    Io(#[from] io::Error),
}

/// Serves on the calling thread until `control` says stop. Reads the machine once and writes nothing
/// to it before the first client asks for something.
pub fn serve(setup: Setup, listener: Listener, control: UnixStream) -> Result<End, DaemonError> {
    let survey = setup.machine.survey()?;
    let settings = Settings {
        machine: setup.name,
        slots: setup.slots.clone(),
        manner: setup.manner,
        parker: None,
        labels: setup.labels,
        operation_limit: OPERATION_LIMIT,
    };
    let core = Core::new(&settings, &survey);
    let executor = Executor::start(setup.machine, setup.slots, setup.manner.gate)?;
    let simulator = setup.simulator;
    Ok(EventLoop::new(Parts { core, executor, listener, simulator, control })?.run()?)
}

/// A daemon on a thread of its own.
#[derive(Debug)]
pub struct Daemon {
    control: UnixStream,
    thread: Option<JoinHandle<Result<End, DaemonError>>>,
}

impl Daemon {
    /// Starts it. The socket listens already, so clients may connect at once.
    pub fn start(setup: Setup, listener: Listener) -> io::Result<Self> {
        let (control, theirs) = UnixStream::pair()?;
        let thread = thread::Builder::new().name("slotd".to_owned());
        let thread = thread.spawn(move || serve(setup, listener, theirs))?;
        Ok(Self { control, thread: Some(thread) })
    }

    /// Ends it the clean way.
    pub fn stop(mut self) -> Result<End, DaemonError> {
        self.end(b's')
    }

    /// Ends it as SIGKILL would: connections break, no further step is begun, nothing is undone.
    pub fn kill(mut self) -> Result<End, DaemonError> {
        self.end(b'k')
    }

    fn end(&mut self, how: u8) -> Result<End, DaemonError> {
        // Where the thread has ended already its result says why.
        let _ = self.control.write_all(&[how]);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(End::Clean),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.thread.is_some()
            && let Err(error) = self.end(b'k')
        {
            tracing::warn!(%error, "the daemon had failed");
        }
    }
}
