//! Which call goes where.

use serde::{Deserialize, Serialize};
use slotd_client::{api, sim};

use super::call::{self, Call, ServiceError};
use crate::core::{Reply, Request};

const SLOT_TEXT: &str = include_str!("../../org.barswap.Slot.varlink");
const SIM_TEXT: &str = include_str!("../../org.barswap.Sim.varlink");
const SERVICE: &str = "org.varlink.service";
const SERVICE_TEXT: &str = "\
# The interface that every Varlink service has.
interface org.varlink.service

method GetInfo() -> (
  vendor: string,
  product: string,
  version: string,
  url: string,
  interfaces: []string
)

method GetInterfaceDescription(interface: string) -> (description: string)

error InterfaceNotFound (interface: string)
error MethodNotFound (method: string)
error MethodNotImplemented (method: string)
error InvalidParameter (parameter: string)
error PermissionDenied ()
error ExpectedMore ()
";

/// Where a call goes.
pub(super) enum Target {
    /// To the core.
    Core(Request),
    /// To the planner, with a survey made by the executor.
    Layout,
    /// To the simulator.
    Sim(SimCall),
    /// Nowhere: this is the answer.
    Answered(Vec<u8>),
}

/// A call of the simulator's interface.
pub(super) enum SimCall {
    Read(sim::Read),
    Write(sim::Write),
    Violations,
    PowerCycle,
    Rescan,
}

#[derive(Serialize)]
struct Info {
    vendor: &'static str,
    product: &'static str,
    version: &'static str,
    url: &'static str,
    interfaces: Vec<&'static str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Describe {
    interface: String,
}

#[derive(Serialize)]
struct Description {
    description: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Finds out; `simulated` tells whether there is a simulator to call.
pub(super) fn dispatch(call: &Call<'_>, simulated: bool) -> Target {
    route(call, simulated).unwrap_or_else(|error| Target::Answered(call::refusal(&error)))
}

fn route(call: &Call<'_>, simulated: bool) -> Result<Target, ServiceError> {
    if call.upgrade {
        return Err(ServiceError::MethodNotImplemented { method: call.method.to_string() });
    }
    match call.split() {
        (api::INTERFACE, method) => slot(call, method),
        (sim::INTERFACE, method) if simulated => simulator(call, method).map(Target::Sim),
        (SERVICE, "GetInfo") => {
            call.parameters::<Nothing>()?;
            Ok(Target::Answered(call::answer(&info(simulated))))
        }
        (SERVICE, "GetInterfaceDescription") => {
            let interface = call.parameters::<Describe>()?.interface;
            let description = match &*interface {
                api::INTERFACE => SLOT_TEXT,
                sim::INTERFACE if simulated => SIM_TEXT,
                SERVICE => SERVICE_TEXT,
                _ => return Err(ServiceError::InterfaceNotFound { interface }),
            };
            Ok(Target::Answered(call::answer(&Description { description })))
        }
        (SERVICE, _) => Err(not_found(call)),
        (interface, _) => Err(ServiceError::InterfaceNotFound { interface: interface.to_owned() }),
    }
}

fn slot(call: &Call<'_>, method: &str) -> Result<Target, ServiceError> {
    Ok(Target::Core(match method {
        "Status" => Request::Status(call.parameters()?),
        "Acquire" => Request::Acquire(call.parameters()?),
        "Release" => Request::Release(call.parameters()?),
        "Park" => Request::Park(call.parameters()?),
        "Plan" => Request::Plan(call.parameters()?),
        "Layout" => {
            call.parameters::<Nothing>()?;
            return Ok(Target::Layout);
        }
        _ => return Err(not_found(call)),
    }))
}

fn simulator(call: &Call<'_>, method: &str) -> Result<SimCall, ServiceError> {
    let bounded = |length: u64, parameter: &str| {
        let bad = || ServiceError::InvalidParameter { parameter: parameter.to_owned() };
        (1..=sim::MAX_BYTES).contains(&length).then_some(()).ok_or_else(bad)
    };
    match method {
        "Read" => {
            let read: sim::Read = call.parameters()?;
            bounded(read.length, "length")?;
            Ok(SimCall::Read(read))
        }
        "Write" => {
            let write: sim::Write = call.parameters()?;
            bounded(u64::try_from(write.bytes.len()).unwrap_or(u64::MAX), "bytes")?;
            Ok(SimCall::Write(write))
        }
        "Violations" => call.parameters::<Nothing>().map(|_| SimCall::Violations),
        "PowerCycle" => call.parameters::<Nothing>().map(|_| SimCall::PowerCycle),
        "Rescan" => call.parameters::<Nothing>().map(|_| SimCall::Rescan),
        _ => Err(not_found(call)),
    }
}

fn not_found(call: &Call<'_>) -> ServiceError {
    ServiceError::MethodNotFound { method: call.method.to_string() }
}

fn info(simulated: bool) -> Info {
    let mut interfaces = vec![SERVICE, api::INTERFACE];
    interfaces.extend(simulated.then_some(sim::INTERFACE));
    Info {
        vendor: "BarSwap",
        product: "slotd",
        version: env!("CARGO_PKG_VERSION"),
        url: "https://example.org/slotd",
        interfaces,
    }
}

/// An answer of the core as a frame.
pub(super) fn encode(reply: &Result<Reply, api::Refusal>) -> Vec<u8> {
    match reply {
        Ok(Reply::Status(status)) => call::answer(status),
        Ok(Reply::Acquired(acquired)) => call::answer(acquired),
        Ok(Reply::Parked(parked)) => call::answer(parked),
        Ok(Reply::Plan(plan)) => call::answer(plan),
        Ok(Reply::Done) => call::done(),
        Err(refusal) => call::refusal(refusal),
    }
}
