//! Which device sits where: what the judge knows of the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vfio_park::{Bdf, Slot};

/// What a function is in the rig.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A die that takes turns.
    Die,
    /// A bridge above dies only.
    Gate,
    /// The neighbour, or a bridge above it: not to be touched.
    Neighbour,
    /// The rig's own: not judged.
    Rig,
    /// Of the board.
    Board,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Name in QEMU and in the devices' log; empty for what the board brings.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// The bridge above; `None` on the root bus.
    pub parent: Option<Bdf>,
    /// Whether it is a bridge.
    pub bridge: bool,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Every function.
    pub nodes: BTreeMap<Bdf, Node>,
    /// The slots.
    pub slots: Vec<Slot>,
}

impl Topology {
    /// The bridges above `bdf`, the nearest first.
    pub fn path(&self, bdf: Bdf) -> Vec<Bdf> {
        let up = |bdf: &Bdf| self.nodes.get(bdf).and_then(|node| node.parent);
        std::iter::successors(up(&bdf), up).collect()
    }

    /// The function of that name.
    pub fn named(&self, name: &str) -> Option<Bdf> {
        self.nodes.iter().find(|(_, node)| node.name == name).map(|(bdf, _)| *bdf)
    }

    /// Every function of that role.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = Bdf> {
        self.nodes.iter().filter(move |(_, node)| node.role == role).map(|(bdf, _)| *bdf)
    }
}
