//! The main job as one scenario, and the worlds that it runs in.
//!
//! | module | what it is |
//! |---|---|
//! | [`scenario`] | what is done, and what must hold |
//! | [`World`] | what the scenario needs of a machine |
//! | [`sim`] | the simulator as a world |
//! | [`guest`] | a guest of the QEMU rig as a world |

pub mod calls;
mod daemon;
pub mod guest;
mod random;
pub mod scenario;
pub mod sim;
mod world;

pub use self::world::{Mapping, Toucher, World};
