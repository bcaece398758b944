//! A lane: nodes that one thread runs at a time, with what waits for them and what they have said.
//!
//! A lane does nothing that leaves the process. Its nodes answer hosts, write to other processes and report to the
//! authority by what they have *said*, which the engine takes from the lane and does.

mod disks;
mod environment;
mod seat;
mod waiting;

use std::collections::VecDeque;

use weft_core::node::{Envelope, Input, MemberReport, Output, Timer, drive};
use weft_core::store::{DiskRequest, DiskResult, FormatError};
use weft_core::units::{Nanos, NodeId};
use weft_member::Gate;

use super::Answer;
use super::copies::COPY;
use crate::clock::Clock;
use crate::disk::uring::Tag;
use crate::error::Result;

pub(crate) use disks::Disks;
pub(crate) use seat::Seat;

use waiting::{Portion, Waiting};

/// What a lane's nodes have to say to others than themselves. A node's life is told where it matters that it lasts.
#[derive(Debug)]
pub(crate) enum Said {
    /// To a node that is not of this lane.
    Letter(Box<Envelope>),
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
    /// An operation about the copies of the map has ended.
    Copy(Tag, DiskResult),
    /// The last operation of a node that is down has ended.
    Rests,
}

/// See the module.
pub(crate) struct Lane {
    /// By node number.
    seats: Vec<Option<Seat>>,
    /// Messages to its nodes.
    pub(super) gate: Gate<Answer>,
    /// Disk operations that are to be begun.
    waiting: Waiting,
    ended: Vec<(Tag, DiskResult)>,
    /// Always empty: its room is used again.
    outputs: Vec<Output>,
    said: VecDeque<Said>,
    clock: Clock,
}

impl Lane {
    /// One without nodes. All lanes of a process go by the same clock.
    pub(super) fn new(clock: Clock) -> Lane {
        Lane {
            seats: Vec::new(),
            gate: Gate::default(),
            waiting: Waiting::default(),
            ended: Vec::new(),
            outputs: Vec::new(),
            said: VecDeque::new(),
            clock,
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

    /// What the nodes have said since this was asked last, one by one.
    pub(super) fn take_said(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    /// Hands a node something.
    pub(super) fn input(&mut self, n: usize, input: Input) {
        let now = self.clock.now();
        let seat = self.seats.get_mut(n).and_then(Option::as_mut).filter(|s| !s.ended);
        let Some(node) = seat.and_then(|s| s.node.as_mut()) else { return };
        let mut outputs = std::mem::take(&mut self.outputs);
        node.handle(now, input, &mut outputs);
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

    /// Has an operation of a node's disk wait that is no node's.
    pub(super) fn start_disk_operation(&mut self, tag: Tag, request: DiskRequest) {
        self.waiting.push(tag, request);
    }

    /// Begins what waits. Says whether it left something for when sockets have had their turn.
    ///
    /// # Errors
    /// If operations cannot be started.
    pub(super) fn start_disk_operations(&mut self, disks: &mut Disks) -> Result<bool> {
        let mut portion = Portion::default();
        while let Some((tag, request)) = self.waiting.next(&mut portion) {
            let Some(seat) = self.seats.get_mut(tag.node).and_then(Option::as_mut) else {
                continue;
            };
            let lives = seat.life == tag.life && !seat.ended;
            let Some(disk) = seat.disk.as_ref().filter(|_| lives) else { continue };
            seat.disk_ops += 1;
            self.waiting.begun(tag);
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
        self.waiting.ended(tag);
        let Some(seat) = self.seat_mut(tag.node) else { return };
        seat.disk_ops -= 1;
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

    /// Whether there are disk operations to be begun now.
    pub(super) fn has_disk_work(&self) -> bool {
        self.waiting.has_work()
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
