//! Sequencers without a primary: nodes agree on each request's place among themselves (TickerTAIP
//! 3.4.4 (3) and (4)).
//!
//! Who agrees differs: with the originator-driven form the nodes that have taken requests, with
//! the worker-driven form all that have disks, and whoever else has taken requests.
//!
//! - Every one of them knows which requests have come and what they name; what a request
//!   touches, only its own node needs to know.
//! - A request whose names all have places gets one from its own node: the next number of a
//!   logical clock (Lamport, CACM 21(7), 1978). The others are asked, and each answers which of its
//!   own requests overlap with it and have earlier places. From then on it gives no earlier place
//!   any more. So when all have answered, the request's node knows all that goes first.
//! - Anyone may refuse a request that cannot have its place; then it is aborted.
//!
//! At a new epoch everyone tells everyone what it knows, and nobody asks or answers anything
//! before it has heard from all. Then whatever has not begun is asked for anew.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::Ledger;
use super::{Claim, SequenceMessage, SequenceReport};
use crate::order::sequencer::{Graph, Limits, SequencerForm, State, Step};
use crate::order::{PlaceError, RequestId};
use crate::units::{Nanos, NodeId};

/// A place's lowest bits are the number of the node that gives it.
const NODE_BITS: u32 = 12;
/// Places before this are of requests that had begun before the epoch.
const FIRST: u64 = 1 << 40;
/// Messages that came before all had told, at most.
const EARLY: usize = 65_536;

#[derive(Clone, Debug, Hash)]
enum Stage {
    /// There is a primary, or no sequencer.
    Idle,
    /// It has yet to hear from these.
    Gathering { left: BTreeSet<NodeId>, ledger: Ledger, claims: Vec<(NodeId, Claim, bool)> },
    /// It gives and agrees to places.
    Serving,
}

/// Whether this node is one of those that agree.
#[derive(Clone, Debug, Hash)]
enum Membership {
    No,
    /// It has yet to hear from these that they ask it.
    Joining {
        left: BTreeSet<NodeId>,
        asked: Nanos,
    },
    Yes,
}

/// A request of this node that is not over.
#[derive(Clone, Debug, Hash)]
struct Own {
    claim: Claim,
    /// 0 if it has no place yet.
    rank: u64,
}

/// What this node's own requests must know of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PeerNotice {
    /// These were asked about a request's place.
    Asked(RequestId, u64, BTreeSet<NodeId>),
    /// It is aborted.
    Refused(RequestId, PlaceError),
    /// It is time to say which requests have come.
    Ready,
    /// This is what was over when the epoch began.
    Learned(SequenceReport),
}

/// This node among those that agree.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Peers {
    me: NodeId,
    limits: Limits,
    stage: Stage,
    membership: Membership,
    /// Those that agree on places.
    members: BTreeSet<NodeId>,
    /// All nodes that take part.
    all: BTreeSet<NodeId>,
    clock: u64,
    graph: Graph,
    /// Whose the requests are that are not over.
    owners: BTreeMap<RequestId, NodeId>,
    own: BTreeMap<RequestId, Own>,
    /// Requests that it refused and whose originators have not said that they know.
    refused: BTreeMap<RequestId, (NodeId, PlaceError)>,
    early: Vec<(NodeId, SequenceMessage)>,
    out: Vec<(NodeId, SequenceMessage)>,
    notices: Vec<PeerNotice>,
}

impl Peers {
    pub fn new(me: NodeId, limits: Limits) -> Peers {
        Peers {
            me,
            limits,
            stage: Stage::Idle,
            membership: Membership::No,
            members: BTreeSet::new(),
            all: BTreeSet::new(),
            clock: FIRST >> NODE_BITS,
            graph: Graph::placed_by_owners(limits),
            owners: BTreeMap::new(),
            own: BTreeMap::new(),
            refused: BTreeMap::new(),
            early: Vec::new(),
            out: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// A new epoch begins with these nodes, of which those in `serving` have disks.
    pub fn begin(
        &mut self,
        form: SequencerForm,
        all: BTreeSet<NodeId>,
        serving: impl Iterator<Item = NodeId>,
    ) {
        *self = Peers::new(self.me, self.limits);
        if form == SequencerForm::WorkerDriven {
            self.members = serving.collect();
        }
        let left = all.clone();
        self.stage = Stage::Gathering { left, ledger: Ledger::default(), claims: Vec::new() };
        self.all = all;
    }

    /// Nobody agrees on anything.
    pub fn retire(&mut self) {
        *self = Peers::new(self.me, self.limits);
    }

    /// What is to be sent, in order.
    pub fn take_out(&mut self) -> Vec<(NodeId, SequenceMessage)> {
        std::mem::take(&mut self.out)
    }

    /// What this node's own requests must know of, in order.
    pub fn take_notices(&mut self) -> Vec<PeerNotice> {
        std::mem::take(&mut self.notices)
    }

    pub fn is_busy(&self) -> bool {
        match self.stage {
            Stage::Idle => false,
            Stage::Gathering { .. } => true,
            Stage::Serving => {
                let joins = matches!(self.membership, Membership::Joining { .. });
                joins || !(self.owners.is_empty() && self.refused.is_empty())
            }
        }
    }

    /// What it waits for, in words.
    pub fn waiting(&self) -> String {
        format!(
            "{} open here, {} refused and unacknowledged",
            self.owners.len(),
            self.refused.len()
        )
    }

    /// The requests that are not over as far as it knows, and their originators. What is over it
    /// has handed on as it heard of it.
    pub fn open(&self) -> impl Iterator<Item = (RequestId, NodeId)> + '_ {
        self.owners.iter().map(|(id, owner)| (*id, *owner))
    }

    /// A message to this node as one of those that agree.
    pub fn message(&mut self, now: Nanos, from: NodeId, message: SequenceMessage) {
        match message {
            SequenceMessage::Tell { report, originates } => {
                self.on_tell(now, from, report, originates);
            }
            other if !matches!(self.stage, Stage::Serving) => {
                let waits = !matches!(self.stage, Stage::Idle) && self.early.len() < EARLY;
                if waits && !self.early.contains(&(from, other.clone())) {
                    self.early.push((from, other));
                }
            }
            SequenceMessage::Issue { claim, rank } => self.on_issue(now, from, claim, rank),
            SequenceMessage::Finished { id, oldest, done } => {
                self.on_finished(now, from, id, oldest, done);
            }
            SequenceMessage::Join => self.on_join(from),
            SequenceMessage::Joined { claims, clock } => self.on_joined(now, from, claims, clock),
            _ => {}
        }
    }

    fn on_tell(&mut self, now: Nanos, from: NodeId, report: SequenceReport, originates: bool) {
        if matches!(self.stage, Stage::Idle) {
            return;
        }
        self.out.push((from, SequenceMessage::Told));
        let Stage::Gathering { left, ledger, claims } = &mut self.stage else { return };
        if !left.remove(&from) {
            return;
        }
        if originates {
            self.members.insert(from);
        }
        ledger.merge(&report, now);
        claims.extend(report.claims.into_iter().map(|(claim, begun)| (from, claim, begun)));
        if left.is_empty() {
            let (ledger, claims) = (std::mem::take(ledger), std::mem::take(claims));
            self.rebuild(now, ledger, claims);
        }
    }

    /// All have told.
    fn rebuild(&mut self, now: Nanos, mut ledger: Ledger, claims: Vec<(NodeId, Claim, bool)>) {
        let claimed: BTreeSet<RequestId> = claims.iter().map(|c| c.1.place.id).collect();
        // Those whose nodes are gone: nobody can say whether they will happen.
        let open: Vec<RequestId> = ledger.unfinished().map(|u| u.0).collect();
        for id in open.into_iter().filter(|id| !claimed.contains(id)) {
            ledger.close(id, false, now);
        }
        ledger.forget_open();
        ledger.hand_to(&mut self.graph, now);
        self.notices.push(PeerNotice::Learned(ledger.report()));
        for (owner, claim, _) in claims.into_iter().filter(|c| c.2) {
            let id = claim.place.id;
            let own = owner == self.me;
            self.graph.adopt_begun(now, id, claim.reach.filter(|_| own));
            self.owners.insert(id, owner);
            if let Some(rank) = self.graph.rank(id).filter(|_| own) {
                self.own.insert(id, Own { claim, rank });
            }
        }
        self.stage = Stage::Serving;
        if self.members.contains(&self.me) {
            self.membership = Membership::Yes;
        }
        self.notices.push(PeerNotice::Ready);
        for (from, message) in std::mem::take(&mut self.early) {
            self.message(now, from, message);
        }
        self.follow(now);
    }

    /// A host's request has come to this node. If it cannot be one of those that agree at once, it will
    /// say when it is.
    pub fn come(&mut self, now: Nanos, claim: &Claim) {
        if !matches!(self.stage, Stage::Serving) {
            return;
        }
        match self.membership {
            Membership::Yes => self.take(now, claim),
            Membership::Joining { .. } => {}
            Membership::No => {
                self.members.insert(self.me);
                let left: BTreeSet<NodeId> = self.others(&self.all);
                self.out.extend(left.iter().map(|n| (*n, SequenceMessage::Join)));
                self.membership = Membership::Joining { left, asked: now };
                self.settle_in();
            }
        }
    }

    fn others(&self, nodes: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        nodes.iter().copied().filter(|n| *n != self.me).collect()
    }

    fn take(&mut self, now: Nanos, claim: &Claim) {
        let id = claim.place.id;
        if self.own.contains_key(&id) {
            return;
        }
        if let Err(why) = self.graph.issue(now, &claim.place, claim.reach) {
            self.notices.push(PeerNotice::Refused(id, why));
            return self.follow(now);
        }
        self.own.insert(id, Own { claim: claim.clone(), rank: 0 });
        self.owners.insert(id, self.me);
        self.follow(now);
        if self.own.get(&id).is_some_and(|o| o.rank == 0) {
            // It waits for one that has no place yet; the others must know that it has come.
            let asked = self.others(&self.members);
            self.ask(id, &asked);
            self.notices.push(PeerNotice::Asked(id, 0, asked));
        }
    }

    /// Whether a request of this node is known to have come.
    pub fn owns(&self, id: RequestId) -> bool {
        self.own.contains_key(&id)
    }

    /// Asks some once more.
    pub fn ask_again(&mut self, id: RequestId, unheard: impl Iterator<Item = NodeId>) {
        self.ask(id, &unheard.filter(|n| *n != self.me).collect());
    }

    fn ask(&mut self, id: RequestId, asked: &BTreeSet<NodeId>) {
        let Some(Own { claim, rank }) = self.own.get(&id) else { return };
        let message = SequenceMessage::Issue { claim: claim.clone(), rank: *rank };
        self.out.extend(asked.iter().map(|n| (*n, message.clone())));
    }

    /// All that a request of this node names have places: it gets one.
    fn give_place(&mut self, now: Nanos, id: RequestId) {
        let Some(own) = self.own.get_mut(&id).filter(|o| o.rank == 0) else { return };
        self.clock += 1;
        let rank = self.clock << NODE_BITS | u64::from(self.me.0);
        own.rank = rank;
        self.graph.stand(now, id, rank);
        let asked = self.others(&self.members);
        self.ask(id, &asked);
        let all = asked.into_iter().chain([self.me]).collect();
        self.notices.push(PeerNotice::Asked(id, rank, all));
        let (after, behind) = self.graph.waits_of(id);
        self.out.push((self.me, SequenceMessage::Placed { id, rank, after, behind }));
    }

    /// Does what follows in the graph. What becomes of others' requests their nodes see for
    /// themselves.
    fn follow(&mut self, now: Nanos) {
        loop {
            let steps = self.graph.take_steps();
            if steps.is_empty() {
                return;
            }
            for step in steps {
                match step {
                    Step::Arrived(id) => self.give_place(now, id),
                    Step::Refuse(id, why) if self.own.contains_key(&id) => {
                        self.notices.push(PeerNotice::Refused(id, why));
                    }
                    Step::Refuse(..) | Step::Resolved(_) | Step::Begin(_) => {}
                }
            }
        }
    }

    fn on_issue(&mut self, now: Nanos, from: NodeId, claim: Claim, rank: u64) {
        let id = claim.place.id;
        self.clock = self.clock.max(rank >> NODE_BITS);
        if self.owners.get(&id) != Some(&from)
            && let Err(why) = self.learn(now, from, &claim)
        {
            self.out.push((from, SequenceMessage::Refuse { id, why }));
            return self.follow(now);
        }
        let mut behind = Vec::new();
        if rank != 0 {
            self.graph.stand(now, id, rank);
            let reach = claim.reach.as_ref();
            behind = reach.map_or_else(Vec::new, |r| self.graph.in_the_way(r, rank));
        }
        let after = Vec::new();
        self.out.push((from, SequenceMessage::Placed { id, rank, after, behind }));
        self.follow(now);
    }

    /// Another node's request has come.
    fn learn(&mut self, now: Nanos, from: NodeId, claim: &Claim) -> Result<(), PlaceError> {
        let id = claim.place.id;
        if let Some((_, why)) = self.refused.get(&id).filter(|r| r.0 == from) {
            return Err(why.clone());
        }
        match self.graph.issue(now, &claim.place, None) {
            Ok(()) => {
                self.owners.insert(id, from);
                Ok(())
            }
            // The name is another's, or was given up: that will be said again if it is asked again.
            Err(why @ (PlaceError::Reused(_) | PlaceError::TooLate(_))) => Err(why),
            Err(why) => {
                self.refused.insert(id, (from, why.clone()));
                Err(why)
            }
        }
    }

    fn on_finished(&mut self, now: Nanos, from: NodeId, id: RequestId, oldest: u64, done: bool) {
        self.out.push((from, SequenceMessage::Noted { id }));
        if self.owners.get(&id).is_some_and(|owner| *owner != from) {
            return;
        }
        self.owners.remove(&id);
        self.refused.remove(&id);
        if from == self.me {
            self.own.remove(&id);
        }
        self.graph.advance(id.host, oldest.min(id.number), now);
        self.graph.adopt_outcome(now, id, done);
        self.follow(now);
    }

    fn on_join(&mut self, from: NodeId) {
        self.members.insert(from);
        let claims = self.own.values().map(|o| (o.claim.clone(), o.rank)).collect();
        self.out.push((from, SequenceMessage::Joined { claims, clock: self.clock }));
    }

    fn on_joined(&mut self, now: Nanos, from: NodeId, claims: Vec<(Claim, u64)>, clock: u64) {
        let Membership::Joining { left, .. } = &mut self.membership else { return };
        if !left.remove(&from) {
            return;
        }
        self.clock = self.clock.max(clock);
        for (claim, rank) in claims {
            let id = claim.place.id;
            let known = |s: State| s != State::NotIssued;
            if self.graph.is_past(id) || self.graph.state(id).is_some_and(known) {
                continue;
            }
            let taken = match rank {
                0 => self.graph.issue(now, &claim.place, None).is_ok(),
                _ => {
                    self.graph.adopt_begun(now, id, None);
                    true
                }
            };
            if taken {
                self.owners.insert(id, from);
            }
        }
        self.settle_in();
        self.follow(now);
    }

    /// Once all ask this node, its own requests can come.
    fn settle_in(&mut self) {
        if matches!(&self.membership, Membership::Joining { left, .. } if left.is_empty()) {
            self.membership = Membership::Yes;
            self.notices.push(PeerNotice::Ready);
        }
    }

    /// Looks for what has waited too long.
    pub fn tick(&mut self, now: Nanos, patience: Nanos) {
        if !matches!(self.stage, Stage::Serving) {
            return;
        }
        if let Membership::Joining { left, asked } = &mut self.membership
            && now.saturating_sub(*asked) >= patience
        {
            *asked = now;
            self.out.extend(left.iter().map(|n| (*n, SequenceMessage::Join)));
        }
        let refused = &self.refused;
        self.graph.expire(now, |id| refused.contains_key(&id));
        self.follow(now);
    }
}
