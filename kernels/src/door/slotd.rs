//! The way through slotd: a lease a turn, on a connection of its own.

use std::{
    io,
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use slotd_client::{
    Client, Error,
    api::{Acquire, Acquired, LeaseId, Release, StatusReply},
};
use vfio_park::Bdf;

use super::{Door, Place};
use crate::{
    failure::{Failure, Kind},
    stop::{Stop, ready},
};

/// How long a quiet slotd is waited for between two looks at the clock.
const LONG: Duration = Duration::from_hours(1);
/// How often it is tried to come back to a die where slotd is away or refuses.
const AGAIN: Duration = Duration::from_secs(1);

/// A die behind slotd.
pub(crate) struct Slotd {
    socket: PathBuf,
    /// Number, PCI address or label, as slotd understands it.
    die: String,
    connection: Option<Connection>,
    lease: Option<LeaseId>,
}

/// A client, and its socket for hanging up while a call waits.
struct Connection {
    client: Client,
    socket: UnixStream,
}

impl Connection {
    fn new(path: &Path) -> Result<Self, Error> {
        let refuse = |source: io::Error| Error::Connect { path: path.to_owned(), source };
        let socket = UnixStream::connect(path).map_err(refuse)?;
        let client = Client::from_stream(socket.try_clone().map_err(refuse)?);
        Ok(Self { client, socket })
    }
}

impl Slotd {
    /// The die of that name behind the slotd that listens at `socket`.
    pub(crate) fn new(socket: &Path, die: &str) -> Self {
        Self { socket: socket.to_owned(), die: die.to_owned(), connection: None, lease: None }
    }

    /// Waits in line, and hangs up when an end was asked for more than `count` times.
    fn acquire_unless(&mut self, stop: &Stop, count: usize) -> Result<Acquired, Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(Connection::new(&self.socket)?),
        };
        let ask = Acquire { client: Some("die-check".into()), ..Acquire::die(&self.die) };
        let (done, tell) = UnixStream::pair().map_err(Error::Broken)?;
        let Connection { client, socket } = connection;
        let acquired = thread::scope(|scope| {
            let call = scope.spawn(move || {
                let answer = client.call(&ask);
                drop(tell);
                answer
            });
            while !call.is_finished() {
                if stop.count() > count {
                    // slotd takes the caller out of the line, or the lease back.
                    let _ = socket.shutdown(Shutdown::Both);
                    break;
                }
                // Readable when the call is over, since the other end is closed then.
                let _ = ready(&[done.as_fd(), stop.as_fd()], LONG);
            }
            call.join().unwrap_or(Err(Error::Closed))
        });
        match &acquired {
            Ok(acquired) => self.lease = Some(acquired.lease),
            Err(Error::Refused(_)) => {}
            // Whatever comes on it next could be the answer to this call.
            Err(_) => self.connection = None,
        }
        acquired
    }

    fn status(&mut self) -> Result<StatusReply, Failure> {
        let connection = self.connection.as_mut().ok_or_else(lost)?;
        connection.client.status().map_err(|error| {
            self.connection = None;
            refused(&error)
        })
    }

    fn end(&mut self, vacate: Option<bool>) -> Result<(), Failure> {
        let lease = self.lease.take();
        let Some(connection) = self.connection.as_mut() else { return Ok(()) };
        let release = Release { lease, vacate, force: None };
        connection.client.call(&release).map(drop).map_err(|error| {
            // With its connection a lease ends too.
            self.connection = None;
            refused(&error)
        })
    }
}

impl Door for Slotd {
    fn acquire(&mut self, stop: &Stop) -> Result<Place, Failure> {
        let acquired = self.acquire_unless(stop, 0).map_err(|error| {
            if stop.requested() {
                return Failure::new(Kind::Stopped, "ended while waiting in line");
            }
            refused(&error)
        })?;
        let status = self.status()?;
        let die = status.dies.iter().find(|die| die.die == acquired.die);
        let bdf = acquired.bdf.parse().map_err(Failure::internal("reading slotd's answer"))?;
        Ok(Place {
            die: Some(acquired.die),
            bdf,
            label: Some(acquired.label),
            card: die.map(|die| die.card),
        })
    }

    fn leave(&mut self) -> Result<(), Failure> {
        self.end(Some(true))
    }

    fn release(&mut self) -> Result<(), Failure> {
        self.end(None)
    }

    fn come_back(&mut self, stop: &Stop) -> Result<(), Failure> {
        let mut told = String::new();
        loop {
            let error = match self.acquire_unless(stop, 1) {
                Ok(_) => return Ok(()),
                Err(error) => refused(&error),
            };
            if stop.count() > 1 {
                let text = format!("{}: not waited for, as was insisted on", self.die);
                return Err(Failure::new(Kind::Stopped, text));
            }
            if told != error.text {
                told = error.text;
                eprintln!(
                    "die-check: {} is out of the slot with a context on it, and cannot come back: \
                     {told}. Trying again; a second Ctrl-C gives it up.",
                    self.die
                );
            }
            // slotd has no way to tell those who are not connected that it is there again.
            stop.wait_beyond(1, AGAIN);
        }
    }

    fn holds(&mut self) -> bool {
        let Some(lease) = self.lease else { return false };
        let held = self
            .status()
            .is_ok_and(|status| status.slots.iter().any(|slot| slot.lease == Some(lease)));
        if !held {
            self.lease = None;
        }
        held
    }

    fn others_wait(&mut self) -> Result<bool, Failure> {
        let lease = self.lease;
        let status = self.status()?;
        let slot = status.slots.iter().find(|slot| slot.lease.is_some() && slot.lease == lease);
        slot.map(|slot| slot.waiting > 0).ok_or_else(lost)
    }

    fn has_slot(&self) -> bool {
        true
    }
}

/// The PCI addresses of all dies that slotd knows.
pub(crate) fn all_dies(socket: &Path) -> Result<Vec<Bdf>, Failure> {
    let mut connection = Connection::new(socket).map_err(|error| refused(&error))?;
    let status = connection.client.status().map_err(|error| refused(&error))?;
    let bdfs = status.dies.iter().map(|die| die.bdf.parse());
    bdfs.collect::<Result<_, _>>().map_err(Failure::internal("reading slotd's answer"))
}

fn lost() -> Failure {
    Failure::new(Kind::NoLease, "slotd has ended the lease")
}

/// slotd's refusal, with what led to it.
fn refused(error: &Error) -> Failure {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Failure::new(Kind::NoLease, text)
}
