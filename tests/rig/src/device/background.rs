//! What answers in a slot while no die does.
//!
//! QEMU answers reads of addresses that nobody decodes with zero; a real machine answers
//! all-ones. This function lies under the slot with a BAR as large, answers all-ones and logs
//! who came by. It is the rig's own: neither the modules nor slotd know of it. A part of its config
//! space is where the guest writes its [markers](crate::phase).

use std::io;

use super::{BarRegion, Device, die::config_event};
use crate::log::{Log, What, number};

/// Where in config space markers are written.
pub const MARKER_OFFSET: u16 = 0x80;
/// Bytes of a marker; the last one written completes it.
pub const MARKER_SIZE: usize = 64;

const CONFIG_SIZE: usize = 256;
const COMMAND: usize = 4;

/// A background function.
#[derive(Debug)]
pub struct Background {
    name: String,
    size: u64,
    config: [u8; CONFIG_SIZE],
}

impl Background {
    /// A function whose BAR0 has `size` bytes.
    pub fn new(name: String, size: u64) -> Self {
        let mut config = [0; CONFIG_SIZE];
        // Class 0: a function that Linux hands no addresses to.
        config[..4].copy_from_slice(&[0x36, 0x1b, 0xff, 0x00]);
        config[8] = 1;
        config[0x10] = 0x0c;
        Self { name, size, config }
    }
}

impl Device for Background {
    fn name(&self) -> &str {
        &self.name
    }

    fn bars(&self) -> Vec<BarRegion<'_>> {
        vec![BarRegion { index: 0, size: self.size, direct: None }]
    }

    fn config_size(&self) -> u64 {
        CONFIG_SIZE as u64
    }

    fn config_read(&mut self, offset: u16, data: &mut [u8]) {
        for (at, byte) in (usize::from(offset)..).zip(data) {
            *byte = self.config.get(at).copied().unwrap_or(0xff);
        }
    }

    fn config_write(&mut self, offset: u16, data: &[u8], log: &Log) -> io::Result<()> {
        let marker = usize::from(MARKER_OFFSET)..usize::from(MARKER_OFFSET) + MARKER_SIZE;
        let mut complete = false;
        for (at, new) in (usize::from(offset)..CONFIG_SIZE).zip(data) {
            // BARs are QEMU's.
            if at == COMMAND || marker.contains(&at) {
                self.config[at] = *new;
            }
            complete |= at + 1 == marker.end;
        }
        if complete {
            let text = crate::phase::decode(&self.config[marker]);
            log.add(&self.name, What::Marker { text })
        } else if marker.contains(&usize::from(offset)) {
            Ok(())
        } else {
            log.add(&self.name, config_event(offset, data))
        }
    }

    fn bar_read(&mut self, bar: u8, offset: u64, data: &mut [u8], log: &Log) -> io::Result<()> {
        data.fill(0xff);
        log.add(&self.name, What::Read { bar, offset, size: data.len(), value: number(data) })
    }

    fn bar_write(&mut self, bar: u8, offset: u64, data: &[u8], log: &Log) -> io::Result<()> {
        log.add(&self.name, What::Write { bar, offset, size: data.len(), value: number(data) })
    }

    fn reset(&mut self, log: &Log) -> io::Result<()> {
        self.config[COMMAND] = 0;
        log.add(&self.name, What::Reset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log;

    #[test]
    fn it_answers_all_ones_and_tells() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let log = Log::create(file.path()).expect("log");
        let mut device = Background::new("background0".to_owned(), 16 << 30);
        let mut data = [0; 4];
        device.bar_read(0, 0x40, &mut data, &log).expect("read");
        device.bar_write(0, 0x44, &[1, 2], &log).expect("written");
        assert_eq!(data, [0xff; 4]);
        let seen: Vec<_> =
            log::read(file.path()).expect("log").into_iter().map(|event| event.what).collect();
        let all_ones = 0xffff_ffff;
        let read = What::Read { bar: 0, offset: 0x40, size: 4, value: all_ones };
        assert_eq!(seen, [read, What::Write { bar: 0, offset: 0x44, size: 2, value: 0x201 }]);
    }

    #[test]
    fn a_marker_is_told_once_when_it_is_whole() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let log = Log::create(file.path()).expect("log");
        let mut device = Background::new("background0".to_owned(), 16 << 30);
        for text in ["warm die 3", "quiet"] {
            for (offset, word) in
                (MARKER_OFFSET..).step_by(4).zip(crate::phase::encode(text).chunks(4))
            {
                device.config_write(offset, word, &log).expect("written");
            }
        }
        let seen: Vec<_> =
            log::read(file.path()).expect("log").into_iter().map(|event| event.what).collect();
        let marker = |text: &str| What::Marker { text: text.to_owned() };
        assert_eq!(seen, [marker("warm die 3"), marker("quiet")]);
    }
}
