//! This machine behind the seam.

use std::{
    collections::BTreeSet,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::{
    Roots, adapter,
    handover::Handover,
    process::{Ended, Patience, Writer, run},
    roots::failed,
    slotwin::Device,
    survey,
};
use crate::{
    Bdf, ConfigSpace, DriverName, Machine, MachineError, PciId, Reading, Register, Slot, SlotId,
    Survey,
    seam::{Hold, Opened, Placed, Placement, slot_of},
};

/// This machine: sysfs for surveys and handover, the window module for everything else.
///
/// Making one touches nothing. The window module is opened, and loaded where it is missing, by the
/// first verb that changes something.
#[derive(Debug)]
pub struct Linux {
    roots: Roots,
    ids: Vec<PciId>,
    slots: Vec<Slot>,
    modprobe: PathBuf,
    patience: Patience,
    writer: Writer,
    device: Mutex<Option<Arc<Device>>>,
    /// One verb that changes something at a time.
    turn: Mutex<()>,
    /// Dies in a handover, or in one that never came back: attributes that take the lock of the
    /// device are left alone, since reading them would hang as well.
    moving: Mutex<BTreeSet<Bdf>>,
}

impl Linux {
    /// The machine below `roots`, whose dies have one of `ids`, with these slots.
    pub fn new(roots: Roots, ids: Vec<PciId>, slots: Vec<Slot>) -> Self {
        Self {
            roots,
            ids,
            slots,
            modprobe: PathBuf::from("modprobe"),
            patience: Patience::default(),
            writer: Writer::Thread,
            device: Mutex::default(),
            turn: Mutex::default(),
            moving: Mutex::default(),
        }
    }

    /// Has bind and unbind written by a process of its own, so that one that hangs in the kernel does
    /// not keep this one from ending. `program` is this very program (`/proc/self/exe`), and its
    /// `main` calls [`super::helper`] before anything else.
    #[must_use]
    pub fn with_helper(mut self, program: PathBuf) -> Self {
        self.writer = Writer::Process(program);
        self
    }

    /// Another `modprobe`.
    #[must_use]
    pub fn with_modprobe(mut self, program: PathBuf) -> Self {
        self.modprobe = program;
        self
    }

    /// Other deadlines.
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// A descriptor whose `mmap` is BAR1 of `die`; see [`Device::map`].
    pub fn map(&self, die: Bdf) -> Result<OwnedFd, MachineError> {
        self.known(die)?;
        self.device()?.map(die)
    }

    /// The window device, opened at first use.
    fn device(&self) -> Result<Arc<Device>, MachineError> {
        let mut device = lock(&self.device);
        if let Some(device) = &*device {
            return Ok(Arc::clone(device));
        }
        let opened = Arc::new(Device::open(&self.node())?);
        *device = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The same, with the module loaded where it is missing.
    fn device_loaded(&self) -> Result<Arc<Device>, MachineError> {
        match self.device() {
            Err(MachineError::NoWindowModule) => {
                self.load()?;
                self.device()
            }
            device => device,
        }
    }

    /// Loads the window module for our dies and slots. That writes to no device.
    fn load(&self) -> Result<(), MachineError> {
        let list = |words: Vec<String>| words.join(",");
        let slot = |slot: &Slot| format!("{:#x}+{:#x}", slot.range().base(), slot.range().size());
        let slots = list(self.slots.iter().map(slot).collect());
        let ids = list(self.ids.iter().map(PciId::to_string).collect());
        let mut modprobe = Command::new(&self.modprobe);
        modprobe.arg("slotwin").arg(format!("slots={slots}")).arg(format!("ids={ids}"));
        let ended = run(&mut modprobe, Instant::now() + self.patience.load);
        let said = match ended.map_err(failed("run", &self.modprobe))? {
            Ended::With(status, _) if status.success() => return Ok(()),
            Ended::With(_, said) if said.contains("not found") => {
                return Err(MachineError::NoWindowModule);
            }
            Ended::With(status, said) => format!("{status}, {said}: `dmesg` says why"),
            Ended::Not => format!("it did not end within {} s", self.patience.load.as_secs()),
        };
        Err(failed("load", Path::new("slotwin"))(io::Error::other(said)))
    }

    fn node(&self) -> PathBuf {
        self.roots.dev.join("slotwin")
    }

    /// Where `slot` stands in the module's own list.
    fn owned(&self, device: &Device, slot: SlotId) -> Result<SlotId, MachineError> {
        let wanted = slot_of(&self.slots, slot).ok_or(MachineError::UnknownSlot(slot))?;
        let owned = device.info()?.slots;
        let index = owned.iter().position(|owned| owned.range == wanted.range());
        index.and_then(|index| u8::try_from(index).ok()).map(SlotId).ok_or_else(|| {
            let text = "slotwin was loaded with other slots: park every die, `modprobe -r slotwin`";
            failed("find", Path::new(&format!("{slot}, {wanted}")))(io::Error::other(text))
        })
    }

    /// Refuses what is no die of this machine.
    fn known(&self, die: Bdf) -> Result<(), MachineError> {
        let known = survey::id(&self.roots, die).is_some_and(|id| self.ids.contains(&id));
        known.then_some(()).ok_or(MachineError::UnknownDie(die))
    }

    fn handover(&self, die: Bdf) -> Result<(Handover<'_>, Moving<'_>), MachineError> {
        if !lock(&self.moving).insert(die) {
            let reason = "an earlier handover of it never came back: a power cycle heals it";
            return Err(refused("hand over", die, reason.to_owned()));
        }
        let Self { roots, writer, modprobe, .. } = self;
        Ok((Handover { roots, writer, modprobe, die }, Moving { machine: self, die, keep: false }))
    }

    /// What nvidia takes for granted and does not check: BAR1 stands at a slot, in the kernel's books
    /// and in the register.
    fn check_bar1(&self, die: Bdf) -> Result<(), MachineError> {
        let survey = self.survey()?;
        let function = survey.functions.get(&die).ok_or(MachineError::UnknownDie(die))?;
        let refuse = |what: String| {
            Err(refused("bind", die, format!("{what}: place its card and open its window first")))
        };
        match function.config {
            ConfigSpace::Answers => {}
            ConfigSpace::AllOnes => return Err(MachineError::Absent(die)),
            ConfigSpace::Asleep => return refuse("it or a bridge above it sleeps".to_owned()),
            ConfigSpace::Unreadable => return refuse("its config space can't be read".to_owned()),
        }
        let bar1 = function.bar(1);
        let Some(assigned) = bar1.and_then(|bar| bar.assigned) else {
            return refuse("its BAR1 is unassigned".to_owned());
        };
        if !self.slots.iter().any(|slot| slot.range() == assigned) {
            return refuse(format!("its BAR1 is at {assigned}, which is no slot"));
        }
        let register = bar1.and_then(|bar| bar.register);
        if register != Some(assigned.base()) {
            let register = register.unwrap_or_default();
            return refuse(format!("its BAR1 register says {register:#x}, the kernel {assigned}"));
        }
        Ok(())
    }
}

/// A die in a handover, until this is dropped; one that never came back stays so.
struct Moving<'a> {
    machine: &'a Linux,
    die: Bdf,
    keep: bool,
}

impl Moving<'_> {
    fn end<T>(mut self, result: Result<T, MachineError>) -> Result<T, MachineError> {
        self.keep = matches!(result, Err(MachineError::Deadline { .. }));
        result
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        if !self.keep {
            lock(&self.machine.moving).remove(&self.die);
        }
    }
}

/// What these locks guard is whole at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(operation: &'static str, die: Bdf, reason: String) -> MachineError {
    MachineError::Refused { operation, die, reason }
}

impl Machine for Linux {
    fn survey(&self) -> Result<Survey, MachineError> {
        let moving = lock(&self.moving).clone();
        survey::read(&self.roots, &self.ids, &moving)
    }

    fn place(&self, die: Bdf, placement: Placement) -> Result<Placed, MachineError> {
        self.known(die)?;
        let _turn = lock(&self.turn);
        let device = self.device_loaded()?;
        let slot = self.owned(&device, placement.slot)?;
        Ok(match device.place(die, slot, placement.gate)? {
            0 => Placed::Already,
            config_writes => Placed::Now { config_writes },
        })
    }

    fn open(&self, slot: SlotId, die: Bdf) -> Result<Opened, MachineError> {
        self.known(die)?;
        let _turn = lock(&self.turn);
        let device = self.device_loaded()?;
        let slot = self.owned(&device, slot)?;
        device.open_die(slot, die)
    }

    fn shut(&self, slot: SlotId) -> Result<(), MachineError> {
        let _turn = lock(&self.turn);
        let device = self.device_loaded()?;
        let slot = self.owned(&device, slot)?;
        device.shut(slot).map(drop)
    }

    fn bind(&self, die: Bdf, driver: &DriverName) -> Result<(), MachineError> {
        self.known(die)?;
        let _turn = lock(&self.turn);
        let (handover, moving) = self.handover(die)?;
        match handover.driver()? {
            Some(bound) if bound == *driver => return Ok(()),
            Some(bound) => {
                return Err(refused("bind", die, format!("{bound} has it: unbind it first")));
            }
            None => {}
        }
        if *driver == DriverName::nvidia() {
            self.check_bar1(die)?;
        }
        moving.end(handover.bind(driver, self.patience.bind))
    }

    fn unbind(&self, die: Bdf) -> Result<(), MachineError> {
        self.known(die)?;
        let _turn = lock(&self.turn);
        let (handover, moving) = self.handover(die)?;
        let Some(driver) = handover.driver()? else { return Ok(()) };
        moving.end(handover.unbind(&driver, self.patience.unbind))
    }

    fn peek(&self, die: Bdf, register: Register) -> Result<Reading, MachineError> {
        self.known(die)?;
        self.device()?.peek(die, register.offset())
    }

    fn hold(&self, die: Bdf) -> Result<Box<dyn Hold>, MachineError> {
        self.known(die)?;
        let _turn = lock(&self.turn);
        let (handover, moving) = self.handover(die)?;
        if handover.driver()? != Some(DriverName::nvidia()) {
            return Err(refused("hold", die, "nvidia does not have it: adopt it first".to_owned()));
        }
        let held = moving.end(adapter::hold(&self.roots, die, self.patience.hold))?;
        Ok(Box::new(held))
    }
}
