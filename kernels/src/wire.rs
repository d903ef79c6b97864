//! What die-check and its worker say to each other: a line of JSON each way, one request at a time.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use vfio_park::Bdf;

use crate::failure::Failure;

/// A request and the answer that belongs to it.
pub(crate) trait Request: Into<Command> {
    /// What the worker answers.
    type Answer: Serialize + DeserializeOwned;
}

macro_rules! requests {
    ($($(#[doc = $doc:literal])* $name:ident $fields:tt -> $answer:ty;)*) => {
        /// A request, as it is sent.
        #[derive(Debug, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub(crate) enum Command {
            $($(#[doc = $doc])* $name($name),)*
        }
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Debug, Serialize, Deserialize)]
            pub(crate) struct $name $fields

            impl From<$name> for Command {
                fn from(request: $name) -> Self {
                    Self::$name(request)
                }
            }

            impl Request for $name {
                type Answer = $answer;
            }
        )*
    };
}

requests! {
    /// Opens the driver's library and nothing more: is there a driver at all?
    Probe { pub(crate) library: String } -> Probed;
    /// Opens the driver and makes a context on the GPU at that address, and on no other.
    Open { pub(crate) pci: Bdf, pub(crate) library: String, pub(crate) launch_limit_ms: u64 } -> Opened;
    /// Keeps the die busy for about that long.
    Busy { pub(crate) ms: u64 } -> Busied;
    /// Finds how many rounds the persistence kernel needs to run for about that long.
    Calibrate { pub(crate) ms: u64 } -> Calibrated;
    /// Starts the persistence kernel and does not wait for it.
    Launch { pub(crate) seed: u32, pub(crate) rounds: u32 } -> Launched;
    /// Synchronises with the persistence kernel and compares every element.
    Collect {} -> Collected;
    /// Takes memory for a memory test, and measures what plain memset and copy reach on it.
    Reserve { pub(crate) bytes: Option<u64>, pub(crate) chunk: u64 } -> Reserved;
    /// One step of a memory test over some chunks, from `from` on, for about `ms`.
    Sweep { pub(crate) step: Step, pub(crate) from: u64, pub(crate) ms: u64 } -> Swept;
    /// What all sweeps since `Reserve` have found wrong.
    Findings {} -> Found;
    /// Turns bits of one word over, behind the memory test's back, to see that it finds them.
    Plant { pub(crate) offset: u64, pub(crate) mask: u32 } -> Planted;
    /// Runs the parity kernel and compares with the processor.
    Parity { pub(crate) elements: u32, pub(crate) seed: u32 } -> Compared;
    /// Synchronises and takes everything down in order; the worker ends afterwards. `fast`: synchronises
    /// and ends, leaving the rest to the kernel, which does it when the process has ended.
    Close { pub(crate) fast: bool } -> Closed;
}

/// There is a driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Probed {}

/// The GPU that the context is on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) pci: Bdf,
    pub(crate) memory: u64,
    /// What nobody has taken, with this context made.
    pub(crate) free: u64,
    pub(crate) multiprocessors: u32,
    pub(crate) capability: (u32, u32),
    pub(crate) cuda: (i32, i32),
}

/// How busy it was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Busied {
    pub(crate) launches: u32,
    pub(crate) busy_ms: f64,
}

/// What a run of the persistence kernel takes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Calibrated {
    pub(crate) elements: u32,
    pub(crate) rounds: u32,
}

/// How long the launch held the caller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Launched {
    pub(crate) ms: f64,
}

/// What became of the persistence kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Collected {
    pub(crate) done_before: bool,
    pub(crate) sync_ms: f64,
    /// By the die's own clock.
    pub(crate) kernel_ms: f64,
    pub(crate) elements: u32,
    pub(crate) wrong: u32,
    pub(crate) zeros: u32,
}

/// The memory under test, and the yardstick for its throughput.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reserved {
    pub(crate) bytes: u64,
    pub(crate) chunks: u64,
    pub(crate) memset: f64,
    pub(crate) copy: f64,
}

/// A step of the memory test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// Writes a pattern.
    Fill(Pattern),
    /// Reads it back and compares.
    Check(Pattern),
    /// Reads a solid word, compares, and writes its complement.
    Invert(u32),
}

/// What is written; `word` varies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pattern {
    pub(crate) shape: Shape,
    pub(crate) word: u32,
}

/// The shape of a pattern; the numbers are those of memtest.cu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    Solid = 0,
    Address = 1,
    Random = 2,
}

/// How far a sweep came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Swept {
    /// The chunk to go on with; the number of chunks when it is done.
    pub(crate) next: u64,
    pub(crate) bytes: u64,
    /// From the first launch to the end of the last, by the host's clock.
    pub(crate) ms: f64,
}

/// What a memory test found. Places are byte offsets into the memory under test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) wrong_words: u64,
    pub(crate) wrong_bits: u64,
    pub(crate) bit_mask: u32,
    pub(crate) first_offset: Option<u64>,
    pub(crate) samples: Vec<Sample>,
}

/// One wrong word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) offset: u64,
    /// Where the driver put it: the address that a program on the die would use.
    pub(crate) address: u64,
    pub(crate) want: u32,
    pub(crate) got: u32,
}

/// The word that was spoilt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Planted {
    pub(crate) before: u32,
    pub(crate) after: u32,
}

/// Kernel results against the processor's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Compared {
    pub(crate) elements: u32,
    pub(crate) wrong_integers: u32,
    pub(crate) wrong_singles: u32,
    pub(crate) wrong_doubles: u32,
    pub(crate) parity_agrees: bool,
    /// Multiprocessors that gave a wrong result.
    pub(crate) suspects: Vec<u32>,
    pub(crate) ms: f64,
}

/// Everything is down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Closed {
    pub(crate) ms: f64,
}

/// The worker's line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply<T> {
    Done(T),
    Failed(Failure),
}
