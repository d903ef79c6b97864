//! What the core knows of the dies: read off a survey, then kept true step by step.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use slotd_client::api::{self, DieState as Shown};
use vfio_park::{
    Bdf, CardId, DieId, DieState, DriverName, Gate, Slot, SlotId, Survey,
    planner::{self, Request},
};

use super::{
    event::slot_index,
    naming,
    queue::DieIndex,
    step::{Plan, Step},
};

/// Who has a die.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Parked(DriverName),
    Resident,
    Unbound,
    Foreign(DriverName),
    Absent,
}

/// What the daemon knows on top of what the machine says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Quarantined(String),
    Wedged(String),
    Absent(String),
}

/// A die.
#[derive(Debug)]
pub(super) struct Die {
    pub(super) id: DieId,
    pub(super) bdf: Bdf,
    pub(super) card: CardId,
    pub(super) label: String,
    pub(super) standing: Standing,
    pub(super) mark: Option<Mark>,
    /// The parker it was taken from.
    pub(super) parker: Option<DriverName>,
    /// The slot that its BAR1 holds.
    pub(super) bar1: Option<SlotId>,
    /// Whether slotd holds its adapter.
    pub(super) adapter_held: bool,
    pub(super) visits: u64,
    pub(super) slot_time: Duration,
    /// Number of its last lease.
    pub(super) last_visit: u64,
}

/// All dies, and which of them answers in which slot.
#[derive(Debug)]
pub(super) struct Knowledge {
    dies: Vec<Die>,
    by_bdf: HashMap<Bdf, DieIndex>,
    by_label: HashMap<String, DieIndex>,
    /// The die that answers in a slot.
    open: Vec<Option<DieIndex>>,
    /// Whether a card was given its place by this daemon.
    placed: HashSet<CardId>,
    default_parker: DriverName,
    slots: Vec<Slot>,
    /// Where the planner has each die take its turns; empty where there is one slot.
    planned: Vec<Option<SlotId>>,
    oddities: Vec<String>,
}

impl Knowledge {
    pub(super) fn new(
        survey: &Survey,
        slots: &[Slot],
        labels: &HashMap<Bdf, String>,
        parker: Option<&DriverName>,
    ) -> Self {
        let mut this = Self {
            dies: Vec::with_capacity(survey.dies.len()),
            by_bdf: HashMap::new(),
            by_label: HashMap::new(),
            open: vec![None; slots.len()],
            placed: HashSet::new(),
            default_parker: parker.cloned().unwrap_or_else(|| usual_parker(survey, slots)),
            slots: slots.to_vec(),
            planned: planned_homes(survey, slots),
            oddities: Vec::new(),
        };
        let names = naming::labels(survey, labels);
        for (index, (die, label)) in survey.dies.iter().zip(names).enumerate() {
            this.by_bdf.insert(die.bdf, DieIndex(index));
            this.by_label.insert(label.clone(), DieIndex(index));
            this.dies.push(Die {
                id: die.id,
                bdf: die.bdf,
                card: die.card,
                label,
                standing: Standing::Absent,
                mark: None,
                parker: None,
                bar1: None,
                adapter_held: false,
                visits: 0,
                slot_time: Duration::ZERO,
                last_visit: 0,
            });
        }
        this.refresh(survey);
        this
    }

    /// Takes over what the machine says. Marks stay.
    pub(super) fn refresh(&mut self, survey: &Survey) {
        self.open.fill(None);
        self.oddities.clone_from(&survey.oddities);
        for (index, die) in self.dies.iter_mut().enumerate() {
            let Some(found) = survey.die(die.bdf) else {
                (die.standing, die.bar1, die.adapter_held) = (Standing::Absent, None, false);
                continue;
            };
            let state = DieState::read(survey, found, &self.slots);
            if let Some(open) = state.slot().and_then(|slot| self.open.get_mut(slot_index(slot))) {
                *open = Some(DieIndex(index));
            }
            let bar1 = survey.function_of(found).and_then(|function| function.bar(1)?.assigned);
            let slot = self.slots.iter().position(|slot| Some(slot.range()) == bar1);
            die.bar1 = slot.and_then(|slot| u8::try_from(slot).ok()).map(SlotId);
            die.standing = match state {
                DieState::Parked { parker, .. } => Standing::Parked(parker),
                DieState::Resident { .. } => Standing::Resident,
                DieState::Unbound { .. } => Standing::Unbound,
                DieState::Foreign { driver } => Standing::Foreign(driver),
                DieState::Absent => Standing::Absent,
            };
            die.adapter_held &= die.standing == Standing::Resident;
        }
        let known = self.by_bdf.len();
        let new = survey.dies.iter().filter(|die| !self.by_bdf.contains_key(&die.bdf));
        self.oddities.extend(
            new.map(|die| format!("{} is new: restart slotd to have it counted in", die.bdf)),
        );
        debug_assert_eq!(known, self.dies.len());
        let dies = &self.dies;
        self.placed
            .retain(|card| dies.iter().filter(|d| d.card == *card).all(|d| d.bar1.is_some()));
    }

    /// What a step that was done changed.
    pub(super) fn apply(&mut self, step: &Step) {
        let index = step.die().and_then(|bdf| self.by_bdf.get(&bdf).copied());
        match (step, index) {
            (Step::Shut { slot }, _) => self.open[slot_index(*slot)] = None,
            (Step::Open { slot, .. }, Some(die)) => self.open[slot_index(*slot)] = Some(die),
            (Step::Place { slot, .. }, Some(die)) => self.assign(die, *slot),
            (Step::Unbind { driver, .. }, Some(die)) => {
                let die = self.die_mut(die);
                if vfio_park::survey::is_parker(driver) {
                    die.parker = Some(driver.clone());
                }
                die.standing = Standing::Unbound;
            }
            (Step::Bind { driver, .. }, Some(die)) => {
                self.die_mut(die).standing = if *driver == DriverName::nvidia() {
                    Standing::Resident
                } else {
                    Standing::Parked(driver.clone())
                };
            }
            (Step::Hold { .. }, Some(die)) => self.die_mut(die).adapter_held = true,
            (Step::LetGo { .. }, Some(die)) => self.die_mut(die).adapter_held = false,
            (Step::VerifyPath { .. } | Step::VerifyAwake { .. }, _) | (_, None) => {}
        }
    }

    /// What an operation that was done changed.
    pub(super) fn apply_all(&mut self, plan: &Plan) {
        for planned in &plan.steps {
            self.apply(&planned.step);
        }
    }

    /// A fresh reading decides whether a die is there.
    pub(super) fn forget_absent(&mut self) {
        for die in &mut self.dies {
            die.mark = die.mark.take().filter(|mark| !matches!(mark, Mark::Absent(_)));
        }
    }

    /// From here on the card of `die` belongs to `slot`.
    ///
    /// The first die of a card that is placed takes the others along; after that each has its own.
    pub(super) fn assign(&mut self, die: DieIndex, slot: SlotId) {
        let card = self.die(die).card;
        if !self.placed.insert(card) {
            self.die_mut(die).bar1 = Some(slot);
            return;
        }
        for die in self.dies.iter_mut().filter(|die| die.card == card) {
            die.bar1 = Some(slot);
        }
    }

    /// A card whose placing failed may not have its place.
    pub(super) fn doubt_place(&mut self, die: DieIndex) {
        let card = self.die(die).card;
        self.placed.remove(&card);
    }

    pub(super) fn die(&self, index: DieIndex) -> &Die {
        &self.dies[index.0]
    }

    pub(super) fn die_mut(&mut self, index: DieIndex) -> &mut Die {
        &mut self.dies[index.0]
    }

    pub(super) fn dies(&self) -> &[Die] {
        &self.dies
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = DieIndex> + use<> {
        (0..self.dies.len()).map(DieIndex)
    }

    pub(super) fn oddities(&self) -> &[String] {
        &self.oddities
    }

    /// The die that answers in a slot.
    pub(super) fn open_in(&self, slot: SlotId) -> Option<DieIndex> {
        self.open.get(slot_index(slot)).copied().flatten()
    }

    /// The slot in which a die answers.
    pub(super) fn slot_of(&self, die: DieIndex) -> Option<SlotId> {
        let slot = self.open.iter().position(|open| *open == Some(die))?;
        u8::try_from(slot).ok().map(SlotId)
    }

    /// A die by number, PCI address or label.
    pub(super) fn find(&self, name: &str) -> Option<DieIndex> {
        if let Some(index) = self.by_label.get(name) {
            return Some(*index);
        }
        if let Ok(bdf) = name.parse::<Bdf>() {
            return self.by_bdf.get(&bdf).copied();
        }
        let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| name.parse::<u16>().ok()).flatten()?;
        self.dies.iter().position(|die| die.id.0 == number).map(DieIndex)
    }

    /// Whether the card of a die has its place: this daemon gave it, or a die of it is resident.
    pub(super) fn in_place(&self, die: DieIndex) -> bool {
        let card = self.die(die).card;
        let resident = |die: &Die| die.card == card && die.standing == Standing::Resident;
        self.placed.contains(&card) || self.dies.iter().any(resident)
    }

    /// The slot that a die is bound to, or that the planner has for it; `None` where any will do.
    pub(super) fn home(&self, die: DieIndex) -> Option<SlotId> {
        let die_ = self.die(die);
        let placed = if self.in_place(die) { die_.bar1 } else { None };
        placed.or(self.planned_home(die))
    }

    fn planned_home(&self, die: DieIndex) -> Option<SlotId> {
        self.planned.get(die.0).copied().flatten()
    }

    /// The other dies of a card that are to live in another slot than `slot`.
    pub(super) fn elsewhere(
        &self,
        die: DieIndex,
        slot: SlotId,
    ) -> impl Iterator<Item = (Bdf, SlotId)> {
        let card = self.die(die).card;
        let others = self.indices().filter(move |other| *other != die);
        others.filter(move |other| self.die(*other).card == card).filter_map(move |other| {
            let home = self.planned_home(other).filter(|home| *home != slot)?;
            Some((self.die(other).bdf, home))
        })
    }

    /// The driver that a die goes back to when it is parked.
    pub(super) fn parker_of(&self, die: DieIndex) -> DriverName {
        self.die(die).parker.clone().unwrap_or_else(|| self.default_parker.clone())
    }

    /// Whether a die can be visited or parked as it stands.
    pub(super) fn available(&self, index: DieIndex) -> Result<(), api::Refusal> {
        let die = self.die(index);
        let reason = match (&die.mark, &die.standing) {
            (Some(Mark::Quarantined(why)), _) => format!(
                "{why}; see to it, then restart slotd (a power cycle brings back a die that hangs)"
            ),
            (Some(Mark::Wedged(why)), _) => {
                format!("{why}; leave the die alone, a power cycle heals it")
            }
            (Some(Mark::Absent(why)), _) => {
                format!("{why}; a power cycle may bring it back")
            }
            (None, Standing::Absent) => {
                "it answers all-ones; a power cycle may bring it back".to_owned()
            }
            (None, Standing::Foreign(driver)) => {
                format!("{driver} has it; take it from there, then `slotctl status --fresh`")
            }
            (None, Standing::Parked(_) | Standing::Resident | Standing::Unbound) => return Ok(()),
        };
        Err(api::Refusal::NotAvailable { die: die.label.clone(), state: die.shown(), reason })
    }
}

impl Die {
    /// Its state in the words of the interface.
    pub(super) fn shown(&self) -> Shown {
        match (&self.mark, &self.standing) {
            (Some(Mark::Quarantined(_)), _) => Shown::Quarantined,
            (Some(Mark::Wedged(_)), _) => Shown::Wedged,
            (Some(Mark::Absent(_)), _) | (None, Standing::Absent) => Shown::Absent,
            (None, Standing::Parked(_)) => Shown::Parked,
            (None, Standing::Resident) => Shown::Resident,
            (None, Standing::Unbound) => Shown::Unbound,
            (None, Standing::Foreign(_)) => Shown::Foreign,
        }
    }

    /// The driver that has it.
    pub(super) fn driver(&self) -> Option<String> {
        match &self.standing {
            Standing::Parked(driver) | Standing::Foreign(driver) => Some(driver.to_string()),
            Standing::Resident => Some(DriverName::nvidia().to_string()),
            Standing::Unbound | Standing::Absent => None,
        }
    }

    /// What led to its mark.
    pub(super) fn why(&self) -> Option<String> {
        match &self.mark {
            Some(Mark::Quarantined(why) | Mark::Wedged(why) | Mark::Absent(why)) => {
                Some(why.clone())
            }
            None => None,
        }
    }
}

/// Which die takes its turns in which of several slots: dies of one card side by side where one
/// window can lead to both.
fn planned_homes(survey: &Survey, slots: &[Slot]) -> Vec<Option<SlotId>> {
    if slots.len() < 2 {
        return Vec::new();
    }
    let request = Request { slots: slots.to_vec(), gate: Gate::Window };
    let plan = planner::plan(survey, &request);
    survey.dies.iter().map(|die| plan.die(die.bdf).and_then(|die| die.home)).collect()
}

/// The parker of most dies; where none is parked, vfio-pci with an IOMMU and pci-stub without.
fn usual_parker(survey: &Survey, slots: &[Slot]) -> DriverName {
    let mut counts: HashMap<DriverName, usize> = HashMap::new();
    let mut grouped = false;
    for die in &survey.dies {
        if let DieState::Parked { parker, .. } = DieState::read(survey, die, slots) {
            *counts.entry(parker).or_default() += 1;
        }
        grouped |= survey.function_of(die).is_some_and(|function| function.iommu_group.is_some());
    }
    let most = counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
    let default = if grouped { DriverName::vfio_pci } else { DriverName::pci_stub };
    most.map_or_else(default, |(parker, _)| parker)
}
