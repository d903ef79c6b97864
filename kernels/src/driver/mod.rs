//! NVIDIA's driver: opening its library, and what its refusals mean.

mod shim;

use cust::error::CudaError;

pub(crate) use self::shim::{compiler_log, load};
use crate::failure::{Failure, Kind};

/// What driver 470 and a K80 call it; every other driver has it under this name too.
pub(crate) const LIBRARY: &str = "libcuda.so.1";

/// The failure of a driver call; `operation` says in a few words what was wanted.
/// To be called on the thread that made the call, right after it: only there is the driver's code known.
pub(crate) fn refused(operation: &str) -> impl FnOnce(CudaError) -> Failure + '_ {
    move |error| {
        // `cust` has codes of its own above the driver's.
        let own = error as u32;
        let code = if own > 999 { own } else { shim::last_code() };
        Failure::new(kind(code), format!("{operation}: {}", meaning(code, error))).with_code(code)
    }
}

/// What a code of the driver says about where the fault lies.
fn kind(code: u32) -> Kind {
    match code {
        34 | 803 | 804 => Kind::NoDriver,
        100 | 101 | 46 => Kind::NoDie,
        209 | 218 | 221 | 222 => Kind::PtxRefused,
        702 => Kind::TimedOut,
        214 | 220 | 700 | 709 | 710 | 714..=719 | 721 => Kind::ContextLost,
        _ => Kind::Driver,
    }
}

/// The code in words, where the operator can do something about it; else CUDA's name for it.
fn meaning(code: u32, error: CudaError) -> String {
    let text = match code {
        2 => "the die's memory is full",
        34 => "this driver library lacks the function, or is only a stub",
        46 | 100 | 101 => "the driver shows no such die",
        209 => "this GPU is older than sm_37, for which the kernels are",
        214 => "an uncorrectable memory error (ECC)",
        218 => "the driver's compiler refuses the PTX",
        222 => "the driver is too old for this PTX: it was made for CUDA 11.2, driver 460 or newer",
        700 => "a kernel touched memory that is not its own; the context is lost",
        702 => "the driver ended a kernel that ran too long",
        718 | 719 => "a kernel fell over; the context is lost",
        803 => {
            "driver library and kernel module are of different versions: reboot, or reload nvidia"
        }
        999 => "the driver does not know what is wrong either; see the kernel log for NVRM: Xid",
        _ => return format!("{error:?} (CUDA error {code})"),
    };
    format!("{text} (CUDA error {code})")
}
