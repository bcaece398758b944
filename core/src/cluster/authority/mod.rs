//! The authority: the one that changes the map, so that all nodes that take part enter a
//! new epoch together.
//!
//! A change goes in two steps. *Freeze*: every node that will take part stops serving and
//! says how far back it has unsettled writes and how late its clock is. *Enter*: the map,
//! made durable first, takes effect. For each volume that goes on without it, a node that
//! leaves is marked stale from the oldest write that anyone had unsettled; one that returns
//! takes part at once but counts as stale until it has caught up. A volume that cannot go on
//! sleeps until enough of those have returned that took part last; one in which nobody has anything in work
//! when nodes leave rests until somebody has. What was on a node that is
//! given up moves to other disks, a few extents at a time, and is rebuilt there; so is what was
//! on a disk that an empty one has replaced, and what is on a node that is drained (see [`moves`](super::moves)).
//!
//! It is a state machine like a node. An array in one process has one; of several processes the one that
//! leads has it, and a map is stored when a majority has it (`weft-member`).

mod policy;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use policy::PolicyChange;
use policy::set_policy;

use super::map::{Attendance, ClusterMap, Extent, Home, NodeInfo, Volume};
use super::message::{MapMessage, MemberReport, Memory};
use super::{balance, moves};
use crate::order::FOLLOWED;
use crate::store::Reached;
use crate::units::{Epoch, MAX_NODES, NodeId, Timestamp, VolumeId};

/// A node that runs, and the disk that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// The node.
    pub node: NodeId,
    /// Its disk's incarnation.
    pub disk: u64,
    /// Data sectors of its disk.
    pub sectors: u64,
}

/// How large a volume is to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeSize {
    /// Its size in bytes; extents behind it go, and their room may be had by others.
    pub size: u64,
    /// Bytes that hosts see.
    pub visible: u64,
    /// Extents that are put behind its own. If they do not begin where those end, or their room
    /// has been taken meanwhile, nothing is done.
    pub more: Vec<Extent>,
}

/// Nodes that are to be admitted, all in one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewNodes {
    /// The number of the first, which is the next that is free; if it is not, nothing is done.
    pub first: NodeId,
    /// How many, under the numbers from there on.
    pub count: usize,
    /// Where they live, if there are several processes.
    pub home: Option<Arc<Home>>,
    /// Whether it is a host that is its own controller.
    pub is_host: bool,
    /// The process that serves them, if it has nodes already. If none: it gets the number of the
    /// first, or each has one of its own in an array in one process.
    pub process: Option<NodeId>,
}

impl NewNodes {
    /// One node of an array in one process.
    pub fn one(node: NodeId) -> NewNodes {
        NewNodes { first: node, count: 1, home: None, is_host: false, process: None }
    }

    fn apply(&self, map: &mut ClusterMap) {
        let first = usize::from(self.first.0);
        let known = self.process.is_none_or(|p| map.served_by(p).next().is_some());
        if map.nodes.len() != first || first + self.count > MAX_NODES || !known {
            return;
        }
        for n in 0..self.count {
            let process = self.process.or((n > 0).then_some(self.first));
            let info = NodeInfo::expected(self.home.clone());
            map.nodes.push(NodeInfo { is_host: self.is_host, process, ..info });
        }
    }
}

/// What the authority is told.
#[derive(Clone, Debug, Hash)]
pub enum AuthorityInput {
    /// These nodes run, after a start of everything: nobody went on without anybody.
    Start(Vec<Arrival>),
    /// A node has been found dead.
    NodeDown(NodeId),
    /// A node has started and wants to take part.
    NodeUp(Arrival),
    /// A node that is down is not expected back.
    GiveUp(NodeId),
    /// An operator adds a volume. It is not done if there is one of that number, if what it chooses does not
    /// go together, or if the map would not be sound: if its room has been taken meanwhile.
    AddVolume(Arc<Volume>),
    /// An operator changes how large a volume is. Nothing else of it changes: columns may have
    /// moved since the operator looked.
    SizeVolume(VolumeId, VolumeSize),
    /// An operator changes a volume's policy. It is not done if its values do not go together
    /// ([`ClusterMap::check_policy`]). Writes that are not settled yet are settled as
    /// after any change of the map: what a participant has prepared does not depend on it.
    SetPolicy(VolumeId, PolicyChange),
    /// An operator removes one. Its room may be another's with the next map, whatever is in work of it
    /// now, is undecided, not in place, or in the journal of a node that is down. Nothing of it can come to
    /// lie in what has its room then, for four reasons:
    ///
    /// - Nothing of it begins any more: messages of the epochs before are dropped, and without a map
    ///   of it no node takes part in anything new. Volumes' numbers are not used twice.
    /// - Nothing of it is decided any more: each node, as it enters an epoch without the volume,
    ///   aborts what it has prepared, also what it found in its journal when it opened its disk.
    /// - What was decided is older. A disk orders what is written to a sector by timestamp, whatever
    ///   volume it is of: in memory, in place and in replaying the journal later content stays on top, and
    ///   a sector with an earlier write that is undecided is not put in place before that is decided.
    /// - Whoever gets the room is not seen before all of it has been written to, in whole stripes,
    ///   later than all this (`ClusterMap::room_used`). A disk that was away then, or that a column comes to, is behind
    ///   there until it has been rebuilt, later still; and what it has from before makes nothing
    ///   fresh.
    ///
    /// The same holds of what [`AuthorityInput::SizeVolume`] cuts off; but where a stripe is cut off and
    /// others of its extent stay, a write that goes across is decided later all the same. It is older
    /// than what has come there since, and makes nothing fresh either.
    RemoveVolume(VolumeId),
    /// An operator has what is on a node's disk moved to others, or that stopped.
    Drain(NodeId, bool),
    /// An operator has columns moved until all disks are equally full, or that stopped: what is
    /// under way then comes to its end.
    Rebalance(bool),
    /// An operator admits nodes.
    AddNodes(NewNodes),
    /// An operator takes a node out for good. It is not done unless the node is down, given up or
    /// drained, and holds nothing.
    RemoveNode(NodeId),
    /// A node reports.
    Report(NodeId, MemberReport),
    /// The map handed out for storing is safe.
    Stored(Epoch),
}

/// What the authority wants done.
#[derive(Clone, Debug)]
pub enum AuthorityOutput {
    /// Tell a node.
    Tell(NodeId, MapMessage),
    /// Make the map durable, then say [`AuthorityInput::Stored`].
    Store(Arc<ClusterMap>),
}

#[derive(Clone, Debug, Hash)]
enum Phase {
    Settled,
    /// Waiting for every node that takes part to stop.
    Freezing {
        frozen: BTreeMap<NodeId, Frozen>,
    },
    /// Waiting for the map to be durable.
    Storing {
        floor: Timestamp,
    },
}

/// What a node said that has stopped, as in [`MemberReport::Frozen`].
#[derive(Clone, Debug, Hash)]
struct Frozen {
    oldest: Timestamp,
    clock: Timestamp,
    written: Timestamp,
    busy: bool,
    memory: Memory,
    heard: Vec<(NodeId, Reached)>,
}

/// The latest time that any of them has written or shows, but for clocks that are wrong: those that are farther
/// ahead of one in the middle than is followed (shared storage 4.1 wants clocks that are close; see [`FOLLOWED`]).
/// What is written is right by definition: all that comes must be later.
fn latest_right(frozen: &BTreeMap<NodeId, Frozen>) -> Timestamp {
    let mut clocks: Vec<Timestamp> = frozen.values().map(|f| f.clock).collect();
    clocks.sort_unstable();
    let middle = clocks[(clocks.len() - 1) / 2];
    let followed = |c: &Timestamp| c.micros() <= middle.micros().saturating_add(FOLLOWED);
    let written = frozen.values().map(|f| f.written);
    clocks.into_iter().filter(followed).chain(written).max().expect("somebody has stopped")
}

/// How far a node's disk has got, as each knows who has stopped, or the map.
fn known_of(
    node: NodeId,
    map: &ClusterMap,
    frozen: &BTreeMap<NodeId, Frozen>,
) -> impl Iterator<Item = Reached> {
    let heard = frozen.values().flat_map(|f| &f.heard).filter(move |(n, _)| *n == node);
    let own = frozen.get(&node).map(|f| f.memory.reached);
    let kept = map.nodes.get(usize::from(node.0)).map(|info| info.reached);
    heard.map(|(_, reached)| *reached).chain(own).chain(kept)
}

/// The nodes whose disks have forgotten something that they had promised: they know it themselves, or somebody
/// has heard that they had got further than they were found.
fn forgetful(map: &ClusterMap, frozen: &BTreeMap<NodeId, Frozen>) -> BTreeSet<NodeId> {
    let shown = |node: NodeId, memory: &Memory| {
        known_of(node, map, frozen).any(|r| r.shows_loss(memory.found, memory.began))
    };
    let forgot = |(node, f): &(&NodeId, &Frozen)| f.memory.forgot || shown(**node, &f.memory);
    frozen.iter().filter(forgot).map(|(node, _)| *node).collect()
}

/// What a new map is made from, besides what is known of the nodes.
struct Findings<'a> {
    /// The nodes that take part.
    members: &'a [NodeId],
    /// The oldest write that any of them has unsettled.
    oldest: Timestamp,
    /// Every write until now comes before this, every later one after it.
    floor: Timestamp,
    /// None of them has anything in work.
    idle: bool,
    /// Those whose disks have forgotten something that they had promised.
    forgot: &'a BTreeSet<NodeId>,
    /// Those of which that has just been looked at.
    looked_at: &'a BTreeSet<NodeId>,
}

/// The holder of the map.
#[derive(Clone, Debug, Hash)]
pub struct Authority {
    map: ClusterMap,
    /// The nodes that run, whether or not the map knows.
    running: BTreeMap<NodeId, Arrival>,
    /// Nodes that are given up from now on.
    given_up: Vec<NodeId>,
    /// Nodes that restarted since the map last saw them.
    restarted: Vec<NodeId>,
    caught_up: Vec<NodeId>,
    changes: Vec<Change>,
    /// Somebody has something to write to a volume that rests.
    wakes: bool,
    phase: Phase,
    next: ClusterMap,
    /// The highest epoch ever proposed.
    proposed: Epoch,
    settled_once: bool,
}

#[derive(Clone, Debug, Hash)]
enum Change {
    AddVolume(Arc<Volume>),
    SizeVolume(VolumeId, VolumeSize),
    SetPolicy(VolumeId, PolicyChange),
    RemoveVolume(VolumeId),
    Drain(NodeId, bool),
    Rebalance(bool),
    AddNodes(NewNodes),
    RemoveNode(NodeId),
}

impl Change {
    /// Applies it, if what comes of it is sound.
    fn apply(&self, map: &mut ClusterMap) {
        match self {
            Change::AddVolume(volume) => {
                let refused = map.check_new_policy(volume, &[]).is_err();
                if map.volumes.contains_key(&volume.id) || refused {
                    return;
                }
                map.volumes.insert(volume.id, volume.clone());
                if map.check().is_err() {
                    map.volumes.remove(&volume.id);
                } else {
                    map.next_volume = map.next_volume.max(volume.id.0 + 1);
                }
            }
            Change::SizeVolume(id, to) => {
                let Some(before) = map.volumes.get(id).cloned() else { return };
                let first = to.more.first().map_or(before.stripes(), |e| e.first);
                let mut sized = Volume::clone(&before);
                (sized.size, sized.visible) = (to.size, to.visible);
                sized.extents.extend(to.more.iter().cloned());
                let stripes = sized.stripes();
                sized.extents.retain(|e| e.first < stripes);
                map.volumes.insert(*id, Arc::new(sized));
                // Without room for more it can only become smaller, or stay in its last stripe.
                let grows = to.more.is_empty() && stripes > before.stripes();
                if first != before.stripes() || grows || map.check().is_err() {
                    map.volumes.insert(*id, before);
                } else if stripes < before.stripes() {
                    map.room_used = true;
                }
            }
            Change::SetPolicy(id, change) => set_policy(map, *id, change),
            Change::RemoveVolume(id) => {
                map.volumes.remove(id);
                map.attendance.remove(id);
                map.room_used = true;
            }
            Change::Drain(node, draining) => {
                if let Some(info) = map.nodes.get_mut(usize::from(node.0)) {
                    info.draining = *draining;
                }
            }
            Change::Rebalance(on) => map.rebalancing = *on,
            Change::AddNodes(new) => new.apply(map),
            Change::RemoveNode(node) => {
                let holds = map.volumes.values().any(|v| v.nodes().contains(node));
                let info = map.nodes.get_mut(usize::from(node.0));
                let gone = |i: &&mut NodeInfo| !i.up && (i.given_up || i.draining || i.is_host);
                if let Some(info) = info.filter(|i| !holds && gone(i)) {
                    info.removed = true;
                }
            }
        }
    }
}

impl Authority {
    /// An authority that takes up the map as it was last stored. No node runs yet.
    pub fn new(map: ClusterMap) -> Authority {
        Authority {
            next: map.clone(),
            map,
            running: BTreeMap::new(),
            given_up: Vec::new(),
            restarted: Vec::new(),
            caught_up: Vec::new(),
            changes: Vec::new(),
            wakes: false,
            phase: Phase::Settled,
            proposed: 0,
            settled_once: false,
        }
    }

    /// The map in force.
    pub fn map(&self) -> &ClusterMap {
        &self.map
    }

    /// Whether no change is under way.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled)
    }

    /// Handles one input.
    pub fn handle(&mut self, input: AuthorityInput, out: &mut Vec<AuthorityOutput>) {
        match input {
            AuthorityInput::Start(nodes) => {
                let stays = |a: &Arrival| !self.has_left(a.node);
                self.running = nodes.into_iter().filter(stays).map(|n| (n.node, n)).collect();
                self.propose(out);
            }
            AuthorityInput::NodeDown(node) => {
                self.running.remove(&node);
                self.restarted.retain(|n| *n != node);
                self.caught_up.retain(|n| *n != node);
                self.propose(out);
            }
            // Its process has others, and does not know yet.
            AuthorityInput::NodeUp(arrival) if self.has_left(arrival.node) => {}
            AuthorityInput::NodeUp(arrival) => {
                let node = arrival.node;
                self.running.insert(node, arrival);
                self.given_up.retain(|n| *n != node);
                self.restarted.push(node);
                self.caught_up.retain(|n| *n != node);
                self.propose(out);
            }
            AuthorityInput::GiveUp(node) => {
                if !self.runs(node) {
                    self.given_up.push(node);
                    self.propose(out);
                }
            }
            AuthorityInput::AddVolume(volume) => self.change(Change::AddVolume(volume), out),
            AuthorityInput::SizeVolume(id, to) => self.change(Change::SizeVolume(id, to), out),
            AuthorityInput::SetPolicy(id, to) => self.change(Change::SetPolicy(id, to), out),
            AuthorityInput::RemoveVolume(id) => self.change(Change::RemoveVolume(id), out),
            AuthorityInput::Drain(node, on) => self.change(Change::Drain(node, on), out),
            AuthorityInput::Rebalance(on) => self.change(Change::Rebalance(on), out),
            AuthorityInput::AddNodes(new) => self.change(Change::AddNodes(new), out),
            AuthorityInput::RemoveNode(node) => self.change(Change::RemoveNode(node), out),
            AuthorityInput::Report(node, report) => self.report(node, report, out),
            AuthorityInput::Stored(epoch) => self.stored(epoch, out),
        }
    }

    fn change(&mut self, change: Change, out: &mut Vec<AuthorityOutput>) {
        self.changes.push(change);
        self.propose(out);
    }

    fn has_left(&self, node: NodeId) -> bool {
        self.map.nodes.get(usize::from(node.0)).is_some_and(|i| i.removed)
    }

    fn runs(&self, node: NodeId) -> bool {
        self.running.contains_key(&node)
    }

    fn members(&self) -> Vec<NodeId> {
        (0..self.map.nodes.len() as u16).map(NodeId).filter(|n| self.runs(*n)).collect()
    }

    /// Starts (or starts over) a change to what is known now.
    fn propose(&mut self, out: &mut Vec<AuthorityOutput>) {
        self.next = self.map.clone();
        self.proposed = self.proposed.max(self.map.epoch) + 1;
        self.next.epoch = self.proposed;
        self.phase = Phase::Freezing { frozen: BTreeMap::new() };
        for node in self.members() {
            out.push(AuthorityOutput::Tell(node, MapMessage::Freeze { epoch: self.next.epoch }));
        }
        self.try_freeze(out);
    }

    fn report(&mut self, node: NodeId, report: MemberReport, out: &mut Vec<AuthorityOutput>) {
        match report {
            MemberReport::Frozen { epoch, oldest, clock, written, busy, memory, heard } => {
                if let Phase::Freezing { frozen } = &mut self.phase
                    && epoch == self.next.epoch
                {
                    frozen.insert(node, Frozen { oldest, clock, written, busy, memory, heard });
                    self.try_freeze(out);
                }
            }
            MemberReport::CaughtUp { epoch } => {
                let current = epoch == self.map.epoch && self.is_settled();
                if current && self.map.is_stale(node) {
                    self.caught_up.push(node);
                    self.propose(out);
                }
            }
            MemberReport::Wake { epoch } => {
                let map = &self.map;
                let current = epoch == map.epoch && self.is_settled();
                if current && map.volumes.values().any(|v| map.rests(v)) {
                    self.wakes = true;
                    self.propose(out);
                }
            }
        }
    }

    /// When all have stopped, makes the new map.
    fn try_freeze(&mut self, out: &mut Vec<AuthorityOutput>) {
        let Phase::Freezing { frozen } = &self.phase else { return };
        let members = self.members();
        if members.is_empty() || !members.iter().all(|n| frozen.contains_key(n)) {
            return;
        }
        let oldest = frozen.values().map(|f| f.oldest).min().expect("not empty");
        // All of them may have been started again with clocks that were set back: then those who counted
        // from a later time on would have no say in what is written next, and the latest clock is that
        // of a write, which may be unsettled.
        let latest = latest_right(frozen).max(self.map.latest_timestamp());
        let floor = Timestamp::new(latest.micros() + 1, NodeId(0));
        let idle = !frozen.values().any(|f| f.busy);
        let forgot = &forgetful(&self.map, frozen);
        let fresh = frozen.iter().filter(|(_, f)| f.memory.began == 0);
        let looked_at = &fresh.map(|(node, _)| *node).collect();
        let members = &members;
        let kept = |node: NodeId| known_of(node, &self.map, frozen).collect::<Vec<_>>();
        let reached = members.iter().map(|node| (*node, kept(*node))).collect();
        self.make_map(&Findings { members, oldest, floor, idle, forgot, looked_at });
        self.keep_reached(reached);
        self.phase = Phase::Storing { floor };
        out.push(AuthorityOutput::Store(Arc::new(self.next.clone())));
    }

    /// The map says how far disks have got: nothing that is written later is needed to know it.
    fn keep_reached(&mut self, reached: BTreeMap<NodeId, Vec<Reached>>) {
        for (node, known) in reached {
            let Some(info) = self.next.nodes.get_mut(usize::from(node.0)) else { continue };
            let of_its_disk = known.into_iter().filter(|r| r.disk == info.disk);
            info.reached = of_its_disk.reduce(Reached::merge).unwrap_or_default();
        }
    }

    fn make_map(&mut self, findings: &Findings<'_>) {
        let Findings { members, floor, .. } = *findings;
        // Who was down, and is to leave for good, may have come back since that was asked for.
        let is_back = |c: &&Change| matches!(c, Change::RemoveNode(n) if members.contains(n));
        let changes = self.changes.iter().filter(|c| !is_back(c));
        changes.for_each(|change| change.apply(&mut self.next));
        for node in self.caught_up.iter().filter(|n| members.contains(n)) {
            self.next.volumes.values_mut().for_each(|v| moves::filled(v, *node));
        }
        let empty = self.take_attendance_of_nodes(members);
        for node in &empty {
            self.next.volumes.values_mut().for_each(|v| moves::fill(v, *node, floor));
        }
        let volumes: Vec<Arc<Volume>> = self.next.volumes.values().cloned().collect();
        for volume in &volumes {
            let mut attendance = self.next.attendance.remove(&volume.id).unwrap_or_default();
            attendance.stale_since.retain(|n, _| !empty.contains(n));
            attendance.forgot.retain(|n| !empty.contains(n));
            self.attend(volume, &mut attendance, findings);
            attendance.counts_from.extend(empty.iter().map(|n| (*n, floor)));
            self.next.attendance.insert(volume.id, attendance);
        }
        for (id, volume) in &mut self.next.volumes {
            if let Some(a) = self.next.attendance.get(id) {
                moves::stop_copying(volume, |n| {
                    !a.away.contains(&n) && !a.stale_since.contains_key(&n)
                });
            }
        }
        moves::move_columns(&mut self.next, floor);
        balance::rebalance(&mut self.next, floor);
        self.next.assert_sound();
        let volumes = &self.next.volumes;
        self.next.attendance.retain(|id, a| {
            let nodes = volumes.get(id).map(|v| v.nodes()).unwrap_or_default();
            a.away.retain(|n| nodes.contains(n));
            a.stale_since.retain(|n, _| nodes.contains(n));
            a.counts_from.retain(|n, _| nodes.contains(n));
            a.forgot.retain(|n| nodes.contains(n));
            *a != Attendance::default()
        });
    }

    /// Says of each node whether it is up and what disk it has. Returns those whose disks are
    /// not the ones that the map knew: they are empty.
    fn take_attendance_of_nodes(&mut self, members: &[NodeId]) -> Vec<NodeId> {
        let mut empty = Vec::new();
        for (n, info) in self.next.nodes.iter_mut().enumerate() {
            let node = NodeId(n as u16);
            let running = self.running.get(&node).filter(|_| members.contains(&node));
            let given_up = info.given_up || self.given_up.contains(&node);
            let Some(arrival) = running else {
                (info.up, info.given_up) = (false, given_up);
                continue;
            };
            if info.disk != 0 && arrival.disk != info.disk {
                empty.push(node);
            }
            *info = NodeInfo {
                up: true,
                given_up: false,
                disk: arrival.disk,
                sectors: arrival.sectors,
                ..info.clone()
            };
        }
        empty
    }

    /// Who takes part in a volume from now on, and who has missed what of it.
    fn attend(&self, volume: &Volume, a: &mut Attendance, findings: &Findings<'_>) {
        let Findings { members, oldest, floor, .. } = *findings;
        a.stale_since.retain(|n, _| !(self.caught_up.contains(n) && members.contains(n)));
        let behind = a.stale_since.clone();
        let runs = |n: NodeId| members.contains(&n);
        let nodes = volume.nodes();
        // Who has started again since it was found to have forgotten, and is found not to have, has its disk
        // back.
        a.forgot.retain(|n| !findings.looked_at.contains(n));
        a.forgot.extend(findings.forgot.iter().filter(|n| nodes.contains(n)));
        let forgot = a.forgot.clone();
        let unsound = |n: NodeId| {
            !runs(n) || a.away.contains(&n) || behind.contains_key(&n) || forgot.contains(&n)
        };
        if volume.is_lost_with(unsound) || self.may_rest(volume, a, findings) {
            // It sleeps: nobody goes on without anybody. Who has come back takes part again all the
            // same: the others may need what it has to catch up.
            a.counts_from.extend(a.away.iter().filter(|n| runs(**n)).map(|n| (*n, floor)));
            a.away.retain(|n| !runs(*n));
            return;
        }
        // One that was not missed when it went and came may have lost what it was told; but if
        // the volume would then have too few, it is waited for as after a power cut.
        let lapsed = |n: NodeId| runs(n) && self.has_lapsed(volume, n);
        let lapse = !volume.is_lost_with(|n| unsound(n) || lapsed(n));
        // Who has forgotten may have missed anything, and has no say in what came before.
        for node in std::mem::take(&mut a.forgot) {
            a.stale_since.insert(node, Timestamp::ZERO);
            a.counts_from.insert(node, floor);
        }
        for node in volume.nodes() {
            let was_away = a.away.contains(&node);
            let left = !was_away && (!runs(node) || (lapse && lapsed(node)));
            if left {
                let since = a.stale_since.entry(node).or_insert(oldest);
                *since = oldest.min(*since);
            }
            if runs(node) && (was_away || left) {
                a.counts_from.insert(node, floor);
            }
        }
        a.away = volume.nodes().into_iter().filter(|n| !runs(*n)).collect();
    }

    /// Whether a volume may rest: nodes have left it, and nobody has anything in work. It sleeps then, as
    /// one that has lost too many, though it could go on: so who has left misses nothing, is current when
    /// it is back, and may be the one without which others could not be made whole. With anything to write it goes on without them ([`MemberReport::Wake`]).
    ///
    /// A volume whose columns are to be moved or rebuilt has no rest.
    fn may_rest(&self, volume: &Volume, a: &Attendance, findings: &Findings<'_>) -> bool {
        let map = &self.next;
        let nodes = volume.nodes();
        let info = |n: &NodeId| map.nodes.get(usize::from(n.0));
        let moves = |n: &NodeId| info(n).is_some_and(|i| i.given_up || i.draining);
        let whole = |e: &Extent| e.filling.is_empty() && e.leaving.is_empty();
        findings.idle
            && !self.wakes
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

    fn stored(&mut self, epoch: Epoch, out: &mut Vec<AuthorityOutput>) {
        let Phase::Storing { floor } = self.phase else { return };
        if epoch != self.next.epoch {
            return;
        }
        self.map = self.next.clone();
        self.phase = Phase::Settled;
        self.restarted.clear();
        self.caught_up.clear();
        self.changes.clear();
        self.given_up.clear();
        self.wakes = false;
        self.settled_once = true;
        let map = Arc::new(self.map.clone());
        for node in self.members().into_iter().filter(|n| map.is_up(*n)) {
            out.push(AuthorityOutput::Tell(node, MapMessage::Enter { map: map.clone(), floor }));
        }
        // One that was admitted by this map, and came before it was known to be stored: it has not stopped for
        // it, and enters the next.
        if self.members().iter().any(|n| !map.is_up(*n)) {
            self.propose(out);
        }
    }
}

#[cfg(test)]
mod tests;
