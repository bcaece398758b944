//! The rule of settlement, kept beside the nodes: who prepared which write, who committed it and
//! who dropped it, as it happens.
//!
//! - A disk commits a write only when all participants that have a say in it have prepared it.
//! - A disk that has prepared a write drops it only if one of those has not, or another has dropped
//!   it.
//! - No disk commits what another one, that had prepared it, drops.
//! - No disk commits an attempt that its originator has given up and begun anew.
//! - Where parity waits, what those left have may not determine what a disk that is gone was to write. Then they may drop
//!   the write. They may commit it only if that disk had prepared it, or the originator is gone too, which may have
//!   answered its host.
//!
//! That is the rule of docs/internals/architecture.md (commit and settling) and TickerTAIP's Table IV with late commit: after a
//! failure the survivors finish the write if they have what it takes, else it did not happen.

use std::collections::{BTreeMap, BTreeSet};

use weft_core::cluster::{ClusterMap, Volume};
use weft_core::node::{Body, Envelope, Header, Standing, Task};
use weft_core::plan::WritePlan;
use weft_core::units::{NodeId, Timestamp};

/// What is known of one attempt at a write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Entry {
    participants: Vec<(usize, NodeId)>,
    prepared: BTreeSet<NodeId>,
    committed: BTreeSet<NodeId>,
    dropped: BTreeSet<NodeId>,
    /// Nodes that died while it was under way, before anyone had committed it.
    lost: BTreeSet<NodeId>,
    /// Its originator has begun anew.
    given_up: bool,
    /// Its originator has died since.
    orphan: bool,
    /// The node whose host asks for it, if that is not the originator.
    endpoint: Option<NodeId>,
    /// Of the parities some wait: so many take it at once.
    at_once: Option<usize>,
}

/// All attempts at writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ledger {
    entries: BTreeMap<Timestamp, Entry>,
}

/// Who died in the middle of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The originator, which is no participant.
    Originator,
    /// A participant that is the originator too.
    Both,
    /// A participant with data.
    Data,
    /// A participant with parity (or the second copy).
    Parity,
}

/// What became of a write in the middle of which a node died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Case {
    /// Who died.
    pub died: Role,
    /// Whether all other participants had prepared, in the end.
    pub all_prepared: bool,
    /// Whether it happened.
    pub happened: bool,
}

impl Ledger {
    /// A message is sent.
    pub fn sent(&mut self, envelope: &Envelope, volume: &Volume) {
        let Some(Body::Write { header, .. } | Body::Part { header, .. }) = &envelope.body else {
            return;
        };
        let Header { ts, avoid, waits, task: Task::Write(range), .. } = *header else { return };
        let endpoint = header.holder.map(|h| h.node);
        if !self.entries.contains_key(&ts) {
            // A node's hosts ask one thing at a time, so this is the same write again.
            let earlier = self
                .entries
                .iter_mut()
                .filter(|(t, e)| t.originator() == ts.originator() && e.endpoint == endpoint);
            earlier.for_each(|(_, entry)| entry.given_up = true);
        }
        self.entries.entry(ts).or_insert_with(|| {
            let g = &volume.geometry;
            let plan = WritePlan::deferring(g, range, avoid, volume.policy, waits);
            let plan = plan.expect("a plan that is carried out");
            let waits = plan.rows.iter().map(|row| row.waits().len()).max().unwrap_or(0);
            let at_once = (waits > 0).then(|| g.code.parity_columns() - waits);
            let node = |c: usize| (c, volume.extents[0].columns[c].0);
            let participants = plan.participants(&volume.geometry).iter().map(node).collect();
            Entry { participants, at_once, endpoint, ..Entry::default() }
        });
    }

    /// A node dies.
    pub fn died(&mut self, node: NodeId) {
        for (ts, entry) in &mut self.entries {
            entry.orphan |= ts.originator() == node;
            let involved =
                ts.originator() == node || entry.participants.iter().any(|p| p.1 == node);
            if involved && entry.committed.is_empty() && entry.dropped.is_empty() {
                entry.lost.insert(node);
            }
        }
    }

    /// What a node that has started finds on its disk: a write may have become durable there
    /// without anyone's hearing of it.
    pub fn recovered(&mut self, node: NodeId, found: &BTreeMap<Timestamp, Standing>) {
        for ts in found.keys() {
            if let Some(entry) = self.entries.get_mut(ts) {
                entry.prepared.insert(node);
            }
        }
    }

    /// What a node knows of its writes has changed. `map` is the one that it goes by.
    pub fn changed(
        &mut self,
        node: NodeId,
        volume: &Volume,
        map: &ClusterMap,
        before: &BTreeMap<Timestamp, Standing>,
        after: &BTreeMap<Timestamp, Standing>,
    ) -> Result<(), String> {
        for (ts, standing) in after {
            if before.get(ts) == Some(standing) {
                continue;
            }
            let Some(entry) = self.entries.get_mut(ts) else { continue };
            match standing {
                Standing::Prepared => drop(entry.prepared.insert(node)),
                Standing::Committed { .. } => {
                    entry.prepared.insert(node);
                    if entry.committed.insert(node) {
                        entry.judge(*ts, node, volume, map, true)?;
                    }
                }
                Standing::Unknown | Standing::Busy => {}
            }
        }
        for (ts, standing) in before {
            if after.contains_key(ts) || *standing != Standing::Prepared {
                continue;
            }
            if let Some(entry) = self.entries.get_mut(ts)
                && !entry.committed.contains(&node)
            {
                entry.judge(*ts, node, volume, map, false)?;
            }
        }
        Ok(())
    }

    /// The writes in the middle of which one node died, and what became of them.
    pub fn cases(&self, volume: &Volume) -> impl Iterator<Item = Case> {
        let case = |(ts, entry): (&Timestamp, &Entry)| {
            let mut lost = entry.lost.iter();
            let (Some(&dead), None) = (lost.next(), lost.next()) else { return None };
            let place = entry.participants.iter().find(|p| p.1 == dead);
            let died = match place {
                None => Role::Originator,
                Some(_) if ts.originator() == dead => Role::Both,
                Some((c, _)) if *c < volume.geometry.data_columns() => Role::Data,
                Some(_) => Role::Parity,
            };
            let others = entry.participants.iter().filter(|p| p.1 != dead);
            let all_prepared = others.clone().all(|p| entry.prepared.contains(&p.1));
            Some(Case { died, all_prepared, happened: !entry.committed.is_empty() })
        };
        self.entries.iter().filter_map(case).collect::<Vec<_>>().into_iter()
    }
}

impl Entry {
    /// Whether `node` may commit the write, or drop it.
    fn judge(
        &mut self,
        ts: Timestamp,
        node: NodeId,
        volume: &Volume,
        map: &ClusterMap,
        commits: bool,
    ) -> Result<(), String> {
        if !map.has_say(volume, 0, node, ts) {
            // It follows, or will catch up.
            return Ok(());
        }
        // Who drops it after another has only follows.
        let first = self.dropped.is_empty();
        if !commits {
            self.dropped.insert(node);
        }
        if commits && self.given_up && self.committed.len() == 1 {
            return Err(format!("{node} commits attempt {ts}, which its originator has restarted"));
        }
        let voters = map.voters(volume, 0, &self.participants, ts);
        let missing: Vec<NodeId> =
            voters.iter().filter(|v| !self.prepared.contains(v)).copied().collect();
        let alone = self.undetermined(volume, &voters);
        let unprepared = alone.iter().any(|n| !self.prepared.contains(n));
        if commits && self.committed.len() == 1 && unprepared && !self.orphan {
            return Err(format!(
                "{node} commits write {ts}, but only {alone:?} determine some of its data"
            ));
        }
        match (commits, missing.is_empty()) {
            (true, false) => {
                Err(format!("{node} commits write {ts}, which {} has not prepared", missing[0]))
            }
            (false, true) if first && alone.is_empty() => Err(format!(
                "{node} drops write {ts}, which all that have a say have prepared: {voters:?}"
            )),
            _ if !self.committed.is_empty() && !self.dropped.is_empty() => Err(format!(
                "write {ts} is committed by {:?} and dropped by {:?}",
                self.committed, self.dropped
            )),
            _ => Ok(()),
        }
    }

    /// Those who have data of it and are not among these voters, if the parity that took it at once does not determine
    /// what they have. With all codes explored each such parity determines one column.
    fn undetermined(&self, volume: &Volume, voters: &[NodeId]) -> Vec<NodeId> {
        let Some(at_once) = self.at_once else { return Vec::new() };
        let data = volume.geometry.data_columns();
        let gone = || self.participants.iter().filter(|p| !voters.contains(&p.1));
        let lost: Vec<NodeId> = gone().filter(|p| p.0 < data).map(|p| p.1).collect();
        let told =
            at_once.saturating_sub(gone().filter(|p| p.0 >= data && p.0 < data + at_once).count());
        if lost.len() > told { lost } else { Vec::new() }
    }
}
