//! The process that has the CUDA context: it does one request after another and ends in order.
//!
//! It is a process of its own for two reasons. What the driver may see is fixed when it starts, so the
//! choice of the die has to stand in the environment before. And the die's lease is held by die-check,
//! which gives it back only when this process is gone: there is no way for it to end, be killed or crash
//! that would leave a context on a die that is out of the slot because of it.

mod arithmetic;
mod busy;
mod device;
mod memory;
mod parity;
mod persist;
mod yardstick;

use std::{
    io::{BufRead, BufReader, Write, stdin, stdout},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use cust::context::CurrentContext;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use self::{busy::Busy, device::Gpu, memory::Memory, parity::Parity, persist::Persist};
use crate::{
    failure::{Failure, Kind},
    wire::{self, Command, Reply, Request},
};

/// Everything on the die. The order of the fields is the order in which it is taken down, by `close` as
/// well as by an error's or a panic's way out.
struct Bench {
    synchronise: SynchroniseFirst,
    busy: Option<Busy>,
    persist: Option<Persist>,
    memory: Option<Memory>,
    parity: Option<Parity>,
    gpu: Gpu,
}

/// Waits for the die when it is dropped: nothing is taken from under a kernel.
struct SynchroniseFirst;

impl Drop for SynchroniseFirst {
    fn drop(&mut self) {
        // An error here is that of a lost context; there is nothing left to wait for then.
        let _ = CurrentContext::synchronize();
    }
}

/// What is to happen after a request.
enum Next {
    GoOn,
    End,
    /// End at once, without taking anything down.
    Drop,
}

/// Serves requests from standard input until it is told to close, or until nobody asks any more.
pub(crate) fn serve() -> ExitCode {
    // Who ends this process is die-check, in order. A terminal's Ctrl-C and a service manager's SIGTERM
    // come to the whole group; the flag is never read.
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&ignored)) {
            eprintln!("die-check worker: cannot catch signal {signal}: {error}");
            return ExitCode::FAILURE;
        }
    }
    let mut bench = None;
    for line in BufReader::new(stdin()).lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line).map(|command| obey(&mut bench, command)) {
            Ok(Next::GoOn) => {}
            Ok(Next::End) => return ExitCode::SUCCESS,
            Ok(Next::Drop) => leave(),
            Err(error) => {
                eprintln!("die-check worker: no such request: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    // die-check has gone without a word. What is on the die goes in order.
    drop(bench);
    ExitCode::SUCCESS
}

fn obey(bench: &mut Option<Bench>, command: Command) -> Next {
    match command {
        Command::Probe(ask) => {
            answer::<wire::Probe>(device::load(&ask.library).map(|()| wire::Probed {}))
        }
        Command::Open(ask) => answer::<wire::Open>(Gpu::open(&ask).map(|gpu| {
            let about = gpu.about.clone();
            *bench = Some(Bench {
                synchronise: SynchroniseFirst,
                busy: None,
                persist: None,
                memory: None,
                parity: None,
                gpu,
            });
            about
        })),
        Command::Close(ask) => close(bench.take(), ask.fast),
        command => match bench {
            Some(bench) => work(bench, command),
            None => answer::<wire::Close>(Err(Failure::new(Kind::Internal, "no die is open"))),
        },
    }
}

fn work(bench: &mut Bench, command: Command) -> Next {
    let gpu = &bench.gpu;
    match command {
        Command::Busy(ask) => answer::<wire::Busy>(
            made(&mut bench.busy, || Busy::new(gpu)).and_then(|busy| busy.run(gpu, ask.ms)),
        ),
        Command::Calibrate(ask) => answer::<wire::Calibrate>(
            made(&mut bench.persist, || Persist::new(gpu))
                .and_then(|persist| persist.calibrate(gpu, ask.ms)),
        ),
        Command::Launch(ask) => answer::<wire::Launch>(
            made(&mut bench.persist, || Persist::new(gpu))
                .and_then(|persist| persist.launch(gpu, &ask)),
        ),
        Command::Collect(_) => answer::<wire::Collect>(
            made(&mut bench.persist, || Persist::new(gpu)).and_then(|persist| persist.collect(gpu)),
        ),
        Command::Reserve(ask) => {
            bench.memory = None;
            answer::<wire::Reserve>(made(&mut bench.memory, || Memory::new(gpu, &ask)).and_then(
                |memory| {
                    let (memset, copy) = yardstick::measure(gpu, &memory.chunks)?;
                    let chunks = memory.chunks.len() as u64;
                    Ok(wire::Reserved { bytes: memory.bytes(), chunks, memset, copy })
                },
            ))
        }
        Command::Sweep(ask) => {
            answer::<wire::Sweep>(reserved(&mut bench.memory).and_then(|m| m.sweep(gpu, &ask)))
        }
        Command::Findings(_) => {
            answer::<wire::Findings>(reserved(&mut bench.memory).and_then(|m| m.findings()))
        }
        Command::Plant(ask) => {
            answer::<wire::Plant>(reserved(&mut bench.memory).and_then(|m| m.plant(&ask)))
        }
        Command::Parity(ask) => answer::<wire::Parity>(
            made(&mut bench.parity, || Parity::new(gpu)).and_then(|parity| parity.run(gpu, &ask)),
        ),
        Command::Probe(_) | Command::Open(_) | Command::Close(_) => unreachable!("handled above"),
    }
}

fn made<T>(
    part: &mut Option<T>,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<&mut T, Failure> {
    match part {
        Some(part) => Ok(part),
        None => Ok(part.insert(make()?)),
    }
}

fn reserved(memory: &mut Option<Memory>) -> Result<&mut Memory, Failure> {
    memory.as_mut().ok_or_else(|| Failure::new(Kind::Internal, "no memory is reserved"))
}

fn close(bench: Option<Bench>, fast: bool) -> Next {
    let before = Instant::now();
    let closed = match bench {
        Some(bench) if fast => {
            let done = bench.gpu.synchronise();
            // What is on the die stays, for the kernel to reclaim.
            std::mem::forget(bench);
            done
        }
        Some(Bench { synchronise, busy, persist, memory, parity, gpu }) => {
            drop(synchronise);
            drop((busy, persist, memory, parity));
            gpu.close()
        }
        None => Ok(()),
    };
    let ms = before.elapsed().as_secs_f64() * 1e3;
    match (answer::<wire::Close>(closed.map(|()| wire::Closed { ms })), fast) {
        (Next::GoOn, false) => Next::End,
        _ => Next::Drop,
    }
}

/// Sends the answer, and says how to go on after it.
fn answer<R: Request>(outcome: Result<R::Answer, Failure>) -> Next {
    // A launch that does not end is not waited for: taking anything down would wait for it. The kernel
    // ends it when this process has gone, while die-check still holds the lease.
    let hung = matches!(&outcome, Err(failure) if failure.kind == Kind::TimedOut);
    let sent = send(&match outcome {
        Ok(done) => Reply::Done(done),
        Err(failure) => Reply::Failed(failure),
    });
    match (sent, hung) {
        (_, true) => Next::Drop,
        (true, false) => Next::GoOn,
        // Nobody listens any more.
        (false, false) => Next::End,
    }
}

fn send<T: Serialize>(reply: &Reply<T>) -> bool {
    let Ok(mut line) = serde_json::to_vec(reply) else { return false };
    line.push(b'\n');
    let mut out = stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).is_ok()
}

/// Ends the process without its exit handlers: libcuda's take down what is left of a context, which is
/// where processes were seen to hang for ever on dies that take turns.
#[allow(unsafe_code, reason = "no safe function skips the exit handlers")]
fn leave() -> ! {
    unsafe extern "C" {
        fn _exit(code: i32) -> !;
    }
    // SAFETY: ends the process; nothing after it relies on a destructor.
    unsafe { _exit(0) }
}

/// Rounds that take `wanted`, where `rounds` took `took`.
fn scale(rounds: u32, took: Duration, wanted: Duration) -> u32 {
    let factor = wanted.as_secs_f64() / took.as_secs_f64().max(1e-6);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to u32")]
    let scaled = (f64::from(rounds) * factor).clamp(1.0, f64::from(u32::MAX)) as u32;
    scaled
}

/// A number of elements, of which there are fewer than 2^32.
fn count(elements: usize) -> u32 {
    u32::try_from(elements).unwrap_or(u32::MAX)
}
