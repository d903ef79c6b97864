//! Parsers of what the kernel shows: bytes and texts in, data out, no IO.

mod config;
mod known;
mod memory;
mod resource;

pub use self::{
    config::{ConfigError, ConfigHeader, Header, RawBar},
    known::{KnownBar, known_bars},
    memory::{Iomem, iomem, physical_bits},
    resource::{Resource, Resources, resources},
};
