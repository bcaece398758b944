//! Disks: what an access costs, and when.
//!
//! A [`Disk`] is handed accesses ([`Disk::submit`]) and the time ([`Disk::advance`]), and says
//! when it next has something to tell ([`Disk::next`]): once for each access, because all that
//! will become of an access follows, by arithmetic, from the state in which it begins.
//!
//! ```text
//!  submit -> queue -> one at a time:
//!              |       controller -> arm moves, head is switched -> rotation -> transfer
//!   schedule::Policy      |                                            |
//!                         +- found in the track buffer? ---------------+-> bus -> completed
//! ```
//!
//! - [`geometry`]: address to cylinder, head and angle;
//! - `seek`, `mechanics`: how arm and platters move;
//! - `mechanical`: a disk made of these, with track buffer and read-ahead;
//! - `fixed`, `flash`: devices without a mechanism;
//! - `collection`: garbage collection of a flash device;
//! - `latency`: what a channel of a flash device takes, drawn at random;
//! - `operations`: what the operations of a node's store are to a disk;
//! - [`bus`]: the way to the host, of a disk's own or shared.

pub mod bus;
mod collection;
mod fixed;
mod flash;
pub mod geometry;
mod latency;
mod mechanical;
mod mechanics;
mod model;
mod operations;
mod seek;
#[cfg(test)]
mod tests;

use weft_core::units::Nanos;

use crate::schedule::{Policy, Positions, Queue};
use bus::Bus;
pub use collection::Wear;
use mechanics::Target;
use model::DeviceModel;
pub use model::Model;
pub use operations::is_flushed_after;

/// Milliseconds as nanoseconds; what is negative is nothing.
fn nanos(ms: f64) -> Nanos {
    (ms * 1e6).round() as Nanos
}

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sectors go to the host.
    Read,
    /// Sectors come from the host, and are on the platter when it completes; or in a buffer that outlasts a loss of
    /// power.
    Write,
    /// Writes that completed before will outlast a loss of power. Has no sectors.
    Flush,
    /// What is in the sectors is not needed any more. To a disk that makes no use of that it is a flush.
    Discard,
}

/// An access: so many sectors from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What is to be done.
    pub kind: Kind,
    /// The first sector's address.
    pub first: u64,
    /// How many sectors.
    pub sectors: u64,
}

impl Access {
    /// A read.
    pub fn read(first: u64, sectors: u64) -> Self {
        Access { kind: Kind::Read, first, sectors }
    }

    /// A write.
    pub fn write(first: u64, sectors: u64) -> Self {
        Access { kind: Kind::Write, first, sectors }
    }

    /// A flush.
    pub fn flush() -> Self {
        Access { kind: Kind::Flush, first: 0, sectors: 0 }
    }

    /// A discard.
    pub fn discard(first: u64, sectors: u64) -> Self {
        Access { kind: Kind::Discard, first, sectors }
    }

    /// Address after the last sector.
    pub fn end(&self) -> u64 {
        self.first + self.sectors
    }
}

/// Where an access's time went, in nanoseconds. The parts add up to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Waiting in the queue.
    pub queued: Nanos,
    /// In the controller, before and after the mechanism.
    pub overhead: Nanos,
    /// Moving the arm, settling included.
    pub seek: Nanos,
    /// Switching heads, first and between tracks.
    pub head_switch: Nanos,
    /// Waiting for sectors to come round (of a write also for its data to arrive).
    pub rotation: Nanos,
    /// Sectors passing under the head; of a flash device or one of fixed times, its work.
    pub transfer: Nanos,
    /// On the bus, or waiting for it, beyond what the mechanism hid.
    pub bus: Nanos,
}

impl Times {
    /// All of it.
    pub fn total(&self) -> Nanos {
        self.queued + self.service()
    }

    /// All but the wait in the queue.
    pub fn service(&self) -> Nanos {
        self.overhead + self.seek + self.head_switch + self.rotation + self.transfer + self.bus
    }
}

/// An access that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The number that it was submitted with.
    pub id: u64,
    /// What it was.
    pub access: Access,
    /// When it was complete.
    pub at: Nanos,
    /// Where its time went.
    pub times: Times,
    /// Whether the track buffer had any of a read, or was about to.
    pub from_buffer: bool,
}

/// An access in the queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    access: Access,
    since: Nanos,
    /// Where it begins, if the disk has a mechanism and the policy asks for it.
    target: Target,
}

/// A disk, and the bus that it has to itself if it is given no other.
#[derive(Clone, Debug)]
pub struct Disk {
    drive: Drive,
    own_bus: Bus,
}

/// A disk without its bus.
#[derive(Clone, Debug)]
struct Drive {
    sectors: u64,
    queue: Queue<Waiting>,
    /// Of a device that serves one access at a time, the one that is being served.
    current: Option<Completed>,
    device: DeviceState,
    busy: Busy,
}

#[derive(Clone, Debug)]
enum DeviceState {
    Mechanical(mechanical::Mechanical),
    Fixed(fixed::Fixed),
    Flash(flash::Flash),
}

impl Disk {
    /// An idle disk with its arm at the outermost cylinder.
    ///
    /// `policy` orders the queue of a disk that serves one access at a time; a flash device
    /// begins all accesses as they come. `phase` is how long before time 0 the index passed
    /// the head: spin-synchronised disks have equal phases. `chance` is for what varies at
    /// random, the latencies of a flash device and where a preconditioned one has its pages.
    pub fn new(model: &Model, policy: Policy, phase: Nanos, chance: fastrand::Rng) -> Self {
        let device = match &model.device {
            DeviceModel::Mechanical(disk) => {
                DeviceState::Mechanical(mechanical::Mechanical::new(disk.clone(), phase))
            }
            DeviceModel::Fixed(spec) => DeviceState::Fixed(fixed::Fixed::new(spec, &model.bus)),
            DeviceModel::Flash(spec) => {
                DeviceState::Flash(flash::Flash::new(spec, &model.bus, chance))
            }
        };
        let drive = Drive {
            sectors: model.sectors(),
            queue: Queue::new(policy),
            current: None,
            device,
            busy: Busy::default(),
        };
        Disk { drive, own_bus: Bus::new(&model.bus) }
    }

    /// Hands over an access. `id` comes back with its completion. Time may not run backwards
    /// from one call to the next, and what a disk that serves one access at a time completed before
    /// `now` has been taken ([`advance`](Self::advance)).
    ///
    /// # Panics
    /// If the access goes beyond the end of the disk, or is a read or write of nothing; if what completed
    /// before has not been taken.
    pub fn submit(&mut self, now: Nanos, id: u64, access: Access) {
        self.drive.accept(now, id, access, &mut self.own_bus);
    }

    /// [`submit`](Self::submit), for a disk on a shared bus.
    pub fn submit_on(&mut self, bus: &mut Bus, now: Nanos, id: u64, access: Access) {
        self.drive.accept(now, id, access, bus);
    }

    /// When [`advance`](Self::advance) is wanted next; `None` while nothing is in progress.
    pub fn next(&self) -> Option<Nanos> {
        self.drive.next()
    }

    /// Adds what has completed by `now` to `done`, in the order of completion, and begins what
    /// can begin.
    pub fn advance(&mut self, now: Nanos, done: &mut Vec<Completed>) {
        self.drive.finish(now, &mut self.own_bus, done);
    }

    /// [`advance`](Self::advance), for a disk on a shared bus.
    pub fn advance_on(&mut self, bus: &mut Bus, now: Nanos, done: &mut Vec<Completed>) {
        self.drive.finish(now, bus, done);
    }

    /// Accesses that wait or are being served.
    pub fn queue_len(&self) -> usize {
        let in_device = match &self.drive.device {
            DeviceState::Flash(flash) => flash.in_progress(),
            _ => usize::from(self.drive.current.is_some()),
        };
        self.drive.queue.len() + in_device
    }

    /// For how long, up to `now`, at least one access was being served.
    pub fn busy(&self, now: Nanos) -> Nanos {
        self.drive.busy.until(now)
    }

    /// What it has programmed and erased since the run began, if it is a flash device that collects garbage.
    pub fn wear(&self) -> Option<Wear> {
        match &self.drive.device {
            DeviceState::Flash(flash) => flash.wear(),
            _ => None,
        }
    }

    /// For how long its own bus was, or is booked to be, in use.
    pub fn bus_busy(&self) -> Nanos {
        self.own_bus.busy()
    }
}

impl Drive {
    fn next(&self) -> Option<Nanos> {
        match &self.device {
            DeviceState::Flash(flash) => flash.next(),
            _ => self.current.as_ref().map(|current| current.at),
        }
    }

    fn accept(&mut self, now: Nanos, id: u64, access: Access, bus: &mut Bus) {
        let access = match (&self.device, access.kind) {
            (DeviceState::Flash(flash), Kind::Discard)
                if access.sectors > 0 && flash.wear().is_some() =>
            {
                access
            }
            (_, Kind::Discard) => Access::flush(),
            _ => access,
        };
        assert!(
            access.kind == Kind::Flush || (access.sectors > 0 && access.end() <= self.sectors),
            "{access:?} on a disk of {} sectors",
            self.sectors
        );
        if let DeviceState::Flash(flash) = &mut self.device {
            let until = flash.submit(now, id, access, bus);
            self.busy.add(now, until);
            return;
        }
        assert!(self.next().is_none_or(|at| at >= now), "something completed before {now}");
        let target = match &self.device {
            DeviceState::Mechanical(disk) if self.queue.policy() != Policy::Fcfs => {
                disk.target(&access)
            }
            _ => Target::default(),
        };
        self.queue.push(Waiting { id, access, since: now, target });
        if self.current.is_none() {
            self.begin(now, bus);
        }
    }

    fn finish(&mut self, now: Nanos, bus: &mut Bus, done: &mut Vec<Completed>) {
        if let DeviceState::Flash(flash) = &mut self.device {
            return flash.finish(now, done);
        }
        while let Some(current) = self.current.take_if(|current| current.at <= now) {
            done.push(current);
            self.begin(current.at, bus);
        }
    }

    /// Begins the access that the policy chooses.
    fn begin(&mut self, now: Nanos, bus: &mut Bus) {
        let next = match &self.device {
            DeviceState::Mechanical(disk) => self.queue.take(&disk.positions(now)),
            DeviceState::Fixed(disk) => self.queue.take(disk),
            DeviceState::Flash(_) => None,
        };
        let Some(Waiting { id, access, since, .. }) = next else { return };
        let (mut times, from_buffer) = match &mut self.device {
            DeviceState::Mechanical(disk) => disk.serve(now, &access, bus),
            DeviceState::Fixed(disk) => (disk.serve(now, &access, bus), false),
            DeviceState::Flash(_) => return,
        };
        let at = now + times.service();
        times.queued = now - since;
        self.busy.add(now, at);
        self.current = Some(Completed { id, access, at, times, from_buffer });
    }
}

/// Adds up the time during which something was in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    total: Nanos,
    /// The end of the latest stretch, which `total` includes.
    end: Nanos,
}

impl Busy {
    /// A stretch; they come in the order of their beginnings.
    fn add(&mut self, from: Nanos, to: Nanos) {
        self.total += to.saturating_sub(from.max(self.end));
        self.end = self.end.max(to);
    }

    /// What of it is over by `now`.
    fn until(&self, now: Nanos) -> Nanos {
        self.total - self.end.saturating_sub(now)
    }
}

/// Positions of waiting accesses by address alone.
impl Positions<Waiting> for fixed::Fixed {
    fn address(&self, request: &Waiting) -> u64 {
        request.access.first
    }

    fn here(&self) -> u64 {
        self.here
    }

    fn seek(&self, request: &Waiting) -> u64 {
        request.access.first.abs_diff(self.here)
    }

    fn access(&self, request: &Waiting) -> u64 {
        self.seek(request)
    }
}
