//! `slotctl plan`.

use std::process::ExitCode;

use slotd_client::api::{self, Verb};

use crate::{
    args::{Args, Plan},
    exit::Failure,
    output::{Output, steps},
};

pub(crate) fn run(args: &Args, options: &Plan, output: Output) -> Result<ExitCode, Failure> {
    let mut client = args.connect()?;
    if options.die.is_none() {
        output.result(&client.call(&api::Layout {})?, |layout| layout.text.clone());
        return Ok(ExitCode::SUCCESS);
    }
    let verb = if options.park { Verb::Park } else { Verb::Acquire };
    let plan = client.call(&api::Plan { verb, die: options.die.clone() })?;
    output.result(&plan, |plan| steps(&plan.steps));
    Ok(ExitCode::SUCCESS)
}
