//! Hosts that ask again for what they have not heard the end of, when their node has stopped: of that node when it
//! is back, as a host that is its own controller does, or of another, as one that names its requests does.
//!
//! In some runs all power goes meanwhile, and a disk comes back as an older copy of itself. Then no node remembers their
//! requests, and that disk has lost all that it knew: the others tell whether a request has happened.

use std::collections::BTreeSet;

use fastrand::Rng;
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::order::{Again, Asker, HostId, Origin, RequestId};
use weft_core::units::{Epoch, MILLIS, Nanos, NodeId, SECTOR, Timestamp};

use super::super::history::{BLOCK, Did, Op};
use super::super::options::{Latest, Options};
use super::damage::Damage;
use super::faults::Fault;
use super::hosts::Client;
use super::{CLIENT, Run, VOLUME};

/// How far clocks may be apart at first.
const APART: Nanos = 5 * MILLIS;

/// Writes that a worker remembers if that is more than there are.
const MANY: usize = 1 << 17;

/// The draws of a run in which hosts ask again.
pub(super) struct Repeating {
    rng: Rng,
    /// Writes that workers remember.
    pub remembered: usize,
    /// For when all power goes, in some runs.
    blackouts: Option<Rng>,
}

impl Repeating {
    /// In half of the runs.
    pub fn draw(seed: u64, options: &Options, has_processes: bool) -> Option<Repeating> {
        let mut rng = Rng::with_seed(seed ^ 0x000a_6a14_0e9e);
        if !options.repeats || !rng.bool() {
            return None;
        }
        let remembered = [MANY, MANY, 16, 2][rng.usize(0..4)];
        let mut blackouts = Rng::with_seed(seed ^ 0x000b_1ac0_0075);
        let may = options.latest >= Latest::Blackouts && !has_processes;
        let blackouts = (may && blackouts.u8(0..3) == 0).then_some(blackouts);
        Some(Repeating { rng, remembered, blackouts })
    }
}

/// What is asked for again if need be.
#[derive(Clone, Debug)]
pub(super) struct Repeats {
    op: HostOp,
    request: RequestId,
    /// No attempt was made before.
    since: Timestamp,
    /// The clock of a node that was asked later was behind that.
    is_put_back: bool,
    /// All attempts were made in this epoch or before.
    epoch: Epoch,
    /// How often it was asked for again.
    times: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its node works on it.
    Asked,
    /// Its node has stopped: it is to be asked for again.
    Stopped,
    /// Its host has left the node; it is asked for again elsewhere when that one is out.
    Leaves,
}

impl Client {
    /// Whether the request in work was asked for more than once.
    pub fn has_repeated(&self) -> bool {
        self.repeats.as_ref().is_some_and(|r| r.times > 0)
    }

    /// Whether a node that was asked later was behind with its clock, or did not know the time yet. Writes that had ended
    /// before may then count as later ones.
    fn knows_no_time(&self) -> bool {
        self.repeats.as_ref().is_some_and(|r| r.is_put_back)
    }
}

impl Run {
    /// Takes down what a host asks for, if it may ask again. Says what to tell the node.
    pub(super) fn takes_down(&mut self, n: usize, did: &Did, op: &HostOp) -> Option<Origin> {
        if !did.writes() {
            return None;
        }
        let origin = self.origin_permitted(n);
        if self.repeating.is_none() {
            return origin;
        }
        let since = self.reading(self.clients[n].node);
        let number = self.clients[n].asked;
        let request = RequestId { host: HostId(n as u64 + 1), number };
        let op = op.clone();
        let (is_put_back, epoch, times, state) = (false, 0, 0, State::Asked);
        let repeats = Repeats { op, request, since, is_put_back, epoch, times, state };
        self.clients[n].repeats = Some(repeats);
        let asker = Asker { id: request, oldest: number };
        origin.or(Some(Origin { asker, again: None, permitted: 0 }))
    }

    /// No timestamp that a node issues from now on is earlier.
    fn reading(&mut self, node: NodeId) -> Timestamp {
        self.world.reading(node)
    }

    /// The node of a host has stopped. Whether the host will ask again for what it has in work: of the same node or of the
    /// next.
    pub(super) fn will_repeat(&mut self, n: usize) -> bool {
        let epoch = self.world.map().epoch;
        let (node, next) = (self.clients[n].node, self.next_node(self.clients[n].node));
        let client = &mut self.clients[n];
        let (Some(Repeating { rng, .. }), Some(repeats)) =
            (&mut self.repeating, &mut client.repeats)
        else {
            return false;
        };
        let open = client.op.is_some();
        let has_left = repeats.state == State::Leaves;
        if !open || (!has_left && rng.u8(0..4) == 0) {
            return false;
        }
        (repeats.state, repeats.epoch) = (State::Stopped, repeats.epoch.max(epoch));
        self.clients[n].node = if rng.bool() { node } else { next };
        self.world.tell(|| format!("host {n} is going to ask again"));
        self.world.call_after(MILLIS, CLIENT | n as u64);
        true
    }

    /// A host has waited for long. Whether it leaves a node that is stopped for now, and asks another for the same when the
    /// first is out.
    pub(super) fn will_leave(&mut self, n: usize) -> bool {
        let (node, epoch) = (self.clients[n].node, self.world.map().epoch);
        if !self.world.is_paused(node) {
            return self.clients[n].has_repeated();
        }
        let Some(repeats) = &mut self.clients[n].repeats else { return false };
        if repeats.state == State::Asked {
            (repeats.state, repeats.epoch) = (State::Leaves, repeats.epoch.max(epoch));
            self.world.call_after(MILLIS, CLIENT | n as u64);
        }
        true
    }

    /// A host that has something in work may be about to ask again.
    pub(super) fn ask_again(&mut self, n: usize) {
        let (node, next) = (self.clients[n].node, self.next_node(self.clients[n].node));
        let client = &mut self.clients[n];
        let Some(repeats) = &mut client.repeats else { return };
        match repeats.state {
            State::Asked => return,
            State::Leaves if self.world.map().is_up(node) => {
                return self.world.call_after(MILLIS, CLIENT | n as u64);
            }
            State::Leaves => (repeats.state, client.node) = (State::Stopped, next),
            State::Stopped => {}
        }
        let node = self.clients[n].node;
        if !self.world.is_open(node) {
            let waits = self.repeating.as_mut().is_some_and(|r| r.rng.u8(0..4) > 0);
            if !waits || !self.world.belongs(node) {
                self.clients[n].node = self.next_node(node);
            }
            return self.world.call_after(MILLIS, CLIENT | n as u64);
        }
        let Some(permitted) = self.permitted_again(n) else { return self.gives_up(n) };
        let now = self.reading(node);
        let client = &mut self.clients[n];
        let Some(repeats) = &mut client.repeats else { return };
        repeats.state = State::Asked;
        repeats.times += 1;
        repeats.is_put_back |= now < repeats.since;
        repeats.since = repeats.since.min(now);
        let Repeats { request, since, epoch, .. } = *repeats;
        let op = repeats.op.clone();
        client.asked = client.op.map_or(0, u64::from) | repeats.times << 32;
        let asker = Asker { id: request, oldest: request.number };
        let origin = Origin { asker, again: Some(Again { since, epoch }), permitted };
        let asked = client.asked;
        self.again.0 += 1;
        self.world.tell(|| format!("host {n} asks {node} again: request {}", request.number));
        self.world.host_by_name(node, asked, VOLUME, origin, op);
    }

    /// Whether a host may be told that nobody knows what became of its request: those who were to remember it may have
    /// forgotten, and another write may have changed parity of it since. With deferred parity one disk alone may know.
    pub(super) fn may_stay_unknown(&self, n: usize, pieces: &std::ops::Range<u32>) -> bool {
        let excused = self.exposes
            || self.beyond
            || self.lacks_a_disk()
            || self.clients[n].knows_no_time()
            // Endpoints ask again also where hosts do not.
            || self.world.remembered_writes() < MANY;
        let own = || pieces.clone().filter_map(|piece| self.ops.get(&piece));
        let meets = |op: &Op, own: &Op| {
            op.end.is_none_or(|end| end + APART >= own.start)
                && !self.parity_of(&op.blocks).is_disjoint(&self.parity_of(&own.blocks))
        };
        let mut others = self.ops.values().filter(|op| op.did.writes() && !pieces.contains(&op.id));
        let asked_after = self.may_be_unknown(n) || self.may_be_in_doubt(n);
        asked_after && (excused || others.any(|op| own().any(|own| meets(op, own))))
    }

    /// Whether a disk of the volume is away, perhaps with the only content that tells: parity that was rebuilt since has later
    /// versions.
    fn lacks_a_disk(&self) -> bool {
        let map = self.world.map();
        let volume = map.volumes.get(&VOLUME);
        volume.is_some_and(|v| v.nodes().iter().any(|node| !map.is_up(*node)))
    }

    /// All power goes at some time in a phase, and the disk of this node is replaced by a copy of itself.
    pub(super) fn draw_blackout(
        &mut self,
        span: Nanos,
        victim: Option<NodeId>,
    ) -> Vec<(Nanos, Fault)> {
        let f = self.options.faults;
        let may = f.crashes && f.power && f.damage && self.volume.policy.is_journaled();
        let rng = self.repeating.as_mut().and_then(|r| r.blackouts.as_mut());
        let (Some(rng), Some(victim)) = (rng.filter(|_| may), victim) else { return Vec::new() };
        let copied = rng.u64(0..span / 2);
        let at = copied + rng.u64(0..span / 2);
        let copy = (copied, Fault::Damage(victim, Damage::Copy));
        vec![copy, (at, Fault::Power(Some(victim)))]
    }

    /// The sectors of parity that cover blocks: stripe, and sector of the unit.
    fn parity_of(&self, blocks: &std::ops::Range<u64>) -> BTreeSet<(u64, u64)> {
        let g = &self.volume.geometry;
        let place = |at: u64| (at / g.stripe_bytes(), at % g.unit / SECTOR);
        blocks.clone().map(|block| place(block * BLOCK)).collect()
    }

    /// The answer of a node that does not take part is none: the host asks another.
    pub(super) fn asks_elsewhere(
        &mut self,
        n: usize,
        result: &Result<HostData, HostError>,
    ) -> bool {
        if !matches!(result, Err(HostError::NotServing)) || !self.clients[n].has_repeated() {
            return false;
        }
        self.clients[n].node = self.next_node(self.clients[n].node);
        if let Some(repeats) = &mut self.clients[n].repeats {
            repeats.state = State::Stopped;
        }
        self.world.call_after(MILLIS, CLIENT | n as u64);
        true
    }
}
