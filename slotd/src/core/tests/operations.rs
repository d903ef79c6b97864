//! What operations are made of, and what is learned from those that fail.

use vfio_park::seam::Placement;

use super::*;

fn fresh(preset: &str) -> Survey {
    let preset: Preset = preset.parse().expect("a preset");
    Simulator::new(preset).survey().expect("a survey")
}

#[test]
fn a_first_visit_is_cold_and_those_after_it_are_warm() {
    let mut desk = Desk::new("k80x4");
    desk.acquire(1, "A0");
    let cold = "place open verify_path unbind verify_awake bind hold";
    let plan = desk.done(Outcome::Done);
    // Also where firmware gave the slot to this very die: placing its card shuts it.
    assert_eq!(verbs(&plan), cold);
    assert_eq!(desk.lease(1).kind, api::Kind::Cold);
    desk.acquire(1, "A1");
    let sibling = "open verify_path unbind verify_awake bind hold";
    assert_eq!(verbs(&desk.done(Outcome::Done)), sibling);
    desk.lease(1);
    desk.acquire(1, "A0");
    assert_eq!(verbs(&desk.done(Outcome::Done)), "open");
    assert_eq!(desk.lease(1).kind, api::Kind::Warm);
}

#[test]
fn a_plan_is_what_runs() {
    let mut desk = Desk::new("k80x4");
    let call = api::Plan { verb: api::Verb::Acquire, die: Some("B1".to_owned()) };
    desk.ask(1, Request::Plan(call));
    let (_, Ok(Reply::Plan(told))) = desk.reply() else { panic!("no plan") };
    desk.acquire(1, "B1");
    assert_eq!(told, desk.started[0].1.clone().into());
}

#[test]
fn park_takes_the_holder_out_and_shuts_the_slot() {
    let mut desk = Desk::new("k80x4");
    desk.adopt("A0");
    desk.acquire(1, "A0");
    desk.lease(1);
    desk.ask(1, Request::Park(api::Park { die: "A0".to_owned(), wait_ms: None }));
    assert_eq!(verbs(&desk.done(Outcome::Done)), "let_go unbind bind");
    assert!(desk.replies.is_empty());
    assert_eq!(verbs(&desk.done(Outcome::Done)), "shut");
    let (1, Ok(Reply::Parked(parked))) = desk.reply() else { panic!("not parked") };
    assert_eq!(parked.parker, stub().to_string());
    let status = desk.status();
    assert_eq!((status.dies[0].state, status.slots[0].die), (api::DieState::Parked, None));
    desk.release(1);
    assert_eq!(desk.refusal(1), Refusal::NotHolder { lease: None });
    desk.ask(1, Request::Park(api::Park { die: "A0".to_owned(), wait_ms: None }));
    assert!(matches!(desk.reply(), (1, Ok(Reply::Parked(_)))), "parked already is no operation");
}

#[test]
fn a_failure_that_was_undone_leaves_the_die_as_it_was() {
    let mut desk = Desk::new("k80x4");
    desk.acquire(1, "B0");
    let step = desk.started[0].1.steps[0].step.clone();
    desk.done(failure(step.clone(), Aftermath::Undone, Some(fresh("k80x4"))));
    let refusal = desk.refusal(1);
    let Refusal::OperationFailed { undone: true, lease: None, .. } = &refusal else {
        panic!("{refusal:?}")
    };
    assert_eq!(desk.status().dies[2].state, api::DieState::Parked);
    desk.acquire(1, "B0");
    assert_eq!(verbs(&desk.started[0].1).split(' ').next(), Some("place"), "placing is in doubt");
}

#[test]
fn a_failure_that_was_not_undone_quarantines() {
    let mut desk = Desk::new("k80x4");
    desk.acquire(1, "B0");
    desk.acquire(2, "B0");
    let step = desk.started[0].1.steps[0].step.clone();
    let aftermath = Aftermath::NotUndone("the parker refused".to_owned());
    desk.done(failure(step, aftermath, Some(fresh("k80x4"))));
    let (1, Err(Refusal::OperationFailed { undone: false, .. })) = desk.replies.remove(0) else {
        panic!("not told")
    };
    let refusal = desk.refusal(2);
    assert!(matches!(refusal, Refusal::NotAvailable { state: api::DieState::Quarantined, .. }));
    desk.event(Event::Looked(Ok(fresh("k80x4"))));
    assert_eq!(desk.status().dies[2].state, api::DieState::Quarantined, "a look does not heal");
    assert!(desk.status().dies[2].why.as_ref().is_some_and(|why| why.contains("parker refused")));
}

#[test]
fn a_swap_that_fails_keeps_the_lease_where_the_die_is_back() {
    let preset: Preset = "k80x4".parse().expect("a preset");
    let machine = Simulator::new(preset.clone());
    let mut desk = Desk::on(&machine.survey().expect("a survey"), preset.slots());
    let holder = desk.status().dies.iter().find(|die| die.slot.is_some()).map(|die| die.die);
    let holder = holder.expect("firmware gave the slot to a die").to_string();
    desk.adopt(&holder);
    desk.acquire(1, &holder);
    let lease = desk.lease(1).lease;
    desk.acquire(1, "B1");
    let step = desk.started[0].1.steps[0].step.clone();
    desk.done(failure(step.clone(), Aftermath::Undone, Some(machine.survey().expect("a survey"))));
    let Refusal::OperationFailed { lease: Some(kept), .. } = desk.refusal(1) else {
        panic!("lease lost")
    };
    assert_eq!(kept, lease);
    assert_eq!(desk.status().slots[0].lease, Some(lease));
    // The machine is power-on state in this survey: in the slot, and parked. Not so if it is shut.
    let die = machine.survey().expect("a survey").dies[0].bdf;
    let placement = Placement { slot: SlotId(0), gate: Gate::Window };
    machine.place(die, placement).expect("a place");
    desk.acquire(1, "B1");
    desk.done(failure(step, Aftermath::Undone, Some(machine.survey().expect("a survey"))));
    assert!(matches!(desk.refusal(1), Refusal::OperationFailed { lease: None, .. }));
    assert_eq!(desk.status().slots[0].lease, None);
}

#[test]
fn an_operation_that_does_not_come_back_wedges_die_and_slot() {
    let mut desk = Desk::new("k80x4");
    desk.acquire(1, "A0");
    desk.acquire(2, "B0");
    desk.now += LIMIT;
    desk.event(Event::Tick);
    let told: Vec<_> = desk.replies.drain(..).collect();
    assert!(told.iter().all(|(_, r)| matches!(r, Err(Refusal::Wedged { slot: 0, .. }))));
    assert_eq!(told.len(), 2);
    desk.acquire(3, "B0");
    assert!(matches!(desk.refusal(3), Refusal::Wedged { .. }));
    assert_eq!(desk.status().slots[0].state, api::SlotState::Wedged);
    assert_eq!(desk.status().dies[0].state, api::DieState::Wedged);
    assert!(desk.core.at_rest(), "the daemon may stop");
    desk.done(Outcome::Done);
    desk.acquire(3, "B0");
    desk.done(Outcome::Done);
    desk.lease(3);
    assert_eq!(desk.status().dies[0].state, api::DieState::Quarantined);
}

#[test]
fn holders_of_the_die_are_named() {
    let mut desk = Desk::new("k80x4");
    desk.adopt("A0");
    desk.ask(1, Request::Park(api::Park { die: "A0".to_owned(), wait_ms: None }));
    let step = desk.started[0].1.steps[1].step.clone();
    desk.done(Outcome::Failed(Failure {
        step,
        reason: "in use".to_owned(),
        cause: Cause::InUse(vec!["python3 (pid 7)".to_owned()]),
        aftermath: Aftermath::Undone,
        survey: Some(Box::new(fresh("k80x4"))),
        adapter_held: true,
    }));
    let holders = vec!["python3 (pid 7)".to_owned()];
    assert_eq!(desk.refusal(1), Refusal::InUse { die: "A0".to_owned(), holders });
}

#[test]
fn all_ones_make_a_die_absent_until_a_look() {
    let mut desk = Desk::new("k80x4");
    desk.acquire(1, "B0");
    let step = desk.started[0].1.steps[0].step.clone();
    desk.done(Outcome::Failed(Failure {
        step,
        reason: "all-ones".to_owned(),
        cause: Cause::Absent,
        aftermath: Aftermath::Undone,
        survey: Some(Box::new(fresh("k80x4"))),
        adapter_held: false,
    }));
    desk.refusal(1);
    assert_eq!(desk.status().dies[2].state, api::DieState::Absent);
    desk.ask(1, Request::Status(api::Status { fresh: Some(true) }));
    desk.ask(2, Request::Status(api::Status { fresh: Some(true) }));
    assert_eq!(desk.looks, 1);
    desk.event(Event::Looked(Ok(fresh("k80x4"))));
    assert_eq!(desk.replies.len(), 2);
    assert_eq!(desk.status().dies[2].state, api::DieState::Parked);
}

#[test]
fn a_client_that_dies_during_its_operation_gets_no_lease() {
    let mut desk = Desk::new("k80x4");
    desk.acquire(1, "A0");
    desk.acquire(2, "A0");
    desk.event(Event::Disconnect(ConnId(1)));
    desk.done(Outcome::Done);
    assert_eq!(desk.lease(2).kind, api::Kind::Present);
    assert_eq!(desk.status().dies[0].visits, 1);
}
