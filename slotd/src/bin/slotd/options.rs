//! The command line.

use std::{collections::HashMap, fs, io, path::PathBuf, sync::Arc};

use clap::Parser;
use slotd::{core::Manner, daemon::Setup};
use slotd_client::{DEFAULT_SOCKET, SOCKET_VARIABLE};
use thiserror::Error;
use vfio_park::{
    Bdf, Gate, PciId, Slot,
    linux::{Linux, Roots},
    sim::{FaultPlan, Preset, Simulator},
};

const AFTER_HELP: &str = "\
Starting slotd reads the machine and writes nothing to it; the first acquire does. Where a service
manager hands a socket over (LISTEN_FDS), that one is used and --socket is not.

Exit codes:
  0  stopped by a signal
  1  could not start, or not go on
  2  the command line makes no sense
  4  stopped while an operation hung in the kernel

RUST_LOG sets what is logged, e.g. RUST_LOG=slotd=debug.";

/// Lets dies take turns in a range of addresses.
#[derive(Debug, Parser)]
#[command(name = "slotd", version, after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Where to listen.
    #[arg(long, env = SOCKET_VARIABLE, default_value = DEFAULT_SOCKET, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// The slots: ADDRESS or ADDRESS+SIZE, 16 GiB by default, several with commas.
    #[arg(long, value_delimiter = ',', value_name = "SLOT")]
    slots: Vec<Slot>,
    /// PCI ids of the dies, several with commas.
    #[arg(long, value_delimiter = ',', value_name = "ID", default_value = "10de:102d")]
    ids: Vec<PciId>,
    /// What makes a die reachable: `window` moves bridge windows only; `decode` turns memory decode of
    /// the dies off and on as well, for boards where that is needed.
    #[arg(long, default_value_t)]
    gate: Gate,
    /// Does not keep the adapters of resident dies initialised: the first program on a die pays for
    /// that, and the last one shuts it down again.
    #[arg(long)]
    no_hold: bool,
    /// Labels of dies: BDF=LABEL, several with commas.
    #[arg(long, value_delimiter = ',', value_name = "BDF=LABEL", value_parser = label)]
    labels: Vec<(Bdf, String)>,
    /// Serves a simulated machine: k80x16, k80x1 (an office PC), k80x4-roomy-iommu, ...
    #[arg(long, value_name = "MACHINE")]
    sim: Option<Preset>,
    /// What goes wrong in the simulated machine: a file with a fault plan in JSON.
    #[arg(long, requires = "sim", value_name = "FILE")]
    sim_faults: Option<PathBuf>,
    /// Shows what would be managed, and does not start.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Logs warnings only.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Why the options can't be followed.
#[derive(Debug, Error)]
pub(crate) enum OptionsError {
    #[error("read {}", path.display())]
    Faults {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is no fault plan", path.display())]
    FaultPlan {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
}

fn label(text: &str) -> Result<(Bdf, String), String> {
    let (bdf, label) = text.split_once('=').ok_or("a label is written as 03:00.0=A0")?;
    if !slotd::core::is_label(label) {
        return Err(format!("`{label}` is no label: it must not look like a number or an address"));
    }
    Ok((bdf.parse::<Bdf>().map_err(|error| error.to_string())?, label.to_owned()))
}

impl Options {
    /// The machine to serve. Nothing is touched yet.
    pub(crate) fn setup(&self) -> Result<Setup, OptionsError> {
        let labels: HashMap<_, _> = self.labels.iter().cloned().collect();
        let setup = match &self.sim {
            Some(preset) => {
                Setup::simulated(&self.simulator(preset)?, format!("simulated {preset}"))
            }
            None => self.linux(),
        };
        Ok(Setup { manner: self.manner(), labels, ..setup })
    }

    fn manner(&self) -> Manner {
        Manner { gate: self.gate, keep_adapters: !self.no_hold }
    }

    fn simulator(&self, preset: &Preset) -> Result<Simulator, OptionsError> {
        let machine = Simulator::new(preset.clone());
        if let Some(path) = &self.sim_faults {
            let faults = |source| OptionsError::Faults { path: path.clone(), source };
            let text = fs::read_to_string(path).map_err(faults)?;
            let plan = |source| OptionsError::FaultPlan { path: path.clone(), source };
            machine.faults().set(serde_json::from_str::<FaultPlan>(&text).map_err(plan)?);
        }
        Ok(machine)
    }

    fn linux(&self) -> Setup {
        let slots = if self.slots.is_empty() { vec![Slot::BTC_S37] } else { self.slots.clone() };
        let machine = Linux::new(Roots::default(), self.ids.clone(), slots.clone())
            .with_helper(PathBuf::from("/proc/self/exe"));
        Setup {
            machine: Arc::new(machine),
            name: "this machine".to_owned(),
            slots,
            manner: self.manner(),
            labels: HashMap::new(),
            simulator: None,
        }
    }
}
