//! Every fault is told in words that help, and by its own exit code.

mod support;

use support::{Bench, assert_taken_down};

const ON_FIRST: [&str; 3] = ["--no-slotd", "--pci", "03:00.0"];

fn words<'a>(verb: &[&'a str]) -> Vec<&'a str> {
    verb.iter().copied().chain(ON_FIRST).collect()
}

#[test]
fn without_a_driver_it_starts_and_says_so() {
    let bench = Bench::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_die-check"));
    command.args(words(&["parity"])).arg("--libcuda").arg(bench.root().join("libcuda.so.1"));
    let ended = support::Ended(command.output().expect("it starts"));
    ended.expect(3, "there is no NVIDIA driver here");
}

#[test]
fn a_library_that_is_no_driver_is_none() {
    let ended = Bench::new().command(&words(&["parity"])).args(["--libcuda", "libm.so.6"]).output();
    // clap takes an option once.
    assert_eq!(ended.expect("it starts").status.code(), Some(2));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_die-check"));
    command.args(words(&["parity"])).args(["--libcuda", "libm.so.6"]);
    support::Ended(command.output().expect("it starts")).expect(3, "only a stub");
}

#[test]
fn no_device() {
    Bench::faulty("no-device").run(&words(&["parity"])).expect(4, "no such die");
}

#[test]
fn another_machines_die() {
    let ended = Bench::new().run(&["parity", "--no-slotd", "--pci", "0000:7e:1f.7"]);
    ended.expect(4, "no such die");
}

#[test]
fn a_driver_too_old_for_the_kernels_is_quoted() {
    let ended = Bench::faulty("old-driver").run(&words(&["parity"]));
    ended.expect(6, "driver is too old for this PTX");
    ended.expect(6, "CUDA error 222");
    ended.expect(6, "current version is '7.1'");
}

#[test]
fn a_wrong_result_names_the_multiprocessor() {
    let bench = Bench::faulty("wrong-parity");
    let ended = bench.run(&words(&["parity", "--times", "1"]));
    ended.expect(5, "1 doubles");
    ended.expect(5, "multiprocessors [5]");
    assert_taken_down(&bench.course(0));
}

#[test]
fn a_wrong_element_of_a_persisting_kernel() {
    let bench = Bench::faulty("wrong-persist");
    let ended = bench.run(&words(&["persist", "--seconds", "0.2"]));
    ended.expect(5, "1 of 1048576 elements are wrong");
    assert_taken_down(&bench.course(0));
}

#[test]
fn a_launch_that_never_ends_is_not_waited_for() {
    for verb in [&["identify"][..], &["persist"], &["memtest", "--size", "4M"], &["parity"]] {
        let bench = Bench::faulty("hang");
        let ended = bench.run(&words(&[verb, &["--launch-limit", "0.3"]].concat()));
        ended.expect(7, "a launch has not ended after 0.");
        // Whatever is taken down would wait for the launch.
        let course = bench.course(0);
        assert!(!course.iter().any(|what| what.contains("down") || what == "free"), "{course:?}");
    }
}

#[test]
fn a_lost_context() {
    let ended = Bench::faulty("lose=3").run(&words(&["memtest", "--size", "4M"]));
    ended.expect(8, "a kernel fell over; the context is lost (CUDA error 719)");
}

#[test]
fn a_worker_that_crashes() {
    let ended = Bench::faulty("crash").run(&words(&["parity"]));
    ended.expect(1, "the worker ended early: signal: 6");
}

#[test]
fn memory_that_is_taken() {
    let ended = Bench::faulty("memory=64").run(&words(&["memtest", "--size", "128M"]));
    ended.expect(10, "the die's memory is full (CUDA error 2)");
}

#[test]
fn no_slotd() {
    let ended = Bench::new().run(&["parity", "2", "--socket", "/nonexistent/slotd.sock"]);
    ended.expect(9, "cannot reach slotd at /nonexistent/slotd.sock");
}
