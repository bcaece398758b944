//! Disk operations done by threads, where the system has no `io_uring`: each disk has a few of its own, so that one disk
//! that does not answer holds up no other.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use weft_core::store::{DiskOp, DiskRequest, DiskResult};

use crate::disk::Disk;
use crate::disk::queue::Line;
use crate::disk::space::{RETRY_AFTER, is_full};
use crate::disk::uring::Tag;

/// The threads of a disk. More would help a disk that does many things at a time; systems that have those have rings.
const EACH: usize = 4;

type Operation = (Tag, Arc<Disk>, DiskRequest);

/// The threads, and operations that wait for them.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    disks: BTreeMap<usize, DiskThreads>,
}

/// What threads say, and to whom.
struct Shared {
    bell: OwnedFd,
    ended: Mutex<Vec<(Tag, DiskResult)>>,
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
        let shared = Arc::new(Shared { bell, ended: Mutex::new(Vec::new()) });
        Ok(Threads { shared, disks: BTreeMap::new() })
    }

    /// What to poll for ends of operations.
    pub(crate) fn fd(&self) -> RawFd {
        self.shared.bell.as_raw_fd()
    }

    /// Begins an operation.
    pub(crate) fn start(&mut self, tag: Tag, disk: &Arc<Disk>, request: DiskRequest) {
        let shared = &self.shared;
        let new = || DiskThreads { line: Line::new(disk.queue), work: start_threads(shared) };
        let its = self.disks.entry(tag.node).or_insert_with(new);
        let op = request.op.clone();
        its.line.push(&op, (tag, disk.clone(), request));
        its.give(shared);
    }

    /// Whether any disk has threads.
    pub(crate) fn are_used(&self) -> bool {
        !self.disks.is_empty()
    }

    /// How many operations wait for a node's disk.
    pub(crate) fn waiting(&self, node: usize) -> usize {
        self.disks.get(&node).map_or(0, |its| its.line.len())
    }

    /// Takes the operations that have ended.
    pub(crate) fn collect(&mut self, ended: &mut Vec<(Tag, DiskResult)>) {
        // It says that there is something to take, and how often that was said matters to nobody.
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        let all = std::mem::take(&mut *self.shared.lock());
        for (tag, _) in &all {
            if let Some(its) = self.disks.get_mut(&tag.node) {
                its.line.ended();
                its.give(&self.shared);
            }
        }
        ended.extend(all);
    }
}

impl DiskThreads {
    fn give(&mut self, shared: &Shared) {
        while let Some(operation) = self.line.give() {
            if let Err(lost) = self.work.send(operation) {
                // No thread could be started for this disk.
                let (tag, disk, request) = lost.0;
                shared.tell(tag, disk.run(request.op));
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Tag, DiskResult)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, tag: Tag, result: DiskResult) {
        self.lock().push((tag, result));
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
            while let Some((tag, disk, request)) = next(&todo) {
                shared.tell(tag, run_patiently(&disk, request));
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

/// Does an operation, and retries it as long as it finds no free space.
fn run_patiently(disk: &Disk, request: DiskRequest) -> DiskResult {
    let mut waits = false;
    loop {
        match disk.run_twice(&request.op) {
            Err(e) if is_full(&e) && disk.may_await_space(is_durable(&request)) => {
                if !std::mem::replace(&mut waits, true) {
                    disk.space.is_awaited();
                }
                thread::sleep(RETRY_AFTER);
            }
            result => {
                if waits {
                    disk.space.is_found();
                }
                return result.map_err(|e| disk.failed(&request.op, e));
            }
        }
    }
}

fn is_durable(request: &DiskRequest) -> bool {
    !matches!(request.op, DiskOp::Write { durable: false, .. })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use weft_core::Buffer;
    use weft_core::store::Urgency;

    use super::*;
    use crate::disk::Backend;

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
}
