//! Descriptors, time, and the core between them.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, ErrorKind, Read},
    os::{fd::AsFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use rustix::event::{Timespec, epoll};
use tracing::{debug, warn};
use vfio_park::sim::Simulator;

use super::{
    call::{self, Call},
    conn::{self, Conn, Lost},
    dispatch::{self, Target},
    frame::TooMuch,
    listen::Listener,
    simulated::{self, Outcome},
};
use crate::{
    core::{Caller, ConnId, Core, Effect, Event, Request},
    executor::{Executor, Finished},
};

const LISTENER: u64 = 0;
const WAKE: u64 = 1;
const CONTROL: u64 = 2;
/// Connections are numbered from here.
const FIRST_CONN: u64 = 16;
/// How long operations under way are waited for in the end.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How long clients have to read their last answers, once nothing is under way.
const READ_LIMIT: Duration = Duration::from_secs(2);
/// How long the listener stays out of the loop if no client leaves.
const RETRY: Duration = Duration::from_secs(1);

/// What the loop is made of.
pub struct Parts {
    /// The state machine.
    pub core: Core,
    /// Who carries its operations out.
    pub executor: Executor,
    /// Where clients come in.
    pub listener: Listener,
    /// Served as `org.barswap.Sim`, where there is one.
    pub simulator: Option<Simulator>,
    /// A byte `k` ends the loop at once, any other byte the clean way.
    pub control: UnixStream,
}

/// How the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything was answered and has come to rest.
    Clean,
    /// An operation was still under way when patience ended.
    Hanging,
    /// At once, as asked for.
    Killed,
}

/// What one thing led to, and is done after it instead of within it: clients decide how long such a
/// chain gets, and must not decide how deep the stack does.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Take up the calls that lie behind one that was answered.
    Calls(ConnId),
    /// Tell the core that a client is gone.
    Gone(ConnId),
}

/// The loop.
pub struct EventLoop {
    parts: Parts,
    epoll: std::os::fd::OwnedFd,
    conns: HashMap<ConnId, Conn>,
    next_conn: u64,
    started: Instant,
    /// How many clients there may be.
    room: usize,
    /// Since when the listener is out of the loop, for want of descriptors.
    full: Option<Instant>,
    stopping: Option<Instant>,
    /// Since when nothing is under way any more, once it is stopping.
    at_rest: Option<Instant>,
    killed: bool,
    effects: Vec<Effect>,
    next: VecDeque<Next>,
}

impl EventLoop {
    /// Ready to run.
    pub fn new(parts: Parts) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        parts.control.set_nonblocking(true)?;
        let new = Self {
            epoll,
            conns: HashMap::new(),
            next_conn: FIRST_CONN,
            started: Instant::now(),
            room: conn::room(),
            full: None,
            stopping: None,
            at_rest: None,
            killed: false,
            effects: Vec::new(),
            next: VecDeque::new(),
            parts,
        };
        new.watch(new.parts.listener.socket(), LISTENER)?;
        new.watch(new.parts.executor.wake_fd(), WAKE)?;
        new.watch(&new.parts.control, CONTROL)?;
        Ok(new)
    }

    fn watch(&self, fd: impl AsFd, number: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(number);
        Ok(epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)?)
    }

    /// Serves until told to stop.
    pub fn run(mut self) -> io::Result<End> {
        let mut ready = Vec::with_capacity(64);
        loop {
            if let Some(end) = self.end() {
                if end != End::Clean {
                    // Its thread may never come back: it must not be waited for.
                    self.parts.executor.abandon();
                }
                if end == End::Hanging {
                    std::mem::forget(self.parts.executor);
                }
                return Ok(end);
            }
            let limit = self.patience();
            ready.clear();
            let space = rustix::buffer::spare_capacity(&mut ready);
            match epoll::wait(&self.epoll, space, limit.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => (),
                Err(error) => return Err(error.into()),
            }
            for event in &ready {
                let event: &epoll::Event = event;
                match event.data.u64() {
                    LISTENER => self.accept(),
                    WAKE => self.finished(),
                    CONTROL => self.control(),
                    number => self.serve(ConnId(number), event.flags),
                }
                self.follow_up();
            }
            self.tick();
            self.follow_up();
        }
    }

    /// Whether it is over.
    fn end(&mut self) -> Option<End> {
        if self.killed {
            return Some(End::Killed);
        }
        let since = self.stopping?;
        if !self.parts.core.at_rest() {
            return (since.elapsed() > STOP_LIMIT).then_some(End::Hanging);
        }
        let at_rest = *self.at_rest.get_or_insert_with(Instant::now);
        let read = self.conns.values().all(|conn| conn.frames.outgoing().is_empty());
        (read || at_rest.elapsed() > READ_LIMIT).then_some(End::Clean)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long nothing needs doing.
    fn patience(&self) -> Option<Timespec> {
        let core = self.parts.core.next_deadline().map(|at| at.saturating_sub(self.now()));
        let left = |limit: Duration, since: Instant| limit.saturating_sub(since.elapsed());
        let retry = self.full.map(|since| left(RETRY, since));
        let stop = self.stopping.map(|since| left(STOP_LIMIT, since));
        let read = self.at_rest.map(|since| left(READ_LIMIT, since));
        // A millisecond more, so that what is due then is due indeed.
        let limit =
            core.into_iter().chain(retry).chain(read.or(stop)).min()? + Duration::from_millis(1);
        Timespec::try_from(limit).ok()
    }

    fn tick(&mut self) {
        if self.parts.core.next_deadline().is_some_and(|at| at <= self.now()) {
            self.handle(Event::Tick);
        }
        if self.full.is_some_and(|since| since.elapsed() >= RETRY) {
            self.reopen();
        }
    }

    /// Does what the last event led to, until that leads to nothing more.
    fn follow_up(&mut self) {
        while let Some(next) = self.next.pop_front() {
            match next {
                Next::Calls(id) => self.calls(id),
                Next::Gone(id) => self.handle(Event::Disconnect(id)),
            }
        }
    }

    /// Feeds the core, and carries out what it wants done.
    fn handle(&mut self, event: Event) {
        let now = self.now();
        let mut effects = std::mem::take(&mut self.effects);
        self.parts.core.handle(now, event, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Reply { conn, reply } => self.answer(conn, &dispatch::encode(&reply)),
                Effect::Start { id, plan } => self.parts.executor.run(id, plan),
                Effect::Look => self.parts.executor.look(),
            }
        }
        self.effects = effects;
    }

    fn finished(&mut self) {
        for finished in self.parts.executor.finished() {
            match finished {
                Finished::Event(event) => self.handle(event),
                Finished::Layout(number, plan) => {
                    let answer = match plan {
                        Ok(plan) => {
                            let text = plan.to_string();
                            let plan = serde_json::to_value(&plan).unwrap_or_default();
                            call::answer(&slotd_client::api::LayoutReply { text, plan })
                        }
                        Err(reason) => call::refusal(&unread(reason)),
                    };
                    self.answer(ConnId(number), &answer);
                }
            }
        }
    }

    fn control(&mut self) {
        let mut bytes = [0; 64];
        let count = (&self.parts.control).read(&mut bytes).unwrap_or_default();
        if bytes[..count].contains(&b'k') {
            self.killed = true;
        } else if self.stopping.is_none() {
            self.stopping = Some(Instant::now());
            self.full = None;
            let _ = epoll::delete(&self.epoll, self.parts.listener.socket());
            self.handle(Event::Stop);
        }
    }

    fn accept(&mut self) {
        while self.stopping.is_none() {
            if self.conns.len() >= self.room {
                return self.shut_out("as many as there are descriptors for");
            }
            match self.parts.listener.socket().accept() {
                Ok((stream, _)) => {
                    if let Err(error) = self.admit(stream) {
                        warn!(%error, "a client could not be let in");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => (),
                Err(error) => return self.shut_out(&error.to_string()),
            }
        }
    }

    /// A listener that stays ready would keep us spinning: takes it out of the loop.
    fn shut_out(&mut self, reason: &str) {
        warn!(clients = self.conns.len(), reason, "no more clients for now");
        let _ = epoll::delete(&self.epoll, self.parts.listener.socket());
        self.full = Some(Instant::now());
    }

    /// Takes the listener back into the loop, or tries again later.
    fn reopen(&mut self) {
        let free = self.conns.len() < self.room;
        if free && self.watch(self.parts.listener.socket(), LISTENER).is_ok() {
            self.full = None;
        } else {
            self.full = Some(Instant::now());
        }
    }

    fn admit(&mut self, stream: UnixStream) -> io::Result<()> {
        let id = ConnId(self.next_conn);
        self.next_conn += 1;
        let conn = Conn::new(stream, id)?;
        self.watch(&conn.stream, id.0)?;
        self.conns.insert(id, conn);
        Ok(())
    }

    fn serve(&mut self, id: ConnId, flags: epoll::EventFlags) {
        if flags.contains(epoll::EventFlags::OUT) {
            self.flush(id);
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
        {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            match conn.read() {
                Ok(true) => self.calls(id),
                Ok(false) => (),
                Err(reason) => self.lose(id, reason),
            }
        }
    }

    /// Takes up calls, one at a time: the next one waits for the answer to the one before.
    fn calls(&mut self, id: ConnId) {
        while let Some(conn) = self.conns.get_mut(&id) {
            if conn.calling.is_some() {
                return;
            }
            let Some(frame) = conn.frames.next() else { return };
            let caller = conn.caller;
            let Ok(call) = serde_json::from_slice::<Call<'_>>(&frame) else {
                return self.lose(id, "it sent something that is no call");
            };
            conn.calling = Some(call.oneway);
            match dispatch::dispatch(&call, self.parts.simulator.is_some()) {
                Target::Core(request) => self.handle(Event::Request { caller, request }),
                Target::Layout => self.parts.executor.layout(id.0),
                Target::Sim(call) => self.simulate(caller, call),
                Target::Answered(answer) => self.put(id, &answer),
            }
        }
    }

    fn simulate(&mut self, caller: Caller, call: dispatch::SimCall) {
        let Some(machine) = &self.parts.simulator else { return };
        match simulated::run(machine, call, self.parts.core.unused()) {
            Outcome::Answered(answer) => self.put(caller.conn, &answer),
            Outcome::LookAgain => self.handle(Event::Request { caller, request: Request::Look }),
        }
    }

    /// An answer that may have come later: calls behind it are taken up.
    fn answer(&mut self, id: ConnId, frame: &[u8]) {
        self.put(id, frame);
        self.next.push_back(Next::Calls(id));
    }

    /// Queues an answer and writes what can be written.
    fn put(&mut self, id: ConnId, frame: &[u8]) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let oneway = conn.calling.take().unwrap_or(false);
        if oneway {
            return;
        }
        match conn.frames.answer(frame) {
            Ok(()) => self.flush(id),
            Err(TooMuch) => self.lose(id, "it does not read its answers"),
        }
    }

    fn flush(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Err(reason) = conn.flush() {
            return self.lose(id, reason);
        }
        let wants_write = !conn.frames.outgoing().is_empty();
        if wants_write != conn.wants_write {
            conn.wants_write = wants_write;
            let out = if wants_write { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(id.0);
            let _ = epoll::modify(&self.epoll, &conn.stream, data, epoll::EventFlags::IN | out);
        }
    }

    /// A client is gone, or has to go.
    fn lose(&mut self, id: ConnId, reason: Lost) {
        let Some(conn) = self.conns.remove(&id) else { return };
        debug!(conn = id.0, pid = conn.caller.pid, reason, "lost a client");
        drop(conn);
        if self.full.is_some() {
            self.reopen();
        }
        self.next.push_back(Next::Gone(id));
    }
}

fn unread(reason: String) -> slotd_client::api::Refusal {
    let (die, step) = (None, "read the machine".to_owned());
    slotd_client::api::Refusal::OperationFailed { die, step, reason, undone: true, lease: None }
}
