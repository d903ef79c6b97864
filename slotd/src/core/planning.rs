//! From what is known to the steps of an operation: pure functions.

use slotd_client::api::Kind;
use vfio_park::{DriverName, Slot, SlotId};

use super::{
    knowledge::{Knowledge, Standing},
    queue::DieIndex,
    step::{Manner, Plan, Step},
};

/// The steps that bring a die into a slot for nvidia, and what that amounts to.
pub(super) fn acquire(
    knowledge: &Knowledge,
    id: SlotId,
    slot: Slot,
    manner: Manner,
    index: DieIndex,
) -> (Kind, Plan) {
    let die = knowledge.die(index);
    let mut plan = Plan::default();
    let cold = die.standing != Standing::Resident;
    if cold && !knowledge.in_place(index) {
        // Once a die of the card is resident its bridges stay as they are.
        for (die, slot) in knowledge.elsewhere(index, id) {
            plan.then(Step::Place { die, slot, gate: manner.gate });
        }
        plan.then(Step::Place { die: die.bdf, slot: id, gate: manner.gate });
    }
    open(knowledge, id, index, &mut plan);
    let moved = !plan.is_empty();
    if cold {
        plan.then(Step::VerifyPath { die: die.bdf, range: slot.range() });
        if let Standing::Parked(driver) = &die.standing {
            let (die, driver) = (die.bdf, driver.clone());
            plan.then_or(Step::Unbind { die, driver: driver.clone() }, Step::Bind { die, driver });
        }
        let (die, driver) = (die.bdf, DriverName::nvidia());
        plan.then(Step::VerifyAwake { die });
        plan.then_or(Step::Bind { die, driver: driver.clone() }, Step::Unbind { die, driver });
    }
    if manner.keep_adapters && (cold || !die.adapter_held) {
        plan.then_or(Step::Hold { die: die.bdf }, Step::LetGo { die: die.bdf });
    }
    let kind = match (cold, moved) {
        (true, _) => Kind::Cold,
        (false, true) => Kind::Warm,
        (false, false) => Kind::Present,
    };
    (kind, plan)
}

/// The steps that give a die back to its parker. The slot is shut by an operation of its own.
pub(super) fn park(knowledge: &Knowledge, id: SlotId, index: DieIndex) -> Plan {
    let die = knowledge.die(index);
    let mut plan = Plan::default();
    if die.standing == Standing::Resident {
        open(knowledge, id, index, &mut plan);
        if die.adapter_held {
            plan.then_or(Step::LetGo { die: die.bdf }, Step::Hold { die: die.bdf });
        }
        let (die, driver) = (die.bdf, DriverName::nvidia());
        plan.then_or(Step::Unbind { die, driver: driver.clone() }, Step::Bind { die, driver });
    }
    if !matches!(die.standing, Standing::Parked(_)) {
        plan.then(Step::Bind { die: die.bdf, driver: knowledge.parker_of(index) });
    }
    plan
}

/// The steps that leave a slot shut.
pub(super) fn vacate(knowledge: &Knowledge, id: SlotId) -> Plan {
    let mut plan = Plan::default();
    if knowledge.open_in(id).is_some() {
        plan.then(Step::Shut { slot: id });
    }
    plan
}

/// Opens, and on failure lets back in who was there. A card that is placed leaves the slot where
/// firmware had put it there, so whoever was not in place is not in the slot any more.
fn open(knowledge: &Knowledge, slot: SlotId, index: DieIndex, plan: &mut Plan) {
    let die = knowledge.die(index).bdf;
    match knowledge.open_in(slot) {
        Some(open) if open == index && plan.is_empty() => {}
        Some(before)
            if before != index
                && knowledge.in_place(before)
                && knowledge.available(before).is_ok() =>
        {
            let before = knowledge.die(before).bdf;
            plan.then_or(Step::Open { slot, die }, Step::Open { slot, die: before });
        }
        Some(_) | None => plan.then_or(Step::Open { slot, die }, Step::Shut { slot }),
    }
}

/// The step that follows a park.
pub(super) fn vacate_after(id: SlotId) -> Plan {
    let mut plan = Plan::default();
    plan.then(Step::Shut { slot: id });
    plan
}
