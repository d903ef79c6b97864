//! Linux: sysfs, procfs and the window module, below injected roots.
//!
//! | module | what it is |
//! |---|---|
//! | [`Linux`] | this machine behind the seam |
//! | [`Roots`] | where the kernel's file systems are |
//! | [`survey`] | reads the machine |
//! | [`slotwin`] | the window device |

mod adapter;
mod handover;
mod holders;
mod machine;
mod process;
mod roots;
pub mod slotwin;
pub mod survey;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod wait;

pub use self::{
    machine::Linux,
    process::{Patience, helper},
    roots::Roots,
};
