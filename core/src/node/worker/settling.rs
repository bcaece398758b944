//! Outcomes of writes whose messages were lost: answers to other nodes, and questions.

use super::*;
use crate::layout::ColumnRole;
use crate::node::DirtySector;
use crate::node::settle::waiting::{self, Decider};

impl Worker {
    /// This disk's knowledge of a write. The asking node may take "nothing" for "never".
    pub fn on_ask(&mut self, from: NodeId, ts: Timestamp, outbox: &mut Outbox) {
        let standing = match self.txns.get(&ts).map(|t| t.phase) {
            None => {
                self.fenced.insert(ts);
                Standing::Unknown
            }
            Some(Phase::Working) => {
                self.drop_txn(ts);
                Standing::Unknown
            }
            Some(Phase::Preparing) if self.store.waits_for_room(ts) => {
                self.drop_txn(ts);
                Standing::Unknown
            }
            Some(Phase::Preparing) => Standing::Busy,
            Some(Phase::Prepared) => Standing::Prepared,
            Some(Phase::Committed { safe }) => Standing::Committed { safe },
        };
        // If power failed now it would be prepared again here, and this disk might decide it alone.
        let is_unsafe = standing == Standing::Unknown
            && self.config.waits_for_safe_aborts()
            && self.store.unsafe_aborts().contains(&ts);
        if is_unsafe {
            self.stalled.ask(from, ts);
            return self.store.flush_outcomes();
        }
        outbox.send(from, Body::Answer { ts, standing });
    }

    /// Whether a read has to wait until aborts from before this epoch are durable. If all power failed before that, their
    /// writes would be prepared again at all participants, and commit: a reader must not have seen that they had not
    /// happened.
    pub(super) fn awaits_safe_aborts(&mut self) -> bool {
        if !self.entered.settles() || !self.config.waits_for_safe_aborts() {
            return false;
        }
        let floor = self.entered.floor();
        if self.store.oldest_abort().is_some_and(|ts| ts <= floor) {
            self.store.flush_outcomes();
            return true;
        }
        if self.txns.keys().next().is_none_or(|ts| *ts > floor) {
            self.entered.set_settled();
        }
        false
    }

    /// The other participants with a say in a write, unless too much of its volume is lost to decide anything.
    pub(super) fn voters(&self, ts: Timestamp) -> Option<Vec<NodeId>> {
        let txn = &self.txns[&ts];
        let volume = self.map.volumes.get(&txn.volume)?;
        if self.map.is_asleep(volume) {
            return None;
        }
        let mut voters = self.map.voters(volume, txn.extent, &txn.participants, ts);
        voters.retain(|n| *n != self.node);
        Some(voters)
    }

    /// Whether this disk itself has a say.
    pub(super) fn has_say(&self, ts: Timestamp) -> bool {
        let txn = &self.txns[&ts];
        let volume = self.map.volumes.get(&txn.volume);
        volume.is_some_and(|v| self.map.has_say(v, txn.extent, self.node, ts))
    }

    /// Asks the others about a write.
    pub(super) fn inquire(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let txn = &self.txns[&ts];
        let there = self.map.volumes.get(&txn.volume).is_some_and(|v| txn.extent < v.extents.len());
        if !there {
            // The volume has been deleted, or cut off before it: the outcome does not matter any more.
            match self.txns[&ts].phase {
                Phase::Committed { .. } => self.on_release(ts),
                _ => self.drop_txn(ts),
            }
            return;
        }
        let Some(voters) = self.voters(ts) else { return };
        let inquiry = self.inquiries.entry(ts).or_default();
        inquiry.asked = outbox.now;
        for node in inquiry.unanswered(&voters) {
            outbox.send(node, Body::Ask { ts });
        }
        let holders = self.holders(ts);
        for node in self.inquiries[&ts].unanswered(&holders) {
            if !voters.contains(&node) && self.map.is_up(node) {
                outbox.send(node, Body::Ask { ts });
            }
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        txn.heard |= !self.map.is_up(txn.originator);
        let (originator, waits_to_forget) =
            (txn.originator, matches!(txn.phase, Phase::Committed { .. }) && !txn.heard);
        if waits_to_forget || self.leaves_to_originator(ts) {
            outbox.send(originator, Body::Query { ts });
        }
        self.judge(ts, outbox);
    }

    /// With deferred parity: the nodes whose data a write changes, even if they are away. They may be the only ones
    /// with the new data. So a node must know that the write has happened until they do, or have caught up: marked
    /// parity does not show whether the data was changed. A node that its column has left has nothing of it.
    fn holders(&self, ts: Timestamp) -> Vec<NodeId> {
        let txn = &self.txns[&ts];
        let Some(volume) = self.map.volumes.get(&txn.volume) else { return Vec::new() };
        let Some(extent) = volume.extents.get(txn.extent) else { return Vec::new() };
        let defers = volume.defers() || txn.waits;
        // Computing parity gives no node new data.
        let brings = txn.writes != EVERYTHING;
        if !defers || !brings || !self.config.waits_for_holders() {
            return Vec::new();
        }
        let has = |(column, node): &&(usize, NodeId)| {
            let its = extent.columns.get(*column).is_some_and(|c| c.0 == *node);
            its && *node != self.node && !txn.markers.contains(*column)
        };
        txn.participants.iter().filter(has).map(|(_, node)| *node).collect()
    }

    /// Whether any of those neither surely has it, nor is present with nothing missed.
    pub(super) fn waits_for_holders(&self, ts: Timestamp) -> bool {
        let txn = &self.txns[&ts];
        let Some(volume) = self.map.volumes.get(&txn.volume) else { return false };
        let is_whole = |node: NodeId| {
            self.map.is_up(node) && self.map.behind_since(volume, txn.extent, node).is_none()
        };
        let is_safe = |node| self.inquiries.get(&ts).is_some_and(|i| i.is_safe_at(node));
        !self.holders(ts).into_iter().all(|node| is_whole(node) || is_safe(node))
    }

    /// For each volume the data sectors that a node should have changed by writes that have happened, as far as
    /// remembered here.
    pub(super) fn owed_to(&self, node: NodeId) -> Vec<(VolumeId, Vec<DirtySector>)> {
        let mut owed: BTreeMap<VolumeId, Vec<DirtySector>> = BTreeMap::new();
        for (ts, txn) in self.txns.iter() {
            let there = self.map.volumes.get(&txn.volume).filter(|v| txn.extent < v.extents.len());
            let column = txn.participants.iter().find(|p| p.1 == node).map(|p| p.0);
            let has_happened = matches!(txn.phase, Phase::Committed { .. });
            // If all others only mark, none of them can tell: without the node's prepared content no host was answered,
            // and it keeps the old content.
            let others = |(c, n): &(usize, NodeId)| *n != node && !txn.markers.contains(*c);
            if let (Some(volume), Some(column)) = (there, column)
                && has_happened
                && txn.participants.iter().any(others)
                && txn.writes != EVERYTHING
                && !txn.markers.contains(column)
            {
                let sectors = owed_by(volume, txn, column, *ts);
                let shown = self.map.shown_in(txn.volume);
                owed.entry(shown).or_default().extend(sectors);
            }
        }
        owed.into_iter().collect()
    }

    /// Whether the originator decides a prepared write: it does where parity is only marked, while it asks. If a node
    /// with its data goes, the remaining ones may have neither that node's new data nor, once parity is marked, the
    /// old. Then an originator that has reported success to no host gives the write up. So no other node may have
    /// decided meanwhile, even if all were present.
    fn leaves_to_originator(&self, ts: Timestamp) -> bool {
        let txn = &self.txns[&ts];
        txn.phase == Phase::Prepared
            && txn.waits
            && self.map.is_up(txn.originator)
            && self.inquiries.get(&ts).is_some_and(|i| !i.is_left_to_voters)
    }

    /// An answer to this disk's own question.
    pub fn on_answer(
        &mut self,
        from: NodeId,
        ts: Timestamp,
        standing: Standing,
        outbox: &mut Outbox,
    ) {
        let Some(inquiry) = self.inquiries.get_mut(&ts) else { return };
        inquiry.answer(from, standing);
        self.judge(ts, outbox);
    }

    pub(super) fn judge(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let (Some(txn), Some(inquiry)) = (self.txns.get(&ts), self.inquiries.get(&ts)) else {
            return;
        };
        let Some(voters) = self.voters(ts) else { return };
        match txn.phase {
            Phase::Prepared => {
                let verdict = match inquiry.verdict(&voters) {
                    // All that had to prepare have done so.
                    Verdict::Wait if txn.participants.len() == 1 => Verdict::Commit,
                    // The only remaining participant decides, if it has a say; otherwise it will catch up.
                    Verdict::Wait if voters.is_empty() && self.has_say(ts) => Verdict::Commit,
                    Verdict::Wait if voters.is_empty() => Verdict::Abort,
                    Verdict::Wait if !self.config.waits_for_outcomes() => Verdict::Commit,
                    // A node without a say only follows.
                    Verdict::Commit if !self.has_say(ts) && !inquiry.any_committed() => {
                        Verdict::Wait
                    }
                    verdict => verdict,
                };
                let originator_asks = self.leaves_to_originator(ts);
                let by = Decider::Voter { originator_asks };
                match waiting::verdict(verdict, inquiry.any_committed(), txn.waits, by) {
                    Verdict::Wait => {}
                    Verdict::Commit => {
                        let in_part = txn.waits
                            && !inquiry.any_committed()
                            && self.holders(ts).iter().any(|n| !voters.contains(n));
                        outbox.counters.settled_in_part += u64::from(in_part);
                        self.commit(ts, None, outbox);
                    }
                    Verdict::Abort => self.drop_txn(ts),
                }
            }
            Phase::Committed { safe } => {
                for node in inquiry.unheard(&voters) {
                    outbox.notice(node, Notice::Commit(ts));
                }
                for node in inquiry.unheard(&self.holders(ts)).filter(|n| !voters.contains(n)) {
                    outbox.notice(node, Notice::Commit(ts));
                }
                if safe && txn.heard && inquiry.all_know(&voters) {
                    self.on_release(ts);
                }
            }
            Phase::Working | Phase::Preparing => {}
        }
    }
}

/// The data sectors of a column that a write changes.
fn owed_by<'a>(
    volume: &'a Volume,
    txn: &'a Participation,
    column: usize,
    version: Timestamp,
) -> impl Iterator<Item = DirtySector> + 'a {
    let g = &volume.geometry;
    let stripes = txn.writes.stripes(g).filter(|s| volume.extent_of(*s) == txn.extent);
    let seats = move |stripe| g.layout.seats_of(stripe, column).map(move |seat| (stripe, seat));
    stripes.flat_map(seats).flat_map(move |(stripe, seat)| {
        let (lo, hi) = txn.writes.within(g, stripe);
        let part = match g.layout.role(stripe, seat) {
            ColumnRole::Data(i) => {
                let base = i as u64 * g.unit;
                let within = |at: u64| at.clamp(base, base + g.unit) - base;
                Span::new(within(lo), within(hi)).sectors_out()
            }
            ColumnRole::Parity(_) => Span::EMPTY,
        };
        let sectors = part.lo / SECTOR..part.hi / SECTOR;
        sectors.map(move |within| DirtySector { stripe, seat, within, version })
    })
}
