//! Routers, and connections between them that carry words in order, or nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use weft_core::units::{MILLIS, Nanos, NodeId};

use crate::{Bug, Circuit, Output, Router, Why, Word};

/// Processes by number, of which some pairs have connections.
pub struct Net {
    pub routers: Vec<Router>,
    pub now: Nanos,
    /// Connections that there are, lower number first.
    links: BTreeSet<(u16, u16)>,
    /// Directions that carry nothing.
    cut: BTreeSet<(u16, u16)>,
    queue: VecDeque<(u16, u16, Word)>,
    /// What came at ends.
    pub came: BTreeMap<(u16, Circuit), Vec<u8>>,
    pub opened: Vec<(u16, Circuit, NodeId)>,
    pub closed: Vec<(u16, Circuit, Why)>,
    pub words: usize,
    bug: Option<Bug>,
}

impl Net {
    pub fn new(count: u16, hosts: &[u16], bug: Option<Bug>) -> Net {
        let router = |n: u16| {
            let mut r = Router::new(NodeId(n), u64::from(n) + 100, !hosts.contains(&n), bug);
            (0..count).filter(|o| *o != n).for_each(|o| r.list(NodeId(o)));
            r
        };
        Net {
            routers: (0..count).map(router).collect(),
            now: 0,
            links: BTreeSet::new(),
            cut: BTreeSet::new(),
            queue: VecDeque::new(),
            came: BTreeMap::new(),
            opened: Vec::new(),
            closed: Vec::new(),
            words: 0,
            bug,
        }
    }

    /// A process starts again, in another life; nothing is connected to it.
    pub fn restart(&mut self, n: u16, life: u64) {
        for o in 0..self.routers.len() as u16 {
            self.disconnect(n, o);
        }
        let mut router = Router::new(NodeId(n), life, true, self.bug);
        let others = (0..self.routers.len() as u16).filter(|o| *o != n);
        others.for_each(|o| router.list(NodeId(o)));
        self.routers[usize::from(n)] = router;
    }

    pub fn connect(&mut self, a: u16, b: u16, lives: (u64, u64)) {
        self.links.insert((a.min(b), a.max(b)));
        for (at, peer, life) in [(a, b, lives.1), (b, a, lives.0)] {
            let now = self.now;
            self.act(at, |r, out| r.connected(now, NodeId(peer), life, out));
        }
    }

    pub fn connect_usual(&mut self, a: u16, b: u16) {
        self.connect(a, b, (u64::from(a) + 100, u64::from(b) + 100));
    }

    pub fn disconnect(&mut self, a: u16, b: u16) {
        if self.links.remove(&(a.min(b), a.max(b))) {
            self.queue.retain(|(f, t, _)| (*f.min(t), *f.max(t)) != (a.min(b), a.max(b)));
            self.act(a, |r, out| r.disconnected(NodeId(b), out));
            self.act(b, |r, out| r.disconnected(NodeId(a), out));
        }
    }

    pub fn cut(&mut self, from: u16, to: u16, on: bool) {
        match on {
            true => self.cut.insert((from, to)),
            false => self.cut.remove(&(from, to)),
        };
    }

    pub fn act(&mut self, at: u16, what: impl FnOnce(&mut Router, &mut Vec<Output>)) {
        let mut out = Vec::new();
        what(&mut self.routers[usize::from(at)], &mut out);
        for output in out {
            match output {
                Output::Send(to, word) => self.queue.push_back((at, to.0, word)),
                Output::Opened { circuit, from, .. } => self.opened.push((at, circuit, from)),
                Output::Came { circuit, bytes, .. } => {
                    self.came.entry((at, circuit)).or_default().extend_from_slice(&bytes);
                }
                Output::Room(_) => {}
                Output::Closed { circuit, why } => self.closed.push((at, circuit, why)),
            }
        }
    }

    /// Carries words until nobody says anything.
    pub fn settle(&mut self) {
        while let Some((from, to, word)) = self.queue.pop_front() {
            self.words += 1;
            assert!(self.words < 1_000_000, "they never fall silent");
            let carries = self.links.contains(&(from.min(to), from.max(to)));
            if !carries || self.cut.contains(&(from, to)) {
                continue;
            }
            let (kind, chunks) = word.encode();
            let word = Word::decode(kind, &Bytes::from(chunks.concat())).unwrap();
            let now = self.now;
            self.act(to, |r, out| {
                r.heard(NodeId(from));
                r.said(now, NodeId(from), word, out);
            });
        }
    }

    /// Lets so many ticks pass.
    pub fn pass(&mut self, ticks: u64) {
        for _ in 0..ticks {
            self.now += 100 * MILLIS;
            for n in 0..self.routers.len() as u16 {
                let now = self.now;
                self.act(n, |r, out| assert!(r.tick(now, out)));
            }
            self.settle();
        }
    }

    pub fn open(&mut self, from: u16, to: u16) -> Option<Circuit> {
        let mut circuit = None;
        self.act(from, |r, out| circuit = r.open(NodeId(to), out).map(|o| o.0));
        self.settle();
        circuit
    }

    pub fn send(&mut self, from: u16, circuit: Circuit, bytes: &[u8]) {
        let bytes = Bytes::copy_from_slice(bytes);
        self.act(from, |r, out| r.carry(circuit, bytes, out));
        self.settle();
    }

    /// The good connections that carry both ways.
    pub fn whole(&self) -> BTreeSet<(u16, u16)> {
        let whole =
            |(a, b): &&(u16, u16)| !self.cut.contains(&(*a, *b)) && !self.cut.contains(&(*b, *a));
        self.links.iter().filter(whole).copied().collect()
    }
}
