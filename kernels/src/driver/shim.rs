//! The driver's functions, defined here: `cust` links against these, and each goes on to the function of
//! its name in the library that `load` opened. So the program has no link to libcuda, starts on a machine
//! without a driver, and builds on one without CUDA.
//!
//! Two kinds. Most are bare jumps, written by build.rs, that `cust` may refer to and this program never
//! calls. The `checked!` ones are those it does call: they note the driver's own result code, which
//! `cust`'s error type cannot hold (222, PTX too new, becomes "unknown" there), and turn codes that
//! CUDA 11.4 did not know into 999, since `cust` would read them into an enum that has no such value.
#![allow(unsafe_code, reason = "this is the border to a C library that is opened at run time")]
#![allow(non_snake_case, reason = "the names are the driver's")]

use std::{
    cell::{Cell, RefCell},
    ffi::{CStr, CString, c_char, c_float, c_int, c_uint, c_void},
    path::{Path, PathBuf},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use thiserror::Error;

include!(concat!(env!("OUT_DIR"), "/jumps.rs"));

unsafe extern "C" {
    #[link_name = "die_check_jumps"]
    static mut SLOTS: [*const c_void; JUMPS.len()];
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;
const SUCCESS: u32 = 0;
const STUB_LIBRARY: u32 = 34;
const NOT_READY: u32 = 600;
const UNKNOWN: u32 = 999;

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(SUCCESS) };
    static LOG: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The driver's code for the failure that `cust` has just reported on this thread.
pub(crate) fn last_code() -> u32 {
    LAST.get()
}

/// What the driver's PTX compiler said about the module that it refused last on this thread.
pub(crate) fn compiler_log() -> String {
    LOG.take()
}

/// Whether CUDA 11.4 knew the code, that is, whether `cust`'s enum has a value for it.
fn is_known(code: u32) -> bool {
    matches!(code, 0..=8 | 34 | 100..=102 | 200..=202 | 205..=224 | 300..=304 | 400 | 401 | 500 | 600
        | 700..=705 | 708..=720 | 800..=809 | 900..=911 | UNKNOWN)
}

fn note(code: u32) -> u32 {
    if code != SUCCESS && code != NOT_READY {
        LAST.set(code);
    }
    if is_known(code) { code } else { UNKNOWN }
}

/// The table of checked functions: the slot that `load` fills, by name.
struct Checked {
    name: &'static str,
    slot: &'static AtomicPtr<c_void>,
    /// Named so that no linker leaves the wrapper out.
    wrapper: *const (),
}

macro_rules! checked {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
                let target = slots::$name.load(Ordering::Acquire);
                if target.is_null() {
                    return note(STUB_LIBRARY);
                }
                // SAFETY: the slot holds the function of this name in NVIDIA's library, which has had
                // this signature under this (versioned) name since CUDA 4; the arguments are the caller's.
                note(unsafe {
                    let call: unsafe extern "C" fn($($type),*) -> u32 = std::mem::transmute(target);
                    call($($arg),*)
                })
            }
        )*

        #[allow(non_upper_case_globals, reason = "the names are the driver's")]
        mod slots {
            use super::{AtomicPtr, c_void, ptr};

            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());)*
            pub(super) static cuModuleLoadDataEx: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        }

        fn all_checked() -> Vec<Checked> {
            macro_rules! entry {
                ($entry:ident) => {
                    Checked {
                        name: stringify!($entry),
                        slot: &slots::$entry,
                        wrapper: $entry as *const (),
                    }
                };
            }
            vec![$(entry!($name),)* entry!(cuModuleLoadDataEx)]
        }
    };
}

type Handle = *mut c_void;
type Address = u64;

checked! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut c_int, ordinal: c_int);
    cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int);
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int);
    cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: c_int);
    cuDeviceGetByPCIBusId(device: *mut c_int, text: *const c_char);
    cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int);
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint);
    cuCtxSetCurrent(context: Handle);
    cuCtxSynchronize();
    cuModuleUnload(module: Handle);
    cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
    cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int);
    cuStreamDestroy_v2(stream: Handle);
    cuLaunchKernel(function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: Handle, args: *mut Handle,
        extra: *mut Handle);
    cuEventCreate(event: *mut Handle, flags: c_uint);
    cuEventRecord(event: Handle, stream: Handle);
    cuEventQuery(event: Handle);
    cuEventElapsedTime(ms: *mut c_float, start: Handle, end: Handle);
    cuEventDestroy_v2(event: Handle);
    cuMemAlloc_v2(address: *mut Address, bytes: usize);
    cuMemFree_v2(address: Address);
    cuMemsetD8_v2(address: Address, value: u8, bytes: usize);
    cuMemsetD32Async(address: Address, value: c_uint, words: usize, stream: Handle);
    cuMemcpyHtoD_v2(to: Address, from: *const c_void, bytes: usize);
    cuMemcpyDtoH_v2(to: *mut c_void, from: Address, bytes: usize);
    cuMemcpyDtoDAsync_v2(to: Address, from: Address, bytes: usize, stream: Handle);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
}

const JIT_ERROR_LOG_BUFFER: c_uint = 5;
const JIT_ERROR_LOG_BUFFER_SIZE: c_uint = 6;
const LOG_BYTES: usize = 8192;

/// As the driver's, and asks for the compiler's log, which `cust` does not. Options of the caller would
/// be lost, so they are refused; `cust::Module::from_ptx(_, &[])` gives none.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    count: c_uint,
    _options: *mut c_uint,
    _values: *mut Handle,
) -> u32 {
    type Load =
        unsafe extern "C" fn(*mut Handle, *const c_void, c_uint, *mut c_uint, *mut Handle) -> u32;
    let target = slots::cuModuleLoadDataEx.load(Ordering::Acquire);
    if target.is_null() || count != 0 {
        return note(STUB_LIBRARY);
    }
    let mut log = vec![0_u8; LOG_BYTES];
    let mut options = [JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE];
    // The driver takes a small value in the pointer's place.
    let mut values: [Handle; 2] = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_BYTES)];
    // SAFETY: as for every checked function; log, options and values outlive the call.
    let code = note(unsafe {
        let call: Load = std::mem::transmute(target);
        call(module, image, 2, options.as_mut_ptr(), values.as_mut_ptr())
    });
    let text = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
    LOG.set(text.trim().to_owned());
    code
}

/// The driver's library could not be opened.
#[derive(Debug, Error)]
#[error("cannot open {}: {reason}", .path.display())]
pub(crate) struct LoadError {
    path: PathBuf,
    reason: String,
}

/// Opens the driver's library and fills every slot that it has a function for; the others go on to
/// answer 34, stub library. To be called once, before any call of `cust`, while there is one thread.
pub(crate) fn load(path: &Path) -> Result<(), LoadError> {
    let refuse = |reason: String| LoadError { path: path.to_owned(), reason };
    let file = CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| refuse("the name holds a NUL".to_owned()))?;
    // SAFETY: a NUL-terminated name. Opening NVIDIA's library runs its constructors, which touch no device.
    let library = unsafe { dlopen(file.as_ptr(), RTLD_NOW) };
    if library.is_null() {
        // SAFETY: after a failed dlopen this is a NUL-terminated text, and no other thread calls dl*.
        let reason = unsafe { CStr::from_ptr(dlerror()) }.to_string_lossy().into_owned();
        return Err(refuse(reason));
    }
    let find = |name: &str| {
        let name = CString::new(name).expect("names hold no NUL");
        // SAFETY: an open library and a NUL-terminated name; a name that is not there gives null.
        unsafe { dlsym(library, name.as_ptr()) }
    };
    for checked in all_checked() {
        debug_assert!(!checked.wrapper.is_null());
        checked.slot.store(find(checked.name), Ordering::Release);
    }
    for (index, name) in JUMPS.iter().enumerate() {
        let target = find(name);
        if !target.is_null() {
            // SAFETY: within the table, which is written here only, before anything jumps through it.
            unsafe { (&raw mut SLOTS).cast::<*const c_void>().add(index).write(target) };
        }
    }
    Ok(())
}
