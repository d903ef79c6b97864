//! `slotctl`: talks to slotd from the shell.

mod args;
mod cmd;
mod exit;
mod hold;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use self::{
    args::{Args, Command},
    exit::Failure,
    output::Output,
};

fn main() -> ExitCode {
    let args = Args::parse();
    let output = Output::new(args.json);
    match run(&args, output) {
        Ok(code) => code,
        Err(failure) => {
            output.failure(&failure);
            failure.exit_code(args.runs_a_command())
        }
    }
}

fn run(args: &Args, output: Output) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Status(options) => cmd::status::run(args, options, output),
        Command::Acquire(options) => cmd::acquire::run(args, options, output),
        Command::Release(options) => cmd::release::run(args, options, output),
        Command::Park(options) => cmd::park::run(args, options, output),
        Command::Plan(options) => cmd::plan::run(args, options, output),
        Command::Identify(options) => cmd::check::identify(args, options),
        Command::Check(options) => cmd::check::check(args, options),
    }
}
