//! An originator requests locks from the lock servers, keeps them and gives them back. It also gives back the locks
//! that devices serve.
//!
//! A job waits here until it has all its locks, and only then begins, with a timestamp later than those of all previous
//! holders; so timestamps refuse nothing that locks allow.

use std::collections::{BTreeMap, VecDeque};

use super::{Job, Originator, RunningJob, State, What};
use crate::cluster::{ClusterMap, Volume};
use crate::layout::Geometry;
use crate::node::outbox::Outbox;
use crate::node::{Body, LockMessage, Notice, Output, Task};
use crate::order::{Lock, LockTable, Ordering, joined};
use crate::plan::{PlanError, ReadPlan, Role, Span, Spans, WritePlan};
use crate::units::{ColumnSet, Nanos, NodeId, SECTOR, Timestamp};

/// The locks that a job has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Locked {
    /// The numbers under which they were granted.
    ids: Vec<u64>,
    /// Its turn among the jobs here, if originators keep locks.
    turn: Option<u64>,
    /// The columns that the job avoided when it asked.
    pub avoid: ColumnSet,
}

/// A job that asks one server after the other. Each is asked for all of the job's locks that it serves, once the
/// servers before it have granted theirs: so there is no deadlock.
#[derive(Clone, Hash)]
struct Asking {
    job: Job,
    avoid: ColumnSet,
    /// The locks requested now.
    locks: Vec<Lock>,
    /// The locks to request from other servers.
    later: VecDeque<Vec<Lock>>,
    /// The numbers under which the other locks were granted.
    granted: Vec<u64>,
    turn: Option<u64>,
    since: Nanos,
}

/// A job that waits for another of the same originator.
#[derive(Clone, Hash)]
struct Queued {
    job: Job,
    avoid: ColumnSet,
    locks: Vec<Lock>,
}

#[derive(Clone, Hash)]
struct Held {
    locks: Vec<Lock>,
    since: Nanos,
    /// Jobs that have it.
    users: usize,
    /// It is kept without a job, until it is called back.
    keeps: bool,
}

/// An originator's locks and requests at the lock servers.
#[derive(Clone, Default, Hash)]
pub(super) struct Locks {
    asking: BTreeMap<u64, Asking>,
    held: BTreeMap<u64, Held>,
    /// The servers of the held locks.
    places: LockTable<u64>,
    /// The kept locks, in the order of their leases' ends; some have been given back by now.
    leases: VecDeque<(Nanos, u64)>,
    /// The number of locks held for jobs.
    in_use: usize,
    /// Kept locks belong to the originator, not to a job; these are the jobs that have them or wait, by turns.
    own: LockTable<u64>,
    queued: BTreeMap<u64, Queued>,
    next: u64,
    /// The lock servers of this epoch.
    servers: Vec<NodeId>,
}

/// The server of a disk's locks: servers take disks in turn.
fn server_of(servers: &[NodeId], locks: &[Lock]) -> Option<NodeId> {
    let disk = locks.first().map_or(0, |lock| usize::from(lock.disk.0));
    servers.get(disk % servers.len().max(1)).copied()
}

impl Locks {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn is_busy(&self) -> bool {
        !self.asking.is_empty() || !self.queued.is_empty() || self.in_use > 0
    }

    fn hold(&mut self, id: u64, held: Held) {
        self.places.hold(id, held.locks.clone());
        if held.keeps {
            self.leases.push_back((held.since, id));
        }
        self.in_use += usize::from(held.users > 0);
        self.held.insert(id, held);
    }

    /// One more job uses it.
    fn share(&mut self, id: u64) {
        let held = self.held.get_mut(&id).expect("a held lock");
        self.in_use += usize::from(held.users == 0);
        held.users += 1;
    }

    /// Forgets a lock, and returns the server that gets it back.
    fn drop_held(&mut self, id: u64) -> Option<(NodeId, u64)> {
        let held = self.held.remove(&id)?;
        self.in_use -= usize::from(held.users > 0);
        self.places.release(id);
        Some((server_of(&self.servers, &held.locks)?, id))
    }

    /// Locks by their servers, in the order in which those are asked.
    fn by_server(&self, locks: Vec<Lock>) -> VecDeque<Vec<Lock>> {
        let mut parts: BTreeMap<usize, Vec<Lock>> = BTreeMap::new();
        let many = self.servers.len().max(1);
        for lock in locks {
            parts.entry(usize::from(lock.disk.0) % many).or_default().push(lock);
        }
        if parts.is_empty() { VecDeque::from([Vec::new()]) } else { parts.into_values().collect() }
    }

    /// Forgets unused locks whose lease ended before `over`: the server has taken them back.
    fn expire(&mut self, over: Nanos) {
        while let Some((since, id)) = self.leases.front().copied()
            && since < over
        {
            self.leases.pop_front();
            if self.held.get(&id).is_some_and(|h| h.users == 0) {
                self.drop_held(id);
            }
        }
    }
}

impl Originator {
    /// Requests locks for a job, which continues when it has them.
    pub(super) fn lock(
        &mut self,
        job: Job,
        locks: Vec<Lock>,
        avoid: ColumnSet,
        keeps: bool,
        outbox: &mut Outbox,
    ) {
        if !keeps {
            return self.acquire(job, locks, avoid, None, outbox);
        }
        let turn = self.locks.number();
        if self.locks.own.ask(turn, locks.clone()) {
            return self.acquire(job, locks, avoid, Some(turn), outbox);
        }
        outbox.push(Output::Delayed(outbox.node()));
        self.locks.queued.insert(turn, Queued { job, avoid, locks });
    }

    /// Uses kept locks, or asks the server.
    fn acquire(
        &mut self,
        mut job: Job,
        locks: Vec<Lock>,
        avoid: ColumnSet,
        turn: Option<u64>,
        outbox: &mut Outbox,
    ) {
        let keeps = turn.is_some();
        // The server takes a lock back at the end of the lease; its keeper stops a little earlier.
        let fresh = self.config.lease / 8 * 7;
        let over = outbox.now.saturating_sub(self.config.lease);
        self.locks.expire(over);
        let good = |h: &Held| h.keeps && outbox.now.saturating_sub(h.since) < fresh;
        let cover = |lock: &Lock| {
            let covers = |h: &Held| good(h) && h.locks.iter().any(|l| l.covers(lock));
            self.locks.places.holders_near(lock).into_iter().find(|id| covers(&self.locks.held[id]))
        };
        if keeps && let Some(mut ids) = locks.iter().map(cover).collect::<Option<Vec<u64>>>() {
            ids.sort_unstable();
            ids.dedup();
            ids.iter().for_each(|id| self.locks.share(*id));
            job.locked = Some(Locked { ids, turn, avoid });
            self.jobs.ready(job);
            return;
        }
        let mut back = self.locks.places.holders(&locks);
        back.retain(|id| self.locks.held[id].users == 0);
        let back = back.into_iter().filter_map(|id| self.locks.drop_held(id)).collect();
        let mut later = self.locks.by_server(locks);
        let locks = later.pop_front().unwrap_or_default();
        let granted = Vec::new();
        self.ask(
            Asking { job, avoid, locks, later, granted, turn, since: outbox.now },
            back,
            outbox,
        );
    }

    /// Asks a server for its part of a job's locks, and gives back others with the same message.
    fn ask(&mut self, asking: Asking, back: Vec<(NodeId, u64)>, outbox: &mut Outbox) {
        let id = self.locks.number();
        if let Some(server) = server_of(&self.locks.servers, &asking.locks) {
            let (its, others): (Vec<_>, Vec<_>) = back.into_iter().partition(|b| b.0 == server);
            self.give_back(others, outbox);
            let back = its.into_iter().map(|(_, id)| id).collect();
            let (locks, keeps) = (asking.locks.clone(), asking.turn.is_some());
            let message = LockMessage::Ask { id, locks, back, keeps };
            outbox.send_after(server, Body::Lock(message), 1);
        }
        self.locks.asking.insert(id, Asking { since: outbox.now, ..asking });
    }

    /// A server grants the request with a number.
    pub fn on_grant(&mut self, from: NodeId, id: u64, latest: Timestamp, outbox: &mut Outbox) {
        self.clock.see(latest);
        let Some(mut asking) = self.locks.asking.remove(&id) else {
            if !self.locks.held.contains_key(&id) {
                self.give_back(vec![(from, id)], outbox);
            }
            return;
        };
        let (since, turn, keeps) = (asking.since, asking.turn, asking.turn.is_some());
        let locks = std::mem::take(&mut asking.locks);
        self.locks.hold(id, Held { locks, since, users: 1, keeps });
        asking.granted.push(id);
        if let Some(locks) = asking.later.pop_front() {
            self.ask(Asking { locks, ..asking }, Vec::new(), outbox);
            return;
        }
        asking.job.locked = Some(Locked { ids: asking.granted, turn, avoid: asking.avoid });
        self.jobs.ready(asking.job);
    }

    /// A server calls kept locks back.
    pub fn on_call(&mut self, from: NodeId, ids: &[u64], outbox: &mut Outbox) {
        let mut back = Vec::new();
        for id in ids {
            match self.locks.held.get_mut(id) {
                // It is given back when the last job has finished with it.
                Some(held) if held.users > 0 => held.keeps = false,
                // The grant may still be in transit.
                None if self.locks.asking.contains_key(id) => {}
                _ => {
                    self.locks.drop_held(*id);
                    back.push((from, *id));
                }
            }
        }
        self.give_back(back, outbox);
    }

    /// A job does not need its locks any more.
    pub(super) fn unlock_job(&mut self, job: &mut Job, outbox: &mut Outbox) {
        let Some(locked) = job.locked.take() else { return };
        let mut back = Vec::new();
        for id in locked.ids {
            let Some(held) = self.locks.held.get_mut(&id) else { continue };
            held.users -= 1;
            self.locks.in_use -= usize::from(held.users == 0);
            // A lock whose lease has ended meanwhile is no longer listed for that.
            let over = held.since + self.config.lease <= outbox.now;
            if held.users == 0 && (!held.keeps || over) {
                back.extend(self.locks.drop_held(id));
            }
        }
        self.give_back(back, outbox);
        let next = locked.turn.map(|turn| self.locks.own.release(turn));
        for turn in next.into_iter().flatten() {
            if let Some(Queued { job, avoid, locks }) = self.locks.queued.remove(&turn) {
                self.acquire(job, locks, avoid, Some(turn), outbox);
            }
        }
    }

    /// Gives locks back to these servers.
    fn give_back(&mut self, back: Vec<(NodeId, u64)>, outbox: &mut Outbox) {
        let mut of: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        for (server, id) in back {
            of.entry(server).or_default().push(id);
        }
        for (server, ids) in of {
            let latest = self.clock.latest(outbox.now);
            outbox.send(server, Body::Lock(LockMessage::Back { ids, latest }));
        }
    }

    /// Reports the locks held here to a server of this epoch.
    pub fn tell_held(&mut self, server: NodeId, outbox: &mut Outbox) {
        let its = |h: &Held| server_of(&self.locks.servers, &h.locks) == Some(server);
        let held = self.locks.held.iter().filter(|(_, h)| its(h));
        let held = held.map(|(id, h)| (*id, h.locks.clone(), h.keeps)).collect();
        outbox.send(server, Body::Lock(LockMessage::Held { held }));
    }

    /// A new epoch, perhaps with other servers: held locks are reported there, and pending requests are repeated.
    pub(super) fn enter_locks(&mut self, outbox: &mut Outbox) {
        self.locks.servers = self.map.lock_servers(self.config.lock_servers);
        let asking = std::mem::take(&mut self.locks.asking);
        // A job with a part of its locks requests all of them.
        for id in asking.values().flat_map(|a| &a.granted) {
            self.locks.drop_held(*id);
        }
        if self.map.locks_are_served() {
            self.locks.servers.clone().into_iter().for_each(|s| self.tell_held(s, outbox));
        }
        let queued = std::mem::take(&mut self.locks.queued);
        let turns = asking.values().filter_map(|a| a.turn).chain(queued.keys().copied());
        // All of them ask again; none is left to be next.
        turns.for_each(|turn| drop(self.locks.own.release(turn)));
        self.jobs.all_ready(asking.into_values().map(|a| a.job));
        self.jobs.all_ready(queued.into_values().map(|q| q.job));
        if !self.map.locks_are_served() {
            let unused = self.locks.held.iter().filter(|(_, h)| h.users == 0);
            let unused: Vec<u64> = unused.map(|(id, _)| *id).collect();
            for id in unused {
                self.locks.drop_held(id);
            }
        }
    }

    /// Repeats requests without answer: a message may have been lost.
    pub(super) fn tick_locks(&mut self, outbox: &mut Outbox) {
        let Locks { servers, asking, .. } = &mut self.locks;
        for (id, asking) in asking {
            let Some(server) = server_of(servers, &asking.locks) else { return };
            if outbox.now.saturating_sub(asking.since) >= self.config.patience {
                asking.since = outbox.now;
                let (locks, keeps) = (asking.locks.clone(), asking.turn.is_some());
                let message = LockMessage::Ask { id: *id, locks, back: Vec::new(), keeps };
                outbox.send_after(server, Body::Lock(message), 1);
            }
        }
    }
}

/// The locks that a job needs: on the sectors that its plan reads and writes.
pub(super) fn needed(
    job: &Job,
    map: &ClusterMap,
    volume: &Volume,
    avoid: ColumnSet,
) -> Result<Vec<Lock>, PlanError> {
    let g = &volume.geometry;
    let mut out = Vec::new();
    let mut add = |stripe: u64, seat: usize, spans: Spans, exclusive: bool| {
        let column = g.layout.column_at(stripe, seat);
        let (disk, base) = (volume.extent(stripe).columns[column].0, volume.sector(stripe, seat));
        for span in spans.sectors_out().iter() {
            let sectors = base + span.lo / SECTOR..base + span.hi / SECTOR;
            out.push(Lock { disk, sectors, exclusive });
        }
    };
    let whole = Spans::from(Span::new(0, g.unit));
    let seats = || 0..g.layout.seats();
    match &job.what {
        What::Read(range) | What::Holes(range) | What::Own(range) | What::Compare(range, _) => {
            for row in ReadPlan::new(g, *range, avoid)?.rows {
                seats().for_each(|s| add(row.stripe, s, row.sent(g, s), false));
            }
        }
        What::Used(..) => {}
        What::Verify { stripe, .. } => seats().for_each(|s| add(*stripe, s, whole, false)),
        What::Write(range, _) => {
            add_write(g, &Task::Write(*range).plan(volume, avoid, ColumnSet::EMPTY)?, &mut add);
        }
        &What::Rebuild { stripe, stripes, column, part } => {
            let down = avoid.union(map.lost(volume, volume.extent_of(stripe)));
            let task = match job.with.is_empty() {
                true => Task::Rebuild { stripe, stripes, column, part },
                false => Task::Refresh { stripe, part, parities: job.with },
            };
            add_write(g, &task.plan(volume, down, ColumnSet::EMPTY)?, &mut add);
        }
        &What::Lose { stripe, column, part } => {
            add_write(g, &WritePlan::lose(g, stripe, column, part), &mut add);
        }
    }
    Ok(joined(out))
}

fn add_write(g: &Geometry, plan: &WritePlan, add: &mut impl FnMut(u64, usize, Spans, bool)) {
    for row in &plan.rows {
        for seat in 0..g.layout.seats() {
            let cell = row.cell(g, Role::Column(seat));
            add(row.stripe, seat, cell.reads(), false);
            add(row.stripe, seat, cell.writes(), true);
        }
    }
}

/// Gives back the locks that devices keep for a transaction until they are told that it has ended; those of writers end
/// with the write.
pub(super) fn unlock(ts: Timestamp, txn: &RunningJob, outbox: &mut Outbox) {
    if txn.policy.ordering == Ordering::DeviceLocks {
        unlock_columns(ts, txn, outbox);
    }
}

/// The same for a read that is given up: columns may wait for content that other columns will not send.
pub(super) fn unlock_given_up(ts: Timestamp, txn: &RunningJob, outbox: &mut Outbox) {
    match &txn.state {
        State::Reading(reading) if reading.columns_wait() => unlock_columns(ts, txn, outbox),
        _ => unlock(ts, txn, outbox),
    }
}

/// Tells the columns of a transaction that write nothing that it has ended.
fn unlock_columns(ts: Timestamp, txn: &RunningJob, outbox: &mut Outbox) {
    let columns = match &txn.state {
        State::Reading(r) => r.asked,
        State::Writing(w) => w.readers,
        State::Asking(..) | State::GivingUp(..) => ColumnSet::EMPTY,
    };
    for column in columns.iter() {
        outbox.notice_at_once(txn.volume.extents[txn.extent].columns[column].0, Notice::Unlock(ts));
    }
}
