//! An initramfs image is several archives after one another, each packed or not.

use std::io::{self, Read};

use thiserror::Error;

use super::archive::{ArchiveEntry, Step, starts, step};

/// More than this unpacked is no initramfs.
const MOST: u64 = 4 << 30;

/// An image that cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// Neither an archive nor anything that the kernel unpacks.
    #[error("unknown packing at byte {0}")]
    UnknownPacking(usize),
    /// Damaged archive.
    #[error("damaged archive at byte {0}")]
    Broken(usize),
    /// Damaged packing.
    #[error("could not unpack it")]
    Packing(#[source] io::Error),
}

/// Hands every member of every archive in `image` to `each`.
pub(super) fn walk(
    image: &[u8],
    each: &mut dyn FnMut(ArchiveEntry<'_>),
) -> Result<(), UnpackError> {
    let mut at = 0;
    loop {
        at += image[at..].iter().take_while(|byte| **byte == 0).count();
        let rest = &image[at..];
        if rest.is_empty() {
            return Ok(());
        }
        if starts(rest) {
            at += members(rest, each).map_err(|inner| UnpackError::Broken(at + inner))?;
            continue;
        }
        let (unpacked, used) = unpack(rest, at)?;
        let mut inner = 0;
        while starts(&unpacked[inner..]) {
            inner += members(&unpacked[inner..], each).map_err(UnpackError::Broken)?;
            inner += unpacked[inner..].iter().take_while(|byte| **byte == 0).count();
        }
        if inner == 0 {
            return Err(UnpackError::UnknownPacking(at));
        }
        at += used;
    }
}

/// Walks one archive; its length, or where it is broken.
fn members(bytes: &[u8], each: &mut dyn FnMut(ArchiveEntry<'_>)) -> Result<usize, usize> {
    let mut at = 0;
    loop {
        match step(&bytes[at..]) {
            Step::Member(entry, next) => {
                each(entry);
                at += next;
            }
            Step::End(next) => return Ok(at + next),
            Step::Broken => return Err(at),
        }
    }
}

/// Unpacks what starts here: the bytes, and how many packed ones they took.
fn unpack(packed: &[u8], at: usize) -> Result<(Vec<u8>, usize), UnpackError> {
    let mut input = packed;
    let mut out = Vec::new();
    let read = |reader: &mut dyn Read, out: &mut Vec<u8>| reader.take(MOST).read_to_end(out);
    let done = match packed {
        [0x1f, 0x8b, ..] => read(&mut flate2::bufread::GzDecoder::new(&mut input), &mut out),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ruzstd::decoding::StreamingDecoder::new(&mut input)
            .map_err(io::Error::other)
            .and_then(|mut frame| read(&mut frame, &mut out)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            lzma_rs::xz_decompress(&mut input, &mut out).map_err(io::Error::other).map(|()| 0)
        }
        [0x5d, 0, 0, ..] => {
            lzma_rs::lzma_decompress(&mut input, &mut out).map_err(io::Error::other).map(|()| 0)
        }
        [0x02, 0x21, 0x4c, 0x18, ..] | [0x04, 0x22, 0x4d, 0x18, ..] => {
            read(&mut lz4_flex::frame::FrameDecoder::new(&mut input), &mut out)
        }
        _ => return Err(UnpackError::UnknownPacking(at)),
    };
    done.map_err(UnpackError::Packing)?;
    Ok((out, packed.len() - input.len()))
}
