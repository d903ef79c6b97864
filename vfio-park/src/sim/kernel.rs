//! What the kernel believes and has bound: resources, drivers, overrides, holders.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::power::Saved;
use crate::{AddressRange, Bdf, DriverName};

/// The kernel's resource behind a BAR or a bridge's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Resource {
    /// No flags: left out by everybody.
    #[default]
    Unassigned,
    /// In the resource tree.
    Claimed(AddressRange),
    /// Held under a root that is not in the resource tree: what a die has while it is out of its
    /// slot. Enough for the kernel to let a driver enable the die.
    Aside(AddressRange),
}

impl Resource {
    /// Of a placed die or a bridge above it.
    pub(super) fn placed(range: AddressRange, in_use: bool) -> Self {
        if in_use { Self::Claimed(range) } else { Self::Aside(range) }
    }

    pub(super) fn range(self) -> Option<AddressRange> {
        match self {
            Self::Unassigned => None,
            Self::Claimed(range) | Self::Aside(range) => Some(range),
        }
    }

    pub(super) fn in_tree(self) -> Option<AddressRange> {
        match self {
            Self::Claimed(range) => Some(range),
            Self::Unassigned | Self::Aside(_) => None,
        }
    }
}

/// A driver's hold of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) driver: DriverName,
    /// When its link shows up in sysfs.
    pub(super) shows_at: Duration,
}

/// A function, as the kernel has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Soft {
    /// By number.
    pub(super) bars: BTreeMap<u8, Resource>,
    /// Of a bridge.
    pub(super) memory: Resource,
    pub(super) prefetchable: Resource,
    pub(super) bound: Option<Bound>,
    pub(super) driver_override: Option<String>,
    pub(super) iommu_group: Option<u32>,
    /// What its waking up writes back.
    pub(super) saved: Option<Saved>,
    /// Who has the adapter open, by a number of their own.
    pub(super) holders: BTreeMap<u64, String>,
}

impl Soft {
    /// Every resource it has.
    pub(super) fn resources(&self) -> impl Iterator<Item = Resource> {
        self.bars.values().copied().chain([self.memory, self.prefetchable])
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Kernel {
    pub(super) functions: BTreeMap<Bdf, Soft>,
    pub(super) nvidia_loaded: bool,
}

impl Kernel {
    pub(super) fn driver(&self, bdf: Bdf) -> Option<&DriverName> {
        self.functions.get(&bdf)?.bound.as_ref().map(|bound| &bound.driver)
    }

    pub(super) fn bar(&self, bdf: Bdf, index: u8) -> Resource {
        let soft = self.functions.get(&bdf);
        soft.and_then(|soft| soft.bars.get(&index)).copied().unwrap_or_default()
    }

    /// What is claimed by functions other than `own`.
    pub(super) fn claimed_besides(&self, own: &BTreeSet<Bdf>) -> Vec<(Bdf, AddressRange)> {
        let others = self.functions.iter().filter(|(bdf, _)| !own.contains(bdf));
        others
            .flat_map(|(bdf, soft)| {
                soft.resources().filter_map(Resource::in_tree).map(|range| (*bdf, range))
            })
            .collect()
    }
}
