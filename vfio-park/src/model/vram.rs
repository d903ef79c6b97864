//! Video memory behind a trait, and a sparse one in memory.

use std::{collections::BTreeMap, io};

/// The memory of a die. Offsets start at 0; callers stay below [`Vram::size`].
pub trait Vram: Send {
    /// Bytes it has.
    fn size(&self) -> u64;

    /// Fills `data` from `offset`. What was never written reads as zero.
    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()>;

    /// Stores `data` at `offset`.
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Forgets everything: afterwards all of it reads as zero.
    fn wipe(&mut self) -> io::Result<()>;
}

const PAGE: usize = 4096;

/// Memory that exists only where it was written.
#[derive(Clone, Debug)]
pub struct SparseVram {
    size: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

impl SparseVram {
    /// `size` bytes of nothing.
    pub fn new(size: u64) -> Self {
        Self { size, pages: BTreeMap::new() }
    }

    /// Splits `offset..offset + len` at page borders: page number, offset in it, range of the data.
    fn pieces(
        offset: u64,
        len: usize,
    ) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == len {
                return None;
            }
            let at = offset + done as u64;
            let within = usize::try_from(at % PAGE as u64).expect("below a page");
            let piece = done..len.min(done + PAGE - within);
            done = piece.end;
            Some((at / PAGE as u64, within, piece))
        })
    }

    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.size);
        end.map(drop).ok_or_else(|| {
            let text = format!("{len} bytes at {offset:#x} pass the end of {:#x} bytes", self.size);
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
    }
}

impl Vram for SparseVram {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.check(offset, data.len())?;
        for (page, within, piece) in Self::pieces(offset, data.len()) {
            let target = &mut data[piece];
            match self.pages.get(&page) {
                Some(bytes) => target.copy_from_slice(&bytes[within..within + target.len()]),
                None => target.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check(offset, data.len())?;
        for (page, within, piece) in Self::pieces(offset, data.len()) {
            let source = &data[piece];
            let bytes = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE]));
            bytes[within..within + source.len()].copy_from_slice(source);
        }
        Ok(())
    }

    fn wipe(&mut self) -> io::Result<()> {
        self.pages.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sparse_memory_behaves_like_memory(
            writes in prop::collection::vec((0usize..20_000, prop::collection::vec(any::<u8>(), 1..9000)), 1..8)
        ) {
            let mut flat = vec![0u8; 32_768];
            let mut sparse = SparseVram::new(32_768);
            for (offset, data) in &writes {
                flat[*offset..offset + data.len()].copy_from_slice(data);
                sparse.write(*offset as u64, data).expect("inside");
            }
            let mut all = vec![1u8; 32_768];
            sparse.read(0, &mut all).expect("inside");
            prop_assert_eq!(flat, all);
        }
    }

    #[test]
    fn the_end_is_the_end() {
        let mut vram = SparseVram::new(8192);
        assert!(vram.write(8190, &[1, 2]).is_ok());
        assert!(vram.write(8191, &[1, 2]).is_err());
        assert!(vram.read(u64::MAX, &mut [0; 2]).is_err());
    }
}
