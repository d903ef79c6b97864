//! The calls into the kernel: the only unsafe code of the window device.
#![allow(unsafe_code, reason = "ioctl takes a pointer, and gives a descriptor as a number")]

use std::{
    os::fd::{AsFd, FromRawFd, OwnedFd},
    ptr,
};

use rustix::{
    io::{Errno, Result},
    ioctl::{Ioctl, IoctlOutput, NoArg, Opcode, ioctl},
};

use super::uapi::{self, Request};

/// A request whose structure the module reads and writes.
struct Call<'a, R>(&'a mut R);

// SAFETY: `R` is one of the structures of `uapi`, which are as large as the header has them (a test
// compares), and tell their size to the module, which touches no byte past it.
unsafe impl<R: Request> Ioctl for Call<'_, R> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        R::OPCODE
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut std::ffi::c_void) -> Result<()> {
        Ok(())
    }
}

/// Sends a request, and leaves the answer in it.
pub(super) fn send<R: Request>(device: impl AsFd, request: &mut R) -> Result<()> {
    *request.size() = u32::try_from(size_of::<R>()).map_err(|_| Errno::INVAL)?;
    // SAFETY: see `Call`; the request outlives the call.
    unsafe { ioctl(device, Call(request)) }
}

/// Asks for a descriptor of a die's BAR1.
pub(super) fn map(device: impl AsFd, die: u32) -> Result<OwnedFd> {
    let mut request = uapi::Map { die, fd: -1, ..uapi::Map::default() };
    send(device, &mut request)?;
    if request.fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the module has just made this descriptor for us, nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(request.fd) })
}

/// Ends every mapping of a descriptor from [`map`].
pub(super) fn revoke(mapping: impl AsFd) -> Result<()> {
    // SAFETY: the request takes no argument; on any other descriptor it is ENOTTY.
    unsafe { ioctl(mapping, NoArg::<{ uapi::MAP_REVOKE }>::new()) }
}
