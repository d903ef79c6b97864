//! The simulator as a world: the daemon runs in this process, on a machine that outlives it.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use slot_rig::phase::{Kind, Phase};
use tempfile::TempDir;
use vfio_park::{
    Bdf, Machine, Slot, Survey,
    sim::{DieMap, Preset, Simulator},
};

use crate::{Mapping, Toucher, World, daemon::InProcess};

/// A simulated machine and a daemon on it.
pub struct SimWorld {
    machine: Simulator,
    _folder: TempDir,
    socket: PathBuf,
    daemon: Option<InProcess>,
    judged: RefCell<Judged>,
}

/// What the running phase allows, and where in the trace it began.
struct Judged {
    phase: Phase,
    from: u64,
}

impl SimWorld {
    /// A machine that has just been turned on.
    pub fn new(preset: Preset) -> Result<Self> {
        let folder = TempDir::new().context("make a folder for the socket")?;
        let socket = folder.path().join("slotd.sock");
        let machine = Simulator::new(preset);
        let judged = Judged { phase: Phase::new(Kind::Boot, ""), from: machine.config_writes() };
        let judged = RefCell::new(judged);
        Ok(Self { machine, _folder: folder, socket, daemon: None, judged })
    }

    /// The machine itself.
    pub fn machine(&self) -> &Simulator {
        &self.machine
    }

    /// Holds the phase that ends to what it promised.
    fn judge(&self) -> Result<()> {
        let judged = self.judged.borrow();
        let trace = self.machine.trace(judged.from);
        let survey = self.machine.survey()?;
        let to_dies = trace.iter().filter(|write| survey.die(write.bdf).is_some()).count();
        let phase = &judged.phase;
        match phase.kind {
            Kind::Quiet => ensure!(trace.is_empty(), "`{phase}` took config writes: {trace:?}"),
            Kind::Warm => {
                let count = trace.len();
                ensure!((2..=4).contains(&count), "`{phase}` took {count} config writes");
                ensure!(to_dies == 0, "`{phase}` wrote to a die: {trace:?}");
            }
            Kind::Boot | Kind::Free | Kind::Cold | Kind::Park => (),
        }
        let violations = self.machine.violations();
        ensure!(violations.is_empty(), "`{phase}` broke the machine's rules: {violations:?}");
        Ok(())
    }
}

impl World for SimWorld {
    fn slots(&self) -> Vec<Slot> {
        self.machine.slots().to_vec()
    }

    fn socket(&self) -> &Path {
        &self.socket
    }

    fn start(&mut self) -> Result<()> {
        ensure!(self.daemon.is_none(), "the daemon runs already");
        self.daemon = Some(InProcess::start(&self.machine, &self.socket)?);
        Ok(())
    }

    fn kill(&mut self) -> Result<()> {
        self.daemon.take().context("no daemon to kill")?.kill()
    }

    fn stop(&mut self) -> Result<()> {
        self.daemon.take().context("no daemon to stop")?.stop()
    }

    fn survey(&self) -> Result<Survey> {
        Ok(self.machine.survey()?)
    }

    fn read(&self, address: u64) -> Result<u32> {
        let mut word = [0; 4];
        self.machine.cpu_read(address, &mut word);
        Ok(u32::from_le_bytes(word))
    }

    fn write(&self, address: u64, value: u32) -> Result<()> {
        self.machine.cpu_write(address, &value.to_le_bytes());
        Ok(())
    }

    fn map(&self, die: Bdf) -> Result<Box<dyn Mapping>> {
        Ok(Box::new(SimMapping(self.machine.map(die)?)))
    }

    fn start_toucher(&self, die: Bdf) -> Result<Box<dyn Toucher>> {
        let mapping = SimMapping(self.machine.map(die)?);
        ensure!(mapping.read(0)?.is_some(), "{die} is not in the slot");
        Ok(Box::new(mapping))
    }

    fn rescan(&self) -> Result<()> {
        self.machine.rescan();
        Ok(())
    }

    fn phase(&self, phase: &Phase) -> Result<()> {
        self.judge()?;
        let next = Judged { phase: phase.clone(), from: self.machine.config_writes() };
        self.judged.replace(next);
        Ok(())
    }

    fn information(&self, die: Bdf) -> Result<String> {
        let Some(text) = self.machine.information(die) else { bail!("{die} is not on nvidia") };
        Ok(text)
    }

    fn sleeping_bridges(&self) -> Result<Vec<Bdf>> {
        let survey = self.machine.survey()?;
        let asleep = |function: &&vfio_park::Function| {
            function.bridge.is_some() && function.power != vfio_park::PowerState::D0
        };
        Ok(survey.functions.values().filter(asleep).map(|function| function.bdf).collect())
    }

    fn complaints(&self) -> Result<Vec<String>> {
        Ok(self.machine.violations().iter().map(ToString::to_string).collect())
    }
}

/// A mapping of the simulator's window module.
struct SimMapping(DieMap);

impl Mapping for SimMapping {
    fn read(&self, offset: u64) -> Result<Option<u32>> {
        let mut word = [0; 4];
        Ok(self.0.read(offset, &mut word).is_ok().then(|| u32::from_le_bytes(word)))
    }

    fn write(&self, offset: u64, value: u32) -> Result<Option<()>> {
        Ok(self.0.write(offset, &value.to_le_bytes()).ok())
    }
}

impl Toucher for SimMapping {
    fn ends_with_sigbus(self: Box<Self>) -> Result<bool> {
        Ok(Mapping::read(&*self, 0)?.is_none())
    }
}
