//! A die of the model as a device.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use vfio_park::model::{DOORBELL_SIZE, Die, DieKind};

use super::{BarRegion, Device, MemfdVram};
use crate::log::{Log, What, now, number};

/// A die whose video memory the guest maps, all but the doorbell's page.
pub struct DieDevice {
    name: String,
    kind: DieKind,
    memory: MemfdVram,
    shared: Arc<Shared>,
}

struct Shared {
    die: Mutex<Die<MemfdVram>>,
    changed: Condvar,
}

impl Shared {
    fn die(&self) -> MutexGuard<'_, Die<MemfdVram>> {
        self.die.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finishes jobs when they are due, so that results lie in memory with nobody looking. Ends
    /// the process where video memory fails: results would silently be missing.
    fn run_engine(&self) {
        let mut die = self.die();
        loop {
            let due = die.poll(now()).unwrap_or_else(|error| {
                eprintln!("die-server: video memory: {error}");
                std::process::exit(1)
            });
            die = match due {
                None => self.changed.wait(die).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let wait = due.saturating_sub(now()).max(Duration::from_micros(50));
                    self.changed
                        .wait_timeout(die, wait)
                        .map_or_else(|error| error.into_inner().0, |(die, _)| die)
                }
            };
        }
    }
}

impl DieDevice {
    /// A die after power-on. Its engine runs on a thread of its own.
    pub fn new(name: String, kind: DieKind) -> io::Result<Self> {
        let vram = MemfdVram::new(&name, kind.bar1_size())?;
        let memory = vram.try_clone()?;
        let die = Mutex::new(Die::new(kind.clone(), vram));
        let shared = Arc::new(Shared { die, changed: Condvar::new() });
        let engine = Arc::clone(&shared);
        thread::Builder::new().name(format!("{name}-engine")).spawn(move || engine.run_engine())?;
        Ok(Self { name, kind, memory, shared })
    }
}

impl Device for DieDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn bars(&self) -> Vec<BarRegion<'_>> {
        let direct = |size| match self.kind.doorbell {
            Some(page) => vec![0..page, page + DOORBELL_SIZE..size],
            None => std::iter::once(0..size).collect(),
        };
        let bars = self.kind.bars.iter().map(|bar| BarRegion {
            index: bar.index,
            size: bar.size,
            direct: (bar.index == 1).then(|| (self.memory.as_fd(), direct(bar.size))),
        });
        bars.collect()
    }

    fn config_size(&self) -> u64 {
        vfio_park::model::CONFIG_SIZE as u64
    }

    fn config_read(&mut self, offset: u16, data: &mut [u8]) {
        self.shared.die().config_read(offset, data);
    }

    fn config_write(&mut self, offset: u16, data: &[u8], log: &Log) -> io::Result<()> {
        self.shared.die().config_write(offset, data);
        log.add(&self.name, config_event(offset, data))
    }

    fn bar_read(&mut self, bar: u8, offset: u64, data: &mut [u8], log: &Log) -> io::Result<()> {
        self.shared.die().bar_read(bar, offset, data, now())?;
        log.add(&self.name, What::Read { bar, offset, size: data.len(), value: number(data) })
    }

    fn bar_write(&mut self, bar: u8, offset: u64, data: &[u8], log: &Log) -> io::Result<()> {
        let mut die = self.shared.die();
        die.bar_write(bar, offset, data, now())?;
        // The log has every write; the model's own record is for the simulator.
        die.take_bar0_writes();
        drop(die);
        self.shared.changed.notify_one();
        log.add(&self.name, What::Write { bar, offset, size: data.len(), value: number(data) })
    }

    fn reset(&mut self, log: &Log) -> io::Result<()> {
        self.shared.die().bus_reset();
        log.add(&self.name, What::Reset)
    }
}

/// How a config write stands in the log.
pub(super) fn config_event(offset: u16, data: &[u8]) -> What {
    let value = data.iter().take(4).rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    What::Config { offset, size: u8::try_from(data.len()).unwrap_or(u8::MAX), value }
}

#[cfg(test)]
mod tests {
    use vfio_park::model::{DOORBELL_OFFSET, Job, JobOutcome, Vram, Work, doorbell, reg};

    use super::*;

    #[test]
    fn a_job_ends_with_nobody_looking() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let log = Log::create(file.path()).expect("log");
        let mut device = DieDevice::new("die0".to_owned(), DieKind::gk210()).expect("die");
        device.config_write(reg::COMMAND, &[2, 0], &log).expect("written");
        let duration = Duration::from_millis(5);
        let job =
            Job { work: Work::Fill, destination: 0x1000, count: 2, factor: 7, addend: 3, duration };
        // As the guest does it: the descriptor through the mapping, the ring through the trap.
        let mut mapped = device.memory.try_clone().expect("descriptor");
        mapped.write(0x100, &job.to_bytes()).expect("written");
        device.bar_write(1, DOORBELL_OFFSET + doorbell::RING, &[1, 0, 0, 0], &log).expect("rung");
        let limit = now() + Duration::from_secs(20);
        let mut outcome = [0; 8];
        while JobOutcome::from_bytes(outcome) != Some(JobOutcome::Done { number: 1 }) {
            assert!(now() < limit, "the job never ended: {outcome:?}");
            thread::yield_now();
            mapped.read(0x100 + Job::OUTCOME_AT, &mut outcome).expect("inside");
        }
        let mut results = [0; 8];
        mapped.read(0x1000, &mut results).expect("inside");
        assert_eq!(results, [3, 0, 0, 0, 10, 0, 0, 0]);
    }

    #[test]
    fn the_doorbell_is_the_only_hole_in_the_mapping() {
        let device = DieDevice::new("die0".to_owned(), DieKind::gk210()).expect("die");
        let bars = device.bars();
        let areas = bars.iter().find_map(|bar| bar.direct.as_ref()).map(|(_, areas)| areas.clone());
        let page = DOORBELL_OFFSET;
        assert_eq!(areas, Some(vec![0..page, page + DOORBELL_SIZE..16 << 30]));
        let neighbour = DieDevice::new("neighbour".to_owned(), DieKind::tu104()).expect("die");
        let whole = neighbour.bars().into_iter().find_map(|bar| bar.direct.map(|(_, areas)| areas));
        assert_eq!(whole, Some(std::iter::once(0..256 << 20).collect()));
    }
}
