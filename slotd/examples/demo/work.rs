//! What each die computes, launched and collected through the slot.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use slotd_client::{Client, sim};
use vfio_park::model::{DOORBELL_OFFSET, Job, JobOutcome, Work, doorbell};

/// Elements of 32 bits.
const COUNT: u32 = 4096;
/// Where things lie in a die's memory, in bytes.
const SOURCE: u64 = 0x10_0000;
const DESTINATION: u64 = 0x20_0000;
const DESCRIPTOR: u64 = 0x30_0000;

/// A computation of one die.
pub(crate) struct Computation {
    job: Job,
    launched: Option<Instant>,
    source: Vec<u32>,
}

/// What a visit found.
pub(crate) enum Collected {
    /// Not done yet.
    Nothing,
    /// Every element.
    Result {
        /// Whether all are as computed here.
        right: bool,
    },
}

impl Computation {
    /// No two dies compute the same.
    pub(crate) fn of(die: u32, milliseconds: u64) -> Self {
        let source = (0..COUNT).map(|index| index.wrapping_mul(0x9e37_79b9) ^ die).collect();
        let job = Job {
            work: Work::MultiplyAdd { source: SOURCE },
            destination: DESTINATION,
            count: COUNT,
            factor: 2 * die + 3,
            addend: die,
            duration: Duration::from_millis(milliseconds),
        };
        Self { job, launched: None, source }
    }

    /// Copies the inputs in and rings the doorbell.
    pub(crate) fn launch(&mut self, client: &mut Client, base: u64) -> Result<()> {
        let source = self.source.iter().flat_map(|word| word.to_le_bytes()).collect();
        write(client, base + SOURCE, source)?;
        write(client, base + DESCRIPTOR, self.job.to_bytes().to_vec())?;
        let descriptor = u32::try_from(DESCRIPTOR / Job::ALIGN)?;
        let ring = base + DOORBELL_OFFSET + doorbell::RING;
        write(client, ring, descriptor.to_le_bytes().to_vec())?;
        self.launched = Some(Instant::now());
        Ok(())
    }

    /// How long it should go on.
    pub(crate) fn left(&self) -> Duration {
        let since = self.launched.map_or(Duration::ZERO, |launched| launched.elapsed());
        self.job.duration.saturating_sub(since)
    }

    /// Looks whether the result is there, and whether it is right.
    pub(crate) fn collect(&self, client: &mut Client, base: u64) -> Result<Collected> {
        let outcome = read(client, base + DESCRIPTOR + Job::OUTCOME_AT, 8)?;
        let outcome: [u8; 8] = outcome.try_into().ok().context("eight bytes")?;
        match JobOutcome::from_bytes(outcome) {
            Some(JobOutcome::Pending) => return Ok(Collected::Nothing),
            Some(JobOutcome::Done { .. }) => (),
            Some(JobOutcome::Refused) => bail!("the die refused the computation"),
            None => bail!("the die's memory reads {outcome:02x?}"),
        }
        let result = read(client, base + DESTINATION, u64::from(COUNT) * 4)?;
        ensure!(result.len() == self.source.len() * 4, "a result of {} bytes", result.len());
        let right =
            result.chunks_exact(4).zip(0..).zip(&self.source).all(|((bytes, index), source)| {
                bytes == self.job.element(index, *source).to_le_bytes()
            });
        Ok(Collected::Result { right })
    }
}

fn write(client: &mut Client, address: u64, bytes: Vec<u8>) -> Result<()> {
    client.call(&sim::Write { address, bytes }).context("write through the slot")?;
    Ok(())
}

fn read(client: &mut Client, address: u64, length: u64) -> Result<Vec<u8>> {
    Ok(client.call(&sim::Read { address, length }).context("read through the slot")?.bytes)
}
