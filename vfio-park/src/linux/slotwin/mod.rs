//! The window device, `/dev/slotwin`: each request as a function.

mod call;
mod refusal;
#[cfg(test)]
mod tests;
mod uapi;

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::io::Errno;

use self::refusal::{Asked, of_die, other};
use super::roots::failed;
use crate::{AddressRange, Bdf, Gate, MachineError, Reading, SlotId, seam::Opened};

/// The open window device. Opening it touches no hardware.
#[derive(Debug)]
pub struct Device(File);

/// What the module is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its slots, in the order of its own list.
    pub slots: Vec<OwnedSlot>,
    /// How many dies it knows.
    pub dies: u32,
}

/// A slot that the module owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedSlot {
    /// Its addresses.
    pub range: AddressRange,
    /// The die that is open.
    pub open: Option<Bdf>,
}

/// A die as the module knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the module's flags, each on its own")]
pub struct KnownDie {
    /// Its address.
    pub bdf: Bdf,
    /// Its home, or where firmware put it; an index of the module's own list.
    pub slot: Option<SlotId>,
    /// What makes it reachable.
    pub gate: Gate,
    /// Its card has its place.
    pub placed: bool,
    /// It answers in its slot.
    pub open: bool,
    /// Bound to a parker.
    pub parked: bool,
    /// Bound to another driver.
    pub resident: bool,
    /// Removed, or answers all-ones.
    pub absent: bool,
    /// It, or a bridge above it, sleeps.
    pub asleep: bool,
}

impl Device {
    /// Opens the device at `path`.
    ///
    /// # Errors
    /// [`MachineError::NoWindowModule`] where there is none; where the module speaks another API.
    pub fn open(path: &Path) -> Result<Self, MachineError> {
        let file =
            OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
                match error.kind() {
                    io::ErrorKind::NotFound => MachineError::NoWindowModule,
                    _ => failed("open", path)(error),
                }
            })?;
        let device = Self(file);
        device.info()?;
        Ok(device)
    }

    /// What the module is, and who is open.
    pub fn info(&self) -> Result<Info, MachineError> {
        let mut info = uapi::Info::default();
        call::send(&self.0, &mut info).map_err(|errno| other("ask", "what it is", errno))?;
        if info.api != uapi::API {
            let (here, there) = (uapi::API, info.api);
            let text = format!(
                "slotwin speaks API {there}, this program {here}: install the two together"
            );
            return Err(failed("ask", Path::new("/dev/slotwin"))(io::Error::other(text)));
        }
        let owned = |slot: &uapi::InfoSlot| {
            let open = (slot.open != uapi::NO_DIE).then_some(slot.open).and_then(unpack);
            AddressRange::new(slot.base, slot.bytes).map(|range| OwnedSlot { range, open })
        };
        let count = usize::try_from(info.nr_slots).unwrap_or(usize::MAX);
        let slots = info.slots.iter().take(count).filter_map(owned).collect();
        Ok(Info { slots, dies: info.nr_dies })
    }

    /// Every die that the module knows. Wakes none.
    pub fn dies(&self) -> Result<Vec<KnownDie>, MachineError> {
        let mut dies = Vec::new();
        for index in 0..self.info()?.dies {
            let mut survey = uapi::Survey { index, ..Default::default() };
            match call::send(&self.0, &mut survey) {
                Ok(()) => dies.extend(known(&survey)),
                Err(Errno::NXIO) => break,
                Err(Errno::NODEV) => {}
                Err(errno) => return Err(other("survey", "dies", errno)),
            }
        }
        Ok(dies)
    }

    /// Gives the card of `die` its place; the number of config writes.
    pub fn place(&self, die: Bdf, slot: SlotId, gate: Gate) -> Result<u32, MachineError> {
        let gate = match gate {
            Gate::Window => uapi::GATE_WINDOW,
            Gate::Decode => uapi::GATE_DECODE,
        };
        let mut place =
            uapi::Place { die: pack(die), slot: slot.0.into(), gate, ..Default::default() };
        call::send(&self.0, &mut place)
            .map_err(|errno| self.refused(Asked::Place, die, Some(slot), errno))?;
        Ok(place.config_writes)
    }

    /// Makes `die` the one that answers in `slot`.
    pub fn open_die(&self, slot: SlotId, die: Bdf) -> Result<Opened, MachineError> {
        let mut open = uapi::Open { die: pack(die), slot: slot.0.into(), ..Default::default() };
        call::send(&self.0, &mut open)
            .map_err(|errno| self.refused(Asked::Open, die, Some(slot), errno))?;
        let range = AddressRange::new(open.base, open.bytes)
            .ok_or_else(|| other("open", &die.to_string(), Errno::RANGE))?;
        Ok(Opened { range, config_writes: open.config_writes })
    }

    /// Shuts `slot`; the number of config writes.
    pub fn shut(&self, slot: SlotId) -> Result<u32, MachineError> {
        let mut shut = uapi::Shut { slot: slot.0.into(), ..Default::default() };
        call::send(&self.0, &mut shut).map_err(|errno| match errno {
            Errno::NXIO => MachineError::UnknownSlot(slot),
            errno => other("shut", &slot.to_string(), errno),
        })?;
        Ok(shut.config_writes)
    }

    /// Reads the register of `die` at `offset` in BAR0.
    pub fn peek(&self, die: Bdf, offset: u32) -> Result<Reading, MachineError> {
        let mut peek = uapi::Peek { die: pack(die), offset, ..Default::default() };
        call::send(&self.0, &mut peek)
            .map_err(|errno| self.refused(Asked::Peek, die, None, errno))?;
        Ok(Reading::from_raw(peek.value))
    }

    /// A descriptor whose `mmap` is BAR1 of `die`: SIGBUS while the die is not open, and its memory
    /// again once it is back.
    pub fn map(&self, die: Bdf) -> Result<OwnedFd, MachineError> {
        call::map(&self.0, pack(die)).map_err(|errno| self.refused(Asked::Map, die, None, errno))
    }

    /// Ends every mapping of a descriptor from [`Device::map`], now and for good.
    pub fn revoke(mapping: impl AsFd) -> Result<(), MachineError> {
        call::revoke(mapping).map_err(|errno| other("revoke", "a mapping", errno))
    }

    fn refused(&self, asked: Asked, die: Bdf, slot: Option<SlotId>, errno: Errno) -> MachineError {
        let gone = |known: Vec<KnownDie>| known.iter().any(|k| k.bdf == die && k.absent);
        of_die(asked, die, slot, errno == Errno::IO && self.dies().is_ok_and(gone), errno)
    }
}

fn known(survey: &uapi::Survey) -> Option<KnownDie> {
    let is = |flag| survey.state & flag != 0;
    let slot = (survey.slot != uapi::NO_SLOT).then_some(survey.slot);
    Some(KnownDie {
        bdf: unpack(survey.bdf)?,
        slot: slot.and_then(|slot| u8::try_from(slot).ok()).map(SlotId),
        gate: if survey.gate == uapi::GATE_DECODE { Gate::Decode } else { Gate::Window },
        placed: is(uapi::DIE_PLACED),
        open: is(uapi::DIE_OPEN),
        parked: is(uapi::DIE_PARKED),
        resident: is(uapi::DIE_RESIDENT),
        absent: is(uapi::DIE_ABSENT),
        asleep: is(uapi::DIE_ASLEEP),
    })
}

/// A PCI address as the module writes it: domain, bus, device and function, from the top.
fn pack(bdf: Bdf) -> u32 {
    u32::from(bdf.domain()) << 16
        | u32::from(bdf.bus()) << 8
        | u32::from(bdf.device()) << 3
        | u32::from(bdf.function())
}

fn unpack(packed: u32) -> Option<Bdf> {
    let [low, bus, ..] = packed.to_le_bytes();
    Bdf::new(u16::try_from(packed >> 16).ok()?, bus, low >> 3, low & 7)
}
