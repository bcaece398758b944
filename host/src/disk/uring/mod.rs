//! Disk operations started on an `io_uring`, for disks that make one wait.
//!
//! A write takes pieces that lie in whole pages from where they are, as what hosts have sent does; others are copied into
//! aligned buffers (`gather`), because direct I/O takes no others. A read lands in an aligned buffer that becomes the
//! bytes handed on, without a copy.

mod gather;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::{Errno, ReadWriteFlags};
use weft_bytes::memory::{PageBuffer, Pool};
use weft_core::Buffer;
use weft_core::store::{DiskOp, DiskRequest, DiskResult, Urgency};

use crate::disk::queue::{DiskQueue, Line};
use crate::disk::{Disk, PUNCH};

use gather::Gathered;

/// Most operations that the kernel has at a time. Were there more than it has room to tell the
/// ends of, it would keep the rest back, and nothing would say so.
const ENTRIES: u32 = DiskQueue::DEEPEST;
const RWF_DSYNC: i32 = 2;

/// What the kernel says of an operation for which it can make no thread, as where the number of processes is limited.
/// We cancel none.
const GIVEN_BACK: i32 = -Errno::CANCELED.raw_os_error();

/// Whether that has happened in this process, and whether the operator knows.
static SHORTAGE: AtomicU8 = AtomicU8::new(0);
const SEEN: u8 = 1;
const TOLD: u8 = 2;

/// Whose an operation is: node, which of its lives, and the operation's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) node: usize,
    pub(crate) life: u64,
    pub(crate) id: u64,
    pub(crate) urgency: Urgency,
}

#[derive(Debug)]
struct InFlight {
    tag: Tag,
    /// Keeps the file open.
    disk: Arc<Disk>,
    /// Keeps the memory in place while the kernel works on it.
    work: Work,
    offset: u64,
    len: usize,
    /// Bytes moved so far; the kernel may move fewer than asked.
    moved: usize,
}

/// What is done, and the memory for it.
#[derive(Debug)]
enum Work {
    Read(PageBuffer),
    Write { what: Gathered, durable: bool },
    Flush,
    Discard,
}

impl Work {
    fn verb(&self) -> &'static str {
        match self {
            Work::Read(_) => "read",
            Work::Write { .. } => "write",
            Work::Flush => "flush",
            Work::Discard => "discard from",
        }
    }
}

/// A ring and the operations on it.
pub(crate) struct Ring {
    ring: IoUring,
    pool: Pool,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<usize>,
    unsubmitted: bool,
    /// Operations that the kernel has, or gets with the next submission.
    given: u32,
    /// What waits for each node's disk.
    lines: BTreeMap<usize, Line<usize>>,
    /// The node whose disk has the next turn where not all can be given.
    turn: usize,
}

impl Ring {
    /// A ring, if the system has them, and if operations can be started on it: some sandboxes refuse only that.
    pub(crate) fn new() -> io::Result<Ring> {
        let mut ring = IoUring::new(ENTRIES)?;
        // SAFETY: it has no memory and no file.
        let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
        assert!(pushed.is_ok(), "the ring is empty");
        while let Err(e) = ring.submit_and_wait(1) {
            if e.kind() != io::ErrorKind::Interrupted {
                return Err(e);
            }
        }
        ring.completion().for_each(drop);
        Ok(Ring {
            ring,
            pool: Pool::of_process(),
            in_flight: Vec::new(),
            free: Vec::new(),
            unsubmitted: false,
            given: 0,
            lines: BTreeMap::new(),
            turn: 0,
        })
    }

    /// What to poll for ends of operations.
    pub(crate) fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Queues an operation; [`Ring::submit`] starts it.
    pub(crate) fn start(&mut self, tag: Tag, disk: &Arc<Disk>, request: DiskRequest) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(None);
            self.in_flight.len() - 1
        });
        let line = self.lines.entry(tag.node).or_insert_with(|| Line::new(disk.queue));
        line.push(&request.op, slot);
        let (work, offset, len) = match request.op {
            DiskOp::Read { offset, len } => {
                (Work::Read(self.pool.get(len as usize)), offset, len as usize)
            }
            DiskOp::Write { offset, data, durable } => {
                let what = Gathered::of(data, &self.pool);
                let len = what.len();
                (Work::Write { what, durable }, offset, len)
            }
            DiskOp::Flush => (Work::Flush, 0, 0),
            DiskOp::Discard { offset, len } => (Work::Discard, offset, len as usize),
        };
        let op = InFlight { tag, disk: disk.clone(), work, offset, len, moved: 0 };
        self.in_flight[slot] = Some(op);
    }

    /// How many operations wait for a node's disk.
    pub(crate) fn waiting(&self, node: usize) -> usize {
        self.lines.get(&node).map_or(0, Line::len)
    }

    /// Gives the kernel of what waits as much as there is room for, the disks in turns.
    fn give(&mut self) {
        while self.given < ENTRIES {
            let turns = self.lines.range_mut(self.turn..);
            let Some((node, slot)) =
                first_to_give(turns).or_else(|| first_to_give(self.lines.range_mut(..self.turn)))
            else {
                return;
            };
            self.turn = node + 1;
            self.given += 1;
            self.push(slot);
        }
    }

    fn push(&mut self, slot: usize) {
        let Some(op) = &mut self.in_flight[slot] else { return };
        let entry = entry(op).user_data(slot as u64);
        self.unsubmitted = true;
        // SAFETY: the entry's memory and file belong to `in_flight[slot]`, which is kept
        // until the operation has ended (`Drop` waits for all).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "there is room for as many as are given");
    }

    /// Starts what is queued, as far as the disks may be given it.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.give();
        while std::mem::take(&mut self.unsubmitted) {
            match self.ring.submit() {
                Ok(_) => {}
                // Busy: ends must be collected first; the caller comes back after that.
                Err(e) if busy(&e) => {
                    self.unsubmitted = true;
                    return Ok(());
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Collects the operations that have ended.
    pub(crate) fn collect(&mut self, ended: &mut Vec<(Tag, DiskResult)>) {
        let results: Vec<(usize, i32)> =
            self.ring.completion().map(|e| (e.user_data() as usize, e.result())).collect();
        for (slot, result) in results {
            let Some(op) = &mut self.in_flight[slot] else { continue };
            let advanced = match result == GIVEN_BACK {
                true => Some(op.run_plainly()),
                false => op.advance(result),
            };
            if let Some(result) = advanced {
                let tag = op.tag;
                ended.push((tag, result));
                if let Some(line) = self.lines.get_mut(&tag.node) {
                    line.ended();
                }
                self.in_flight[slot] = None;
                self.free.push(slot);
                self.given -= 1;
            } else {
                self.push(slot);
            }
        }
        self.give();
    }
}

/// Whether the kernel has given operations back for want of threads and nobody has been told yet. It says so once.
pub(crate) fn is_newly_short_of_threads() -> bool {
    SHORTAGE.compare_exchange(SEEN, TOLD, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// The first of these disks that may be given something, and what that is.
fn first_to_give<'a>(
    mut lines: impl Iterator<Item = (&'a usize, &'a mut Line<usize>)>,
) -> Option<(usize, usize)> {
    lines.find_map(|(node, line)| line.give().map(|slot| (*node, slot)))
}

impl InFlight {
    /// Takes note of what the kernel says; `None` if the operation must go on.
    fn advance(&mut self, result: i32) -> Option<DiskResult> {
        let again = io::Error::from_raw_os_error(-result.min(0));
        match &self.work {
            Work::Discard => Some(Ok(Buffer::Zero(0))),
            _ if result < 0 && busy(&again) => None,
            work if result < 0 => Some(Err(self.disk.error(work.verb(), again))),
            Work::Flush => Some(Ok(Buffer::Zero(0))),
            work => {
                self.moved += result as usize;
                if self.moved >= self.len {
                    return Some(Ok(self.finish()));
                }
                let end = io::Error::from(io::ErrorKind::UnexpectedEof);
                (result == 0).then(|| Err(self.disk.error(work.verb(), end)))
            }
        }
    }

    /// Does what remains with plain system calls.
    fn run_plainly(&mut self) -> DiskResult {
        let _ = SHORTAGE.compare_exchange(0, SEEN, Ordering::Relaxed, Ordering::Relaxed);
        loop {
            let result = self.call();
            if let Some(result) = self.advance(result) {
                return result;
            }
        }
    }

    /// One such call, and what the kernel says, as the ring has it.
    fn call(&mut self) -> i32 {
        let (file, at) = (&self.disk.file, self.offset + self.moved as u64);
        let said = match &mut self.work {
            Work::Read(buffer) => rustix::io::pread(file, &mut buffer.as_mut()[self.moved..], at),
            Work::Write { what, durable } => {
                let flags = if *durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
                rustix::io::pwritev2(file, what.after(self.moved), at, flags)
            }
            Work::Flush => rustix::fs::fdatasync(file).map(|()| 0),
            Work::Discard => {
                rustix::fs::fallocate(file, PUNCH, self.offset, self.len as u64).map(|()| 0)
            }
        };
        said.map_or_else(|e| -e.raw_os_error(), |moved| moved as i32)
    }

    fn finish(&mut self) -> Buffer {
        match std::mem::replace(&mut self.work, Work::Flush) {
            Work::Read(buffer) => Buffer::Bytes(Bytes::from_owner(buffer)),
            _ => Buffer::Zero(0),
        }
    }
}

fn busy(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
        || e.kind() == io::ErrorKind::ResourceBusy
}

/// The ring's entry for what remains to be done of an operation.
fn entry(op: &mut InFlight) -> squeue::Entry {
    let fd = Fd(op.disk.file.as_raw_fd());
    let offset = op.offset + op.moved as u64;
    match &mut op.work {
        Work::Read(buffer) => {
            let rest = &mut buffer.as_mut()[op.moved..];
            opcode::Read::new(fd, rest.as_mut_ptr(), rest.len() as u32).offset(offset).build()
        }
        Work::Write { what, durable } => {
            let pieces = what.after(op.moved);
            opcode::Writev::new(fd, pieces.as_ptr().cast(), pieces.len() as u32)
                .offset(offset)
                .rw_flags(if *durable { RWF_DSYNC } else { 0 })
                .build()
        }
        Work::Flush => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        Work::Discard => opcode::Fallocate::new(fd, op.len as u64)
            .offset(op.offset)
            .mode(PUNCH.bits() as i32)
            .build(),
    }
}

impl Drop for Ring {
    /// Waits for everything, so that no memory is freed under the kernel's hands.
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.in_flight.iter().any(Option::is_some) {
            self.unsubmitted = true;
            if self.submit().is_err() || self.ring.submit_and_wait(1).is_err() {
                // The memory stays in use for good: leaking it is the safe way out.
                std::mem::forget(std::mem::take(&mut self.in_flight));
                return;
            }
            self.collect(&mut ended);
        }
    }
}

#[cfg(test)]
mod tests;
