//! What is told.

use slotd_client::api::{DieStatus, SlotState, SlotStatus, StatusReply};

use super::{
    Core,
    bay::{Bay, State, Task, Working},
    event::Moment,
    knowledge::Die,
    millis,
    queue::DieIndex,
};

impl Core {
    pub(super) fn status(&self, now: Moment) -> StatusReply {
        let dies = self.knowledge.indices().zip(self.knowledge.dies());
        StatusReply {
            machine: self.machine.clone(),
            slots: self.bays.iter().map(|bay| self.slot_status(now, bay)).collect(),
            dies: dies.map(|(index, die)| self.die_status(now, index, die)).collect(),
            oddities: self.knowledge.oddities().to_vec(),
        }
    }

    fn slot_status(&self, now: Moment, bay: &Bay) -> SlotStatus {
        let (state, doing) = match &bay.state {
            State::Free(_) => (SlotState::Free, None),
            State::Held(_) => (SlotState::Held, None),
            State::Working(working) => (SlotState::Working, Some(self.doing(working))),
            State::Wedged(wedged) => (SlotState::Wedged, Some(wedged.why.clone())),
        };
        let held = bay.held();
        SlotStatus {
            slot: bay.id.0,
            base: bay.slot.range().base(),
            size: bay.slot.range().size(),
            state,
            die: self.knowledge.open_in(bay.id).map(|die| self.knowledge.die(die).id.0),
            lease: held.map(|held| held.lease),
            client: held.and_then(|held| held.visitor.client.clone()),
            pid: held.map(|held| held.visitor.caller.pid),
            held_ms: held.map(|held| millis(now.saturating_sub(held.since))),
            waiting: u64::try_from(bay.queue.len()).unwrap_or(u64::MAX),
            doing,
        }
    }

    fn doing(&self, working: &Working) -> String {
        let label = |die: &DieIndex| &self.knowledge.die(*die).label;
        match &working.task {
            Task::Acquire { die, kind, .. } => format!("{kind} acquire of {}", label(die)),
            Task::Park { die, .. } => format!("park of {}", label(die)),
            Task::Vacate { .. } => "shutting the slot".to_owned(),
        }
    }

    fn die_status(&self, now: Moment, index: DieIndex, die: &Die) -> DieStatus {
        let mut holds = self.bays.iter().filter_map(Bay::held);
        let held = holds.find(|held| held.die == index);
        let running = held.map(|held| now.saturating_sub(held.since)).unwrap_or_default();
        DieStatus {
            die: die.id.0,
            bdf: die.bdf.to_string(),
            label: die.label.clone(),
            card: die.card.0,
            state: die.shown(),
            driver: die.driver(),
            slot: self.knowledge.slot_of(index).map(|slot| slot.0),
            lease: held.map(|held| held.lease),
            visits: die.visits,
            slot_time_ms: millis(die.slot_time + running),
            why: die.why(),
        }
    }
}
