//! A guest of the QEMU rig as a world: a real kernel, real PCI, `slotwin.ko`, a driver named nvidia.

mod kernel_log;
mod mapping;
mod physical;

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    os::{
        fd::OwnedFd,
        unix::{net::UnixListener, process::ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use slot_rig::phase::{self, Phase};
use vfio_park::{
    Bdf, DriverName, PciId, Slot, Survey,
    linux::{self, Roots, slotwin},
};

use self::{kernel_log::KernelLog, mapping::GuestMapping, physical::Physical};
use crate::{Mapping, Toucher, World};

/// Where the daemon listens in the guest.
const SOCKET: &str = "/run/slotd.sock";

/// The machine that this process runs on. Only for a guest of the rig: it reads and writes
/// physical memory.
pub struct GuestWorld {
    slots: Vec<Slot>,
    physical: Physical,
    log: KernelLog,
    /// Stays open over restarts, as a socket unit's does.
    listener: UnixListener,
    daemon: Option<Child>,
}

impl GuestWorld {
    /// This machine, with these slots.
    pub fn new(slots: Vec<Slot>) -> Result<Self> {
        Ok(Self {
            slots,
            physical: Physical::open()?,
            log: KernelLog::open()?,
            listener: UnixListener::bind(SOCKET).with_context(|| format!("listen at {SOCKET}"))?,
            daemon: None,
        })
    }

    fn end(&mut self, signal: Signal) -> Result<()> {
        let mut child = self.daemon.take().context("no daemon runs")?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process id")?, signal).context("signal slotd")?;
        let status = child.wait().context("wait for slotd")?;
        let expected = match signal {
            Signal::KILL => status.signal() == Some(signal.as_raw()),
            _ => status.success(),
        };
        ensure!(expected, "slotd ended with {status}");
        Ok(())
    }
}

impl World for GuestWorld {
    fn slots(&self) -> Vec<Slot> {
        self.slots.clone()
    }

    fn socket(&self) -> &Path {
        Path::new(SOCKET)
    }

    fn start(&mut self) -> Result<()> {
        ensure!(self.daemon.is_none(), "the daemon runs already");
        if !Path::new("/dev/slotwin").exists() {
            let status = Command::new("modprobe").arg("slotwin").status();
            ensure!(status.context("run modprobe")?.success(), "modprobe slotwin failed");
        }
        // The socket waits for the daemon as systemd's would, on descriptor 3.
        let socket: OwnedFd = self.listener.try_clone().context("copy the socket")?.into();
        let slots: Vec<String> = self.slots.iter().map(ToString::to_string).collect();
        let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec slotd --quiet --slots \"$0\" $SLOTD_OPTIONS";
        let child = Command::new("sh").args(["-c", script, &slots.join(",")]).stdin(socket).spawn();
        self.daemon = Some(child.context("start slotd")?);
        Ok(())
    }

    fn kill(&mut self) -> Result<()> {
        self.end(Signal::KILL)
    }

    fn stop(&mut self) -> Result<()> {
        self.end(Signal::TERM)
    }

    fn survey(&self) -> Result<Survey> {
        Ok(linux::survey::read(&Roots::default(), &[PciId::GK210], &BTreeSet::new())?)
    }

    fn read(&self, address: u64) -> Result<u32> {
        self.physical.read(address)
    }

    fn write(&self, address: u64, value: u32) -> Result<()> {
        self.physical.write(address, value)
    }

    fn map(&self, die: Bdf) -> Result<Box<dyn Mapping>> {
        Ok(Box::new(map(die, self.slots[0])?))
    }

    fn start_toucher(&self, die: Bdf) -> Result<Box<dyn Toucher>> {
        let own = std::env::current_exe().context("find this program")?;
        let mut command = Command::new(own);
        command.args(["touch", &die.to_string(), &self.slots[0].to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.context("start a program that maps a die")?;
        let mut line = String::new();
        let output = child.stdout.take().context("its output")?;
        BufReader::new(output).read_line(&mut line).context("wait for its first touch")?;
        ensure!(line.trim() == "touched", "it says {line:?}");
        Ok(Box::new(Program(child)))
    }

    fn rescan(&self) -> Result<()> {
        fs::write("/sys/bus/pci/rescan", "1").context("write /sys/bus/pci/rescan")
    }

    fn phase(&self, phase: &Phase) -> Result<()> {
        phase::mark(phase).context("tell the judge")
    }

    fn information(&self, die: Bdf) -> Result<String> {
        let path = PathBuf::from(format!("/proc/driver/nvidia/gpus/{die}/information"));
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }

    fn sleeping_bridges(&self) -> Result<Vec<Bdf>> {
        let survey = self.survey()?;
        let mut asleep = Vec::new();
        for die in &survey.dies {
            let driver = survey.function_of(die).and_then(|function| function.driver.clone());
            if driver != Some(DriverName::nvidia()) {
                continue;
            }
            for bridge in &die.path {
                let path = format!("/sys/bus/pci/devices/{bridge}/power/runtime_status");
                let status = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
                if status.trim() == "suspended" && !asleep.contains(bridge) {
                    asleep.push(*bridge);
                }
            }
        }
        Ok(asleep)
    }

    fn complaints(&self) -> Result<Vec<String>> {
        self.log.complaints()
    }
}

impl Drop for GuestWorld {
    fn drop(&mut self) {
        if self.daemon.is_some()
            && let Err(error) = self.end(Signal::KILL)
        {
            eprintln!("{error:#}");
        }
    }
}

fn map(die: Bdf, slot: Slot) -> Result<GuestMapping> {
    let device = slotwin::Device::open(Path::new("/dev/slotwin"))?;
    GuestMapping::new(&device.map(die)?, slot.range().size())
}

/// A program of its own with a mapping.
struct Program(Child);

impl Toucher for Program {
    fn ends_with_sigbus(mut self: Box<Self>) -> Result<bool> {
        let mut input = self.0.stdin.take().context("its input")?;
        input.write_all(b"\n").context("tell it to touch again")?;
        let status = self.0.wait().context("wait for its end")?;
        Ok(status.signal() == Some(Signal::BUS.as_raw()))
    }
}

/// The body of that program: touches, tells so, waits for a line, touches again.
pub fn touch_twice(die: Bdf, slot: Slot) -> Result<()> {
    let mapping = map(die, slot)?;
    mapping.touch(0)?;
    println!("touched");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("wait for a line")?;
    if line.is_empty() {
        bail!("nobody is there any more");
    }
    let found = mapping.touch(0)?;
    println!("still there: {found:#010x}");
    Ok(())
}
