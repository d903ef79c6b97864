//! Operations on the simulator, with faults.

use std::{sync::Arc, time::Duration};

use rustix::event::{PollFd, PollFlags, poll};
use vfio_park::{
    Bdf, DieState, DriverName, Gate, Machine, Slot, SlotId,
    sim::{Effect, Fault, Preset, Simulator, Verb},
};

use super::{Executor, Finished};
use crate::core::{Aftermath, Event, Failure, OperationId, Outcome, Plan, PlannedStep, Step};

fn machine() -> Simulator {
    Simulator::new("k80x2".parse::<Preset>().expect("a preset"))
}

fn executor(machine: &Simulator) -> Executor {
    let (shared, slots) = (Arc::new(machine.clone()), machine.slots().to_vec());
    Executor::start(shared, slots, Gate::Window).expect("a thread")
}

/// The one answer to the one job.
fn answer(executor: &Executor) -> Finished {
    let wake = executor.wake_fd();
    let mut fds = [PollFd::new(&wake, PollFlags::IN)];
    let limit = Duration::from_secs(20).try_into().expect("a limit");
    assert_eq!(poll(&mut fds, Some(&limit)).expect("poll"), 1, "no answer");
    executor.finished().pop().expect("an answer")
}

fn adopt(die: Bdf) -> Plan {
    let (slot, gate) = (SlotId(0), Gate::Window);
    let (parker, nvidia) = (DriverName::pci_stub(), DriverName::nvidia());
    let plain = |step| PlannedStep { step, undo: None };
    let back = |step, undo| PlannedStep { step, undo: Some(undo) };
    let steps = vec![
        plain(Step::Place { die, slot, gate }),
        back(Step::Open { slot, die }, Step::Shut { slot }),
        plain(Step::VerifyPath { die, range: Slot::BTC_S37.range() }),
        back(Step::Unbind { die, driver: parker.clone() }, Step::Bind { die, driver: parker }),
        plain(Step::VerifyAwake { die }),
        back(Step::Bind { die, driver: nvidia.clone() }, Step::Unbind { die, driver: nvidia }),
        back(Step::Hold { die }, Step::LetGo { die }),
    ];
    Plan { steps }
}

fn first_die(machine: &Simulator) -> Bdf {
    machine.survey().expect("a survey").dies[0].bdf
}

fn state(machine: &Simulator, die: Bdf) -> DieState {
    let survey = machine.survey().expect("a survey");
    DieState::read(&survey, survey.die(die).expect("the die"), machine.slots())
}

fn run(machine: &Simulator, plan: Plan) -> Outcome {
    let executor = executor(machine);
    executor.run(OperationId(7), plan);
    match answer(&executor) {
        Finished::Event(Event::Done(OperationId(7), outcome)) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_step_that_fails_leaves_the_die_on_its_parker() {
    let verbs = [Verb::Place, Verb::Open, Verb::Unbind, Verb::Peek, Verb::Bind, Verb::Hold];
    for verb in verbs {
        let machine = machine();
        let die = first_die(&machine);
        let busy =
            Fault::at(verb, Effect::Busy).of(die).times(if verb == Verb::Bind { 9 } else { 5 });
        machine.faults().add(busy);
        match run(&machine, adopt(die)) {
            Outcome::Failed(Failure { aftermath: Aftermath::Undone, .. }) => {
                // Firmware had put it into the slot; a card that could not be placed is still there.
                let slot = (verb == Verb::Place).then_some(SlotId(0));
                let parked = DieState::Parked { parker: DriverName::pci_stub(), slot };
                assert_eq!(state(&machine, die), parked, "{verb:?}");
            }
            // The undo of a bind that fails for good may meet the same fault.
            Outcome::Failed(Failure { aftermath: Aftermath::NotUndone(_), .. }) => {
                assert_eq!(verb, Verb::Bind);
            }
            other => panic!("{verb:?}: {other:?}"),
        }
        assert!(machine.violations().is_empty(), "{verb:?}: {:?}", machine.violations());
    }
}

#[test]
fn an_adopted_die_is_resident_and_in_the_slot() {
    let machine = machine();
    let die = first_die(&machine);
    assert!(matches!(run(&machine, adopt(die)), Outcome::Done));
    assert_eq!(state(&machine, die), DieState::Resident { slot: Some(SlotId(0)) });
}

#[test]
fn a_die_that_fell_off_the_bus_is_absent() {
    let machine = machine();
    let die = first_die(&machine);
    machine.fall_off(die);
    match run(&machine, adopt(die)) {
        Outcome::Failed(failure) => assert!(!failure.reason.is_empty()),
        other @ Outcome::Done => panic!("{other:?}"),
    }
    assert_eq!(state(&machine, die), DieState::Absent);
}

#[test]
fn reading_changes_nothing() {
    let machine = machine();
    let writes = machine.config_writes();
    let executor = executor(&machine);
    executor.look();
    assert!(matches!(answer(&executor), Finished::Event(Event::Looked(Ok(_)))));
    executor.layout(3);
    match answer(&executor) {
        Finished::Layout(3, Ok(plan)) => assert_eq!(plan.resident(), 2),
        other => panic!("{other:?}"),
    }
    assert_eq!(machine.config_writes(), writes);
}
