//! The end of a write at the originator: acknowledged by all, given up, or, if messages were lost, asked about (see
//! [`crate::node::settle`]).

use super::*;
use crate::node::settle::waiting::{self, Decider};
use crate::order::Ordering;

impl Originator {
    /// A participant has made the outcome durable.
    pub fn on_ack(&mut self, from: NodeId, ts: Timestamp, outbox: &mut Outbox) {
        let Some(settling) = self.settling.get_mut(&ts) else {
            return self.written_alone(from, ts, outbox);
        };
        settling.left.retain(|node| *node != from);
        if !settling.left.is_empty() {
            return;
        }
        let settling = self.settling.remove(&ts).expect("just seen");
        self.settled(ts, *settling, outbox);
    }

    /// A participant that waits for no other has written its part. That is its vote too, and the answer if it has been
    /// asked.
    fn written_alone(&mut self, from: NodeId, ts: Timestamp, outbox: &mut Outbox) {
        let alone = |t: &&mut Box<RunningJob>| !t.policy.commit.is_voted();
        let Some(txn) = self.txns.get_mut(&ts).filter(alone) else { return };
        let State::Writing(w) = &mut txn.state else {
            return self.on_answer(from, ts, Standing::Committed { safe: true }, outbox);
        };
        if !w.wrote(from) {
            return;
        }
        let participants = w.participants.iter().map(|p| p.1).collect();
        let hops = w.hops_to_votes(&txn.volume.geometry);
        let txn = self.txns.remove(&ts).expect("just seen");
        unlock(ts, &txn, outbox);
        self.count_round_trips(txn.job.purpose, hops);
        let settling = Settling::new(&txn, participants, outbox.now);
        self.settled(ts, Settling { job: Some(txn.job), ..settling }, outbox);
    }

    /// All participants have made the outcome of a write durable.
    pub(super) fn settled(&mut self, ts: Timestamp, settling: Settling, outbox: &mut Outbox) {
        outbox.tell_each_other(&settling.participants);
        for node in settling.participants {
            outbox.notice(node, Notice::Release(ts));
        }
        if let Some(job) = settling.job {
            self.finish(job, Ok(HostData::Done), outbox);
        }
    }

    /// A request waits at a disk for the outcome of a write, or for a lock: it is told at once.
    pub fn on_awaited(&mut self, from: NodeId, ts: Timestamp, outbox: &mut Outbox) {
        if let Some(txn) = self.txns.get_mut(&ts) {
            txn.awaited_by.insert(from);
        } else if self.settling.get(&ts).is_some_and(|s| s.left.contains(&from)) {
            // It is queued, in transit, or lost.
            outbox.notice_at_once(from, Notice::Commit(ts));
        } else if self.map.volumes.values().any(|v| v.policy.ordering == Ordering::DeviceLocks) {
            // It has ended for this disk, or for all: a lock that is still lent there has not been given back.
            outbox.notice_at_once(from, Notice::Unlock(ts));
        }
    }

    /// Tells the participants of a write the outcomes of earlier writes of the same stripes, if these have not been
    /// sent: the write would wait for them there, and not all participants hear from this node before that.
    pub(super) fn tell_outcomes(
        &self,
        job: &Job,
        volume: &Volume,
        participants: &[(usize, NodeId)],
        outbox: &mut Outbox,
    ) {
        let stripes = job.what.stripes(volume);
        let earlier = |notice: &Notice| match notice {
            Notice::Commit(ts) => {
                self.settling.get(ts).is_some_and(|s| s.meets(job.volume, &stripes))
            }
            _ => false,
        };
        for (_, node) in participants {
            if outbox.queued(*node).iter().any(earlier) {
                outbox.hurry_to(*node);
            }
        }
    }

    /// A participant wants to forget a write: it may only if no originator here still asks about it.
    pub fn on_query(&mut self, from: NodeId, ts: Timestamp, outbox: &mut Outbox) {
        // Without votes only a participant that has written its part asks. If this node has not heard that, its message
        // was lost, and perhaps others' messages too.
        let alone = |t: &RunningJob| !t.policy.commit.is_voted();
        if self.txns.get(&ts).is_some_and(|t| alone(t) && matches!(t.state, State::Writing(_))) {
            self.inquire(ts, outbox);
        }
        let settling = self.settling.get(&ts);
        let waiting = self.txns.contains_key(&ts) || settling.is_some_and(|s| s.job.is_some());
        outbox.send(from, Body::QueryReply { ts, waiting });
    }

    /// A new map: an attempt is one of the volume that has its address space now, as it is for the workers. Nodes can have
    /// missed a snapshot's content that have missed nothing since, so both may not decide alike.
    pub(super) fn find_volume(&mut self, ts: Timestamp) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        let (id, named, space) = (txn.volume.id, txn.job.volume, txn.volume.space());
        let found = self.map.volume_in_space(id, named, space);
        let found = found.filter(|_| self.config.decides_in_its_space());
        txn.volume = found.unwrap_or_else(|| &self.map.volumes[&named]).clone();
    }

    /// Asks for the outcome of a write.
    pub(super) fn inquire(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        if let State::Writing(w) = &txn.state {
            let participants = w.participants.clone();
            // Whoever waits long enough decides with the other participants.
            txn.may_be_decided |= w.is_past_commit_point;
            txn.job.course.silent(outbox.now);
            txn.state = State::Asking(Inquiry::default(), participants);
        }
        let volume = txn.volume.clone();
        let participants = match &txn.state {
            State::Asking(_, participants) | State::GivingUp(_, participants, _) => {
                participants.clone()
            }
            State::Reading(_) | State::Writing(_) => return,
        };
        if self.awaits_holder(&self.txns[&ts], &participants) || self.map.is_asleep(&volume) {
            if !self.waits_undecided(ts, outbox.now) {
                let txn = self.txns.remove(&ts).expect("just seen");
                self.fail_for_lost(txn.job, outbox);
            }
            return;
        }
        let txn = &self.txns[&ts];
        let somebody_says = !self.map.voters(&volume, txn.extent, &participants, ts).is_empty();
        let may_be_decided = !txn.decided && txn.may_be_decided;
        if may_be_decided && !somebody_says && self.recallable(&txn.job, &txn.policy) {
            return self.recall_attempt(ts, &participants);
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        txn.may_be_decided |= somebody_says;
        let voters = voters(&self.map, &volume, txn.extent, &participants, ts);
        let (inquiry, gives_up) = match &mut txn.state {
            State::Asking(inquiry, _) => (inquiry, false),
            State::GivingUp(inquiry, ..) => (inquiry, true),
            State::Reading(_) | State::Writing(_) => return,
        };
        inquiry.asked = outbox.now;
        txn.started = outbox.now;
        if voters.is_empty() {
            let txn = self.txns.remove(&ts).expect("just seen");
            match txn.decided {
                // The participants have lost their columns, with the outcome, or are down.
                true => self.finish(txn.job, Ok(HostData::Done), outbox),
                false => self.retry(txn.job),
            }
            return;
        }
        for node in inquiry.unanswered(&voters) {
            if gives_up {
                outbox.notice(node, Notice::Abort(ts));
            }
            outbox.send(node, Body::Ask { ts });
        }
    }

    /// An attempt at a write will not happen: `from` knows nothing of it, or has dropped it; or none has, and the
    /// participants that have not prepared it are away.
    ///
    /// The job continues only when all participants have dropped the attempt. Otherwise one that has prepared it and
    /// heard nothing could be the last with a say, if those that know die, and commit it. Then the write would happen
    /// now, and again when it is retried, over later writes and reads of others.
    pub(super) fn give_up(
        &mut self,
        ts: Timestamp,
        from: Option<NodeId>,
        refusal: Option<Refusal>,
        outbox: &mut Outbox,
    ) {
        let Some(txn) = self.txns.get(&ts) else { return };
        unlock(ts, txn, outbox);
        let undone = |w: &Writing| !w.is_past_commit_point;
        if matches!(&txn.state, State::Writing(w) if undone(w)) {
            return self.call_off(ts, refusal, outbox);
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        let refusal = refusal.or(txn.refusal.take());
        let (mut inquiry, participants) = match &mut txn.state {
            State::Writing(w) => (Inquiry::default(), w.participants.clone()),
            State::Asking(inquiry, participants) => (inquiry.clone(), participants.clone()),
            State::GivingUp(..) | State::Reading(_) => return,
        };
        // In an epoch that this node does not enter the others may decide it.
        txn.may_be_decided = true;
        if let Some(from) = from {
            inquiry.answer(from, Standing::Unknown);
        }
        for (_, node) in &participants {
            outbox.notice(*node, Notice::Abort(ts));
        }
        outbox.hurry();
        let voters = voters(&self.map, &txn.volume, txn.extent, &participants, ts);
        for node in inquiry.unanswered(&voters) {
            outbox.send(node, Body::Ask { ts });
        }
        inquiry.asked = outbox.now;
        txn.started = outbox.now;
        txn.state = State::GivingUp(inquiry, participants, refusal);
        self.go_on_if_given_up(ts, outbox);
    }

    /// A late vote of a participant that has been asked answers the question: "prepared", or a refusal, after which it
    /// takes no part any more. A column that only showed its content is not asked: it may refuse the same repeated
    /// message, after all others have prepared.
    pub(super) fn voted_late(
        &mut self,
        from: NodeId,
        ts: Timestamp,
        vote: Result<(), Refusal>,
        outbox: &mut Outbox,
    ) {
        let (asking, participants) = match &self.txns[&ts].state {
            State::Asking(_, participants) => (true, participants),
            State::GivingUp(_, participants, _) => (false, participants),
            State::Reading(_) | State::Writing(_) => return,
        };
        if participants.iter().all(|p| p.1 != from) {
            return;
        }
        match vote {
            Ok(()) if asking => self.on_answer(from, ts, Standing::Prepared, outbox),
            // It has been told of the abort, and asked.
            Ok(()) => {}
            Err(refusal) if asking => self.give_up(ts, Some(from), Some(refusal), outbox),
            Err(_) => self.on_answer(from, ts, Standing::Unknown, outbox),
        }
    }

    /// Gives up an attempt that no participant can have written: none is asked.
    fn call_off(&mut self, ts: Timestamp, refusal: Option<Refusal>, outbox: &mut Outbox) {
        let txn = self.txns.remove(&ts).expect("a write in work");
        let State::Writing(w) = &txn.state else { unreachable!("a write in work") };
        w.participants.iter().for_each(|(_, node)| outbox.notice(*node, Notice::Abort(ts)));
        outbox.hurry();
        match refusal {
            Some(refusal) => self.refused(txn.job, refusal, outbox),
            None => self.retry(txn.job),
        }
    }

    /// Continues with a job whose attempt all participants have dropped.
    fn go_on_if_given_up(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get(&ts) else { return };
        let State::GivingUp(inquiry, participants, _) = &txn.state else { return };
        if !inquiry.all_know(&voters(&self.map, &txn.volume, txn.extent, participants, ts)) {
            return;
        }
        let txn = self.txns.remove(&ts).expect("just seen");
        if let What::Write(range, _) = &txn.job.what
            && !txn.policy.commit.is_voted()
            && txn.volume.geometry.is_redundant()
        {
            // Some may have written: the old content may already be new in the next attempt.
            let stripes = range.stripes(&txn.volume.geometry);
            self.repair(stripes.map(|stripe| (txn.job.volume, stripe)));
        }
        match txn.state {
            State::GivingUp(.., Some(refusal)) => self.refused(txn.job, refusal, outbox),
            _ => self.retry(txn.job),
        }
    }

    /// A participant reports the state of a write that was asked about.
    pub fn on_answer(
        &mut self,
        from: NodeId,
        ts: Timestamp,
        standing: Standing,
        outbox: &mut Outbox,
    ) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        let (inquiry, participants) = match &mut txn.state {
            State::Asking(inquiry, participants) => (inquiry, participants),
            State::GivingUp(inquiry, participants, _) => {
                inquiry.answer(from, standing);
                if !txn.policy.commit.is_voted() || !inquiry.any_committed() {
                    return self.go_on_if_given_up(ts, outbox);
                }
                // Those who dropped it have no say any more, and those who had prepared it decided without them.
                let participants = participants.clone();
                let txn = self.txns.remove(&ts).expect("just seen");
                let voters = voters(&self.map, &txn.volume, txn.extent, &participants, ts);
                return self.commit(ts, *txn, voters, outbox);
            }
            State::Reading(_) | State::Writing(_) => return,
        };
        inquiry.answer(from, standing);
        let voters = voters(&self.map, &txn.volume, txn.extent, participants, ts);
        let verdict = match txn.policy.commit.is_voted() {
            true => inquiry.verdict(&voters),
            false => inquiry.verdict_without_votes(&voters),
        };
        let (decided, participants) = (inquiry.any_committed(), participants.clone());
        let txn = &self.txns[&ts];
        let undetermined =
            self.would_lose(&txn.job, &txn.volume, &participants, &voters, txn.waits);
        // Prepared participants wait for this node, which alone knows that no host has been told of success.
        let by = Decider::Originator { undetermined };
        let waits = !txn.waits.parities.is_empty();
        match (verdict, waiting::verdict(verdict, decided, waits, by)) {
            (_, Verdict::Wait) => return,
            (Verdict::Abort, Verdict::Abort) => {
                return self.give_up(ts, Some(from), None, outbox);
            }
            (_, Verdict::Abort) => return self.give_up(ts, None, None, outbox),
            (_, Verdict::Commit) => {}
        }
        let txn = self.txns.remove(&ts).expect("just seen");
        self.commit(ts, *txn, voters, outbox);
    }

    /// A write has happened: the host is answered, and the participants are told.
    pub(super) fn commit(
        &mut self,
        ts: Timestamp,
        txn: RunningJob,
        participants: Vec<NodeId>,
        outbox: &mut Outbox,
    ) {
        unlock(ts, &txn, outbox);
        self.learn_marks(ts, &txn);
        self.accounts.happened(ts, txn.job.volume, outbox.now);
        outbox.tell_each_other(&participants);
        witnesses(&txn).into_iter().for_each(|node| outbox.tell_of(node, &participants));
        for node in &participants {
            outbox.notice(*node, Notice::Commit(ts));
        }
        txn.awaited_by.iter().for_each(|node| outbox.hurry_to(*node));
        let policy = txn.policy;
        let mut settling = Settling::new(&txn, participants, outbox.now);
        // Rebuilt content is not journalled: it is done when it is in place.
        if policy.is_journaled() && txn.job.purpose != Purpose::Rebuild {
            if txn.answers {
                self.finish(txn.job, Ok(HostData::Done), outbox);
            }
        } else {
            settling.job = Some(txn.job);
            outbox.hurry();
        }
        self.settling.insert(ts, Box::new(settling));
    }
}

/// The nodes with the parities that a write relies on, which take no part in it: they must know the positions of the
/// participants' disks. Otherwise only the originator might know them.
fn witnesses(txn: &RunningJob) -> Vec<NodeId> {
    let (volume, g) = (&txn.volume, &txn.volume.geometry);
    let (Some(_), Some(extent)) = (txn.waits.marked_since, volume.extents.get(txn.extent)) else {
        return Vec::new();
    };
    let stripe = txn.job.what.first_stripe(volume);
    let column = |j| g.layout.column_at(stripe, g.layout.parity_seat(stripe, j));
    txn.waits.parities.iter().map(|j| extent.columns[column(j)].0).collect()
}

/// The participants with a say in a write now.
fn voters(
    map: &ClusterMap,
    volume: &Volume,
    extent: usize,
    participants: &[(usize, NodeId)],
    ts: Timestamp,
) -> Vec<NodeId> {
    let voters = map.voters(volume, extent, participants, ts);
    if voters.is_empty() {
        // No node has a say any more; the present nodes' answers are the best available.
        return participants.iter().map(|p| p.1).filter(|n| map.is_up(*n)).collect();
    }
    voters
}

impl Settling {
    pub(super) fn new(txn: &RunningJob, participants: Vec<NodeId>, since: Nanos) -> Settling {
        Settling {
            volume: txn.job.volume,
            policy: txn.policy,
            stripes: txn.job.what.stripes(&txn.volume),
            left: participants.iter().copied().collect(),
            participants,
            job: None,
            since,
        }
    }

    /// Whether it changes any of these stripes.
    pub(super) fn meets(&self, volume: VolumeId, stripes: &std::ops::Range<u64>) -> bool {
        let both = self.stripes.start < stripes.end && stripes.start < self.stripes.end;
        self.volume == volume && both
    }
}
