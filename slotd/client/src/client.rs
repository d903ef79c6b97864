//! A blocking connection to slotd.

use std::{
    env,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Error, Lease, api, api::Method, sim};

/// Where slotd listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/slotd/slotd.sock";

/// The environment variable that names another socket.
pub const SOCKET_VARIABLE: &str = "SLOTD_SOCKET";

/// No answer of slotd is longer.
const MAX_ANSWER: usize = 4 << 20;

/// The socket to use: `SLOTD_SOCKET`, or [`DEFAULT_SOCKET`].
pub fn socket_path() -> PathBuf {
    env::var_os(SOCKET_VARIABLE)
        .filter(|path| !path.is_empty())
        .map_or_else(|| PathBuf::from(DEFAULT_SOCKET), PathBuf::from)
}

/// A connection; closing it ends a lease that it holds.
#[derive(Debug)]
pub struct Client {
    /// `None` once it broke: what comes next could be the answer to an earlier call.
    stream: Option<UnixStream>,
    buffer: Vec<u8>,
}

#[derive(Serialize)]
struct Call<'a, M> {
    method: &'static str,
    parameters: &'a M,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(default)]
    error: Option<String>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
}

impl Client {
    /// Connects to the slotd of this machine, or where `SLOTD_SOCKET` says.
    pub fn connect() -> Result<Self, Error> {
        Self::connect_to(socket_path())
    }

    /// Connects to the socket at `path`.
    pub fn connect_to(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let stream = UnixStream::connect(path)
            .map_err(|source| Error::Connect { path: path.to_owned(), source })?;
        Ok(Self::from_stream(stream))
    }

    /// Talks through a connection that is there already.
    pub fn from_stream(stream: UnixStream) -> Self {
        Self { stream: Some(stream), buffer: Vec::new() }
    }

    /// Gives up on a call that takes longer than this; the connection is broken then, and with it
    /// a lease that it holds. `None`, the default, waits.
    pub fn set_deadline(&mut self, limit: Option<Duration>) -> Result<(), Error> {
        let stream = self.stream.as_ref().ok_or(Error::Closed)?;
        stream.set_read_timeout(limit).map_err(Error::Broken)
    }

    /// Acquires a die; the lease ends with the guard.
    pub fn acquire(&mut self, call: &api::Acquire) -> Result<Lease<'_>, Error> {
        let acquired = self.call(call)?;
        Ok(Lease::new(self, acquired))
    }

    /// The slots and dies as slotd knows them.
    pub fn status(&mut self) -> Result<api::StatusReply, Error> {
        self.call(&api::Status::default())
    }

    /// Gives a die back to its parker; destroys its contexts.
    pub fn park(&mut self, die: impl Into<String>) -> Result<api::Parked, Error> {
        self.call(&api::Park { die: die.into(), wait_ms: None })
    }

    /// Calls any method; waits for its answer.
    pub fn call<M: Method>(&mut self, parameters: &M) -> Result<M::Reply, Error> {
        let mut stream = self.stream.take().ok_or(Error::Closed)?;
        self.buffer.clear();
        let call = Call { method: M::NAME, parameters };
        let unfit = |source| Error::Answer { method: M::NAME, source };
        serde_json::to_writer(&mut self.buffer, &call).map_err(unfit)?;
        self.buffer.push(0);
        stream.write_all(&self.buffer).map_err(broken)?;
        read_frame(&mut stream, &mut self.buffer)?;
        self.stream = Some(stream);
        let answer: Answer<'_> = serde_json::from_slice(&self.buffer).map_err(unfit)?;
        if let Some(name) = answer.error {
            return Err(refused(&self.buffer, name, answer.parameters));
        }
        let reply = answer.parameters.map_or("{}", RawValue::get);
        serde_json::from_str(reply).map_err(unfit)
    }
}

fn broken(source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::Closed,
        _ => Error::Broken(source),
    }
}

/// One frame, without its NUL. One call is under way at a time, so nothing may follow it.
fn read_frame(stream: &mut UnixStream, buffer: &mut Vec<u8>) -> Result<(), Error> {
    buffer.clear();
    let mut chunk = [0; 8192];
    loop {
        let length = match stream.read(&mut chunk) {
            Ok(0) => return Err(Error::Closed),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken(error)),
        };
        buffer.extend_from_slice(&chunk[..length]);
        if chunk[..length].contains(&0) {
            break;
        }
        if buffer.len() > MAX_ANSWER {
            return Err(Error::Broken(io::Error::other("an answer of more than 4 MiB")));
        }
    }
    if buffer.iter().position(|byte| *byte == 0) != Some(buffer.len() - 1) {
        return Err(Error::Broken(io::Error::other("more than one answer to one call")));
    }
    buffer.pop();
    Ok(())
}

fn refused(frame: &[u8], name: String, parameters: Option<&RawValue>) -> Error {
    if let Ok(refusal) = serde_json::from_slice::<api::Refusal>(frame) {
        return Error::Refused(refusal);
    }
    if let Ok(refusal) = serde_json::from_slice::<sim::Refusal>(frame) {
        return Error::Simulator(refusal);
    }
    let parameters = parameters.map_or_else(String::new, |text| text.get().to_owned());
    Error::Service { name, parameters }
}
