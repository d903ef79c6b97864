//! parity: the die's arithmetic against the processor's.
#![allow(unsafe_code, reason = "kernel launches")]

use std::{collections::BTreeSet, time::Duration};

use cust::{
    launch,
    memory::{CopyDestination, DeviceBuffer, DeviceCopy},
    module::Module,
};

use super::{
    arithmetic::{double, mix, single, whole},
    device::{BLOCK, Gpu},
};
use crate::{driver::refused, failure::Failure, wire};

/// The parity kernel on a die. What it writes to is kept from run to run: nothing is freed while a launch
/// that hangs might still use it.
pub(crate) struct Parity {
    // Dropped in this order.
    results: Option<Results>,
    module: Module,
}

struct Results {
    wholes: DeviceBuffer<u32>,
    singles: DeviceBuffer<f32>,
    doubles: DeviceBuffer<f64>,
    folded: DeviceBuffer<u32>,
    place: DeviceBuffer<u32>,
}

impl Results {
    fn new(gpu: &Gpu, elements: usize, blocks: usize) -> Result<Self, Failure> {
        Ok(Self {
            wholes: gpu.zeroed(elements)?,
            singles: gpu.zeroed(elements)?,
            doubles: gpu.zeroed(elements)?,
            folded: gpu.zeroed(3)?,
            place: gpu.zeroed(blocks)?,
        })
    }
}

impl Parity {
    pub(crate) fn new(gpu: &Gpu) -> Result<Self, Failure> {
        let module = gpu.module(include_str!("../../ptx/parity.ptx"))?;
        Ok(Self { results: None, module })
    }

    pub(crate) fn run(&mut self, gpu: &Gpu, ask: &wire::Parity) -> Result<wire::Compared, Failure> {
        let (n, blocks) = (ask.elements as usize, gpu.blocks(8));
        let (module, stream) = (&self.module, &gpu.stream);
        // Fresh ones each time: no run finds an earlier one's results.
        let fresh = Results::new(gpu, n, blocks as usize)?;
        let Results { wholes, singles, doubles, folded, place } = self.results.insert(fresh);
        let start = gpu.mark()?;
        // SAFETY: the arguments are those of parity.cu; three buffers of n elements, three words, and
        // one word a block.
        unsafe {
            launch!(module.parity<<<blocks, BLOCK, 0, stream>>>(
                wholes.as_device_ptr(), singles.as_device_ptr(), doubles.as_device_ptr(),
                folded.as_device_ptr(), place.as_device_ptr(), ask.elements, ask.seed))
        }
        .map_err(refused("launching the parity kernel"))?;
        let end = gpu.mark()?;
        gpu.wait(&end, Duration::ZERO)?;
        let took = end.elapsed(&start).map_err(refused("reading the die's clock"))?;

        let (wholes, singles) = (fetch(wholes, 0)?, fetch(singles, 0.0)?);
        let (doubles, folded, place) = (fetch(doubles, 0.0)?, fetch(folded, 0)?, fetch(place, 0)?);
        let mut report = wire::Compared {
            elements: ask.elements,
            wrong_integers: 0,
            wrong_singles: 0,
            wrong_doubles: 0,
            parity_agrees: false,
            suspects: Vec::new(),
            ms: took.as_secs_f64() * 1e3,
        };
        let mut suspects = BTreeSet::new();
        for (i, index) in (0..ask.elements).enumerate() {
            let start = mix(ask.seed ^ index);
            let wrong = [
                wholes[i] != whole(start),
                singles[i].to_bits() != single(start).to_bits(),
                doubles[i].to_bits() != double(start).to_bits(),
            ];
            report.wrong_integers += u32::from(wrong[0]);
            report.wrong_singles += u32::from(wrong[1]);
            report.wrong_doubles += u32::from(wrong[2]);
            if wrong.contains(&true) {
                suspects.insert(place[(index / BLOCK % blocks) as usize]);
            }
        }
        // Of what the die has stored: where every element is right, only the folding can be wrong.
        let fold = [
            wholes.iter().fold(0, |fold, x| fold ^ x),
            singles.iter().fold(0, |fold, x| fold ^ x.to_bits()),
            doubles.iter().fold(0, |fold, x| fold ^ halves(x.to_bits())),
        ];
        report.parity_agrees = folded == fold;
        report.suspects = suspects.into_iter().collect();
        Ok(report)
    }
}

/// Both halves of a word, one over the other.
fn halves(bits: u64) -> u32 {
    let half = |bits: u64| u32::try_from(bits & 0xffff_ffff).expect("32 bits");
    half(bits) ^ half(bits >> 32)
}

fn fetch<T: DeviceCopy>(from: &DeviceBuffer<T>, empty: T) -> Result<Vec<T>, Failure> {
    let mut to = vec![empty; from.len()];
    from.copy_to(&mut to).map_err(refused("copying results"))?;
    Ok(to)
}
