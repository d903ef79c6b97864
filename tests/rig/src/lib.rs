//! The rig: real kernels with real PCI in QEMU, dies that are served by the die model, and a judge.
//!
//! | module | what it is |
//! |---|---|
//! | [`device`] | what QEMU's slots hold: dies, the neighbour, the background of the window |
//! | [`judge`] | replays what was done to the hardware and says where it broke the rules |
//! | [`log`] | what the devices saw, as JSON lines |
//! | [`phase`] | how a test in the guest tells the judge what it is about to do |
//! | [`runner`] | boots a machine in QEMU and runs a test in it |
//! | [`topology`] | which device sits where |

pub mod device;
pub mod judge;
pub mod log;
pub mod phase;
pub mod runner;
pub mod topology;
