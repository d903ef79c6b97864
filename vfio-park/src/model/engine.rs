//! The compute engine: a doorbell page in BAR1, jobs that run on whoever looks through the window.
//!
//! As on Kepler, where USERD lies in BAR1, work is handed in through the window, and once handed
//! in it needs the window no more. There is no thread: every access and every `poll` first settles
//! what is due.

use std::{collections::VecDeque, io, time::Duration};

use super::{
    job::{Job, JobOutcome, Work},
    vram::Vram,
};
use crate::GIB;

/// Offset of the doorbell page in BAR1: in the middle, away from both ends. The page is no memory.
pub const DOORBELL_OFFSET: u64 = 8 * GIB;
/// Bytes of the doorbell page.
pub const DOORBELL_SIZE: u64 = 4096;

/// Registers of the doorbell page: 32 bits each, little endian; the rest of the page reads as zero.
pub mod doorbell {
    /// Write: offset of a descriptor in video memory, divided by 256. Starts it, or queues it.
    pub const RING: u64 = 0x00;
    /// Read: jobs taken since the last reset.
    pub const TAKEN: u64 = 0x04;
    /// Read: jobs finished since the last reset.
    pub const FINISHED: u64 = 0x08;
    /// Read: why the last ring was refused; 0 where it was not.
    pub const ERROR: u64 = 0x0c;
    /// Read: jobs that run or wait.
    pub const PENDING: u64 = 0x10;
}

/// Why a ring was refused, as the error register tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EngineError {
    /// No descriptor lies there.
    NoDescriptor = 1,
    /// A range passes the end of memory, covers the doorbell, or source and destination overlap.
    BadRange = 2,
    /// As many jobs wait as can.
    Full = 3,
}

const MOST_PENDING: usize = 64;
const CHUNK: u32 = 16_384;

#[derive(Clone, Copy, Debug)]
struct Pending {
    job: Job,
    descriptor: u64,
    number: u32,
}

/// The engine's state. Lost by a reset.
#[derive(Clone, Debug, Default)]
pub(super) struct Engine {
    /// The first one runs until `done_at`.
    pending: VecDeque<Pending>,
    done_at: Duration,
    taken: u32,
    finished: u32,
    error: u32,
}

impl Engine {
    /// Finishes what is due at `now`; says when the next job will be.
    pub(super) fn settle(
        &mut self,
        now: Duration,
        vram: &mut dyn Vram,
    ) -> io::Result<Option<Duration>> {
        while let Some(first) = self.pending.front().copied() {
            if now < self.done_at {
                return Ok(Some(self.done_at));
            }
            compute(&first.job, vram)?;
            let outcome = JobOutcome::Done { number: first.number };
            vram.write(first.descriptor + Job::OUTCOME_AT, &outcome.to_bytes())?;
            self.finished = self.finished.wrapping_add(1);
            self.pending.pop_front();
            if let Some(next) = self.pending.front() {
                self.done_at = self.done_at.saturating_add(next.job.duration);
            }
        }
        Ok(None)
    }

    /// Reads the doorbell page. The caller has settled.
    pub(super) fn read(&self, offset: u64, data: &mut [u8]) {
        let pending = u32::try_from(self.pending.len()).unwrap_or(u32::MAX);
        let registers = [0, self.taken, self.finished, self.error, pending];
        let page: Vec<u8> = registers.iter().flat_map(|value| value.to_le_bytes()).collect();
        for (at, byte) in (offset..).zip(data) {
            let at = usize::try_from(at).ok();
            *byte = at.and_then(|at| page.get(at)).copied().unwrap_or(0);
        }
    }

    /// Writes the doorbell page. Only a whole [`doorbell::RING`] does anything.
    pub(super) fn write(
        &mut self,
        now: Duration,
        offset: u64,
        data: &[u8],
        vram: &mut dyn Vram,
        doorbell: u64,
    ) -> io::Result<()> {
        let Some(value) = data.first_chunk().filter(|_| offset == doorbell::RING) else {
            return Ok(());
        };
        let descriptor = u64::from(u32::from_le_bytes(*value)) * Job::ALIGN;
        self.error = match self.ring(now, descriptor, vram, doorbell)? {
            Ok(()) => 0,
            Err(error) => error as u32,
        };
        Ok(())
    }

    fn ring(
        &mut self,
        now: Duration,
        descriptor: u64,
        vram: &mut dyn Vram,
        doorbell: u64,
    ) -> io::Result<Result<(), EngineError>> {
        if !apart_from_doorbell(descriptor, Job::SIZE as u64, vram.size(), doorbell) {
            return Ok(Err(EngineError::NoDescriptor));
        }
        let mut bytes = [0; Job::SIZE];
        vram.read(descriptor, &mut bytes)?;
        let Some(job) = Job::from_bytes(&bytes) else { return Ok(Err(EngineError::NoDescriptor)) };
        let error = if !ranges_good(&job, vram.size(), doorbell) {
            Some(EngineError::BadRange)
        } else if self.pending.len() >= MOST_PENDING {
            Some(EngineError::Full)
        } else {
            None
        };
        let outcome = error.map_or(JobOutcome::Pending, |_| JobOutcome::Refused);
        vram.write(descriptor + Job::OUTCOME_AT, &outcome.to_bytes())?;
        if let Some(error) = error {
            return Ok(Err(error));
        }
        if self.pending.is_empty() {
            self.done_at = now.saturating_add(job.duration);
        }
        self.taken = self.taken.wrapping_add(1);
        self.pending.push_back(Pending { job, descriptor, number: self.taken });
        Ok(Ok(()))
    }
}

fn apart_from_doorbell(offset: u64, len: u64, size: u64, doorbell: u64) -> bool {
    let end = offset.checked_add(len).filter(|end| *end <= size);
    end.is_some_and(|end| end <= doorbell || doorbell + DOORBELL_SIZE <= offset)
}

fn ranges_good(job: &Job, size: u64, doorbell: u64) -> bool {
    let len = 4 * u64::from(job.count);
    let good =
        |offset: u64| offset.is_multiple_of(4) && apart_from_doorbell(offset, len, size, doorbell);
    let source_good = match job.work {
        Work::Fill => true,
        Work::MultiplyAdd { source } => {
            good(source) && (source == job.destination || source.abs_diff(job.destination) >= len)
        }
    };
    (1..=Job::MAX_COUNT).contains(&job.count) && good(job.destination) && source_good
}

fn compute(job: &Job, vram: &mut dyn Vram) -> io::Result<()> {
    let mut data = Vec::new();
    for start in (0..job.count).step_by(CHUNK as usize) {
        let count = CHUNK.min(job.count - start);
        let at = 4 * u64::from(start);
        data.clear();
        data.resize(4 * count as usize, 0);
        if let Work::MultiplyAdd { source } = job.work {
            vram.read(source + at, &mut data)?;
        }
        for (index, element) in (start..).zip(data.as_chunks_mut::<4>().0) {
            *element = job.element(index, u32::from_le_bytes(*element)).to_le_bytes();
        }
        vram.write(job.destination + at, &data)?;
    }
    Ok(())
}
