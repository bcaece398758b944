//! Both ways of working a disk do the same.

use std::path::Path;

use rustix::fs::OFlags;

use super::*;
use crate::disk::sync::AtOnce;
use crate::disk::{Backend, is_in_memory};

const SIZE: u64 = 1 << 20;

/// Runs operations one after the other on a disk.
struct Worker {
    disk: Arc<Disk>,
    ring: Option<Ring>,
}

impl Worker {
    fn open(path: &Path, backend: Backend) -> Option<Worker> {
        let ring = match backend {
            Backend::Sync => None,
            // Without rings on this system there is nothing to test.
            Backend::Uring => Some(Ring::new().ok()?),
        };
        let disk = Arc::new(Disk::open(path, SIZE, Some(backend)).unwrap());
        Some(Worker { disk, ring })
    }

    fn run(&mut self, op: DiskOp) -> DiskResult {
        let Some(ring) = &mut self.ring else { return self.disk.run(op) };
        ring.start(
            Tag { node: 0, life: 0, id: 1, urgency: Urgency::Awaited },
            &self.disk,
            DiskRequest { id: 1, op, urgency: Urgency::Awaited },
        );
        let mut ended = Vec::new();
        while ended.is_empty() {
            ring.submit().unwrap();
            ring.ring.submit_and_wait(1).unwrap();
            ring.collect(&mut ended);
        }
        ended.remove(0).1
    }

    fn read(&mut self, offset: u64, len: u64) -> Bytes {
        self.run(DiskOp::Read { offset, len }).unwrap().to_bytes()
    }
}

fn for_each_backend(test: impl Fn(Worker)) {
    for dir in ["/dev/shm".into(), std::env::temp_dir()] {
        for backend in [Backend::Sync, Backend::Uring] {
            let Ok(dir) = tempfile::tempdir_in(&dir) else { continue };
            let path = dir.path().join("disk");
            drop(Disk::create(&path, SIZE).unwrap());
            if let Some(worker) = Worker::open(&path, backend) {
                test(worker);
            }
        }
    }
}

#[test]
fn files_in_memory_are_told_from_others() {
    assert!(is_in_memory(Path::new("/dev/shm")).unwrap());
    assert!(!is_in_memory(Path::new("/proc")).unwrap());
    assert!(is_in_memory(Path::new("/none")).unwrap_err().0.contains("/none"));
}

/// As the kernel does where it can make no thread for an operation.
#[test]
fn what_the_kernel_gives_back_is_done_with_plain_calls() {
    for_each_backend(|mut worker| {
        let Some(ring) = &mut worker.ring else { return };
        let mut run = |op: DiskOp| {
            let tag = Tag { node: 0, life: 0, id: 1, urgency: Urgency::Awaited };
            let request = DiskRequest { id: 1, op, urgency: Urgency::Awaited };
            ring.start(tag, &worker.disk, request);
            let slot = ring
                .lines
                .get_mut(&(0, worker.disk.number))
                .and_then(|its| its.line.give())
                .unwrap();
            let Next::Ended(result) = ring.in_flight[slot].as_mut().unwrap().run_plainly() else {
                panic!("it has free space");
            };
            ring.in_flight[slot] = None;
            ring.free.push(slot);
            ring.lines.get_mut(&(0, worker.disk.number)).unwrap().line.ended();
            result
        };
        for durable in [false, true] {
            let data = vec![Buffer::from(vec![7; 40_960]), Buffer::Zero(4096)];
            run(DiskOp::Write { offset: 8192, data, durable }).unwrap();
            run(DiskOp::Flush).unwrap();
            let read = run(DiskOp::Read { offset: 45_056, len: 8192 }).unwrap().to_bytes();
            assert_eq!((read[0], read[4095], read[4096]), (7, 7, 0));
            run(DiskOp::Discard { offset: 8192, len: 40_960 }).unwrap();
        }
        let beyond = run(DiskOp::Read { offset: 2 * SIZE, len: 4096 }).unwrap_err();
        assert!(beyond.contains("cannot read"), "{beyond}");
        assert!(is_newly_short_of_threads() || SHORTAGE.load(Ordering::Relaxed) == TOLD);
        assert!(!is_newly_short_of_threads(), "it is said once");
    });
}

#[test]
fn what_is_written_in_pieces_is_read_whole() {
    for_each_backend(|mut worker| {
        for durable in [false, true] {
            let data = vec![
                Buffer::from(vec![1; 100]),
                Buffer::Zero(200_000),
                Buffer::Zero(0),
                Buffer::from(vec![2; 4700]),
            ];
            worker.run(DiskOp::Write { offset: 8192, data, durable }).unwrap();
            worker.run(DiskOp::Flush).unwrap();
            let back = worker.read(4096, 4096 + 204_800);
            assert!(back[..4096].iter().all(|b| *b == 0));
            assert_eq!(back[4096..4196], [1; 100]);
            assert!(back[4196..204_196].iter().all(|b| *b == 0));
            assert_eq!(back[204_196..208_896], [2; 4700]);
        }
    });
}

#[test]
fn very_many_pieces_are_written_in_order() {
    for_each_backend(|mut worker| {
        let data =
            (0..2048u64).map(|n| Buffer::from((n as u16).to_le_bytes().repeat(128))).collect();
        worker.run(DiskOp::Write { offset: 0, data, durable: true }).unwrap();
        let back = worker.read(0, 2048 * 256);
        for (n, piece) in back.chunks(256).enumerate() {
            assert_eq!(piece, (n as u16).to_le_bytes().repeat(128));
        }
    });
}

#[test]
fn discarded_ranges_read_as_zeros_where_holes_can_be_made() {
    for_each_backend(|mut worker| {
        let data = vec![Buffer::from(vec![5; 16384])];
        worker.run(DiskOp::Write { offset: 0, data, durable: false }).unwrap();
        worker.run(DiskOp::Discard { offset: 4096, len: 8192 }).unwrap();
        let back = worker.read(0, 16384);
        assert!(back[..4096].iter().all(|b| *b == 5) && back[12288..].iter().all(|b| *b == 5));
        assert!(back[4096..12288].iter().all(|b| *b == 0));
    });
}

#[test]
fn errors_name_the_disk() {
    for_each_backend(|mut worker| {
        let err = worker.run(DiskOp::Read { offset: 2 * SIZE, len: 4096 }).unwrap_err();
        assert!(err.contains("cannot read") && err.contains("/disk"), "{err}");
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    assert!(Disk::open(&path, SIZE, None).unwrap_err().0.contains("cannot open"));
    drop(Disk::create(&path, SIZE).unwrap());
    assert!(Disk::create(&path, SIZE).unwrap_err().0.contains("already"));
    let err = Disk::open(&path, 2 * SIZE, None).unwrap_err();
    assert!(err.0.contains("has 1 MiB") && err.0.contains("have 2 MiB"), "{err}");
}

#[test]
fn more_operations_than_the_ring_has_room_for_all_end() {
    for_each_backend(|mut worker| {
        let Some(mut ring) = worker.ring.take() else { return };
        const MANY: u64 = 2500;
        for id in 0..MANY {
            let op = DiskOp::Read { offset: id % 256 * 4096, len: 4096 };
            ring.start(
                Tag { node: 0, life: 0, id, urgency: Urgency::Awaited },
                &worker.disk,
                DiskRequest { id, op, urgency: Urgency::Awaited },
            );
        }
        let mut ended = Vec::new();
        while (ended.len() as u64) < MANY {
            ring.submit().unwrap();
            ring.ring.submit_and_wait(1).unwrap();
            let before = ended.len();
            ring.collect(&mut ended);
            assert!(ended.len() > before, "what has ended is told of");
        }
        let mut ids: Vec<u64> = ended.iter().map(|(tag, _)| tag.id).collect();
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..MANY));
    });
}

/// Sectors read in the order in which a disk with this queue was given them; with one at a time
/// that is the order in which they end.
fn served(worker: &mut Worker, queue: &str, sectors: &[u64]) -> Vec<u64> {
    let queue = DiskQueue::new(Some(queue), Some(1)).unwrap();
    Arc::get_mut(&mut worker.disk).expect("nothing is under way").queue = queue;
    let disk = worker.disk.clone();
    let mut at_once = AtOnce::default();
    let mut ended = Vec::new();
    for &id in sectors {
        let op = DiskOp::Read { offset: id * 4096, len: 4096 };
        let (tag, request) = (
            Tag { node: 3, life: 0, id, urgency: Urgency::Awaited },
            DiskRequest { id, op, urgency: Urgency::Awaited },
        );
        match &mut worker.ring {
            Some(ring) => ring.start(tag, &disk, request),
            None => at_once.add(tag, &disk, request),
        }
    }
    at_once.run(&mut ended);
    while let Some(ring) = worker.ring.as_mut().filter(|_| ended.len() < sectors.len()) {
        ring.submit().unwrap();
        assert_eq!(ring.waiting(3), sectors.len() - ended.len() - 1);
        ring.ring.submit_and_wait(1).unwrap();
        ring.collect(&mut ended);
    }
    ended.iter().map(|(tag, _)| tag.id).collect()
}

#[test]
fn a_queue_is_served_in_its_order() {
    let sectors = [20, 9, 40, 11, 10];
    for (queue, order) in [("fcfs", sectors), ("c-look", [9, 10, 11, 20, 40])] {
        for_each_backend(|mut worker| assert_eq!(served(&mut worker, queue, &sectors), order));
    }
}

#[test]
fn disks_take_turns_where_not_all_can_be_given() {
    for_each_backend(|mut worker| {
        let Some(mut ring) = worker.ring.take() else { return };
        let nodes = 2 * (MOST_GIVEN / ENTRIES) as usize;
        for node in 0..nodes {
            for id in 0..u64::from(ENTRIES) {
                let op = DiskOp::Read { offset: 0, len: 4096 };
                ring.start(
                    Tag { node, life: 0, id, urgency: Urgency::Awaited },
                    &worker.disk,
                    DiskRequest { id, op, urgency: Urgency::Awaited },
                );
            }
        }
        ring.submit().unwrap();
        let waiting: Vec<usize> = (0..nodes).map(|node| ring.waiting(node)).collect();
        assert_eq!(waiting, vec![ENTRIES as usize / 2; nodes]);
    });
}

/// An operation as the ring has it.
fn in_flight(disk: &Arc<Disk>, work: Work, len: usize) -> InFlight {
    let tag = Tag { node: 0, life: 0, id: 1, urgency: Urgency::Awaited };
    let disk = disk.clone();
    InFlight { tag, disk, work, offset: 0, len, moved: 0, failed: false, lacks_space: false }
}

fn a_disk() -> (tempfile::TempDir, Arc<Disk>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let disk = Arc::new(Disk::create(&path, SIZE).unwrap());
    (dir, disk)
}

#[test]
fn an_error_that_may_pass_is_tried_once_more_and_others_are_not() {
    let (_dir, disk) = a_disk();
    let errno = |e: Errno| -e.raw_os_error();
    let read = || in_flight(&disk, Work::Read(Pool::of_process().get(4096)), 4096);
    let mut op = read();
    assert!(matches!(op.advance(errno(Errno::IO)), Next::Again));
    assert!(matches!(op.advance(errno(Errno::IO)), Next::Ended(Err(_))));
    let mut op = read();
    assert!(matches!(op.advance(errno(Errno::IO)), Next::Again));
    assert!(matches!(op.advance(4096), Next::Ended(Ok(_))), "it has passed");
    assert!(matches!(read().advance(errno(Errno::ROFS)), Next::Ended(Err(_))));
    assert_eq!(disk.passed.so_far(), 1);
    let write = |durable| {
        let what = Gathered::of(vec![Buffer::from(vec![7; 4096])], &Pool::of_process());
        in_flight(&disk, Work::Write { what, durable }, 4096)
    };
    let mut op = write(false);
    assert!(matches!(op.advance(errno(Errno::IO)), Next::Again));
    assert!(matches!(op.advance(4096), Next::Ended(Ok(_))), "it has passed");
    assert_eq!(disk.passed.so_far(), 2);
    let mut op = write(false);
    assert!(matches!(op.advance(errno(Errno::IO)), Next::Again));
    assert!(matches!(op.advance(errno(Errno::IO)), Next::Ended(Err(_))));
    if !disk.may_retry(true) {
        let said = write(true).advance(errno(Errno::IO));
        assert!(matches!(said, Next::Ended(Err(_))), "the page cache may have lost earlier writes");
    }
    let mut flush = in_flight(&disk, Work::Flush, 0);
    let said = flush.advance(errno(Errno::IO));
    assert!(matches!(said, Next::Ended(Err(_))), "the kernel reports lost pages once");
}

#[test]
fn a_write_without_free_space_is_retried_and_its_disk_is_full_meanwhile() {
    let (_dir, disk) = a_disk();
    let write = || {
        let what = Gathered::of(vec![Buffer::from(vec![7; 4096])], &Pool::of_process());
        Work::Write { what, durable: false }
    };
    for errno in [Errno::NOSPC, Errno::DQUOT] {
        let (mut one, mut other) =
            (in_flight(&disk, write(), 4096), in_flight(&disk, write(), 4096));
        for _ in 0..2 {
            assert!(matches!(one.advance(-errno.raw_os_error()), Next::Later));
            assert!(matches!(other.advance(-errno.raw_os_error()), Next::Later));
        }
        assert!(matches!(one.advance(4096), Next::Ended(Ok(_))));
        assert!(disk.space.lacks_for().is_some(), "the other write waits");
        assert!(matches!(other.advance(-Errno::ROFS.raw_os_error()), Next::Ended(Err(_))));
        assert!(disk.space.lacks_for().is_none());
    }
}

#[test]
fn a_write_that_is_retried_is_given_to_the_kernel_again() {
    for_each_backend(|mut worker| {
        let Some(ring) = &mut worker.ring else { return };
        let op =
            DiskOp::Write { offset: 0, data: vec![Buffer::from(vec![9; 4096])], durable: false };
        let tag = Tag { node: 0, life: 0, id: 1, urgency: Urgency::Awaited };
        ring.start(tag, &worker.disk, DiskRequest { id: 1, op, urgency: Urgency::Awaited });
        // As if the kernel had said that there was no free space.
        let line = ring.lines.get_mut(&(0, worker.disk.number)).unwrap();
        let slot = line.give(Instant::now()).unwrap();
        line.line.park();
        let full = -Errno::NOSPC.raw_os_error();
        assert!(matches!(ring.in_flight[slot].as_mut().unwrap().advance(full), Next::Later));
        ring.without_space.push(slot);
        ring.set_retry();
        let mut ended = Vec::new();
        while ended.is_empty() {
            ring.submit().unwrap();
            ring.ring.submit_and_wait(1).unwrap();
            ring.collect(&mut ended);
        }
        assert!(ended[0].1.is_ok() && worker.disk.space.lacks_for().is_none());
        assert_eq!((ring.given, ring.free.len()), (0, 1));
        assert_eq!(worker.read(0, 4096)[..], [9; 4096]);
    });
}

/// A full file system, which refuses writes and can be read. The disk is given few operations at a time.
#[test]
fn writes_without_free_space_hold_up_no_reads() {
    let Ok(mut ring) = Ring::new() else { return };
    let path = Path::new("/dev/full");
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut disk = Disk::of(file, path, crate::disk::Kind::File).unwrap();
    disk.queue = DiskQueue::new(Some("sstf"), None).unwrap();
    let (disk, urgency) = (Arc::new(disk), Urgency::Awaited);
    for id in 0..=8 {
        let data = vec![Buffer::from(vec![7; 4096])];
        let op = match id < 8 {
            true => DiskOp::Write { offset: 0, data, durable: false },
            false => DiskOp::Read { offset: 0, len: 4096 },
        };
        let tag = Tag { node: 0, life: 0, id, urgency };
        ring.start(tag, &disk, DiskRequest { id, op, urgency });
    }
    // Until some have been retried, and have found no free space again.
    let (begun, mut ended, mut retried) = (Instant::now(), Vec::new(), false);
    while !retried || ended.is_empty() || ring.without_space.len() < 8 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the writes hold up the read");
        ring.submit().unwrap();
        ring.wait_briefly().unwrap();
        let parked = ring.without_space.len();
        ring.collect(&mut ended);
        retried |= ring.without_space.len() < parked;
    }
    assert_eq!((ended.len(), ended[0].0.id, ring.given), (1, 8, 0));
    assert!(!ring.lines.values().next().unwrap().line.is_idle(), "eight come back");
}

#[test]
fn a_disk_that_does_not_answer_is_given_few_operations() {
    let (begun, op) = (Instant::now(), DiskOp::Read { offset: 0, len: 4096 });
    let mut its = DiskLine::new(DiskQueue::default(), false, begun);
    (0..200).for_each(|slot| its.line.push(&op, slot));
    for _ in 0..100 {
        assert!(its.give(begun).is_some());
    }
    assert_eq!(its.give(begun + STALLED), None);
    (FEW..100).for_each(|_| its.line.ended());
    assert_eq!(its.give(begun + STALLED), None, "it has as many as it may have");
    its.line.ended();
    assert!(its.give(begun + STALLED).is_some());
    its.answered = begun + STALLED;
    assert!(its.give(begun + STALLED).is_some(), "it answers again");
    let mut slow = DiskLine::new(DiskQueue::default(), true, begun);
    (0..200).for_each(|slot| slow.line.push(&op, slot));
    assert_eq!((0..100).filter_map(|_| slow.give(begun)).count(), MOST_SLOW as usize);
}

/// The disk that replaces one that hangs has the same node.
#[test]
fn a_disk_that_does_not_answer_holds_up_no_later_one_of_its_node() {
    for_each_backend(|mut worker| {
        let Some(ring) = &mut worker.ring else { return };
        let dir = tempfile::tempdir().unwrap();
        drop(Disk::create(&dir.path().join("new"), SIZE).unwrap());
        let new = Disk::open(&dir.path().join("new"), SIZE, Some(Backend::Uring)).unwrap();
        let start = |ring: &mut Ring, id: u64, disk: &Arc<Disk>| {
            let (op, urgency) = (DiskOp::Read { offset: 0, len: 4096 }, Urgency::Awaited);
            ring.start(
                Tag { node: 0, life: id, id, urgency },
                disk,
                DiskRequest { id, op, urgency },
            );
        };
        let now = Instant::now();
        (0..u64::from(2 * FEW)).for_each(|id| start(ring, id, &worker.disk));
        while ring.next_slot(now).is_some() {}
        start(ring, 99, &worker.disk);
        let later = now + 2 * STALLED;
        assert_eq!(ring.next_slot(later), None, "the old one has more than enough");
        start(ring, 100, &Arc::new(new));
        let slot = ring.next_slot(later).expect("the new one has nothing to do");
        assert_eq!(ring.in_flight[slot].as_ref().unwrap().tag.id, 100);
        assert_eq!(ring.waiting(0), 1);
        ring.in_flight.clear();
    });
}

/// What could not be written may still be in the page cache, as if it had been.
#[test]
fn a_disk_without_direct_io_is_read_from_when_it_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    if is_in_memory(dir.path()).unwrap() {
        return;
    }
    let path = dir.path().join("disk");
    drop(Disk::create(&path, SIZE).unwrap());
    std::fs::write(&path, vec![7; SIZE as usize]).unwrap();
    let cached = |disk: &Disk| {
        let mut bytes = [0; 4096];
        let into = &mut [io::IoSliceMut::new(&mut bytes)];
        rustix::io::preadv2(&disk.file, into, 0, ReadWriteFlags::NOWAIT)
    };
    if cached(&Disk::patiently(&path, OFlags::empty()).unwrap()) != Ok(4096) {
        // This file system does not say whether a page is there.
        return;
    }
    let disk = Disk::open(&path, SIZE, Some(Backend::Sync)).unwrap();
    assert_eq!(cached(&disk), Err(Errno::AGAIN));
}
