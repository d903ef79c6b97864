//! slotd on its simulator, lending the dies that the stand-in driver has.

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use slotd_client::{
    Client,
    api::{DieStatus, SlotStatus, StatusReply},
};

use super::Bench;

/// The daemon, built beside the program under test; built now where only this crate's tests were.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let path = Path::new(env!("CARGO_BIN_EXE_die-check")).with_file_name("slotd");
        if !path.exists() {
            let cargo = env::var_os("CARGO").expect("cargo runs the tests");
            let build = Command::new(cargo)
                .args(["build", "--quiet", "--package", "slotd", "--bin", "slotd"])
                .status();
            assert!(build.expect("cargo starts").success(), "slotd does not build");
        }
        path
    })
}

/// A running slotd.
pub(crate) struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    /// Starts it, and comes back when it listens.
    pub(crate) fn start(bench: &Bench) -> Self {
        let socket = bench.root().join("slotd.sock");
        let child = Command::new(binary())
            .args(["--sim", "k80x16", "--socket"])
            .arg(&socket)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("slotd starts");
        let mut daemon = Self { child, socket };
        daemon.await_socket();
        daemon
    }

    /// slotd says so when it listens; its words are read on, so that it never waits for a reader.
    fn await_socket(&mut self) {
        let mut words = BufReader::new(self.child.stderr.take().expect("piped"));
        let mut said = String::new();
        while Client::connect_to(&self.socket).is_err() {
            let read = words.read_line(&mut said).expect("text");
            assert!(read > 0, "slotd ended: {said}");
        }
        std::thread::spawn(move || std::io::copy(&mut words, &mut std::io::sink()));
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect_to(&self.socket).expect("slotd listens")
    }

    pub(crate) fn status(&self) -> StatusReply {
        self.client().status().expect("slotd answers")
    }

    pub(crate) fn slot(&self) -> SlotStatus {
        self.status().slots.remove(0)
    }

    pub(crate) fn die(&self, number: u16) -> DieStatus {
        self.status().dies.into_iter().find(|die| die.die == number).expect("that die")
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is there");
        self.child.wait().expect("reaped");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
