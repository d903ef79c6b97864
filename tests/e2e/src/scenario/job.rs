//! The parts of the main job.

use anyhow::{Context, Result, ensure};
use slot_rig::phase::{self, Phase};
use slotd_client::api::Kind;
use vfio_park::{BOOT0_GK210, Bdf, DieState, DriverName, SlotId};

use super::lookup::{
    Expect, NeighbourState, all_resident, check_marks, in_the_slot, no_complaints, states,
    the_slot, write_marks,
};
use crate::{World, calls, random::Random};

/// A phase in which only the rules that always hold are judged.
fn free(text: &str) -> Phase {
    Phase::new(phase::Kind::Free, text)
}

/// A phase in which a die is handed to nvidia, which may write the die's registers.
fn cold_phase(die: Bdf) -> Phase {
    Phase::new(phase::Kind::Cold, die.to_string()).with_registers()
}

/// Sixteen dies on their parker, and nothing else has happened.
pub(super) fn boot(world: &mut dyn World, expect: &Expect) -> Result<()> {
    let survey = world.survey()?;
    ensure!(survey.dies.len() == expect.dies, "{} dies, not {}", survey.dies.len(), expect.dies);
    for (die, state) in states(world)? {
        match state {
            DieState::Parked { parker, .. } if parker == expect.parker => (),
            state => anyhow::bail!("{die} is not parked on {}: {state:?}", expect.parker),
        }
    }
    NeighbourState::leave_a_mark(world, expect)?;
    no_complaints(world)
}

/// Starting the daemon reads, and changes nothing. The judge counts the config writes.
pub(super) fn start(world: &mut dyn World, expect: &Expect) -> Result<()> {
    let before = world.survey()?;
    world.phase(&Phase::new(phase::Kind::Quiet, "start"))?;
    world.start()?;
    let status = calls::status(world)?;
    ensure!(status.dies.len() == expect.dies, "status lists {} dies", status.dies.len());
    let after = world.survey()?;
    world.phase(&free("started"))?;
    ensure!(before.functions == after.functions, "starting the daemon changed a PCI function");
    Ok(())
}

/// Every die in turn: handed to nvidia, marked at both ends, released, still bound.
pub(super) fn cold(world: &mut dyn World, expect: &Expect) -> Result<()> {
    let slot = the_slot(world)?;
    let neighbour = NeighbourState::read(world, expect)?;
    let dies: Vec<Bdf> = world.survey()?.dies.iter().map(|die| die.bdf).collect();
    for (index, &die) in dies.iter().enumerate() {
        let mut client = calls::connect(world)?;
        world.phase(&cold_phase(die))?;
        let visit = calls::acquire(&mut client, die)?;
        world.phase(&free("mark"))?;
        ensure!(visit.kind == Kind::Cold, "{die}: the first acquire was {:?}", visit.kind);
        ensure!((visit.base, visit.size) == (slot.range().base(), slot.range().size()), "{die}");
        let states = states(world)?;
        let inside = states[index].1 == DieState::Resident { slot: Some(SlotId(0)) };
        ensure!(inside, "{die} is {:?}", states[index].1);
        all_resident(&states, &dies[index + 1..])?;
        let information = world.information(die)?;
        ensure!(information.contains("Tesla K80"), "{die}: information says\n{information}");
        write_marks(world, slot, die, 0)?;
        calls::release(&mut client)?;
    }
    all_resident(&states(world)?, &[])?;
    ensure!(neighbour == NeighbourState::read(world, expect)?, "the neighbour changed");
    no_complaints(world)
}

/// Random visits: each finds its own marks, leaves new ones, and everybody stays bound.
pub(super) fn warm(world: &mut dyn World, expect: &Expect) -> Result<()> {
    visits(world, expect, expect.warm_visits, 0x5107)
}

/// `count` warm visits in an order drawn from `seed`.
fn visits(world: &mut dyn World, expect: &Expect, count: u32, seed: u64) -> Result<()> {
    let slot = the_slot(world)?;
    let neighbour = NeighbourState::read(world, expect)?;
    let survey = world.survey()?;
    let dies: Vec<Bdf> = survey.dies.iter().map(|die| die.bdf).collect();
    let mut inside = in_the_slot(&survey, slot).first().map(|die| die.bdf);
    let mut random = Random::new(seed);
    for visit_number in 0..count {
        let die = dies[random.below(dies.len())];
        let mut client = calls::connect(world)?;
        // The judge counts what each visit costs: nothing for the die that is there already, less
        // than a swap where nobody has to leave first.
        let kind = match inside {
            Some(inside) if inside == die => phase::Kind::Quiet,
            Some(_) => phase::Kind::Warm,
            None => phase::Kind::Free,
        };
        world.phase(&Phase::new(kind, die.to_string()))?;
        let visit = calls::acquire(&mut client, die)?;
        world.phase(&free("look"))?;
        ensure!(visit.kind != Kind::Cold, "visit {visit_number}: {die} was not resident any more");
        if visit_number % 10 == 0 {
            let survey = world.survey()?;
            let open = in_the_slot(&survey, slot);
            let alone = open.len() == 1 && open[0].bdf == die;
            ensure!(alone, "visit {visit_number}: open are {open:?}");
        }
        check_marks(world, slot, die, 0).with_context(|| format!("visit {visit_number}"))?;
        calls::release(&mut client)?;
        inside = Some(die);
    }
    all_resident(&states(world)?, &[])?;
    ensure!(neighbour == NeighbourState::read(world, expect)?, "the neighbour changed");
    no_complaints(world)
}

/// A PCI rescan changes nothing, whoever is in the slot, and visits go on.
pub(super) fn rescan(world: &mut dyn World, expect: &Expect) -> Result<()> {
    let before = world.survey()?;
    world.rescan()?;
    let after = world.survey()?;
    ensure!(before.functions == after.functions, "a rescan changed a PCI function");
    ensure!(before.iomem == after.iomem, "a rescan changed the address map");
    visits(world, expect, 16, 0x2e5c)?;
    calls::vacate(world)?;
    let before = world.survey()?;
    world.rescan()?;
    let after = world.survey()?;
    ensure!(before.functions == after.functions, "a rescan of the shut slot changed a function");
    ensure!(before.iomem == after.iomem, "a rescan of the shut slot changed the address map");
    visits(world, expect, 16, 0x2e5d)
}

/// A die that left the slot still answers at BAR0, and a shut window answers all-ones.
pub(super) fn off_slot(world: &mut dyn World, _expect: &Expect) -> Result<()> {
    let slot = the_slot(world)?;
    calls::vacate(world)?;
    let survey = world.survey()?;
    ensure!(in_the_slot(&survey, slot).is_empty(), "a path is open after the slot was vacated");
    world.phase(&free("read the shut window").with_stray())?;
    for address in [slot.range().base(), slot.range().last() - 3] {
        let found = world.read(address)?;
        ensure!(found == u32::MAX, "the shut window answers {found:#010x} at {address:#x}");
    }
    world.phase(&free("read BAR0 off-slot"))?;
    for die in &survey.dies {
        let bar0 = survey.function_of(die).and_then(|function| function.bar(0)?.assigned);
        let bar0 = bar0.with_context(|| format!("{} has no BAR0", die.bdf))?;
        let found = world.read(bar0.base())?;
        ensure!(found == BOOT0_GK210, "{} answers {found:#010x} at BAR0", die.bdf);
    }
    let asleep = world.sleeping_bridges()?;
    ensure!(asleep.is_empty(), "asleep above resident dies: {asleep:?}");
    Ok(())
}

/// A mapping through the window device faults while its die is away, and works again after.
pub(super) fn map(world: &mut dyn World, _expect: &Expect) -> Result<()> {
    let dies: Vec<Bdf> = world.survey()?.dies.iter().map(|die| die.bdf).collect();
    let (first, sibling, last) = (dies[0], dies[1 % dies.len()], dies[dies.len() - 1]);
    let mut client = calls::connect(world)?;
    calls::acquire(&mut client, first)?;
    let mapping = world.map(first)?;
    let mut touchers = vec![world.start_toucher(first)?, world.start_toucher(first)?];
    let offset = 0x10_0000;
    ensure!(mapping.write(offset, 0xfeed_0001)?.is_some(), "no write while in the slot");
    ensure!(mapping.read(offset)? == Some(0xfeed_0001), "not read back while in the slot");
    for away in [sibling, last] {
        calls::acquire(&mut client, away)?;
        ensure!(mapping.read(offset)?.is_none(), "{first} off-slot: the read did not fault");
        ensure!(
            mapping.write(offset, 0xbad)?.is_none(),
            "{first} off-slot: the write did not fault"
        );
        let toucher = touchers.pop().context("a program for each way to leave")?;
        ensure!(toucher.ends_with_sigbus()?, "{first} off-slot: no SIGBUS for a program");
        calls::acquire(&mut client, first)?;
        ensure!(mapping.read(offset)? == Some(0xfeed_0001), "{first} is back, its data is not");
    }
    calls::release(&mut client)
}

/// Park gives a die back as it was found, and it can be adopted again.
pub(super) fn park(world: &mut dyn World, expect: &Expect) -> Result<()> {
    let slot = the_slot(world)?;
    let dies: Vec<Bdf> = world.survey()?.dies.iter().map(|die| die.bdf).collect();
    for die in [dies[0], dies[dies.len() - 1]] {
        world.phase(&Phase::new(phase::Kind::Park, die.to_string()).with_registers())?;
        calls::park(world, die)?;
        world.phase(&free("parked"))?;
        let survey = world.survey()?;
        let function = &survey.functions[&die];
        ensure!(function.driver.as_ref() == Some(&expect.parker), "{die}: {:?}", function.driver);
        ensure!(function.driver_override.is_none(), "{die}: {:?}", function.driver_override);
        let mut client = calls::connect(world)?;
        world.phase(&cold_phase(die))?;
        let visit = calls::acquire(&mut client, die)?;
        world.phase(&free("mark"))?;
        ensure!(visit.kind == Kind::Cold, "{die} after park: {:?}", visit.kind);
        let driver = world.survey()?.functions[&die].driver.clone();
        ensure!(driver == Some(DriverName::nvidia()), "{die} adopted again is on {driver:?}");
        write_marks(world, slot, die, 0)?;
        calls::release(&mut client)?;
    }
    no_complaints(world)
}
