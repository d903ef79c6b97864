//! One connection: its socket and its frames.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::unix::net::UnixStream,
};

use rustix::{
    net::sockopt::socket_peercred,
    process::{Resource, getrlimit},
};

use super::frame::{Frames, TooMuch};
use crate::core::{Caller, ConnId, Rights};

/// Descriptors that clients leave to the daemon: an operation that gets none fails half-way.
const RESERVED: u64 = 128;

/// Why a client is lost, in words.
pub(super) type Lost = &'static str;

/// One connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) stream: UnixStream,
    pub(super) caller: Caller,
    pub(super) frames: Frames,
    /// The call under way; `true` where no answer is wanted.
    pub(super) calling: Option<bool>,
    pub(super) wants_write: bool,
}

impl Conn {
    /// Takes a client in, as whom the kernel says it is.
    pub(super) fn new(stream: UnixStream, conn: ConnId) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let peer = socket_peercred(&stream)?;
        let rights = if peer.uid.is_root() { Rights::Admin } else { Rights::Member };
        let (uid, pid) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get());
        let caller = Caller { conn, uid, pid, rights };
        let frames = Frames::default();
        Ok(Self { stream, caller, frames, calling: None, wants_write: false })
    }

    /// Reads what is there, and says whether there was anything. Descriptors that were sent along are
    /// closed by the kernel, since none is asked for.
    pub(super) fn read(&mut self) -> Result<bool, Lost> {
        let mut chunk = [0; 16 << 10];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err("it hung up"),
            Ok(count) => match self.frames.push(&chunk[..count]) {
                Ok(()) => Ok(true),
                Err(TooMuch) => Err("its call is too long"),
            },
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
                _ => Err("its connection broke"),
            },
        }
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self) -> Result<(), Lost> {
        while !self.frames.outgoing().is_empty() {
            match self.stream.write(self.frames.outgoing()) {
                Ok(count) => self.frames.written(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err("its connection broke"),
            }
        }
        Ok(())
    }
}

/// How many clients leave the daemon enough descriptors.
pub(super) fn room() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit - RESERVED.min(limit / 2)).unwrap_or(usize::MAX)
}
