//! A device of flash memory: channels that each work on one unit at a time, and a bus; with a buffer for writes and
//! garbage collection, if its parameter file has them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use weft_core::units::Nanos;

use super::bus::{Bus, Direction};
use super::collection::{Collecting, Wear};
use super::latency::{Latencies, draw};
use super::{Access, Completed, Kind, Times};
use crate::spec;

#[derive(Clone, Debug)]
pub(super) struct Flash {
    spec: spec::Flash,
    piece_bytes: u64,
    /// When each channel is free.
    free: Vec<Nanos>,
    /// When all writes so far are done.
    written: Nanos,
    /// When the latest flush begins and ends. Those that come before it begins are done with it, as
    /// operating systems send a device one flush at a time and let what waits share the next.
    flush: (Nanos, Nanos),
    /// What is in progress, first to complete first.
    running: BinaryHeap<Reverse<Running>>,
    order: u64,
    chance: fastrand::Rng,
    collecting: Option<Box<Collecting>>,
}

/// In the order of completion, then of submission.
#[derive(Clone, Copy, Debug)]
struct Running {
    order: u64,
    completed: Completed,
}

impl Running {
    fn key(&self) -> (Nanos, u64) {
        (self.completed.at, self.order)
    }
}
impl PartialEq for Running {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Running {}
impl PartialOrd for Running {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Running {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Flash {
    pub fn new(spec: &spec::Flash, bus: &spec::Bus, mut chance: fastrand::Rng) -> Self {
        let collecting = spec.collection.as_ref().map(|c| Collecting::new(spec, c, &mut chance));
        Flash {
            spec: spec.clone(),
            piece_bytes: bus.piece_bytes,
            free: vec![0; spec.channels as usize],
            written: 0,
            flush: (0, 0),
            running: BinaryHeap::new(),
            order: 0,
            chance,
            collecting: collecting.map(Box::new),
        }
    }

    /// What it has programmed and erased, if it collects garbage.
    pub fn wear(&self) -> Option<Wear> {
        self.collecting.as_ref().map(|c| c.wear())
    }

    pub fn next(&self) -> Option<Nanos> {
        self.running.peek().map(|Reverse(first)| first.completed.at)
    }

    pub fn in_progress(&self) -> usize {
        self.running.len()
    }

    pub fn finish(&mut self, now: Nanos, done: &mut Vec<Completed>) {
        while self.next().is_some_and(|at| at <= now) {
            done.extend(self.running.pop().map(|Reverse(first)| first.completed));
        }
    }

    /// Begins the access; answers when it will be complete.
    pub fn submit(&mut self, now: Nanos, id: u64, access: Access, bus: &mut Bus) -> Nanos {
        let times = match access.kind {
            Kind::Read => self.read(now, &access, bus),
            Kind::Write => self.write(now, &access, bus),
            Kind::Flush => self.flush(now),
            Kind::Discard => self.discard(&access),
        };
        let at = now + times.total();
        self.order += 1;
        let completed = Completed { id, access, at, times, from_buffer: false };
        self.running.push(Reverse(Running { order: self.order, completed }));
        at
    }

    fn read(&mut self, now: Nanos, access: &Access, bus: &mut Bus) -> Times {
        let ready = now + self.command();
        let (mut first_begin, mut off_flash, mut across) = (Nanos::MAX, ready, ready);
        for (channel, bytes) in units(&self.spec, access) {
            let (begin, end) = self.work(channel, ready, Kind::Read);
            first_begin = first_begin.min(begin);
            off_flash = off_flash.max(end);
            across = across.max(self.cross(now, end, Direction::Read, bytes, bus));
        }
        Times {
            overhead: ready - now,
            queued: first_begin - ready,
            transfer: off_flash - first_begin,
            bus: across - off_flash,
            ..Times::default()
        }
    }

    fn write(&mut self, now: Nanos, access: &Access, bus: &mut Bus) -> Times {
        if self.collecting.is_some() {
            return self.write_to_buffer(now, access, bus);
        }
        let (mut first_across, mut first_begin, mut done) = (Nanos::MAX, Nanos::MAX, now);
        let mut across = now;
        for (channel, bytes) in units(&self.spec, access) {
            across = self.cross(now, across, Direction::Write, bytes, bus);
            let (begin, end) = self.work(channel, across, Kind::Write);
            first_across = first_across.min(across);
            first_begin = first_begin.min(begin);
            done = done.max(end);
        }
        self.written = self.written.max(done);
        Times {
            bus: first_across - now,
            queued: first_begin - first_across,
            transfer: done - first_begin,
            ..Times::default()
        }
    }

    /// Of a device with garbage collection: complete when all is in its buffer.
    fn write_to_buffer(&mut self, now: Nanos, access: &Access, bus: &mut Bus) -> Times {
        let ready = now + self.command();
        let bytes = bytes(&self.spec, access);
        let across = self.cross(now, ready, Direction::Write, bytes.end - bytes.start, bus);
        let mut latencies = Latencies { spec: &self.spec, chance: &mut self.chance };
        let admitted = self
            .collecting
            .as_mut()
            .map_or(across, |c| c.write(now, across, bytes, &mut latencies));
        self.written = self.written.max(admitted);
        Times {
            overhead: ready - now,
            bus: across - ready,
            queued: admitted - across,
            ..Times::default()
        }
    }

    /// Of a device with garbage collection: others are sent a flush instead.
    fn discard(&mut self, access: &Access) -> Times {
        if let Some(collecting) = &mut self.collecting {
            collecting.discard(bytes(&self.spec, access));
        }
        Times { overhead: self.command(), ..Times::default() }
    }

    /// In the controller, for each command.
    fn command(&self) -> Nanos {
        self.collecting.as_ref().map_or(0, |c| c.command)
    }

    fn flush(&mut self, now: Nanos) -> Times {
        if now >= self.flush.0 {
            let begin = now.max(self.written).max(self.flush.1);
            self.flush = (begin, begin + draw(&self.spec.flush_latency, &mut self.chance));
        }
        let (begin, end) = self.flush;
        Times { queued: begin - now, overhead: end - begin, ..Times::default() }
    }

    /// A channel's work on one unit, from `ready` on: when it begins and ends.
    fn work(&mut self, channel: usize, ready: Nanos, kind: Kind) -> (Nanos, Nanos) {
        let latency = match kind {
            Kind::Write => draw(&self.spec.write_latency, &mut self.chance),
            _ => draw(&self.spec.read_latency, &mut self.chance),
        };
        if let Some(collecting) = &mut self.collecting {
            return collecting.read(channel, ready, latency);
        }
        let begin = self.free[channel].max(ready);
        self.free[channel] = begin + latency;
        (begin, begin + latency)
    }

    /// Takes a unit over the bus piece by piece; answers when it is across.
    fn cross(&self, now: Nanos, ready: Nanos, way: Direction, bytes: u64, bus: &mut Bus) -> Nanos {
        let (mut left, mut at) = (bytes, ready);
        while left > 0 {
            let piece = left.min(self.piece_bytes);
            at = bus.transfer(now, at, way, piece);
            left -= piece;
        }
        at
    }
}

/// The bytes that an access is about.
fn bytes(spec: &spec::Flash, access: &Access) -> Range<u64> {
    let sector = u64::from(spec.sector_bytes);
    access.first * sector..access.end() * sector
}

/// The units that an access touches: each one's channel, and how many bytes of it.
fn units(spec: &spec::Flash, access: &Access) -> impl Iterator<Item = (usize, u64)> + use<> {
    let (unit, channels) = (spec.unit_bytes, u64::from(spec.channels));
    let Range { start: mut at, end } = bytes(spec, access);
    std::iter::from_fn(move || {
        let until = end.min((at / unit + 1) * unit);
        let next = (at < end).then(|| ((at / unit % channels) as usize, until - at));
        at = until;
        next
    })
}
