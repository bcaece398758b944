//! How the next map is made: the requested changes, the nodes that are up, the nodes that take part in each volume and
//! the writes that others miss, and the columns that move.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::remove_replaced;
use super::{Authority, Change, fault};
use crate::cluster::map::{Attendance, ClusterMap, Extent, NodeInfo, Volume};
use crate::cluster::{balance, moves};
use crate::store::Reached;
use crate::units::{NodeId, Timestamp, VolumeId};

/// The inputs of a new map, besides the state of the nodes.
pub(super) struct Findings<'a> {
    /// The nodes that take part.
    pub members: &'a [NodeId],
    /// The oldest write that each of them has unsettled.
    pub oldest: &'a BTreeMap<NodeId, Timestamp>,
    /// Every write until now comes before this, every later one after it.
    pub floor: Timestamp,
    /// None of them has anything in work.
    pub idle: bool,
    /// Those whose disks have forgotten something that they had promised.
    pub forgot: &'a BTreeSet<NodeId>,
    /// Those for which that has just been checked.
    pub looked_at: &'a BTreeSet<NodeId>,
    /// Up to when each disk shows writes.
    pub written: &'a BTreeMap<NodeId, Timestamp>,
    /// Volumes with stale parity.
    pub exposed: &'a BTreeSet<VolumeId>,
    /// Volumes with copies that no parity describes yet.
    pub copied: &'a BTreeSet<VolumeId>,
    /// Those, and volumes whose waiting parity can be computed.
    pub pending: &'a BTreeSet<VolumeId>,
}

impl Findings<'_> {
    /// The first write that `node` may have missed: the oldest one unsettled at others with a say. The unsettled writes of
    /// a node that the volume went on without are decided by the others. The others also keep each unsettled write of
    /// `node` until `node` has committed it durably.
    pub(super) fn first_missed(&self, a: &Attendance, node: NodeId) -> Timestamp {
        let counts = |other: &NodeId| *other != node && !a.away.contains(other);
        let others = self.oldest.iter().filter(|(other, _)| counts(other));
        let all = self.oldest.values().min().expect("somebody takes part");
        others.map(|(_, oldest)| *oldest).min().unwrap_or(*all)
    }
}

impl Authority {
    /// The map says how far disks have got: nothing that is written later is needed to know it.
    pub(super) fn keep_reached(&mut self, reached: BTreeMap<NodeId, Vec<Reached>>) {
        for (node, known) in reached {
            let Some(info) = self.next.nodes.get_mut(usize::from(node.0)) else { continue };
            let of_its_disk = known.into_iter().filter(|r| r.disk == info.disk);
            info.reached = of_its_disk.reduce(Reached::merge).unwrap_or_default();
        }
    }

    pub(super) fn make_map(&mut self, findings: &Findings<'_>) {
        let floor = findings.floor;
        let members = findings.members;
        self.note_caught_up(members);
        for change in &self.changes {
            // Nodes do not report removed volumes.
            let mut waits_for = change.shown_of(findings.copied);
            waits_for.retain(|id| self.next.volumes.contains_key(id));
            if !waits_for.is_empty() {
                self.pending.delayed.extend(waits_for);
                self.pending.changes.push(change.clone());
                continue;
            }
            let change = &self.without_sleeping(change, findings);
            if !is_void(change, &self.next, members) {
                change.apply(&mut self.next);
                fault::changed(self.absences.bug, change, &mut self.next);
            }
        }
        // A disk that is too small for what the map has there now stays away.
        self.running.retain(|node, a| self.next.has_room_on(*node, (a.disk, a.sectors)));
        let members = &self.members_of(members);
        let findings = &Findings { members, ..*findings };
        // They have said so of the map in force.
        self.next.forget_merged(&self.map.merged_by(&self.merged));
        self.next.detach_flattened(&self.map.flattened_by(&self.flattened));
        self.next.forget_unseen();
        let empty = self.take_attendance_of_nodes(members);
        for node in &empty {
            self.next.volumes.values_mut().for_each(|v| moves::fill(v, *node, floor));
        }
        let going = self.absences.given_up(&self.next, findings.exposed);
        self.give_up(&going, true);
        let volumes: Vec<Arc<Volume>> = self.next.volumes.values().cloned().collect();
        for volume in &volumes {
            let mut attendance = self.next.attendance.remove(&volume.id).unwrap_or_default();
            attendance.stale_since.retain(|n, _| !empty.contains(n));
            attendance.forgot.retain(|n| !empty.contains(n));
            self.attend(volume, &mut attendance, findings);
            attendance.counts_from.extend(empty.iter().map(|n| (*n, floor)));
            attendance.times_away.retain(|n, _| !empty.contains(n));
            attendance
                .note_times_away(floor, |n| findings.written.get(&n).copied().unwrap_or_default());
            self.next.attendance.insert(volume.id, attendance);
        }
        self.give_up(&self.absences.needed(&self.next, &going), false);
        for (id, volume) in &mut self.next.volumes {
            if let Some(a) = self.next.attendance.get(id) {
                moves::stop_copying(volume, |n| {
                    !a.away.contains(&n) && !a.stale_since.contains_key(&n)
                });
            }
        }
        moves::agree_on_copies(&mut self.next);
        let pending = findings.pending;
        self.pending.delayed.extend(moves::move_columns(&mut self.next, floor, pending));
        self.pending.delayed.extend(balance::rebalance(&mut self.next, floor, pending));
        remove_replaced(&mut self.next);
        self.next.assert_sound();
        let volumes = &self.next.volumes;
        self.next.attendance.retain(|id, a| {
            let nodes = volumes.get(id).map(|v| v.nodes()).unwrap_or_default();
            a.away.retain(|n| nodes.contains(n));
            a.stale_since.retain(|n, _| nodes.contains(n));
            a.counts_from.retain(|n, _| nodes.contains(n));
            a.forgot.retain(|n| nodes.contains(n));
            a.times_away.retain(|n, _| nodes.contains(n));
            *a != Attendance::default()
        });
    }

    /// A change, without snapshots of volumes that will sleep. The map in force does not know yet which nodes have just gone.
    fn without_sleeping(&self, change: &Change, findings: &Findings<'_>) -> Change {
        let sleeps = |id: &VolumeId| {
            let a = self.next.attendance.get(id);
            let is_away = |n: NodeId| {
                !findings.members.contains(&n)
                    || findings.forgot.contains(&n)
                    || a.is_some_and(|a| a.is_missing_or_behind(n))
            };
            let volume = self.next.volumes.get(id);
            volume.is_some_and(|v| v.may_have_copies() && v.is_lost_with(is_away))
        };
        match change {
            Change::TakeSnapshots(of, name, taken) if of.iter().any(sleeps) => {
                Change::TakeSnapshots(Vec::new(), name.clone(), *taken)
            }
            Change::TakeScheduled(due, taken) => {
                let due = due.iter().filter(|(id, _)| !sleeps(id));
                Change::TakeScheduled(due.copied().collect(), *taken)
            }
            _ => change.clone(),
        }
    }

    /// Takes reports of nodes that have caught up on volumes. This comes before the changes: reports name volumes of the map in
    /// force, and a snapshot gives a volume another address space.
    fn note_caught_up(&mut self, members: &[NodeId]) {
        for (node, volumes) in self.caught_up.iter().filter(|(n, _)| members.contains(n)) {
            for id in volumes {
                if let Some(volume) = self.next.volumes.get_mut(id) {
                    moves::filled(volume, *node);
                }
                if let Some(attendance) = self.next.attendance.get_mut(id) {
                    attendance.stale_since.remove(node);
                }
            }
        }
    }

    /// Those of some nodes that run.
    fn members_of(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        nodes.iter().copied().filter(|node| self.running.contains_key(node)).collect()
    }

    /// Nodes are not expected back, or nevertheless.
    fn give_up(&mut self, nodes: &[NodeId], given_up: bool) {
        for node in nodes {
            self.next.nodes[usize::from(node.0)].given_up = given_up;
        }
    }

    /// Says of each node whether it is up and what disk it has. Returns those whose disks are
    /// not the ones that the map knew: they are empty.
    fn take_attendance_of_nodes(&mut self, members: &[NodeId]) -> Vec<NodeId> {
        let mut empty = Vec::new();
        for (n, info) in self.next.nodes.iter_mut().enumerate() {
            let node = NodeId(n as u16);
            let running = self.running.get(&node).filter(|_| members.contains(&node));
            let Some(arrival) = running else {
                info.up = false;
                continue;
            };
            let is_another = info.disk != 0 && arrival.disk != info.disk;
            if is_another {
                empty.push(node);
            }
            *info = NodeInfo {
                up: true,
                given_up: false,
                disk: arrival.disk,
                sectors: arrival.sectors,
                // It was the disk that was expected to fail.
                suspect: info.suspect && !is_another,
                ..info.clone()
            };
        }
        empty
    }

    /// The nodes that take part in a volume from now on, and the writes that each has missed.
    fn attend(&self, volume: &Volume, a: &mut Attendance, findings: &Findings<'_>) {
        let Findings { members, floor, .. } = *findings;
        let behind = a.stale_since.clone();
        let runs = |n: NodeId| members.contains(&n);
        let nodes = volume.nodes();
        // A node that was found to have forgotten, has restarted, and has everything now, has its disk back.
        a.forgot.retain(|n| !findings.looked_at.contains(n));
        a.forgot.extend(findings.forgot.iter().filter(|n| nodes.contains(n)));
        let forgot = a.forgot.clone();
        let unsound = |n: NodeId| {
            !runs(n) || a.away.contains(&n) || behind.contains_key(&n) || forgot.contains(&n)
        };
        if fault::is_lost_with(self.absences.bug, volume, unsound)
            || self.may_rest(volume, a, findings)
        {
            // It sleeps: nobody goes on without anybody. A returned node takes part again nevertheless: the others may
            // need what it has to catch up.
            a.counts_from.extend(a.away.iter().filter(|n| runs(**n)).map(|n| (*n, floor)));
            a.away.retain(|n| !runs(*n));
            return;
        }
        // One that was not missed when it went and came may have lost what it was told; but if
        // the volume would then have too few, it is waited for as after a power cut.
        let lapsed = |n: NodeId| runs(n) && self.has_lapsed(volume, n);
        let lapse = !volume.is_lost_with(|n| unsound(n) || lapsed(n));
        // A node that has forgotten may have missed anything, and has no say in earlier writes.
        for node in std::mem::take(&mut a.forgot) {
            a.stale_since.insert(node, Timestamp::ZERO);
            a.counts_from.insert(node, floor);
        }
        for node in volume.nodes() {
            let was_away = a.away.contains(&node);
            let left = !was_away && (!runs(node) || (lapse && lapsed(node)));
            if left {
                let first = findings.first_missed(a, node);
                let since = a.stale_since.entry(node).or_insert(first);
                *since = first.min(*since);
            }
            if runs(node) && (was_away || left) {
                a.counts_from.insert(node, floor);
            }
        }
        a.away = volume.nodes().into_iter().filter(|n| !runs(*n)).collect();
    }

    /// Whether a volume may rest: nodes have left it, and nobody has anything in work. It sleeps then, as
    /// one that has lost too many, though it could go on: so a node that has left misses nothing, is current when it
    /// is back, and may be one that others need to recover. With anything to write it goes on without them
    /// ([`MemberReport::Wake`]).
    ///
    /// A volume whose columns must be moved or rebuilt does not rest, nor one whose snapshot waits until copies are folded.
    fn may_rest(&self, volume: &Volume, a: &Attendance, findings: &Findings<'_>) -> bool {
        let map = &self.next;
        let nodes = volume.nodes();
        let info = |n: &NodeId| map.nodes.get(usize::from(n.0));
        let moves = |n: &NodeId| info(n).is_some_and(|i| i.given_up || i.draining);
        let whole = |e: &Extent| e.filling.is_empty() && e.leaving.is_empty();
        findings.idle
            && !self.wakes
            && !self.pending.delay_any_of(volume.id)
            && volume.policy.is_journaled()
            && nodes.iter().any(|n| !findings.members.contains(n))
            && (a.away.is_empty() && a.stale_since.is_empty() && a.forgot.is_empty())
            && !map.rebalancing
            && volume.extents.iter().all(whole)
            && !nodes.iter().any(|n| moves(n) || self.has_lapsed(volume, *n))
    }

    /// Whether a node was started again while a volume went on, and was not missed: it may not know what it
    /// was told before.
    fn has_lapsed(&self, volume: &Volume, node: NodeId) -> bool {
        let slept = self.map.is_asleep(volume) || !self.settled_once;
        !slept && self.map.is_up(node) && self.restarted.contains(&node)
    }
}

/// Whether a change has become void. A node that was down, and will be removed permanently, may have returned since the
/// request.
fn is_void(change: &Change, map: &ClusterMap, members: &[NodeId]) -> bool {
    match change {
        Change::RemoveNode(n) => members.contains(n),
        Change::AddNodes(new) => !new.can_be_made(map, members),
        _ => false,
    }
}
