//! A disk with a mechanism, a controller and a track buffer (Ruemmler and Wilkes, IEEE Computer
//! 27(3), 1994; TickerTAIP, section 4.2).
//!
//! The buffer holds one run of sectors. An idle disk reads on after a read; nothing happens
//! at the time, but when the next access comes it is worked out how far it got.

mod buffer;

use std::sync::Arc;

use weft_core::units::Nanos;

use super::bus::{Bus, Direction};
use super::mechanics::{Arm, Costs, Mechanism, Pass, Segment, Target};
use super::{Access, Kind, Times, Waiting, nanos};
use crate::schedule::Positions;
use crate::spec;
use buffer::Buffer;

/// What all disks of a kind have in common.
#[derive(Debug)]
pub(super) struct Model {
    pub mechanism: Mechanism,
    pub sector_bytes: u64,
    overheads: Overheads,
    buffer_sectors: u64,
    read_ahead_sectors: u64,
    read_ahead_to: spec::ReadAheadTo,
    write_keeps_reads: bool,
    piece_sectors: u64,
    read_watermark: f64,
    write_watermark: f64,
    reselect: Nanos,
}

/// What the electronics cost. Pairs are for after a read and after a write.
#[derive(Debug)]
struct Overheads {
    read_miss: [Nanos; 2],
    read_hit: [Nanos; 2],
    write: [Nanos; 2],
    write_data_delay: Nanos,
    read_completion: Nanos,
    write_completion: Nanos,
    flush: Nanos,
}

impl Overheads {
    fn new(spec: &spec::Controller) -> Self {
        let pair = |ms: f64, after: Option<f64>| [nanos(ms), nanos(after.unwrap_or(ms))];
        Overheads {
            read_miss: pair(spec.read_miss_ms, spec.read_miss_after_write_ms),
            read_hit: pair(spec.read_hit_ms, spec.read_hit_after_write_ms),
            write: pair(spec.write_ms, spec.write_after_write_ms),
            write_data_delay: nanos(spec.write_data_delay_ms),
            read_completion: nanos(spec.read_completion_ms),
            write_completion: nanos(spec.write_completion_ms),
            flush: nanos(spec.flush_ms),
        }
    }
}

impl Model {
    pub fn new(disk: &spec::Mechanical, bus: &spec::Bus) -> Self {
        let sector_bytes = u64::from(disk.geometry.sector_bytes);
        Model {
            mechanism: Mechanism::new(disk),
            sector_bytes,
            overheads: Overheads::new(&disk.controller),
            buffer_sectors: disk.buffer.bytes / sector_bytes,
            read_ahead_sectors: disk.buffer.read_ahead_bytes / sector_bytes,
            read_ahead_to: disk.buffer.read_ahead_to,
            write_keeps_reads: disk.buffer.write_keeps_reads,
            piece_sectors: (bus.piece_bytes / sector_bytes).max(1),
            read_watermark: bus.read_watermark,
            write_watermark: bus.write_watermark,
            reselect: nanos(bus.reselect_ms),
        }
    }

    /// Where reading on after a read stops.
    fn read_ahead_limit(&self, read: &Access) -> u64 {
        if self.buffer_sectors == 0 {
            return read.end();
        }
        let by_size = read.end() + self.read_ahead_sectors;
        let geometry = &self.mechanism.geometry;
        let most = by_size.min(read.first + self.buffer_sectors.max(read.sectors));
        let most = most.min(geometry.sectors());
        let last = geometry.locate(read.end() - 1);
        let track_end = read.end() + u64::from(last.sectors_per_track - last.sector) - 1;
        match self.read_ahead_to {
            spec::ReadAheadTo::Disk => most,
            spec::ReadAheadTo::Track => most.min(track_end),
            spec::ReadAheadTo::Cylinder => {
                let mut end = track_end;
                while end < most && geometry.locate(end).cylinder == last.cylinder {
                    end += u64::from(last.sectors_per_track);
                }
                most.min(end)
            }
        }
    }
}

/// One disk.
#[derive(Clone, Debug)]
pub(super) struct Mechanical {
    model: Arc<Model>,
    phase: Nanos,
    arm: Arm,
    /// The address after the last access.
    here: u64,
    after_write: bool,
    buffer: Buffer,
    /// What passes under the head for the access at hand.
    segments: Vec<Segment>,
}

impl Mechanical {
    pub fn new(model: Arc<Model>, phase: Nanos) -> Self {
        Mechanical {
            model,
            phase,
            arm: Arm::default(),
            here: 0,
            after_write: false,
            buffer: Buffer::default(),
            segments: Vec::new(),
        }
    }

    /// Where an access begins.
    pub fn target(&self, access: &Access) -> Target {
        if access.kind == Kind::Flush {
            return Target::default();
        }
        let mechanism = &self.model.mechanism;
        mechanism.target(&mechanism.geometry.locate(access.first))
    }

    /// What the policies ask.
    pub fn positions(&self, now: Nanos) -> Here<'_> {
        Here { disk: self, now }
    }

    /// The access's times and whether the buffer helped, if it begins at `now`.
    pub fn serve(&mut self, now: Nanos, access: &Access, bus: &mut Bus) -> (Times, bool) {
        self.segments.clear();
        if access.kind == Kind::Flush {
            return (Times { overhead: self.model.overheads.flush, ..Times::default() }, false);
        }
        self.read_on(now);
        let outcome = match access.kind {
            Kind::Write => (self.write(now, access, bus), false),
            _ if self.buffer.helps(access.first) => (self.read_hit(now, access, bus), true),
            _ => (self.read_miss(now, access, bus), false),
        };
        self.here = access.end();
        self.after_write = access.kind == Kind::Write;
        outcome
    }

    /// Passes over `sectors` from `first` on, over as many tracks as there are; keeps the
    /// segments. Answers with the time at the end.
    fn pass(&mut self, from: Nanos, not_before: Nanos, mut pass: Pass) -> (Costs, Nanos) {
        let (mut costs, mut time) = (Costs::default(), from);
        while pass.sectors > 0 {
            let passed = self.model.mechanism.pass(&mut self.arm, time, not_before, pass);
            costs += passed.costs;
            time = passed.segment.end;
            pass.first = passed.segment.after();
            pass.sectors -= u64::from(passed.segment.sectors);
            self.segments.push(passed.segment);
        }
        (costs, time)
    }

    /// Works out how far the disk has read on by `now`.
    fn read_on(&mut self, now: Nanos) {
        while self.buffer.reading_on() && self.buffer.since < now {
            let mut arm = self.arm;
            let pass = Pass {
                first: self.buffer.end,
                sectors: self.buffer.limit - self.buffer.end,
                write: false,
                phase: self.phase,
            };
            let passed = self.model.mechanism.pass(&mut arm, self.buffer.since, 0, pass);
            let segment = passed.segment;
            let sectors = segment.passed_by(now);
            if sectors == 0 {
                return;
            }
            self.arm = arm;
            self.buffer.end += u64::from(sectors);
            self.buffer.since = segment.passed(self.buffer.end - 1);
            if sectors < segment.sectors {
                break;
            }
        }
        self.buffer.hold(self.model.buffer_sectors);
    }

    fn read_miss(&mut self, now: Nanos, access: &Access, bus: &mut Bus) -> Times {
        let overhead = self.model.overheads.read_miss[usize::from(self.after_write)];
        let begin = now + overhead;
        let pass =
            Pass { first: access.first, sectors: access.sectors, write: false, phase: self.phase };
        let (costs, end) = self.pass(begin, 0, pass);
        let limit = self.model.read_ahead_limit(access);
        self.buffer = Buffer { first: access.first, end: access.end(), since: end, limit };
        self.buffer.hold(self.model.buffer_sectors);
        let across = self.send(now, begin, access, bus);
        self.read_times(overhead, costs, across.saturating_sub(end))
    }

    fn read_hit(&mut self, now: Nanos, access: &Access, bus: &mut Bus) -> Times {
        let overhead = self.model.overheads.read_hit[usize::from(self.after_write)];
        let begin = now + overhead;
        if !self.buffer.reading_on() {
            // It starts again, once it has seen what is asked.
            self.buffer.since = self.buffer.since.max(begin);
        }
        let mut media_end = begin;
        if access.end() > self.buffer.end {
            let pass = Pass {
                first: self.buffer.end,
                sectors: access.end() - self.buffer.end,
                write: false,
                phase: self.phase,
            };
            let (_, end) = self.pass(self.buffer.since, 0, pass);
            self.buffer.end = access.end();
            self.buffer.since = end;
            media_end = end.max(begin);
        }
        self.buffer.limit = self.model.read_ahead_limit(access).max(self.buffer.end);
        self.buffer.hold(self.model.buffer_sectors);
        let across = self.send(now, begin, access, bus);
        // The mechanism was at it before; what is left of its work counts as transfer.
        let costs = Costs { transfer: media_end - begin, ..Costs::default() };
        self.read_times(overhead, costs, across.saturating_sub(media_end))
    }

    fn read_times(&self, overhead: Nanos, costs: Costs, bus: Nanos) -> Times {
        Times {
            queued: 0,
            overhead: overhead + self.model.overheads.read_completion,
            seek: costs.seek,
            head_switch: costs.head_switch,
            rotation: costs.rotation,
            transfer: costs.transfer,
            bus,
        }
    }

    /// A read's pieces cross the bus, each as soon as it is in the buffer and the watermark is
    /// reached; what has no segment was in the buffer at `begin`. Answers when all are across.
    fn send(&self, now: Nanos, begin: Nanos, access: &Access, bus: &mut Bus) -> Nanos {
        let model = &*self.model;
        let marked = share(access.sectors, model.read_watermark).max(1);
        let mut across = begin.max(in_buffer(&self.segments, &mut 0, access.first + marked - 1));
        if !self.segments.is_empty() {
            across += model.reselect;
        }
        let (mut first, mut segment) = (access.first, 0);
        while first < access.end() {
            let sectors = model.piece_sectors.min(access.end() - first);
            first += sectors;
            let ready = in_buffer(&self.segments, &mut segment, first - 1);
            let bytes = sectors * model.sector_bytes;
            across = bus.transfer(now, ready.max(across), Direction::Read, bytes);
        }
        across
    }

    fn write(&mut self, now: Nanos, access: &Access, bus: &mut Bus) -> Times {
        let overhead = self.model.overheads.write[usize::from(self.after_write)];
        let begin = now + overhead;
        let kept = self.model.write_keeps_reads && !self.buffer.overlaps(access);
        self.buffer = if kept { self.buffer.stopped() } else { Buffer::default() };
        let not_before = self.fetch(now, begin, access, bus);
        let pass =
            Pass { first: access.first, sectors: access.sectors, write: true, phase: self.phase };
        let (costs, end) = self.pass(begin, not_before, pass);
        let completion = self.model.overheads.write_completion;
        debug_assert_eq!(
            end - begin,
            costs.seek + costs.head_switch + costs.rotation + costs.transfer
        );
        Times {
            queued: 0,
            overhead: overhead + completion,
            seek: costs.seek,
            head_switch: costs.head_switch,
            rotation: costs.rotation,
            transfer: costs.transfer,
            bus: 0,
        }
    }

    /// A write's pieces cross the bus while the arm moves. Answers from when on the first
    /// sector can be written so that no later one comes too late: when the first piece has
    /// arrived and the watermark is reached and, if the bus is slower than the platter, the last
    /// will arrive in time.
    fn fetch(&self, now: Nanos, begin: Nanos, access: &Access, bus: &mut Bus) -> Nanos {
        let model = &*self.model;
        let mut across = begin + model.overheads.write_data_delay;
        let marked = share(access.sectors, model.write_watermark).max(1);
        let mut enough = None;
        let (mut arrived, mut last) = (0, 0);
        while arrived < access.sectors {
            last = model.piece_sectors.min(access.sectors - arrived);
            arrived += last;
            across = bus.transfer(now, across, Direction::Write, last * model.sector_bytes);
            if arrived >= marked {
                enough.get_or_insert(across);
            }
        }
        let place = model.mechanism.geometry.locate(access.first);
        let before_last = (access.sectors - last) * model.mechanism.sector_time(&place);
        enough.unwrap_or(across).max(across.saturating_sub(before_last))
    }
}

/// A share of so many sectors, rounded up.
fn share(sectors: u64, of: f64) -> u64 {
    (sectors as f64 * of).ceil() as u64
}

/// When the sector at `address` is in the buffer, looking from segment `at` on; 0 if it lies
/// before them all.
fn in_buffer(segments: &[Segment], at: &mut usize, address: u64) -> Nanos {
    while segments.get(*at).is_some_and(|s| address >= s.after()) {
        *at += 1;
    }
    match segments.get(*at) {
        Some(segment) if address >= segment.first => segment.passed(address),
        _ => 0,
    }
}

/// A disk at a moment.
pub(super) struct Here<'a> {
    disk: &'a Mechanical,
    now: Nanos,
}

impl Here<'_> {
    /// What the arm's move costs, and what it costs until the first sector begins.
    fn costs(&self, request: &Waiting) -> (Nanos, Nanos) {
        let access = &request.access;
        if access.kind == Kind::Flush {
            return (0, 0);
        }
        let write = access.kind == Kind::Write;
        if !write && self.disk.buffer.helps(access.first) {
            return (0, 0);
        }
        let mechanism = &self.disk.model.mechanism;
        let target = request.target;
        let (seek, head_switch) = mechanism.reach(self.disk.arm, target.track, write);
        let after_write = usize::from(self.disk.after_write);
        let overhead = match write {
            true => self.disk.model.overheads.write[after_write],
            false => self.disk.model.overheads.read_miss[after_write],
        };
        let there = self.now + overhead + seek + head_switch;
        let rotation = mechanism.rotation(there, self.disk.phase, target.angle);
        (seek + head_switch, seek + head_switch + rotation)
    }
}

impl Positions<Waiting> for Here<'_> {
    fn address(&self, request: &Waiting) -> u64 {
        request.access.first
    }

    fn here(&self) -> u64 {
        self.disk.here
    }

    fn seek(&self, request: &Waiting) -> u64 {
        self.costs(request).0
    }

    fn access(&self, request: &Waiting) -> u64 {
        self.costs(request).1
    }
}
