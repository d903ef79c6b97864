//! Video memory that QEMU can map into the guest.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt,
    },
};

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use vfio_park::model::Vram;

/// Video memory in a memfd: sparse, and shared with who maps it.
#[derive(Debug)]
pub struct MemfdVram {
    file: File,
    size: u64,
}

impl MemfdVram {
    /// `size` bytes that read as zero.
    pub fn new(name: &str, size: u64) -> io::Result<Self> {
        let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
        file.set_len(size)?;
        Ok(Self { file, size })
    }

    /// The same memory once more.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, size: self.size })
    }

    /// The memory, to be mapped.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Vram for MemfdVram {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, offset)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.file.write_all_at(data, offset)
    }

    fn wipe(&mut self) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, hole, 0, self.size)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_memory_with_two_ends() {
        let mut vram = MemfdVram::new("test", 16 << 30).expect("memfd");
        vram.write((16 << 30) - 4, b"last").expect("inside");
        assert!(vram.write((16 << 30) - 3, b"past").is_err());
        let mut data = [0; 4];
        vram.read((16 << 30) - 4, &mut data).expect("inside");
        assert_eq!(&data, b"last");
        assert!(vram.read((16 << 30) - 3, &mut data).is_err());
        vram.wipe().expect("wiped");
        vram.read((16 << 30) - 4, &mut data).expect("inside");
        assert_eq!(data, [0; 4]);
    }
}
