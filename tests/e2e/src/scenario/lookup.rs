//! What a world is expected to be, and looks at it that several parts share.

use anyhow::{Result, bail, ensure};
use vfio_park::{AddressRange, Bdf, Die, DieState, DriverName, PciId, Slot, Survey};

use crate::World;

/// What the scenario expects of the machine it runs on.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Number of dies.
    pub dies: usize,
    /// The driver they wait on.
    pub parker: DriverName,
    /// A normal GPU that must not notice anything.
    pub neighbour: Option<PciId>,
    /// Warm acquires in random order.
    pub warm_visits: u32,
    /// Times the daemon is killed.
    pub kills: u32,
}

/// The slot of a world that has one.
pub(super) fn the_slot(world: &dyn World) -> Result<Slot> {
    match world.slots()[..] {
        [slot] => Ok(slot),
        ref slots => bail!("the scenario wants one slot, there are {}", slots.len()),
    }
}

/// The state of every die, read behind the daemon's back.
pub(super) fn states(world: &dyn World) -> Result<Vec<(Bdf, DieState)>> {
    let (survey, slots) = (world.survey()?, world.slots());
    let state = |die: &Die| (die.bdf, DieState::read(&survey, die, &slots));
    Ok(survey.dies.iter().map(state).collect())
}

/// Fails unless every die but those in `others` is resident.
pub(super) fn all_resident(states: &[(Bdf, DieState)], others: &[Bdf]) -> Result<()> {
    for (die, state) in states.iter().filter(|(die, _)| !others.contains(die)) {
        ensure!(matches!(state, DieState::Resident { .. }), "{die} is {state:?}");
    }
    Ok(())
}

/// The dies that answer in the slot just now: never more than one.
pub(super) fn in_the_slot(survey: &Survey, slot: Slot) -> Vec<&Die> {
    survey.dies.iter().filter(|die| survey.path_open(die, slot.range())).collect()
}

/// A mark that no two places share.
pub(super) fn mark(die: Bdf, round: u32, end: u32) -> u32 {
    let place = u32::from(die.bus()) << 8 | u32::from(die.device()) << 3;
    (place << 12) ^ (round << 1) ^ end ^ 0x5a00_0000
}

/// The first and the last 32-bit word of a range.
fn ends(range: AddressRange) -> [(u32, u64); 2] {
    [(0, range.base()), (1, range.last() - 3)]
}

/// Writes the marks of a die at both ends of the slot.
pub(super) fn write_marks(world: &dyn World, slot: Slot, die: Bdf, round: u32) -> Result<()> {
    for (end, address) in ends(slot.range()) {
        world.write(address, mark(die, round, end))?;
    }
    check_marks(world, slot, die, round)
}

/// Reads the marks of a die at both ends of the slot.
pub(super) fn check_marks(world: &dyn World, slot: Slot, die: Bdf, round: u32) -> Result<()> {
    for (end, address) in ends(slot.range()) {
        let (found, wanted) = (world.read(address)?, mark(die, round, end));
        ensure!(
            found == wanted,
            "{die} at {address:#x}: {found:#010x}, its mark is {wanted:#010x}"
        );
    }
    Ok(())
}

/// Fails on anything that the kernel's log should not hold.
pub(super) fn no_complaints(world: &dyn World) -> Result<()> {
    let complaints = world.complaints()?;
    ensure!(complaints.is_empty(), "the kernel complained:\n{}", complaints.join("\n"));
    Ok(())
}

/// Everything about the neighbour that must stay as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NeighbourState {
    function: vfio_park::Function,
    ports: Vec<vfio_park::Function>,
    word: u32,
}

impl NeighbourState {
    /// Reads it, contents of its memory included; `None` where no neighbour is expected.
    pub(super) fn read(world: &dyn World, expect: &Expect) -> Result<Option<Self>> {
        let Some(id) = expect.neighbour else { return Ok(None) };
        let survey = world.survey()?;
        let Some(function) = survey.functions.values().find(|function| function.id == id) else {
            bail!("the neighbour {id} is missing");
        };
        let Some(memory) = function.bar(1).and_then(|bar| bar.assigned) else {
            bail!("the neighbour {} has no memory window", function.bdf);
        };
        let mut ports = Vec::new();
        let mut above = function.parent;
        while let Some(port) = above.and_then(|bdf| survey.functions.get(&bdf)) {
            ports.push(port.clone());
            above = port.parent;
        }
        let word = world.read(memory.base())?;
        Ok(Some(Self { function: function.clone(), ports, word }))
    }

    /// Writes a word to the neighbour's memory, to be found again later.
    pub(super) fn leave_a_mark(world: &dyn World, expect: &Expect) -> Result<()> {
        let Some(id) = expect.neighbour else { return Ok(()) };
        let survey = world.survey()?;
        let function = survey.functions.values().find(|function| function.id == id);
        let memory = function.and_then(|function| function.bar(1)?.assigned);
        let Some(memory) = memory else { bail!("the neighbour {id} has no memory window") };
        world.write(memory.base(), 0x7474_7474)
    }
}
