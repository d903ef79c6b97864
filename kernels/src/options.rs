//! The command line.

use std::{fmt, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use vfio_park::Bdf;

use crate::driver;

const EXIT_CODES: &str = "\
Exit codes:
  0  the die is right          6  the driver refuses the kernels (too old for them)
  1  die-check or the machine  7  a launch did not end in its time
  2  wrong command line        8  the die lost its context
  3  no driver                 9  slotd is out of reach, or gives no lease
  4  no such die              10  another refusal of the driver
  5  the die is WRONG        130, 143  ended by Ctrl-C, SIGTERM";

/// Proves, finds and checks a die from CUDA.
///
/// Works on dies that slotd lends, one visit at a time, and with --no-slotd on any NVIDIA GPU.
#[derive(Debug, Parser)]
#[command(name = "die-check", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Keep one die busy, so that the LED of its card shows which it is
    Identify {
        #[command(flatten)]
        target: Target,
        /// For how long
        #[arg(long, value_name = "S", default_value = "30")]
        seconds: u64,
    },
    /// Prove that a kernel runs on while its die is out of the slot
    Persist(Persist),
    /// Test the memory
    Memtest(Memtest),
    /// Compare the die's arithmetic with the processor's
    Parity {
        #[command(flatten)]
        target: Target,
        /// How often, each time with other numbers
        #[arg(long, value_name = "N", default_value = "5")]
        times: u32,
    },
    /// Parity, persist and memtest on every die in turn, or on those named
    All {
        #[command(flatten)]
        targets: Targets,
        /// Bytes to test on each die, e.g. 2G [default: all that is free]
        #[arg(long, value_name = "BYTES", value_parser = bytes)]
        size: Option<u64>,
        /// How long the persistence kernel runs on each
        #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
        seconds: Duration,
    },
    /// The process with the context; not for the command line
    #[command(name = crate::crew::WORKER, hide = true)]
    Worker,
}

/// What all verbs take.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The driver's library
    #[arg(long, value_name = "FILE", global = true, default_value = driver::LIBRARY)]
    pub(crate) libcuda: String,
    /// How the process with the context ends: `ordered` takes everything down; `fast` synchronises and
    /// leaves the rest to the kernel, which helps where the driver hangs in its exit handlers
    #[arg(long, value_name = "HOW", global = true, default_value = "ordered")]
    pub(crate) exit: Exit,
    /// What a launch may take beyond its calibrated time
    #[arg(long, value_name = "S", global = true, default_value = "20", value_parser = seconds)]
    pub(crate) launch_limit: Duration,
    /// slotd's socket [default: what `SLOTD_SOCKET` says, else /run/slotd/slotd.sock]
    #[arg(long, value_name = "FILE", global = true)]
    socket: Option<PathBuf>,
    /// Compute on this GPU whatever die is leased: for slotd on its simulator
    #[arg(long, value_name = "BDF", global = true)]
    pub(crate) compute_on: Option<Bdf>,
    /// Where /proc is
    #[arg(long, value_name = "DIR", global = true, default_value = "/", hide = true)]
    pub(crate) root: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Exit {
    Ordered,
    Fast,
}

/// One die.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The die: its number, label or PCI address
    #[arg(required_unless_present = "no_slotd", conflicts_with = "no_slotd")]
    die: Option<String>,
    /// Do without slotd, on a GPU that needs no slot
    #[arg(long, requires = "pci")]
    no_slotd: bool,
    /// Without slotd: the GPU's PCI address
    #[arg(long, value_name = "BDF", requires = "no_slotd")]
    pci: Option<Bdf>,
}

impl Target {
    /// What it names.
    pub(crate) fn aim(&self) -> Aim {
        match self.pci {
            Some(pci) => Aim::Gpu(pci),
            None => Aim::Die(self.die.clone().unwrap_or_default()),
        }
    }
}

/// Several dies.
#[derive(Debug, Args)]
pub(crate) struct Targets {
    /// The dies: numbers, labels or PCI addresses
    #[arg(conflicts_with = "no_slotd", value_name = "DIE")]
    dies: Vec<String>,
    /// Do without slotd, on GPUs that need no slot
    #[arg(long, requires = "pci")]
    no_slotd: bool,
    /// Without slotd: a GPU's PCI address
    #[arg(long, value_name = "BDF", requires = "no_slotd")]
    pci: Vec<Bdf>,
}

impl Targets {
    /// What they name; nothing where nothing is named.
    pub(crate) fn aims(&self) -> Vec<Aim> {
        let dies = self.dies.iter().cloned().map(Aim::Die);
        dies.chain(self.pci.iter().copied().map(Aim::Gpu)).collect()
    }
}

/// What is to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// A die that slotd lends, by any of its names.
    Die(String),
    /// A GPU that needs no slot.
    Gpu(Bdf),
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Die(die) => f.write_str(die),
            Self::Gpu(bdf) => bdf.fmt(f),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Persist {
    #[command(flatten)]
    pub(crate) targets: Targets,
    /// How long the kernel runs
    #[arg(long, value_name = "S", default_value = "16", value_parser = seconds)]
    pub(crate) seconds: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Memtest {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Bytes to test, e.g. 2G [default: all that is free]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) size: Option<u64>,
    /// Bytes in one piece [default: a 64th of the memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) chunk: Option<u64>,
    /// How often to go through all patterns, each time with other words
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) passes: u32,
    /// Spoil a word of each first pattern, to see that the test finds it: OFFSET or OFFSET:MASK
    #[arg(long, value_name = "WHERE", value_parser = plant)]
    pub(crate) plant: Option<Plant>,
}

/// Where to spoil a word, and which of its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plant {
    pub(crate) offset: u64,
    pub(crate) mask: u32,
}

impl Options {
    /// Where slotd listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(slotd_client::socket_path)
    }

    pub(crate) fn exit_fast(&self) -> bool {
        self.exit == Exit::Fast
    }

    pub(crate) fn launch_limit_ms(&self) -> u64 {
        u64::try_from(self.launch_limit.as_millis()).unwrap_or(u64::MAX)
    }

    /// How long to wait for a die to finish what it is at when all is taken down.
    pub(crate) fn patience(&self) -> Duration {
        self.launch_limit + Duration::from_mins(5)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    match duration.as_millis() {
        1..=3_600_000 => Ok(duration),
        _ => Err("give between 0.001 and 3600 seconds".to_owned()),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let count: u64 =
        digits.parse().map_err(|_| format!("`{text}` is no size: write it as 512M"))?;
    let total = count.checked_mul(1 << shift).filter(|&total| total >= 1 << 20);
    total.ok_or_else(|| "give between 1M and what the die has".to_owned())
}

fn plant(text: &str) -> Result<Plant, String> {
    let number = |text: &str| {
        let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
        u64::from_str_radix(digits, radix).map_err(|_| format!("`{text}` is no number"))
    };
    let (offset, mask) = text.split_once(':').unwrap_or((text, "1"));
    let mask = u32::try_from(number(mask)?).map_err(|error| error.to_string())?;
    let offset = number(offset)?;
    if mask == 0 || offset % 4 != 0 {
        return Err("the offset is a multiple of 4, and the mask is not 0".to_owned());
    }
    Ok(Plant { offset, mask })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_times_and_places_are_read_strictly() {
        assert_eq!(bytes("2G"), Ok(2 << 30));
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        for text in ["", "G", "-1M", "1.5G", "99999999999G", "512"] {
            assert!(bytes(text).is_err(), "{text:?}");
        }
        assert_eq!(plant("0x100:0x80"), Ok(Plant { offset: 256, mask: 128 }));
        assert_eq!(plant("8"), Ok(Plant { offset: 8, mask: 1 }));
        for text in ["", "3", "8:0", "8:1:2", "8:0x100000000"] {
            assert!(plant(text).is_err(), "{text:?}");
        }
        for text in ["0", "-1", "nan", "inf", "4000"] {
            assert!(seconds(text).is_err(), "{text:?}");
        }
    }
}
