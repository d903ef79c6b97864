//! The service on a real socket, with clients that behave and clients that do not.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use slotd::{
    daemon::{Daemon, Setup},
    service::{End, Listener},
};
use slotd_client::{Client, Error, api};
use tempfile::TempDir;
use vfio_park::{
    Machine,
    sim::{Preset, Simulator},
};

/// No answer takes longer on the slowest machine.
const LIMIT: Duration = Duration::from_secs(30);

struct Desk {
    machine: Simulator,
    socket: PathBuf,
    daemon: Option<Daemon>,
    _folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self::on("k80x4")
    }

    fn on(preset: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let socket = folder.path().join("slotd.sock");
        let machine = Simulator::new(preset.parse::<Preset>().expect("a preset"));
        let mut desk = Self { machine, socket, daemon: None, _folder: folder };
        desk.start();
        desk
    }

    fn start(&mut self) {
        let listener = Listener::bind(&self.socket).expect("a socket");
        let setup = Setup::simulated(&self.machine, "test");
        self.daemon = Some(Daemon::start(setup, listener).expect("a daemon"));
    }

    fn client(&self) -> Client {
        let mut client = Client::connect_to(&self.socket).expect("a connection");
        client.set_deadline(Some(LIMIT)).expect("a limit");
        client
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream
    }

    /// Sends bytes and reads until the end of the connection.
    fn until_closed(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.raw();
        // It may be closed before all is sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    fn waiting(&self) -> u64 {
        self.client().status().expect("a status").slots[0].waiting
    }

    /// Waits until so many are in line: asks again, since nobody tells.
    fn until_waiting(&self, count: u64) {
        while self.waiting() != count {
            thread::yield_now();
        }
    }
}

fn frame(method: &str, parameters: &Value) -> Vec<u8> {
    let mut bytes = json!({ "method": method, "parameters": parameters }).to_string().into_bytes();
    bytes.push(0);
    bytes
}

fn answer(stream: &mut UnixStream) -> Value {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    loop {
        stream.read_exact(&mut byte).expect("an answer");
        if byte == [0] {
            return serde_json::from_slice(&bytes).expect("JSON");
        }
        bytes.push(byte[0]);
    }
}

fn ask(desk: &Desk, method: &str, parameters: &Value) -> Value {
    let mut stream = desk.raw();
    stream.write_all(&frame(method, parameters)).expect("sent");
    answer(&mut stream)
}

#[test]
fn what_is_no_call_ends_the_connection_and_nothing_else() {
    let desk = Desk::new();
    let too_long = vec![b'x'; 400 << 10];
    for bytes in [&b"rubbish\0"[..], b"\0", b"{}\0", b"[]\0", b"{\"method\":3}\0", &too_long] {
        assert_eq!(desk.until_closed(bytes), b"", "{} bytes", bytes.len());
    }
    assert_eq!(desk.client().status().expect("still served").dies.len(), 4);
}

#[test]
fn errors_say_what_is_wrong() {
    let desk = Desk::new();
    let cases = [
        ("org.barswap.Slot.Fly", json!({}), "org.varlink.service.MethodNotFound", "method"),
        ("org.example.Nothing.Do", json!({}), "org.varlink.service.InterfaceNotFound", "interface"),
        ("Status", json!({}), "org.varlink.service.InterfaceNotFound", "interface"),
        (
            "org.barswap.Slot.Acquire",
            json!({ "wait_ms": "soon" }),
            "org.varlink.service.InvalidParameter",
            "parameter",
        ),
        (
            "org.barswap.Slot.Acquire",
            json!({ "dye": "3" }),
            "org.varlink.service.InvalidParameter",
            "parameter",
        ),
        (
            "org.barswap.Sim.Read",
            json!({ "address": 0, "length": 1_000_000 }),
            "org.varlink.service.InvalidParameter",
            "parameter",
        ),
        ("org.barswap.Slot.Acquire", json!({ "die": "99" }), "org.barswap.Slot.UnknownDie", "die"),
        ("org.barswap.Slot.Release", json!({ "lease": 7 }), "org.barswap.Slot.NotHolder", "lease"),
    ];
    for (method, parameters, error, member) in cases {
        let answer = ask(&desk, method, &parameters);
        assert_eq!(answer["error"], error, "{method} {parameters}: {answer}");
        assert!(!answer["parameters"][member].is_null(), "{answer}");
    }
}

#[test]
fn the_standard_interface_introspects() {
    let desk = Desk::new();
    let info = ask(&desk, "org.varlink.service.GetInfo", &json!({}));
    let interfaces = info["parameters"]["interfaces"].as_array().expect("a list").clone();
    assert_eq!(interfaces.len(), 3);
    for interface in interfaces {
        let call = json!({ "interface": interface });
        let text = ask(&desk, "org.varlink.service.GetInterfaceDescription", &call);
        let text = text["parameters"]["description"].as_str().expect("a text").to_owned();
        assert!(text.contains(&format!("interface {}", interface.as_str().expect("a name"))));
    }
}

#[test]
fn a_call_in_pieces_and_two_calls_at_once_are_answered() {
    let desk = Desk::new();
    let mut stream = desk.raw();
    for byte in frame("org.barswap.Slot.Status", &json!({})) {
        stream.write_all(&[byte]).expect("sent");
    }
    assert!(answer(&mut stream)["parameters"]["dies"].is_array());
    let mut both = frame("org.barswap.Slot.Acquire", &json!({ "die": "1" }));
    both.extend(frame("org.barswap.Slot.Release", &json!({})));
    stream.write_all(&both).expect("sent");
    assert_eq!(answer(&mut stream)["parameters"]["kind"], "cold");
    assert_eq!(answer(&mut stream), json!({}));
}

#[test]
fn a_oneway_call_is_done_and_not_answered() {
    let desk = Desk::new();
    let mut stream = desk.raw();
    stream.write_all(b"{\"method\":\"org.barswap.Slot.Acquire\",\"oneway\":true}\0").expect("sent");
    stream.write_all(&frame("org.barswap.Slot.Release", &json!({}))).expect("sent");
    assert_eq!(answer(&mut stream), json!({}), "the release of the lease that nobody told of");
}

#[test]
fn the_line_moves_on_when_holder_or_waiter_die() {
    let desk = Desk::new();
    let mut holder = desk.client();
    holder.call(&api::Acquire::die("0")).expect("a lease");
    let mut waiter = desk.raw();
    waiter.write_all(&frame("org.barswap.Slot.Acquire", &json!({ "die": "1" }))).expect("sent");
    desk.until_waiting(1);
    let mut next = desk.raw();
    next.write_all(&frame("org.barswap.Slot.Acquire", &json!({ "die": "2" }))).expect("sent");
    desk.until_waiting(2);
    drop(waiter);
    desk.until_waiting(1);
    drop(holder);
    assert_eq!(answer(&mut next)["parameters"]["die"], 2);
}

#[test]
fn a_wait_limit_ends_the_wait_and_not_the_connection() {
    let desk = Desk::new();
    let mut holder = desk.client();
    holder.call(&api::Acquire::die("0")).expect("a lease");
    let mut other = desk.client();
    let call = api::Acquire { wait_ms: Some(1), ..api::Acquire::die("1") };
    match other.call(&call) {
        Err(Error::Refused(api::Refusal::TimedOut { .. })) => (),
        result => panic!("{result:?}"),
    }
    holder.call(&api::Release::default()).expect("released");
    other.call(&call).expect("free now");
}

#[test]
fn many_clients_each_get_their_turn() {
    let desk = Desk::new();
    let visit = |number: usize| {
        let mut client = desk.client();
        let die = (number % 4).to_string();
        for _ in 0..3 {
            let acquired = client.call(&api::Acquire::die(&*die)).expect("a lease");
            assert_eq!(acquired.die.to_string(), die);
            client.call(&api::Release::default()).expect("released");
        }
    };
    thread::scope(|scope| {
        for number in 0..100 {
            scope.spawn(move || visit(number));
        }
    });
    let status = desk.client().status().expect("a status");
    assert_eq!(status.dies.iter().map(|die| die.visits).sum::<u64>(), 300);
    assert!(desk.machine.violations().is_empty());
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up() {
    let desk = Desk::new();
    let mut lazy = desk.raw();
    lazy.set_write_timeout(Some(Duration::from_secs(2))).expect("a limit");
    let describe = json!({ "interface": "org.barswap.Slot" });
    let call = frame("org.varlink.service.GetInterfaceDescription", &describe);
    // Until the connection is dropped, or neither side takes any more.
    while lazy.write_all(&call).is_ok() {}
    assert_eq!(desk.client().status().expect("served").dies.len(), 4);
}

#[test]
fn a_restart_finds_resident_dies_and_changes_nothing() {
    let mut desk = Desk::new();
    let mut client = desk.client();
    client.call(&api::Acquire::die("3")).expect("a lease");
    drop(client);
    for end in [End::Clean, End::Killed] {
        let writes = desk.machine.config_writes();
        let daemon = desk.daemon.take().expect("it runs");
        let ended = if end == End::Clean { daemon.stop() } else { daemon.kill() };
        assert_eq!(ended.expect("ended"), end);
        desk.start();
        let die = desk.client().status().expect("a status").dies[3].clone();
        assert_eq!((die.state, die.slot), (api::DieState::Resident, Some(0)));
        assert_eq!(desk.machine.config_writes(), writes, "a restart wrote to the machine");
    }
    let acquired = desk.client().call(&api::Acquire::die("3")).expect("a lease");
    assert_eq!(acquired.kind, api::Kind::Present);
    assert_eq!(desk.machine.survey().expect("a survey").dies.len(), 4);
}

#[test]
fn stopping_refuses_those_in_line() {
    let mut desk = Desk::new();
    let mut holder = desk.client();
    holder.call(&api::Acquire::die("0")).expect("a lease");
    let mut waiter = desk.raw();
    waiter.write_all(&frame("org.barswap.Slot.Acquire", &json!({}))).expect("sent");
    desk.until_waiting(1);
    let daemon = desk.daemon.take().expect("it runs");
    assert_eq!(daemon.stop().expect("ended"), End::Clean);
    assert_eq!(answer(&mut waiter)["error"], "org.barswap.Slot.Stopping");
    assert!(!desk.socket.exists(), "the socket was left behind");
}

#[test]
fn two_daemons_do_not_share_a_socket() {
    let desk = Desk::new();
    let error = Listener::bind(&desk.socket).expect_err("taken");
    assert!(error.to_string().contains("another slotd"), "{error}");
    assert!(desk.client().status().is_ok());
}

#[test]
fn park_gives_the_die_back_and_the_plan_told_so() {
    let desk = Desk::new();
    let mut client = desk.client();
    client.call(&api::Acquire::die("2")).expect("a lease");
    client.call(&api::Release::default()).expect("released");
    let plan = api::Plan { verb: api::Verb::Park, die: Some("2".to_owned()) };
    let steps = client.call(&plan).expect("a plan").steps;
    let verbs: Vec<_> = steps.iter().map(|step| step.verb.as_str()).collect();
    assert_eq!(verbs, ["let_go", "unbind", "bind", "shut"]);
    client.park("2").expect("parked");
    let status = client.status().expect("a status");
    assert_eq!(status.dies[2].state, api::DieState::Parked);
    assert_eq!(status.slots[0].die, None, "the slot is shut");
    let layout = client.call(&api::Layout {}).expect("a layout");
    assert!(layout.text.contains("4 of 4 dies can be resident"), "{}", layout.text);
}

#[test]
fn with_a_slot_for_each_die_nobody_waits() {
    let desk = Desk::on("k80x1");
    let (mut one, mut other) = (desk.client(), desk.client());
    let first = one.call(&api::Acquire::die("0")).expect("a lease");
    let now = api::Acquire { wait_ms: Some(0), ..api::Acquire::die("1") };
    let second = other.call(&now).expect("a slot of its own");
    assert_ne!(first.slot, second.slot);
    for acquired in [first, second] {
        desk.machine.cpu_write(acquired.base, &[u8::try_from(acquired.die).expect("small") + 1]);
    }
    let read = |address| {
        let mut byte = [0];
        desk.machine.cpu_read(address, &mut byte);
        byte[0]
    };
    assert_eq!((read(0x8_0000_0000), read(0xC_0000_0000)), (1, 2), "both answer at once");
    assert!(desk.machine.violations().is_empty());
}
