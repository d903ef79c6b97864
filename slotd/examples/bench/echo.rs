//! A bare echo server on one epoll thread: what a round trip costs at the least.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    thread::{self, JoinHandle},
};

use anyhow::{Context, Result};
use rustix::event::epoll;

/// As long as the calls and answers of an acquire and a release are on average.
const MESSAGE: usize = 100;

/// The server, with its one client.
pub(crate) struct Server(JoinHandle<Result<()>>);

impl Server {
    pub(crate) fn start(path: &Path) -> Result<Self> {
        let listener = UnixListener::bind(path).context("listen for the echo's client")?;
        Ok(Self(thread::spawn(move || serve(listener.accept()?.0))))
    }

    /// Ends with its client.
    pub(crate) fn stop(self) -> Result<()> {
        match self.0.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn serve(mut client: UnixStream) -> Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &client, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    let mut ready = Vec::with_capacity(4);
    let mut message = [0; 4096];
    loop {
        ready.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut ready), None)?;
        match client.read(&mut message)? {
            0 => return Ok(()),
            count => client.write_all(&message[..count])?,
        }
    }
}

/// The client.
pub(crate) struct Client(UnixStream);

impl Client {
    pub(crate) fn connect(path: &Path) -> Result<Self> {
        Ok(Self(UnixStream::connect(path).context("connect to the echo")?))
    }

    pub(crate) fn round_trip(&mut self) -> Result<()> {
        let mut message = [b'x'; MESSAGE];
        self.0.write_all(&message)?;
        Ok(self.0.read_exact(&mut message)?)
    }
}
