//! Calls of the simulator's interface: a client acts as the processor and as the operator.

use slotd_client::sim;
use vfio_park::sim::Simulator;

use super::{call, dispatch::SimCall};

/// What became of a call.
pub(super) enum Outcome {
    Answered(Vec<u8>),
    /// The machine is another one now; answered once it was read again.
    LookAgain,
}

/// Carries out a call. `unused` says that no lease is out and nothing is under way.
pub(super) fn run(machine: &Simulator, call: SimCall, unused: bool) -> Outcome {
    Outcome::Answered(match call {
        SimCall::Read(read) => {
            let mut bytes = vec![0; usize::try_from(read.length).unwrap_or_default()];
            machine.cpu_read(read.address, &mut bytes);
            call::answer(&sim::ReadReply { bytes })
        }
        SimCall::Write(write) => {
            machine.cpu_write(write.address, &write.bytes);
            call::done()
        }
        SimCall::Violations => {
            let violations = machine.violations().iter().map(ToString::to_string).collect();
            call::answer(&sim::ViolationsReply { violations })
        }
        SimCall::Rescan => {
            machine.rescan();
            call::done()
        }
        SimCall::PowerCycle if unused => {
            machine.power_cycle();
            return Outcome::LookAgain;
        }
        SimCall::PowerCycle => {
            let reason = "a lease is out, or an operation is under way".to_owned();
            call::refusal(&sim::Refusal::Refused { reason })
        }
    })
}
