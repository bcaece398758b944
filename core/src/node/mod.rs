//! A node: one originator and one worker with its disk, as a deterministic state machine.
//!
//! One way in, [`Node::handle`]; one way out, [`Output`]s, which take effect in order: [`drive`] hands each to
//! the [`Environment`]. A host's request first goes through [`sequencing`], which knows what it is to come after.
//! The life of a write: [`originator`] cuts it into chunks, plans each and tells the workers; each [`worker`] reads,
//! sends, combines and prepares its own cells; the originator counts the votes and answers; the outcome follows.

mod account;
mod assembly;
#[cfg(test)]
mod away_tests;
mod back_off;
mod background;
mod calculator;
mod catchup;
mod check;
mod config;
#[cfg(test)]
mod controller_tests;
mod controlling;
#[cfg(test)]
mod copies_tests;
#[cfg(test)]
mod device_locks_tests;
mod endpoint;
mod environment;
mod fault;
#[cfg(test)]
mod frozen_tests;
mod host_op;
mod io;
mod judge;
mod key;
#[cfg(test)]
mod leading_tests;
mod lock_server;
mod message;
mod originator;
mod outbox;
mod pace;
#[cfg(test)]
mod recall_tests;
mod request_message;
mod roles;
mod running;
mod sequence_message;
mod sequencing;
mod settle;
mod spare;
mod status;
mod task;
#[cfg(test)]
mod test_bench;
#[cfg(test)]
mod used_tests;
#[cfg(test)]
mod waiting_tests;
mod witness;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::{Attendance, ClusterMap};
use crate::order::{Clock, Origin, Place};
use crate::store::Reached;
use crate::units::{Epoch, MILLIS, Nanos, NodeId, Timestamp, VolumeId};

pub use crate::cluster::{MapMessage, MemberReport, Memory, Undescribed};
pub use back_off::BackOff;
pub use background::ALL;
pub use config::{NodeConfig, Rebuilding};
pub use environment::{Environment, drive};
pub use fault::Bug;
pub use host_op::{HostData, HostError, HostOp, LostRange, MOST_LOST, MOST_UNCLEAR, Modification};
pub use io::{Input, Output, Timer};
pub use judge::Trust;
pub use key::Key;
pub use message::{
    Body, DirtySector, Envelope, Header, Item, LockMessage, Notice, Recollection, Refusal, Run,
    Standing, Task, Wanted,
};
pub use originator::{RunningMedian, ScrubFindings, ScrubProgress, Spent};
pub use pace::{FillRates, UNBOUNDED};
pub use request_message::{Ask, Holder, Stage, Wish};
pub use sequence_message::{Account, Claim, SequenceMessage, SequenceReport};
pub use sequencing::{backup_of, primary_of};
pub use status::{Exposed, NodeCounters, NodeStatus, SlowAt, SlowNode};

use background::Background;
use controlling::Controlling;
use endpoint::Endpoint;
use lock_server::LockServer;
use originator::{Originator, whole_stripes};
use outbox::Outbox;
use sequencing::Sequencing;
use worker::Worker;

/// A node.
#[derive(Clone, Hash)]
pub struct Node {
    id: NodeId,
    config: NodeConfig,
    map: Arc<ClusterMap>,
    serving: bool,
    /// The epoch that a freeze announced.
    coming: Epoch,
    /// The first epoch that it has entered; 0 before.
    began: Epoch,
    /// By how much its clock is ahead of the cluster's time, if it is wrong.
    clock_is_ahead: Nanos,
    /// What its disk had lost of what it promised is in the map.
    loss_is_known: bool,
    stash: Vec<Envelope>,
    /// Where the hosts' requests in work come from, as far as that is known.
    origins: BTreeMap<u64, Origin>,
    sequencing: Sequencing,
    endpoint: Endpoint,
    controlling: Controlling,
    originator: Originator,
    lock_server: LockServer,
    worker: Worker,
    background: Background,
    outbox: Outbox,
}

/// Messages of a coming epoch that are kept until it is entered.
const STASH: usize = 4096;

impl Node {
    /// A node that begins to open its disk, which has `disk_sectors` sectors; with 0 it has none, and
    /// is no more than an originator.
    pub fn new(id: NodeId, cluster: u128, disk_sectors: u64, config: NodeConfig) -> Node {
        let config = config.with_store_bug();
        Node {
            id,
            config,
            map: Arc::new(ClusterMap::default()),
            serving: false,
            coming: 0,
            began: 0,
            clock_is_ahead: 0,
            loss_is_known: false,
            stash: Vec::new(),
            origins: BTreeMap::new(),
            sequencing: Sequencing::new(id, config),
            endpoint: Endpoint::new(id, config),
            controlling: Controlling::default(),
            originator: Originator::new(id, config),
            lock_server: LockServer::new(config),
            worker: Worker::new(id, cluster, disk_sectors, config),
            background: Background::new(&config),
            outbox: Outbox::new(id, config.notice_delay),
        }
    }

    /// Its number.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The incarnation of its disk, once open.
    pub fn disk(&self) -> u64 {
        self.worker.store.incarnation()
    }

    /// Data sectors of its disk, once open.
    pub fn data_sectors(&self) -> u64 {
        self.worker.store.data_sectors()
    }

    /// The map that it goes by.
    pub fn cluster_map(&self) -> &ClusterMap {
        &self.map
    }

    /// How far its disk had got when it was opened, how far it has got by now, and whether this is the first epoch that it
    /// has entered since.
    pub fn found_and_reached(&self) -> (Reached, Reached, bool) {
        let store = &self.worker.store;
        (store.found(), store.reached(), self.began == self.map.epoch)
    }

    /// How far another node's disk has got, as far as this one has heard.
    pub fn heard_of(&self, node: NodeId) -> Option<Reached> {
        self.outbox.witness.heard_of(node)
    }

    /// Whether its disk knows by itself that it has forgotten what it promised.
    pub fn forgot(&self) -> bool {
        self.worker.store.forgot()
    }

    /// Bytes of committed changes that it holds in memory because they are not in place.
    pub fn held_bytes(&self) -> u64 {
        self.worker.store.held_bytes()
    }

    /// Bytes that it has added up for parity so far.
    pub fn xor_bytes(&self) -> u64 {
        self.outbox.counters.xor_bytes + self.worker.store.added_bytes()
    }

    /// Those of them that its worker's disk alone waits for: a write can be voted for before.
    pub fn summed_to_write(&self) -> u64 {
        self.outbox.counters.summed_to_write
    }

    /// Handles one input at time `now`, and appends what is to be done to `out`.
    pub fn handle(&mut self, now: Nanos, input: Input, out: &mut Vec<Output>) {
        self.outbox.now = now;
        match input {
            Input::Message(envelope) => self.message(envelope),
            Input::Disk(id, result) => self.worker.store.done(id, result),
            Input::Timer(timer) => self.timer(timer),
            Input::Host(id, volume, op) => self.host(id, volume, None, op),
            Input::Ordered(id, volume, place, op) => self.host(id, volume, Some(place), op),
            Input::Named(id, volume, origin, place, op) => {
                self.origins.insert(id, origin);
                self.host(id, volume, place, op);
            }
            Input::HostGone(_) if !self.config.heeds_leavers() => {}
            Input::HostGone(id) => {
                if !self.sequencing.gone(id, &mut self.outbox) {
                    self.abandon(id);
                }
            }
            Input::Map(message) => self.map_message(message),
            Input::Full(is_full) => self.worker.disk_is_full(is_full),
        }
        self.run();
        self.outbox.finish(self.worker.store.reached(), out);
    }

    /// Starts what a new node has to start.
    pub fn start(&mut self, out: &mut Vec<Output>) {
        self.run();
        self.outbox.finish(self.worker.store.reached(), out);
    }

    fn host(&mut self, id: u64, volume: VolumeId, place: Option<Place>, op: HostOp) {
        if !self.serving && self.map.epoch == 0 {
            self.outbox.reply(id, Err(HostError::NotServing));
            return;
        }
        let op = match place {
            Some(place) => {
                self.sequencing.ordered(id, volume, place, op, &mut self.outbox);
                return;
            }
            None => self.sequencing.host(id, volume, op, &mut self.outbox),
        };
        if let Some(op) = op {
            self.begin(id, volume, op);
        }
    }

    /// How far others' disks have got. That is true whatever epoch it comes from.
    fn hear(&mut self, envelope: &Envelope) {
        let witness = &mut self.outbox.witness;
        if envelope.from != self.id && witness.hear(envelope.from, envelope.reached) {
            self.worker.store.hear(envelope.from, envelope.reached);
        }
        for (node, reached) in envelope.heard.iter().copied().filter(|(n, _)| *n != self.id) {
            if witness.hear_of(node, reached) {
                self.worker.store.hear(node, reached);
            }
        }
    }

    fn message(&mut self, mut envelope: Box<Envelope>) {
        self.hear(&envelope);
        if envelope.epoch > self.map.epoch {
            if self.stash.len() < STASH {
                self.stash.push(*envelope);
            }
            return;
        }
        let is_old = envelope.epoch < self.map.epoch;
        if (is_old && self.config.fences()) || !self.serving {
            return;
        }
        for notice in &envelope.notices {
            self.notice(envelope.from, *notice);
        }
        let (from, hops) = (envelope.from, envelope.hops);
        let Some(body) = envelope.body.take() else { return self.outbox.spare.keep(envelope) };
        self.outbox.spare.keep(envelope);
        self.outbox.hops = hops;
        self.dispatch(from, body);
        self.outbox.hops = 0;
    }

    fn dispatch(&mut self, from: NodeId, body: Body) {
        if let Body::Request(ask) = body {
            return self.on_request(from, ask);
        }
        let (worker, originator, outbox) =
            (&mut self.worker, &mut self.originator, &mut self.outbox);
        match body {
            Body::Read { ts, volume, range, avoid, calculators, wanted, holder } => {
                let (asked, without) = ((volume, range), (avoid, calculators));
                worker.on_read((from, holder), ts, asked, without, wanted, outbox);
                worker.hear_shown(ts, outbox);
            }
            Body::Show { ts, to, items } => worker.on_show(from, ts, to, items, outbox),
            Body::ReadReply { ts, column, result } => {
                originator.hears(from, ts, outbox);
                originator.on_read_reply(ts, column, result, outbox);
            }
            Body::Write { header, items } => {
                worker.on_part(from, header, None, items, outbox);
                worker.hear_early(header.ts, outbox);
            }
            Body::Part { header, to, items } if header.is_for_column(to) => {
                worker.on_part(from, header, Some(to), items, outbox);
            }
            // Of a write whose bytes an endpoint holds only columns gather.
            Body::Part { header, .. } if header.holder.is_some() => {
                outbox.refuse(from, || {
                    format!("is not a node that sends a part of write {}", header.ts)
                });
            }
            Body::Part { header, items, .. } => {
                originator.hears(from, header.ts, outbox);
                originator.on_part(header, items, outbox);
            }
            Body::Vote { ts, column, vote } => {
                originator.hears(from, ts, outbox);
                originator.on_vote(from, ts, column, vote, outbox);
            }
            Body::PutBack { runs } => originator.on_put_back(from, runs, outbox),
            Body::Query { ts } => originator.on_query(from, ts, outbox),
            Body::QueryReply { ts, waiting } => worker.on_query_reply(ts, waiting, outbox),
            Body::Ask { ts } => worker.on_ask(from, ts, outbox),
            Body::Answer { ts, standing } => {
                originator.hears(from, ts, outbox);
                originator.on_answer(from, ts, standing, outbox);
                worker.on_answer(from, ts, standing, outbox);
            }
            Body::Flush { id } => worker.on_flush(from, id),
            Body::Flushed { id } => originator.on_flushed(from, id, outbox),
            Body::Refresh { id, volume, range } => {
                originator.wants_redundant(volume, range, outbox.now);
                worker.on_refresh(from, id, volume, range, outbox);
            }
            Body::Refreshed { id, left } => originator.on_refreshed(from, id, left, outbox),
            Body::Lost { id, volume, range } => worker.on_lost(from, id, volume, range, outbox),
            Body::LostHere { id, bytes, found } => {
                originator.on_lost_here(from, id, bytes, found, outbox);
            }
            Body::Exposed { id, volume, range } => {
                worker.on_exposed(from, id, volume, range, outbox);
            }
            Body::ExposedHere { id, until, found } => {
                originator.on_exposed_here(from, id, until, found, outbox);
            }
            Body::Recall { id, request, since, volume, range } => {
                worker.on_recall(from, id, request, since, (volume, range), outbox);
            }
            Body::Recalled { id, happened, recollection } => {
                originator.on_recalled(from, id, happened, recollection, outbox);
            }
            Body::Lock(message) => self.lock_message(from, message),
            Body::Dirty { extents } => worker.on_dirty(from, extents),
            Body::DirtyReply { found, marked, owed } => {
                worker.on_dirty_reply(from, found, marked, owed);
            }
            Body::Sequence(message) => self.sequencing.message(from, message, outbox),
            Body::Request(_) => unreachable!("dealt with above"),
            Body::Done { volume, number, result, counted } => {
                self.endpoint.on_done(from, (volume, number), result, counted, outbox);
            }
            Body::Resend { volume, number } => {
                let clock = self.originator.clock();
                self.endpoint.on_anew(from, (volume, number), clock, &mut self.outbox);
            }
            Body::Fetch { header, column } => self.endpoint.on_fetch(from, header, column, outbox),
            Body::Place { holder, ts, volume, range, avoid, calculators, column, pieces } => {
                let attempt = (ts, range, avoid, calculators);
                self.endpoint.on_place(from, holder, volume, attempt, (column, pieces), outbox);
            }
        }
    }

    fn lock_message(&mut self, from: NodeId, message: LockMessage) {
        let (server, originator, outbox) =
            (&mut self.lock_server, &mut self.originator, &mut self.outbox);
        match message {
            LockMessage::Ask { id, locks, back, keeps } => {
                server.on_ask(from, id, locks, &back, keeps, outbox);
            }
            LockMessage::Back { ids, latest } => server.on_back(from, &ids, latest, outbox),
            LockMessage::Held { held } => server.on_held(from, held, outbox),
            LockMessage::Grant { id, latest } => originator.on_grant(from, id, latest, outbox),
            LockMessage::Call { ids } => originator.on_call(from, &ids, outbox),
            LockMessage::Tell => originator.tell_held(from, outbox),
        }
    }

    fn notice(&mut self, from: NodeId, notice: Notice) {
        match notice {
            Notice::Commit(ts) => self.worker.on_commit(from, ts, &mut self.outbox),
            Notice::Abort(_) if !self.config.heeds_aborts() => {}
            Notice::Abort(ts) => self.worker.on_abort(ts, &mut self.outbox),
            Notice::Release(ts) => self.worker.on_release(ts),
            Notice::Unlock(ts) => self.worker.on_unlock(ts),
            Notice::Ack(ts) => {
                self.originator.hears(from, ts, &self.outbox);
                self.originator.on_ack(from, ts, &mut self.outbox);
            }
            Notice::Awaited(ts) => self.originator.on_awaited(from, ts, &mut self.outbox),
        }
    }

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Soon => {
                self.outbox.soon_is_set = false;
                self.worker.store.flush_outcomes();
                self.outbox.flush_notices();
            }
            Timer::Tick => {
                self.outbox.tick_is_set = false;
                if self.serving {
                    self.sequencing.tick(&mut self.outbox);
                    self.originator.tick(&mut self.outbox);
                    self.endpoint.tick(self.originator.clock(), &mut self.outbox);
                    self.worker.tick(&mut self.outbox);
                }
            }
            Timer::LockServer => self.lock_server.on_timer(&mut self.outbox),
            Timer::Locks => self.worker.on_lock_timer(&mut self.outbox),
            Timer::Retry => self.originator.on_retry(&mut self.outbox),
            Timer::Hedge => self.originator.on_hedge(self.serving, &mut self.outbox),
            // What follows looks at it.
            Timer::Refresh => {
                let now = self.outbox.now;
                self.outbox.refresh_at = self.outbox.refresh_at.filter(|at| *at > now);
            }
        }
    }

    fn is_busy(&self) -> bool {
        self.sequencing.is_busy()
            || self.endpoint.is_busy()
            || self.originator.is_busy()
            || self.worker.is_busy()
    }

    fn map_message(&mut self, message: MapMessage) {
        // Until its disk is open a node has nothing to say; the authority hears of it then.
        if !self.worker.is_open() {
            return;
        }
        match message {
            MapMessage::Freeze { epoch } => {
                if epoch <= self.map.epoch || epoch < self.coming {
                    return;
                }
                self.serving = false;
                self.sequencing.freeze();
                self.coming = epoch;
                // A clock that stood ahead before a restart must not issue a name twice.
                let clock = self.originator.clock().reading(self.outbox.now);
                let reached = self.originator.clock().reached();
                let written =
                    reached.max(self.worker.store.latest()).max(self.worker.latest_begun());
                let latest = clock.max(written);
                let oldest = self.worker.oldest_unsettled().unwrap_or(latest).min(latest);
                let busy = self.sequencing.has_requests()
                    || self.endpoint.is_busy()
                    || self.originator.is_busy()
                    || self.worker.oldest_unsettled().is_some();
                let (memory, heard) = (self.memory(), self.outbox.witness.known());
                let undescribed = self.worker.say_undescribed();
                self.outbox.report(MemberReport::Frozen {
                    epoch,
                    oldest,
                    clock,
                    written,
                    busy,
                    memory,
                    heard,
                    undescribed,
                });
            }
            MapMessage::Enter { map, floor } => {
                if map.epoch <= self.map.epoch || map.epoch < self.coming {
                    return;
                }
                self.enter(map, floor);
            }
        }
    }

    /// How its disk stands with what it promised before it was opened.
    fn memory(&self) -> Memory {
        let store = &self.worker.store;
        let found = if self.loss_is_known { Reached::default() } else { store.found() };
        let (reached, forgot) = (store.reached(), store.forgot() && !self.loss_is_known);
        Memory { found, reached, began: self.began, forgot }
    }

    /// The map says whether the disk had lost anything that it promised.
    fn enter_memory(&mut self) {
        if self.began == 0 {
            self.began = self.map.epoch;
        }
        let id = self.id;
        let all = |a: &Attendance| a.stale_since.get(&id) == Some(&Timestamp::ZERO);
        let waits = self.map.attendance.values().any(|a| a.forgot.contains(&id));
        self.loss_is_known |= waits || self.map.attendance.values().any(all);
        // While a volume waits for what it had promised it begins no life: it would seem to know of all before.
        match waits {
            true => self.worker.store.forgotten(),
            false => {
                self.worker.store.forgiven();
                self.worker.store.begin_life(self.map.epoch);
            }
        }
    }

    fn enter(&mut self, map: Arc<ClusterMap>, floor: Timestamp) {
        let before = std::mem::replace(&mut self.map, map).epoch;
        self.enter_memory();
        self.serving = true;
        self.outbox.enter(self.map.epoch);
        self.enter_time(floor);
        self.originator.per_disk = self.worker.most_bytes();
        self.background.enter(self.config.fill, &self.map.settings);
        self.worker.enter(&self.map, floor, &mut self.outbox);
        self.lock_server.enter(&self.map, floor, &mut self.outbox);
        self.enter_roles(before);
        self.sequencing.enter(&self.map, &mut self.outbox);
        for envelope in std::mem::take(&mut self.stash) {
            self.message(Box::new(envelope));
        }
    }

    /// Every write from now on is later than `floor`.
    fn enter_time(&mut self, floor: Timestamp) {
        let wrong = self.originator.clock().enter(self.outbox.now, floor).saturating_mul(1000);
        // It is said again only if it has been set anew meanwhile.
        if wrong.abs_diff(self.clock_is_ahead) > 1000 * MILLIS {
            let (id, seconds) = (self.id, wrong / MILLIS / 1000);
            self.outbox.log(format!(
                "the clock of {id}'s machine is {seconds} s ahead of the cluster's time, which is \
                 used instead; set it, and restart the process"
            ));
        }
        self.clock_is_ahead = wrong;
        self.worker.clock_is_ahead = wrong;
    }

    /// No timestamp that it issues from now on is earlier: what its clock shows, if that is right, or when the epoch began.
    /// Before its first epoch it does not know.
    pub fn reading(&mut self, now: Nanos) -> Timestamp {
        match self.began {
            0 => Timestamp::ZERO,
            _ => self.originator.clock().earliest(now),
        }
    }

    /// Whether it serves in this epoch.
    pub fn serves_in(&self, epoch: Epoch) -> bool {
        self.serving && self.map.epoch == epoch
    }

    /// The epoch that it serves in, if it serves.
    pub fn serves(&self) -> Option<Epoch> {
        self.serving.then_some(self.map.epoch)
    }

    /// The writes that its worker has begun and not forgotten, and what it knows of each.
    pub fn writes(&self) -> impl Iterator<Item = (Timestamp, Standing)> + '_ {
        self.worker.writes()
    }

    /// Sectors of its disk that it has yet to catch up on; `None` until it knows.
    pub fn stale_sectors(&self) -> Option<u64> {
        self.worker.stale_sectors()
    }

    /// Stripes and bytes of a volume that parity which waits on its disk exposes now.
    pub fn exposed_now(&self, volume: VolumeId) -> (u64, u64) {
        self.worker.exposed_now(volume)
    }

    /// Whether writes of earlier epochs are undecided on its disk.
    pub fn settles_earlier_writes(&self) -> bool {
        self.worker.settles_earlier_writes()
    }
}

/// The clock of a node's originator, by another name so that `node` reads well.
pub(crate) type NodeClock = Clock;
