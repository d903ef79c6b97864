//! Whatever happens in whatever order: every call is answered, no two leases share a slot, and no
//! window moves while somebody else's lease is out.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const CLIENTS: u64 = 6;
const DIES: u16 = 6;

#[derive(Clone, Copy, Debug)]
enum Act {
    Acquire(u64, Option<u16>, Option<u64>),
    Release(u64, bool),
    Park(u64, u16),
    Disconnect(u64),
    Succeed(usize),
    Fail(usize),
    Break(usize),
    Wait(u64),
    Look,
}

fn act() -> impl Strategy<Value = Act> {
    let (client, die) = (0..CLIENTS, 0..DIES);
    let wait = prop::option::weighted(0.2, 0u64..40);
    prop_oneof![
        8 => (client.clone(), prop::option::weighted(0.8, die.clone()), wait)
            .prop_map(|(c, d, w)| Act::Acquire(c, d, w)),
        6 => (client.clone(), any::<bool>()).prop_map(|(c, v)| Act::Release(c, v)),
        2 => (client.clone(), die).prop_map(|(c, d)| Act::Park(c, d)),
        3 => client.prop_map(Act::Disconnect),
        8 => (0usize..3).prop_map(Act::Succeed),
        2 => (0usize..3).prop_map(Act::Fail),
        1 => (0usize..3).prop_map(Act::Break),
        2 => (1u64..30).prop_map(Act::Wait),
        1 => Just(Act::Look),
    ]
}

/// What the clients believe, beside the core.
struct Storm {
    desk: Desk,
    survey: Survey,
    /// The connection of each client; a new one after each disconnect.
    conns: Vec<u64>,
    next: u64,
    calling: BTreeSet<u64>,
    holding: BTreeMap<u64, u8>,
}

impl Storm {
    fn new(preset: &str) -> Self {
        let preset: Preset = preset.parse().expect("a preset");
        let survey = Simulator::new(preset.clone()).survey().expect("a survey");
        let desk = Desk::on(&survey, preset.slots());
        let (conns, calling, holding) = ((0..CLIENTS).collect(), BTreeSet::new(), BTreeMap::new());
        Self { desk, survey, conns, next: CLIENTS, calling, holding }
    }

    fn act(&mut self, act: Act) {
        let conn = |client: u64| self.conns[usize::try_from(client).expect("small")];
        match act {
            Act::Acquire(client, die, wait_ms) => {
                let die = die.map(|die| die.to_string());
                let call = api::Acquire { client: None, die, wait_ms };
                self.call(conn(client), Request::Acquire(call));
            }
            Act::Release(client, vacate) => {
                let call = api::Release { vacate: Some(vacate), ..Default::default() };
                self.call(conn(client), Request::Release(call));
            }
            Act::Park(client, die) => {
                let call = api::Park { die: die.to_string(), wait_ms: None };
                self.call(conn(client), Request::Park(call));
            }
            Act::Disconnect(client) => {
                let gone = conn(client);
                self.desk.event(Event::Disconnect(ConnId(gone)));
                self.calling.remove(&gone);
                self.holding.remove(&gone);
                self.conns[usize::try_from(client).expect("small")] = self.next;
                self.next += 1;
            }
            Act::Succeed(index) => self.end(index, |_, _| Outcome::Done),
            Act::Fail(index) => {
                self.end(index, |step, survey| failure(step, Aftermath::Undone, Some(survey)));
            }
            Act::Break(index) => self.end(index, |step, survey| {
                failure(step, Aftermath::NotUndone("no".to_owned()), Some(survey))
            }),
            Act::Wait(ms) => {
                self.desk.now += Duration::from_millis(ms);
                self.desk.event(Event::Tick);
            }
            Act::Look => self.desk.event(Event::Looked(Ok(self.survey.clone()))),
        }
        self.settle();
    }

    /// A client calls; one call at a time, as the protocol has it.
    fn call(&mut self, conn: u64, request: Request) {
        if self.calling.insert(conn) {
            self.desk.ask(conn, request);
        }
    }

    fn end(&mut self, index: usize, outcome: impl Fn(Step, Survey) -> Outcome) {
        if let Some((id, plan)) = self.desk.started.get(index).cloned() {
            self.desk.started.remove(index);
            let step = plan.steps[0].step.clone();
            self.desk.event(Event::Done(id, outcome(step, self.survey.clone())));
        }
    }

    /// Takes in the replies and compares what the clients believe with what the core tells.
    fn settle(&mut self) {
        for (conn, reply) in std::mem::take(&mut self.desk.replies) {
            assert!(self.calling.remove(&conn), "{conn} did not call and was told {reply:?}");
            match reply {
                Ok(Reply::Acquired(acquired)) => {
                    self.holding.insert(conn, acquired.slot);
                }
                // Only a refusal says that a lease goes on.
                Err(Refusal::OperationFailed { lease: None, .. } | Refusal::Wedged { .. })
                | Ok(Reply::Done | Reply::Parked(_)) => {
                    self.holding.remove(&conn);
                }
                Ok(_) | Err(_) => {}
            }
        }
        let slots: BTreeSet<_> = self.holding.values().collect();
        assert_eq!(slots.len(), self.holding.len(), "two leases on one slot: {:?}", self.holding);
        for slot in self.desk.status().slots {
            let holder = self.holding.iter().find(|(_, s)| **s == slot.slot);
            match slot.state {
                api::SlotState::Held => assert!(holder.is_some(), "a lease nobody has: {slot:?}"),
                api::SlotState::Free => assert_eq!((holder, slot.waiting), (None, 0), "{slot:?}"),
                api::SlotState::Working => {
                    // Only a holder that swaps or parks has its slot worked on.
                    assert!(holder.is_none_or(|(conn, _)| self.calling.contains(conn)), "{slot:?}");
                }
                api::SlotState::Wedged => assert_eq!((holder, slot.waiting), (None, 0)),
            }
        }
    }

    /// All operations succeed and all leases are given back until nothing goes on any more.
    fn drain(&mut self) {
        for _ in 0..1000 {
            self.act(Act::Succeed(0));
            let holders: Vec<u64> = self.holding.keys().copied().collect();
            for conn in holders {
                self.call(conn, Request::Release(api::Release::default()));
                self.settle();
            }
            if self.desk.started.is_empty() && self.holding.is_empty() {
                break;
            }
        }
        assert!(self.calling.is_empty(), "never answered: {:?}", self.calling);
        assert!(self.desk.core.unused());
        assert!(self.desk.core.seats.is_empty() && self.desk.core.limits.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_slot_holds_up(acts in prop::collection::vec(act(), 1..120)) {
        let mut storm = Storm::new("k80x6");
        for act in acts {
            storm.act(act);
        }
        storm.drain();
    }

    #[test]
    fn three_slots_hold_up(acts in prop::collection::vec(act(), 1..120)) {
        let mut storm = Storm::new("k80x6-win48");
        for act in acts {
            storm.act(act);
        }
        storm.drain();
    }
}
