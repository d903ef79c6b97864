//! Who gets the slot, and when.

use super::*;

#[test]
fn first_come_first_served() {
    let mut desk = Desk::new("k80x4");
    desk.adopt("A0");
    for conn in 1..=3 {
        desk.acquire(conn, "A0");
    }
    for conn in 1..=3 {
        assert_eq!(desk.lease(conn).kind, api::Kind::Present);
        desk.release(conn);
        assert_eq!(desk.replies.remove(0), (conn, Ok(Reply::Done)));
    }
    assert_eq!(desk.status().dies[0].visits, 4);
    assert!(desk.core.unused());
}

#[test]
fn a_die_is_named_by_number_address_label_or_any() {
    let mut desk = Desk::new("k80x4");
    let bdf = desk.status().dies[3].bdf.clone();
    for name in ["3", &bdf, &bdf[5..], "B1"] {
        desk.acquire(1, name);
        desk.event(Event::Disconnect(ConnId(1)));
        let (_, plan) = &desk.started[0];
        assert_eq!(plan.steps[0].step.die().expect("a die").to_string(), bdf, "{name}");
        desk = Desk::new("k80x4");
    }
    desk.acquire(1, "any");
    desk.done(Outcome::Done);
    assert_eq!(desk.lease(1).die, 0);
    for name in ["4", "ff:00.0", "C0", "", "+1", " 1", "99999999"] {
        desk.acquire(2, name);
        assert_eq!(desk.refusal(2), Refusal::UnknownDie { die: name.to_owned() });
    }
}

#[test]
fn any_prefers_the_die_in_the_slot_then_the_one_not_seen_for_longest() {
    let mut desk = Desk::new("k80x4");
    desk.adopt("A0");
    desk.adopt("B0");
    desk.acquire(1, "any");
    assert_eq!(desk.lease(1).label, "B0");
    desk.ask(1, Request::Release(api::Release { vacate: Some(true), ..Default::default() }));
    assert_eq!(verbs(&desk.done(Outcome::Done)), "shut");
    assert_eq!(desk.reply(), (1, Ok(Reply::Done)));
    desk.acquire(1, "any");
    desk.done(Outcome::Done);
    let acquired = desk.lease(1);
    assert_eq!((acquired.label.as_str(), acquired.kind), ("A0", api::Kind::Warm));
}

#[test]
fn the_line_loses_a_waiter_that_dies() {
    let mut desk = Desk::new("k80x4");
    desk.adopt("A0");
    desk.acquire(1, "A0");
    desk.lease(1);
    desk.acquire(2, "A0");
    desk.acquire(3, "A0");
    desk.event(Event::Disconnect(ConnId(2)));
    assert_eq!(desk.status().slots[0].waiting, 1);
    desk.event(Event::Disconnect(ConnId(1)));
    desk.lease(3);
}

#[test]
fn a_holder_swaps_past_the_line() {
    let mut desk = Desk::new("k80x4");
    desk.adopt("A1");
    desk.adopt("A0");
    desk.acquire(1, "A0");
    let first = desk.lease(1);
    desk.acquire(2, "A0");
    desk.acquire(1, "A0");
    assert_eq!(desk.lease(1).lease, first.lease, "its own die is no operation");
    desk.acquire(1, "A1");
    assert_eq!(verbs(&desk.done(Outcome::Done)), "open");
    let second = desk.lease(1);
    assert!(second.lease > first.lease);
    desk.ask(1, Request::Release(api::Release { lease: Some(first.lease), ..Default::default() }));
    assert_eq!(desk.refusal(1), Refusal::NotHolder { lease: Some(first.lease) });
    desk.event(Event::Disconnect(ConnId(1)));
    desk.done(Outcome::Done);
    desk.lease(2);
}

#[test]
fn a_wait_has_a_limit() {
    let mut desk = Desk::new("k80x4");
    desk.adopt("A0");
    let impatient =
        |ms| Request::Acquire(api::Acquire { wait_ms: Some(ms), ..api::Acquire::die("A0") });
    desk.ask(1, impatient(0));
    desk.lease(1);
    desk.ask(2, impatient(0));
    assert_eq!(desk.refusal(2), Refusal::TimedOut { waited_ms: 0 });
    desk.ask(2, impatient(50));
    let due = desk.core.next_deadline().expect("a limit");
    desk.now = due;
    desk.event(Event::Tick);
    assert!(matches!(desk.refusal(2), Refusal::TimedOut { waited_ms: 51 }));
    assert_eq!(desk.core.next_deadline(), None);
    desk.ask(2, impatient(u64::MAX));
    desk.release(1);
    assert_eq!(desk.replies.remove(0), (1, Ok(Reply::Done)));
    desk.lease(2);
    assert_eq!(desk.core.next_deadline(), None);
}

#[test]
fn leases_of_others_are_ended_by_force_only() {
    let mut desk = Desk::new("k80x4");
    desk.adopt("A0");
    desk.acquire(1, "A0");
    let lease = Some(desk.lease(1).lease);
    let release = |force| Request::Release(api::Release { lease, vacate: None, force });
    desk.ask(2, release(None));
    assert_eq!(desk.refusal(2), Refusal::NotHolder { lease });
    desk.ask(2, release(Some(true)));
    assert!(matches!(desk.refusal(2), Refusal::NotAllowed { .. }));
    let caller = |conn, uid, rights| Caller { conn: ConnId(conn), uid, pid: 1, rights };
    let same_user = caller(3, 1001, Rights::Member);
    desk.event(Event::Request { caller: same_user, request: release(Some(true)) });
    assert_eq!(desk.reply(), (3, Ok(Reply::Done)));
    desk.release(1);
    assert_eq!(desk.refusal(1), Refusal::NotHolder { lease: None });
    desk.acquire(1, "A0");
    let lease = Some(desk.lease(1).lease);
    let request = Request::Release(api::Release { lease, vacate: None, force: Some(true) });
    desk.event(Event::Request { caller: caller(4, 0, Rights::Admin), request });
    assert_eq!(desk.reply(), (4, Ok(Reply::Done)));
}

#[test]
fn two_slots_serve_two_dies_at_once() {
    let mut desk = Desk::new("k80x4-win48");
    assert_eq!(desk.status().slots.len(), 3);
    desk.acquire(1, "A0");
    desk.acquire(2, "B0");
    assert_eq!(desk.started.len(), 2);
    desk.done(Outcome::Done);
    desk.done(Outcome::Done);
    let slots: Vec<_> = desk
        .replies
        .drain(..)
        .map(|(conn, reply)| match reply {
            Ok(Reply::Acquired(acquired)) => (conn, acquired.slot),
            other => panic!("{other:?}"),
        })
        .collect();
    // The first card has two of the three slots for its dies, the second card has the third.
    assert_eq!(slots, [(1, 0), (2, 2)]);
    desk.acquire(2, "A1");
    assert!(matches!(desk.refusal(2), Refusal::HoldsLease { .. }));
}

#[test]
fn a_waiter_follows_its_card_to_another_slot() {
    let mut desk = Desk::new("k80x4-win48");
    for (conn, die) in [(1, "B0"), (2, "A0")] {
        desk.acquire(conn, die);
    }
    // Slots 0 and 1 work; these wait in slot 2 or start there, then find their card elsewhere.
    desk.acquire(3, "A1");
    desk.acquire(4, "B1");
    assert_eq!(desk.started.len(), 2, "a card is in one slot");
    while !desk.started.is_empty() {
        desk.done(Outcome::Done);
        for (conn, reply) in std::mem::take(&mut desk.replies) {
            assert!(matches!(reply, Ok(Reply::Acquired(_))), "{reply:?}");
            desk.event(Event::Disconnect(ConnId(conn)));
        }
    }
    assert!(desk.status().dies.iter().all(|die| die.visits == 1));
}

#[test]
fn stopping_refuses_those_in_line_and_lets_operations_end() {
    let mut desk = Desk::new("k80x4");
    desk.acquire(1, "A0");
    desk.acquire(2, "A0");
    desk.event(Event::Stop);
    assert_eq!(desk.refusal(2), Refusal::Stopping);
    assert!(!desk.core.at_rest());
    desk.done(Outcome::Done);
    desk.lease(1);
    assert!(desk.core.at_rest());
    desk.acquire(3, "A0");
    assert_eq!(desk.refusal(3), Refusal::Stopping);
}
