//! Whose is which address.

use super::Obstacle;
use crate::{AddressRange, Bdf, Survey};

/// Addresses above this are out of reach of a 32-bit window.
const LOW_LIMIT: u64 = 1 << 32;

/// The physical address space, from the planner's point of view.
#[derive(Debug)]
pub(super) struct Space {
    /// Windows of host bridges.
    host: Vec<AddressRange>,
    /// What belongs to nobody that we manage.
    foreign: Vec<(AddressRange, Obstacle)>,
    bits: Option<u8>,
}

impl Space {
    pub(super) fn of(survey: &Survey) -> Self {
        let mut space = Self { host: Vec::new(), foreign: Vec::new(), bits: survey.physical_bits };
        space.read_iomem(survey);
        space.read_devices(survey);
        space
    }

    /// The outermost entries: host windows, and what is not PCI. Deeper ones are read off the
    /// devices, except for owners inside a host window that are no PCI function.
    fn read_iomem(&mut self, survey: &Survey) {
        for entry in &survey.iomem {
            let range = entry.range;
            if entry.name.starts_with("PCI Bus ") {
                if entry.depth == 0 {
                    self.host.push(range);
                }
            } else if entry.name == "System RAM" {
                self.foreign.push((range, Obstacle::Ram { range }));
            } else if !is_pci_function(&entry.name) && !is_ours(&entry.name) && entry.depth <= 1 {
                let owner = entry.name.clone();
                self.foreign.push((range, Obstacle::Claimed { owner, range }));
            }
        }
    }

    fn read_devices(&mut self, survey: &Survey) {
        let ours =
            |bdf: Bdf| survey.dies.iter().any(|die| die.bdf == bdf || die.path.contains(&bdf));
        for function in survey.functions.values().filter(|function| !ours(function.bdf)) {
            let device = function.bdf;
            for bar in &function.bars {
                if let Some(range) = bar.assigned {
                    let obstacle = Obstacle::NeighbourBar { device, index: bar.index, range };
                    self.foreign.push((range, obstacle));
                }
            }
            let windows = function.bridge.map(|bridge| [bridge.memory, bridge.prefetchable]);
            for range in windows.iter().flatten().filter_map(|window| window.open_range()) {
                let obstacle = Obstacle::NeighbourWindow { bridge: device, range };
                self.foreign.push((range, obstacle));
            }
        }
    }

    /// Everything that keeps `range` from being ours.
    pub(super) fn obstacles(&self, range: AddressRange) -> Vec<Obstacle> {
        let mut found = Vec::new();
        let needed = u8::try_from(64 - range.last().leading_zeros()).unwrap_or(64);
        if let Some(bits) = self.bits.filter(|bits| *bits < needed) {
            found.push(Obstacle::AddressBits { bits, needed });
        }
        if self.host.is_empty() {
            found.push(Obstacle::AddressesHidden);
        } else if !self.host.iter().any(|window| window.contains(range)) {
            found.push(Obstacle::OutsideHostWindows);
        }
        found.extend(self.foreign_in(range));
        found
    }

    /// What in `range` belongs to somebody else.
    pub(super) fn foreign_in(&self, range: AddressRange) -> impl Iterator<Item = Obstacle> {
        let overlapping = move |(there, _): &&(AddressRange, Obstacle)| there.overlaps(range);
        self.foreign.iter().filter(overlapping).map(|(_, obstacle)| obstacle.clone())
    }

    /// Every place of `size` bytes, aligned to them, inside a host window.
    pub(super) fn aligned_places(&self, size: u64) -> Vec<AddressRange> {
        let mut places = Vec::new();
        for window in &self.host {
            let mut base = window.base().checked_next_multiple_of(size);
            while let Some(place) = base.and_then(|base| AddressRange::new(base, size)) {
                if !window.contains(place) {
                    break;
                }
                places.push(place);
                base = place.base().checked_add(size);
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Holes below 4 GiB that belong to nobody else, lowest first.
    pub(super) fn low_holes(&self) -> Vec<AddressRange> {
        let low = AddressRange::new(0, LOW_LIMIT);
        let mut holes: Vec<_> = self.host.iter().filter_map(|w| clip(*w, low?)).collect();
        for (taken, _) in &self.foreign {
            holes = holes.iter().flat_map(|hole| without(*hole, *taken)).flatten().collect();
        }
        holes.sort_unstable();
        holes
    }
}

/// `/proc/iomem` names the resource of a PCI function by its address.
fn is_pci_function(name: &str) -> bool {
    name.parse::<Bdf>().is_ok()
}

/// The window module's placeholder.
fn is_ours(name: &str) -> bool {
    name.starts_with("slotwin")
}

fn clip(range: AddressRange, to: AddressRange) -> Option<AddressRange> {
    let (first, last) = (range.base().max(to.base()), range.last().min(to.last()));
    AddressRange::from_first_last(first, last)
}

/// What is left of `hole` on both sides of `taken`.
pub(super) fn without(hole: AddressRange, taken: AddressRange) -> [Option<AddressRange>; 2] {
    if !hole.overlaps(taken) {
        return [Some(hole), None];
    }
    let below = (hole.base() < taken.base())
        .then(|| AddressRange::from_first_last(hole.base(), taken.base() - 1));
    let above = (taken.last() < hole.last())
        .then(|| AddressRange::from_first_last(taken.last() + 1, hole.last()));
    [below.flatten(), above.flatten()]
}
