//! Disk operations done by threads, where the system has no `io_uring`: each disk has a few of its own, so that one disk
//! that does not answer holds up no other.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use weft_core::store::{DiskOp, DiskRequest, DiskResult};

use crate::disk::Disk;
use crate::disk::queue::{Line, bytes};
use crate::disk::space::{RETRY_AFTER, is_full};
use crate::disk::uring::Tag;

/// The threads of a disk. More would help a disk that does many things at a time; systems that have those have rings.
const EACH: usize = 4;

struct Operation {
    tag: Tag,
    disk: Arc<Disk>,
    request: DiskRequest,
    /// It has found no free space, and is retried until there is some.
    lacks_space: bool,
}

/// What has become of an operation.
enum Said {
    Ended(Tag, u64, DiskResult),
    /// It found no free space, and waits without a thread until it is retried.
    Later(Operation),
}

/// The threads, and operations that wait for them.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    /// By node and the disk's number: an earlier disk that does not answer holds up no later one.
    disks: BTreeMap<(usize, u64), DiskThreads>,
    /// Writes that found no free space.
    without_space: Vec<Operation>,
    /// Says when they are retried.
    timer: OwnedFd,
    /// When that is; none if nothing is retried.
    retry_at: Option<Instant>,
}

/// What threads say, and to whom.
struct Shared {
    bell: OwnedFd,
    said: Mutex<Vec<Said>>,
}

/// Those of a node's disk.
struct DiskThreads {
    line: Line<Operation>,
    /// To its threads.
    work: Sender<Operation>,
}

impl Threads {
    /// # Errors
    /// If the system has no more descriptors.
    pub(crate) fn new() -> io::Result<Threads> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { bell, said: Mutex::new(Vec::new()) });
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let (disks, without_space) = (BTreeMap::new(), Vec::new());
        Ok(Threads { shared, disks, without_space, timer, retry_at: None })
    }

    /// What to poll for ends of operations, and for the time to retry some.
    pub(crate) fn fds(&self) -> [RawFd; 2] {
        [self.shared.bell.as_raw_fd(), self.timer.as_raw_fd()]
    }

    /// Begins an operation.
    pub(crate) fn start(&mut self, tag: Tag, disk: &Arc<Disk>, request: DiskRequest) {
        let key = (tag.node, disk.number);
        if !self.disks.contains_key(&key) {
            self.disks.retain(|(node, _), its| *node != tag.node || !its.line.is_idle());
        }
        let shared = &self.shared;
        let new = || DiskThreads { line: Line::new(disk.queue), work: start_threads(shared) };
        let its = self.disks.entry(key).or_insert_with(new);
        let op = request.op.clone();
        let disk = disk.clone();
        its.line.push(&op, Operation { tag, disk, request, lacks_space: false });
        its.give(shared);
    }

    /// Whether any disk has threads.
    pub(crate) fn are_used(&self) -> bool {
        !self.disks.is_empty()
    }

    /// How many operations wait for a node's disk.
    pub(crate) fn waiting(&self, node: usize) -> usize {
        self.disks.range((node, 0)..(node + 1, 0)).map(|(_, its)| its.line.len()).sum()
    }

    /// Takes the operations that have ended.
    pub(crate) fn collect(&mut self, ended: &mut Vec<(Tag, DiskResult)>) {
        // It says that there is something to take, and how often that was said matters to nobody.
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        let all = std::mem::take(&mut *self.shared.lock());
        for said in all {
            match said {
                Said::Ended(tag, disk, result) => {
                    if let Some(its) = self.disks.get_mut(&(tag.node, disk)) {
                        its.line.ended();
                        its.give(&self.shared);
                    }
                    ended.push((tag, result));
                }
                Said::Later(operation) => {
                    let its = its_threads(&mut self.disks, &operation);
                    its.line.park();
                    its.give(&self.shared);
                    self.without_space.push(operation);
                }
            }
        }
        self.retry();
    }

    /// Has writes that found no free space wait for their disks again, when it is time.
    fn retry(&mut self) {
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.retry_at = None;
            let _ = rustix::io::read(&self.timer, &mut [0; 8]);
            for operation in std::mem::take(&mut self.without_space) {
                let its = its_threads(&mut self.disks, &operation);
                let bytes = bytes(&operation.request.op).expect("only writes wait for free space");
                its.line.put_back(bytes, operation);
                its.give(&self.shared);
            }
        }
        if self.retry_at.is_none() && !self.without_space.is_empty() {
            self.retry_at = Some(Instant::now() + RETRY_AFTER);
            let it_value = Timespec::try_from(RETRY_AFTER).expect("it is short");
            let spec = Itimerspec { it_interval: Timespec::default(), it_value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec).expect("it is a timer");
        }
    }
}

/// The threads of the disk that an operation in work is for.
fn its_threads<'a>(
    disks: &'a mut BTreeMap<(usize, u64), DiskThreads>,
    operation: &Operation,
) -> &'a mut DiskThreads {
    let its = disks.get_mut(&(operation.tag.node, operation.disk.number));
    its.expect("a disk with operations in work or parked keeps its threads")
}

impl DiskThreads {
    fn give(&mut self, shared: &Shared) {
        while let Some(operation) = self.line.give() {
            self.send(operation, shared);
        }
    }

    fn send(&self, operation: Operation, shared: &Shared) {
        if let Err(lost) = self.work.send(operation) {
            // No thread could be started for this disk.
            shared.tell(lost.0.run());
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Said>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, said: Said) {
        self.lock().push(said);
        self.ring();
    }

    fn ring(&self) {
        // It fails only if nobody has looked 2^64 times.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// Starts the threads of a disk, which end when nobody can give them work any more.
fn start_threads(shared: &Arc<Shared>) -> Sender<Operation> {
    let (work, todo) = channel();
    let todo = Arc::new(Mutex::new(todo));
    for _ in 0..EACH {
        let (todo, shared) = (todo.clone(), shared.clone());
        let run = move || {
            while let Some(operation) = next(&todo) {
                shared.tell(operation.run());
            }
        };
        // One is enough, and with none operations are done where they are begun.
        let _ = thread::Builder::new().name("weft-disk".to_string()).spawn(run);
    }
    work
}

fn next(todo: &Mutex<Receiver<Operation>>) -> Option<Operation> {
    todo.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

impl Operation {
    /// Does it, if there is free space.
    fn run(mut self) -> Said {
        match self.disk.run_twice(&self.request.op) {
            Err(e) if is_full(&e) && self.may_await_space() => {
                if !std::mem::replace(&mut self.lacks_space, true) {
                    self.disk.space.is_awaited();
                }
                Said::Later(self)
            }
            result => {
                if self.lacks_space {
                    self.disk.space.is_found();
                }
                let result = result.map_err(|e| self.disk.failed(&self.request.op, e));
                Said::Ended(self.tag, self.disk.number, result)
            }
        }
    }

    /// Whether it is retried where it found no free space. A flush is not: it fails once, and then succeeds.
    fn may_await_space(&self) -> bool {
        match self.request.op {
            DiskOp::Write { durable, .. } => self.disk.may_await_space(durable),
            DiskOp::Read { .. } | DiskOp::Flush | DiskOp::Discard { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, poll};
    use weft_core::Buffer;
    use weft_core::store::Urgency;

    use super::*;
    use crate::disk::Backend;
    use crate::disk::queue::DiskQueue;

    fn collect(threads: &mut Threads, count: usize) -> Vec<(Tag, DiskResult)> {
        let (begun, mut ended) = (Instant::now(), Vec::new());
        while ended.len() < count {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} have ended", ended.len());
            threads.collect(&mut ended);
            thread::sleep(Duration::from_millis(1));
        }
        ended
    }

    #[test]
    fn operations_of_a_disk_are_done_and_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let mut threads = Threads::new().unwrap();
        let path = dir.path().join("disk");
        drop(Disk::create(&path, 1 << 20).unwrap());
        let disk = Arc::new(Disk::open(&path, 1 << 20, Some(Backend::Sync)).unwrap());
        let start = |threads: &mut Threads, id: u64, op: DiskOp| {
            let urgency = Urgency::Awaited;
            let tag = Tag { node: 3, life: 0, id, urgency };
            threads.start(tag, &disk, DiskRequest { id, op, urgency });
        };
        for id in 0..100 {
            let data = vec![Buffer::from(vec![id as u8; 4096])];
            start(&mut threads, id, DiskOp::Write { offset: id * 4096, data, durable: false });
        }
        assert!(collect(&mut threads, 100).iter().all(|(_, result)| result.is_ok()));
        start(&mut threads, 100, DiskOp::Read { offset: 99 * 4096, len: 4096 });
        let read = collect(&mut threads, 1).remove(0).1.unwrap();
        assert_eq!(read.to_bytes()[..], [99; 4096]);
        start(&mut threads, 101, DiskOp::Read { offset: 2 << 20, len: 4096 });
        let error = collect(&mut threads, 1).remove(0).1.unwrap_err();
        assert!(error.contains("cannot read") && error.contains("/disk"), "{error}");
        assert_eq!(threads.waiting(3), 0);
    }

    /// A full file system, which refuses writes and can be read. The disk is given few operations at a time.
    #[test]
    fn writes_without_free_space_hold_up_nothing_else() {
        let (path, mut threads) = (std::path::Path::new("/dev/full"), Threads::new().unwrap());
        let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let mut disk = Disk::of(file, path, crate::disk::Kind::File).unwrap();
        disk.queue = DiskQueue::new(Some("sstf"), None).unwrap();
        let disk = Arc::new(disk);
        let urgency = Urgency::Awaited;
        for id in 0..=2 * EACH as u64 {
            let data = vec![Buffer::from(vec![7; 512])];
            let op = match id < 2 * EACH as u64 {
                true => DiskOp::Write { offset: 0, data, durable: false },
                false => DiskOp::Read { offset: 0, len: 512 },
            };
            let tag = Tag { node: 0, life: 0, id, urgency };
            threads.start(tag, &disk, DiskRequest { id, op, urgency });
        }
        let (tag, result) = collect(&mut threads, 1).remove(0);
        assert_eq!((tag.id, result.unwrap().len()), (2 * EACH as u64, 512));
        let parked_all = |threads: &mut Threads| {
            let begun = Instant::now();
            while threads.without_space.len() < 2 * EACH {
                assert!(begun.elapsed() < Duration::from_secs(60), "they are retried");
                threads.collect(&mut Vec::new());
            }
        };
        parked_all(&mut threads);
        assert!(disk.space.lacks_for().is_some());

        // They are retried when the timer says so, find no free space again, and their disk keeps its threads.
        let mut timer = [PollFd::new(&threads.timer, PollFlags::IN)];
        let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut timer, Some(&minute)).unwrap(), 1);
        threads.collect(&mut Vec::new());
        parked_all(&mut threads);
        assert!(!threads.disks.values().next().unwrap().line.is_idle());
    }
}
