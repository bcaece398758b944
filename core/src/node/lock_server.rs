//! The lock server (shared storage, 4.2): one node keeps the locks of all disks, for volumes that
//! are ordered so.
//!
//! Originators ask for all the locks of a transaction at once, so nothing can wait in a circle.
//! Under callback locks they keep what they got, and are asked for it when another wants it.
//! Locks are leased: what nobody gives back is free when its lease ends, and who still believes
//! to hold it is stopped by its timestamp (see `worker_ordering.rs`).
//!
//! In every epoch the server is the node that [`ClusterMap::server`] says. It begins with what
//! all originators tell it that they hold, and grants nothing before.
//!
//! In simulations several may share the work (4.3): each has the locks of every n-th disk. Originators ask one after the
//! other, in one order, so that again nothing can wait in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::outbox::Outbox;
use super::{Body, LockMessage, NodeConfig, Output, Timer};
use crate::cluster::ClusterMap;
use crate::order::{Lock, LockTable};
use crate::units::{Nanos, NodeId, Timestamp};

/// Who asked, and the number that it gave its wish.
type Owner = (NodeId, u64);

/// What was granted.
#[derive(Clone, Debug, Hash)]
struct Lease {
    since: Nanos,
    /// Its owner keeps it until it is called back.
    kept: bool,
    called: bool,
}

/// A node's lock server; idle unless the node is the one.
#[derive(Clone, Hash)]
pub(crate) struct LockServer {
    config: NodeConfig,
    table: LockTable<Owner>,
    leases: BTreeMap<Owner, Lease>,
    /// Of those who wait: whether they will keep it.
    keeps: BTreeMap<Owner, bool>,
    /// Those who have not said what they hold.
    unheard: BTreeSet<NodeId>,
    /// What came before all had: who, the number, and the rest of the message.
    early: Vec<(Owner, Vec<Lock>, bool)>,
    /// When it last looked for leases that are over.
    swept: Nanos,
    /// The latest timestamp that anyone who gave back a lock had seen.
    latest: Timestamp,
    timer_is_set: bool,
}

impl LockServer {
    pub fn new(config: NodeConfig) -> LockServer {
        LockServer {
            config,
            table: LockTable::default(),
            leases: BTreeMap::new(),
            keeps: BTreeMap::new(),
            unheard: BTreeSet::new(),
            early: Vec::new(),
            swept: 0,
            latest: Timestamp::ZERO,
            timer_is_set: false,
        }
    }

    /// A new epoch: what the server knows is what it will be told.
    pub fn enter(&mut self, map: &ClusterMap, floor: Timestamp, outbox: &mut Outbox) {
        self.table.clear();
        self.leases.clear();
        self.keeps.clear();
        self.early.clear();
        self.latest = self.latest.max(floor);
        self.unheard.clear();
        let servers = map.lock_servers(self.config.lock_servers);
        if servers.contains(&outbox.node()) && map.locks_are_served() {
            self.unheard = map.up().collect();
            self.set_timer(outbox);
        }
    }

    /// An originator says what it holds.
    pub fn on_held(
        &mut self,
        from: NodeId,
        held: Vec<(u64, Vec<Lock>, bool)>,
        outbox: &mut Outbox,
    ) {
        if !self.unheard.remove(&from) {
            return;
        }
        for (id, locks, kept) in held {
            self.table.hold((from, id), locks);
            self.leases.insert((from, id), Lease { since: outbox.now, kept, called: false });
        }
        if self.unheard.is_empty() {
            for (owner, locks, keeps) in std::mem::take(&mut self.early) {
                self.ask(owner, locks, keeps, outbox);
            }
        }
    }

    /// An originator wants locks.
    pub fn on_ask(
        &mut self,
        from: NodeId,
        id: u64,
        locks: Vec<Lock>,
        back: &[u64],
        keeps: bool,
        outbox: &mut Outbox,
    ) {
        self.on_back(from, back, Timestamp::ZERO, outbox);
        if !self.unheard.is_empty() {
            self.early.push(((from, id), locks, keeps));
            return;
        }
        self.ask((from, id), locks, keeps, outbox);
    }

    fn ask(&mut self, owner: Owner, locks: Vec<Lock>, keeps: bool, outbox: &mut Outbox) {
        self.sweep(outbox);
        if self.table.ask(owner, locks) {
            self.grant(owner, keeps, outbox);
            return;
        }
        if self.keeps.insert(owner, keeps).is_none() {
            outbox.push(Output::Delayed(owner.0));
        }
        let holders = self.table.holders(self.table.locks_of(owner));
        self.expire(holders.iter().copied(), outbox);
        self.call_back(holders, outbox);
        self.set_timer(outbox);
    }

    fn grant(&mut self, owner: Owner, kept: bool, outbox: &mut Outbox) {
        self.keeps.remove(&owner);
        let lease = Lease { since: outbox.now, kept, called: false };
        self.leases.entry(owner).or_insert(lease);
        let message = LockMessage::Grant { id: owner.1, latest: self.latest };
        outbox.send(owner.0, Body::Lock(message));
    }

    /// An originator gives locks back, or wants them no more.
    pub fn on_back(&mut self, from: NodeId, ids: &[u64], latest: Timestamp, outbox: &mut Outbox) {
        self.latest = self.latest.max(latest);
        for id in ids {
            self.early.retain(|e| e.0 != (from, *id));
            self.release((from, *id), outbox);
        }
    }

    fn release(&mut self, owner: Owner, outbox: &mut Outbox) {
        self.leases.remove(&owner);
        self.keeps.remove(&owner);
        for owner in self.table.release(owner) {
            let keeps = self.keeps.get(&owner).is_some_and(|k| *k);
            self.grant(owner, keeps, outbox);
            // Some may wait for those who have only just got it.
            if keeps && !self.table.waiters(self.table.locks_of(owner)).is_empty() {
                self.call_back([owner], outbox);
            }
        }
    }

    /// Asks those of these who keep what they have to give it back.
    fn call_back(&mut self, owners: impl IntoIterator<Item = Owner>, outbox: &mut Outbox) {
        let mut calls: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        for owner in owners {
            if let Some(lease) = self.leases.get_mut(&owner)
                && lease.kept
                && !std::mem::replace(&mut lease.called, true)
            {
                calls.entry(owner.0).or_default().push(owner.1);
            }
        }
        for (node, ids) in calls {
            outbox.send(node, Body::Lock(LockMessage::Call { ids }));
        }
    }

    /// Those who hold what others wait for.
    fn wanted(&self) -> BTreeSet<Owner> {
        self.table.waiting().flat_map(|(_, locks)| self.table.holders(locks)).collect()
    }

    /// Takes back what these hold, if their lease is over.
    fn expire(&mut self, owners: impl IntoIterator<Item = Owner>, outbox: &mut Outbox) {
        let over = |l: &Lease| l.since + self.config.lease <= outbox.now;
        let over = owners.into_iter().filter(|o| self.leases.get(o).is_none_or(over));
        for owner in over.collect::<Vec<_>>() {
            self.release(owner, outbox);
        }
    }

    /// Forgets now and then what is kept and whose lease is over, wanted or not: else the table
    /// would grow with every lock that was ever kept.
    fn sweep(&mut self, outbox: &mut Outbox) {
        if outbox.now < self.swept + self.config.lease / 8 {
            return;
        }
        self.swept = outbox.now;
        let over = |l: &Lease| l.kept && l.since + self.config.lease <= outbox.now;
        let over = self.leases.iter().filter(|(_, l)| over(l)).map(|(owner, _)| *owner);
        for owner in over.collect::<Vec<_>>() {
            self.release(owner, outbox);
        }
    }

    fn set_timer(&mut self, outbox: &mut Outbox) {
        if !std::mem::replace(&mut self.timer_is_set, true) {
            outbox.push(Output::Timer(Timer::LockServer, self.config.lock_timeout));
        }
    }

    /// Somebody has waited for some time: leases may be over, and messages lost.
    pub fn on_timer(&mut self, outbox: &mut Outbox) {
        self.timer_is_set = false;
        for node in &self.unheard {
            outbox.send(*node, Body::Lock(LockMessage::Tell));
        }
        self.expire(self.wanted(), outbox);
        let waited = self.table.waiting().next().is_some();
        if waited {
            self.leases.values_mut().for_each(|l| l.called = false);
            self.call_back(self.wanted(), outbox);
        }
        if waited || !self.unheard.is_empty() {
            self.set_timer(outbox);
        }
    }
}
