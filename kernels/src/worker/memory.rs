//! memtest: patterns over the die's memory, chunk by chunk.
#![allow(unsafe_code, reason = "kernel launches, and a struct that the kernels write")]

use std::{mem::offset_of, time::Duration};

use cust::{
    launch,
    memory::{CopyDestination, DeviceBuffer, DeviceCopy},
    module::Module,
};

use super::device::{BLOCK, Gpu};
use crate::{
    driver::refused,
    failure::{Failure, Kind},
    report::float,
    wire::{self, Found, Sample, Step},
};

/// Bytes that a block goes over (TILE in memtest.cu), and that a chunk is a multiple of.
const TILE: u64 = 16 * 1024;
/// Memory left alone when all is asked for: the driver needs some to launch and to copy.
const LEFT: u64 = 96 << 20;
const SAMPLES: usize = 16;

/// As in memtest.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawSample {
    word: u64,
    want: u32,
    got: u32,
}

/// As in memtest.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawFindings {
    words: u64,
    first: u64,
    bits: u64,
    mask: u32,
    taken: u32,
    sample: [RawSample; SAMPLES],
}

const _: () = assert!(size_of::<RawFindings>() == 288 && offset_of!(RawFindings, sample) == 32);

// SAFETY: plain words without a pointer or a bit pattern that is not allowed.
unsafe impl DeviceCopy for RawFindings {}

const NOTHING: RawFindings = RawFindings {
    words: 0,
    first: u64::MAX,
    bits: 0,
    mask: 0,
    taken: 0,
    sample: [RawSample { word: 0, want: 0, got: 0 }; SAMPLES],
};

/// A part of the memory under test.
pub(super) struct Chunk {
    pub(super) memory: DeviceBuffer<u32>,
    /// Its place in the whole, in bytes.
    start: u64,
    pub(super) bytes: u64,
}

impl Chunk {
    fn address(&self) -> u64 {
        self.memory.as_device_ptr().as_raw()
    }
}

/// The memory under test, its kernels and what they found.
pub(crate) struct Memory {
    // Dropped in this order.
    pub(super) chunks: Vec<Chunk>,
    findings: DeviceBuffer<RawFindings>,
    module: Module,
    /// Bytes a millisecond that fill, check and invert made last.
    pace: [Option<f64>; 3],
}

impl Memory {
    /// Takes `bytes`, or nearly all that is free, in chunks.
    pub(crate) fn new(gpu: &Gpu, ask: &wire::Reserve) -> Result<Self, Failure> {
        let module = gpu.module(include_str!("../../ptx/memtest.ptx"))?;
        let findings = DeviceBuffer::from_slice(&[NOTHING]).map_err(refused("taking memory"))?;
        let free = gpu.memory()?.0 as u64;
        let wanted = ask.bytes.unwrap_or_else(|| free.saturating_sub(LEFT));
        let chunk = (ask.chunk / TILE).max(1) * TILE;
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut start = 0;
        while wanted - start >= TILE {
            let bytes = chunk.min((wanted - start) / TILE * TILE);
            // SAFETY: every test fills before it reads.
            match unsafe { DeviceBuffer::uninitialized(size(bytes)? / 4) } {
                Ok(memory) => chunks.push(Chunk { memory, start, bytes }),
                // Free memory can be in pieces: what has been got is tested.
                Err(_) if ask.bytes.is_none() && !chunks.is_empty() => break,
                Err(error) => return Err(refused("taking the memory to be tested")(error)),
            }
            start += bytes;
        }
        if chunks.is_empty() {
            let text =
                format!("there are only {free} bytes of memory free on the die to be tested");
            return Err(Failure::new(Kind::Driver, text));
        }
        Ok(Self { chunks, findings, module, pace: [None; 3] })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }

    /// Takes `step` from chunk `from` on, for about `ms`.
    pub(crate) fn sweep(&mut self, gpu: &Gpu, ask: &wire::Sweep) -> Result<wire::Swept, Failure> {
        let which = match ask.step {
            Step::Fill(_) => 0,
            Step::Check(_) => 1,
            Step::Invert(_) => 2,
        };
        let (mut next, mut bytes, mut took) = (size(ask.from)?, 0, 0.0);
        let asked = Duration::from_millis(ask.ms).as_secs_f64() * 1e3;
        while next < self.chunks.len() && (bytes == 0 || took < asked) {
            let start = gpu.mark()?;
            // One chunk where the pace is not known yet, else as many as the time is for.
            let batch = self.pace[which].map_or(0.0, |pace| pace * (asked - took));
            let mut done = 0;
            while next < self.chunks.len() && (done == 0 || float(done) < batch) {
                self.launch(gpu, ask.step, &self.chunks[next])?;
                done += self.chunks[next].bytes;
                next += 1;
            }
            let end = gpu.mark()?;
            gpu.wait(&end, Duration::from_millis(ask.ms))?;
            let ms = end.elapsed_time_f32(&start).map_err(refused("reading the die's clock"))?;
            self.pace[which] = Some(float(done) / f64::from(ms).max(1e-3));
            took += f64::from(ms);
            bytes += done;
        }
        Ok(wire::Swept { next: next as u64, bytes, ms: took })
    }

    fn launch(&self, gpu: &Gpu, step: Step, chunk: &Chunk) -> Result<(), Failure> {
        let (module, stream) = (&self.module, &gpu.stream);
        let (memory, found) = (chunk.memory.as_device_ptr(), self.findings.as_device_ptr());
        let (tiles, base) = (tiles(chunk.bytes)?, chunk.start / 16);
        // SAFETY: the arguments are those of memtest.cu; the chunk is that many TILEs long, a block for
        // each, and the findings are one struct of the layout asserted above.
        unsafe {
            match step {
                Step::Fill(of) => launch!(module.fill<<<tiles, BLOCK, 0, stream>>>(
                    memory, base, of.shape as u32, of.word)),
                Step::Check(of) => launch!(module.check<<<tiles, BLOCK, 0, stream>>>(
                    memory, base, of.shape as u32, of.word, found)),
                Step::Invert(word) => launch!(module.invert<<<tiles, BLOCK, 0, stream>>>(
                    memory, base, word, found)),
            }
        }
        .map_err(refused("launching a memory test kernel"))
    }

    /// What was found since the memory was taken.
    pub(crate) fn findings(&self) -> Result<Found, Failure> {
        let mut raw = [NOTHING];
        self.findings.copy_to(&mut raw).map_err(refused("copying what the memory test found"))?;
        let [raw] = raw;
        let taken = (raw.taken as usize).min(SAMPLES);
        let mut samples: Vec<Sample> = raw.sample[..taken]
            .iter()
            .map(|&RawSample { word, want, got }| {
                let offset = word * 4;
                let address =
                    self.place(offset).map_or(0, |(chunk, within)| chunk.address() + within);
                Sample { offset, address, want, got }
            })
            .collect();
        samples.sort_by_key(|sample| sample.offset);
        Ok(Found {
            wrong_words: raw.words,
            wrong_bits: raw.bits,
            bit_mask: raw.mask,
            first_offset: (raw.first != u64::MAX).then(|| raw.first * 4),
            samples,
        })
    }

    fn place(&self, offset: u64) -> Option<(&Chunk, u64)> {
        let chunk = self.chunks.iter().rfind(|chunk| chunk.start <= offset)?;
        let within = offset - chunk.start;
        (within < chunk.bytes).then_some((chunk, within))
    }

    /// Turns bits over behind the test's back.
    pub(crate) fn plant(&mut self, ask: &wire::Plant) -> Result<wire::Planted, Failure> {
        let Some((chunk, within)) = self.place(ask.offset) else {
            let text = format!("offset {:#x} is not within the memory under test", ask.offset);
            return Err(Failure::new(Kind::Internal, text));
        };
        let index = size(within / 4)?;
        let mut word = [0_u32];
        let slice = chunk.memory.index(index..=index);
        slice.copy_to(&mut word).map_err(refused("reading a word"))?;
        let (before, after) = (word[0], word[0] ^ ask.mask);
        // `cust` hands out slices by value: writing through one needs no more than that.
        let mut slice = slice;
        slice.copy_from(&[after]).map_err(refused("writing a word"))?;
        Ok(wire::Planted { before, after })
    }
}

/// Sizes of 64 bits, on a 64-bit machine.
fn size(bytes: u64) -> Result<usize, Failure> {
    usize::try_from(bytes).map_err(Failure::internal("reckoning with sizes"))
}

fn tiles(bytes: u64) -> Result<u32, Failure> {
    u32::try_from(bytes / TILE).map_err(Failure::internal("launching over a chunk of that size"))
}
