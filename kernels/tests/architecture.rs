//! The crate is for one architecture, and says so where it is another.

use std::process::Command;

#[test]
fn another_architecture_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    let compiled = Command::new("rustc")
        .args(["--edition", "2024", "-o"])
        .arg(&script)
        .arg("build.rs")
        .status()
        .expect("rustc is where cargo is");
    assert!(compiled.success());
    let run = |architecture: &str| {
        let output = Command::new(&script)
            .env("OUT_DIR", folder.path())
            .env("CARGO_CFG_TARGET_ARCH", architecture)
            .env("CARGO_CFG_TARGET_OS", "linux")
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(run("aarch64").contains("cargo::error=slot-kernels builds for x86_64 Linux only"));
    assert!(!run("x86_64").contains("cargo::error"));
}
