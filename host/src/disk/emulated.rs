//! Disks that take as long as models of disks say.
//!
//! The real nodes, on files in memory, run at the speed of disks that are not there: an operation is done
//! at once, and its end is held back until the model says that the disk would be done. So
//! what nodes, sockets and processors make of slow disks, or of fast ones, can be measured without
//! having them, and the simulator be held against it.
//!
//! The models are those of the simulator ([`weft_model::disk`]). A timer of the kernel wakes the reactor
//! when the next is due: the timeouts of `epoll` are whole milliseconds, as long as many an access.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use weft_core::store::{DiskOp, DiskResult};
use weft_core::units::Nanos;
use weft_model::disk::{Access, Completed, Disk, is_flushed_after};

use crate::disk::uring::Tag;
use crate::error::{Error, Result};

/// The disks that an array's are to be like. Until they are given, operations end at once.
#[derive(Clone, Debug, Default)]
pub struct Emulation(Arc<Mutex<Option<Given>>>);

/// Models of the disks, by node, and the bytes of their sectors.
#[derive(Debug)]
struct Given {
    disks: Vec<Disk>,
    sector_bytes: u64,
}

impl Emulation {
    /// From now on the disk of node n takes as long as the n-th of these, which has sectors of so many
    /// bytes and as much room. For disks on which nothing is in work.
    pub fn begin(&self, disks: Vec<Disk>, sector_bytes: u64) {
        *self.lock() = Some(Given { disks, sector_bytes });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Given>> {
        // Whoever panicked took the array with it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An operation that is done, and not to be told of yet.
#[derive(Debug)]
struct Held {
    tag: Tag,
    result: DiskResult,
    /// Whether a flush comes after it.
    flush_after: bool,
}

/// Operations whose ends are held back.
#[derive(Debug)]
pub(crate) struct Emulated {
    emulation: Emulation,
    timer: OwnedFd,
    /// For when the timer is set.
    due: Option<Nanos>,
    next: u64,
    held: HashMap<u64, Held>,
}

impl Emulated {
    pub(crate) fn new(emulation: Emulation) -> Result<Emulated> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)
            .map_err(|e| Error(format!("cannot make a timer for emulated disks: {e}")))?;
        Ok(Emulated { emulation, timer, due: None, next: 0, held: HashMap::new() })
    }

    /// What to poll for ends of operations.
    pub(crate) fn fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }

    /// Takes note of an operation that has been done at this time since boot. If disks are not emulated
    /// yet it has ended.
    pub(crate) fn start(
        &mut self,
        now: Nanos,
        tag: Tag,
        op: &DiskOp,
        result: DiskResult,
        ended: &mut Vec<(Tag, DiskResult)>,
    ) {
        let mut given = self.emulation.lock();
        let Some(Given { disks, sector_bytes }) = given.as_mut() else {
            ended.push((tag, result));
            return;
        };
        let disk = &mut disks[tag.node];
        advance(disk, &mut self.held, now, ended);
        let id = self.next;
        self.next += 1;
        self.held.insert(id, Held { tag, result, flush_after: is_flushed_after(op) });
        disk.submit(now, id, Access::of(op, 0, *sector_bytes));
    }

    /// Adds the operations that the disks would have done by now, and has the timer wake us for the next.
    ///
    /// # Errors
    /// If the timer cannot be set.
    pub(crate) fn collect(&mut self, now: Nanos, ended: &mut Vec<(Tag, DiskResult)>) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut given = self.emulation.lock();
        let Some(Given { disks, .. }) = given.as_mut() else { return Ok(()) };
        disks.iter_mut().for_each(|disk| advance(disk, &mut self.held, now, ended));
        let due = disks.iter().filter_map(Disk::next).min();
        drop(given);
        self.wake_at(due)
    }

    fn wake_at(&mut self, due: Option<Nanos>) -> Result<()> {
        if due == self.due {
            return Ok(());
        }
        self.due = due;
        // A timer that is set to 0 is off.
        let at = due.unwrap_or(0) as i64;
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec { tv_sec: at / 1_000_000_000, tv_nsec: at % 1_000_000_000 };
        let spec = Itimerspec { it_interval: none, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)
            .map(drop)
            .map_err(|e| Error(format!("cannot set the timer of emulated disks: {e}")))
    }
}

/// Adds the operations that a disk would have done by now, and begins the flushes that come after them.
fn advance(
    disk: &mut Disk,
    held: &mut HashMap<u64, Held>,
    now: Nanos,
    ended: &mut Vec<(Tag, DiskResult)>,
) {
    let mut completed = Vec::new();
    disk.advance(now, &mut completed);
    for Completed { id, .. } in completed {
        match held.get_mut(&id) {
            Some(op) if op.flush_after => {
                op.flush_after = false;
                disk.submit(now, id, Access::flush());
            }
            _ => ended.extend(held.remove(&id).map(|op| (op.tag, op.result))),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_core::Buffer;
    use weft_core::units::MILLIS;
    use weft_model::disk::Model;
    use weft_model::schedule::Policy;
    use weft_model::spec::Spec;

    use weft_core::store::Urgency;

    use super::*;
    use crate::clock::boot_time;

    fn disk(spec: &str) -> Disk {
        let spec =
            Spec::parse(&format!("name = \"d\"\nabout = \"a disk of tests\"\n{spec}")).unwrap();
        Disk::new(&Model::new(&spec), Policy::Fcfs, 0, fastrand::Rng::with_seed(1))
    }

    /// One that takes 10 ms for a read or write, and 4 ms for a flush.
    const FLASH: &str = "[flash]\ncapacity_bytes = 1048576\nsector_bytes = 512\nchannels = 1\n\
                         unit_bytes = 4096\n\
                         read_latency = [{ quantile = 0.0, ms = 10.0 }]\n\
                         write_latency = [{ quantile = 0.0, ms = 10.0 }]\n\
                         flush_latency = [{ quantile = 0.0, ms = 4.0 }]\n\
                         [bus]\nread_bytes_per_s = 0\nwrite_bytes_per_s = 0\npiece_bytes = 4096\n";

    /// One that does one thing after the other, each in 10 ms.
    const FIXED: &str = "[fixed]\ncapacity_bytes = 1048576\nsector_bytes = 512\n\
                         positioning_ms = 10\nbytes_per_s = 1000000000000\n";

    /// Numbers of the operations that have ended.
    fn ids(ended: &mut Vec<(Tag, DiskResult)>) -> Vec<u64> {
        ended.drain(..).map(|(tag, _)| tag.id).collect()
    }

    #[test]
    fn an_end_is_held_back_until_the_disk_would_be_done() {
        let emulation = Emulation::default();
        let mut emulated = Emulated::new(emulation.clone()).unwrap();
        let mut ended = Vec::new();
        let tag = |id| Tag { node: 0, life: 1, id, urgency: Urgency::Awaited };
        let write = |durable| DiskOp::Write { offset: 0, data: vec![Buffer::Zero(4096)], durable };
        let done = || Ok(Buffer::Zero(0));

        emulated.start(5, tag(1), &write(true), done(), &mut ended);
        assert_eq!(ids(&mut ended), [1], "not emulated yet: at once");

        emulation.begin(vec![disk(FLASH)], 512);
        // The timer is the kernel's, so times are.
        let at = boot_time();
        emulated.start(at, tag(2), &write(false), done(), &mut ended);
        emulated.start(at, tag(3), &write(true), done(), &mut ended);
        for (after, expected) in
            [(0, vec![]), (9, vec![]), (10, vec![2]), (20, vec![]), (23, vec![]), (24, vec![3])]
        {
            emulated.collect(at + after * MILLIS, &mut ended).unwrap();
            assert_eq!(ids(&mut ended), expected, "after {after} ms");
        }
        assert!(emulated.held.is_empty() && emulated.due.is_none());
    }

    #[test]
    fn what_comes_after_an_end_that_nobody_has_taken_begins_when_it_comes() {
        let emulation = Emulation::default();
        emulation.begin(vec![disk(FIXED)], 512);
        let mut emulated = Emulated::new(emulation).unwrap();
        let (at, mut ended) = (boot_time(), Vec::new());
        let mut read = |after, id, ended: &mut Vec<_>| {
            let (tag, op) = (
                Tag { node: 0, life: 1, id, urgency: Urgency::Awaited },
                DiskOp::Read { offset: 0, len: 512 },
            );
            emulated.start(at + after * MILLIS, tag, &op, Ok(Buffer::Zero(512)), ended);
        };
        read(0, 1, &mut ended);
        read(1, 2, &mut ended);
        read(35, 3, &mut ended);
        assert_eq!(ids(&mut ended), [1, 2], "they ended at 10 and 20 ms");
        for (after, expected) in [(44, vec![]), (46, vec![3])] {
            emulated.collect(at + after * MILLIS, &mut ended).unwrap();
            assert_eq!(ids(&mut ended), expected, "after {after} ms");
        }
    }
}
