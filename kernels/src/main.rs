//! die-check: proves, finds and checks a die from CUDA.
//!
//! | module | what it is |
//! |---|---|
//! | [`options`] | the command line |
//! | [`verbs`] | what it can do |
//! | [`guard`] | a die in use, given back in order whatever happens |
//! | [`door`] | the way to a die: slotd, or none |
//! | [`crew`], [`wire`] | the process with the context, as seen from outside |
//! | [`worker`], [`driver`] | the same from inside: CUDA is here and nowhere else |

mod crew;
mod door;
mod driver;
mod failure;
mod guard;
mod options;
mod report;
mod run;
mod stop;
mod verbs;
mod visible;
mod wire;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use self::{
    failure::Kind,
    options::{Cli, Verb},
    stop::Stop,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    if matches!(cli.verb, Verb::Worker) {
        return worker::serve();
    }
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => {
            eprintln!("die-check: catching signals: {error}");
            return ExitCode::from(Kind::Internal.code());
        }
    };
    match verbs::dispatch(&cli, &stop) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("die-check: {failure}");
            let stopped = failure.kind == Kind::Stopped;
            ExitCode::from(if stopped { stop.exit_code() } else { failure.kind.code() })
        }
    }
}
