//! `slotd`: lets dies take turns in a range of addresses.

mod options;

use std::{error::Error, io::IsTerminal, os::unix::net::UnixStream, process::ExitCode};

use clap::Parser;
use slotd::{
    daemon::{DaemonError, serve},
    service::{End, ListenError, Listener},
};
use thiserror::Error;
use tracing_subscriber::EnvFilter;
use vfio_park::planner::{self, Request};

use self::options::{Options, OptionsError};

/// Exit codes, as `slotd --help` tells them.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Code {
    Failed = 1,
    Hanging = 4,
}

/// Why slotd ends.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    #[error("catch signals")]
    Signals(#[source] std::io::Error),
}

fn main() -> ExitCode {
    // Where this process is the helper of another slotd, it does its one write and ends here.
    vfio_park::linux::helper();
    let options = Options::parse();
    log(options.quiet);
    match run(&options) {
        Ok(End::Clean | End::Killed) => ExitCode::SUCCESS,
        Ok(End::Hanging) => {
            eprintln!(
                "slotd: an operation never came back: its die is wedged, a power cycle heals it"
            );
            ExitCode::from(Code::Hanging as u8)
        }
        Err(failure) => {
            eprint!("slotd: {failure}");
            let mut source = failure.source();
            while let Some(error) = source {
                eprint!(": {error}");
                source = error.source();
            }
            eprintln!();
            ExitCode::from(Code::Failed as u8)
        }
    }
}

fn log(quiet: bool) {
    let usual = if quiet { "warn" } else { "info" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let format = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    format.with_writer(std::io::stderr).init();
}

fn run(options: &Options) -> Result<End, Failure> {
    let setup = options.setup()?;
    if options.dry_run {
        let survey = setup.machine.survey().map_err(DaemonError::from)?;
        let plan = planner::plan(&survey, &Request { slots: setup.slots, gate: setup.manner.gate });
        println!("{plan}");
        return Ok(End::Clean);
    }
    let (signals, control) = UnixStream::pair().map_err(Failure::Signals)?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        let writer = signals.try_clone().map_err(Failure::Signals)?;
        signal_hook::low_level::pipe::register(signal, writer).map_err(Failure::Signals)?;
    }
    let listener = Listener::new(&options.socket)?;
    tracing::info!(machine = setup.name, "serving");
    Ok(serve(setup, listener, control)?)
}
