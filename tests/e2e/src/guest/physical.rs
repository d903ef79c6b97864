//! Physical memory through `/dev/mem`, as the processor sees it.
#![allow(unsafe_code, reason = "device memory can only be reached through a raw mapping")]

use std::{fs::OpenOptions, os::fd::OwnedFd, ptr};

use anyhow::{Context, Result, ensure};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const PAGE: u64 = 4096;

/// `/dev/mem`, opened once.
#[derive(Debug)]
pub(super) struct Physical(OwnedFd);

impl Physical {
    pub(super) fn open() -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/mem");
        Ok(Self(file.context("open /dev/mem")?.into()))
    }

    pub(super) fn read(&self, address: u64) -> Result<u32> {
        // SAFETY: the pointer is to a mapped, aligned word of device memory.
        self.with_word(address, |word| unsafe { word.read_volatile() })
    }

    pub(super) fn write(&self, address: u64, value: u32) -> Result<()> {
        // SAFETY: the pointer is to a mapped, aligned word of device memory.
        self.with_word(address, |word| unsafe { word.write_volatile(value) })
    }

    /// Maps the page of `address` for the time of one access: nothing stays mapped while windows
    /// move.
    fn with_word<T>(&self, address: u64, access: impl FnOnce(*mut u32) -> T) -> Result<T> {
        ensure!(address.is_multiple_of(4), "{address:#x} is no address of a 32-bit word");
        let (page, within) = (address & !(PAGE - 1), usize::try_from(address % PAGE)?);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let length = usize::try_from(PAGE)?;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let mapped =
            unsafe { mmap(ptr::null_mut(), length, protection, MapFlags::SHARED, &self.0, page) };
        let mapped = mapped.with_context(|| format!("map physical address {page:#x}"))?;
        // Pages are aligned, and so is the offset.
        let result = access(mapped.cast::<u32>().wrapping_add(within / 4));
        // SAFETY: the mapping was made above and no pointer into it is left.
        unsafe { munmap(mapped, length) }.context("unmap physical address")?;
        Ok(result)
    }
}
