//! The order of requests, between a host and the originator (TickerTAIP 3.4).
//!
//! A host's request goes through here before the originator sees it. If its volume has
//! `ordering=sequencer`, those are asked who give requests their places, whichever node it came to.
//! In other volumes only what a host says of its own requests at this node is heeded, in a graph
//! that the node has for itself, and no message is sent.
//!
//! - this file: requests on their way to the originator, and what became of them
//! - [`places`]: how those of volumes with a sequencer get their places
//! - [`epoch`]: the beginning of an epoch
//! - [`primary`]: a node that has the whole graph, with a *backup* (3.4.4 (1) and (2))
//! - [`peers`]: nodes that agree on places among themselves (3.4.4 (3) and (4))
//! - [`gate`]: where requests wait whose places are known, in all forms but the first
//! - [`ledger`]: what is remembered of requests that are over
//!
//! | [form](SequencerForm) | gives places | says when a request begins | hears of its end |
//! |---|---|---|---|
//! | centralized | primary | primary | primary, and from it the backup |
//! | partially centralized | primary | gate | everyone |
//! | originator-driven | peers: the originators | gate | everyone |
//! | worker-driven | peers: all nodes | gate | everyone |
//!
//! The primary is the first node of the map that takes part, the backup the second; every node
//! has all roles in it. Messages between roles of one node are not sent but handed over.

mod epoch;
mod gate;
mod ledger;
mod peers;
mod places;
mod primary;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::outbox::Outbox;
use super::{Account, Body, Claim, HostError, HostOp, NodeConfig, SequenceMessage, SequenceReport};
use crate::cluster::{ClusterMap, Volume};
use crate::order::sequencer::{Graph, Reach, SequencerForm, Step};
use crate::order::{HostId, Place, PlaceError, RequestId};
use crate::plan::Range;
use crate::units::{Nanos, NodeId, VolumeId};

use gate::{Answer, Gate};
use ledger::Ledger;
use peers::Peers;
use primary::Primary;

/// Numbers of requests that a node asks of its own originator have this bit; hosts' have not.
pub(super) const OWN: u64 = 1 << 63;

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Progress {
    /// It waits for its turn.
    Waiting,
    /// It has its turn; what it comes after is made safe.
    Flushing,
    /// The originator has it.
    Begun,
}

/// A request that has a place and is not over.
#[derive(Clone, Debug, Hash)]
struct Pending {
    number: u64,
    volume: VolumeId,
    /// Until it begins.
    op: Option<HostOp>,
    claim: Claim,
    /// Whether the sequencer knows of it, rather than this node alone.
    central: bool,
    progress: Progress,
    asked: Nanos,
}

/// A request that is over, until all who must know of it have said that they do.
#[derive(Clone, Debug, Hash)]
struct Ending {
    done: bool,
    oldest: u64,
    /// Who has not said so.
    left: BTreeSet<NodeId>,
    told: Nanos,
}

/// What this node tells at the beginning of an epoch.
#[derive(Clone, Debug, Hash)]
struct Telling {
    /// Who has not heard it.
    left: BTreeSet<NodeId>,
    originates: bool,
    told: Nanos,
}

/// The layer.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Sequencing {
    me: NodeId,
    config: NodeConfig,
    map: Arc<ClusterMap>,
    serving: bool,
    /// The host that this node is to requests without a place, and its next number.
    own: Option<HostId>,
    own_next: u64,
    pending: BTreeMap<RequestId, Pending>,
    /// By the caller's number.
    numbers: BTreeMap<u64, RequestId>,
    /// Flushes on the way to a beginning.
    flushes: BTreeMap<u64, RequestId>,
    next_flush: u64,
    unnoted: BTreeMap<RequestId, Ending>,
    /// What became of the requests that came here.
    outcomes: Ledger,
    /// The requests of volumes without a sequencer.
    local: Graph,
    /// Who keeps the graph of the others, if anyone.
    form: Option<SequencerForm>,
    primary: Primary,
    peers: Peers,
    gate: Gate,
    /// What the backup has, or what everyone is told, and what is left of an earlier epoch's roles.
    table: Ledger,
    /// Whether this node has taken requests for the graph in this epoch, or has some left of the
    /// one before.
    originates: bool,
    telling: Option<Telling>,
    /// Whether it was given a table in this epoch.
    has_table: bool,
    /// Messages between the roles of this node: hops, and the message.
    undelivered: VecDeque<(u8, SequenceMessage)>,
    begin: VecDeque<(u64, VolumeId, HostOp)>,
}

impl Sequencing {
    pub fn new(me: NodeId, config: NodeConfig) -> Sequencing {
        Sequencing {
            me,
            config,
            map: Arc::new(ClusterMap::default()),
            serving: false,
            own: None,
            own_next: 1,
            pending: BTreeMap::new(),
            numbers: BTreeMap::new(),
            flushes: BTreeMap::new(),
            next_flush: OWN,
            unnoted: BTreeMap::new(),
            outcomes: Ledger::default(),
            local: Graph::new(config.sequencer),
            form: None,
            primary: Primary::new(config.sequencer),
            peers: Peers::new(me, config.sequencer),
            gate: Gate::default(),
            table: Ledger::default(),
            originates: false,
            has_table: false,
            telling: None,
            undelivered: VecDeque::new(),
            begin: VecDeque::new(),
        }
    }

    pub fn is_busy(&self) -> bool {
        self.has_requests()
            || self.telling.is_some()
            || self.primary.is_busy()
            || self.peers.is_busy()
    }

    /// Whether there is any request that is not over.
    pub fn has_requests(&self) -> bool {
        !(self.pending.is_empty() && self.unnoted.is_empty()) || self.table.has_open()
    }

    /// What is in work, in words.
    pub fn waiting(&self) -> String {
        let (pending, unnoted) = (self.pending.len(), self.unnoted.len());
        let (primary, peers) = (self.primary.waiting(), self.peers.waiting());
        format!("{pending} with a place, {unnoted} to be noted, {primary}, {peers}")
    }

    /// A host's request without a place. Returns it if it is the originator's right away.
    pub fn host(
        &mut self,
        number: u64,
        volume: VolumeId,
        op: HostOp,
        outbox: &mut Outbox,
    ) -> Option<HostOp> {
        let found = self.map.volumes.get(&volume);
        if !found.is_some_and(|v| v.is_sequenced()) || reach_of(volume, &op).is_none() {
            return Some(op);
        }
        let place = self.own_place(outbox.now);
        self.ordered(number, volume, place, op, outbox);
        None
    }

    /// The place of a request that came without one: nothing is said of what it is to come after.
    fn own_place(&mut self, now: Nanos) -> Place {
        let oldest = |me: &Sequencing, host| {
            let own = RequestId { host, number: 0 }..;
            let oldest = me.pending.range(own).next().filter(|p| p.0.host == host);
            oldest.map_or(me.own_next, |p| p.0.number)
        };
        // One may wait for lost nodes for long, and a host gets only so far ahead of its oldest.
        let is_far = |host| self.own_next - oldest(self, host) >= self.config.sequencer.ahead / 2;
        let host = match self.own {
            Some(host) if !is_far(host) => host,
            before => {
                // The microsecond tells this life of the node from others.
                let unique = OWN | u64::from(self.me.0) << 50 | (now / 1000 % (1 << 50));
                self.own_next = 1;
                HostId(before.map_or(unique, |b| unique.max(b.0 + 1)))
            }
        };
        self.own = Some(host);
        let oldest = oldest(self, host);
        let id = RequestId { host, number: self.own_next };
        self.own_next += 1;
        Place { id, after: Vec::new(), oldest }
    }

    /// A host's request with a place.
    pub fn ordered(
        &mut self,
        number: u64,
        volume: VolumeId,
        place: Place,
        op: HostOp,
        outbox: &mut Outbox,
    ) {
        let id = place.id;
        let central = self.map.volumes.get(&volume).is_some_and(|v| v.is_sequenced());
        self.outcomes.advance(id.host, place.oldest.min(id.number), outbox.now);
        if self.pending.contains_key(&id) || self.outcomes.is_over(id) {
            outbox.reply(number, Err(PlaceError::Reused(id).into()));
            return;
        }
        let mut place = place;
        if !self.config.keeps_explicit_order() {
            place.after.clear();
        }
        let claim = Claim { reach: reach_of(volume, &op), place };
        let (progress, asked) = (Progress::Waiting, outbox.now);
        let pending = Pending { number, volume, op: Some(op), claim, central, progress, asked };
        self.numbers.insert(number, id);
        self.pending.insert(id, pending);
        if central {
            self.originates = true;
            self.issue(id, outbox);
        } else {
            self.issue_here(id, outbox);
        }
    }

    /// A request of a volume without a sequencer takes its place among those of its host.
    fn issue_here(&mut self, id: RequestId, outbox: &mut Outbox) {
        let place = self.pending[&id].claim.place.clone();
        let foreign = place.after.iter().find(|d| d.host != id.host);
        let taken = match foreign {
            Some(other) => {
                self.local.abort(outbox.now, id);
                Err(PlaceError::NotOrdered(*other))
            }
            None => self.local.issue(outbox.now, &place, None),
        };
        if let Err(why) = taken {
            self.refuse(id, why, outbox);
        }
        self.follow_here(outbox);
    }

    /// Does what follows in this node's own graph.
    fn follow_here(&mut self, outbox: &mut Outbox) {
        for step in self.local.take_steps() {
            match step {
                Step::Begin(id) => self.begin(id),
                Step::Refuse(id, why) => self.refuse(id, why, outbox),
                Step::Resolved(_) | Step::Arrived(_) => {}
            }
        }
    }

    /// A request has its turn.
    fn begin(&mut self, id: RequestId) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        if pending.progress != Progress::Waiting {
            return;
        }
        let writes = pending.op.as_ref().is_some_and(changes);
        let loose = |v: &&Arc<Volume>| !v.policy.is_journaled();
        // Without journal what has been answered may yet be lost in a power cut, and what comes
        // after it must not be there without it.
        if let Some(volume) = self.map.volumes.values().find(loose)
            && writes
            && !pending.claim.place.after.is_empty()
        {
            pending.progress = Progress::Flushing;
            self.flushes.insert(self.next_flush, id);
            self.begin.push_back((self.next_flush, volume.id, HostOp::Flush));
            self.next_flush += 1;
            return;
        }
        self.hand_over(id);
    }

    fn hand_over(&mut self, id: RequestId) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.progress = Progress::Begun;
        let op = pending.op.take().expect("it has not begun");
        self.begin.push_back((pending.number, pending.volume, op));
    }

    /// The next request that is the originator's.
    pub fn next_begun(&mut self) -> Option<(u64, VolumeId, HostOp)> {
        self.begin.pop_front()
    }

    /// A request that waits is aborted.
    fn refuse(&mut self, id: RequestId, why: PlaceError, outbox: &mut Outbox) {
        let waits = |p: &&Pending| p.progress == Progress::Waiting;
        let Some(pending) = self.pending.get(&id).filter(waits) else { return };
        let others = matches!(why, PlaceError::Reused(_)) && !self.peers.owns(id);
        outbox.reply(pending.number, Err(why.into()));
        let pending = self.pending.remove(&id).expect("just seen");
        self.numbers.remove(&pending.number);
        // The name is another's: what becomes of that one is not for this node to say.
        if pending.central && !others {
            self.finish(id, pending.claim.place.oldest, false, outbox);
        } else {
            self.gate.remove(id);
        }
    }

    /// The originator has answered.
    pub fn answered(&mut self, number: u64, result: &Result<(), HostError>, outbox: &mut Outbox) {
        if let Some(id) = self.flushes.remove(&number) {
            match result {
                Ok(()) => self.hand_over(id),
                Err(error) => self.fail(id, error.clone(), outbox),
            }
            return;
        }
        let Some(id) = self.numbers.remove(&number) else { return };
        let pending = self.pending.remove(&id).expect("its number is known");
        self.over(&pending, result.is_ok(), outbox);
    }

    /// A request that has not begun cannot.
    fn fail(&mut self, id: RequestId, error: HostError, outbox: &mut Outbox) {
        let Some(pending) = self.pending.remove(&id) else { return };
        self.numbers.remove(&pending.number);
        outbox.reply(pending.number, Err(error));
        self.over(&pending, false, outbox);
    }

    /// The host of a request is gone. Says whether the request had not begun, and is aborted.
    pub fn gone(&mut self, number: u64, outbox: &mut Outbox) -> bool {
        let Some(id) = self.numbers.get(&number).copied() else { return false };
        let begun = self.pending[&id].progress == Progress::Begun;
        if !begun {
            self.fail(id, HostError::Gone, outbox);
        }
        !begun
    }

    /// A request is over.
    fn over(&mut self, pending: &Pending, done: bool, outbox: &mut Outbox) {
        let place = &pending.claim.place;
        if pending.central {
            return self.finish(place.id, place.oldest, done, outbox);
        }
        if done {
            self.local.complete(outbox.now, place.id);
        } else {
            self.local.abort(outbox.now, place.id);
        }
        self.follow_here(outbox);
    }

    /// Hands over what waits in this node. Returns whether there was anything.
    pub fn run(&mut self, outbox: &mut Outbox) -> bool {
        let mut worked = false;
        while let Some((hops, message)) = self.undelivered.pop_front() {
            worked = true;
            outbox.hops = hops;
            self.message(self.me, message, outbox);
        }
        outbox.hops = 0;
        worked
    }

    fn send(&mut self, to: NodeId, message: SequenceMessage, outbox: &mut Outbox) {
        if to == self.me {
            self.undelivered.push_back((outbox.hops, message));
        } else {
            outbox.send(to, Body::Sequence(message));
        }
    }

    /// Nothing may be said until the next epoch.
    pub fn freeze(&mut self) {
        self.serving = false;
    }

    /// Looks for what has waited too long.
    pub fn tick(&mut self, outbox: &mut Outbox) {
        let (now, patience) = (outbox.now, self.config.patience);
        let late = |asked: Nanos| now.saturating_sub(asked) >= patience;
        if self.telling.as_ref().is_some_and(|t| late(t.told)) {
            self.tell(outbox);
        }
        let waits = |p: &(&RequestId, &mut Pending)| {
            p.1.central && p.1.progress == Progress::Waiting && late(p.1.asked)
        };
        let mut again = Vec::new();
        for (id, pending) in self.pending.iter_mut().filter(waits) {
            pending.asked = now;
            again.push(*id);
        }
        for id in again {
            if self.pending.contains_key(&id) {
                self.issue_again(id, outbox);
            }
        }
        let mut again = Vec::new();
        for (id, ending) in self.unnoted.iter_mut().filter(|u| late(u.1.told)) {
            ending.told = now;
            again.push(*id);
        }
        again.into_iter().for_each(|id| self.tell_end(id, outbox));
        self.primary.tick(now, patience);
        self.send_of_primary(outbox);
        self.peers.tick(now, patience);
        self.follow_peers(outbox);
        self.local.expire(now, |_| false);
        self.follow_here(outbox);
        self.table.expire(now, &self.config.sequencer);
        self.outcomes.expire(now, &self.config.sequencer);
    }
}

/// The node that orders requests.
pub fn primary_of(map: &ClusterMap) -> Option<NodeId> {
    map.serving().next()
}

/// The node that takes over from it first.
pub fn backup_of(map: &ClusterMap) -> Option<NodeId> {
    map.serving().nth(1)
}

/// Whether a request changes anything.
fn changes(op: &HostOp) -> bool {
    matches!(
        op,
        HostOp::Write(..)
            | HostOp::Modify { .. }
            | HostOp::Accept(_)
            | HostOp::WriteZeroes(_)
            | HostOp::Trim(_)
    )
}

/// What a request touches. A flush touches nothing: it makes safe what was answered before it,
/// and what it names.
fn reach_of(volume: VolumeId, op: &HostOp) -> Option<Reach> {
    let range = match op {
        HostOp::Write(offset, data) | HostOp::Modify { offset, data, .. } => {
            Range { offset: *offset, len: data.len() as u64 }
        }
        HostOp::Read(r) | HostOp::WriteZeroes(r) | HostOp::Accept(r) => *r,
        HostOp::Trim(r) | HostOp::Holes(r) | HostOp::Changed(r, _) => *r,
        HostOp::Flush | HostOp::Refresh(_) | HostOp::Lost(_) | HostOp::Exposed(_) => return None,
        HostOp::Scrub { .. } => return None,
    };
    // One that ends past the last byte that there can be is refused by the originator.
    let len = range.len.min(u64::MAX - range.offset);
    Some(Reach { volume, range: Range { len, ..range }, writes: changes(op) })
}

#[cfg(test)]
mod drawn_tests;
#[cfg(test)]
mod tests;
