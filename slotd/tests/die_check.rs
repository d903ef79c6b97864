//! `slotctl identify` and `slotctl check` hand over to `die-check`.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

/// slotctl in a folder of its own, with a die-check beside it that says how it was called.
fn slotctl(folder: &Path, words: &[&str]) -> Output {
    let slotctl = folder.join("slotctl");
    if !slotctl.exists() {
        fs::hard_link(env!("CARGO_BIN_EXE_slotctl"), &slotctl).expect("one file system");
    }
    Command::new(slotctl).args(words).env("PATH", folder).output().expect("it runs")
}

fn write_die_check(folder: &Path, script: &str) {
    let program = folder.join("die-check");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("ours");
}

// One test: a program that is being written cannot be run, and another test's child might have it open.
#[test]
fn they_become_die_check_where_there_is_one() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let output = slotctl(folder.path(), &["check", "3"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("run die-check"));

    write_die_check(folder.path(), r#"echo "$@"; exit 5"#);
    let called = |words: &[&str]| {
        let output = slotctl(folder.path(), &[&["--socket", "/tmp/s"], words].concat());
        assert_eq!(output.status.code(), Some(5));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    };
    assert_eq!(
        called(&["identify", "A0", "--seconds", "5"]),
        "identify --socket /tmp/s --seconds 5 -- A0"
    );
    assert_eq!(
        called(&["--json", "check", "0", "1", "--", "--size", "1G"]),
        "all --socket /tmp/s --json --size 1G -- 0 1"
    );
    assert_eq!(called(&["check"]), "all --socket /tmp/s --");
}
