//! A mapping from `/dev/slotwin` whose accesses may fault.
#![allow(unsafe_code, reason = "a mapping that faults must not be behind a Rust reference")]

use std::{
    ffi::c_void,
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

use anyhow::{Context, Result, bail};
use rustix::{
    mm::{MapFlags, ProtFlags, mmap, munmap},
    pipe::pipe,
};

use crate::Mapping;

/// BAR1 of a die, mapped.
///
/// Accesses go through a pipe: the kernel copies, so that a fault comes back as EFAULT, and the
/// same pointer can be tried again once the die is back.
#[derive(Debug)]
pub(super) struct GuestMapping {
    start: *mut c_void,
    length: usize,
    reader: File,
    writer: File,
}

impl GuestMapping {
    pub(super) fn new(fd: &OwnedFd, length: u64) -> Result<Self> {
        let length = usize::try_from(length)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { mmap(ptr::null_mut(), length, protection, MapFlags::SHARED, fd, 0) };
        let start = start.context("map a die through /dev/slotwin")?;
        let (reader, writer) = pipe().context("make a pipe")?;
        Ok(Self { start, length, reader: reader.into(), writer: writer.into() })
    }

    fn at(&self, offset: u64) -> Result<*mut c_void> {
        let offset = usize::try_from(offset)?;
        if offset.checked_add(4).is_none_or(|end| end > self.length) {
            bail!("{offset:#x} is outside the mapping");
        }
        Ok(self.start.cast::<u8>().wrapping_add(offset).cast())
    }

    /// Touches the mapping directly. Ends the process with SIGBUS where the die is away.
    pub(super) fn touch(&self, offset: u64) -> Result<u32> {
        let word = self.at(offset)?.cast::<u32>();
        // SAFETY: inside the mapping, aligned as the callers' offsets are; a fault is a signal,
        // which is what the caller wants to see.
        Ok(unsafe { word.read_volatile() })
    }
}

/// `Some` where the copy of four bytes went through, `None` where it faulted.
fn copied(result: isize) -> Result<Option<()>> {
    match result {
        4 => Ok(Some(())),
        -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => Ok(None),
        _ => bail!("copy from or to the mapping: {result}, {}", io::Error::last_os_error()),
    }
}

impl Mapping for GuestMapping {
    fn read(&self, offset: u64) -> Result<Option<u32>> {
        let from = self.at(offset)?;
        // SAFETY: the kernel checks the source address, which may fault.
        let result = unsafe { libc::write(self.writer.as_raw_fd(), from, 4) };
        if copied(result)?.is_none() {
            return Ok(None);
        }
        let mut word = [0; 4];
        (&self.reader).read_exact(&mut word).context("read the pipe")?;
        Ok(Some(u32::from_ne_bytes(word)))
    }

    fn write(&self, offset: u64, value: u32) -> Result<Option<()>> {
        let to = self.at(offset)?;
        (&self.writer).write_all(&value.to_ne_bytes()).context("write the pipe")?;
        // SAFETY: the kernel checks the target address, which may fault.
        let result = unsafe { libc::read(self.reader.as_raw_fd(), to, 4) };
        let done = copied(result)?;
        if done.is_none() {
            (&self.reader).read_exact(&mut [0; 4]).context("empty the pipe")?;
        }
        Ok(done)
    }
}

impl Drop for GuestMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new`, and all pointers into it are short-lived.
        if let Err(error) = unsafe { munmap(self.start, self.length) } {
            eprintln!("unmap a die: {error}");
        }
    }
}
