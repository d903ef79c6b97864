//! die-check against a stand-in for NVIDIA's driver: a `libcuda.so.1` made of `tests/standin`, which runs
//! the kernels' own sources on the host and notes every call.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod slotd;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use tempfile::TempDir;

/// The dies that a stand-in has unless a test says otherwise.
pub(crate) const DIES: &str = "0000:03:00.0,0000:04:00.0";

/// The stand-in library, built once a test process.
pub(crate) fn libcuda() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let made = target.join(format!("libcuda.{}.so.1", std::process::id()));
        let built = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"])
            .args(["-shared", "-fPIC", "-pthread", "-x", "c"])
            .arg("-I")
            .arg(here.join("tests/standin"))
            .args(
                ["libcuda.c", "dies.c", "kernels.c"]
                    .map(|file| here.join("tests/standin").join(file)),
            )
            .arg("-o")
            .arg(&made)
            .arg("-lm")
            .status()
            .expect("a C compiler");
        assert!(built.success(), "the stand-in does not compile");
        // Whole or not at all, for test processes beside this one.
        let library = target.join("libcuda.so.1");
        fs::rename(made, &library).expect("the folder is ours");
        library
    })
}

/// A machine with the stand-in driver.
pub(crate) struct Bench {
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Bench {
    /// Two dies, no faults.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let bench = Self { folder, variables: vec![("STANDIN_DIES", DIES.to_owned())] };
        for bdf in DIES.split(',') {
            let gpu = bench.root().join("proc/driver/nvidia/gpus").join(bdf);
            fs::create_dir_all(&gpu).expect("a folder");
            let unused = "GPU UUID: \t GPU-????????-????-????-????-????????????\n";
            fs::write(gpu.join("information"), unused).expect("a file");
        }
        bench
    }

    /// With a fault on every die.
    pub(crate) fn faulty(fault: &str) -> Self {
        Self::new().with("STANDIN_FAULT", fault)
    }

    /// With one more variable.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// With these dies in place of the two.
    pub(crate) fn with_dies(mut self, dies: &[String]) -> Self {
        let gpus = self.root().join("proc/driver/nvidia/gpus");
        fs::remove_dir_all(&gpus).expect("it was there");
        for die in dies {
            fs::create_dir_all(gpus.join(die)).expect("a folder");
        }
        self.variables.retain(|(name, _)| *name != "STANDIN_DIES");
        self.with("STANDIN_DIES", &dies.join(","))
    }

    /// Where /proc is.
    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// die-check with these words, on the stand-in.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_die-check"));
        command
            .args(words)
            .arg("--libcuda")
            .arg(libcuda())
            .arg("--root")
            .arg(self.root())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .env("STANDIN_LOG", self.log())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        Ended(self.command(words).output().expect("die-check runs"))
    }

    /// What the stand-in has noted so far.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().map(Note::parse).collect()
    }

    /// Waits for a note; inotify tells of every change of the file that notes go to.
    pub(crate) fn await_note(&self, what: &str) {
        use rustix::{
            event::{PollFd, PollFlags, Timespec, poll},
            fs::inotify::{CreateFlags, WatchFlags, add_watch, init},
        };
        let watch = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("inotify");
        add_watch(&watch, self.root(), WatchFlags::MODIFY | WatchFlags::CREATE).expect("a watch");
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        while !self.notes().iter().any(|note| note.what == what) {
            let ready =
                poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&limit)).expect("poll");
            assert!(ready > 0, "no {what:?} in a minute: {:?}", self.notes());
            let mut events = [0_u8; 4096];
            while rustix::io::read(&watch, &mut events).is_ok_and(|n| n > 0) {}
        }
    }

    /// What was noted about one die, without the launches' ends, which come when they come.
    pub(crate) fn course(&self, die: i32) -> Vec<String> {
        let notes = self.notes();
        let of_die = notes.into_iter().filter(|note| note.die == die);
        of_die.map(|note| note.what).filter(|what| !what.starts_with("ended")).collect()
    }
}

/// One call that the stand-in noted.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) pid: i32,
    pub(crate) ns: u64,
    pub(crate) die: i32,
    pub(crate) what: String,
}

impl Note {
    fn parse(line: &str) -> Self {
        let mut words = line.splitn(4, ' ');
        let mut next = || words.next().expect("four fields");
        Self {
            pid: next().parse().expect("a pid"),
            ns: next().parse().expect("a time"),
            die: next().parse().expect("a die"),
            what: next().to_owned(),
        }
    }
}

/// How die-check ended.
pub(crate) struct Ended(pub(crate) Output);

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.0.status.code()
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// The report of a run with --json.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.0.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.out(), self.err()))
    }

    /// Ended with this code and these words on standard error.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, words: &str) {
        assert_eq!(self.code(), Some(code), "{}{}", self.out(), self.err());
        assert!(self.err().contains(words), "{:?} is not in {:?}", words, self.err());
    }
}

/// The order of a normal end: nothing is taken from under a kernel, the context goes last and is empty.
#[track_caller]
pub(crate) fn assert_taken_down(course: &[String]) {
    let last = course.iter().rposition(|what| what.starts_with("launch"));
    let end: Vec<&str> =
        course[last.expect("something ran") + 1..].iter().map(String::as_str).collect();
    let stages =
        ["synchronised", "free", "module down", "stream down", "context down, 0 bytes left"];
    let place = |stage: &str| end.iter().rposition(|&what| what == stage);
    let first = |stage: &str| end.iter().position(|&what| what == stage);
    assert_eq!(end.last(), stages.last(), "{end:?}");
    assert!(first("synchronised") < first("free"), "{end:?}");
    assert!(place("free") < first("stream down"), "{end:?}");
    assert!(place("module down") < first("stream down"), "{end:?}");
    assert!(first("module down").is_some() && first("stream down").is_some(), "{end:?}");
}
