//! Disk operations started on an `io_uring`, for disks that make one wait.
//!
//! A write takes pieces that lie in whole pages from where they are, as what hosts have sent does; others are copied into
//! aligned buffers (`gather`), because direct I/O takes no others. A read lands in an aligned buffer that becomes the
//! bytes handed on, without a copy.
//!
//! One disk must not hold up the others of a ring. A disk that answers nothing is given few operations more, because each
//! may occupy a thread of the kernel. A write that finds no free space is retried until there is some (`space`).

mod gather;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::{Errno, ReadWriteFlags};
use weft_bytes::memory::{PageBuffer, Pool};
use weft_core::Buffer;
use weft_core::store::{DiskOp, DiskRequest, DiskResult, Urgency};

use crate::disk::queue::{DiskQueue, Line};
use crate::disk::space::{RETRY_AFTER, is_full, may_pass};
use crate::disk::{Disk, PUNCH};

use gather::Gathered;

/// Operations that one system call can submit.
const ENTRIES: u32 = DiskQueue::DEEPEST;
/// Most operations that the kernel has at a time. Were there more than it has room to tell the
/// ends of, it would keep the rest back, and nothing would say so.
const MOST_GIVEN: u32 = 16 * ENTRIES;
/// A disk that has ended no operation for this long is given no more than [`FEW`].
const STALLED: Duration = Duration::from_secs(1);
/// Most operations that a stalled disk is given.
const FEW: u32 = 16;
/// Most operations of a disk that are given to threads of the kernel, because starting them may take long.
const MOST_SLOW: u32 = 32;
/// Most threads that the kernel may use for operations that block: enough for several stalled disks and the others.
const KERNEL_THREADS: u32 = 128;
/// What the ring says when it is time to retry writes that found no free space.
const RETRY: u64 = u64::MAX;
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
    /// It has failed, and is tried a second time.
    failed: bool,
    /// It is retried until there is free space.
    lacks_space: bool,
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

    /// Whether it may be tried a second time after an error that may pass.
    fn may_run_twice(&self, disk: &Disk) -> bool {
        match self {
            Work::Read(_) => true,
            Work::Write { durable, .. } => disk.may_retry(*durable),
            Work::Flush | Work::Discard => false,
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
    /// What waits for each node's disk, by node and the disk's number: an earlier disk that does not answer holds up no
    /// later one.
    lines: BTreeMap<(usize, u64), DiskLine>,
    /// The node whose disk has the next turn where not all can be given.
    turn: usize,
    /// Writes that found no free space.
    without_space: Vec<usize>,
    /// The kernel has been asked to say when they are retried, and where it reads for how long.
    retry_is_set: bool,
    retry_after: Box<Timespec>,
}

/// What waits for a disk.
struct DiskLine {
    line: Line<usize>,
    /// When it last ended an operation, or was given one while it had none.
    answered: Instant,
    /// How many operations it may be given.
    most: u32,
}

impl DiskLine {
    fn new(queue: DiskQueue, starts_slowly: bool, now: Instant) -> DiskLine {
        let most = if starts_slowly { MOST_SLOW } else { u32::MAX };
        DiskLine { line: Line::new(queue), answered: now, most }
    }

    /// The next operation that it may be given.
    fn give(&mut self, now: Instant) -> Option<usize> {
        match self.line.given() {
            0 => self.answered = now,
            given if given >= self.most => return None,
            FEW.. if now.duration_since(self.answered) >= STALLED => return None,
            _ => {}
        }
        self.line.give()
    }
}

/// What follows from what the kernel says of an operation.
enum Next {
    /// It has ended.
    Ended(DiskResult),
    /// It goes on, or is tried once more.
    Again,
    /// The file system is full: it is retried later.
    Later,
}

impl Ring {
    /// A ring, if the system has them, and if operations can be started on it: some sandboxes refuse only that.
    pub(crate) fn new() -> io::Result<Ring> {
        let mut ring: IoUring = IoUring::builder().setup_cqsize(MOST_GIVEN).build(ENTRIES)?;
        // Kernels before 5.15 cannot be told; there the limit is four for each processor.
        let _ = ring.submitter().register_iowq_max_workers(&mut [KERNEL_THREADS, 0]);
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
            without_space: Vec::new(),
            retry_is_set: false,
            retry_after: Box::new(Timespec::from(RETRY_AFTER)),
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
        let key = (tag.node, disk.number);
        if !self.lines.contains_key(&key) {
            self.lines.retain(|(node, _), its| *node != tag.node || !its.line.is_idle());
        }
        let new = || DiskLine::new(disk.queue, disk.starts_slowly, Instant::now());
        self.lines.entry(key).or_insert_with(new).line.push(&request.op, slot);
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
        let (disk, moved, failed, lacks_space) = (disk.clone(), 0, false, false);
        let op = InFlight { tag, disk, work, offset, len, moved, failed, lacks_space };
        self.in_flight[slot] = Some(op);
    }

    /// Waits until an operation ends, for a moment at most.
    fn wait_briefly(&mut self) -> io::Result<()> {
        let moment = Timespec::from(RETRY_AFTER / 10);
        let args = SubmitArgs::new().timespec(&moment);
        match self.ring.submitter().submit_with_args(1, &args) {
            Err(e) if e.raw_os_error() != Some(Errno::TIME.raw_os_error()) && !busy(&e) => Err(e),
            _ => Ok(()),
        }
    }

    /// How many operations wait for a node's disk.
    pub(crate) fn waiting(&self, node: usize) -> usize {
        self.lines.range((node, 0)..(node + 1, 0)).map(|(_, line)| line.line.len()).sum()
    }

    /// Gives the kernel of what waits as much as there is room for, the disks in turns.
    fn give(&mut self) {
        if self.lines.values().all(|line| line.line.len() == 0) {
            return;
        }
        let now = Instant::now();
        while self.given < MOST_GIVEN {
            let Some(slot) = self.next_slot(now) else { return };
            self.given += 1;
            self.push(slot);
        }
    }

    /// The next operation that a disk may be given.
    fn next_slot(&mut self, now: Instant) -> Option<usize> {
        let turn = (self.turn, 0);
        let turns = self.lines.range_mut(turn..);
        let (node, slot) = first_to_give(turns, now)
            .or_else(|| first_to_give(self.lines.range_mut(..turn), now))?;
        self.turn = node + 1;
        Some(slot)
    }

    fn push(&mut self, slot: usize) {
        let Some(op) = &mut self.in_flight[slot] else { return };
        let flags = match op.disk.starts_slowly {
            true => squeue::Flags::ASYNC,
            false => squeue::Flags::empty(),
        };
        let entry = entry(op).user_data(slot as u64).flags(flags);
        // SAFETY: the entry's memory and file belong to `in_flight[slot]`, which is kept
        // until the operation has ended (`Drop` waits for all).
        unsafe { self.push_entry(&entry) };
    }

    /// # Safety
    /// The entry's memory and file must last until its end is told.
    unsafe fn push_entry(&mut self, entry: &squeue::Entry) {
        self.unsubmitted = true;
        // SAFETY: as the caller promises.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // The kernel takes what is there, and so makes room. If it is busy it does so soon.
            let _ = self.ring.submit();
        }
    }

    /// Writes that found no free space wait for their disks again.
    fn put_back(&mut self) {
        for slot in std::mem::take(&mut self.without_space) {
            let Some(op) = &self.in_flight[slot] else { continue };
            let key = (op.tag.node, op.disk.number);
            let line = self.lines.get_mut(&key).expect("a disk with parked writes keeps its line");
            let (first, end) = (op.offset + op.moved as u64, op.offset + op.len as u64);
            line.line.put_back((first, end), slot);
        }
    }

    /// Has the kernel say when writes that found no free space are to be retried.
    fn set_retry(&mut self) {
        if !std::mem::replace(&mut self.retry_is_set, true) {
            let entry = opcode::Timeout::new(&*self.retry_after).build().user_data(RETRY);
            // SAFETY: the length of time is never changed, and lasts as long as the ring.
            unsafe { self.push_entry(&entry) };
        }
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
        if results.is_empty() {
            return;
        }
        let now = Instant::now();
        for (slot, result) in results {
            if slot as u64 == RETRY {
                self.retry_is_set = false;
                self.put_back();
                continue;
            }
            let Some(op) = &mut self.in_flight[slot] else { continue };
            let next = match result == GIVEN_BACK {
                true => op.run_plainly(),
                false => op.advance(result),
            };
            let key = (op.tag.node, op.disk.number);
            let tag = op.tag;
            match next {
                Next::Again => {
                    self.push(slot);
                    continue;
                }
                Next::Later => self.without_space.push(slot),
                Next::Ended(result) => {
                    ended.push((tag, result));
                    self.in_flight[slot] = None;
                    self.free.push(slot);
                }
            }
            self.given -= 1;
            if let Some(line) = self.lines.get_mut(&key) {
                line.answered = now;
                match self.in_flight[slot].is_some() {
                    true => line.line.park(),
                    false => line.line.ended(),
                }
            }
        }
        if !self.without_space.is_empty() {
            self.set_retry();
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
    mut lines: impl Iterator<Item = (&'a (usize, u64), &'a mut DiskLine)>,
    now: Instant,
) -> Option<(usize, usize)> {
    lines.find_map(|((node, _), line)| line.give(now).map(|slot| (*node, slot)))
}

impl InFlight {
    /// Takes note of what the kernel says.
    fn advance(&mut self, result: i32) -> Next {
        let error = io::Error::from_raw_os_error(-result.min(0));
        let next = match &self.work {
            Work::Discard => Next::Ended(Ok(Buffer::Zero(0))),
            _ if result < 0 && busy(&error) => Next::Again,
            Work::Write { durable, .. }
                if result < 0 && is_full(&error) && self.disk.may_await_space(*durable) =>
            {
                Next::Later
            }
            work if result < 0
                && may_pass(&error)
                && !self.failed
                && work.may_run_twice(&self.disk) =>
            {
                self.failed = true;
                Next::Again
            }
            work if result < 0 => Next::Ended(Err(self.disk.error(work.verb(), error))),
            Work::Flush => Next::Ended(Ok(Buffer::Zero(0))),
            work => {
                self.moved += result as usize;
                let end = io::Error::from(io::ErrorKind::UnexpectedEof);
                match (self.moved >= self.len, result) {
                    (true, _) => {
                        if self.failed {
                            self.disk.passed.count();
                        }
                        Next::Ended(Ok(self.finish()))
                    }
                    (false, 0) => Next::Ended(Err(self.disk.error(work.verb(), end))),
                    (false, _) => Next::Again,
                }
            }
        };
        match (&next, self.lacks_space) {
            (Next::Later, false) => self.disk.space.is_awaited(),
            (Next::Ended(_), true) => self.disk.space.is_found(),
            _ => return next,
        }
        self.lacks_space = !self.lacks_space;
        next
    }

    /// Does what remains with plain system calls.
    fn run_plainly(&mut self) -> Next {
        let _ = SHORTAGE.compare_exchange(0, SEEN, Ordering::Relaxed, Ordering::Relaxed);
        loop {
            let result = self.call();
            match self.advance(result) {
                Next::Again => {}
                next => return next,
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
    /// Waits for everything, so that no memory is freed under the kernel's hands; but not for ever: what a disk that does not
    /// answer has in work keeps its memory, and ends with the process.
    fn drop(&mut self) {
        let (begun, mut ended) = (Instant::now(), Vec::new());
        for slot in std::mem::take(&mut self.without_space) {
            self.in_flight[slot] = None;
        }
        while self.in_flight.iter().any(Option::is_some) {
            self.unsubmitted = true;
            let stalls = begun.elapsed() >= STALLED;
            if stalls || self.submit().is_err() || self.wait_briefly().is_err() {
                std::mem::forget(std::mem::take(&mut self.in_flight));
                return;
            }
            self.collect(&mut ended);
        }
    }
}

#[cfg(test)]
mod tests;
