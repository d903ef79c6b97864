//! Boots a machine in QEMU and runs a test in it.

mod console;
mod files;
mod guest;
mod options;
mod profile;
mod qemu;
mod qmp;
mod tree;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail};
use vfio_park::model::OtherRegisters;

use self::{
    console::{Console, Said},
    qemu::{CONSOLE, DEVICES, INITRAMFS, MESSAGES, MONITOR, TOPOLOGY, TRACE},
};
pub use self::{
    options::{Kernel, Nvidia, Options},
    profile::Profile,
};
use crate::{device::Fleet, log::Log, topology::Topology};

/// What a run left behind.
#[derive(Debug)]
pub struct Outcome {
    /// The test's exit status.
    pub status: u8,
    /// Lines in which the guest's kernel complained.
    pub complaints: Vec<String>,
    /// QEMU's trace of config writes.
    pub trace: PathBuf,
    /// What the devices saw.
    pub devices: PathBuf,
    /// Which device sat where.
    pub topology: Topology,
    /// Seconds from the start of QEMU to its end.
    pub seconds: f32,
}

/// QEMU, ended at the latest when this is dropped.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        // Both fail only where it ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a test. Everything the run makes goes into `work`, an empty folder.
pub fn run(options: &Options, work: &Path) -> Result<Outcome> {
    let rig = files::rig(options);
    files::check(options, &rig)?;
    let staging = work.join("staging");
    fs::create_dir(&staging)?;
    guest::build(options, &rig, &staging, &work.join(INITRAMFS)).context("build the initramfs")?;
    fs::remove_dir_all(&staging)?;
    let log = Log::create(&work.join(DEVICES)).context("start the devices' log")?;
    fleet(options).start(work, &log)?;
    let start = Instant::now();
    let mut command = qemu::command(options, &rig, work);
    let messages = work.join(MESSAGES);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(&messages)?);
    let child = command.spawn();
    let mut qemu = Qemu(child.context("start QEMU")?);
    let pipe = qemu.0.stdout.take().context("QEMU's console")?;
    let mut console = Console::new(pipe, &work.join(CONSOLE), start + options.timeout)?;
    let mut topology = None;
    let mut status = None;
    let mut complaints = Vec::new();
    while let Some(said) = console.next_line(options.quiet)? {
        match said {
            Said::Ready => {
                let found = qmp::topology(&work.join(MONITOR), options.profile.slots())?;
                fs::write(work.join(TOPOLOGY), serde_json::to_string_pretty(&found)?)?;
                topology = Some(found);
            }
            Said::Exit(code) => status = Some(code),
            Said::Complaint(line) => complaints.push(line),
            Said::Other => {}
        }
    }
    let ended = qemu.0.wait().context("wait for QEMU")?;
    let Some(status) = status else {
        bail!(
            "the guest ended without a result after {} s (QEMU: {ended}); its last words:\n{}\n{}",
            start.elapsed().as_secs(),
            console.tail(),
            fs::read_to_string(&messages)?
        )
    };
    Ok(Outcome {
        status,
        complaints,
        trace: work.join(TRACE),
        devices: work.join(DEVICES),
        topology: topology.context("the guest never said that it was ready")?,
        seconds: start.elapsed().as_secs_f32(),
    })
}

fn fleet(options: &Options) -> Fleet {
    Fleet {
        dies: u16::from(options.profile.cards()) * 2,
        neighbour: options.neighbour,
        backgrounds: options.profile.slots().iter().map(|slot| slot.range().size()).collect(),
        other_registers: match options.nvidia {
            Nvidia::Real => OtherRegisters::Scratch,
            Nvidia::Standin | Nvidia::None => OtherRegisters::PriFault,
        },
    }
}
