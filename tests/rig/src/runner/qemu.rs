//! QEMU's command line.

use std::{path::Path, process::Command};

use serde_json::json;

use super::{files::Part, options::Options};

/// Names and places of files that one run makes.
pub(super) const TRACE: &str = "trace.log";
pub(super) const DEVICES: &str = "devices.jsonl";
pub(super) const TOPOLOGY: &str = "topology.json";
pub(super) const CONSOLE: &str = "console.log";
pub(super) const MESSAGES: &str = "qemu.log";
pub(super) const MONITOR: &str = "qmp.sock";
pub(super) const INITRAMFS: &str = "initramfs.cpio";

/// Slot numbers on the root bus: cards from here on, then the neighbour and the backgrounds.
const FIRST_CARD: u8 = 0x02;
const NEIGHBOUR: u8 = 0x10;
const LAST_BACKGROUND: u8 = 0x1e;
/// Where a K80's switch has its two dies.
const DOWNSTREAM: [u8; 2] = [0x08, 0x10];

fn vfio_user(name: &str, bus: &str, addr: Option<u8>, work: &Path) -> String {
    let socket = work.join(format!("{name}.sock"));
    let mut device = json!({
        "driver": "vfio-user-pci", "id": name, "bus": bus,
        "socket": { "type": "unix", "path": socket },
        // What the devices log must be in the guest's order.
        "x-no-posted-writes": true,
    });
    if let Some(addr) = addr {
        device["addr"] = json!(format!("{addr:#x}"));
    }
    device.to_string()
}

fn devices(options: &Options, work: &Path) -> Vec<String> {
    let hotplug = if options.hotplug { "on" } else { "off" };
    let mut devices = Vec::new();
    for card in 0..options.profile.cards() {
        let number = card + 1;
        devices.push(format!(
            "pcie-root-port,id=rp{card},bus=pcie.0,chassis={number},slot={number},addr={:#x},hotplug={hotplug}",
            FIRST_CARD + card
        ));
        devices.push(format!("x3130-upstream,id=up{card},bus=rp{card}"));
        for (half, addr) in DOWNSTREAM.into_iter().enumerate() {
            let die = usize::from(card) * 2 + half;
            let number = 100 + die;
            devices.push(format!(
                "xio3130-downstream,id=dn{die},bus=up{card},chassis={number},slot={number},addr={addr:#x},hotplug={hotplug}"
            ));
            devices.push(vfio_user(&format!("die{die}"), &format!("dn{die}"), None, work));
        }
    }
    if options.neighbour {
        devices.push(format!(
            "pcie-root-port,id=neighbour-port,bus=pcie.0,chassis=90,slot=90,addr={NEIGHBOUR:#x},hotplug={hotplug}"
        ));
        devices.push(vfio_user("neighbour", "neighbour-port", None, work));
    }
    for (n, addr) in (0..options.profile.slots().len()).zip((0..=LAST_BACKGROUND).rev()) {
        devices.push(vfio_user(&format!("background{n}"), "pcie.0", Some(addr), work));
    }
    devices
}

/// The kernel's command line.
pub(super) fn kernel_line(options: &Options) -> String {
    let mut line = "console=ttyS0 quiet panic=-1 oops=panic".to_owned();
    let parker = options.parker();
    for part in ["intel_iommu=on"].into_iter().filter(|_| options.iommu) {
        line = format!("{line} {part}");
    }
    line = format!("{line} {parker}.ids=10de:102d");
    if options.append.is_empty() { line } else { format!("{line} {}", options.append) }
}

/// The command that starts the machine. The console is its standard output.
pub(super) fn command(options: &Options, rig: &Path, work: &Path) -> Command {
    let mut command = Command::new(Part::Qemu.path(rig));
    command
        .args(["-machine", if options.iommu { "q35,kernel-irqchip=split" } else { "q35" }])
        .args(["-accel", "tcg", "-smp", &options.smp.to_string()])
        .args(options.profile.machine(options.memory))
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
        .args(["-run-with", "exit-with-parent=on", "-serial", "stdio"])
        .args(["-msg", "timestamp=on", "-trace", "pci_cfg_write"])
        .arg("-D")
        .arg(work.join(TRACE))
        .arg("-qmp")
        .arg(format!("unix:{},server=on,wait=off", work.join(MONITOR).display()))
        .arg("-kernel")
        .arg(Part::Image(options.kernel).path(rig))
        .arg("-initrd")
        .arg(work.join(INITRAMFS))
        .args(["-append", &kernel_line(options)]);
    if options.iommu {
        // Without caching-mode, QEMU gives up when the guest maps for a vfio device.
        command.args(["-device", "intel-iommu,caching-mode=on"]);
    }
    for device in devices(options, work) {
        command.args(["-device", &device]);
    }
    command
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn options(arguments: &[&str]) -> Options {
        Options::parse_from(["rig"].iter().chain(arguments).chain(&["--", "true"]))
    }

    #[test]
    fn the_parker_follows_the_iommu() {
        assert!(
            kernel_line(&options(&["--iommu"])).contains("intel_iommu=on vfio-pci.ids=10de:102d")
        );
        let without = kernel_line(&options(&["--append", "pcie_port_pm=force"]));
        assert!(without.ends_with("pci-stub.ids=10de:102d pcie_port_pm=force"), "{without}");
        assert!(!without.contains("iommu"), "{without}");
    }

    #[test]
    fn sixteen_dies_a_neighbour_and_a_background() {
        let devices = devices(&options(&[]), Path::new("/work"));
        let count = |text: &str| devices.iter().filter(|device| device.contains(text)).count();
        assert_eq!((count("die"), count("x3130-upstream"), count("downstream")), (16, 8, 16));
        assert_eq!((count("/work/neighbour.sock"), count("/work/background0.sock")), (1, 1));
    }
}
