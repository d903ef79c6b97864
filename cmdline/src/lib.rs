//! Parks the dies at boot by the kernel command line, and takes that back byte for byte.
//!
//! | module | what it is |
//! |---|---|
//! | [`tokens`] | kernel command lines, read and merged |
//! | [`shellvars`], [`modprobe`], [`bls`], [`grub`] | files that others write, read as they are read |
//! | [`machine`], [`parker`] | what the machine is, and which parker fits it |
//! | [`loader`], [`initramfs`] | what boots it, detected and configured |
//! | [`plan`] | what is going to be changed, as data |
//! | [`apply`] | carrying a plan out, and taking it back; the only place that writes |
//! | [`trial`] | the new line for one boot |
//! | [`check`] | what runs against what is installed |
//! | [`fuzzing`] | what has to hold for any input of the parsers |
//! | [`cli`], [`cmd`], [`exit`] | the program's verbs and exit codes |

pub mod apply;
pub mod bls;
pub mod check;
pub mod cli;
pub mod cmd;
pub mod error;
pub mod exit;
pub mod fuzzing;
pub mod grub;
pub mod initramfs;
pub mod loader;
pub mod machine;
pub mod modprobe;
pub mod parker;
pub mod plan;
pub mod root;
pub mod shellvars;
pub mod tokens;
pub mod trial;
