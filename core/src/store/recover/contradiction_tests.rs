//! Journals whose entries contradict one another, though each makes sense and its frame has its checksums: the disk
//! is refused, or opened and right in itself. No such journal ends the process.

use proptest::prelude::*;
use weft_bytes::checksum;

use super::super::format::{Applied, Carried, ChangeHead, Entry, Standing, encode_frame};
use super::super::torn::PageSums;
use super::super::{ChangeKind, DiskOp, Event, Store, StoreConfig};
use super::tests::work;
use super::*;

/// A disk of a few sectors whose journal has these frames, one after the other.
fn disk(frames: &[Vec<Entry>]) -> (Superblock, Vec<u8>) {
    let superblock = Superblock::divide(7, 3, 9, 700, 512).expect("it is large enough");
    let mut disk = vec![0; superblock.sectors() as usize * SECTOR_BYTES];
    let mut ops: Vec<DiskOp> = JournalStore::format(&superblock).collect();
    let mut at = superblock.journal_start();
    for (number, entries) in (superblock.tail_frame..).zip(frames) {
        let (frame, head) = encode_frame(superblock.incarnation, number, entries);
        let payload = vec![7; (head.payload_sectors * SECTOR) as usize];
        let data = vec![frame.into(), payload.into()];
        ops.push(DiskOp::Write { offset: at * SECTOR, data, durable: true });
        at += head.sectors();
    }
    ops.into_iter().for_each(|op| drop(work(&mut disk, op)));
    (superblock, disk)
}

/// Does what a store asks for until it rests. It is right in itself then, but for changes from before their content.
fn settle(store: &mut JournalStore, disk: &mut [u8]) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        events.extend(std::iter::from_fn(|| store.poll()));
        let ops = Store::take_ops(store);
        if ops.is_empty() {
            break;
        }
        for request in ops {
            let read = work(disk, request.op);
            Store::done(store, request.id, Ok(read));
        }
    }
    store.check();
    events
}

/// What becomes of a disk with such a journal that is opened, and whose writes are decided and put in place: why it
/// was refused, or how many writes were found.
fn outcome(frames: &[Vec<Entry>]) -> Result<usize, FormatError> {
    let (superblock, mut disk) = disk(frames);
    let mut store = JournalStore::open(StoreConfig::default(), 7, 3, superblock.sectors());
    let mut opened = Err(FormatError::NotOurs);
    for event in settle(&mut store, &mut disk) {
        match event {
            Event::Opened(found) => opened = Ok(found),
            Event::Refused(why) => opened = Err(why),
            _ => {}
        }
    }
    let found = opened?;
    for write in &found {
        if !write.committed {
            Store::outcome(&mut store, write.ts, write.ts.0 % 2 == 1);
        }
        Store::release(&mut store, write.ts);
    }
    settle(&mut store, &mut disk);
    store.checkpoint(true, |_, _, _| false);
    Store::flush_outcomes(&mut store);
    settle(&mut store, &mut disk);
    Ok(found.len())
}

/// A prepare of a write that changes a sector.
fn prepare(ts: u64, sector: u64, kind: ChangeKind) -> Entry {
    let crc = (kind == ChangeKind::Content).then(|| checksum::crc32c(&[7; SECTOR_BYTES]));
    let changes = vec![ChangeHead { sector, count: 1, kind, crc }];
    Entry::Prepare { ts: Timestamp(ts), meta: vec![1], changes, redirects: Vec::new() }
}

fn decided(ts: u64, commit: bool) -> Entry {
    Entry::Outcome { ts: Timestamp(ts), commit }
}

/// An entry that carries a write that changes a sector.
fn carried(ts: u64, sector: u64, kind: ChangeKind, standing: Standing) -> Entry {
    let Entry::Prepare { ts, meta, changes, redirects } = prepare(ts, sector, kind) else {
        unreachable!("it prepares")
    };
    Entry::Carried(Carried { ts, meta, standing, changes, redirects, overtaken: Vec::new() })
}

fn entry() -> impl Strategy<Value = Entry> {
    let ts = || 1..5u64;
    let kind =
        prop_oneof![Just(ChangeKind::Content), Just(ChangeKind::Delta), Just(ChangeKind::Mark)];
    let standing =
        prop_oneof![Just(Standing::Undecided), Just(Standing::Committed), Just(Standing::Released)];
    let carries = (ts(), 0..3u64, kind.clone(), standing);
    let applied = (0..3u64, ts(), 0..4u8);
    prop_oneof![
        4 => (ts(), 0..3u64, kind).prop_map(|(ts, sector, kind)| prepare(ts, sector, kind)),
        4 => (ts(), any::<bool>()).prop_map(|(ts, commit)| decided(ts, commit)),
        2 => carries.prop_map(|(ts, sector, kind, standing)| carried(ts, sector, kind, standing)),
        1 => ts().prop_map(|ts| Entry::Released { ts: Timestamp(ts) }),
        1 => ts().prop_map(|ts| Entry::Known { ts: Timestamp(ts), meta: vec![2] }),
        1 => (ts(), 0..3u64)
            .prop_map(|(ts, s)| Entry::Overtaken { ts: Timestamp(ts), sectors: vec![s] }),
        1 => Just(Entry::Begin),
        1 => (0..4u64).prop_map(Entry::Checkpoint),
        2 => applied.prop_map(|(sector, ts, state)| Entry::Apply {
            sectors: vec![Applied { sector, version: Timestamp(ts), crc: 0, state }],
            pointers: Vec::new(),
            sums: PageSums::default(),
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_journal_ends_the_process(
        frames in prop::collection::vec(prop::collection::vec(entry(), 1..6), 1..5)
    ) {
        let _ = outcome(&frames);
    }
}

fn apply(sector: u64, ts: u64) -> Entry {
    let state = super::super::State::Written as u8;
    let sectors = vec![Applied { sector, version: Timestamp(ts), crc: 0, state }];
    Entry::Apply { sectors, pointers: Vec::new(), sums: PageSums::default() }
}

/// Each is refused in words, whether the entries are in one frame or in a frame each.
#[test]
fn what_no_store_writes_is_refused() {
    let content = |ts| prepare(ts, 1, ChangeKind::Content);
    let (released, known) =
        (Entry::Released { ts: Timestamp(3) }, Entry::Known { ts: Timestamp(3), meta: vec![] });
    let overtaken = Entry::Overtaken { ts: Timestamp(3), sectors: vec![1] };
    let carries = |standing| carried(3, 1, ChangeKind::Content, standing);
    let cases = [
        (vec![content(3), content(3)], "is prepared, and was prepared before"),
        (vec![content(3), decided(3, true), content(3)], "is prepared, and was prepared before"),
        (vec![known.clone(), content(3)], "is prepared, and was prepared before"),
        (vec![content(3), decided(3, true), decided(3, false)], "is decided twice"),
        (vec![content(3), decided(3, true), overtaken], "is overtaken after it was decided"),
        (vec![content(3), released], "is released undecided"),
        (vec![content(3), known], "is known to have committed, and is undecided"),
        (vec![content(3), carries(Standing::Committed)], "is carried as what it is not"),
        (
            vec![carries(Standing::Released), carries(Standing::Undecided)],
            "is carried as what it is not",
        ),
        (vec![carries(Standing::Undecided), content(3)], "is prepared, and was prepared before"),
    ];
    for (entries, what) in cases {
        let apart: Vec<_> = entries.iter().map(|e| vec![e.clone()]).collect();
        for frames in [vec![entries], apart] {
            let why = outcome(&frames).expect_err(what);
            let FormatError::Contradiction { ts, what: said, .. } = &why else {
                panic!("{frames:?}: {why}");
            };
            assert_eq!((*ts, *said), (Timestamp(3), what));
            assert!(why.to_string().contains("the disk is not changed"), "{why}");
        }
    }
}

/// What was prepared may have left the journal, and a write that did not happen may be prepared anew.
#[test]
fn what_only_looks_like_a_contradiction_is_not_refused() {
    let content = |ts| prepare(ts, 1, ChangeKind::Content);
    let unknown = vec![decided(8, true), decided(9, false), Entry::Released { ts: Timestamp(8) }];
    assert_eq!(outcome(&[unknown]), Ok(0));
    assert_eq!(outcome(&[vec![content(3), decided(3, false), content(3)]]), Ok(1));
    let carries = |standing| carried(3, 1, ChangeKind::Content, standing);
    let known = Entry::Known { ts: Timestamp(3), meta: vec![] };
    for first in [vec![], vec![content(3)], vec![carries(Standing::Undecided)]] {
        assert_eq!(outcome(&[first, vec![carries(Standing::Undecided)]]), Ok(1));
    }
    for first in [vec![], vec![content(3), decided(3, true)], vec![known]] {
        assert_eq!(outcome(&[first, vec![carries(Standing::Committed)]]), Ok(1));
    }
    assert_eq!(outcome(&[vec![carries(Standing::Released)]]), Ok(0), "nobody asks after it");
    assert_eq!(outcome(&[vec![apply(1, 4)], vec![apply(1, 3)], vec![apply(2, 9)]]), Ok(0));
}

/// The ring holds so many sectors and no more: a frame at its beginning that reaches those at its end is refused. Here
/// it even has their bytes among its own, so that both have their checksums.
#[test]
fn frames_that_take_one_anothers_room_are_refused() {
    let (mut superblock, mut disk) = disk(&[]);
    let (size, number) = (superblock.journal, superblock.tail_frame);
    superblock.tail = size - 4;
    let frame = |number: u64, payload: Vec<u8>| {
        let change = |bytes: &[u8]| {
            let (count, crc) = ((bytes.len() / SECTOR_BYTES) as u32, Some(checksum::crc32c(bytes)));
            ChangeHead { sector: 0, count, kind: ChangeKind::Content, crc }
        };
        let changes = payload.chunks(100 * SECTOR_BYTES).map(change).collect();
        let entry =
            Entry::Prepare { ts: Timestamp(number), meta: vec![], changes, redirects: Vec::new() };
        let (head, _) = encode_frame(superblock.incarnation, number, &[entry]);
        [head, payload].concat()
    };
    let first = frame(number, vec![7; SECTOR_BYTES]);
    let mut payload = vec![0; (size - 1) as usize * SECTOR_BYTES];
    payload[(size - 5) as usize * SECTOR_BYTES..][..first.len()].copy_from_slice(&first);
    let put = |at: u64, bytes: Vec<u8>| {
        let offset = (superblock.journal_start() + at) * SECTOR;
        DiskOp::Write { offset, data: vec![bytes.into()], durable: true }
    };
    let frames = [put(size - 4, first), put(0, frame(number + 1, payload))];
    for op in JournalStore::format(&superblock).chain(frames) {
        work(&mut disk, op);
    }
    let mut store = JournalStore::open(StoreConfig::default(), 7, 3, superblock.sectors());
    let refused = settle(&mut store, &mut disk).into_iter().find_map(|event| match event {
        Event::Refused(why) => Some(why),
        _ => None,
    });
    assert_eq!(refused, Some(FormatError::Overlap(number + 1)));
}
