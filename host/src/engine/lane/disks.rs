//! How a thread works the disks of the nodes that it runs.

use std::os::fd::RawFd;
use std::sync::Arc;

use weft_core::Buffer;
use weft_core::store::{DiskRequest, DiskResult};

use crate::clock::boot_time;
use crate::disk::emulated::{Emulated, Emulation};
use crate::disk::queue::DiskQueue;
use crate::disk::space::is_full;
use crate::disk::sync::AtOnce;
use crate::disk::threads::Threads;
use crate::disk::uring::{Ring, Tag};
use crate::disk::{Backend, Disk};
use crate::error::{Error, Result};

/// How a thread has operations done without waiting for them, and what holds disks back that are to be like others.
pub(crate) struct Disks {
    /// None if the system has no rings; then there are threads.
    ring: Option<Ring>,
    threads: Threads,
    emulated: Option<Emulated>,
    /// Operations with plain system calls that wait for one another.
    at_once: AtOnce,
}

impl Disks {
    /// Those of a thread, and why they have no ring if they have none.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub(crate) fn new() -> Result<(Disks, Option<std::io::Error>)> {
        let (ring, missing) = match Ring::new() {
            Ok(ring) => (Some(ring), None),
            Err(e) => (None, Some(e)),
        };
        let cannot = |e| Error(format!("cannot use threads for disk operations: {e}"));
        let threads = Threads::new().map_err(cannot)?;
        Ok((Disks { ring, threads, emulated: None, at_once: AtOnce::default() }, missing))
    }

    /// Whether there is a ring.
    pub(crate) fn have_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Whether they take as long as others.
    pub(crate) fn are_emulated(&self) -> bool {
        self.emulated.is_some()
    }

    /// What to poll for ends of operations.
    pub(crate) fn fds(&self) -> impl Iterator<Item = RawFd> + use<> {
        self.ring.as_ref().map(Ring::fd).into_iter().chain(self.threads.fds())
    }

    /// Has disks take as long as others, and says what to poll for ends of operations.
    pub(crate) fn emulate(&mut self, emulation: Emulation) -> Result<RawFd> {
        Ok(self.emulated.insert(Emulated::new(emulation)?).fd())
    }

    /// How many operations wait for a node's disk until it can be given them.
    pub(crate) fn waiting(&self, node: usize) -> usize {
        self.ring.as_ref().map_or(0, |ring| ring.waiting(node)) + self.threads.waiting(node)
    }

    /// Whether a disk's operations end by themselves, so that the time until then is the disk's.
    pub(super) fn are_timed(&self, disk: &Disk) -> bool {
        self.are_emulated() || !disk.volatile
    }

    /// Begins an operation. One that is done at once has ended by the next [`Disks::collect`].
    pub(super) fn begin(
        &mut self,
        tag: Tag,
        disk: &Arc<Disk>,
        request: DiskRequest,
        ended: &mut Vec<(Tag, DiskResult)>,
    ) {
        if let Some(emulated) = &mut self.emulated {
            let result = disk.run(request.op.clone());
            return emulated.start(boot_time(), tag, &request.op, result, ended);
        }
        match (disk.backend(), &mut self.ring) {
            _ if disk.ignores(&request.op) => ended.push((tag, Ok(Buffer::Zero(0)))),
            (Backend::Uring, Some(ring)) => ring.start(tag, disk, request),
            _ if !disk.volatile => self.threads.start(tag, disk, request),
            _ if disk.queue == DiskQueue::default() => match disk.run_twice(&request.op) {
                Err(e) if is_full(&e) => self.threads.start(tag, disk, request),
                result => ended.push((tag, result.map_err(|e| disk.failed(&request.op, e)))),
            },
            _ => self.at_once.add(tag, disk, request),
        }
    }

    /// Starts what has been queued, and takes what has ended by now.
    ///
    /// # Errors
    /// If operations cannot be started, or a timer cannot be set.
    pub(super) fn collect(&mut self, ended: &mut Vec<(Tag, DiskResult)>) -> Result<()> {
        std::mem::take(&mut self.at_once).run(ended);
        if let Some(emulated) = &mut self.emulated {
            emulated.collect(boot_time(), ended)?;
        }
        if self.threads.are_used() {
            self.threads.collect(ended);
        }
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let started = ring.submit();
        ring.collect(ended);
        // What has ended makes room for what waited, and what was done in part goes on.
        let cannot = |e| Error(format!("cannot start disk operations: {e}"));
        started.and_then(|()| ring.submit()).map_err(cannot)
    }
}
