//! The trial: one boot, and the old line unless it was confirmed.

mod common;

use common::{Sandbox, differences, env_block};
use slot_cmdline::{exit::Exit, trial::ENTRY};

/// Set-ups with every kind of loader and initramfs tool.
const TRIED: [&str; 10] = [
    "debian-12",
    "debian-12-custom",
    "debian-12-quotes",
    "ubuntu-22.04",
    "fedora-40",
    "fedora-32-kernelopts",
    "arch-grub",
    "debian-12-systemd-boot",
    "debian-12-systemd-boot-hooks",
    "arch-systemd-boot",
];

fn try_out(name: &str) -> Sandbox {
    let sandbox = Sandbox::new(name);
    let ran = sandbox.run(&["trial"]);
    assert_eq!(ran.exit, Exit::Done, "{name}: {ran:?}");
    sandbox
}

/// Files that the old entries boot from.
fn old_images(sandbox: &Sandbox) -> common::Tree {
    let mut tree = sandbox.tree();
    tree.retain(|path, _| {
        let text = path.to_string_lossy();
        (text.contains("initr") || text.contains("linu") || text.ends_with("grub.cfg"))
            && !text.contains("slot-cmdline")
    });
    tree
}

#[test]
fn the_trials_line_is_for_one_boot_and_the_old_boot_is_untouched() {
    for name in TRIED {
        let sandbox = Sandbox::new(name);
        let (before, images) = (sandbox.tree(), old_images(&sandbox));
        let old = sandbox.distro().next_line();
        assert_eq!(sandbox.run(&["trial"]).exit, Exit::Done, "{name}");
        assert_eq!(differences(&images, &old_images(&sandbox)), [""; 0], "{name}");
        let line = sandbox.boot();
        for token in [
            "vfio-pci.ids=",
            "10de:102d",
            "panic=30",
            "softlockup_panic=1",
            "hung_task_panic=0",
            "nmi_watchdog=1",
            "slot_cmdline.trial=",
        ] {
            assert!(line.contains(token), "{name}: {token} in {line}");
        }
        let check = sandbox.run(&["check"]);
        assert!(check.text.contains("this boot is the trial"), "{name}: {check:?}");
        assert_eq!(sandbox.boot(), old, "{name}");
        let check = sandbox.run(&["check"]);
        assert!(check.text.contains("was not confirmed"), "{name}: {check:?}");
        let removed = sandbox.run(&["remove"]);
        assert_eq!(removed.exit, Exit::Done, "{name}: {removed:?}");
        assert_eq!(differences(&before, &sandbox.tree()), [""; 0], "{name}");
    }
}

#[test]
fn a_confirmed_trial_stays_and_can_be_removed() {
    for name in TRIED.into_iter().chain(["arch-uki"]) {
        let sandbox = Sandbox::new(name);
        let before = sandbox.tree();
        let armed = sandbox.run(&["trial"]);
        assert_eq!(armed.exit, Exit::Done, "{name}: {armed:?}");
        assert_eq!(sandbox.run(&["confirm"]).exit, Exit::Refused, "{name}: not booted yet");
        sandbox.boot();
        let confirmed = sandbox.run(&["confirm"]);
        assert_eq!(confirmed.exit, Exit::Done, "{name}: {confirmed:?}");
        for _ in 0..2 {
            let line = sandbox.boot();
            assert!(
                line.contains("10de:102d") && !line.contains("slot_cmdline.trial"),
                "{name}: {line}"
            );
            assert!(!line.contains("panic=30"), "{name}: {line}");
            let check = sandbox.run(&["check"]);
            assert_eq!(check.exit, Exit::Done, "{name}: {}", check.text);
        }
        assert_eq!(sandbox.run(&["remove"]).exit, Exit::Done, "{name}");
        assert_eq!(differences(&before, &sandbox.tree()), [""; 0], "{name}");
    }
}

#[test]
fn a_trial_that_froze_is_reported() {
    for name in ["debian-12", "debian-12-systemd-boot"] {
        let sandbox = try_out(name);
        sandbox.boot();
        sandbox.boot();
        let check = sandbox.run(&["check"]);
        assert_eq!(check.exit, Exit::Findings, "{name}: {check:?}");
        assert!(check.text.contains("did not live to be seen"), "{name}: {}", check.text);
        assert_eq!(sandbox.run(&["confirm"]).exit, Exit::Refused, "{name}");
        assert_eq!(sandbox.run(&["trial"]).exit, Exit::Done, "{name}: again");
    }
}

#[test]
fn a_one_shot_that_was_lost_is_reported() {
    let sandbox = try_out("debian-12");
    sandbox.write("boot/grub/grubenv", env_block(&[]));
    sandbox.boot();
    let check = sandbox.run(&["check"]);
    assert_eq!(check.exit, Exit::Findings);
    assert!(check.text.contains("never started the trial"), "{}", check.text);
}

#[test]
fn confirm_wants_the_dies_parked() {
    let sandbox = try_out("debian-12");
    sandbox.boot();
    sandbox.bind("nouveau");
    let ran = sandbox.run(&["confirm"]);
    assert_eq!(ran.exit, Exit::Findings, "{ran:?}");
    assert!(ran.text.contains("0000:03:00.0 belongs to nouveau"), "{}", ran.text);
}

#[test]
fn a_one_shot_that_grub_could_not_clear_is_refused() {
    let refused = |change: &dyn Fn(&Sandbox), words: &str| {
        let sandbox = Sandbox::new("debian-12");
        change(&sandbox);
        let before = sandbox.tree();
        let ran = sandbox.run(&["trial"]);
        assert_eq!(ran.exit, Exit::Refused, "{words}: {ran:?}");
        let error = ran.error.expect("refused").to_string();
        assert!(error.contains(words), "{words} in {error}");
        assert!(error.contains("boot counting") && error.contains("serial"), "{error}");
        assert_eq!(differences(&before, &sandbox.tree()), [""; 0], "{words}");
    };
    for kind in ["btrfs", "zfs", "f2fs", "overlay"] {
        refused(&|s| s.plain_disk(kind), kind);
    }
    refused(&|s| s.write("sys/devices/ata1/block/sda/sda2/dm/uuid", "LVM-abc"), "LVM");
    refused(&|s| s.write("sys/devices/ata1/block/sda/sda2/dm/uuid", "CRYPT-LUKS2-x"), "encrypted");
    refused(&|s| s.write("sys/devices/ata1/block/sda/sda2/md/level", "raid1"), "md array");
    refused(
        &|s| s.write("proc/self/mountinfo", "25 1 8:2 / / ro - ext4 /dev/sda2 ro\n"),
        "read-only",
    );
    refused(&|s| s.remove("proc/self/mountinfo"), "mountinfo");
    refused(
        &|s| {
            let cfg = s.text("boot/grub/grub.cfg").replace("   set next_entry=\n", "");
            s.write("boot/grub/grub.cfg", cfg);
        },
        "no code that uses `next_entry`",
    );
    refused(
        &|s| {
            let cfg = s.text("boot/grub/grub.cfg").replace("custom.cfg", "other.cfg");
            s.write("boot/grub/grub.cfg", cfg);
        },
        "does not source custom.cfg",
    );
    refused(&|s| s.write("boot/grub/grubenv", "short"), "1024 bytes");
    refused(
        &|s| {
            let file = std::fs::File::create(s.path("boot/grub/grubenv")).expect("file");
            file.set_len(1024).expect("sparse");
        },
        "environment block",
    );
}

#[test]
fn systemd_boot_without_writable_variables_is_refused() {
    let sandbox = Sandbox::new("debian-12-systemd-boot");
    sandbox.write("proc/self/mountinfo", "25 1 8:2 / / rw - ext4 /dev/sda2 rw\n");
    let ran = sandbox.run(&["trial"]);
    assert_eq!(ran.exit, Exit::Refused, "{ran:?}");
    assert!(ran.error.expect("refused").to_string().contains("EFI variables are not writable"));
    let sandbox = Sandbox::new("debian-12-systemd-boot");
    sandbox.efi_text("LoaderInfo", "GRUB 2.12");
    assert_eq!(sandbox.run(&["trial"]).exit, Exit::Refused);
}

#[test]
fn grubs_entry_reads_back_whether_the_one_shot_was_cleared() {
    let sandbox = try_out("debian-12");
    let custom = sandbox.text("boot/grub/custom.cfg");
    let place = |text: &str| custom.find(text).unwrap_or_else(|| panic!("{text} in\n{custom}"));
    let reread = place("load_env next_entry");
    let condition = place("if [ -z \"${next_entry}\" ]; then");
    let otherwise = place("else");
    assert!(
        reread < condition
            && condition < place("slot_cmdline.trial=")
            && place("slot_cmdline.trial=") < otherwise
    );
    let old = &custom[otherwise..];
    assert!(old.contains("linux /boot/vmlinuz-6.1.0-28-amd64") && !old.contains("vfio"), "{old}");
    assert!(custom.contains(&format!("--id {ENTRY}")));
}
