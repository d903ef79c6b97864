//! What die-check can do, a file each.

mod all;
mod identify;
mod memtest;
mod parity;
mod persist;
mod plan;

use vfio_park::Bdf;

use crate::{
    crew::Worker,
    door::AlwaysOpen,
    failure::Failure,
    guard::DieGuard,
    options::{Cli, Verb},
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
            identify::identify(run, take(run, target.pci)?, *seconds)
        }
        Verb::Persist(ask) => {
            let dies = ask.targets.pci.iter().map(|&pci| take(run, pci));
            persist::persist(run, dies, ask.seconds, false)
        }
        Verb::Memtest(ask) => memtest::memtest(run, take(run, ask.target.pci)?, &ask.into()),
        Verb::Parity { target, times } => parity::parity(run, take(run, target.pci)?, *times),
        Verb::All { targets, size, seconds } => {
            let scope = memtest::Scope { size: *size, chunk: None, passes: 1, plant: None };
            all::all(run, &targets.pci, |&pci| take(run, pci), &scope, *seconds)
        }
        Verb::Worker => unreachable!("main serves it"),
    }
}

fn take<'a>(run: &Run<'a>, pci: Bdf) -> Result<DieGuard<'a>, Failure> {
    DieGuard::take(Box::new(AlwaysOpen(pci)), run.options, run.stop)
}
