//! What the compute engine can be asked to do, as it lies in video memory.
//!
//! A descriptor is 64 bytes, little endian, at a multiple of 256 bytes:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0x00 | 4 | magic `0x4b524f57` (`WORK`) |
//! | 0x04 | 4 | work: 1 = fill, 2 = multiply-add |
//! | 0x08 | 8 | source offset in video memory (multiply-add) |
//! | 0x10 | 8 | destination offset in video memory |
//! | 0x18 | 4 | elements of 32 bits, 1 to 16 Mi |
//! | 0x1c | 4 | factor |
//! | 0x20 | 4 | addend |
//! | 0x24 | 4 | zero |
//! | 0x28 | 8 | how long it takes, in microseconds |
//! | 0x30 | 4 | outcome, written by the engine: 0 = not yet, 1 = done, 2 = refused |
//! | 0x34 | 4 | number of the job, written by the engine with the outcome |
//! | 0x38 | 8 | zero |

use std::time::Duration;

/// What is computed. All arithmetic wraps at 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// `destination[i] = i * factor + addend`.
    Fill,
    /// `destination[i] = source[i] * factor + addend`.
    MultiplyAdd {
        /// Offset of the source in video memory; the same as the destination, or apart from it.
        source: u64,
    },
}

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// What is computed.
    pub work: Work,
    /// Offset of the result in video memory.
    pub destination: u64,
    /// Elements of 32 bits.
    pub count: u32,
    /// Factor.
    pub factor: u32,
    /// Addend.
    pub addend: u32,
    /// How long it takes.
    pub duration: Duration,
}

/// What has become of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// Not done yet, or lost.
    Pending,
    /// The results are there.
    Done {
        /// The job's number, counted from 1 since the die's last reset.
        number: u32,
    },
    /// The engine did not take it: a range is bad.
    Refused,
}

impl Job {
    /// Bytes of a descriptor.
    pub const SIZE: usize = 64;
    /// What a descriptor's offset is a multiple of.
    pub const ALIGN: u64 = 256;
    /// Offset of the outcome in a descriptor; the job's number follows.
    pub const OUTCOME_AT: u64 = 0x30;
    /// Most elements in a job.
    pub const MAX_COUNT: u32 = 16 << 20;
    const MAGIC: u32 = 0x4b52_4f57;

    /// As a descriptor, with the outcome pending.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let (work, source) = match self.work {
            Work::Fill => (1u32, 0),
            Work::MultiplyAdd { source } => (2, source),
        };
        let micros = u64::try_from(self.duration.as_micros()).unwrap_or(u64::MAX);
        let mut bytes = [0; Self::SIZE];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0x00, &Self::MAGIC.to_le_bytes());
        put(0x04, &work.to_le_bytes());
        put(0x08, &source.to_le_bytes());
        put(0x10, &self.destination.to_le_bytes());
        put(0x18, &self.count.to_le_bytes());
        put(0x1c, &self.factor.to_le_bytes());
        put(0x20, &self.addend.to_le_bytes());
        put(0x28, &micros.to_le_bytes());
        bytes
    }

    /// From a descriptor; `None` where it is none.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let u32_at = |at: usize| {
            bytes[at..at + 4].iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
        };
        let u64_at = |at: usize| u64::from(u32_at(at + 4)) << 32 | u64::from(u32_at(at));
        let work = match u32_at(0x04) {
            1 => Work::Fill,
            2 => Work::MultiplyAdd { source: u64_at(0x08) },
            _ => return None,
        };
        let known = u32_at(0x00) == Self::MAGIC && u32_at(0x24) == 0 && u64_at(0x38) == 0;
        known.then(|| Self {
            work,
            destination: u64_at(0x10),
            count: u32_at(0x18),
            factor: u32_at(0x1c),
            addend: u32_at(0x20),
            duration: Duration::from_micros(u64_at(0x28)),
        })
    }

    /// One element of the result. `source` is the same element of the source.
    pub fn element(&self, index: u32, source: u32) -> u32 {
        let operand = match self.work {
            Work::Fill => index,
            Work::MultiplyAdd { .. } => source,
        };
        operand.wrapping_mul(self.factor).wrapping_add(self.addend)
    }
}

impl JobOutcome {
    /// From the eight bytes at [`Job::OUTCOME_AT`]; `None` where the engine did not write them.
    pub fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        let value = u64::from_le_bytes(bytes);
        let number = u32::try_from(value >> 32).unwrap_or_default();
        match value & 0xffff_ffff {
            0 => Some(Self::Pending),
            1 => Some(Self::Done { number }),
            2 => Some(Self::Refused),
            _ => None,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; 8] {
        match self {
            Self::Pending => 0u64,
            Self::Done { number } => u64::from(number) << 32 | 1,
            Self::Refused => 2,
        }
        .to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_job_survives_its_descriptor(
            source in prop::option::of(any::<u64>()), destination: u64, count: u32, factor: u32,
            addend: u32, micros: u64
        ) {
            let work = source.map_or(Work::Fill, |source| Work::MultiplyAdd { source });
            let duration = Duration::from_micros(micros);
            let job = Job { work, destination, count, factor, addend, duration };
            prop_assert_eq!(Job::from_bytes(&job.to_bytes()), Some(job));
        }

        #[test]
        fn noise_is_no_job_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 64)) {
            let bytes: [u8; 64] = bytes.try_into().expect("64");
            prop_assert_eq!(Job::from_bytes(&bytes), None);
        }

        #[test]
        fn an_outcome_survives_its_bytes(number: u32) {
            for outcome in [JobOutcome::Pending, JobOutcome::Refused, JobOutcome::Done { number }] {
                prop_assert_eq!(JobOutcome::from_bytes(outcome.to_bytes()), Some(outcome));
            }
        }
    }
}
