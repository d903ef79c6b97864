//! The scenario on the simulator.

use slot_e2e::{
    scenario::{self, Expect},
    sim::SimWorld,
};
use vfio_park::{DriverName, PciId, sim::Preset};

fn run(preset: &str, parker: DriverName, neighbour: bool) {
    let preset: Preset = preset.parse().expect("a preset");
    let expect = Expect {
        dies: 2 * usize::from(preset.cards),
        parker,
        neighbour: neighbour.then_some(PciId { vendor: 0x10de, device: 0x1eb8 }),
        warm_visits: 200,
        kills: 10,
    };
    let mut world = SimWorld::new(preset).expect("a world");
    if let Err(error) = scenario::run(&mut world, &expect) {
        panic!("{error:?}");
    }
}

#[test]
fn sixteen_dies_without_an_iommu() {
    run("k80x16", DriverName::pci_stub(), true);
}

#[test]
fn sixteen_dies_asleep_on_vfio_pci() {
    run("k80x16-iommu", DriverName::vfio_pci(), true);
}

#[test]
fn nvidia_is_loaded_by_the_first_acquire_where_it_has_nobody_else() {
    run("k80x16-alone", DriverName::pci_stub(), false);
}

#[test]
fn where_there_is_room_for_every_die() {
    run("k80x16-roomy", DriverName::pci_stub(), true);
}
