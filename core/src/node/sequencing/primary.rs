//! The sequencer's primary: it has the graph, and says of each request when it begins (the centralized
//! form, TickerTAIP 3.4.4 (1)) or what it comes after (the partially centralized form, (2)).
//!
//! A request that comes is recorded at the backup before it begins, and so is that it is over
//! before its originator may forget it; in the partially centralized form originators tell
//! everyone of that themselves. At a new epoch the primary begins anew: it gathers what
//! all nodes know, rebuilds the graph, gives the backup a table, and only then lets anything
//! begin. Requests in progress stay in progress; incomplete ones whose originator is gone are
//! aborted, for nobody can say whether they will happen.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::Ledger;
use super::{Claim, SequenceMessage, SequenceReport};
use crate::order::sequencer::{Graph, Limits, SequencerForm, State, Step};
use crate::order::{PlaceError, RequestId};
use crate::units::{Nanos, NodeId};

/// A request that is not over.
#[derive(Clone, Debug, Hash)]
struct Open {
    owner: NodeId,
    oldest: u64,
    /// Whether the backup knows of it.
    recorded: bool,
    /// Whether the graph says what its originator waits to hear: that it may begin, or its place.
    ready: bool,
    asked: Nanos,
}

/// A request that is over, and the backup has not said that it knows.
#[derive(Clone, Debug, Hash)]
struct Closing {
    owner: NodeId,
    done: bool,
    asked: Nanos,
}

#[derive(Clone, Debug, Hash)]
enum Stage {
    /// Another node is the primary.
    Idle,
    /// It has yet to hear from these.
    Gathering { left: BTreeSet<NodeId>, ledger: Ledger, claims: Vec<(NodeId, Claim, bool)> },
    /// The backup has yet to take the table.
    Handing { asked: Nanos },
    /// It orders requests.
    Serving,
}

/// Messages that came before it had taken over, at most.
const EARLY: usize = 65_536;

/// The primary.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Primary {
    limits: Limits,
    form: SequencerForm,
    backup: Option<NodeId>,
    stage: Stage,
    graph: Graph,
    open: BTreeMap<RequestId, Open>,
    closing: BTreeMap<RequestId, Closing>,
    /// Requests that it refused and whose originators have not said that they know.
    unheard: BTreeMap<RequestId, (NodeId, PlaceError)>,
    /// All nodes that take part.
    all: BTreeSet<NodeId>,
    early: Vec<(NodeId, SequenceMessage)>,
    /// What is to be sent.
    out: Vec<(NodeId, SequenceMessage)>,
}

impl Primary {
    pub fn new(limits: Limits) -> Primary {
        Primary {
            limits,
            form: SequencerForm::Centralized,
            backup: None,
            stage: Stage::Idle,
            graph: Graph::new(limits),
            open: BTreeMap::new(),
            closing: BTreeMap::new(),
            unheard: BTreeMap::new(),
            all: BTreeSet::new(),
            early: Vec::new(),
            out: Vec::new(),
        }
    }

    /// A new epoch begins with these nodes, in which it is the primary.
    pub fn begin(&mut self, form: SequencerForm, all: BTreeSet<NodeId>, backup: Option<NodeId>) {
        *self = Primary::new(self.limits);
        self.form = form;
        let left = all.clone();
        self.stage = Stage::Gathering { left, ledger: Ledger::default(), claims: Vec::new() };
        (self.all, self.backup) = (all, backup);
    }

    /// Another node is the primary.
    pub fn retire(&mut self) {
        *self = Primary::new(self.limits);
    }

    /// What is to be sent, in order.
    pub fn take_out(&mut self) -> Vec<(NodeId, SequenceMessage)> {
        std::mem::take(&mut self.out)
    }

    pub fn is_busy(&self) -> bool {
        match self.stage {
            Stage::Idle => false,
            Stage::Gathering { .. } | Stage::Handing { .. } => true,
            Stage::Serving => {
                !(self.open.is_empty() && self.closing.is_empty() && self.unheard.is_empty())
            }
        }
    }

    /// What it waits for, in words.
    pub fn waiting(&self) -> String {
        format!(
            "{} open, {} to be recorded, {} refused and unacknowledged",
            self.open.len(),
            self.closing.len(),
            self.unheard.len()
        )
    }

    /// What it would tell another primary, if it has taken over itself.
    pub fn report(&self) -> Option<SequenceReport> {
        if !matches!(self.stage, Stage::Serving) {
            return None;
        }
        let open = self.open.iter().map(|(id, open)| (id, &open.owner));
        Some(Ledger::of(&self.graph, open).report())
    }

    /// A message to the primary.
    pub fn message(&mut self, now: Nanos, from: NodeId, message: SequenceMessage) {
        match message {
            SequenceMessage::Tell { report, .. } => self.on_tell(now, from, report),
            SequenceMessage::Taken => self.on_taken(now),
            other if !matches!(self.stage, Stage::Serving) => {
                let waits = !matches!(self.stage, Stage::Idle) && self.early.len() < EARLY;
                if waits && !self.early.contains(&(from, other.clone())) {
                    self.early.push((from, other));
                }
            }
            SequenceMessage::Issue { claim, .. } => self.on_issue(now, from, claim),
            SequenceMessage::Recorded { id } => self.on_recorded(id),
            SequenceMessage::Finished { id, done, .. } => self.on_finished(now, from, id, done),
            SequenceMessage::Closed { id } => self.on_closed(id),
            _ => {}
        }
    }

    fn on_tell(&mut self, now: Nanos, from: NodeId, report: SequenceReport) {
        let Stage::Gathering { left, ledger, claims } = &mut self.stage else {
            if matches!(self.stage, Stage::Serving) {
                self.out.push((from, SequenceMessage::Told));
            }
            return;
        };
        if !left.remove(&from) {
            return;
        }
        ledger.merge(&report, now);
        claims.extend(report.claims.into_iter().map(|(claim, begun)| (from, claim, begun)));
        if left.is_empty() {
            let (ledger, claims) = (std::mem::take(ledger), std::mem::take(claims));
            self.rebuild(now, &ledger, claims);
        }
    }

    /// All have told: the graph is made anew of what they know.
    fn rebuild(&mut self, now: Nanos, ledger: &Ledger, claims: Vec<(NodeId, Claim, bool)>) {
        ledger.hand_to(&mut self.graph, now);
        let (begun, waiting): (Vec<_>, Vec<_>) = claims.into_iter().partition(|c| c.2);
        for (owner, claim, _) in begun {
            let id = claim.place.id;
            self.graph.adopt_begun(now, id, claim.reach);
            self.insert_open(now, id, owner, claim.place.oldest);
        }
        let claimed: BTreeSet<RequestId> = waiting.iter().map(|c| c.1.place.id).collect();
        for (id, _) in ledger.unfinished() {
            if !claimed.contains(&id) && !self.open.contains_key(&id) {
                self.graph.adopt_outcome(now, id, false);
            }
        }
        for (owner, claim, _) in waiting {
            self.issue(now, owner, &claim);
        }
        self.stage = Stage::Handing { asked: now };
        match self.backup {
            Some(_) => self.hand_over(now),
            None => self.on_taken(now),
        }
    }

    /// Gives the backup its table.
    fn hand_over(&mut self, now: Nanos) {
        let Some(backup) = self.backup else { return };
        self.stage = Stage::Serving;
        let report = self.report().expect("it serves");
        self.stage = Stage::Handing { asked: now };
        self.out.push((backup, SequenceMessage::Take { report }));
    }

    fn on_taken(&mut self, now: Nanos) {
        if !matches!(self.stage, Stage::Handing { .. }) {
            return;
        }
        self.stage = Stage::Serving;
        self.out.extend(self.all.iter().map(|n| (*n, SequenceMessage::Told)));
        // The table had all of this.
        for id in self.closing.keys().copied().collect::<Vec<_>>() {
            self.on_closed(id);
        }
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            self.on_recorded(id);
        }
        for (from, message) in std::mem::take(&mut self.early) {
            self.message(now, from, message);
        }
    }

    fn insert_open(&mut self, now: Nanos, id: RequestId, owner: NodeId, oldest: u64) {
        let recorded = self.backup.is_none();
        self.open.insert(id, Open { owner, oldest, recorded, ready: false, asked: now });
    }

    fn on_issue(&mut self, now: Nanos, from: NodeId, claim: Claim) {
        let id = claim.place.id;
        match self.open.get(&id) {
            // It is repeated; the answer may have been lost.
            Some(open) if open.owner == from => {
                if open.ready && open.recorded {
                    self.answer(id);
                }
            }
            _ => match self.unheard.get(&id) {
                Some((owner, why)) if *owner == from => {
                    self.out.push((from, SequenceMessage::Refuse { id, why: why.clone() }));
                }
                _ => self.issue(now, from, &claim),
            },
        }
    }

    fn issue(&mut self, now: Nanos, owner: NodeId, claim: &Claim) {
        let id = claim.place.id;
        match self.graph.issue(now, &claim.place, claim.reach) {
            Ok(()) => {
                self.insert_open(now, id, owner, claim.place.oldest);
                self.record(id);
            }
            Err(why @ (PlaceError::Reused(_) | PlaceError::TooLate(_))) => {
                self.out.push((owner, SequenceMessage::Refuse { id, why }));
            }
            Err(why) => self.refuse(now, id, owner, why),
        }
        self.follow(now);
    }

    /// Has the backup record that a request has come.
    fn record(&mut self, id: RequestId) {
        let Some(backup) = self.backup.filter(|_| matches!(self.stage, Stage::Serving)) else {
            return;
        };
        let Open { owner, oldest, .. } = self.open[&id];
        self.out.push((backup, SequenceMessage::Record { id, owner, oldest }));
    }

    /// Tells an originator what it waits to hear of a request.
    fn answer(&mut self, id: RequestId) {
        let message = match self.form.tells_all() {
            false => SequenceMessage::Begin { id },
            true => {
                let (after, behind) = self.graph.waits_of(id);
                let rank = self.graph.rank(id).expect("it has its place");
                SequenceMessage::Placed { id, rank, after, behind }
            }
        };
        self.out.push((self.open[&id].owner, message));
    }

    /// A request is aborted before it has begun.
    fn refuse(&mut self, now: Nanos, id: RequestId, owner: NodeId, why: PlaceError) {
        self.out.push((owner, SequenceMessage::Refuse { id, why: why.clone() }));
        self.unheard.insert(id, (owner, why));
        self.close(now, id, owner, false);
    }

    /// Has the backup record that a request is over, unless its originator tells it.
    fn close(&mut self, now: Nanos, id: RequestId, owner: NodeId, done: bool) {
        match self.backup.filter(|_| !self.form.tells_all()) {
            Some(backup) => {
                self.closing.insert(id, Closing { owner, done, asked: now });
                if matches!(self.stage, Stage::Serving) {
                    self.out.push((backup, SequenceMessage::Close { id, done }));
                }
            }
            None => self.note(id, owner),
        }
    }

    /// Tells an originator that it need not say any more that a request is over. If that is news to the
    /// originator it will say so once more, lest the primary wait for it.
    fn note(&mut self, id: RequestId, owner: NodeId) {
        if !self.unheard.contains_key(&id) {
            self.out.push((owner, SequenceMessage::Noted { id }));
        }
    }

    /// Does what follows in the graph.
    fn follow(&mut self, now: Nanos) {
        for step in self.graph.take_steps() {
            match step {
                Step::Begin(id) if !self.form.tells_all() => self.ready(id),
                Step::Resolved(id) if self.form.tells_all() => self.ready(id),
                Step::Begin(_) | Step::Resolved(_) | Step::Arrived(_) => {}
                Step::Refuse(id, why) => {
                    let open = self.open.remove(&id).expect("it has come");
                    self.refuse(now, id, open.owner, why);
                }
            }
        }
    }

    fn ready(&mut self, id: RequestId) {
        let serves = matches!(self.stage, Stage::Serving);
        let open = self.open.get_mut(&id).expect("it has come");
        open.ready = true;
        if open.recorded && serves {
            self.answer(id);
        }
    }

    fn on_recorded(&mut self, id: RequestId) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let first = !open.recorded || self.backup.is_none();
        open.recorded = true;
        if open.ready && first {
            self.answer(id);
        }
    }

    fn on_finished(&mut self, now: Nanos, from: NodeId, id: RequestId, done: bool) {
        if self.unheard.get(&id).is_some_and(|u| u.0 == from) {
            self.unheard.remove(&id);
        }
        if self.closing.get(&id).is_some_and(|c| c.owner == from) {
            return;
        }
        match self.open.get(&id) {
            Some(open) if open.owner != from => {
                self.out.push((from, SequenceMessage::Noted { id }));
                return;
            }
            // It may be heard of before the ends of those that it came after.
            Some(_) if done => self.graph.adopt_outcome(now, id, true),
            Some(_) => self.graph.abort(now, id),
            // It came before the request itself did.
            None if self.graph.state(id).is_none_or(|s| s == State::NotIssued) => {
                self.overtaken(now, id, done);
            }
            None => {
                self.out.push((from, SequenceMessage::Noted { id }));
                return;
            }
        }
        self.open.remove(&id);
        self.close(now, id, from, done);
        self.follow(now);
    }

    /// That a request is over is heard before the request itself: it will not begin any more.
    fn overtaken(&mut self, now: Nanos, id: RequestId, done: bool) {
        match self.graph.state(id) {
            None => self.graph.adopt_outcome(now, id, done),
            Some(_) => self.graph.abort(now, id),
        }
    }

    fn on_closed(&mut self, id: RequestId) {
        if let Some(closing) = self.closing.remove(&id) {
            self.note(id, closing.owner);
        }
    }

    /// Looks for what has waited too long.
    pub fn tick(&mut self, now: Nanos, patience: Nanos) {
        let late = |asked: &Nanos| now.saturating_sub(*asked) >= patience;
        match &self.stage {
            Stage::Serving => {}
            Stage::Handing { asked } if late(asked) => return self.hand_over(now),
            _ => return,
        }
        let unrecorded = |o: &(&RequestId, &mut Open)| !o.1.recorded && late(&o.1.asked);
        let mut again = Vec::new();
        for (id, open) in self.open.iter_mut().filter(unrecorded) {
            open.asked = now;
            again.push(*id);
        }
        again.into_iter().for_each(|id| self.record(id));
        if let Some(backup) = self.backup {
            for (id, closing) in self.closing.iter_mut().filter(|c| late(&c.1.asked)) {
                closing.asked = now;
                let message = SequenceMessage::Close { id: *id, done: closing.done };
                self.out.push((backup, message));
            }
        }
        let unheard = &self.unheard;
        self.graph.expire(now, |id| unheard.contains_key(&id));
        self.follow(now);
    }
}
