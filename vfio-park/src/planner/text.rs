//! A plan for people.

use std::fmt;

use super::{CardPlan, DiePlan, Plan, Residence, SlotPlan};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "gate: {}", self.gate)?;
        for slot in &self.slots {
            write_slot(f, slot)?;
        }
        let places: Vec<String> = self.candidates.iter().map(ToString::to_string).collect();
        match &places[..] {
            [] => writeln!(f, "no aligned place could be a slot")?,
            places => writeln!(f, "places that could be slots: {}", places.join(", "))?,
        }
        for card in &self.cards {
            write_card(f, card)?;
            for die in self.dies.iter().filter(|die| card.dies.contains(&die.die)) {
                write_die(f, die)?;
            }
        }
        let (resident, all) = (self.resident(), self.dies.len());
        let turns = if self.without_turns() { ", each in a slot of its own" } else { "" };
        write!(f, "{resident} of {all} dies can be resident together{turns}")
    }
}

fn write_slot(f: &mut fmt::Formatter<'_>, plan: &SlotPlan) -> fmt::Result {
    write!(f, "{} at {}: ", plan.id, plan.slot)?;
    if plan.obstacles.is_empty() {
        f.write_str("usable")?;
    } else {
        let reasons: Vec<String> = plan.obstacles.iter().map(ToString::to_string).collect();
        write!(f, "refused: {}", reasons.join("; "))?;
    }
    for die in &plan.occupants {
        write!(f, "; {die} is in it and leaves it when its card is placed")?;
    }
    writeln!(f)
}

fn write_card(f: &mut fmt::Formatter<'_>, plan: &CardPlan) -> fmt::Result {
    writeln!(f, "{} behind {}", plan.card, plan.root_port)?;
    for obstacle in &plan.obstacles {
        writeln!(f, "  refused: {obstacle}")?;
    }
    if let Some(why) = &plan.together {
        writeln!(f, "  its dies share a slot: {why}")?;
    }
    for window in &plan.windows {
        write!(f, "  bridge {}: {} when open", window.bridge, window.prefetchable)?;
        match window.memory {
            Some(memory) if plan.stays => writeln!(f, ", {memory} stays")?,
            Some(memory) => writeln!(f, ", about {memory} for small BARs")?,
            None => writeln!(f, ", no room for small BARs")?,
        }
    }
    Ok(())
}

fn write_die(f: &mut fmt::Formatter<'_>, plan: &DiePlan) -> fmt::Result {
    write!(f, "  {} {}: ", plan.die, plan.bdf)?;
    match &plan.residence {
        Residence::Resident => f.write_str("can be resident")?,
        Residence::Exclusive { why } => write!(f, "only while in the slot: {why}")?,
        Residence::Refused { why } => write!(f, "refused: {why}")?,
    }
    if let Some(home) = plan.home {
        write!(f, ", takes its turns in {home}")?;
    }
    for bar in &plan.bars {
        write!(f, ", BAR{} {}", bar.index, bar.range)?;
    }
    writeln!(f)
}
