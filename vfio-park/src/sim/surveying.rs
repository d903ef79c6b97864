//! The machine as sysfs and config space would tell it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    bridge,
    hardware::Node,
    inner::{Inner, State},
    kernel::{Resource, Soft},
};
use crate::{
    AddressRange, Bar, Bdf, Bridge, DriverName, Function, IomemEntry, PciId, PowerState, Survey,
    model::{ConfigSpace, Die, SparseVram, reg},
    survey,
};

impl Inner {
    pub(super) fn read_survey(&self) -> Survey {
        let state = self.state();
        let functions: BTreeMap<Bdf, Function> = state
            .hw
            .nodes
            .iter()
            .map(|(at, node)| (*at, self.function(&state, *at, node)))
            .collect();
        let mut survey = Survey::assemble(functions, &[PciId::GK210]);
        survey.physical_bits = Some(self.preset.physical_bits());
        survey.iomem = self.iomem(&state);
        survey
    }

    fn function(&self, state: &State, at: Bdf, node: &Node) -> Function {
        let unbound = Soft::default();
        let soft = state.kernel.functions.get(&at).unwrap_or(&unbound);
        let live = state.hw.config(at);
        // The ids are the kernel's, from when it first saw the function.
        let ids = node.config();
        let asleep = live.is_some_and(|config| config.u16(reg::PMCSR) & 3 != 0);
        let now = self.now(state);
        Function {
            bdf: at,
            id: PciId { vendor: ids.u16(0), device: ids.u16(2) },
            class: ids.u32(8) >> 8,
            parent: state.hw.parents.get(&at).copied(),
            bars: match node {
                Node::Die(die) => bars(die, soft, live),
                Node::Bridge(_) => Vec::new(),
            },
            bridge: match node {
                Node::Bridge(config) => Some(Bridge {
                    d3cold_allowed: Some(!self.guarded(state, at)),
                    ..bridge_of(config)
                }),
                Node::Die(_) => None,
            },
            driver: soft.bound.as_ref().filter(|b| b.shows_at <= now).map(|b| b.driver.clone()),
            driver_override: soft.driver_override.clone(),
            iommu_group: soft.iommu_group,
            power: if asleep { PowerState::D3hot } else { PowerState::D0 },
            config: match live {
                Some(_) => survey::ConfigSpace::Answers,
                None => survey::ConfigSpace::AllOnes,
            },
            command: live.map(|config| config.u16(reg::COMMAND)),
        }
    }

    /// Bridges over a resident die are kept from falling into D3cold.
    fn guarded(&self, state: &State, bridge: Bdf) -> bool {
        let nvidia = DriverName::nvidia();
        let resident = |die: &&Bdf| state.kernel.driver(**die) == Some(&nvidia);
        self.dies.iter().filter(resident).any(|die| state.hw.above(*die).any(|at| at == bridge))
    }

    /// The window module's placeholders: slots that touch are one; one that windows reach out of
    /// has to wait until their card is placed.
    fn slot_holds(&self, state: &State) -> Vec<AddressRange> {
        let mut slots: Vec<AddressRange> = self.slots.iter().map(|slot| slot.range()).collect();
        slots.sort();
        let mut holds: Vec<AddressRange> = Vec::new();
        for slot in slots {
            match holds.last_mut() {
                Some(hold) if hold.last().checked_add(1) == Some(slot.base()) => {
                    *hold = hold.span(slot);
                }
                _ => holds.push(slot),
            }
        }
        let claimed = state.kernel.claimed_besides(&BTreeSet::new());
        let reached_out_of = |hold: &AddressRange| {
            claimed.iter().any(|(_, other)| other.overlaps(*hold) && !hold.contains(*other))
        };
        holds.retain(|hold| !reached_out_of(hold));
        holds
    }

    fn iomem(&self, state: &State) -> Vec<IomemEntry> {
        let mut all: Vec<(AddressRange, String)> = Vec::new();
        all.extend(self.preset.ram().into_iter().map(|ram| (ram, "System RAM".to_owned())));
        let host = "PCI Bus 0000:00".to_owned();
        all.extend(self.preset.host_windows().into_iter().map(|window| (window, host.clone())));
        let holds = self.slot_holds(state).into_iter();
        all.extend(holds.map(|range| (range, "slotwin".to_owned())));
        for (at, soft) in &state.kernel.functions {
            let node = state.hw.nodes[at].config();
            let bus = node.u32(reg::PRIMARY_BUS).to_le_bytes()[1];
            let windows =
                [soft.memory, soft.prefetchable].into_iter().filter_map(Resource::in_tree);
            all.extend(windows.map(|range| (range, format!("PCI Bus 0000:{bus:02x}"))));
            let bars = soft.bars.values().filter_map(|r| r.in_tree());
            all.extend(bars.map(|range| (range, at.to_string())));
        }
        // Outer before inner; equal ones stay in the order above, which is from the root down.
        all.sort_by_key(|(range, _)| (range.base(), Reverse(range.size())));
        let mut outer: Vec<AddressRange> = Vec::new();
        let nest = |(range, name): (AddressRange, String)| {
            while outer.last().is_some_and(|o| !o.contains(range)) {
                outer.pop();
            }
            let depth = u8::try_from(outer.len()).unwrap_or(u8::MAX);
            outer.push(range);
            IomemEntry { range, name, depth }
        };
        all.into_iter().map(nest).collect()
    }
}

fn bars(die: &Die<SparseVram>, soft: &Soft, live: Option<&ConfigSpace>) -> Vec<Bar> {
    let bar = |layout: &crate::model::BarLayout| Bar {
        index: layout.index,
        assigned: soft.bars.get(&layout.index).and_then(|resource| resource.range()),
        size: Some(layout.size),
        is_64bit: layout.is_64bit_prefetchable,
        prefetchable: layout.is_64bit_prefetchable,
        register: live.and_then(|_| die.bar_address(layout.index)),
    };
    die.kind().bars.iter().map(bar).collect()
}

fn bridge_of(config: &ConfigSpace) -> Bridge {
    let [_, secondary, subordinate, _] = config.u32(reg::PRIMARY_BUS).to_le_bytes();
    Bridge {
        secondary,
        subordinate,
        memory: bridge::memory(config),
        prefetchable: bridge::prefetchable(config),
        wide: true,
        d3cold_allowed: None,
    }
}
