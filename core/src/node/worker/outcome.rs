//! From prepared to forgotten: votes, commit and abort, acknowledgements.

use super::*;

impl Worker {
    pub(super) fn on_prepared(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        txn.phase = Phase::Prepared;
        txn.since = outbox.now;
        let column = txn.column;
        if txn.epoch != self.map.epoch {
            // Nodes that asked meanwhile were told to wait.
            let mut asked: BTreeSet<NodeId> = txn.participants.iter().map(|p| p.1).collect();
            asked.remove(&self.node);
            asked.insert(txn.originator);
            for node in asked.into_iter().filter(|n| self.map.is_up(*n)) {
                outbox.send(node, Body::Answer { ts, standing: Standing::Prepared });
            }
            self.inquire(ts, outbox);
            return;
        }
        if txn.alone {
            let originator = txn.originator;
            return self.commit(ts, Some(originator), outbox);
        }
        outbox.send_after(txn.originator, Body::Vote { ts, column, vote: Ok(()) }, txn.hops + 1);
    }

    /// The write happened.
    pub(super) fn commit(&mut self, ts: Timestamp, told_by: Option<NodeId>, outbox: &mut Outbox) {
        let txn = self.txns.get_mut(&ts).expect("a known write");
        assert_eq!(txn.phase, Phase::Prepared, "committed without being prepared: {ts}");
        txn.phase = Phase::Committed { safe: false };
        txn.told_by = told_by;
        txn.since = outbox.now;
        self.remember(ts);
        let txn = self.txns.get_mut(&ts).expect("a known write");
        let ranges = std::mem::take(&mut txn.ranges);
        let (volatile, volume) = (!txn.journal, txn.volume);
        self.store.outcome(ts, true);
        // A write from before this node was away makes nothing fresh: others came after it. Nor does one
        // where its volume has been cut off meanwhile: there may be another's now.
        let makes_fresh = self.has_say(ts);
        // It still counts as content of this disk, and no other node remembers it for this disk.
        if !makes_fresh && self.catchup.is_behind() {
            self.catchup.freshened_by(ts);
        }
        for changed in ranges {
            self.log_lost(&changed, outbox);
            self.count_exposed(ts, &changed, !volatile, outbox.now);
            let Changed { sectors, kind } = changed;
            self.admission.resolve(ts, sectors.clone(), true);
            if kind.replaces() && !self.damaged.is_empty() {
                let before = self.damaged.len();
                self.damaged.retain(|s| !sectors.contains(s));
                self.mended.0 += (before - self.damaged.len()) as u64;
            }
            if kind.replaces() && makes_fresh && self.is_its_place(ts, sectors.clone()) {
                let asking = self.catchup.is_asking();
                let rebuilt = self.catchup.wrote(sectors);
                self.filling.put_back(volume, rebuilt);
                if volatile && (asking || rebuilt > 0) {
                    self.catchup.freshened_by(ts);
                }
            }
        }
        self.unlock(ts);
        self.inquiries.remove(&ts);
        self.load.committed();
        self.stalled.wake();
        outbox.want_soon();
    }

    /// Whether sectors that a write changes are still its volume's.
    fn is_its_place(&self, ts: Timestamp, range: Range<u64>) -> bool {
        let txn = &self.txns[&ts];
        // Within an epoch no volume is cut off.
        txn.epoch == self.map.epoch
            || self.map.volumes.get(&txn.volume).is_some_and(|v| {
                let has = |sector| v.stripe_at(self.node, sector).is_some();
                range.into_iter().all(has)
            })
    }

    /// A commit has arrived.
    pub fn on_commit(&mut self, from: NodeId, ts: Timestamp, outbox: &mut Outbox) {
        match self.txns.get_mut(&ts).map(|t| t.phase) {
            Some(Phase::Prepared) => self.commit(ts, Some(from), outbox),
            Some(Phase::Committed { safe: false }) => {
                self.txns.get_mut(&ts).expect("just seen").told_by = Some(from);
            }
            Some(Phase::Committed { safe: true }) | None => outbox.notice(from, Notice::Ack(ts)),
            // Nobody commits a write that is not prepared here, unless this disk has no say.
            Some(Phase::Working | Phase::Preparing) => {}
        }
    }

    /// An abort has arrived.
    pub fn on_abort(&mut self, ts: Timestamp, _outbox: &mut Outbox) {
        match self.txns.get(&ts).map(|t| t.phase) {
            Some(Phase::Committed { .. }) => {}
            Some(_) => self.drop_txn(ts),
            None => self.fenced.insert(ts),
        }
    }

    /// A release has arrived: all nodes know of the commit.
    pub fn on_release(&mut self, ts: Timestamp) {
        let committed =
            matches!(self.txns.get_mut(&ts).map(|t| t.phase), Some(Phase::Committed { .. }));
        if committed && self.waits_for_holders(ts) {
            let txn = self.txns.get_mut(&ts).expect("just seen");
            (txn.heard, txn.settled) = (true, true);
        } else if committed {
            self.txns.remove(&ts);
            self.inquiries.remove(&ts);
            self.store.release(ts);
            // A message that comes twice must not begin it again.
            self.fenced.insert(ts);
        }
    }

    /// Whether the originator still asks about a write.
    pub fn on_query_reply(&mut self, ts: Timestamp, waiting: bool, outbox: &mut Outbox) {
        if waiting {
            return;
        }
        if let Some(inquiry) = self.inquiries.get_mut(&ts) {
            inquiry.is_left_to_voters = true;
        }
        if let Some(txn) = self.txns.get_mut(&ts) {
            txn.heard |= matches!(txn.phase, Phase::Committed { .. });
            self.judge(ts, outbox);
        }
    }

    /// The outcome of a write is durable on this disk.
    pub(super) fn on_outcome_safe(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        self.count_placed(ts, outbox);
        if self.entered.settles() {
            self.stalled.wake();
        }
        for (to, id) in self.stalled.outcome_is_safe(ts) {
            self.begin_flush(to, id);
        }
        for node in self.stalled.asked(ts) {
            outbox.send(node, Body::Answer { ts, standing: Standing::Unknown });
        }
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        let Phase::Committed { safe } = &mut txn.phase else { return };
        *safe = true;
        if let Some(node) = txn.told_by {
            outbox.notice(node, Notice::Ack(ts));
            if !txn.journal {
                outbox.hurry();
            }
        }
    }
}
