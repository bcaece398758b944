//! A lane: nodes that one thread runs at a time, with what waits for them and what they have said.
//!
//! A lane does nothing that leaves the process. Its nodes answer hosts, write to other processes and report to the
//! authority by what they have *said*, which the engine takes from the lane and does.

mod disks;
mod environment;
mod fault;
mod lease;
mod mail;
pub(crate) mod mailbox;
mod runner;
pub(crate) mod seat;
mod waiting;

use std::collections::VecDeque;

use weft_core::node::{Envelope, Input, MemberReport, Output, Spent, Timer, drive};
use weft_core::store::{DiskRequest, DiskResult, FormatError};
use weft_core::units::{MILLIS, Nanos, NodeId};
use weft_member::Gate;

use super::Answer;
use super::copies::COPY;
use crate::clock::Clock;
use crate::disk::queue::DiskQueue;
use crate::disk::uring::Tag;
use crate::error::{Error, Result};

pub(crate) use disks::Disks;
pub(crate) use lease::Lease;
pub(crate) use mail::{MESSAGE, Mail};
pub(crate) use runner::{Bell, Runner, Shared};
pub(crate) use seat::Seat;

use waiting::{Portion, Waiting};

/// One of this number of inputs is followed by a check of its node's invariants: a node whose memory is wrong must not go on.
const INPUTS_PER_CHECK: u64 = 1024;

/// Inputs that are handled between two looks at the clock, and at what has come meanwhile.
pub(crate) const HANDFUL: usize = 16;

/// What a lane's nodes have to say to others than themselves. A node's life is told where it matters that it lasts.
#[derive(Debug)]
pub(crate) enum Said {
    /// To a node that is not of this lane.
    Letter(Box<Envelope>),
    /// Where the time of a request went that is about to be answered.
    Spent(u64, Spent),
    /// To a host.
    Answer(Answer),
    /// To the authority.
    Report(usize, u64, MemberReport),
    /// A node has opened its disk.
    Ready(usize, u64),
    /// A node has refused its disk, and takes in nothing any more.
    Refused(usize, u64, FormatError),
    /// A node's disk has failed, and the node takes in nothing any more.
    Failed(usize, u64, String),
    /// To the operator.
    Log(NodeId, String),
    /// Something on a node's disk is damaged.
    Damaged(NodeId, String),
    /// An operation about the copies of the map has ended.
    Copy(Tag, DiskResult),
    /// The last operation of a node that is down has ended.
    Rests,
    /// An operation of a node's disk took so long.
    SlowDisk(usize, Nanos),
    /// Its thread cannot go on.
    Fatal(Error),
}

/// Of operations of a disk that took less nothing is said.
const SLOW_DISK: Nanos = 10 * MILLIS;

/// See the module.
pub(crate) struct Lane {
    /// By node number.
    seats: Vec<Option<Seat>>,
    /// Inputs from outside that wait for nothing but their turn.
    inputs: VecDeque<(usize, Input)>,
    /// Messages to its nodes.
    pub(super) gate: Gate<Answer>,
    /// Disk operations that are to be begun.
    waiting: Waiting,
    ended: Vec<(Tag, DiskResult)>,
    /// Always empty: its room is used again.
    outputs: Vec<Output>,
    said: VecDeque<Said>,
    clock: Clock,
    lease: Lease,
    /// What nodes put off is done as soon as there is nothing better to do.
    hurries: bool,
    /// Its disks are worked by its own thread alone: it keeps an order of their operations.
    stays: bool,
    /// Inputs that its nodes have handled.
    pub(super) handled: u64,
    /// How often the invariants of a node were checked.
    pub(super) checks: u64,
    /// How many of them on its own thread.
    pub(super) at_home: u64,
}

impl Lane {
    /// One without nodes. All lanes of a process go by the same clock.
    pub(super) fn new(clock: Clock, lease: Lease, hurries: bool) -> Lane {
        Lane {
            seats: Vec::new(),
            inputs: VecDeque::new(),
            gate: Gate::default(),
            waiting: Waiting::default(),
            ended: Vec::new(),
            outputs: Vec::new(),
            said: VecDeque::new(),
            clock,
            lease,
            hurries,
            stays: false,
            handled: 0,
            checks: 0,
            at_home: 0,
        }
    }

    /// Gives a node a seat here.
    pub(super) fn seat_at(&mut self, n: usize, seat: Seat) {
        if self.seats.len() <= n {
            self.seats.resize_with(n + 1, || None);
        }
        self.seats[n] = Some(seat);
    }

    /// A node has no place in the process any more.
    pub(super) fn unseat(&mut self, n: usize) {
        if let Some(seat) = self.seats.get_mut(n) {
            *seat = None;
        }
    }

    /// The seat of a node, if it is of this lane.
    pub(super) fn seat(&self, n: usize) -> Option<&Seat> {
        self.seats.get(n)?.as_ref()
    }

    /// As [`Lane::seat`].
    pub(super) fn seat_mut(&mut self, n: usize) -> Option<&mut Seat> {
        self.seats.get_mut(n)?.as_mut()
    }

    fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().flatten()
    }

    fn has(&self, n: usize) -> bool {
        self.seat(n).is_some()
    }

    fn life(&self, n: usize) -> u64 {
        self.seat(n).map_or(0, |seat| seat.life)
    }

    fn end(&mut self, n: usize) {
        if let Some(seat) = self.seat_mut(n) {
            seat.ended = true;
        }
    }

    /// Takes a node's seat, to give it to another lane.
    pub(super) fn take_seat(&mut self, n: usize) -> Option<Seat> {
        self.seats.get_mut(n)?.take()
    }

    /// How the disk of a node is served.
    pub(super) fn serve_queue(&mut self, queue: DiskQueue) {
        self.stays |= queue != DiskQueue::default();
    }

    /// Whether no thread but its own may work its disks.
    pub(super) fn stays(&self) -> bool {
        self.stays
    }

    /// What has come from outside.
    pub(super) fn receive(&mut self, mail: Vec<Mail>) {
        for mail in mail {
            match mail {
                // What was meant for an earlier life has been given to another node.
                Mail::Input(n, life, input) if self.life(n) == life => {
                    self.inputs.push_back((n, input))
                }
                Mail::Input(..) => {}
                Mail::Letter(letter) => self.gate.letter(letter),
                Mail::Ended(tag, result) => self.ended.push((tag, result)),
            }
        }
    }

    /// Inputs and messages that wait.
    pub(super) fn waits(&self) -> usize {
        self.inputs.len() + self.gate.letters()
    }

    /// Whether anything is to be done now.
    pub(super) fn has_work(&self) -> bool {
        !self.inputs.is_empty()
            || !self.ended.is_empty()
            || self.waiting.has_work()
            || self.gate.has_work(|| self.lease.holds())
    }

    /// Whether nothing is under way here but what nodes know of.
    pub(super) fn is_empty(&self) -> bool {
        self.waits() == 0
            && self.ended.is_empty()
            && self.waiting.is_empty()
            && self.said.is_empty()
    }

    /// Nothing that was said to the nodes so far is to reach them.
    pub(super) fn forget(&mut self) {
        self.gate.forget();
    }

    /// Whether the nodes have said anything.
    pub(super) fn has_said(&self) -> bool {
        !self.said.is_empty()
    }

    /// All that the nodes have said.
    pub(super) fn drain_said(&mut self) -> impl Iterator<Item = Said> + '_ {
        self.said.drain(..)
    }

    /// What the nodes have said since this was asked last, one by one.
    pub(super) fn take_said(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    /// Hands a node something.
    pub(super) fn input(&mut self, n: usize, input: Input) {
        let now = self.clock.now();
        let seat = self.seats.get_mut(n).and_then(Option::as_mut).filter(|s| !s.ended);
        let Some(node) = seat.and_then(|s| s.node.as_mut()) else { return };
        self.handled += 1;
        let mut outputs = std::mem::take(&mut self.outputs);
        node.handle(now, input, &mut outputs);
        if self.handled.is_multiple_of(INPUTS_PER_CHECK) {
            node.check();
            self.checks += 1;
        }
        self.apply(n, outputs);
    }

    /// Does what a node wants done.
    pub(super) fn apply(&mut self, n: usize, mut outputs: Vec<Output>) {
        // A node that has ended has nothing more to say.
        let _ = drive(self, NodeId(n as u16), outputs.drain(..));
        self.outputs = outputs;
    }

    /// Delivers the next message, if nodes may serve.
    pub(super) fn deliver(&mut self, may_serve: impl FnOnce() -> bool) -> bool {
        let next = self.gate.next(may_serve);
        next.map(|(node, input)| self.input(usize::from(node.0), input)).is_some()
    }

    /// Hands a node the next input, or the next message if the lease holds.
    pub(super) fn deliver_by_lease(&mut self) -> bool {
        if let Some((n, input)) = self.inputs.pop_front() {
            self.input(n, input);
            return true;
        }
        let lease = self.lease.clone();
        self.deliver(|| lease.holds())
    }

    /// Has an operation of a node's disk wait that is no node's.
    pub(super) fn start_disk_operation(&mut self, tag: Tag, request: DiskRequest) {
        self.waiting.push(tag, request);
    }

    /// Begins what waits. Says whether it left something for when sockets have had their turn. Ends of other lanes'
    /// operations on the same ring are among those that [`Lane::take_ended`] gives.
    ///
    /// # Errors
    /// If operations cannot be started.
    pub(super) fn start_disk_operations(&mut self, disks: &mut Disks) -> Result<bool> {
        let mut portion = Portion::default();
        let now = self.clock.now();
        while let Some((tag, request)) = self.waiting.next(&mut portion) {
            let Some(seat) = self.seats.get_mut(tag.node).and_then(Option::as_mut) else {
                continue;
            };
            let lives = seat.life == tag.life && !seat.ended;
            if let Some(disk) = seat.disk.as_ref().filter(|_| lives) {
                let begun = disks.are_timed(disk).then_some(now);
                seat.begins(&request, begun);
            }
            let Some(disk) = seat.disk.as_ref().filter(|_| lives) else { continue };
            self.waiting.begun(tag, disks.are_emulated());
            disks.begin(tag, disk, request, &mut self.ended);
        }
        disks.collect(&mut self.ended)?;
        Ok(portion.is_used_up() && self.waiting.has_work())
    }

    /// What disks have ended, for the nodes whose operations they were. The caller hands over the next when it has done what
    /// the last led to.
    pub(super) fn take_ended(&mut self) -> Vec<(Tag, DiskResult)> {
        std::mem::take(&mut self.ended)
    }

    /// An operation has ended.
    pub(super) fn feed_ended(&mut self, tag: Tag, result: DiskResult) {
        let now = self.clock.now();
        let seat = self.seats.get_mut(tag.node).and_then(Option::as_mut);
        let Some(seat) = seat else { return self.waiting.ended(tag, None) };
        let took = seat.ends((tag.life, tag.id), now);
        self.waiting.ended(tag, took);
        if let Some(took) = took.filter(|took| *took >= SLOW_DISK) {
            self.said.push_back(Said::SlowDisk(tag.node, took));
        }
        if seat.life != tag.life {
            if seat.disk_ops == 0 {
                self.said.push_back(Said::Rests);
            }
        } else if tag.id == COPY {
            self.said.push_back(Said::Copy(tag, result));
        } else {
            self.input(tag.node, Input::Disk(tag.id, result));
        }
    }

    /// Whether there are disk operations to be begun now, or such as have ended.
    pub(super) fn has_disk_work(&self) -> bool {
        self.waiting.has_work() || !self.ended.is_empty()
    }

    /// Whether disk operations wait to be begun that somebody waits for.
    pub(super) fn has_awaited(&self) -> bool {
        self.waiting.has_awaited()
    }

    /// Whether no disk operation waits to be begun.
    pub(super) fn begins_nothing(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a node has put something off until there is nothing better to do.
    pub(super) fn has_soon(&self) -> bool {
        self.seats().any(Seat::has_soon)
    }

    /// The nodes of which this timer is due. It is not set any more.
    pub(super) fn take_due(&mut self, timer: Timer, now: Nanos) -> Vec<usize> {
        let seats = self.seats.iter_mut().enumerate();
        let due = |(n, seat): (usize, &mut Option<Seat>)| {
            seat.as_mut().is_some_and(|seat| seat.take_due(timer, now)).then_some(n)
        };
        seats.filter_map(due).collect()
    }

    /// Fires the timers that are due.
    pub(super) fn fire_due(&mut self) {
        let now = self.clock.now();
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            Timer::ALL.into_iter().for_each(|timer| self.fire(timer, now));
        }
    }

    /// Fires what has been put off until there is nothing better to do. Says whether there was anything.
    pub(super) fn fire_soon(&mut self) -> bool {
        let fires = self.hurries && self.has_soon();
        if fires {
            self.fire(Timer::Soon, u64::MAX);
        }
        fires
    }

    fn fire(&mut self, timer: Timer, now: Nanos) {
        for n in self.take_due(timer, now) {
            self.input(n, Input::Timer(timer));
        }
    }

    /// Takes note of how many operations wait for disks until those can be given them.
    pub(super) fn note_queued(&mut self, disks: &Disks) {
        for (n, seat) in self.seats.iter_mut().enumerate() {
            seat.iter_mut().for_each(|seat| seat.queued = disks.waiting(n));
        }
    }

    /// When the first timer is due.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.seats().filter_map(Seat::deadline).min()
    }

    /// What the nodes' clocks show, in microseconds: no timestamp that one of them issues from now on is earlier.
    pub(super) fn reading(&mut self) -> Option<u64> {
        let now = self.clock.now();
        let nodes = self.seats.iter_mut().flatten().filter_map(|s| s.node.as_mut());
        nodes.map(|n| n.reading(now).micros()).min()
    }
}
