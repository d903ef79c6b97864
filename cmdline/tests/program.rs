//! The program itself: exit codes, streams, JSON.

mod common;

use std::process::{Command, Output};

use common::Sandbox;

fn slot_cmdline(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_slot-cmdline")).args(arguments).output().expect("run")
}

fn on(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let root = sandbox.path("");
    let mut all = vec!["--root", root.to_str().expect("text")];
    all.extend(arguments);
    slot_cmdline(&all)
}

#[test]
fn exit_codes_are_those_of_the_table() {
    let help = slot_cmdline(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("Exit codes:"));
    assert_eq!(slot_cmdline(&["frobnicate"]).status.code(), Some(64));
    assert_eq!(slot_cmdline(&["plan", "--die-id", "x"]).status.code(), Some(64));

    let sandbox = Sandbox::new("debian-12");
    assert_eq!(on(&sandbox, &["plan"]).status.code(), Some(0));
    assert_eq!(on(&sandbox, &["check", "--json"]).status.code(), Some(0));
    sandbox.write("proc/self/mountinfo", "");
    let refused = on(&sandbox, &["trial"]);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    let unknown = on(&Sandbox::new("unknown-lilo"), &["install"]);
    assert_eq!(unknown.status.code(), Some(3));
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(said.contains("By hand:\n  kernel command line"), "{said}");
}

#[test]
fn without_dies_every_verb_but_remove_ends_with_2() {
    let sandbox = Sandbox::new("debian-12");
    sandbox.remove("sys/bus/pci/devices");
    for verb in ["plan", "install", "trial", "confirm", "check"] {
        let ran = on(&sandbox, &[verb]);
        assert_eq!(ran.status.code(), Some(2), "{verb}: {ran:?}");
        assert!(
            String::from_utf8_lossy(&ran.stderr).contains("no die (10de:102d"),
            "{verb}: {ran:?}"
        );
    }
    assert_eq!(on(&sandbox, &["remove"]).status.code(), Some(0));
}

#[test]
fn json_is_one_document_with_its_version() {
    let sandbox = Sandbox::new("debian-12-custom");
    for verb in ["plan", "check", "install", "remove"] {
        let ran = on(&sandbox, &[verb, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&ran.stdout).expect(verb);
        assert_eq!(json["api"], 1, "{verb}");
        assert!(!json["result"].is_null(), "{verb}");
    }
}

#[test]
fn check_names_the_next_step_for_what_it_finds() {
    let sandbox = Sandbox::new("debian-12-custom");
    sandbox.function("0000:41:00.0", "0x10de", "0x1eb8", "0x030200");
    let text = String::from_utf8(on(&sandbox, &["check"]).stdout).expect("text");
    for part in [
        "the running line does not park",
        "0000:41:00.0 (10de:1eb8) beside the dies belongs to nobody",
        "install nvidia /bin/false",
        "next: it keeps nvidia from the dies too: `slot-cmdline install --replace-blacklist`",
        "iommu      in use",
        "signing    unsigned modules are accepted",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
