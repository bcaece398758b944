use super::super::ChangeKind;
use super::*;
use crate::units::NodeId;

fn at(n: u64) -> Timestamp {
    Timestamp::new(n, NodeId(0))
}

fn bytes(count: usize, value: u8) -> Buffer {
    vec![value; count * SECTOR_BYTES].into()
}

fn content(sector: u64, count: usize, value: u8) -> Change {
    Change { sector, kind: ChangeKind::Content, data: bytes(count, value) }
}

fn delta(sector: u64, value: u8) -> Change {
    Change { sector, kind: ChangeKind::Delta, data: bytes(1, value) }
}

/// A store over bytes, whose operations are done when a test says so.
struct Bench {
    store: PlainStore,
    disk: Vec<u8>,
    begun: VecDeque<DiskRequest>,
}

impl Bench {
    fn new(gap: u64) -> Bench {
        Bench::with(PlainConfig { gap, ..PlainConfig::default() })
    }

    fn with(config: PlainConfig) -> Bench {
        let store = PlainStore::new(64, config);
        let mut bench = Bench { store, disk: vec![0; 64 * SECTOR_BYTES], begun: VecDeque::new() };
        assert!(matches!(bench.store.poll(), Some(Event::Opened(found)) if found.is_empty()));
        bench
    }

    /// The operations that have begun: first sector, sectors, whether a write.
    fn begun(&mut self) -> Vec<(u64, u64, bool)> {
        self.begun.extend(self.store.take_ops());
        let shape = |op: &DiskOp| match op {
            DiskOp::Read { offset, len } => (offset / SECTOR, len / SECTOR, false),
            DiskOp::Write { offset, data, .. } => {
                let len: usize = data.iter().map(Buffer::len).sum();
                (offset / SECTOR, len as u64 / SECTOR, true)
            }
            other => panic!("{other:?}"),
        };
        self.begun.iter().map(|r| shape(&r.op)).collect()
    }

    /// Does the oldest operation.
    fn step(&mut self) {
        self.begun();
        let DiskRequest { id, op, .. } = self.begun.pop_front().expect("something to do");
        let result = match op {
            DiskOp::Read { offset, len } => {
                self.disk[offset as usize..(offset + len) as usize].to_vec().into()
            }
            DiskOp::Write { offset, data, .. } => {
                let mut offset = offset as usize;
                for piece in data {
                    piece.copy_to(&mut self.disk[offset..offset + piece.len()]);
                    offset += piece.len();
                }
                Buffer::Zero(0)
            }
            other => panic!("{other:?}"),
        };
        self.store.done(id, Ok(result));
    }

    fn finish(&mut self) -> Vec<Event> {
        while !self.begun().is_empty() {
            self.step();
        }
        self.events()
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.store.poll()).collect()
    }

    fn prepare(&mut self, n: u64, changes: Vec<Change>) {
        self.store.prepare(at(n), Vec::new(), changes, false);
    }

    fn is_prepared(&mut self, n: u64) -> bool {
        self.events().iter().any(|e| matches!(e, Event::Prepared(ts) if *ts == at(n)))
    }

    fn sector(&self, sector: usize) -> u8 {
        let all = &self.disk[sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES];
        assert!(all.iter().all(|b| *b == all[0]));
        all[0]
    }
}

#[test]
fn reads_asked_for_together_are_one_transfer_if_they_are_near() {
    let mut bench = Bench::new(1);
    bench.disk[5 * SECTOR_BYTES..6 * SECTOR_BYTES].fill(9);
    for (ticket, first) in [(1, 3), (2, 5), (3, 9)] {
        bench.store.read(ticket, first, 1);
    }
    assert_eq!(bench.begun(), [(3, 3, false), (9, 1, false)]);
    let events = bench.finish();
    let of_two = events.iter().find_map(|e| match e {
        Event::Read(done) if done.ticket == 2 => Some(done.data.clone()),
        _ => None,
    });
    assert!(of_two == Some(bytes(1, 9)));
    assert_eq!(events.len(), 3);
}

#[test]
fn neighbours_are_written_in_one_transfer_once_committed() {
    let mut bench = Bench::new(0);
    bench.prepare(1, vec![content(4, 2, 7), content(3, 1, 6), content(9, 1, 8)]);
    assert!(bench.is_prepared(1));
    assert!(bench.begun().is_empty(), "nothing is written before it is decided");
    bench.store.outcome(at(1), true);
    assert_eq!(bench.begun(), [(3, 3, true), (9, 1, true)]);
    assert!(matches!(bench.finish()[..], [Event::Placed(ts)] if ts == at(1)));
    assert_eq!([3, 4, 5, 9].map(|s| bench.sector(s)), [6, 7, 7, 8]);
    assert!(bench.store.is_quiet());
}

#[test]
fn what_is_expected_is_fetched_early_and_if_vital_awaited() {
    for vital in [true, false] {
        let mut bench = Bench::new(0);
        bench.store.expect(at(1), 5, 1, vital);
        assert_eq!(bench.begun(), [(5, 1, false)]);
        bench.prepare(1, vec![delta(5, 3)]);
        assert_eq!(bench.is_prepared(1), !vital);
        bench.step();
        assert_eq!(bench.is_prepared(1), vital);
        bench.store.outcome(at(1), true);
        bench.finish();
        assert_eq!(bench.sector(5), 3);
        assert_eq!(bench.store.counters.disk_reads, 1);
    }
}

#[test]
fn changes_of_the_same_sector_add_up_in_whatever_order_they_are_decided() {
    let mut bench = Bench::new(0);
    bench.disk[5 * SECTOR_BYTES..6 * SECTOR_BYTES].fill(1);
    for (n, value) in [(1, 2), (2, 4), (3, 8)] {
        bench.store.expect(at(n), 5, 1, true);
        bench.prepare(n, vec![delta(5, value)]);
    }
    bench.step();
    bench.store.outcome(at(2), true);
    bench.store.outcome(at(1), false);
    bench.store.outcome(at(3), true);
    bench.finish();
    assert_eq!(bench.sector(5), 1 ^ 4 ^ 8);
    assert_eq!(bench.store.counters.disk_reads, 1);
    assert_eq!(bench.store.held_bytes(), 0, "what is not used any more is forgotten");
}

#[test]
fn transfers_that_touch_take_turns() {
    let mut bench = Bench::new(0);
    bench.prepare(1, vec![content(4, 2, 7)]);
    bench.store.outcome(at(1), true);
    assert_eq!(bench.begun(), [(4, 2, true)]);
    bench.store.read(1, 5, 1);
    bench.prepare(2, vec![content(5, 1, 9)]);
    bench.store.outcome(at(2), true);
    bench.store.read(2, 5, 1);
    bench.store.read(3, 20, 1);
    assert_eq!(bench.begun().len(), 2, "only what touches nothing has begun");
    let seen: Vec<(u64, u8)> = bench
        .finish()
        .into_iter()
        .filter_map(|e| match e {
            Event::Read(done) => Some((done.ticket, done.data.to_bytes()[0])),
            _ => None,
        })
        .collect();
    assert_eq!(BTreeMap::from_iter(seen), BTreeMap::from([(1, 7), (2, 9), (3, 0)]));
}

#[test]
fn what_will_not_come_is_forgotten() {
    let mut bench = Bench::new(0);
    bench.store.expect(at(1), 5, 2, true);
    bench.store.forget(at(1));
    bench.finish();
    assert_eq!(bench.store.held_bytes(), 0);
    bench.prepare(2, vec![delta(5, 3)]);
    assert_eq!(bench.begun(), [(5, 1, false)], "it is read again");
}

#[test]
fn what_does_not_coalesce_is_a_transfer_each() {
    let mut bench = Bench::with(PlainConfig { gap: 8, coalesces: false });
    bench.store.read(1, 0, 2);
    bench.store.read(2, 2, 2);
    assert_eq!(bench.begun(), [(0, 2, false), (2, 2, false)]);
    let mut bench = Bench::with(PlainConfig { gap: 8, coalesces: false });
    let content = |sector| Change { sector, kind: ChangeKind::Content, data: bytes(1, 7) };
    let ts = Timestamp(1);
    bench.store.prepare(ts, Vec::new(), vec![content(4), content(5)], false);
    bench.store.outcome(ts, true);
    assert_eq!(bench.begun(), [(4, 1, true), (5, 1, true)]);
}
