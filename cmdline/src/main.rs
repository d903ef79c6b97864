//! `slot-cmdline`: see the library of the same name.

use std::{error::Error, io, process::ExitCode};

use clap::Parser;
use slot_cmdline::{
    apply::{Commands, System, no_faults},
    cli::Cli,
    cmd::{Context, run},
    error,
    exit::Exit,
};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    let root = cli.root();
    let commands: Option<&dyn Commands> = if root.is_live() { Some(&System) } else { None };
    let mut out = io::stdout().lock();
    let context =
        &mut Context { cli: &cli, root: &root, commands, faults: &no_faults, out: &mut out };
    match run(context) {
        Ok(exit) => exit.into(),
        Err(error) => {
            complain(&error);
            Exit::from(&error).into()
        }
    }
}

/// The error and what is behind it, once.
fn complain(error: &error::Error) {
    eprint!("slot-cmdline: {error}");
    let mut source = error.source();
    while let Some(inner) = source {
        eprint!(": {inner}");
        source = inner.source();
    }
    eprintln!();
    if let error::Error::UnknownSetup { by_hand, .. } = error {
        eprintln!("By hand:");
        for line in by_hand {
            eprintln!("  {line}");
        }
    }
}
