//! The nodes of this process, their disks, who rules them, and the messages between them:
//! everything except the sockets of hosts.
//!
//! [`Engine::run`] turns the crank until nothing is left to do. Messages go before disk
//! operations, so that all that a round of messages puts in a journal goes to disk as one
//! frame (group commit). The nodes themselves, with their messages and disk operations, are in a [`lane`]. How they start
//! and stop is in [`lives`], how the map comes about in [`rule`], what the disks keep of it in [`copies`], what is kept of what parity
//! exposes in [`measures`].

mod copies;
pub(crate) mod instance;
mod lane;
mod lives;
mod measures;
mod rule;

use std::os::fd::RawFd;
use std::time::Instant;

use weft_core::cluster::{ClusterMap, Volume};
use weft_core::node::{Envelope, HostData, HostError, HostOp, Input, NodeStatus, Timer};
use weft_core::order::{Origin, Place};
use weft_core::units::{Epoch, Nanos, NodeId, Timestamp, VolumeId};
use weft_member::Gate;

use crate::clock::{Clock, boot_time};
use crate::disk::emulated::Emulation;
use crate::disk::map_copies::Wanted;
use crate::engine::instance::{Instance, Phase};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::volumes::{self, Exports, NewVolume};

use self::lane::{Disks, Lane, Said, Seat};
use self::measures::Measures;
pub(crate) use rule::{Rule, Ticket};

/// An answer for the number that a request was given.
pub(crate) type Answer = (u64, std::result::Result<HostData, HostError>);

/// For so long what comes is taken and worked on before what it leads to is sent to other processes.
const ROUND: Nanos = 100_000;

/// For so long nodes and disks keep one another busy before sockets and timers have their turn. Hosts would wait behind
/// work that nobody waits for: where disks are in memory, its operations end at once, and more of it begins.
const TURN: Nanos = 500_000;

/// Messages that are delivered between two looks at the clock.
const DELIVERED_TOGETHER: usize = 16;

/// The nodes and what joins them.
pub(crate) struct Engine {
    pub(crate) rule: Rule,
    /// By node number; also those of nodes in other processes.
    pub(crate) instances: Vec<Instance>,
    pub(crate) log: Log,
    /// Words of the authority to nodes, and what leaves the process: letters to others, and answers to hosts.
    gate: Gate<Answer>,
    /// Nodes that have stopped, for the caller to take.
    pub(crate) stopped: Vec<usize>,
    /// The latest epoch in which one of these may have begun anything.
    pub(crate) last_epoch: Epoch,
    /// What makes going on impossible.
    pub(crate) fatal: Option<Error>,
    clock: Clock,
    /// The nodes of this process.
    own: Lane,
    disks: Disks,
    /// The first start of all nodes: the authority waits until each is open or refused.
    starting: bool,
    /// The copy of the map that all disks are to have.
    wanted: Option<Wanted>,
    /// Something may be to be done for that.
    copies_due: bool,
    /// It has been said that the map is too long for copies.
    too_long: bool,
    measures: Measures,
}

impl Engine {
    /// Nodes under this rule, none of them started.
    pub(crate) fn new(rule: Rule, log: Log) -> Engine {
        let instances = rule.instances();
        let (disks, no_ring) = Disks::new();
        let mut clock = Clock::default();
        clock.now();
        let mut own = Lane::new(clock.clone());
        let here = |(_, instance): &(usize, &Instance)| instance.phase != Phase::Elsewhere;
        instances
            .iter()
            .enumerate()
            .filter(here)
            .for_each(|(n, _)| own.seat_at(n, Seat::default()));
        let (measures, damaged) = Measures::open(rule.dir());
        if let Some(e) = damaged {
            log.warn(&format!("what parity that waits has exposed is counted anew: {e}"));
        }
        if let Some(e) = no_ring {
            log.info(&format!("disks are worked without io_uring: {e}"));
        }
        let mut engine = Engine {
            rule,
            instances,
            log,
            gate: Gate::default(),
            stopped: Vec::new(),
            last_epoch: 0,
            fatal: None,
            clock,
            own,
            disks,
            starting: true,
            wanted: None,
            copies_due: false,
            too_long: false,
            measures,
        };
        engine.copy_map();
        engine
    }

    /// The map in force.
    pub(crate) fn map(&self) -> &ClusterMap {
        self.rule.map()
    }

    /// The volumes that hosts can use.
    pub(crate) fn exports(&self) -> Exports<'_> {
        Exports::of(self.map())
    }

    /// The first node from `from` on, in a circle, that takes requests.
    pub(crate) fn originator(&self, from: usize) -> Option<usize> {
        let takes = |n: &usize| {
            self.instances[*n].phase == Phase::Running && self.map().is_up(NodeId(*n as u16))
        };
        (from..self.instances.len()).chain(0..from.min(self.instances.len())).find(takes)
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
        self.input(n, Input::Host(number, volume, op));
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
        self.input(n, Input::Ordered(number, volume, place, op));
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
        self.input(n, Input::Named(number, volume, origin, place, op));
    }

    /// What the nodes' clocks show: no timestamp that a node here issues from now on is earlier.
    pub(crate) fn reading(&mut self) -> Timestamp {
        let now = self.clock.now();
        let micros = self.own.reading();
        micros.map_or(Timestamp::reading(now, NodeId(0)), |m| Timestamp::new(m, NodeId(0)))
    }

    /// Nobody waits for the answer to this request of a node any more.
    pub(crate) fn abandon(&mut self, n: usize, number: u64) {
        self.input(n, Input::HostGone(number));
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
            Phase::Down => !s.wanted,
            Phase::Opening => false,
            Phase::Elsewhere => true,
            Phase::Running | Phase::Draining => self.status_of(n).is_some_and(|s| s.quiet),
        };
        self.is_settled()
            && self.own.begins_nothing()
            && self.instances.iter().enumerate().all(quiet)
            && self.copies_are_done()
    }

    /// What keeps the nodes from being quiet, a line each.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let mut out = Vec::new();
        if !self.is_settled() {
            out.push("the nodes do not agree on a map yet".to_string());
        }
        for (n, instance) in self.instances.iter().enumerate() {
            match (instance.phase, self.status_of(n)) {
                (Phase::Opening, _) => out.push(format!("node {n}: it is opening its disk")),
                (_, Some(NodeStatus { quiet: false, waiting, .. })) => {
                    out.push(format!("node {n}: {waiting}"));
                }
                _ => {}
            }
        }
        out
    }

    /// What to poll for ends of disk operations.
    pub(crate) fn ring_fd(&self) -> Option<RawFd> {
        self.disks.ring_fd()
    }

    /// Has the nodes' disks take as long as others, and says what to poll for ends of operations.
    pub(crate) fn emulate(&mut self, emulation: Emulation) -> Result<RawFd> {
        self.disks.emulate(emulation)
    }

    /// Turns the crank until nothing is left that need not be waited for. Says whether it
    /// came to that: if nodes keep each other busy, or their disks, sockets and timers must have their turn.
    pub(crate) fn run(&mut self) -> bool {
        let end = boot_time() + TURN;
        let mut since = self.round_begins();
        loop {
            self.receive_mail();
            let is_over = self.deliver_until(end);
            let gives_way = self.start_disk_operations() || is_over;
            let any_ended = self.feed_ended();
            let goes_on = any_ended && !gives_way;
            if goes_on && self.is_in_round(since) {
                continue;
            }
            self.send_mail();
            since = self.round_begins();
            if any_ended && !gives_way {
                continue;
            }
            self.follow_lives();
            // Also where nodes have work all the time: the lease of this process is renewed there.
            self.follow_rule();
            if gives_way {
                return false;
            }
            if !self.has_work() {
                return true;
            }
        }
    }

    /// When a round begins that ends with letters to other processes, if there are any.
    fn round_begins(&self) -> Option<Nanos> {
        self.rule.together().map(|_| boot_time())
    }

    fn is_in_round(&self, since: Option<Nanos>) -> bool {
        since.is_none_or(|since| boot_time().saturating_sub(since) < ROUND)
    }

    /// Whether there is something that [`Engine::run`] would do.
    pub(crate) fn has_work(&self) -> bool {
        self.own.has_disk_work()
            || self.copies_due
            || self.gate.has_work(|| self.rule.may_serve())
            || self.own.gate.has_work(|| self.rule.may_serve())
            || self.rule.has_work()
    }

    /// Answers that hosts may be given now.
    pub(crate) fn take_answers(&mut self) -> Vec<Answer> {
        self.gate.take_answers(|| self.rule.may_serve())
    }

    /// Whether there are answers that hosts may be given now.
    pub(crate) fn has_answers(&self) -> bool {
        self.gate.has_answers(|| self.rule.may_serve())
    }

    /// Delivers what there is, until then. Says whether it is later by now.
    fn deliver_until(&mut self, end: Nanos) -> bool {
        loop {
            let delivered = (0..DELIVERED_TOGETHER).take_while(|_| self.deliver()).count();
            if boot_time() >= end {
                return true;
            }
            if delivered < DELIVERED_TOGETHER {
                return false;
            }
        }
    }

    /// Delivers the next word of the authority or message.
    fn deliver(&mut self) -> bool {
        if let Some((node, input)) = self.gate.next(|| self.rule.may_serve()) {
            self.input(usize::from(node.0), input);
            return true;
        }
        let delivered = self.own.deliver(|| self.rule.may_serve());
        self.hear();
        delivered
    }

    /// Begins what waits. Says whether it left something for when sockets have had their turn.
    fn start_disk_operations(&mut self) -> bool {
        self.start_copies();
        self.own.start_disk_operations(&mut self.disks).unwrap_or_else(|e| {
            self.fatal = Some(e);
            false
        })
    }

    /// How many operations wait for a node's disk until it can be given them.
    pub(crate) fn disk_waiting(&self, n: usize) -> usize {
        self.disks.waiting(n)
    }

    fn feed_ended(&mut self) -> bool {
        let ended = self.own.take_ended();
        let any = !ended.is_empty();
        for (tag, result) in ended {
            self.own.feed_ended(tag, result);
            self.hear();
        }
        any
    }

    /// The seat of a node of this process.
    pub(crate) fn seat(&self, n: usize) -> Option<&Seat> {
        self.own.seat(n)
    }

    /// As [`Engine::seat`].
    fn seat_mut(&mut self, n: usize) -> Option<&mut Seat> {
        self.own.seat_mut(n)
    }

    /// Gives a node of this process a seat.
    fn give_seat(&mut self, n: usize) {
        let life = self.instances[n].life;
        self.own.seat_at(n, Seat::of_life(life));
    }

    /// Nodes from this one on were to be added, and are not.
    pub(crate) fn truncate(&mut self, n: usize) {
        (n..self.instances.len()).for_each(|n| self.own.unseat(n));
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
            let node = self.seat(n).and_then(|seat| seat.node.as_ref());
            let stale = node.and_then(|node| node.stale_sectors());
            self.instances[n].look_at_pace(stale, now);
        }
    }

    fn input(&mut self, n: usize, input: Input) {
        self.own.input(n, input);
        self.hear();
    }

    /// Does what the nodes have said.
    fn hear(&mut self) {
        while let Some(said) = self.own.take_said() {
            self.heard(said);
        }
    }

    fn heard(&mut self, said: Said) {
        let lives = |n: usize, life: u64| self.instances[n].life == life;
        match said {
            Said::Letter(envelope) => self.send_envelope(envelope),
            Said::Answer(answer) => self.answer(answer),
            Said::Log(node, line) => self.log.info(&format!("node {}: {line}", node.0)),
            Said::Copy(tag, result) if lives(tag.node, tag.life) => self.copy_ended(tag, result),
            Said::Report(n, life, report) if lives(n, life) => self.report_of(n, report),
            Said::Ready(n, life) if lives(n, life) => self.node_ready(n),
            Said::Refused(n, life, why) if lives(n, life) => {
                let _ = self.kill_node(n, &format!("its disk was refused: {why}"));
            }
            Said::Failed(n, life, why) if lives(n, life) => {
                self.note_failure(NodeId(n as u16));
                let _ = self.kill_node(n, &format!("its disk failed: {why}"));
            }
            // That a node rests is looked for wherever one is to be started. The others are of lives that are over.
            Said::Rests
            | Said::Copy(..)
            | Said::Report(..)
            | Said::Ready(..)
            | Said::Refused(..)
            | Said::Failed(..) => {}
        }
    }

    /// An answer for a host, to be given when nodes may serve.
    pub(crate) fn answer(&mut self, answer: Answer) {
        self.gate.answer(answer);
    }

    fn send_envelope(&mut self, envelope: Box<Envelope>) {
        match self.instances.get(usize::from(envelope.to.0)) {
            Some(instance) if instance.phase == Phase::Elsewhere => self.gate.letter_out(envelope),
            _ => self.own.gate.letter(envelope),
        }
    }

    /// Whether a node has put something off until there is nothing better to do. What would wake
    /// other processes is not sooner done because this one is idle: it waits for its time, and
    /// for more to go with it.
    pub(crate) fn has_soon(&self) -> bool {
        self.rule.together().is_none() && self.own.has_soon()
    }

    /// Fires the [`Timer::Soon`]s, due or not.
    pub(crate) fn fire_soon(&mut self) {
        self.fire(Timer::Soon, u64::MAX);
    }

    /// Fires the timers that are due.
    pub(crate) fn fire_due(&mut self) {
        let now = self.clock.now();
        Timer::ALL.into_iter().for_each(|timer| self.fire(timer, now));
    }

    fn fire(&mut self, timer: Timer, now: u64) {
        for n in self.own.take_due(timer, now) {
            self.input(n, Input::Timer(timer));
        }
    }

    /// Nanoseconds until the next timer is due.
    pub(crate) fn next_due(&mut self) -> Option<u64> {
        let now = self.clock.now();
        let patience = self.instances.iter().filter_map(|s| s.patience);
        let due = patience.chain(self.own.deadline()).map(|d| d.saturating_sub(now));
        due.chain(self.rule.next_due()).min()
    }
}

#[cfg(test)]
mod tests;
