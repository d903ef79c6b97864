//! However it ends, nothing stays on the die, and it goes in order.

mod support;

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};
use support::{Bench, assert_taken_down};

const ON_FIRST: [&str; 3] = ["--no-slotd", "--pci", "03:00.0"];

/// Starts die-check and waits until the stand-in has seen a launch of `kernel` by the worker.
fn started(bench: &Bench, words: &[&str], kernel: &str) -> Child {
    let mut command = bench.command(&[words, &ON_FIRST].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let launch = format!("launch {kernel}");
    bench.await_note(&launch);
    child
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    kill_process(pid, signal).expect("it is there");
}

fn finish(child: Child) -> support::Ended {
    support::Ended(child.wait_with_output().expect("it ends"))
}

#[test]
fn ctrl_c_ends_identify_as_a_success() {
    let bench = Bench::new();
    let child = started(&bench, &["identify"], "busy");
    signal(&child, Signal::INT);
    let ended = finish(child);
    assert_eq!(ended.code(), Some(0), "{}", ended.err());
    assert_taken_down(&bench.course(0));
}

#[test]
fn sigterm_in_the_middle_of_a_memory_test() {
    let bench = Bench::new();
    let child = started(&bench, &["memtest", "--size", "32M", "--passes", "1000"], "fill");
    signal(&child, Signal::TERM);
    finish(child).expect(143, "ended as asked");
    assert_taken_down(&bench.course(0));
}

#[test]
fn sigterm_while_a_kernel_runs_waits_for_it() {
    let bench = Bench::new();
    let child = started(&bench, &["persist", "--seconds", "1"], "persist");
    signal(&child, Signal::TERM);
    finish(child).expect(143, "ended as asked");
    assert_taken_down(&bench.course(0));
    let notes = bench.notes();
    let launched = notes.iter().filter(|note| note.what == "launch persist").count();
    let finished = notes.iter().filter(|note| note.what == "ended persist").count();
    assert_eq!(launched, finished, "each kernel ran to its end");
}

#[test]
fn a_second_signal_kills_the_worker_and_waits_until_it_is_gone() {
    let bench = Bench::faulty("hang");
    let child = started(&bench, &["identify"], "busy");
    signal(&child, Signal::TERM);
    signal(&child, Signal::INT);
    let ended = finish(child);
    assert!(matches!(ended.code(), Some(130 | 143)), "{:?} {}", ended.code(), ended.err());
    let worker = bench.notes().last().expect("notes").pid;
    assert!(pid_is_gone(worker));
}

#[test]
fn die_check_killed_leaves_a_worker_that_ends_in_order() {
    let bench = Bench::new();
    let mut child = started(&bench, &["identify"], "busy");
    let worker = Pid::from_raw(bench.notes().last().expect("notes").pid).expect("a pid");
    let worker = pidfd_open(worker, PidfdFlags::empty()).expect("it is there");
    child.kill().expect("it is there");
    let ready = poll(
        &mut [PollFd::new(&worker, PollFlags::IN)],
        Some(&Timespec { tv_sec: 30, tv_nsec: 0 }),
    );
    assert_eq!(ready, Ok(1), "the worker ends by itself");
    child.wait().expect("reaped");
    assert_taken_down(&bench.course(0));
}

#[test]
fn the_fast_exit_synchronises_and_takes_nothing_down() {
    let bench = Bench::new();
    let words = [&["persist", "--seconds", "0.2", "--exit", "fast"], &ON_FIRST[..]].concat();
    let ended = bench.run(&words);
    assert_eq!(ended.code(), Some(0), "{}", ended.err());
    let course = bench.course(0);
    assert_eq!(course.last().map(String::as_str), Some("synchronised"));
    assert!(!course.iter().any(|what| what.contains("context down")));
    assert!(pid_is_gone(bench.notes().last().expect("notes").pid));
}

#[test]
fn it_goes_on_although_nobody_reads_what_it_says() {
    let bench = Bench::new();
    let words = [&["identify", "--seconds", "1"], &ON_FIRST[..]].concat();
    let mut child = bench.command(&words).stdout(Stdio::piped()).spawn().expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let first = out.lines().next().expect("a line").expect("text");
    assert!(first.contains("0000:03:00.0"), "{first}");
    // `lines` has gone, and with it the reader.
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_taken_down(&bench.course(0));
}

fn pid_is_gone(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| rustix::process::test_kill_process(pid).is_err())
}
