//! The dies and what is around them: owners, the order of loading, the neighbour, the IOMMU.

use super::Scene;
use crate::{
    machine::{Driver, Iommu, PciFunction, SecureBoot},
    modprobe::plain,
    parker::Parker,
    tokens::keys,
};

/// Drivers that adopt.
const NVIDIA: u16 = 0x10de;

pub(super) fn look(scene: &mut Scene<'_>) {
    owners(scene);
    order(scene);
    neighbours(scene);
    iommu(scene);
    signing(scene);
}

fn owners(scene: &mut Scene<'_>) {
    let machine = scene.machine;
    let Some(choice) = scene.choice.clone() else { return };
    let parker = choice.parker.driver();
    let owner = |bdf| {
        machine.function(bdf).and_then(|f| f.driver.clone()).unwrap_or_else(|| "nobody".into())
    };
    let mut parked = 0;
    for bdf in &machine.dies {
        let owner = owner(*bdf);
        if owner == parker.as_str() {
            parked += 1;
        } else if owner == "nvidia" && !scene.trial_runs() {
            scene.note("dies", format!("{bdf} is with nvidia"), "");
        } else if scene.should_be_parked() {
            let next = match choice.parker {
                Parker::VfioPci if machine.iommu != Iommu::Active => {
                    "without an IOMMU vfio-pci does not bind: switch it on in the firmware set-up, or use --parker pci-stub"
                }
                _ => {
                    "see `dmesg | grep -E \"vfio|pci-stub|nvidia|nouveau\"`; the initramfs findings above say who comes first"
                }
            };
            scene.mend("dies", format!("{bdf} belongs to {owner}, not to {parker}"), next);
        } else {
            scene.note("dies", format!("{bdf} belongs to {owner}"), "");
        }
    }
    if parked > 0 {
        scene.fine("dies", format!("{parked} of {} dies wait on {parker}", machine.dies.len()));
    }
    for bdf in &machine.lookalikes {
        scene.mend(
            "dies",
            format!("{bdf} is a normal GPU with a die's id"),
            "park by address instead: `slot-cmdline plan` prints the lines",
        );
    }
}

/// The kernel lists modules in the order in which they were loaded.
fn order(scene: &mut Scene<'_>) {
    let Some(choice) = scene.choice.clone() else { return };
    let parker = plain(choice.parker.driver().as_str());
    let modules = &scene.machine.running.modules;
    let at = |name: &str| modules.iter().position(|module| plain(module) == name);
    let builtin = scene.machine.kernel().is_some_and(|k| k.driver(&parker) == Driver::Builtin);
    let rivals = ["nvidia", "nouveau", "nvidiafb"];
    let first = rivals.iter().filter_map(|rival| Some((at(rival)?, *rival))).min();
    match (at(&parker), first) {
        _ if builtin => scene.fine("order", format!("{parker} is built in, before every module")),
        (Some(_), None) => {
            scene.fine("order", format!("{parker} is loaded; nvidia and nouveau are not"));
        }
        (Some(ours), Some((theirs, _))) if ours < theirs => {
            scene.fine("order", format!("{parker} was loaded before {}", modules[theirs]));
        }
        (Some(_), Some((_, rival))) if scene.should_be_parked() => scene.mend(
            "order",
            format!("{parker} was loaded after {rival}"),
            "`slot-cmdline install` again: it proves the order on the initramfs",
        ),
        (Some(_), Some((_, rival))) => {
            scene.note("order", format!("{parker} was loaded after {rival}"), "");
        }
        (None, _) if scene.should_be_parked() => scene.mend(
            "order",
            format!("{parker} is not loaded"),
            "see the initramfs findings above",
        ),
        (None, _) => scene.note("order", format!("{parker} is not loaded"), ""),
    }
}

fn neighbours(scene: &mut Scene<'_>) {
    let machine = scene.machine;
    let is_neighbour = |f: &&PciFunction| {
        f.id.vendor == NVIDIA && f.class >> 16 == 0x03 && !machine.dies.contains(&f.bdf)
    };
    for function in machine.functions.iter().filter(is_neighbour) {
        let owner = function.driver.clone().unwrap_or_else(|| "nobody".into());
        let found =
            format!("{} ({}) beside the dies belongs to {owner}", function.bdf, function.id);
        if owner == "vfio-pci" || owner == "pci-stub" {
            scene.note(
                "neighbour",
                found,
                "its id is in the parker's list too, or somebody parked it",
            );
        } else {
            scene.fine("neighbour", found);
        }
    }
    let loaded = machine.running.modules.iter().any(|module| module == "nvidia");
    scene.fine(
        "nvidia",
        if loaded { "loaded" } else { "not loaded (slotd loads it with the first die)" },
    );
}

fn iommu(scene: &mut Scene<'_>) {
    let line = &scene.machine.running.line;
    let noiommu = line.effective(keys::NOIOMMU) == Some("1");
    match scene.machine.iommu {
        Iommu::Active => scene.fine("iommu", "in use"),
        Iommu::Dormant => scene.note(
            "iommu",
            "firmware describes one and the kernel does not use it",
            "the line of slot-cmdline switches it on",
        ),
        Iommu::None => {
            scene.note("iommu", "none", if noiommu { "" } else { "pci-stub parks without one" });
        }
    }
    if noiommu {
        scene.note(
            "noiommu",
            "on: the kernel is tainted and vfio devices need CAP_SYS_RAWIO",
            "pci-stub needs neither, where the kernel has it",
        );
    }
}

fn signing(scene: &mut Scene<'_>) {
    let enforced = scene.root.word("/sys/module/module/parameters/sig_enforce") == "Y";
    match (scene.machine.secure_boot, enforced) {
        (SecureBoot::On, _) | (_, true) => scene.note(
            "signing",
            "the kernel loads signed modules only (Secure Boot or module.sig_enforce)",
            "sign slotwin.ko and nvidia.ko with a key enrolled by `mokutil --import`; parking itself needs no module of ours",
        ),
        (SecureBoot::Off | SecureBoot::Absent, false) => scene.fine("signing", "unsigned modules are accepted"),
    }
}
