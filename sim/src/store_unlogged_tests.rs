//! One disk by itself. Content that is written without the journal, as a rebuild writes it, replaces a change that the
//! journal still has. A crash cuts off the checkpoint that places it, and another crash cuts off the opening. Then the
//! journal's change counts again, and it must go on to count however often the disk is opened.

use std::cell::Cell;

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::store::{
    Change, ChangeKind, Event, JournalStore, Scan, Store, StoreConfig, Superblock,
};
use weft_core::units::{Epoch, NodeId, SECTOR, Timestamp};

use crate::disk::SimDisk;

const SECTORS: u64 = 1400;
/// The sector that is written without the journal.
const LOOSE: u64 = 5;
/// One beside it, in the same slot if slots have several sectors.
const NEIGHBOUR: u64 = 6;
/// A write of this one is undecided all the time, so that the journal cannot forget.
const UNDECIDED: u64 = 40;

/// What a sector holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Byte(u8),
    Mark,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    /// Sectors of a slot.
    slot: u64,
    /// What the journal has of the sector: a mark, or content.
    below: Held,
    /// The content that the journal does not get.
    byte: u8,
    /// The sector was in place before.
    placed: bool,
    torn: bool,
}

struct One {
    rng: Rng,
    disk: SimDisk,
    divided: Superblock,
    store: JournalStore,
    started: Vec<u64>,
    said: Vec<Event>,
    clock: u64,
}

impl One {
    fn new(case: Case, seed: u64) -> One {
        let mut divided = Superblock::divide_in(case.slot, 1, 0, 1, SECTORS, 0).unwrap();
        divided.journal = 64;
        let mut disk = SimDisk::new(SECTORS);
        JournalStore::format(&divided).for_each(|op| disk.apply_now(op));
        if case.torn {
            disk.tear_in_power_cuts(seed);
        }
        let (rng, store) = (Rng::with_seed(seed), opening());
        let mut one = One { rng, disk, divided, store, started: vec![], said: vec![], clock: 10 };
        one.rest();
        one
    }

    fn power_cut(&mut self) {
        self.disk.power_cut(&mut self.rng);
        self.started.clear();
        self.said.clear();
        self.store = opening();
    }

    /// The first operation that was started ends. Says whether there was one.
    fn step(&mut self) -> bool {
        self.said.extend(std::iter::from_fn(|| self.store.poll()));
        for request in Store::take_ops(&mut self.store) {
            self.disk.start(request.id, request.op);
            self.started.push(request.id);
        }
        self.store.check();
        if self.started.is_empty() {
            return false;
        }
        let id = self.started.remove(0);
        let result = self.disk.finish(id);
        self.store.done(id, result);
        true
    }

    /// This number of operations ends. False if there were fewer.
    fn steps(&mut self, count: usize) -> bool {
        (0..count).all(|_| self.step())
    }

    fn rest(&mut self) {
        while self.step() {}
    }

    /// The disk is opened, and its node enters an epoch.
    fn opens(&mut self, epoch: Epoch) {
        self.rest();
        self.store.begin_life(epoch);
        self.rest();
    }

    fn prepare(&mut self, sector: u64, kind: ChangeKind, byte: u8, journal: bool) -> Timestamp {
        self.clock += 1;
        let ts = Timestamp::new(self.clock, NodeId(0));
        let data = match byte {
            0 => Buffer::Zero(SECTOR as usize),
            _ => Buffer::from(vec![byte; SECTOR as usize]),
        };
        self.store.prepare(ts, Vec::new(), vec![Change { sector, kind, data }], journal);
        self.rest();
        ts
    }

    /// Prepares and commits a write with the journal.
    fn write(&mut self, sector: u64, kind: ChangeKind, byte: u8) {
        let ts = self.prepare(sector, kind, byte, true);
        self.store.outcome(ts, true);
        self.store.flush_outcomes();
        self.rest();
        self.store.release(ts);
    }

    fn begin_checkpoint(&mut self) {
        self.store.checkpoint(true, |sector, _, _| sector == UNDECIDED);
    }

    fn held(&mut self, sector: u64) -> Held {
        self.store.scan(0, sector, 1, Scan::Marked);
        self.store.read_versions(1, sector, 1);
        self.rest();
        let (mut marked, mut byte) = (false, None);
        for event in std::mem::take(&mut self.said) {
            match event {
                Event::Scanned(_, found) => marked = !found.is_empty(),
                Event::Read(done) if done.erased.is_empty() => {
                    let bytes = done.data.to_bytes();
                    assert!(bytes.iter().all(|b| *b == bytes[0]), "sector {sector} is mixed");
                    byte = Some(bytes[0]);
                }
                Event::Refused(why) => panic!("refused: {why}"),
                Event::Failed(why) => panic!("failed: {why}"),
                _ => {}
            }
        }
        match byte {
            Some(byte) => Held::Byte(byte),
            None if marked => Held::Mark,
            None => Held::Lost,
        }
    }
}

fn opening() -> JournalStore {
    JournalStore::open(StoreConfig::default(), 1, 0, SECTORS)
}

/// The checkpoint is cut off after `at` operations, and the opening after `again`. Says whether each came to its end.
fn cut_off(case: Case, (at, again): (usize, usize)) -> (bool, bool) {
    let mut one = One::new(case, (at * 100 + again) as u64);
    if case.placed {
        one.write(LOOSE, ChangeKind::Content, 3);
        one.begin_checkpoint();
        one.rest();
    }
    one.write(NEIGHBOUR, ChangeKind::Content, 9);
    match case.below {
        Held::Byte(byte) => one.write(LOOSE, ChangeKind::Content, byte),
        _ => one.write(LOOSE, ChangeKind::Mark, 0),
    }
    one.prepare(UNDECIDED, ChangeKind::Content, 1, true);
    let ts = one.prepare(LOOSE, ChangeKind::Content, case.byte, false);
    one.store.outcome(ts, true);
    one.store.release(ts);
    one.begin_checkpoint();
    let ended = !one.steps(at);
    one.power_cut();
    let opened = !one.steps(again);
    one.power_cut();
    one.opens(1);
    let found = one.held(LOOSE);
    let may_be = [case.below, Held::Byte(case.byte)];
    assert!(may_be.contains(&found), "{found:?} at first");
    for epoch in 2..4 {
        one.power_cut();
        one.opens(epoch);
        assert_eq!(one.held(LOOSE), found, "it changed by itself");
        assert_eq!(one.held(NEIGHBOUR), Held::Byte(9));
    }
    (ended, opened)
}

#[test]
fn what_the_journal_has_counts_where_later_content_that_it_has_not_was_cut_off() {
    let mut cuts = 0;
    for n in 0..48 {
        let slot = [0, 2, 4][n % 3];
        let below = [Held::Mark, Held::Byte(7)][n / 3 % 2];
        let byte = [8, 0][n / 6 % 2];
        let case = Case { slot, below, byte, placed: n / 12 % 2 == 1, torn: n / 24 == 1 };
        let at = Cell::new((0, 0));
        let _where = Where(case, &at);
        'checkpoint: for first in 0.. {
            for again in 0.. {
                at.set((first, again));
                let (ended, opened) = cut_off(case, at.get());
                if ended {
                    break 'checkpoint;
                }
                cuts += 1;
                if opened {
                    break;
                }
            }
        }
    }
    assert!(cuts > 5_000, "{cuts}");
}

/// The later content's checksum, or the owner of its slot, is lost to rot. The journal still has the earlier content.
#[test]
fn damage_does_not_bring_back_what_unlogged_content_replaced() {
    for (slot, owners) in [(0, false), (2, false), (4, false), (2, true), (4, true)] {
        for below in [Held::Mark, Held::Byte(7)] {
            let case = Case { slot, below, byte: 8, placed: false, torn: false };
            let mut one = One::new(case, 1);
            one.prepare(UNDECIDED, ChangeKind::Content, 1, true);
            match below {
                Held::Byte(byte) => one.write(LOOSE, ChangeKind::Content, byte),
                _ => one.write(LOOSE, ChangeKind::Mark, 0),
            }
            one.begin_checkpoint();
            one.rest();
            let ts = one.prepare(LOOSE, ChangeKind::Content, case.byte, false);
            one.store.outcome(ts, true);
            one.store.release(ts);
            one.begin_checkpoint();
            one.rest();
            let pages = match owners {
                false => one.divided.table_start()..one.divided.data_start(),
                true => one.divided.owners(),
            };
            pages.for_each(|page| one.disk.rot(page, &mut one.rng));
            one.power_cut();
            one.opens(1);
            let found = one.held(LOOSE);
            // A mark is safe: its sector will be computed again.
            let may_be = [Held::Lost, Held::Mark, Held::Byte(case.byte)];
            assert!(may_be.contains(&found), "{case:?}: {found:?}");
        }
    }
}

/// Says where it was when something fails.
struct Where<'a>(Case, &'a Cell<(usize, usize)>);

impl Drop for Where<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}, cut off at {:?}", self.0, self.1.get());
        }
    }
}
