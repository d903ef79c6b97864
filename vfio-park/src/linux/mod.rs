//! Linux: sysfs, procfs and the window module, below injected roots.
//!
//! | module | what it is |
//! |---|---|
//! | [`Roots`] | where the kernel's file systems are |
//! | [`survey`] | reads the machine |
//! | [`slotwin`] | the window device |

mod roots;
pub mod slotwin;
pub mod survey;
#[cfg(test)]
mod testing;

pub use self::roots::Roots;
