//! Which of our own connections are good.
//!
//! A connection is good while both ends hear one another. Each says every [`TICK`] that it is here, and
//! whether it hears the other; one that has not been heard for three ticks is bad. Silence is counted in
//! ticks and not by the clock: a process that was paused has missed nothing meanwhile. What was bad is
//! good again when it has carried for [`SETTLE`], also if another connection has come in its place.

use std::collections::{BTreeMap, BTreeSet};

use weft_core::units::{MILLIS, Nanos, NodeId};

/// How often neighbours say that they are here.
pub const TICK: Nanos = 100 * MILLIS;

/// A connection on which nothing has come in more ticks than this, one after the other, is bad.
pub const SILENT_TICKS: u32 = 3;

/// For so long a connection that was bad must carry before it is used again while there is another way.
pub const SETTLE: Nanos = 5_000 * MILLIS;

/// How a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    Bad,
    /// It was bad, and has carried since.
    Mending(Nanos),
}

/// A connection to a neighbour.
#[derive(Debug)]
struct Link {
    /// The neighbour's.
    life: u64,
    state: State,
    /// Ticks in which nothing came.
    missed: u32,
    /// The neighbour said last that it hears us.
    hears_us: bool,
    /// When the neighbour was told all link states last.
    told: Option<Nanos>,
}

impl Link {
    fn carries(&self) -> bool {
        self.missed <= SILENT_TICKS && self.hears_us
    }
}

/// All connections of a process.
#[derive(Debug)]
pub(crate) struct Links {
    tick: Nanos,
    links: BTreeMap<NodeId, Link>,
    /// The lives of neighbours whose connections were bad when they ended.
    were_bad: BTreeMap<NodeId, u64>,
}

impl Links {
    pub fn new() -> Links {
        Links { tick: TICK, links: BTreeMap::new(), were_bad: BTreeMap::new() }
    }

    pub fn pace(&mut self, tick: Nanos) {
        self.tick = tick;
    }

    pub fn connected(&mut self, now: Nanos, peer: NodeId, life: u64) {
        let was_bad = self.were_bad.remove(&peer) == Some(life);
        let before =
            self.links.get(&peer).is_some_and(|l| l.life == life && l.state != State::Good);
        let state = if was_bad || before { State::Mending(now) } else { State::Good };
        let link = Link { life, state, missed: 0, hears_us: true, told: None };
        self.links.insert(peer, link);
    }

    /// Returns whether there was a connection.
    pub fn disconnected(&mut self, peer: NodeId) -> bool {
        let Some(link) = self.links.remove(&peer) else { return false };
        if link.state != State::Good {
            self.were_bad.insert(peer, link.life);
        }
        true
    }

    pub fn forget(&mut self, peer: NodeId) {
        self.links.remove(&peer);
        self.were_bad.remove(&peer);
    }

    pub fn heard(&mut self, peer: NodeId) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.missed = 0;
        }
    }

    pub fn says(&mut self, peer: NodeId, hears_us: bool) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.hears_us = hears_us;
        }
    }

    /// Whether we hear a neighbour.
    pub fn hears(&self, peer: NodeId) -> bool {
        self.links.get(&peer).is_some_and(|l| l.missed <= SILENT_TICKS)
    }

    /// A tick has passed. Those whose connections are bad from now on.
    pub fn tick(&mut self, now: Nanos) -> Vec<NodeId> {
        let (mut broken, settle) = (Vec::new(), SETTLE / TICK * self.tick);
        for (peer, link) in &mut self.links {
            link.missed = link.missed.saturating_add(1);
            let before = link.state;
            link.state = match (link.carries(), link.state) {
                (false, _) => State::Bad,
                (true, State::Bad) => State::Mending(now),
                (true, State::Mending(since)) if now.saturating_sub(since) >= settle => State::Good,
                (true, state) => state,
            };
            if link.state == State::Bad && before != State::Bad {
                broken.push(*peer);
            }
        }
        broken
    }

    pub fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.links.keys().copied()
    }

    pub fn has(&self, peer: NodeId) -> bool {
        self.links.contains_key(&peer)
    }

    pub fn is_good(&self, peer: NodeId) -> bool {
        self.links.get(&peer).is_some_and(|l| l.state == State::Good)
    }

    /// Whether a connection carries nothing.
    pub fn is_bad(&self, peer: NodeId) -> bool {
        self.links.get(&peer).is_some_and(|l| l.state == State::Bad)
    }

    pub fn good(&self) -> BTreeSet<NodeId> {
        let good = self.links.iter().filter(|(_, l)| l.state == State::Good);
        good.map(|(peer, _)| *peer).collect()
    }

    pub fn mending(&self) -> BTreeSet<NodeId> {
        let mending = self.links.iter().filter(|(_, l)| matches!(l.state, State::Mending(_)));
        mending.map(|(peer, _)| *peer).collect()
    }

    /// Whether a neighbour that knows otherwise than we do is to be told all: not again before the last may have
    /// arrived.
    pub fn may_tell_all(&mut self, now: Nanos, peer: NodeId) -> bool {
        let again = 5 * self.tick;
        let Some(link) = self.links.get_mut(&peer) else { return false };
        let may = link.told.is_none_or(|at| now.saturating_sub(at) >= again);
        if may {
            link.told = Some(now);
        }
        may
    }
}
