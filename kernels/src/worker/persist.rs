//! persist: a kernel that runs on while its die is out of the slot.
#![allow(unsafe_code, reason = "kernel launches")]

use std::time::{Duration, Instant};

use cust::{
    event::{Event, EventStatus},
    launch,
    memory::{CopyDestination, DeviceBuffer},
    module::Module,
};

use super::{
    arithmetic::{Jump, mix},
    device::{BLOCK, Gpu},
};
use crate::{
    driver::refused,
    failure::{Failure, Kind},
    wire,
};

/// Elements of the result, every one of which is checked.
pub(crate) const ELEMENTS: u32 = 1_048_576;
/// A calibration run that lasts this long is good enough to reckon with.
const ENOUGH: Duration = Duration::from_millis(100);

/// The persistence kernel on a die, and the launch that is under way.
pub(crate) struct Persist {
    // Dropped in this order.
    running: Option<Running>,
    out: DeviceBuffer<u32>,
    module: Module,
    /// How long the launch under way should take, by calibration.
    expected: Duration,
}

struct Running {
    start: Event,
    end: Event,
    seed: u32,
    rounds: u32,
}

impl Persist {
    pub(crate) fn new(gpu: &Gpu) -> Result<Self, Failure> {
        let module = gpu.module(include_str!("../../ptx/persist.ptx"))?;
        let out = gpu.zeroed(ELEMENTS as usize)?;
        Ok(Self { running: None, out, module, expected: Duration::ZERO })
    }

    /// Rounds that keep the die at it for `ms`.
    pub(crate) fn calibrate(&mut self, gpu: &Gpu, ms: u64) -> Result<wire::Calibrated, Failure> {
        let asked = Duration::from_millis(ms);
        let mut rounds = 16;
        self.run(gpu, rounds)?;
        let took = loop {
            let took = self.run(gpu, rounds)?;
            if took >= ENOUGH.min(asked) || rounds >= 1 << 30 {
                break took;
            }
            rounds *= 2;
        };
        self.expected = asked;
        // The result of the calibration must not be taken for that of the launch.
        self.out = gpu.zeroed(ELEMENTS as usize)?;
        gpu.synchronise()?;
        Ok(wire::Calibrated { elements: ELEMENTS, rounds: super::scale(rounds, took, asked) })
    }

    fn run(&mut self, gpu: &Gpu, rounds: u32) -> Result<Duration, Failure> {
        let running = self.start(gpu, 0, rounds)?;
        gpu.wait(&running.end, Duration::ZERO)?;
        running.end.elapsed(&running.start).map_err(refused("reading the die's clock"))
    }

    fn start(&self, gpu: &Gpu, seed: u32, rounds: u32) -> Result<Running, Failure> {
        let (module, stream, blocks) = (&self.module, &gpu.stream, gpu.blocks(8));
        let start = gpu.mark()?;
        // SAFETY: the arguments are those of persist.cu; `out` has ELEMENTS elements.
        unsafe {
            launch!(module.persist<<<blocks, BLOCK, 0, stream>>>(
                self.out.as_device_ptr(), ELEMENTS, seed, rounds))
        }
        .map_err(refused("launching the persistence kernel"))?;
        Ok(Running { start, end: gpu.mark()?, seed, rounds })
    }

    /// Starts the kernel and comes back at once.
    pub(crate) fn launch(
        &mut self,
        gpu: &Gpu,
        ask: &wire::Launch,
    ) -> Result<wire::Launched, Failure> {
        let before = Instant::now();
        self.running = Some(self.start(gpu, ask.seed, ask.rounds)?);
        Ok(wire::Launched { ms: before.elapsed().as_secs_f64() * 1e3 })
    }

    /// Waits for the kernel, if it still runs, and checks every element.
    pub(crate) fn collect(&mut self, gpu: &Gpu) -> Result<wire::Collected, Failure> {
        let Some(running) = self.running.take() else {
            return Err(Failure::new(Kind::Internal, "nothing was launched"));
        };
        let query = running.end.query().map_err(refused("asking whether the kernel has ended"))?;
        let before = Instant::now();
        gpu.wait(&running.end, self.expected)?;
        gpu.synchronise()?;
        let sync_ms = before.elapsed().as_secs_f64() * 1e3;
        let kernel =
            running.end.elapsed(&running.start).map_err(refused("reading the die's clock"))?;
        let mut got = vec![0_u32; ELEMENTS as usize];
        self.out.copy_to(&mut got).map_err(refused("copying the result"))?;
        let jump = Jump::new(running.rounds);
        let want = (0..ELEMENTS).map(|i| mix(jump.from(running.seed.wrapping_add(i))));
        let wrong = got.iter().zip(want).filter(|&(&got, want)| got != want).count();
        Ok(wire::Collected {
            done_before: query == EventStatus::Ready,
            sync_ms,
            kernel_ms: kernel.as_secs_f64() * 1e3,
            elements: ELEMENTS,
            wrong: super::count(wrong),
            zeros: super::count(got.iter().filter(|&&x| x == 0).count()),
        })
    }
}
