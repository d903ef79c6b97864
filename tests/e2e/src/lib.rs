//! The main job as one scenario, and the worlds that it runs in.

pub mod calls;
pub mod guest;
pub mod random;
pub mod scenario;
mod world;

pub use self::world::{Mapping, World};
