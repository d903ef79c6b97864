//! The tree of bridges and dies, how accesses find their way, and a judge who looks on.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    time::Duration,
};

use super::bridge;
use crate::{
    AddressRange, Bdf,
    model::{Bar0Write, ConfigSpace, ConfigWrite, Die, SparseVram, reg},
};

const MOST_TRACED: usize = 1 << 18;
const MOST_VIOLATIONS: usize = 1024;
const PAGE: u64 = 4096;
const BUS_RESET: u32 = 1 << 6;

/// Something that must never happen, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two functions claimed one address at one time.
    TwoClaims {
        /// When.
        at: Duration,
        /// An address.
        address: u64,
        /// Who claimed it.
        functions: Vec<Bdf>,
    },
    /// Somebody wrote a BAR0 register.
    Bar0Write {
        /// Of which die.
        die: Bdf,
        /// What.
        write: Bar0Write,
    },
    /// A config write to a function that answers all-ones.
    WriteToAbsent {
        /// What.
        write: ConfigWrite,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoClaims { at, address, functions } => {
                let names: Vec<_> = functions.iter().map(Bdf::to_string).collect();
                write!(f, "{at:?}: {address:#x} is claimed by {} at once", names.join(" and "))
            }
            Self::Bar0Write { die, write } => {
                write!(f, "{:?}: BAR0 of {die} was written at {:#x}", write.at, write.offset)
            }
            Self::WriteToAbsent { write } => {
                write!(f, "{:?}: {} answers all-ones and was written", write.at, write.bdf)
            }
        }
    }
}

#[derive(Debug)]
pub(super) enum Node {
    Bridge(ConfigSpace),
    Die(Box<Die<SparseVram>>),
}

impl Node {
    pub(super) fn config(&self) -> &ConfigSpace {
        match self {
            Self::Bridge(config) => config,
            Self::Die(die) => die.config(),
        }
    }
}

/// Who answers an address.
#[derive(Debug, Default)]
struct Claims {
    /// Dies, with BAR and offset in it.
    dies: Vec<(Bdf, u8, u64)>,
    /// Functions that claim it beside each other.
    beside: Vec<Bdf>,
}

#[derive(Debug)]
pub(super) struct Hardware {
    pub(super) nodes: BTreeMap<Bdf, Node>,
    pub(super) parents: BTreeMap<Bdf, Bdf>,
    /// Functions that fell off the bus.
    pub(super) gone: BTreeSet<Bdf>,
    trace: VecDeque<ConfigWrite>,
    traced: u64,
    /// Where the judge looks after every write.
    watched: Vec<AddressRange>,
    in_conflict: BTreeSet<u64>,
    violations: Vec<Violation>,
}

impl Hardware {
    pub(super) fn new(
        nodes: BTreeMap<Bdf, Node>,
        parents: BTreeMap<Bdf, Bdf>,
        watched: Vec<AddressRange>,
    ) -> Self {
        Self {
            nodes,
            parents,
            gone: BTreeSet::new(),
            trace: VecDeque::new(),
            traced: 0,
            watched,
            in_conflict: BTreeSet::new(),
            violations: Vec::new(),
        }
    }

    /// Bridges above `bdf`, lowest first.
    pub(super) fn above(&self, bdf: Bdf) -> impl Iterator<Item = Bdf> {
        std::iter::successors(self.parents.get(&bdf), |at| self.parents.get(at)).copied()
    }

    /// Config space of `bdf`; `None` where it answers all-ones: it is gone, or a bridge above is,
    /// or one above does not lead to its bus.
    pub(super) fn config(&self, bdf: Bdf) -> Option<&ConfigSpace> {
        let leads = |at: Bdf| {
            let buses = self.nodes[&at].config().u32(reg::PRIMARY_BUS).to_le_bytes();
            !self.gone.contains(&at) && (buses[1]..=buses[2]).contains(&bdf.bus())
        };
        if self.gone.contains(&bdf) || !self.above(bdf).all(leads) {
            return None;
        }
        self.nodes.get(&bdf).map(Node::config)
    }

    /// Whether the prefetchable window of `bridge` forwards all of `range`.
    pub(super) fn forwards(&self, bridge: Bdf, range: AddressRange) -> bool {
        let window = self.config(bridge).and_then(|c| bridge::prefetchable(c).open_range());
        window.is_some_and(|window| window.contains(range))
    }

    /// The address in BAR `index` of a die; `None` where it answers all-ones.
    pub(super) fn bar_address(&self, die: Bdf, index: u8) -> Option<u64> {
        self.config(die)?;
        match self.nodes.get(&die)? {
            Node::Die(die) => die.bar_address(index),
            Node::Bridge(_) => None,
        }
    }

    /// The die at `bdf`, past config space.
    pub(super) fn die_mut(&mut self, bdf: Bdf) -> Option<&mut Die<SparseVram>> {
        match self.nodes.get_mut(&bdf)? {
            Node::Die(die) => Some(die),
            Node::Bridge(_) => None,
        }
    }

    /// Writes config space: `size` bytes of `value`. Everybody's writes come through here.
    pub(super) fn config_write(
        &mut self,
        at: Duration,
        bdf: Bdf,
        offset: u16,
        size: u8,
        value: u32,
    ) {
        let write = ConfigWrite { at, bdf, offset, size, value };
        if self.trace.len() == MOST_TRACED {
            self.trace.pop_front();
        }
        self.trace.push_back(write);
        self.traced += 1;
        if self.config(bdf).is_none() {
            self.violate(Violation::WriteToAbsent { write });
            return;
        }
        let data = &value.to_le_bytes()[..usize::from(size.min(4))];
        match self.nodes.get_mut(&bdf) {
            Some(Node::Die(die)) => die.config_write(offset, data),
            Some(Node::Bridge(config)) => {
                let before = u32::from(config.u16(reg::BRIDGE_CONTROL));
                config.write(offset, data);
                let after = u32::from(config.u16(reg::BRIDGE_CONTROL));
                if after & !before & BUS_RESET != 0 {
                    self.reset_below(bdf);
                }
            }
            None => {}
        }
        self.judge(at);
    }

    fn reset_below(&mut self, bridge: Bdf) {
        let below: Vec<Bdf> =
            self.nodes.keys().copied().filter(|at| self.above(*at).any(|b| b == bridge)).collect();
        for bdf in below {
            match self.nodes.get_mut(&bdf) {
                Some(Node::Die(die)) => die.bus_reset(),
                Some(Node::Bridge(config)) => config.reset(),
                None => {}
            }
        }
    }

    fn claims(&self, address: u64) -> Claims {
        let mut claims = Claims::default();
        self.claims_on(0, address, &mut claims);
        claims
    }

    fn claims_on(&self, bus: u8, address: u64, claims: &mut Claims) {
        let on_bus = self.nodes.iter().filter(|(at, _)| at.bus() == bus && !self.gone.contains(at));
        let mut here = Vec::new();
        for (at, node) in on_bus {
            match node {
                Node::Bridge(config) if bridge::claims(config, address) => {
                    here.push(*at);
                    let secondary = config.u32(reg::PRIMARY_BUS).to_le_bytes()[1];
                    if secondary > bus {
                        self.claims_on(secondary, address, claims);
                    }
                }
                Node::Die(die) => {
                    if let Some((bar, offset)) = die.decode(address) {
                        here.push(*at);
                        claims.dies.push((*at, bar, offset));
                    }
                }
                Node::Bridge(_) => {}
            }
        }
        if here.len() > 1 {
            claims.beside.extend(here);
        }
    }

    /// The die that `address` reaches, with BAR and offset. A conflict reaches nobody.
    pub(super) fn route(&self, address: u64) -> Option<(Bdf, u8, u64)> {
        let claims = self.claims(address);
        claims.beside.is_empty().then(|| claims.dies.first().copied()).flatten()
    }

    fn judge(&mut self, at: Duration) {
        let places: Vec<u64> = self.watched.iter().flat_map(|r| [r.base(), r.last()]).collect();
        for address in places {
            self.judge_at(at, address);
        }
    }

    /// Notes a conflict at `address` once, until it is over.
    fn judge_at(&mut self, at: Duration, address: u64) {
        let functions = self.claims(address).beside;
        if functions.is_empty() {
            self.in_conflict.remove(&address);
        } else if self.in_conflict.insert(address) {
            self.violate(Violation::TwoClaims { at, address, functions });
        }
    }

    pub(super) fn violate(&mut self, violation: Violation) {
        tracing::error!(%violation, "the simulated machine was mistreated");
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(violation);
        }
    }

    /// What the processor reads at `address`.
    pub(super) fn read(&mut self, at: Duration, address: u64, data: &mut [u8]) {
        for (address, piece) in pages(address, data.len()) {
            let part = &mut data[piece];
            part.fill(0xff);
            let Some((die, bar, offset)) = self.routed(at, address) else { continue };
            if let Some(die) = self.die_mut(die) {
                let read = die.bar_read(bar, offset, part, at);
                read.expect("sparse memory fails past its end only, and the BAR is as large");
            }
        }
    }

    /// What the processor writes at `address`.
    pub(super) fn write(&mut self, at: Duration, address: u64, data: &[u8]) {
        for (address, piece) in pages(address, data.len()) {
            let Some((bdf, bar, offset)) = self.routed(at, address) else { continue };
            let Some(die) = self.die_mut(bdf) else { continue };
            let written = die.bar_write(bar, offset, &data[piece], at);
            written.expect("sparse memory fails past its end only, and the BAR is as large");
            for write in die.take_bar0_writes() {
                self.violate(Violation::Bar0Write { die: bdf, write });
            }
        }
    }

    fn routed(&mut self, at: Duration, address: u64) -> Option<(Bdf, u8, u64)> {
        self.judge_at(at, address);
        self.route(address)
    }

    pub(super) fn traced(&self) -> u64 {
        self.traced
    }

    /// Writes number `from` and later, as far back as is kept.
    pub(super) fn trace(&self, from: u64) -> Vec<ConfigWrite> {
        let first = self.traced - self.trace.len() as u64;
        let skip = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        self.trace.iter().skip(skip).copied().collect()
    }

    /// A power cycle forgets no violation.
    pub(super) fn keep_violations(&mut self, before: &Self) {
        self.violations.splice(0..0, before.violations.iter().cloned());
    }

    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

/// Splits an access at borders of 4 KiB; the end of 64 bits ends it.
fn pages(address: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = address.checked_add(done as u64)?;
        let room = usize::try_from(PAGE - at % PAGE).expect("a page at most");
        let piece = done..len.min(done + room);
        done = piece.end;
        Some((at, piece))
    })
}
