mod leases;
mod operations;
mod storms;

use std::{collections::HashMap, time::Duration};

use slotd_client::api::{self, Refusal};
use vfio_park::{
    DriverName, Gate, Machine, Slot, Survey,
    sim::{Preset, Simulator},
};

use super::*;

/// A core, and what came out of it.
struct Desk {
    core: Core,
    now: Moment,
    replies: Vec<(u64, Result<Reply, Refusal>)>,
    started: Vec<(OperationId, Plan)>,
    looks: usize,
}

const LIMIT: Duration = Duration::from_mins(1);

impl Desk {
    fn new(preset: &str) -> Self {
        let preset: Preset = preset.parse().expect("a preset");
        let slots = preset.slots();
        let survey = Simulator::new(preset).survey().expect("a survey");
        Self::on(&survey, slots)
    }

    fn on(survey: &Survey, slots: Vec<Slot>) -> Self {
        let settings = Settings {
            machine: "test".to_owned(),
            slots,
            manner: Manner { gate: Gate::Window, keep_adapters: true },
            parker: None,
            labels: HashMap::new(),
            operation_limit: LIMIT,
        };
        let core = Core::new(&settings, survey);
        Self { core, now: Moment::ZERO, replies: Vec::new(), started: Vec::new(), looks: 0 }
    }

    fn event(&mut self, event: Event) {
        self.now += Duration::from_millis(1);
        let mut effects = Vec::new();
        self.core.handle(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Reply { conn, reply } => self.replies.push((conn.0, reply)),
                Effect::Start { id, plan } => self.started.push((id, plan)),
                Effect::Look => self.looks += 1,
            }
        }
    }

    fn ask(&mut self, conn: u64, request: Request) {
        let uid = 1000 + u32::try_from(conn).expect("few connections");
        let caller = Caller { conn: ConnId(conn), uid, pid: 1, rights: Rights::Member };
        self.event(Event::Request { caller, request });
    }

    fn acquire(&mut self, conn: u64, die: &str) {
        self.ask(conn, Request::Acquire(api::Acquire::die(die)));
    }

    fn release(&mut self, conn: u64) {
        self.ask(conn, Request::Release(api::Release::default()));
    }

    /// The oldest operation under way ends.
    fn done(&mut self, outcome: Outcome) -> Plan {
        let (id, plan) = self.started.remove(0);
        self.event(Event::Done(id, outcome));
        plan
    }

    fn reply(&mut self) -> (u64, Result<Reply, Refusal>) {
        assert_eq!(self.replies.len(), 1, "{:?}", self.replies);
        self.replies.remove(0)
    }

    fn lease(&mut self, conn: u64) -> api::Acquired {
        match self.reply() {
            (to, Ok(Reply::Acquired(acquired))) if to == conn => acquired,
            other => panic!("no lease for {conn}: {other:?}"),
        }
    }

    fn refusal(&mut self, conn: u64) -> Refusal {
        match self.reply() {
            (to, Err(refusal)) if to == conn => refusal,
            other => panic!("no refusal for {conn}: {other:?}"),
        }
    }

    /// A first visit, over again.
    fn adopt(&mut self, die: &str) {
        self.acquire(9999, die);
        self.done(Outcome::Done);
        assert_eq!(self.lease(9999).kind, api::Kind::Cold);
        self.release(9999);
        assert_eq!(self.reply(), (9999, Ok(Reply::Done)));
    }

    fn status(&self) -> api::StatusReply {
        self.core.status(self.now)
    }
}

fn verbs(plan: &Plan) -> String {
    plan.steps.iter().map(|planned| planned.step.verb()).collect::<Vec<_>>().join(" ")
}

fn failure(step: Step, aftermath: Aftermath, survey: Option<Survey>) -> Outcome {
    Outcome::Failed(Failure {
        step,
        reason: "for a test".to_owned(),
        cause: Cause::Other,
        aftermath,
        survey: survey.map(Box::new),
        adapter_held: false,
    })
}

fn stub() -> DriverName {
    DriverName::pci_stub()
}
