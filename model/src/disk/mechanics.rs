//! How arm and platters move: one track at a time, from a moment on.

use weft_core::units::Nanos;

use super::geometry::{Geometry, Place};
use super::{nanos, seek};
use crate::spec::Mechanical;

/// Where the arm is, and which head is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arm {
    pub cylinder: u32,
    pub head: u32,
}

/// Where an access begins: the track, and the angle as the time since the index passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub track: Arm,
    pub angle: Nanos,
}

/// Sectors of one track, one after another under the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub first: u64,
    pub sectors: u32,
    /// When the first begins.
    pub begin: Nanos,
    /// When the last is over.
    pub end: Nanos,
}

impl Segment {
    /// Address after the last.
    pub fn after(&self) -> u64 {
        self.first + u64::from(self.sectors)
    }

    /// When its sector at `address` has passed the head.
    pub fn passed(&self, address: u64) -> Nanos {
        let done = address + 1 - self.first;
        if done == u64::from(self.sectors) {
            return self.end;
        }
        self.begin + (self.end - self.begin) * done / u64::from(self.sectors)
    }

    /// How many of its sectors have passed the head by `time`.
    pub fn passed_by(&self, time: Nanos) -> u32 {
        if time >= self.end {
            return self.sectors;
        }
        let gone = time.saturating_sub(self.begin);
        (gone * u64::from(self.sectors) / (self.end - self.begin)) as u32
    }
}

/// What it took to get to a track and pass over sectors there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Costs {
    pub seek: Nanos,
    pub head_switch: Nanos,
    pub rotation: Nanos,
    pub transfer: Nanos,
}

impl std::ops::AddAssign for Costs {
    fn add_assign(&mut self, other: Costs) {
        self.seek += other.seek;
        self.head_switch += other.head_switch;
        self.rotation += other.rotation;
        self.transfer += other.transfer;
    }
}

/// A disk's mechanism. One may serve many disks of a kind.
#[derive(Clone, Debug)]
pub(super) struct Mechanism {
    pub geometry: Geometry,
    /// Seek time by distance.
    seeks: Vec<Nanos>,
    head_switch: Nanos,
    write_settle: i64,
    /// One revolution.
    pub period: Nanos,
}

impl Mechanism {
    pub fn new(disk: &Mechanical) -> Self {
        let period = (60e9 / disk.mechanics.rpm).round() as Nanos;
        Mechanism {
            geometry: Geometry::new(&disk.geometry, period),
            seeks: seek::curve(&disk.mechanics.seek, disk.geometry.cylinders),
            head_switch: nanos(disk.mechanics.head_switch_ms),
            write_settle: (disk.mechanics.write_settle_ms * 1e6).round() as i64,
            period,
        }
    }

    /// Where the sector at `place` begins.
    pub fn target(&self, place: &Place) -> Target {
        let track = Arm { cylinder: place.cylinder, head: place.head };
        Target { track, angle: self.geometry.angle(place, 0) }
    }

    /// The time it takes to put the head over another track: of the arm, and of switching heads
    /// where the arm does not move.
    pub fn reach(&self, arm: Arm, track: Arm, write: bool) -> (Nanos, Nanos) {
        let distance = arm.cylinder.abs_diff(track.cylinder);
        if distance > 0 {
            let seek = self.seeks[distance as usize].max(self.head_switch);
            (if write { seek.saturating_add_signed(self.write_settle) } else { seek }, 0)
        } else if arm.head != track.head {
            (0, self.head_switch)
        } else {
            (0, 0)
        }
    }

    /// How long from `time` until the platter is at `angle`, for a disk whose index passed its
    /// head `phase` before time 0.
    pub fn rotation(&self, time: Nanos, phase: Nanos, angle: Nanos) -> Nanos {
        let now = (time + phase) % self.period;
        if angle >= now { angle - now } else { angle + self.period - now }
    }

    /// Passes over the sectors from `first` on, at most `sectors` of them and only as far as
    /// its track goes; beginning at `from`, but with the first sector not before `not_before`.
    pub fn pass(&self, arm: &mut Arm, from: Nanos, not_before: Nanos, pass: Pass) -> Passed {
        let place = self.geometry.locate(pass.first);
        let target = self.target(&place);
        let (seek, head_switch) = self.reach(*arm, target.track, pass.write);
        *arm = target.track;
        let there = from + seek + head_switch;
        let ready = there.max(not_before);
        let begin = ready + self.rotation(ready, pass.phase, target.angle);
        let left = place.sectors_per_track - place.sector;
        let sectors = pass.sectors.min(u64::from(left)) as u32;
        // From angle to angle, so that where one pass ends the next begins to the nanosecond.
        let transfer = if sectors == place.sectors_per_track {
            self.period
        } else {
            let (a, b) = (target.angle, self.geometry.angle(&place, sectors));
            if b >= a { b - a } else { b + self.period - a }
        };
        Passed {
            segment: Segment { first: pass.first, sectors, begin, end: begin + transfer },
            costs: Costs { seek, head_switch, rotation: begin - there, transfer },
        }
    }

    /// What a sector takes to pass under the head at `place`, rounded down.
    pub fn sector_time(&self, place: &Place) -> Nanos {
        self.period / u64::from(place.sectors_per_track)
    }
}

/// What is to pass under the head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub first: u64,
    pub sectors: u64,
    pub write: bool,
    pub phase: Nanos,
}

/// What passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub segment: Segment,
    pub costs: Costs,
}
