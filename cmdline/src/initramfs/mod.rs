//! The initramfs: what one has in it, whether the parker wins in it, and the tools that write one.

mod archive;
mod contents;
mod order;
mod tool;
mod unpack;

pub use self::{
    archive::{ArchiveEntry, archive_of},
    contents::Contents,
    order::{Order, RIVALS, Verdict, judge},
    tool::{InitramfsTool, Job, OwnBuild, with_line},
    unpack::UnpackError,
};
