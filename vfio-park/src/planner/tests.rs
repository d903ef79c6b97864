//! Plans of known machines, and rules that every plan keeps.

use proptest::prelude::*;

use super::{Obstacle, Plan, Request, Residence, plan};
use crate::{
    AddressRange, GIB, Gate, MIB, Machine, Slot, SlotId, Survey, Window,
    sim::{Preset, Simulator},
    survey::testing::{bdf, board, endpoint, iomem, range, unassigned},
};

fn simulated(name: &str) -> (Survey, Vec<Slot>) {
    let machine = Simulator::new(name.parse::<Preset>().expect("a preset"));
    (machine.survey().expect("a survey"), machine.slots().to_vec())
}

fn planned(survey: &Survey, slots: &[Slot]) -> Plan {
    plan(survey, &Request { slots: slots.to_vec(), gate: Gate::Window })
}

#[test]
fn sixteen_dies_can_be_resident_on_the_btc_s37() {
    let (survey, slots) = simulated("k80x16");
    let plan = planned(&survey, &slots);
    assert_eq!(plan.resident(), 16, "{plan}");
    assert_eq!(plan.candidates, [Slot::BTC_S37]);
    assert!(plan.dies.iter().all(|die| die.home == Some(SlotId(0))));
    assert!(!plan.without_turns());
    assert_eq!(plan.slots[0].occupants.len(), 1, "firmware put one die there");
    // 48 MiB a die, no gap within a card.
    for card in &plan.cards {
        let memory = card.windows[0].memory.expect("room");
        assert_eq!((memory.size(), memory.base() % (32 * MIB)), (96 * MIB, 0));
    }
}

#[test]
fn an_office_pc_gives_both_dies_a_slot_of_their_own() {
    let (survey, slots) = simulated("k80x1");
    let plan = planned(&survey, &slots);
    assert!(plan.without_turns(), "{plan}");
    assert_eq!(plan.candidates.len(), 2, "{plan}");
    let upper = plan.cards[0].windows[0].prefetchable;
    assert_eq!(upper, range(0x8_0000_0000, 32 * GIB), "one window over both slots");
}

#[test]
fn a_card_shares_a_slot_where_a_window_over_two_would_cover_a_neighbour() {
    let mut survey = board(2, 2);
    survey.physical_bits = Some(40);
    survey.iomem.push(iomem(0x40_0000_0000, 0x4f_ffff_ffff, "PCI Bus 0000:00", 0));
    let mut gpu = endpoint(bdf(0, 0x1f), None, "10de:1eb8".parse().expect("an id"));
    let mut bar = unassigned(1, GIB, true);
    bar.assigned = Some(range(0x44_0000_0000, GIB));
    gpu.bars = vec![bar];
    survey.functions.insert(gpu.bdf, gpu);
    let slot = |base| Slot::new(base, 16 * GIB).expect("a slot");
    // Two cards, four slots: the neighbour lies between the two of the first card.
    let slots = [0x40_0000_0000, 0x48_0000_0000, 0x4c_0000_0000, 0xC_0000_0000].map(slot);
    let plan = planned(&survey, &slots);
    assert!(plan.slots.iter().all(|slot| slot.obstacles.is_empty()), "{plan}");
    let shared: Vec<_> = plan.cards.iter().filter(|card| card.together.is_some()).collect();
    assert_eq!(shared.len(), 1, "{plan}");
    assert!(plan.to_string().contains("share a slot"), "{plan}");
    assert!(matches!(shared[0].together, Some(Obstacle::Between { .. })));
}

#[test]
fn each_refusal_has_its_reason() {
    let survey = board(1, 2);
    let refusals = |base: u64| {
        let slot = Slot::new(base, 16 * GIB).expect("a slot");
        planned(&survey, &[slot]).slots[0].obstacles.clone()
    };
    assert!(refusals(0xC_0000_0000).is_empty());
    assert!(matches!(refusals(0x10_0000_0000)[0], Obstacle::AddressBits { bits: 36, needed: 37 }));
    assert_eq!(refusals(0x4_0000_0000), [Obstacle::OutsideHostWindows]);
    let ram = refusals(0);
    assert!(ram.iter().any(|o| matches!(o, Obstacle::Ram { .. })), "{ram:?}");
}

#[test]
fn slots_that_overlap_are_refused_once() {
    let plan = planned(&board(1, 2), &[Slot::BTC_S37, Slot::BTC_S37]);
    assert!(plan.slots[0].obstacles.is_empty());
    assert_eq!(plan.slots[1].obstacles, [Obstacle::OverlapsSlot { slot: SlotId(0) }]);
    assert_eq!(plan.resident(), 2);
}

#[test]
fn a_neighbour_in_the_slot_or_behind_the_root_port_is_in_the_way() {
    let mut survey = board(1, 2);
    let mut guest = endpoint(bdf(2, 0x1f), Some(bdf(1, 0)), "8086:10d3".parse().expect("an id"));
    survey.functions.insert(guest.bdf, guest.clone());
    let plan = planned(&survey, &[Slot::BTC_S37]);
    assert_eq!(plan.cards[0].obstacles, [Obstacle::SharedBridge { device: guest.bdf }]);
    assert!(plan.cards[0].windows.is_empty());
    assert!(plan.dies.iter().all(|die| matches!(die.residence, Residence::Refused { .. })));

    survey.functions.remove(&guest.bdf);
    (guest.bdf, guest.parent) = (bdf(0, 0x1f), None);
    let mut bar = unassigned(1, GIB, true);
    bar.assigned = Some(range(0xC_4000_0000, GIB));
    guest.bars = vec![bar];
    survey.functions.insert(guest.bdf, guest);
    let plan = planned(&survey, &[Slot::BTC_S37]);
    assert!(matches!(plan.slots[0].obstacles[..], [Obstacle::NeighbourBar { index: 1, .. }]));
    assert!(plan.candidates.is_empty());
}

#[test]
fn dies_that_find_no_room_below_4_gib_are_exclusive() {
    let mut survey = board(8, 2);
    // Room for two cards and a bit.
    survey.iomem[1] = iomem(0xf000_0000, 0xf000_0000 + 200 * MIB - 1, "PCI Bus 0000:00", 0);
    let plan = planned(&survey, &[Slot::BTC_S37]);
    assert_eq!(plan.resident(), 4, "{plan}");
    let exclusive = plan.dies.iter().filter(|die| {
        matches!(die.residence, Residence::Exclusive { why: Obstacle::NoLowRoom { .. } })
    });
    assert_eq!(exclusive.count(), 12);
}

#[test]
fn hidden_addresses_and_dead_dies_are_told() {
    let mut survey = board(1, 2);
    survey.iomem.clear();
    let plan = planned(&survey, &[Slot::BTC_S37]);
    assert_eq!(plan.slots[0].obstacles, [Obstacle::AddressesHidden]);
    let mut survey = board(1, 2);
    let die = survey.dies[1].bdf;
    survey.functions.get_mut(&die).expect("the die").command = None;
    let plan = planned(&survey, &[Slot::BTC_S37]);
    assert_eq!(plan.dies[1].residence, Residence::Refused { why: Obstacle::Absent });
    assert_eq!(plan.resident(), 1);
}

#[test]
fn a_plan_survives_its_json() {
    for name in ["k80x16", "k80x1", "k80x4-win48", "k80x16-roomy-iommu-alone"] {
        let (survey, slots) = simulated(name);
        let plan = planned(&survey, &slots);
        let json = serde_json::to_string(&plan).expect("JSON");
        assert_eq!(serde_json::from_str::<Plan>(&json).expect("a plan"), plan, "{name}");
    }
}

/// A machine with neighbours and RAM in random places.
fn crowded() -> impl Strategy<Value = (Survey, Vec<Slot>)> {
    let thing = (0_u64..64, 1_u64..16, any::<bool>());
    let slots = proptest::collection::vec(0_u64..8, 1..4);
    (1_u8..5, 1_u8..4, proptest::collection::vec(thing, 0..6), slots, 34_u8..38).prop_map(
        |(cards, dies, things, slots, bits)| {
            let mut survey = board(cards, dies);
            survey.physical_bits = Some(bits);
            survey.iomem.push(iomem(0x4_0000_0000, 0xb_ffff_ffff, "PCI Bus 0000:00", 0));
            for (n, (at, size, ram)) in (0_u8..).zip(things) {
                let place = range(at * 2 * GIB, size * 256 * MIB);
                if ram {
                    survey.iomem.push(iomem(place.base(), place.last(), "System RAM", 0));
                    continue;
                }
                let id = "1af4:1000".parse().expect("an id");
                let mut device = endpoint(bdf(0, 0x10 + n), None, id);
                let mut bar = unassigned(0, place.size(), true);
                bar.assigned = Some(place);
                device.bars = vec![bar];
                survey.functions.insert(device.bdf, device);
            }
            let slots = slots.into_iter().filter_map(|n| Slot::new(n * 16 * GIB, 16 * GIB).ok());
            (survey, slots.collect())
        },
    )
}

/// Ranges that belong to somebody else.
fn foreign(survey: &Survey) -> Vec<AddressRange> {
    let ram = survey.iomem.iter().filter(|e| e.name == "System RAM").map(|e| e.range);
    let ours = |bdf| survey.dies.iter().any(|die| die.bdf == bdf);
    let others = survey.functions.values().filter(|f| !ours(f.bdf));
    ram.chain(others.flat_map(|f| f.bars.iter().filter_map(|bar| bar.assigned))).collect()
}

proptest! {
    #[test]
    fn no_plan_takes_what_is_not_ours((survey, slots) in crowded()) {
        let plan = planned(&survey, &slots);
        let theirs = foreign(&survey);
        for die in &plan.dies {
            for bar in &die.bars {
                prop_assert!(theirs.iter().all(|t| !t.overlaps(bar.range)), "{plan}");
                prop_assert!(bar.range.base().is_multiple_of(bar.range.size()), "{plan}");
            }
        }
        for window in plan.cards.iter().flat_map(|card| &card.windows) {
            prop_assert!(theirs.iter().all(|t| !t.overlaps(window.prefetchable)), "{plan}");
            prop_assert!(theirs.iter().all(|t| window.memory.is_none_or(|m| !t.overlaps(m))));
        }
        for place in &plan.candidates {
            prop_assert!(theirs.iter().all(|t| !t.overlaps(place.range())), "{plan}");
        }
    }

    #[test]
    fn small_bars_never_share_a_place_and_lie_in_their_windows((survey, slots) in crowded()) {
        let plan = planned(&survey, &slots);
        let small: Vec<_> =
            plan.dies.iter().flat_map(|die| die.bars.iter().filter(|bar| bar.index != 1)).collect();
        for (n, one) in small.iter().enumerate() {
            prop_assert!(small[n + 1..].iter().all(|other| !one.range.overlaps(other.range)));
        }
        for die in &plan.dies {
            let path = &survey.die(die.bdf).expect("a die").path;
            let windows = plan.cards.iter().flat_map(|card| &card.windows);
            for window in windows.filter(|window| path.contains(&window.bridge)) {
                for bar in &die.bars {
                    let around = if bar.index == 1 { Some(window.prefetchable) } else { window.memory };
                    prop_assert!(around.is_some_and(|around| around.contains(bar.range)), "{plan}");
                }
            }
        }
    }

    #[test]
    fn cards_in_different_slots_never_have_windows_in_common((survey, slots) in crowded()) {
        let plan = planned(&survey, &slots);
        let tops: Vec<_> = plan.cards.iter().filter_map(|card| card.windows.first()).collect();
        for (n, one) in tops.iter().enumerate() {
            for other in &tops[n + 1..] {
                let (a, b) = (one.prefetchable, other.prefetchable);
                prop_assert!(a == b || !a.overlaps(b), "{plan}");
            }
        }
    }

    #[test]
    fn taking_an_obstacle_away_never_costs_a_die((survey, slots) in crowded()) {
        let before = planned(&survey, &slots);
        let mut freed = survey.clone();
        let ours = |bdf| survey.dies.iter().any(|d| d.bdf == bdf || d.path.contains(&bdf));
        freed.functions.retain(|bdf, _| ours(*bdf));
        let after = planned(&freed, &slots);
        prop_assert!(after.resident() >= before.resident(), "{before}\n{after}");
        prop_assert!(after.candidates.len() >= before.candidates.len());
    }
}

#[test]
fn a_shut_window_of_a_neighbour_is_in_nobodys_way() {
    let mut survey = board(1, 2);
    let port = crate::survey::testing::bridge(bdf(0, 0x1e), None, 0x60, 0x60);
    survey.functions.insert(port.bdf, port.clone());
    assert!(planned(&survey, &[Slot::BTC_S37]).slots[0].obstacles.is_empty());
    let open = survey.functions.get_mut(&port.bdf).and_then(|f| f.bridge.as_mut());
    open.expect("a bridge").prefetchable = Window::Open(range(0xC_0000_0000, GIB));
    let plan = planned(&survey, &[Slot::BTC_S37]);
    assert!(matches!(plan.slots[0].obstacles[..], [Obstacle::NeighbourWindow { .. }]));
}
