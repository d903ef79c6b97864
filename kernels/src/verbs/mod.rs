//! What die-check can do, a file each.

mod all;
mod identify;
mod memtest;
mod parity;
mod persist;
mod plan;

use clap::{CommandFactory, error::ErrorKind};

use crate::{
    crew::Worker,
    door::{AlwaysOpen, Door, Slotd, all_dies},
    failure::Failure,
    guard::DieGuard,
    options::{Aim, Cli, Verb},
    run::Run,
    stop::Stop,
};

/// Does what the command line says.
pub(crate) fn dispatch(cli: &Cli, stop: &Stop) -> Result<(), Failure> {
    let run = &Run { options: &cli.options, stop };
    // Before a die is disturbed for nothing.
    Worker::probe(&run.options.libcuda, stop)?;
    match &cli.verb {
        Verb::Identify { target, seconds } => {
            identify::identify(run, take(run, &target.aim())?, *seconds)
        }
        Verb::Persist(ask) => {
            let aims = ask.targets.aims();
            if aims.is_empty() {
                Cli::command().error(ErrorKind::MissingRequiredArgument, "name a die").exit();
            }
            persist::persist(run, aims.iter().map(|aim| take(run, aim)), ask.seconds)
        }
        Verb::Memtest(ask) => memtest::memtest(run, take(run, &ask.target.aim())?, &ask.into()),
        Verb::Parity { target, times } => parity::parity(run, take(run, &target.aim())?, *times),
        Verb::All { targets, size, seconds } => {
            let mut aims = targets.aims();
            if aims.is_empty() {
                let dies = all_dies(&run.options.socket())?;
                aims = dies.iter().map(|bdf| Aim::Die(bdf.to_string())).collect();
            }
            let scope = memtest::Scope { size: *size, chunk: None, passes: 1, plant: None };
            all::all(run, &aims, |aim| take(run, aim), &scope, *seconds)
        }
        Verb::Worker => unreachable!("main serves it"),
    }
}

fn take<'a>(run: &Run<'a>, aim: &Aim) -> Result<DieGuard<'a>, Failure> {
    let door: Box<dyn Door> = match aim {
        Aim::Die(die) => Box::new(Slotd::new(&run.options.socket(), die)),
        Aim::Gpu(pci) => Box::new(AlwaysOpen(*pci)),
    };
    DieGuard::take(door, run.options, run.stop)
}
