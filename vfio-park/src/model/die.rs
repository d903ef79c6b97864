//! The die: what answers at its config space and its BARs.

use std::{collections::VecDeque, io, time::Duration};

use super::{
    config::{ConfigSpace, command, reg},
    engine::{DOORBELL_SIZE, Engine},
    kind::DieKind,
    registers::{self, Bar0Write},
    vram::{SparseVram, Vram},
};
use crate::MIB;

const MOST_LOGGED: usize = 4096;

/// One die.
///
/// Times are those of any one clock that does not go back. A memory access must not cross a border
/// of 4 KiB.
#[derive(Debug)]
pub struct Die<V> {
    kind: DieKind,
    config: ConfigSpace,
    vram: V,
    /// BAR3, and BAR0 where it keeps what is written: memory that nobody looks at closely.
    bar3: SparseVram,
    scratch: SparseVram,
    engine: Engine,
    bar0_writes: VecDeque<Bar0Write>,
}

impl<V: Vram> Die<V> {
    /// A die as after power-on. `vram` is as large as BAR1.
    pub fn new(kind: DieKind, vram: V) -> Self {
        let config = kind.config_space();
        Self {
            kind,
            config,
            vram,
            bar3: SparseVram::new(32 * MIB),
            scratch: SparseVram::new(16 * MIB),
            engine: Engine::default(),
            bar0_writes: VecDeque::new(),
        }
    }

    /// What kind of die it is.
    pub fn kind(&self) -> &DieKind {
        &self.kind
    }

    /// Its config space.
    pub fn config(&self) -> &ConfigSpace {
        &self.config
    }

    /// Its video memory, past the window.
    pub fn vram(&self) -> &V {
        &self.vram
    }

    /// Reads config space.
    pub fn config_read(&self, offset: u16, data: &mut [u8]) {
        self.config.read(offset, data);
    }

    /// Writes config space.
    pub fn config_write(&mut self, offset: u16, data: &[u8]) {
        let power = self.config.u16(reg::PMCSR) & 3;
        self.config.write(offset, data);
        // D1 and D2 do not exist here: the power state stays.
        if matches!(self.config.u16(reg::PMCSR) & 3, 1 | 2) {
            self.config.write(reg::PMCSR, &power.to_le_bytes());
        }
    }

    /// Whether it is in D3hot: config space answers, memory does not.
    pub fn asleep(&self) -> bool {
        self.config.u16(reg::PMCSR) & 3 != 0
    }

    /// The address that BAR `index` holds.
    pub fn bar_address(&self, index: u8) -> Option<u64> {
        let bar = self.kind.bar(index)?;
        let low = u64::from(self.config.u32(bar.register()) & !0xf);
        let upper = if bar.is_64bit_prefetchable { self.config.u32(bar.register() + 4) } else { 0 };
        Some(u64::from(upper) << 32 | low)
    }

    /// Whether it decodes `address`, and as what: number of the BAR and offset in it.
    pub fn decode(&self, address: u64) -> Option<(u8, u64)> {
        if self.config.u16(reg::COMMAND) & command::MEMORY == 0 || self.asleep() {
            return None;
        }
        self.kind.bars.iter().find_map(|bar| {
            let offset = address.checked_sub(self.bar_address(bar.index)?)?;
            (offset < bar.size).then_some((bar.index, offset))
        })
    }

    /// Reads memory of BAR `bar`. Asleep, or where there is no BAR: all-ones.
    pub fn bar_read(
        &mut self,
        bar: u8,
        offset: u64,
        data: &mut [u8],
        now: Duration,
    ) -> io::Result<()> {
        if self.asleep() {
            data.fill(0xff);
            return Ok(());
        }
        match bar {
            0 => self.registers_read(offset, data),
            1 => {
                self.poll(now)?;
                match self.in_doorbell(offset) {
                    Some(within) => self.engine.read(within, data),
                    None => self.vram.read(offset, data)?,
                }
                Ok(())
            }
            3 => self.bar3.read(offset, data),
            _ => {
                data.fill(0xff);
                Ok(())
            }
        }
    }

    /// Writes memory of BAR `bar`. Asleep, or where there is no BAR: dropped.
    pub fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        data: &[u8],
        now: Duration,
    ) -> io::Result<()> {
        if self.asleep() {
            return Ok(());
        }
        match bar {
            0 => {
                if self.bar0_writes.len() == MOST_LOGGED {
                    self.bar0_writes.pop_front();
                }
                self.bar0_writes.push_back(Bar0Write::new(now, offset, data));
                self.scratch.write(offset, data)
            }
            1 => {
                self.poll(now)?;
                match self.in_doorbell(offset).zip(self.kind.doorbell) {
                    Some((within, page)) => {
                        self.engine.write(now, within, data, &mut self.vram, page)?;
                        self.poll(now).map(drop)
                    }
                    None => self.vram.write(offset, data),
                }
            }
            3 => self.bar3.write(offset, data),
            _ => Ok(()),
        }
    }

    /// Finishes the jobs that are due at `now`, so that their results lie in video memory. Says
    /// when to call again, where a job runs.
    pub fn poll(&mut self, now: Duration) -> io::Result<Option<Duration>> {
        self.engine.settle(now, &mut self.vram)
    }

    /// A secondary bus reset: config space and jobs are gone. What video memory holds afterwards
    /// nobody promises; here it is kept.
    pub fn bus_reset(&mut self) {
        self.config.reset();
        self.engine = Engine::default();
    }

    /// The driver shut the adapter down: contexts, their jobs and what they had in video memory
    /// are gone; config space is as it was.
    pub fn shut_adapter_down(&mut self, now: Duration) -> io::Result<()> {
        self.poll(now)?;
        self.engine = Engine::default();
        self.vram.wipe()
    }

    /// Takes the record of writes to BAR0 since the last call, oldest first (the newest 4096).
    pub fn take_bar0_writes(&mut self) -> Vec<Bar0Write> {
        self.bar0_writes.drain(..).collect()
    }

    fn in_doorbell(&self, offset: u64) -> Option<u64> {
        let within = offset.checked_sub(self.kind.doorbell?)?;
        (within < DOORBELL_SIZE).then_some(within)
    }

    fn registers_read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let word = at & !3;
            let mut bytes = [0; 4];
            match registers::known(&self.kind, &self.config, word)
                .or_else(|| registers::unknown(&self.kind))
            {
                Some(value) => bytes = value.to_le_bytes(),
                None => self.scratch.read(word, &mut bytes)?,
            }
            let within = usize::try_from(at - word).expect("below four");
            let piece = (4 - within).min(data.len() - done);
            data[done..done + piece].copy_from_slice(&bytes[within..within + piece]);
            done += piece;
        }
        Ok(())
    }
}
