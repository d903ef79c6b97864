//! What plain memset and copy reach on this die: the yardstick for the memory test's throughput.
#![allow(unsafe_code, reason = "asynchronous memset and copy are only in cust's raw bindings")]

use std::time::Duration;

use cust::{error::CudaError, sys};

use super::{device::Gpu, memory::Chunk};
use crate::{driver::refused, failure::Failure, report::float};

/// Each is done this often; the best counts, so that the bar is never too low.
const TURNS: usize = 5;
/// Bytes that a turn goes over, at the most.
const MOST: u64 = 16 << 30;

/// Bytes a second that are written by memset, and that are read and written by a copy (both counted).
pub(crate) fn measure(gpu: &Gpu, chunks: &[Chunk]) -> Result<(f64, f64), Failure> {
    let mut left = MOST;
    let some: Vec<&Chunk> = chunks
        .iter()
        .take_while(|chunk| {
            let fits = left > 0;
            left = left.saturating_sub(chunk.bytes);
            fits
        })
        .collect();
    let stream = gpu.stream.as_inner();
    let memset = best(gpu, || {
        let mut bytes = 0;
        for chunk in &some {
            let words = chunk.memory.len();
            // SAFETY: the chunk is that many words long.
            let code = unsafe { sys::cuMemsetD32Async(start(chunk), 0x5555_5555, words, stream) };
            check(code, "setting memory")?;
            bytes += chunk.bytes;
        }
        Ok(bytes)
    })?;
    let copy = best(gpu, || {
        let mut bytes = 0;
        for chunk in &some {
            let half = chunk.memory.len() / 2 * 4;
            // SAFETY: the two halves of the chunk, which do not overlap.
            let code = unsafe {
                sys::cuMemcpyDtoDAsync_v2(start(chunk) + half as u64, start(chunk), half, stream)
            };
            check(code, "copying memory")?;
            bytes += 2 * half as u64;
        }
        Ok(bytes)
    })?;
    Ok((memset, copy))
}

fn start(chunk: &Chunk) -> u64 {
    chunk.memory.as_device_ptr().as_raw()
}

fn check(code: sys::cudaError_enum, operation: &str) -> Result<(), Failure> {
    if code == sys::cudaError_enum::CUDA_SUCCESS {
        return Ok(());
    }
    Err(refused(operation)(CudaError::UnknownError))
}

fn best(gpu: &Gpu, mut queue: impl FnMut() -> Result<u64, Failure>) -> Result<f64, Failure> {
    let mut best = 0.0_f64;
    for _ in 0..TURNS {
        let start = gpu.mark()?;
        let bytes = queue()?;
        let end = gpu.mark()?;
        gpu.wait(&end, Duration::ZERO)?;
        let ms = end.elapsed_time_f32(&start).map_err(refused("reading the die's clock"))?;
        best = best.max(float(bytes) / (f64::from(ms).max(1e-3) / 1e3));
    }
    Ok(best)
}
