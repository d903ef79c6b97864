//! The context on one die and what lives in it, taken down in the order that the driver wants.
#![allow(unsafe_code, reason = "device selection by PCI address is only in cust's raw bindings")]
#![allow(
    clippy::unused_self,
    reason = "a Gpu stands for the current context, which calls go to unsaid"
)]

use std::{
    ffi::{CStr, CString, c_char},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use cust::{
    context::{Context, ContextFlags, CurrentContext},
    device::{Device, DeviceAttribute},
    error::CudaError,
    event::{Event, EventFlags, EventStatus},
    memory::{DeviceBuffer, DeviceCopy, mem_get_info},
    module::Module,
    stream::{Stream, StreamFlags},
    sys,
};
use vfio_park::Bdf;

use crate::{
    driver::{self, refused},
    failure::{Failure, Kind},
    wire,
};

/// Threads a block, in every launch.
pub(crate) const BLOCK: u32 = 256;

/// A context on one GPU. Dropping it takes the stream and the context down; whatever was made in it
/// (buffers, modules) has to be dropped before, which the worker's field order does.
pub(crate) struct Gpu {
    // Dropped in this order.
    pub(crate) stream: Stream,
    context: Context,
    pub(crate) about: wire::Opened,
    /// How long one launch may take.
    pub(crate) limit: Duration,
}

impl Gpu {
    /// Opens the driver, finds the GPU by its PCI address and makes a context there.
    pub(crate) fn open(request: &wire::Open) -> Result<Self, Failure> {
        load(&request.library)?;
        cust::init(cust::CudaFlags::empty()).map_err(refused("starting the driver"))?;
        let device = find(request.pci)?;
        // A kernel that is waited for must not take a processor with it: the box may have two of them.
        // Refused where the context exists already, which cannot be in a process that has just begun.
        // SAFETY: a device that the driver gave.
        let _ = unsafe {
            sys::cuDevicePrimaryCtxSetFlags_v2(
                device.as_raw(),
                ContextFlags::SCHED_BLOCKING_SYNC.bits(),
            )
        };
        let about = describe(device, request.pci).map_err(refused("asking for the die's data"))?;
        let context = Context::new(device).map_err(refused("making a context on the die"))?;
        let stream = Stream::new(StreamFlags::DEFAULT, None)
            .map_err(refused("making a stream on the die"))?;
        let limit = Duration::from_millis(request.launch_limit_ms);
        let mut gpu = Self { stream, context, about, limit };
        gpu.about.free = gpu.memory()?.0 as u64;
        Ok(gpu)
    }

    /// Blocks for a launch that is to fill the die `times` over.
    pub(crate) fn blocks(&self, times: u32) -> u32 {
        self.about.multiprocessors.max(1) * times
    }

    /// Notes the present point of the stream.
    pub(crate) fn mark(&self) -> Result<Event, Failure> {
        let event = Event::new(EventFlags::DEFAULT).map_err(refused("making an event"))?;
        event.record(&self.stream).map_err(refused("recording an event"))?;
        Ok(event)
    }

    /// Waits until the stream has come to `event`, at most `limit` more than launches may take.
    ///
    /// It asks, in steps of a small part of the time that has passed. The driver offers no descriptor to wait on, and its own wait knows no
    /// limit: on a die that hangs it would never come back.
    pub(crate) fn wait(&self, event: &Event, expected: Duration) -> Result<(), Failure> {
        let (start, limit) = (Instant::now(), self.limit + expected);
        loop {
            if event.query().map_err(refused("waiting for the die"))? == EventStatus::Ready {
                return Ok(());
            }
            if start.elapsed() > limit {
                return Err(Failure::new(
                    Kind::TimedOut,
                    format!(
                        "a launch has not ended after {:.1} s: the die hangs, or is out of the slot",
                        limit.as_secs_f64()
                    ),
                ));
            }
            let step = start.elapsed() / 64;
            thread::sleep(step.clamp(Duration::from_micros(20), Duration::from_millis(2)));
        }
    }

    /// A buffer of `len` elements that are all zero bytes.
    pub(crate) fn zeroed<T: DeviceCopy>(&self, len: usize) -> Result<DeviceBuffer<T>, Failure> {
        // SAFETY: written before it is read, by the memset.
        let buffer = unsafe { DeviceBuffer::<T>::uninitialized(len) }
            .map_err(refused("taking memory on the die"))?;
        let bytes = len * size_of::<T>();
        // SAFETY: `bytes` is the buffer's length.
        let code = unsafe { sys::cuMemsetD8_v2(buffer.as_device_ptr().as_raw(), 0, bytes) };
        if code != sys::cudaError_enum::CUDA_SUCCESS {
            return Err(refused("clearing memory on the die")(CudaError::UnknownError));
        }
        Ok(buffer)
    }

    /// The kernels of one source file, compiled by the driver for this die.
    pub(crate) fn module(&self, ptx: &str) -> Result<Module, Failure> {
        Module::from_ptx(ptx, &[]).map_err(|error| {
            let failure = refused("loading the kernels")(error);
            match driver::compiler_log() {
                log if log.is_empty() => failure,
                log => Failure { text: format!("{}: {log}", failure.text), ..failure },
            }
        })
    }

    /// Free and total memory of the GPU, as the driver counts it: what others took is counted too.
    pub(crate) fn memory(&self) -> Result<(usize, usize), Failure> {
        mem_get_info().map_err(refused("asking for the die's memory"))
    }

    /// Waits for everything on the die, without a limit.
    pub(crate) fn synchronise(&self) -> Result<(), Failure> {
        CurrentContext::synchronize().map_err(refused("synchronising with the die"))
    }

    /// Stream, then context, with their errors.
    pub(crate) fn close(self) -> Result<(), Failure> {
        self.synchronise()?;
        Stream::drop(self.stream).map_err(|(e, _)| refused("taking the stream down")(e))?;
        Context::drop(self.context).map_err(|(e, _)| refused("taking the context down")(e))
    }
}

/// Opens the driver's library.
pub(crate) fn load(library: &str) -> Result<(), Failure> {
    driver::load(Path::new(library)).map_err(|error| {
        let text = format!(
            "there is no NVIDIA driver here: {error}. Install the driver (the 470 series for a K80), or \
             name its library with --libcuda"
        );
        Failure::new(Kind::NoDriver, text)
    })
}

/// The GPU at `pci`; never by a number, which visibility and power-on order change.
fn find(pci: Bdf) -> Result<Device, Failure> {
    let operation = format!("looking for {pci}");
    let text = CString::new(pci.to_string()).expect("digits and colons");
    let mut raw = 0;
    // SAFETY: an int to write to and a NUL-terminated text.
    if unsafe { sys::cuDeviceGetByPCIBusId(&raw mut raw, text.as_ptr()) }
        != sys::cudaError_enum::CUDA_SUCCESS
    {
        return Err(refused(&operation)(CudaError::InvalidDevice));
    }
    // `cust` makes a Device of an ordinal only.
    Device::devices()
        .map_err(refused(&operation))?
        .filter_map(Result::ok)
        .find(|device| device.as_raw() == raw && address(device) == Some(pci))
        .ok_or_else(|| {
            Failure::new(Kind::NoDie, format!("{operation}: the driver contradicts itself"))
        })
}

fn address(device: &Device) -> Option<Bdf> {
    let mut text = [0 as c_char; 32];
    // SAFETY: a buffer of the length given.
    let code = unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), 32, device.as_raw()) };
    if code != sys::cudaError_enum::CUDA_SUCCESS {
        return None;
    }
    // SAFETY: the driver has written a NUL-terminated text.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().ok()?.parse().ok()
}

fn describe(device: Device, pci: Bdf) -> Result<wire::Opened, CudaError> {
    let ask = |what| device.get_attribute(what).map(i32::unsigned_abs);
    let version = cust::CudaApiVersion::get()?;
    Ok(wire::Opened {
        name: device.name()?,
        pci,
        memory: device.total_memory()? as u64,
        free: 0,
        multiprocessors: ask(DeviceAttribute::MultiprocessorCount)?,
        capability: (
            ask(DeviceAttribute::ComputeCapabilityMajor)?,
            ask(DeviceAttribute::ComputeCapabilityMinor)?,
        ),
        cuda: (version.major(), version.minor()),
    })
}
