//! What the kernel says.

use std::{
    cell::RefCell,
    fs::{File, OpenOptions},
    io::{ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
};

use anyhow::{Context, Result};

/// Words that no good run leaves in the log.
const BAD: [&str; 11] = [
    "Call Trace",
    "BUG:",
    "WARNING:",
    "Oops",
    "lockup",
    "blocked for more than",
    "UBSAN",
    "Xid",
    "fallen off the bus",
    "RIP:",
    "not claimed",
];

/// `/dev/kmsg` from the start of the log; each read goes on where the last one ended.
pub(super) struct KernelLog {
    file: RefCell<File>,
    found: RefCell<Vec<String>>,
}

impl KernelLog {
    pub(super) fn open() -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open("/dev/kmsg").context("open /dev/kmsg")?;
        Ok(Self { file: RefCell::new(file), found: RefCell::default() })
    }

    /// Every bad line since boot.
    pub(super) fn complaints(&self) -> Result<Vec<String>> {
        let mut record = [0; 8192];
        loop {
            match self.file.borrow_mut().read(&mut record) {
                Ok(0) => break,
                Ok(length) => self.take(&record[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Older records were overwritten before they could be read.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => (),
                Err(error) => return Err(error).context("read /dev/kmsg"),
            }
        }
        Ok(self.found.borrow().clone())
    }

    /// A record is `priority,number,time,flags;text`.
    fn take(&self, record: &[u8]) {
        let record = String::from_utf8_lossy(record);
        let text = record.split_once(';').map_or(&*record, |(_, text)| text);
        let line = text.lines().next().unwrap_or_default();
        if BAD.iter().any(|bad| line.contains(bad)) {
            self.found.borrow_mut().push(line.to_owned());
        }
    }
}
