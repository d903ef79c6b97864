//! What the devices saw, one JSON object a line.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The host's monotonic clock.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// One thing that a device saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, by [`now`].
    pub at: Duration,
    /// Which device, by its name in QEMU.
    pub device: String,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What a device can see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum What {
    /// A write to config space.
    Config {
        /// First byte.
        offset: u16,
        /// Bytes.
        size: u8,
        /// Little endian.
        value: u32,
    },
    /// A read of memory that is not mapped straight through.
    Read {
        /// Which BAR.
        bar: u8,
        /// Offset in it.
        offset: u64,
        /// Bytes.
        size: usize,
        /// The first up to eight bytes of the answer, little endian.
        value: u64,
    },
    /// A write to memory that is not mapped straight through.
    Write {
        /// Which BAR.
        bar: u8,
        /// Offset in it.
        offset: u64,
        /// Bytes.
        size: usize,
        /// The first up to eight bytes, little endian.
        value: u64,
    },
    /// A reset.
    Reset,
    /// The guest says what comes next ([`crate::phase`]).
    Marker {
        /// The text as written.
        text: String,
    },
}

/// The up to eight first bytes of an access as a number.
pub fn number(data: &[u8]) -> u64 {
    data.iter().take(8).rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Where events go. Lines of all devices are in the order in which they happened.
#[derive(Clone, Debug)]
pub struct Log(Arc<Mutex<File>>);

impl Log {
    /// Starts a log at `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(File::create(path)?))))
    }

    /// Adds a line. The time is taken under the lock, so that it never goes back.
    pub fn add(&self, device: &str, what: What) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let event = Event { at: now(), device: device.to_owned(), what };
        let mut line = serde_json::to_vec(&event)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}

/// Reads a log. A last line that was cut off when the writer ended is left out.
pub fn read(path: &Path) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut lines = BufReader::new(File::open(path)?).lines().peekable();
    while let Some(line) = lines.next().transpose()? {
        match serde_json::from_str(&line) {
            Ok(event) => events.push(event),
            Err(_) if lines.peek().is_none() => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_a_cut_end_is_left_out() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let log = Log::create(file.path()).expect("created");
        let written = [
            What::Config { offset: 4, size: 2, value: 6 },
            What::Read { bar: 0, offset: 0, size: 4, value: 0x0f22_d0a1 },
            What::Write { bar: 1, offset: 8 << 30, size: 4, value: 1 },
            What::Reset,
            What::Marker { text: "quiet modprobe".to_owned() },
        ];
        for what in written.clone() {
            log.add("die3", what).expect("written");
        }
        let mut cut = File::options().append(true).open(file.path()).expect("opened");
        cut.write_all(b"{\"at\":").expect("written");
        let events = read(file.path()).expect("read");
        assert!(events.is_sorted_by_key(|event| event.at));
        assert!(events.iter().all(|event| event.device == "die3"));
        assert_eq!(events.into_iter().map(|event| event.what).collect::<Vec<_>>(), written);
    }

    #[test]
    fn a_bad_line_in_the_middle_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), "nonsense\n{}\n").expect("written");
        assert!(read(file.path()).is_err());
    }
}
