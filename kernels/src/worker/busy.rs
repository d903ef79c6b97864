//! identify: a die that is visibly at work.
#![allow(unsafe_code, reason = "kernel launches")]

use std::time::{Duration, Instant};

use cust::{launch, memory::DeviceBuffer, module::Module};

use super::device::{BLOCK, Gpu};
use crate::{driver::refused, failure::Failure, wire};

/// One launch: long enough to show, short enough to stop at once.
const LAUNCH: Duration = Duration::from_millis(50);
/// A launch is never made longer than this many rounds, however fast the die seems.
const MOST_ROUNDS: u32 = 1 << 28;

/// The busy kernel on a die, and how many rounds make one launch.
pub(crate) struct Busy {
    // Dropped in this order.
    sink: DeviceBuffer<f32>,
    module: Module,
    blocks: u32,
    rounds: Option<u32>,
}

impl Busy {
    pub(crate) fn new(gpu: &Gpu) -> Result<Self, Failure> {
        let module = gpu.module(include_str!("../../ptx/busy.ptx"))?;
        let blocks = gpu.blocks(8);
        let sink = gpu.zeroed((blocks * BLOCK) as usize)?;
        Ok(Self { sink, module, blocks, rounds: None })
    }

    /// Launch after launch until `ms` have passed.
    pub(crate) fn run(&mut self, gpu: &Gpu, ms: u64) -> Result<wire::Busied, Failure> {
        let rounds = match self.rounds {
            Some(rounds) => rounds,
            None => *self.rounds.insert(self.calibrate(gpu)?),
        };
        let (start, asked) = (Instant::now(), Duration::from_millis(ms));
        let (mut launches, mut busy_ms) = (0, 0.0);
        while launches == 0 || start.elapsed() < asked {
            busy_ms += self.launch(gpu, rounds)?.as_secs_f64() * 1e3;
            launches += 1;
        }
        Ok(wire::Busied { launches, busy_ms })
    }

    fn calibrate(&self, gpu: &Gpu) -> Result<u32, Failure> {
        self.launch(gpu, 1)?;
        let mut rounds = 1024;
        loop {
            let took = self.launch(gpu, rounds)?;
            if took >= LAUNCH / 2 || rounds >= MOST_ROUNDS {
                return Ok(super::scale(rounds, took, LAUNCH).min(MOST_ROUNDS));
            }
            rounds *= 2;
        }
    }

    fn launch(&self, gpu: &Gpu, rounds: u32) -> Result<Duration, Failure> {
        let (module, stream) = (&self.module, &gpu.stream);
        let start = gpu.mark()?;
        // SAFETY: the arguments are those of busy.cu; the sink has an element for each thread.
        unsafe {
            launch!(module.busy<<<self.blocks, BLOCK, 0, stream>>>(self.sink.as_device_ptr(), rounds))
        }
        .map_err(refused("launching the busy kernel"))?;
        let end = gpu.mark()?;
        gpu.wait(&end, Duration::ZERO)?;
        end.elapsed(&start).map_err(refused("reading the die's clock"))
    }
}
