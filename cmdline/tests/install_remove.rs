//! Installing and taking back, on the files of real distributions.

mod common;

use common::{KNOWN, Mood, Sandbox, differences};
use slot_cmdline::{
    apply::no_faults,
    cli::LoaderArg,
    exit::Exit,
    loader::{LoaderKind, detect},
    tokens::keys,
};

fn lines(sandbox: &Sandbox) -> Vec<String> {
    let loader = detect(&sandbox.root, None).expect("known");
    let lines = loader.installed_lines(&sandbox.root).expect("readable");
    lines.into_iter().map(|(_, line)| line.as_str().to_owned()).collect()
}

#[test]
fn install_then_remove_is_byte_identical_everywhere() {
    for name in KNOWN {
        let sandbox = Sandbox::new(name);
        let before = sandbox.tree();
        let installed = sandbox.run(&["install"]);
        assert_eq!(installed.exit, Exit::Done, "{name}: {installed:?}");
        assert_ne!(differences(&before, &sandbox.tree()), [""; 0], "{name} changed nothing");
        let removed = sandbox.run(&["remove"]);
        assert_eq!(removed.exit, Exit::Done, "{name}: {removed:?}");
        assert_eq!(differences(&before, &sandbox.tree()), [""; 0], "{name}");
    }
}

#[test]
fn every_installed_line_parks_and_keeps_what_was_there() {
    for name in KNOWN {
        let sandbox = Sandbox::new(name);
        let old = lines(&sandbox);
        let installed = sandbox.run(&["install"]);
        assert_eq!(installed.exit, Exit::Done, "{name}: {installed:?}");
        let new = lines(&sandbox);
        assert_eq!(old.len(), new.len(), "{name}");
        for (old, new) in
            old.iter().zip(&new).filter(|(old, _)| !(name.starts_with("pop") && old.is_empty()))
        {
            let line = slot_cmdline::tokens::Line::new(new.clone());
            // kernelstub writes the entry of the kernel before this one with the next kernel.
            if name.starts_with("pop") && line.effective(keys::VFIO_IDS).is_none() {
                continue;
            }
            let ids = line.effective(keys::VFIO_IDS).unwrap_or_else(|| panic!("{name}: {new}"));
            assert!(ids.contains("10de:102d"), "{name}: {new}");
            assert_eq!(line.effective(keys::IOMMU), Some("pt"), "{name}: {new}");
            for word in slot_cmdline::tokens::Line::new(old.clone()).words() {
                let ours = ["vfio", "iommu"].iter().any(|key| word.text.starts_with(key));
                assert!(
                    ours || line.words().any(|w| w.text == word.text),
                    "{name}: {} of\n{old}\nin\n{new}",
                    word.text
                );
            }
        }
    }
}

#[test]
fn install_twice_changes_nothing() {
    for name in KNOWN {
        let sandbox = Sandbox::new(name);
        assert_eq!(sandbox.run(&["install"]).exit, Exit::Done, "{name}");
        let once = sandbox.tree();
        let again = sandbox.run(&["install"]);
        assert!(again.text.contains("nothing was changed"), "{name}: {again:?}");
        assert_eq!(differences(&once, &sandbox.tree()), [""; 0], "{name}");
    }
}

#[test]
fn ids_of_others_are_merged() {
    for (name, expected) in [
        ("debian-12-ids", "8086:1533,10de:102d"),
        ("debian-12-modprobe-ids", "8086:10fb,8086:1533,10de:102d"),
        ("fedora-32-kernelopts", "8086:1533,10de:102d"),
    ] {
        let sandbox = Sandbox::new(name);
        let installed = sandbox.run(&["install"]);
        assert_eq!(installed.exit, Exit::Done, "{name}: {installed:?}");
        let line = slot_cmdline::tokens::Line::new(lines(&sandbox)[0].clone());
        assert_eq!(line.effective(keys::VFIO_IDS), Some(expected), "{name}: {line}");
    }
}

#[test]
fn a_built_in_parker_needs_no_initramfs() {
    let sandbox = Sandbox::new("ubuntu-22.04");
    let distro = sandbox.distro();
    assert_eq!(sandbox.run_with(&["install"], &distro, &no_faults).exit, Exit::Done);
    assert_eq!(*distro.ran.borrow(), ["update-grub"]);
}

#[test]
fn without_an_iommu_pci_stub_is_chosen_and_said_why() {
    let sandbox = Sandbox::new("debian-12");
    sandbox.remove("sys/class/iommu");
    let plan = sandbox.run(&["plan"]);
    assert!(plan.text.contains("parker:    pci-stub (no IOMMU"), "{}", plan.text);
    assert!(plan.text.contains("pci-stub.ids=10de:102d"), "{}", plan.text);
    let asked = sandbox.run(&["plan", "--parker", "vfio-pci"]);
    assert_eq!(asked.exit, Exit::Refused, "{asked:?}");
    let before = sandbox.tree();
    assert_eq!(sandbox.run(&["install"]).exit, Exit::Done);
    assert_eq!(sandbox.run(&["remove"]).exit, Exit::Done);
    assert_eq!(differences(&before, &sandbox.tree()), [""; 0]);
}

#[test]
fn noiommu_is_used_where_the_kernel_has_it_and_it_is_asked_for() {
    let sandbox = Sandbox::new("ubuntu-22.04");
    sandbox.remove("sys/class/iommu");
    let plan = sandbox.run(&["plan", "--parker", "vfio-pci"]);
    assert!(plan.text.contains("vfio.enable_unsafe_noiommu_mode=1"), "{}", plan.text);
    assert!(!plan.text.contains("iommu=pt"), "{}", plan.text);
}

#[test]
fn amd_needs_no_switch_and_a_dormant_intel_iommu_does() {
    let sandbox = Sandbox::new("debian-12");
    sandbox.write("proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
    let amd = sandbox.run(&["plan"]).text;
    assert!(amd.contains("iommu=pt") && !amd.contains("intel_iommu"), "{amd}");
    sandbox.write("proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
    sandbox.remove("sys/class/iommu");
    sandbox.write("sys/firmware/acpi/tables/DMAR", "DMAR");
    let intel = sandbox.run(&["plan"]).text;
    assert!(
        intel.contains("parker:    vfio-pci (firmware describes")
            && intel.contains("intel_iommu=on"),
        "{intel}"
    );
}

#[test]
fn a_machine_without_dies_says_so() {
    let sandbox = Sandbox::new("debian-12");
    sandbox.remove("sys/bus/pci/devices");
    let before = sandbox.tree();
    for verb in ["plan", "install"] {
        let ran = sandbox.run(&[verb]);
        assert_eq!(ran.exit, Exit::NoDies, "{verb}: {ran:?}");
    }
    assert_eq!(differences(&before, &sandbox.tree()), [""; 0]);
}

#[test]
fn a_normal_gpu_with_a_dies_id_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new("debian-12");
    sandbox.function("0000:41:00.0", "0x10de", "0x102d", "0x030000");
    let ran = sandbox.run(&["install"]);
    assert_eq!(ran.exit, Exit::Refused);
    let error = ran.error.expect("refused").to_string();
    assert!(error.contains("0000:41:00.0 is a normal GPU"), "{error}");
    assert!(
        error.contains("KERNEL==\"0000:03:00.0\", ATTR{driver_override}=\"vfio-pci\""),
        "{error}"
    );
    let kept = Sandbox::new("debian-12").run(&["plan", "--keep", "0000:03:00.0"]);
    assert_eq!(kept.exit, Exit::Refused, "{kept:?}");
}

#[test]
fn an_unknown_set_up_gets_the_lines_and_no_change() {
    let sandbox = Sandbox::new("unknown-lilo");
    let before = sandbox.tree();
    let ran = sandbox.run(&["install"]);
    assert_eq!(ran.exit, Exit::UnknownSetup, "{ran:?}");
    let Some(slot_cmdline::error::Error::UnknownSetup { by_hand, .. }) = ran.error else {
        panic!()
    };
    let all = by_hand.join("\n");
    assert!(
        all.contains("vfio-pci.ids=10de:102d vfio-pci.disable_idle_d3=1 intel_iommu=on iommu=pt"),
        "{all}"
    );
    assert!(all.contains("softdep nvidia pre: vfio-pci"), "{all}");
    assert!(all.contains("force_drivers+=\" vfio-pci \""), "{all}");
    assert_eq!(differences(&before, &sandbox.tree()), [""; 0]);
}

#[test]
fn two_loaders_are_one_too_many_unless_named() {
    let sandbox = Sandbox::new("debian-12-systemd-boot");
    sandbox.write("usr/sbin/grub-mkconfig", "grub.d");
    sandbox.write("usr/sbin/update-grub", "");
    sandbox.distro().settle();
    let booted = sandbox.run(&["plan"]);
    assert!(booted.text.contains("loader:    systemd-boot"), "what booted says so: {booted:?}");
    sandbox.remove("sys/firmware/efi");
    assert_eq!(sandbox.run(&["plan"]).exit, Exit::UnknownSetup);
    let named = sandbox.run(&["plan", "--loader", "systemd-boot"]);
    assert!(named.text.contains("loader:    systemd-boot (kernel-install)"), "{named:?}");
    assert!(detect(&sandbox.root, Some(LoaderKind::Uki)).is_err());
    let _ = LoaderArg::Grub;
}

#[test]
fn a_command_that_did_nothing_is_caught_and_everything_is_taken_back() {
    for name in ["debian-12", "debian-12-systemd-boot", "arch-grub", "arch-uki", "pop-22.04"] {
        for mood in [Mood::Idle, Mood::Forgetful] {
            let sandbox = Sandbox::new(name);
            if mood == Mood::Forgetful && (name.starts_with("arch-grub") || name.starts_with("pop"))
            {
                continue;
            }
            let before = sandbox.tree();
            let mut distro = sandbox.distro();
            distro.mood = mood;
            let ran = sandbox.run_with(&["install"], &distro, &no_faults);
            assert_eq!(ran.exit, Exit::Failed, "{name} {mood:?}: {ran:?}");
            assert_eq!(differences(&before, &sandbox.tree()), [""; 0], "{name} {mood:?}");
        }
    }
}

#[test]
fn a_rival_in_the_initramfs_loses() {
    for name in ["debian-12", "debian-12-systemd-boot", "arch-grub"] {
        let sandbox = Sandbox::new(name);
        sandbox.write("etc/rival-in-initramfs", "");
        sandbox.distro().settle();
        let ran = sandbox.run(&["install"]);
        assert_eq!(ran.exit, Exit::Done, "{name}: {ran:?}");
    }
}

#[test]
fn a_dry_run_is_the_plan_and_changes_nothing() {
    let sandbox = Sandbox::new("debian-12-custom");
    let before = sandbox.tree();
    let plan = sandbox.run(&["install", "--dry-run"]);
    for part in [
        "+++ /etc/default/grub.d/zz-slot-cmdline.cfg",
        "+GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX vfio-pci.ids=10de:102d",
        "+softdep nouveau pre: vfio-pci",
        "run update-initramfs -u -k 6.1.0-28-amd64",
        "run update-grub",
        "`blacklist nvidia` keeps nvidia out; --replace-blacklist moves it aside",
    ] {
        assert!(plan.text.contains(part), "{part} in\n{}", plan.text);
    }
    let json = sandbox.run(&["install", "--dry-run", "--json"]).text;
    let json: serde_json::Value = serde_json::from_str(&json).expect("json");
    assert_eq!(json["api"], 1);
    assert!(json["result"]["steps"].as_array().is_some_and(|steps| steps.len() >= 5), "{json}");
    assert_eq!(differences(&before, &sandbox.tree()), [""; 0]);
    assert_eq!(sandbox.run(&["install"]).exit, Exit::Done);
    let installed = sandbox.tree();
    let undo = sandbox.run(&["remove", "--dry-run"]);
    assert!(undo.text.contains("--- /etc/default/grub.d/zz-slot-cmdline.cfg"), "{}", undo.text);
    assert_eq!(differences(&installed, &sandbox.tree()), [""; 0]);
}

#[test]
fn the_blacklist_is_moved_aside_and_comes_back() {
    let sandbox = Sandbox::new("debian-12-custom");
    sandbox.write("usr/lib/modprobe.d/package.conf", "blacklist nvidia_uvm\nblacklist floppy\n");
    sandbox.distro().settle();
    let before = sandbox.tree();
    let ran = sandbox.run(&["install", "--replace-blacklist"]);
    assert_eq!(ran.exit, Exit::Done, "{ran:?}");
    let text = sandbox.text("etc/modprobe.d/nvidia-blacklists.conf");
    assert!(text.contains("# moved aside by slot-cmdline: install nvidia /bin/false"), "{text}");
    assert!(text.contains("\nblacklist nouveau\n"), "{text}");
    let hidden = sandbox.text("etc/modprobe.d/package.conf");
    assert!(
        hidden.contains("\nblacklist floppy\n") && hidden.starts_with("# moved aside"),
        "{hidden}"
    );
    assert_eq!(sandbox.run(&["remove"]).exit, Exit::Done);
    assert_eq!(differences(&before, &sandbox.tree()), [""; 0]);
}

#[test]
fn an_edited_file_is_left_alone_and_merged_on_demand() {
    let sandbox = Sandbox::new("arch-grub");
    assert_eq!(sandbox.run(&["install"]).exit, Exit::Done);
    let edited = sandbox.text("etc/default/grub").replace("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=9");
    sandbox.write("etc/default/grub", &edited);
    let before = sandbox.tree();
    let refused = sandbox.run(&["remove"]);
    assert_eq!(refused.exit, Exit::Refused, "{refused:?}");
    let error = refused.error.expect("refused").to_string();
    assert!(
        error.contains("+GRUB_TIMEOUT=9") && error.contains("+# slot-cmdline begin"),
        "{error}"
    );
    assert_eq!(differences(&before, &sandbox.tree()), [""; 0]);
    assert_eq!(sandbox.run(&["remove", "--merge"]).exit, Exit::Done);
    let text = sandbox.text("etc/default/grub");
    assert!(text.contains("GRUB_TIMEOUT=9") && !text.contains("slot-cmdline"), "{text}");
}

#[test]
fn outputs_that_something_else_wrote_since_are_written_again() {
    let sandbox = Sandbox::new("debian-12");
    assert_eq!(sandbox.run(&["install"]).exit, Exit::Done);
    let cfg = sandbox.text("boot/grub/grub.cfg") + "# a new kernel came\n";
    sandbox.write("boot/grub/grub.cfg", &cfg);
    let distro = sandbox.distro();
    assert_eq!(sandbox.run_with(&["remove"], &distro, &no_faults).exit, Exit::Done);
    assert_eq!(*distro.ran.borrow(), ["update-grub"]);
    assert!(!sandbox.text("boot/grub/grub.cfg").contains("vfio-pci"));
}

#[test]
fn another_root_gets_its_files_and_the_list_of_commands() {
    let sandbox = Sandbox::new("debian-12");
    let before = sandbox.tree();
    let ran = sandbox.run_offline(&["install"]);
    assert_eq!(ran.exit, Exit::Done, "{ran:?}");
    assert!(
        ran.text.contains("update-initramfs -u -k 6.1.0-28-amd64\n  update-grub"),
        "{}",
        ran.text
    );
    assert_eq!(sandbox.run_offline(&["remove"]).exit, Exit::Done);
    assert_eq!(differences(&before, &sandbox.tree()), [""; 0]);
}
