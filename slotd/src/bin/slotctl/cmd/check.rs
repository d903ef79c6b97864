//! `slotctl identify` and `slotctl check`: `die-check`, which has the CUDA side, in slotctl's place.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

use crate::{
    args::{Args, Check, Identify},
    exit::Failure,
};

const PROGRAM: &str = "die-check";

pub(crate) fn identify(args: &Args, options: &Identify) -> Result<ExitCode, Failure> {
    let seconds = options.seconds.map(|seconds| ["--seconds".to_owned(), seconds.to_string()]);
    let words = seconds.into_iter().flatten().map(OsString::from);
    become_die_check(args, "identify", [&options.die], words.chain(options.more.iter().cloned()))
}

pub(crate) fn check(args: &Args, options: &Check) -> Result<ExitCode, Failure> {
    become_die_check(args, "all", &options.dies, options.more.iter().cloned())
}

/// Comes back only if it cannot: signals and the exit code are die-check's own then.
fn become_die_check<'a>(
    args: &Args,
    verb: &str,
    dies: impl IntoIterator<Item = &'a String>,
    more: impl Iterator<Item = OsString>,
) -> Result<ExitCode, Failure> {
    let program = beside().unwrap_or_else(|| PROGRAM.into());
    let mut command = Command::new(&program);
    command.arg(verb).arg("--socket").arg(args.socket());
    command.args(args.json.then_some("--json")).args(more).arg("--").args(dies);
    let source = command.exec();
    Err(Failure::Spawn { command: program.to_string_lossy().into_owned(), source })
}

/// The die-check of the same build or package, where there is one; else the one on PATH.
fn beside() -> Option<PathBuf> {
    let path = env::current_exe().ok()?.with_file_name(OsStr::new(PROGRAM));
    path.is_file().then_some(path)
}
