//! The daemon as a process of its own: what clients can do to its stack, its descriptors and its
//! socket, and how it comes and goes.

use std::{
    fs,
    io::{BufRead, BufReader, IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit},
};
use slotd_client::{Client, api};
use tempfile::TempDir;

/// No answer takes longer on the slowest machine.
const LIMIT: Duration = Duration::from_secs(30);

struct Slotd {
    child: Child,
    socket: PathBuf,
    lines: Receiver<String>,
    _folder: TempDir,
}

impl Slotd {
    fn new() -> Self {
        Self::with_descriptors(1024)
    }

    fn with_descriptors(limit: u64) -> Self {
        let folder = TempDir::new().expect("a folder");
        let socket = folder.path().join("slotd.sock");
        let mut child = Command::new("sh")
            .args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")])
            .args([env!("CARGO_BIN_EXE_slotd"), "--sim", "k80x4", "--socket"])
            .arg(&socket)
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            // Read to the end, so that the daemon never waits for somebody who listens.
            log.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        let slotd = Self { child, socket, lines, _folder: folder };
        slotd.until_it_says("serving");
        // It has opened all it needs once it answers.
        slotd.status();
        slotd
    }

    fn until_it_says(&self, words: &str) {
        while !self.lines.recv_timeout(LIMIT).expect("it says so").contains(words) {}
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("a folder").count()
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream
    }

    fn client(&self) -> Client {
        Client::from_stream(self.raw())
    }

    fn status(&self) -> api::StatusReply {
        self.client().status().expect("a status")
    }

    /// Waits until so many are in line: asks again, since nobody tells.
    fn until_waiting(&self, count: u64) {
        while self.status().slots[0].waiting != count {
            thread::yield_now();
        }
    }

    fn terminate(mut self) -> ExitStatus {
        kill_process(self.pid(), Signal::TERM).expect("a signal");
        self.child.wait().expect("it ended")
    }
}

impl Drop for Slotd {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const STATUS: &[u8] = b"{\"method\":\"org.barswap.Slot.Status\"}\0";
const RELEASE: &[u8] = b"{\"method\":\"org.barswap.Slot.Release\"}\0";
const ACQUIRE: &[u8] =
    b"{\"method\":\"org.barswap.Slot.Acquire\",\"parameters\":{\"die\":\"0\"}}\0";
const RELEASE_ANOTHER: &[u8] =
    b"{\"method\":\"org.barswap.Slot.Release\",\"parameters\":{\"lease\":0}}\0";

fn count_answers(stream: &mut UnixStream, count: usize) {
    let (mut seen, mut chunk) = (0, [0; 4096]);
    while seen < count {
        let got = stream.read(&mut chunk).expect("answers");
        assert_ne!(got, 0, "the connection ended after {seen} of {count} answers");
        seen += chunk[..got].split(|byte| *byte == 0).count() - 1;
    }
    assert_eq!(seen, count);
}

#[test]
fn calls_that_lie_behind_a_wait_do_not_add_up_on_the_stack() {
    const CALLS: usize = 2_500;
    let slotd = Slotd::new();
    let mut holder = slotd.client();
    holder.call(&api::Acquire::die("0")).expect("a lease");
    // Each gives the slot to the next one with the last of many calls.
    let mut calls = RELEASE_ANOTHER.repeat(CALLS);
    calls.extend_from_slice(RELEASE);
    let mut clients = Vec::new();
    for number in 1..=20 {
        let mut client = slotd.raw();
        client.write_all(ACQUIRE).expect("sent");
        slotd.until_waiting(number);
        client.write_all(&calls).expect("sent");
        clients.push(client);
    }
    // Each turn of the daemon's loop takes in a part of what lies in every socket.
    (0..20).for_each(|_| drop(slotd.status()));
    drop(holder);
    for client in &mut clients {
        count_answers(client, CALLS + 2);
    }
    assert_eq!(slotd.status().dies[0].visits, 21);
    assert!(slotd.terminate().success());
}

#[test]
fn a_line_of_the_dead_is_passed_over() {
    let slotd = Slotd::new();
    let mut holder = slotd.client();
    holder.call(&api::Acquire::die("0")).expect("a lease");
    let mut waiters = Vec::new();
    for _ in 0..500 {
        let mut waiter = slotd.raw();
        waiter.write_all(ACQUIRE).expect("sent");
        waiters.push(waiter);
    }
    slotd.until_waiting(500);
    let mut living = slotd.raw();
    living.write_all(ACQUIRE).expect("sent");
    slotd.until_waiting(501);
    // All at once, as the daemon sees it.
    kill_process(slotd.pid(), Signal::STOP).expect("a signal");
    drop((holder, waiters));
    kill_process(slotd.pid(), Signal::CONT).expect("a signal");
    count_answers(&mut living, 1);
    let slot = slotd.status().slots[0].clone();
    assert_eq!((slot.state, slot.waiting), (api::SlotState::Held, 0));
}

#[test]
fn clients_leave_descriptors_for_operations_and_are_let_in_later() {
    let slotd = Slotd::with_descriptors(96);
    let clients: Vec<_> = (0..96).map(|_| slotd.raw()).collect();
    slotd.until_it_says("no more clients");
    assert!(slotd.descriptors() <= 96 - 30, "{} of 96 are taken", slotd.descriptors());
    let mut first = Client::from_stream(clients[0].try_clone().expect("a descriptor"));
    first.call(&api::Acquire::die("0")).expect("an operation has what it needs");
    drop((first, clients));
    assert_eq!(slotd.status().dies.len(), 4);
}

#[test]
fn a_shortage_that_no_client_caused_passes() {
    let slotd = Slotd::new();
    let limit = |current| Rlimit { current: Some(current), maximum: Some(1024) };
    // What is open stays open, and nothing more can be.
    prlimit(Some(slotd.pid()), Resource::Nofile, limit(3)).expect("a limit");
    drop(slotd.raw());
    slotd.until_it_says("no more clients");
    prlimit(Some(slotd.pid()), Resource::Nofile, limit(1024)).expect("a limit");
    assert_eq!(slotd.status().dies.len(), 4);
}

#[test]
fn descriptors_that_come_with_calls_are_closed() {
    let slotd = Slotd::new();
    let mut client = slotd.raw();
    client.write_all(STATUS).expect("sent");
    count_answers(&mut client, 1);
    let before = slotd.descriptors();
    let null = fs::File::open("/dev/null").expect("a file");
    let fds = [null.as_fd(); 10];
    for _ in 0..20 {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(10))];
        let mut along = SendAncillaryBuffer::new(&mut space);
        assert!(along.push(SendAncillaryMessage::ScmRights(&fds)));
        let sent = sendmsg(&client, &[IoSlice::new(STATUS)], &mut along, SendFlags::empty());
        assert_eq!(sent.expect("sent"), STATUS.len());
        count_answers(&mut client, 1);
    }
    assert_eq!(slotd.descriptors(), before);
}

#[test]
fn who_does_not_read_is_dropped() {
    let slotd = Slotd::new();
    let mut lazy = slotd.raw();
    lazy.set_write_timeout(Some(LIMIT)).expect("a limit");
    let error = loop {
        if let Err(error) = lazy.write_all(STATUS) {
            break error;
        }
    };
    let dropped = [std::io::ErrorKind::BrokenPipe, std::io::ErrorKind::ConnectionReset];
    assert!(dropped.contains(&error.kind()), "{error}");
    assert_eq!(slotd.status().dies.len(), 4);
}

#[test]
fn answers_that_nobody_reads_do_not_keep_it_from_stopping() {
    let slotd = Slotd::new();
    let mut lazy = slotd.raw();
    // More than the socket holds, less than makes the daemon drop the client.
    (0..600).for_each(|_| lazy.write_all(STATUS).expect("sent"));
    slotd.status();
    let began = Instant::now();
    let socket = slotd.socket.clone();
    assert!(slotd.terminate().success());
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?}", began.elapsed());
    assert!(!socket.exists(), "the socket was left behind");
}

#[test]
fn two_hundred_clients_each_get_their_turn() {
    let slotd = Slotd::new();
    let socket = slotd.socket.as_path();
    thread::scope(|scope| {
        for _ in 0..200 {
            scope.spawn(move || {
                let mut client = Client::connect_to(socket).expect("a connection");
                client.set_deadline(Some(LIMIT)).expect("a limit");
                client.call(&api::Acquire::default()).expect("a lease");
                client.call(&api::Release::default()).expect("released");
            });
        }
    });
    assert_eq!(slotd.status().dies.iter().map(|die| die.visits).sum::<u64>(), 200);
    assert!(slotd.terminate().success());
}

/// Starts slotd as a service manager does, with a socket as descriptor 3 for the process `pid`.
fn handed(pid: &str, socket: &UnixListener, path: &Path) -> Child {
    let script = format!("LISTEN_FDS=1 LISTEN_PID={pid} exec \"$0\" \"$@\" 3<&0 </dev/null");
    let socket = OwnedFd::from(socket.try_clone().expect("a descriptor"));
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_slotd"), "--sim", "k80x4", "--quiet", "--socket"])
        .arg(path)
        .stdin(Stdio::from(socket))
        .spawn()
        .expect("a shell")
}

#[test]
fn a_socket_that_was_handed_over_is_served_and_left() {
    let folder = TempDir::new().expect("a folder");
    let (theirs, own) = (folder.path().join("theirs"), folder.path().join("own"));
    let listener = UnixListener::bind(&theirs).expect("a socket");
    let mut child = handed("$$", &listener, &own);
    let mut client = Client::connect_to(&theirs).expect("a connection");
    client.set_deadline(Some(LIMIT)).expect("a limit");
    assert_eq!(client.status().expect("a status").dies.len(), 4);
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a signal");
    assert!(child.wait().expect("it ended").success());
    assert!(theirs.exists() && !own.exists());
}

#[test]
fn a_socket_that_was_handed_to_another_process_is_not_taken() {
    let folder = TempDir::new().expect("a folder");
    let (theirs, taken) = (folder.path().join("theirs"), folder.path().join("taken"));
    let listener = UnixListener::bind(&theirs).expect("a socket");
    fs::write(&taken, "").expect("a file");
    // It would not look at its own path if it took the socket.
    let mut child = handed("1", &listener, &taken);
    assert_eq!(child.wait().expect("it ended").code(), Some(1));
}

#[test]
fn what_is_no_socket_is_not_removed() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("precious");
    fs::write(&path, "work of years").expect("a file");
    let output = start_at(&path);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("is no socket"), "{said}");
    assert_eq!(fs::read_to_string(&path).expect("still there"), "work of years");
}

fn start_at(path: &Path) -> std::process::Output {
    let mut slotd = Command::new("timeout");
    slotd.args(["10", env!("CARGO_BIN_EXE_slotd"), "--sim", "k80x4", "--socket"]).arg(path);
    slotd.output().expect("slotd")
}
