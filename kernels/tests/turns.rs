//! die-check as a client of slotd: sixteen simulated dies take turns, and the stand-in driver computes.

mod support;

use std::{
    process::{Child, Stdio},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use slotd_client::api::{Acquire, SlotState};
use support::{Bench, Ended, assert_taken_down, slotd::Daemon};

/// A bench whose driver has the dies that slotd lends.
fn bench() -> (Bench, Daemon) {
    let bench = Bench::new();
    let daemon = Daemon::start(&bench);
    let dies: Vec<String> = daemon.status().dies.into_iter().map(|die| die.bdf).collect();
    assert_eq!(dies.len(), 16);
    (bench.with_dies(&dies), daemon)
}

fn run(bench: &Bench, daemon: &Daemon, words: &[&str]) -> Ended {
    Ended(bench.command(words).arg("--socket").arg(daemon.socket()).output().expect("it runs"))
}

fn start(bench: &Bench, daemon: &Daemon, words: &[&str]) -> Child {
    let mut command = bench.command(words);
    command.arg("--socket").arg(daemon.socket()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it is there");
}

fn finish(child: Child) -> Ended {
    Ended(child.wait_with_output().expect("it ends"))
}

#[track_caller]
fn assert_no_lease(daemon: &Daemon) {
    let slot = daemon.slot();
    assert_eq!((slot.state, slot.lease, slot.waiting), (SlotState::Free, None, 0));
}

#[test]
fn identify_tells_where_the_die_is() {
    let (bench, daemon) = bench();
    let die = daemon.die(5);
    let ended = run(&bench, &daemon, &["identify", "5", "--seconds", "1"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.err());
    for word in [&die.label, &die.bdf, &format!("card   {}", die.card)] {
        assert!(ended.out().contains(word.as_str()), "{word} is not in {}", ended.out());
    }
    assert_no_lease(&daemon);
    assert_taken_down(&bench.course(5));
    assert!(bench.notes().iter().all(|note| note.die == 5), "no other die is touched");
}

#[test]
fn a_kernel_runs_on_while_its_die_is_out_of_the_slot() {
    let (bench, daemon) = bench();
    let ended = run(&bench, &daemon, &["persist", "3", "--seconds", "0.5", "--json"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.err());
    let report = ended.json();
    let times = &report["dies"][0];
    let ms = |name: &str| times[name].as_f64().expect("a time");
    assert_eq!(times["ended_before"], true);
    assert_eq!((&times["wrong"], &times["elements"]), (&0.into(), &1_048_576.into()));
    assert!(ms("released_after") < ms("kernel"), "released while it ran: {times}");
    assert!(ms("away") > 500.0, "{times}");
    // Once to launch, once to collect.
    assert_eq!(daemon.die(3).visits, 2);
    assert_no_lease(&daemon);
    assert_taken_down(&bench.course(3));
}

#[test]
fn two_dies_compute_at_the_same_time_behind_one_slot() {
    let (bench, daemon) = bench();
    let ended = run(&bench, &daemon, &["persist", "0", "1", "--seconds", "2", "--json"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.err());
    let notes = bench.notes();
    let last = |die: i32, what: &str| {
        notes.iter().rfind(|note| note.die == die && note.what == what).expect("noted").ns
    };
    // The last launch is the one that was not for calibration.
    assert!(last(1, "launch persist") < last(0, "ended persist"), "{notes:?}");
    for die in [0, 1] {
        assert_eq!(ended.json()["dies"][die]["wrong"], 0);
        assert_eq!(daemon.die(u16::try_from(die).expect("small")).visits, 2);
    }
    assert_no_lease(&daemon);
}

#[test]
fn a_memory_test_gives_way_between_chunks() {
    let (bench, daemon) = bench();
    let words = ["memtest", "2", "--size", "32M", "--passes", "40", "--json"];
    let child = start(&bench, &daemon, &words);
    bench.await_note("launch fill");
    let mut client = daemon.client();
    // Answered although the test goes on for a good while.
    let lease = client.acquire(&Acquire::die("9")).expect("a turn");
    assert_eq!(lease.die, 9);
    lease.release().expect("released");
    let ended = finish(child);
    assert_eq!(ended.code(), Some(0), "{}", ended.err());
    assert_eq!(ended.json()["gave_way"], 1);
    assert_eq!(ended.json()["wrong_words"], 0);
    assert_no_lease(&daemon);
}

#[test]
fn the_lease_is_given_back_after_the_context_whatever_ends_it() {
    for (words, kernel, code) in [
        (&["memtest", "2", "--size", "16M", "--passes", "1000"][..], "fill", 143),
        (&["identify", "2"][..], "busy", 0),
        (&["persist", "2", "--seconds", "1"][..], "persist", 143),
    ] {
        let (bench, daemon) = bench();
        let child = start(&bench, &daemon, words);
        bench.await_note(&format!("launch {kernel}"));
        // Whoever gets the slot next finds nothing on the die that left it.
        let (notes, next) = thread::scope(|scope| {
            let next = scope.spawn(|| {
                let mut client = daemon.client();
                let lease = client.acquire(&Acquire::die("9")).expect("a turn");
                (bench.course(2), lease.die)
            });
            signal(&child, Signal::TERM);
            next.join().expect("no panic")
        });
        assert_eq!(next, 9);
        let ended = finish(child);
        assert_eq!(ended.code(), Some(code), "{words:?} {}", ended.err());
        assert_taken_down(&bench.course(2));
        // A kernel that gives way, or persists, may have let it in earlier, with the context there.
        if kernel == "fill" || kernel == "busy" {
            assert!(!notes.is_empty());
        }
        assert_no_lease(&daemon);
    }
}

#[test]
fn sigterm_while_the_die_is_out_of_the_slot_brings_it_back_first() {
    let (bench, daemon) = bench();
    let child = start(&bench, &daemon, &["persist", "2", "--seconds", "1"]);
    await_visits(&daemon, 2, 1);
    signal(&child, Signal::TERM);
    finish(child).expect(143, "ended as asked");
    assert_taken_down(&bench.course(2));
    assert_eq!(daemon.die(2).visits, 2, "it came back to be taken down");
    assert_no_lease(&daemon);
}

/// Comes back once a die has had that many visits and none is under way.
fn await_visits(daemon: &Daemon, die: u16, visits: u64) {
    let mut client = daemon.client();
    while daemon.die(die).visits < visits {
        thread::yield_now();
    }
    // In line behind the visit that is under way.
    client.acquire(&Acquire::die("15")).expect("a turn").release().expect("released");
}

#[test]
fn a_worker_that_dies_takes_no_lease_with_it() {
    let (bench, daemon) = bench();
    let child = start(&bench, &daemon, &["identify", "2"]);
    bench.await_note("launch busy");
    let worker = Pid::from_raw(bench.notes().last().expect("notes").pid).expect("a pid");
    kill_process(worker, Signal::KILL).expect("it is there");
    finish(child).expect(1, "the worker ended early: signal: 9");
    assert_no_lease(&daemon);
}

#[test]
fn slotd_gone_while_the_die_is_out_of_the_slot_is_waited_for() {
    let (bench, mut daemon) = bench();
    let child = start(&bench, &daemon, &["persist", "2", "--seconds", "1"]);
    await_visits(&daemon, 2, 1);
    daemon.kill();
    // The kernel ends, and nobody can let the die back in yet.
    let daemon = Daemon::start(&bench);
    let ended = finish(child);
    assert_eq!(ended.code(), Some(0), "{}", ended.err());
    assert_taken_down(&bench.course(2));
    assert_eq!(daemon.die(2).visits, 1);
}

#[test]
fn waiting_in_line_ends_with_ctrl_c_and_leaves_no_trace() {
    let (bench, daemon) = bench();
    let mut client = daemon.client();
    let lease = client.acquire(&Acquire::die("9")).expect("a turn");
    let child = start(&bench, &daemon, &["identify", "2"]);
    while daemon.slot().waiting == 0 {
        thread::yield_now();
    }
    signal(&child, Signal::INT);
    finish(child).expect(130, "ended while waiting in line");
    while daemon.slot().waiting > 0 {
        thread::yield_now();
    }
    lease.release().expect("released");
    assert_eq!(daemon.die(2).visits, 0);
    assert!(bench.notes().is_empty(), "the driver was not started");
}

#[test]
fn what_slotd_refuses_is_told() {
    let (bench, daemon) = bench();
    run(&bench, &daemon, &["parity", "77"]).expect(9, "`77` is no die of this machine");
}

#[test]
fn without_a_driver_no_die_is_disturbed() {
    let (bench, daemon) = bench();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_die-check"));
    command.args(["parity", "2", "--libcuda", "/nonexistent/libcuda.so.1", "--socket"]);
    let output = command.arg(daemon.socket()).output().expect("it runs");
    Ended(output).expect(3, "there is no NVIDIA driver here");
    assert_eq!(daemon.die(2).visits, 0);
    drop(bench);
}

#[test]
fn all_means_every_die_that_slotd_has() {
    let (bench, daemon) = bench();
    let bench = bench.with("STANDIN_FAULT", "old-driver");
    let ended = run(&bench, &daemon, &["all", "--json"]);
    ended.expect(6, "the driver is too old");
    let report = ended.json();
    let dies = report["dies"].as_array().expect("dies");
    for (number, die) in dies.iter().enumerate() {
        assert_eq!(die["place"]["die"], number);
    }
    assert_eq!(dies.len(), 16);
    assert_no_lease(&daemon);
}

#[test]
fn one_wrong_die_among_right_ones_is_named() {
    let (bench, daemon) = bench();
    let bench = bench.with("STANDIN_FAULT", "wrong-parity").with("STANDIN_FAULTY", "11");
    let words = ["all", "0", "11", "15", "--size", "1M", "--seconds", "0.1", "--json"];
    let ended = run(&bench, &daemon, &words);
    ended.expect(5, "the die computes wrongly");
    let report = ended.json();
    for (die, number) in report["dies"].as_array().expect("dies").iter().zip([0, 11, 15]) {
        assert_eq!(die["failure"].is_null(), number != 11, "{number}: {}", die["failure"]);
        assert_eq!(die["place"]["die"], number);
    }
    assert_no_lease(&daemon);
}
