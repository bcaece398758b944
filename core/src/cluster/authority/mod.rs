//! The authority: the one that changes the map, so that all nodes that take part enter a
//! new epoch together.
//!
//! A change goes in two steps. *Freeze*: every node that will take part stops serving and
//! says how far back it has unsettled writes and how late its clock is. *Enter*: the map,
//! made durable first, takes effect. For each volume that goes on without it, a node that
//! leaves is marked stale from the oldest write that any other with a say had unsettled; one that returns
//! takes part at once but counts as stale until it has caught up. A volume that cannot go on
//! sleeps until enough of those have returned that took part last; one in which nobody has anything in work
//! when nodes leave rests until somebody has. What was on a node that is
//! given up moves to other disks, a few extents at a time, and is rebuilt there; so is what was
//! on a disk that an empty one has replaced, and what is on a node that is drained (see [`moves`](super::moves)).
//!
//! It is a state machine like a node. An array in one process has one; of several processes the one that
//! leads has it, and a map is stored when a majority has it (`weft-member`).

mod change;
mod fault;
mod frozen;
mod giving_up;
mod next_map;
mod policy;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use change::{Change, NewNodes, VolumeSize};
pub use fault::AuthorityBug;
pub use giving_up::{Absence, Hindrance, Prospect};
pub use policy::PolicyChange;

use super::map::{ClusterMap, NodeInfo};
use super::message::{MapMessage, MemberReport, Undescribed};
use crate::units::{Epoch, Nanos, NodeId, Timestamp, VolumeId};
use frozen::{Frozen, forgetful, known_of, latest_right, unsearched};
use giving_up::Absences;
use next_map::Findings;

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
/// What the authority is told.
#[derive(Clone, Debug, Hash)]
pub enum AuthorityInput {
    /// These nodes run, after a start of everything: nobody went on without anybody.
    Start(Vec<Arrival>),
    /// A node has been found dead.
    NodeDown(NodeId),
    /// A node that is down, or about to be, is so because its disk has failed.
    DiskFailed(NodeId),
    /// It is this time, by a clock that never goes back.
    Tick(Nanos),
    /// A node has started and wants to take part.
    NodeUp(Arrival),
    /// An operator has the map changed.
    Change(Change),
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
        /// How many of the changes were known when it was made.
        made: usize,
    },
}

/// What no parity described when nodes stopped for the map in force: copies of small writes (`redundancy=copied`), and content
/// whose parity waits. No column of such a volume goes from one disk to another: the other disk would have no copies, and
/// should it miss anything, the column could not be computed. Nor is a snapshot taken of a volume with copies, since it would
/// not show them.
#[derive(Clone, Debug, Default, Hash)]
struct Pending {
    /// The volumes, each with the nodes that have yet to report that they have computed its parity.
    on: BTreeSet<(VolumeId, NodeId)>,
    /// The volumes for which something waits.
    delayed: BTreeSet<VolumeId>,
    /// Changes that wait.
    changes: Vec<Change>,
}

impl Pending {
    /// A node has computed parity of these volumes. Says whether something may go on that waits.
    fn is_done(&mut self, node: NodeId, volumes: &[VolumeId]) -> bool {
        let done: Vec<_> = volumes.iter().filter(|id| self.on.remove(&(**id, node))).collect();
        let left = |id: VolumeId| self.on.range((id, NodeId(0))..=(id, NodeId(u16::MAX)));
        done.into_iter().any(|id| self.delayed.contains(id) && left(*id).next().is_none())
    }

    /// Whether a change waits that shows a volume.
    fn delay_any_of(&self, id: VolumeId) -> bool {
        let of = BTreeSet::from([id]);
        self.changes.iter().any(|change| !change.shown_of(&of).is_empty())
    }
}

/// The holder of the map.
#[derive(Clone, Debug, Hash)]
pub struct Authority {
    map: ClusterMap,
    /// The nodes that run, whether or not the map knows.
    running: BTreeMap<NodeId, Arrival>,
    /// Nodes that restarted since the map last saw them.
    restarted: Vec<NodeId>,
    /// Nodes that have caught up in the epoch in force, and on which volumes.
    caught_up: BTreeMap<NodeId, BTreeSet<VolumeId>>,
    /// Nodes that have merged deleted snapshots, in the epoch in force.
    merged: BTreeSet<NodeId>,
    /// Nodes that have copied what clones show of others, in the epoch in force.
    flattened: BTreeSet<NodeId>,
    changes: Vec<Change>,
    pending: Pending,
    /// Somebody has something to write to a volume that rests.
    wakes: bool,
    phase: Phase,
    next: ClusterMap,
    /// The highest epoch ever proposed.
    proposed: Epoch,
    settled_once: bool,
    absences: Absences,
}
impl Authority {
    /// An authority that takes up the map as it was last stored. No node runs yet.
    pub fn new(map: ClusterMap) -> Authority {
        Authority {
            next: map.clone(),
            map,
            running: BTreeMap::new(),
            restarted: Vec::new(),
            caught_up: BTreeMap::new(),
            merged: BTreeSet::new(),
            flattened: BTreeSet::new(),
            changes: Vec::new(),
            pending: Pending::default(),
            wakes: false,
            phase: Phase::Settled,
            proposed: 0,
            settled_once: false,
            absences: Absences::default(),
        }
    }

    /// The same with a deliberate bug, if there is one.
    pub fn with_bug(mut self, bug: Option<AuthorityBug>) -> Authority {
        self.absences.bug = bug;
        self
    }

    /// The map in force.
    pub fn map(&self) -> &ClusterMap {
        &self.map
    }

    /// Who is down and has not been given up, and what is to become of each.
    pub fn absences(&self) -> Vec<Absence> {
        self.absences.all(&self.map)
    }

    /// Whether no change is under way.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled)
    }

    /// Whether a map waits to be stored: changes that are asked for meanwhile are in the next one.
    pub fn is_storing(&self) -> bool {
        matches!(self.phase, Phase::Storing { .. })
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
                self.caught_up.remove(&node);
                self.merged.remove(&node);
                self.flattened.remove(&node);
                self.propose(out);
            }
            AuthorityInput::DiskFailed(node) => self.absences.disk_failed(node),
            AuthorityInput::Tick(now) => self.tick(now, out),
            // Its process has others, and does not know yet.
            AuthorityInput::NodeUp(arrival) if self.has_left(arrival.node) => {}
            AuthorityInput::NodeUp(arrival) => {
                let node = arrival.node;
                self.running.insert(node, arrival);
                self.absences.is_back(node);
                self.changes.retain(|c| *c != Change::GiveUp(node));
                self.restarted.push(node);
                self.caught_up.remove(&node);
                self.merged.remove(&node);
                self.flattened.remove(&node);
                self.propose(out);
            }
            // It is here, so it is not given up.
            AuthorityInput::Change(Change::GiveUp(node)) if self.runs(node) => {}
            AuthorityInput::Change(change) => {
                self.changes.push(change);
                // A change under way is not started over, or hosts that reserve volumes could keep all nodes stopped: its
                // map has this one too if it is not made yet, and otherwise the next has.
                if self.is_settled() {
                    self.propose(out);
                }
            }
            AuthorityInput::Report(node, report) => self.report(node, report, out),
            AuthorityInput::Stored(epoch) => self.stored(epoch, out),
        }
    }

    fn has_left(&self, node: NodeId) -> bool {
        let gone = |i: &NodeInfo| i.removed || i.is_replaced();
        self.map.nodes.get(usize::from(node.0)).is_some_and(gone)
    }

    fn runs(&self, node: NodeId) -> bool {
        self.running.contains_key(&node)
    }

    fn members(&self) -> Vec<NodeId> {
        (0..self.map.nodes.len() as u16).map(NodeId).filter(|n| self.runs(*n)).collect()
    }

    /// Looks who has been down for long, and begins to give them up.
    fn tick(&mut self, now: Nanos, out: &mut Vec<AuthorityOutput>) {
        let (map, running) = (&self.map, &self.running);
        self.absences.look(now, map, |n| running.contains_key(&n));
        if self.is_settled() && !self.running.is_empty() && self.absences.begins(&self.map) {
            self.propose(out);
        }
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
            MemberReport::Frozen {
                epoch,
                oldest,
                clock,
                written,
                busy,
                memory,
                heard,
                undescribed,
            } => {
                if let Phase::Freezing { frozen } = &mut self.phase
                    && epoch == self.next.epoch
                {
                    let said = Frozen { oldest, clock, written, busy, memory, heard, undescribed };
                    frozen.insert(node, said);
                    self.try_freeze(out);
                }
            }
            MemberReport::CaughtUp { epoch, volumes } => {
                let current = epoch == self.map.epoch && self.is_settled();
                if current && self.map.is_stale(node) {
                    self.caught_up.entry(node).or_default().extend(volumes);
                    self.propose(out);
                }
            }
            MemberReport::Merged { epoch, merged, flattened } => {
                if epoch == self.map.epoch && self.is_settled() {
                    self.merged.extend(merged.then_some(node));
                    self.flattened.extend(flattened.then_some(node));
                    let any = !self.map.merged_by(&self.merged).is_empty()
                        || !self.map.flattened_by(&self.flattened).is_empty();
                    if any {
                        self.propose(out);
                    }
                }
            }
            MemberReport::ParityDone { epoch, volumes } => {
                let current = epoch == self.map.epoch && self.is_settled();
                if current && self.pending.is_done(node, &volumes) {
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
        let oldest = &frozen.iter().map(|(node, f)| (*node, f.oldest)).collect();
        // All of them may have been started again with clocks that were set back: then those who counted
        // from a later time on would have no say in what is written next, and the latest clock is that
        // of a write, which may be unsettled.
        let latest = latest_right(frozen).max(self.map.latest_timestamp());
        let floor = Timestamp::new(latest.micros() + 1, NodeId(0));
        let idle = !frozen.values().any(|f| f.busy);
        let forgot = &forgetful(&self.map, frozen);
        let fresh = frozen.iter().filter(|(_, f)| f.memory.began == 0);
        let looked_at = &fresh.map(|(node, _)| *node).collect();
        let all = || frozen.iter().map(|(node, f)| (*node, &f.undescribed));
        let unsearched = unsearched(&self.map, looked_at);
        let exposed = all().flat_map(|(_, u)| u.exposed.iter().copied());
        let exposed = &exposed.chain(unsearched.iter().map(|(id, _)| *id)).collect();
        let copied = &all().flat_map(|(_, u)| u.copied.iter().copied()).collect();
        let of = |u: &Undescribed| [&u.copied[..], &u.refreshing[..]].concat();
        let on = all().flat_map(|(node, u)| of(u).into_iter().map(move |id| (id, node)));
        let on: BTreeSet<(VolumeId, NodeId)> = on.chain(unsearched).collect();
        let pending = &on.iter().map(|(id, _)| *id).collect();
        self.pending = Pending { on, ..Pending::default() };
        let written = &frozen.iter().map(|(node, f)| (*node, f.written)).collect();
        let members = &members;
        let kept = |node: NodeId| known_of(node, &self.map, frozen).collect::<Vec<_>>();
        let reached = members.iter().map(|node| (*node, kept(*node))).collect();
        self.make_map(&Findings {
            members,
            oldest,
            floor,
            idle,
            forgot,
            looked_at,
            written,
            exposed,
            copied,
            pending,
        });
        self.pending.on.retain(|(_, node)| self.next.is_up(*node));
        self.keep_reached(reached);
        self.phase = Phase::Storing { floor, made: self.changes.len() };
        out.push(AuthorityOutput::Store(Arc::new(self.next.clone())));
    }

    fn stored(&mut self, epoch: Epoch, out: &mut Vec<AuthorityOutput>) {
        let Phase::Storing { floor, made } = self.phase else { return };
        if epoch != self.next.epoch {
            return;
        }
        self.map = self.next.clone();
        self.phase = Phase::Settled;
        self.restarted.clear();
        self.caught_up.clear();
        self.merged.clear();
        self.flattened.clear();
        let later = self.changes.split_off(made.min(self.changes.len()));
        let is_behind = !later.is_empty();
        self.changes = std::mem::take(&mut self.pending.changes);
        self.changes.extend(later);
        self.wakes = false;
        self.settled_once = true;
        let map = Arc::new(self.map.clone());
        for node in self.members().into_iter().filter(|n| map.is_up(*n)) {
            out.push(AuthorityOutput::Tell(node, MapMessage::Enter { map: map.clone(), floor }));
        }
        // One that was admitted by this map, and came before it was known to be stored: it has not stopped for
        // it, and enters the next.
        if is_behind || self.members().iter().any(|n| !map.is_up(*n)) {
            self.propose(out);
        }
    }
}

#[cfg(test)]
mod tests;
