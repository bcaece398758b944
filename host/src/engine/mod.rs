//! The nodes of this process, their disks, who rules them, and the messages between them:
//! everything except the sockets of hosts.
//!
//! [`Engine::run`] turns the crank until nothing is left to do. Messages go before disk
//! operations, so that all that a round of messages puts in a journal goes to disk as one
//! frame (group commit). The nodes themselves, with their messages and disk operations, are in [`lanes`]. How they start
//! and stop is in [`lives`], whether they may be given up in [`losing`], how the map comes about in [`rule`], what the disks keep of it in [`copies`], what is kept of what parity
//! exposes in [`measures`], how disks are claimed for nodes in [`taking`].

mod copies;
mod crank;
mod errors;
mod failures;
mod hung;
pub(crate) mod instance;
mod lane;
mod lanes;
mod lives;
mod losing;
mod measures;
mod rule;
mod slow;
pub(crate) mod taking;

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::time::Instant;

use weft_core::cluster::{ClusterMap, Volume};
use weft_core::node::{HostData, HostError, HostOp, Input, NodeStatus, Spent};
use weft_core::order::{Origin, Place};
use weft_core::units::{Epoch, Nanos, NodeId, Timestamp, VolumeId};
use weft_member::Gate;

use crate::clock::Clock;
use crate::disk::emulated::Emulation;
use crate::disk::map_copies::Wanted;
use crate::disk_timeout::DiskTimeout;
use crate::engine::instance::{Instance, Phase};
use crate::error::{Error, Result};
use crate::log::{About, Log};
use crate::polling::Polling;
use crate::slow_disk_timeout::SlowDiskTimeout;
use crate::volumes::{self, Exports, NewVolume, Served};

pub(crate) use self::lane::Bell;
use self::lane::{Disks, Lease, Seat};
use self::lanes::Lanes;
pub(crate) use self::lanes::Tally;
use self::measures::Measures;
pub(crate) use self::slow::Sighting;
use self::slow::SlowNodes;
use self::taking::IsTaken;
pub(crate) use rule::{Rule, Ticket};

/// An answer for the number that a request was given.
pub(crate) type Answer = (u64, std::result::Result<HostData, HostError>);

/// The most slow operations that the engine keeps until it is asked.
const MOST_SLOW: usize = 64;

/// The nodes and what joins them.
pub(crate) struct Engine {
    pub(crate) rule: Rule,
    /// By node number; also those of nodes in other processes.
    pub(crate) instances: Vec<Instance>,
    pub(crate) log: Log,
    /// Words of the authority to nodes, and what leaves the process: letters to others, and answers to hosts.
    gate: Gate<Answer>,
    /// Where the time of requests went that took long, and whose answers are on their way.
    spent: BTreeMap<u64, Spent>,
    /// Operations of nodes' disks that took long, and how long.
    slow_disks: Vec<(usize, Nanos)>,
    /// Nodes that have stopped, for the caller to take.
    pub(crate) stopped: Vec<usize>,
    /// The latest epoch in which one of these may have begun anything.
    pub(crate) last_epoch: Epoch,
    /// What makes going on impossible.
    pub(crate) fatal: Option<Error>,
    clock: Clock,
    /// The nodes of this process.
    lanes: Lanes,
    disks: Disks,
    /// The first start of all nodes: the authority waits until each is open or refused.
    starting: bool,
    /// The copy of the map that all disks are to have.
    wanted: Option<Wanted>,
    /// Something may be to be done for that.
    copies_due: bool,
    /// Hosts had their answers before the disks were given more.
    answers_went_first: bool,
    /// It has been said that the map is too long for copies.
    too_long: bool,
    measures: Measures,
    /// Whether a disk is being taken for a node that is to be added to an array in one process.
    is_adding: IsTaken,
    /// When it is looked next whether disks had errors.
    next_errors: Nanos,
    /// Nodes that are slow.
    slow: SlowNodes,
    /// When it is looked next whether disks answer.
    next_look: Nanos,
    /// How long a disk may take for an operation.
    pub(crate) disk_timeout: DiskTimeout,
    /// How long a disk may be slow.
    pub(crate) slow_disk_timeout: SlowDiskTimeout,
}

impl Engine {
    /// Nodes under this rule, none of them started.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub(crate) fn new(rule: Rule, log: Log) -> Result<Engine> {
        let instances = rule.instances();
        let (disks, no_ring) = Disks::new()?;
        let mut clock = Clock::default();
        clock.now();
        let lease =
            if rule.together().is_some() { Lease::default() } else { Lease::until(Nanos::MAX) };
        let mut lanes = Lanes::one(lease, rule.together().is_none());
        let here = |(_, instance): &(usize, &Instance)| instance.phase != Phase::Elsewhere;
        instances
            .iter()
            .enumerate()
            .filter(here)
            .for_each(|(n, _)| lanes.seat_at(n, Seat::default(), instances[n].disk_options.queue));
        let (measures, damaged) = Measures::open(rule.dir());
        if let Some(e) = damaged {
            log.warn(&format!("the exposure by deferred parity is counted from zero: {e}"));
        }
        if let Some(e) = no_ring {
            log.info(&format!("disk operations do not use io_uring: {e}"));
        }
        let mut engine = Engine {
            rule,
            instances,
            log,
            gate: Gate::default(),
            spent: BTreeMap::new(),
            slow_disks: Vec::new(),
            stopped: Vec::new(),
            last_epoch: 0,
            fatal: None,
            clock,
            lanes,
            disks,
            starting: true,
            wanted: None,
            copies_due: false,
            answers_went_first: false,
            too_long: false,
            measures,
            is_adding: IsTaken::default(),
            next_errors: 0,
            slow: SlowNodes::default(),
            next_look: 0,
            disk_timeout: DiskTimeout::default(),
            slow_disk_timeout: SlowDiskTimeout::default(),
        };
        engine.copy_map();
        Ok(engine)
    }

    /// The map in force.
    pub(crate) fn map(&self) -> &ClusterMap {
        self.rule.map()
    }

    /// The volumes that hosts can use.
    pub(crate) fn exports(&self) -> Exports<'_> {
        let process = self.rule.together().map_or(0, |together| together.us().0);
        Exports::of(self.map()).served(Served { cluster: self.rule.cluster(), process })
    }

    /// The first node from `from` on, in a circle, that takes requests.
    pub(crate) fn originator(&self, from: usize) -> Option<usize> {
        let takes = |n: &usize| {
            let instance = &self.instances[*n];
            instance.phase == Phase::Running
                && instance.entered
                && self.map().is_up(NodeId(*n as u16))
        };
        (from..self.instances.len()).chain(0..from.min(self.instances.len())).find(takes)
    }

    /// Whether a node has been told of a later map than this process has.
    pub(crate) fn expects_map(&self) -> bool {
        self.instances.iter().any(|instance| instance.coming > self.map().epoch)
    }

    /// Whether the map can be told to hosts as the present one: nodes of this process serve in it, under a lease, and
    /// have been told of no later one. A node's answer to a read requires the same.
    pub(crate) fn knows_map(&self) -> bool {
        self.originator(0).is_some() && !self.expects_map() && self.may_serve()
    }

    /// Whether nodes may serve at this moment.
    pub(crate) fn may_serve(&self) -> bool {
        self.rule.may_serve()
    }

    /// Whether hosts wait here for the node to take part again: it has no disk, so that its
    /// process is the hosts' own controller and no other process is as good, and it is coming back.
    pub(crate) fn hosts_wait(&self) -> bool {
        let comes = |s: &Instance| s.wanted || matches!(s.phase, Phase::Opening | Phase::Running);
        let comes_back = |s: &Instance| s.path.as_os_str().is_empty() && comes(s);
        self.rule.together().is_some()
            && self.originator(0).is_none()
            && self.instances.iter().any(comes_back)
    }

    /// Whether the last nodes of this process are about to stop, and others are in other processes.
    pub(crate) fn is_leaving(&self) -> bool {
        let any = |phase: Phase| self.instances.iter().any(|s| s.phase == phase);
        self.rule.together().is_some() && any(Phase::Draining) && !any(Phase::Running)
    }

    /// Hands a node a host's request; the answer comes with its number.
    pub(crate) fn submit(&mut self, n: usize, number: u64, volume: VolumeId, op: HostOp) {
        self.hand(n, Input::Host(number, volume, op));
    }

    /// Hands a node a host's request that has a place in the graph of requests.
    pub(crate) fn submit_ordered(
        &mut self,
        n: usize,
        number: u64,
        volume: VolumeId,
        place: Place,
        op: HostOp,
    ) {
        self.hand(n, Input::Ordered(number, volume, place, op));
    }

    /// Hands a node a host's request, with what is known of where it comes from.
    pub(crate) fn submit_named(
        &mut self,
        n: usize,
        number: u64,
        volume: VolumeId,
        (origin, place): (Origin, Option<Place>),
        op: HostOp,
    ) {
        self.hand(n, Input::Named(number, volume, origin, place, op));
    }

    /// What the nodes' clocks show, or when their epoch began: no timestamp that a node here issues from now on is earlier.
    pub(crate) fn reading(&mut self) -> Timestamp {
        let now = self.clock.now();
        let micros = self.lanes.reading();
        micros.map_or(Timestamp::reading(now, NodeId(0)), |m| Timestamp::new(m, NodeId(0)))
    }

    /// Nobody waits for the answer to this request of a node any more.
    pub(crate) fn abandon(&mut self, n: usize, number: u64) {
        self.hand(n, Input::HostGone(number));
    }

    /// Finds room for a new volume.
    pub(crate) fn place_volume(&self, new: &NewVolume) -> Result<Volume> {
        volumes::place(new, self.map())
    }

    /// Whether a node runs, in this process or, as far as the map knows, in another.
    pub(crate) fn runs(&self, node: NodeId) -> bool {
        match self.instances.get(usize::from(node.0)) {
            Some(instance) if instance.phase == Phase::Elsewhere => self.map().is_up(node),
            Some(instance) => instance.runs(),
            None => false,
        }
    }

    /// Whether nothing is in work anywhere and everything is in place.
    pub(crate) fn is_quiet(&self) -> bool {
        let quiet = |(n, s): (usize, &Instance)| match s.phase {
            Phase::Down => !s.wanted || s.trouble.is_some() || s.back_off.is_away(),
            Phase::Opening => false,
            Phase::Elsewhere => true,
            Phase::Running | Phase::Draining => self.status_of(n).is_some_and(|s| s.quiet),
        };
        self.is_settled()
            && self.lanes.are_empty()
            && self.instances.iter().enumerate().all(quiet)
            && self.copies_are_done()
    }

    /// What keeps the nodes from being quiet, in a few lines. What each has in work is in the log.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let mut out = Vec::new();
        if !self.is_settled() {
            out.push("the nodes do not agree on a map yet".to_string());
        }
        let (mut opening, mut full, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        for (n, instance) in self.instances.iter().enumerate() {
            match (instance.phase, self.status_of(n)) {
                (Phase::Opening, _) => opening.push(n),
                (_, Some(NodeStatus { quiet: false, waiting, .. })) => {
                    self.log.on(About::node(n)).info(&format!("unfinished: node {n}: {waiting}"));
                    if self.lacks_space(n).is_some() { full.push(n) } else { busy.push(n) }
                }
                _ => {}
            }
        }
        out.extend(nodes_that(&opening, "is opening its disk", "are opening their disks"));
        let wait = ("waits for free space on its disk", "wait for free space on their disks");
        out.extend(nodes_that(&full, wait.0, wait.1));
        out.extend(nodes_that(&busy, "has not finished its work", "have not finished their work"));
        out
    }

    /// What to poll for ends of disk operations.
    pub(crate) fn disk_fds(&self) -> impl Iterator<Item = RawFd> + use<> {
        self.disks.fds()
    }

    /// Has the nodes' disks take as long as others, and says what to poll for ends of operations.
    pub(crate) fn emulate(&mut self, emulation: Emulation) -> Result<RawFd> {
        self.disks.emulate(emulation)
    }

    /// Answers that hosts may be given now.
    pub(crate) fn take_answers(&mut self) -> Vec<Answer> {
        self.gate.take_answers(|| self.rule.may_serve())
    }

    /// Where the time of a request went that has been answered, if that is known.
    pub(crate) fn take_spent(&mut self, number: u64) -> Option<Spent> {
        self.spent.remove(&number)
    }

    /// Operations of nodes' disks that took long, and how long, since this was asked last; a few of them.
    pub(crate) fn take_slow_disks(&mut self) -> Vec<(usize, Nanos)> {
        std::mem::take(&mut self.slow_disks)
    }

    /// Whether there are answers that hosts may be given now.
    pub(crate) fn has_answers(&self) -> bool {
        self.gate.has_answers(|| self.rule.may_serve())
    }

    /// How many operations wait for a node's disk until it can be given them.
    pub(crate) fn disk_waiting(&self, n: usize) -> usize {
        match self.lanes.home(n) {
            0 => self.disks.waiting(n),
            _ => self.seat(n).map_or(0, |seat| seat.queued),
        }
    }

    /// How many lanes there are.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.count()
    }

    /// The lane of a node of this process.
    pub(crate) fn lane_of(&self, n: usize) -> usize {
        self.lanes.home(n)
    }

    /// What each lane has done.
    pub(crate) fn tallies(&self) -> Vec<Tally> {
        self.lanes.tallies()
    }

    /// The seat of a node of this process. Its lane stays with the reactor until [`Engine::rest`].
    pub(crate) fn seat(&self, n: usize) -> Option<&Seat> {
        self.lanes.seat(n)
    }

    /// As [`Engine::seat`].
    fn seat_mut(&mut self, n: usize) -> Option<&mut Seat> {
        self.lanes.seat_mut(n)
    }

    /// Gives a node of this process a seat.
    fn give_seat(&mut self, n: usize) {
        let Instance { life, disk_options, .. } = self.instances[n];
        self.lanes.seat_at(n, Seat::of_life(life), disk_options.queue);
    }

    /// Nodes from this one on were to be added, and are not.
    pub(crate) fn truncate(&mut self, n: usize) {
        (n..self.instances.len()).for_each(|n| self.lanes.unseat(n));
        self.instances.truncate(n);
    }

    /// The state of a node of this process, if it lives.
    pub(crate) fn status_of(&self, n: usize) -> Option<NodeStatus> {
        self.seat(n)?.status()
    }

    /// Disk operations of a node that have been begun, also by an earlier life.
    fn disk_ops(&self, n: usize) -> usize {
        self.seat(n).map_or(0, |seat| seat.disk_ops)
    }

    /// Looks how fast nodes catch up.
    pub(crate) fn look_at_pace(&mut self, now: Instant) {
        for n in 0..self.instances.len() {
            let behind = self.map().nodes.len() > n && self.map().is_stale(NodeId(n as u16));
            let seat = if behind { self.seat(n) } else { None };
            let stale = seat.and_then(|seat| seat.node.as_ref()?.stale_sectors());
            self.instances[n].look_at_pace(stale, now);
        }
    }

    /// An answer for a host, to be given when nodes may serve.
    pub(crate) fn answer(&mut self, answer: Answer) {
        self.gate.answer(answer);
    }

    /// Gives the lanes back to their threads that were looked into.
    pub(crate) fn rest(&mut self) {
        self.lanes.rest();
    }

    /// Whether the reactor may sleep for so long. If it may, lanes wake it when they have something to say.
    pub(crate) fn may_sleep(&mut self, longest: Option<Nanos>) -> bool {
        self.lanes.may_sleep(longest)
    }

    /// Whether lanes have said something on their threads.
    pub(crate) fn has_mail(&self) -> bool {
        self.lanes.has_mail()
    }

    /// Starts the lanes that are chosen, with threads but for the first, before any node runs. The bell wakes the reactor.
    ///
    /// # Errors
    /// If the system has not enough threads or descriptors.
    pub(crate) fn start_lanes(
        &mut self,
        chosen: crate::lanes::Lanes,
        bell: Bell,
        polling: Polling,
    ) -> Result<()> {
        if let Rule::Together(together) = &self.rule {
            let bell = bell.clone();
            together.wakes(move || bell.ring());
        }
        // Models of disks are worked on one thread.
        let emulated = self.disks.are_emulated();
        let count = if emulated { 1 } else { chosen.count(self.lanes.in_any_order()) };
        match self.lanes.start(count, &bell, polling, self.disks.have_ring()) {
            Err(why) if !chosen.is_chosen() => {
                let count = self.lanes.count();
                self.log.warn(&format!("the nodes of this process have only {count} lanes: {why}"));
                Ok(())
            }
            started => started,
        }
    }
}

/// What some nodes do, in words for one and for several; nothing if there are none.
fn nodes_that(nodes: &[usize], does: &str, do_so: &str) -> Option<String> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for n in nodes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *n => *last = *n,
            _ => runs.push((*n, *n)),
        }
    }
    let run = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    };
    let runs: Vec<String> = runs.iter().map(run).collect();
    match nodes.len() {
        0 => None,
        1 => Some(format!("node {} {does}", nodes[0])),
        _ => Some(format!("nodes {} {do_so}", runs.join(", "))),
    }
}

#[cfg(test)]
mod tests;
