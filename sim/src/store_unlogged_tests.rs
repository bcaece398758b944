//! One disk by itself. Content that is written without the journal, as a rebuild writes it, replaces a change that the
//! journal still has. A crash cuts off the checkpoint that places it, and another crash cuts off the opening. Then the
//! journal's change counts again, and it must go on to count however often the disk is opened.

use std::cell::Cell;
use std::ops::Range;

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::store::{
    Change, ChangeKind, Event, JournalStore, Scan, Store, StoreConfig, Superblock,
};
use weft_core::units::{Epoch, NodeId, SECTOR, Timestamp};

use crate::disk::SimDisk;

const SECTORS: u64 = 2000;
/// The sector that is written without the journal.
const LOOSE: u64 = 5;
/// One beside it, in the same slot if slots have several sectors.
const NEIGHBOUR: u64 = 6;
/// A write of this one is undecided all the time, so that the journal cannot forget.
const UNDECIDED: u64 = 40;

/// Others that are written without the journal.
const OTHERS: u64 = 64;

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
    /// What the journal has of it is in place, too.
    settled: bool,
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
        One::with_journal(64, case, seed)
    }

    fn with_journal(journal: u64, case: Case, seed: u64) -> One {
        let mut divided = Superblock::divide_in(case.slot, 1, 0, 1, SECTORS, 0).unwrap();
        divided.journal = journal;
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

    /// The disk is opened. It has the content from below or the one written over it, and keeps that.
    fn keeps_its_content(&mut self, case: Case, first: Epoch) {
        self.opens(first);
        let found = self.held(LOOSE);
        let may_be = [case.below, Held::Byte(case.byte)];
        assert!(may_be.contains(&found), "{found:?} at first");
        for epoch in first + 1..first + 3 {
            self.power_cut();
            self.opens(epoch);
            assert_eq!(self.held(LOOSE), found, "it changed by itself");
            assert_eq!(self.held(NEIGHBOUR), Held::Byte(9));
        }
    }

    fn prepare(&mut self, sector: u64, kind: ChangeKind, byte: u8, journal: bool) -> Timestamp {
        self.prepare_run(sector..sector + 1, kind, byte, journal)
    }

    fn prepare_run(
        &mut self,
        sectors: Range<u64>,
        kind: ChangeKind,
        byte: u8,
        journal: bool,
    ) -> Timestamp {
        self.clock += 1;
        let ts = Timestamp::new(self.clock, NodeId(0));
        let len = ((sectors.end - sectors.start) * SECTOR) as usize;
        let data = match byte {
            0 => Buffer::Zero(len),
            _ => Buffer::from(vec![byte; len]),
        };
        let change = Change { sector: sectors.start, kind, data };
        self.store.prepare(ts, Vec::new(), vec![change], journal);
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

    /// Takes room in the journal with outcomes, one in each frame, until only the room is left that is kept for checkpoints.
    fn fill_journal(&mut self) {
        let first = self.clock + 1;
        for n in 0..60 {
            self.clock += 1;
            let ts = Timestamp::new(self.clock, NodeId(0));
            let data = Buffer::Zero(SECTOR as usize);
            let change = Change { sector: 50 + n % 8, kind: ChangeKind::Content, data };
            self.store.prepare(ts, Vec::new(), vec![change], true);
        }
        self.rest();
        for n in first..=self.clock {
            self.store.outcome(Timestamp::new(n, NodeId(0)), false);
            self.store.flush_outcomes();
            self.rest();
        }
    }

    /// Writes these sectors without the journal, and a number of others.
    fn rebuild(&mut self, sectors: &[(u64, ChangeKind, u8)], others: usize) {
        self.clock += 1;
        let ts = Timestamp::new(self.clock, NodeId(0));
        let change = |(sector, kind, byte): &(u64, ChangeKind, u8)| Change {
            sector: *sector,
            kind: *kind,
            data: vec![*byte; SECTOR as usize].into(),
        };
        let mut changes: Vec<Change> = sectors.iter().map(change).collect();
        let data = Buffer::Zero(others * SECTOR as usize);
        changes.push(Change { sector: OTHERS, kind: ChangeKind::Mark, data });
        self.store.prepare(ts, Vec::new(), changes, false);
        self.rest();
        self.store.outcome(ts, true);
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
    if case.settled {
        one.begin_checkpoint();
        one.rest();
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
    one.keeps_its_content(case, 1);
    (ended, opened)
}

/// Cuts off the checkpoint after each number of operations, and the opening after each. Says how often.
fn cut_off_everywhere(cut_off: impl Fn((usize, usize)) -> (bool, bool), case: Case) -> u32 {
    let (mut cuts, at) = (0, Cell::new((0, 0)));
    let _where = Where(case, &at);
    for first in 0.. {
        for again in 0.. {
            at.set((first, again));
            let (ended, opened) = cut_off(at.get());
            if ended {
                return cuts;
            }
            cuts += 1;
            if opened {
                break;
            }
        }
    }
    unreachable!("a checkpoint ends")
}

/// The same while the journal is full, so that the opening cannot say in it what counts.
fn cut_off_full(case: Case, (at, again): (usize, usize)) -> (bool, bool) {
    let mut one = One::new(case, (at * 100 + again) as u64);
    if case.placed {
        one.write(LOOSE, ChangeKind::Content, 3);
        one.begin_checkpoint();
        one.rest();
    }
    one.write(NEIGHBOUR, ChangeKind::Content, 9);
    one.begin_checkpoint();
    one.rest();
    match case.below {
        Held::Byte(byte) => one.write(LOOSE, ChangeKind::Content, byte),
        _ => one.write(LOOSE, ChangeKind::Mark, 0),
    }
    // The checkpoint frees their frames, and so it begins.
    (0..12).for_each(|n| one.write(OTHERS + n, ChangeKind::Mark, 0));
    one.prepare(UNDECIDED, ChangeKind::Content, 1, true);
    one.fill_journal();
    one.rebuild(&[(LOOSE, ChangeKind::Content, case.byte)], 900);
    one.begin_checkpoint();
    let ended = !one.steps(at);
    one.power_cut();
    let opened = !one.steps(again);
    if opened {
        one.store.begin_life(1);
        one.rest();
    }
    one.power_cut();
    one.keeps_its_content(case, 2);
    (ended, opened)
}

#[test]
fn what_the_journal_has_counts_where_later_content_that_it_has_not_was_cut_off() {
    let mut cuts = 0;
    for n in 0..48 {
        let slot = [0, 2, 4][n % 3];
        let below = [Held::Mark, Held::Byte(7)][n / 3 % 2];
        let byte = [8, 0][n / 6 % 2];
        let case =
            Case { slot, below, byte, placed: n / 12 % 2 == 1, settled: false, torn: n / 24 == 1 };
        cuts += cut_off_everywhere(|cut| cut_off(case, cut), case);
    }
    assert!(cuts > 5_000, "{cuts}");
}

/// A mark is in place when parity is computed. A crash must not turn it into content that is lost: nobody would know that it
/// must be computed.
#[test]
fn what_is_marked_stays_marked_where_content_without_journal_was_cut_off() {
    let mut cuts = 0;
    for n in 0..24 {
        let (slot, byte) = ([0, 2, 4][n % 3], [8, 0][n / 3 % 2]);
        let case = Case {
            slot,
            below: Held::Mark,
            byte,
            placed: n / 6 % 2 == 1,
            settled: true,
            torn: n / 12 == 1,
        };
        cuts += cut_off_everywhere(|cut| cut_off(case, cut), case);
    }
    assert!(cuts > 1_000, "{cuts}");
}

/// The journal is so full that it cannot say which of both counts.
#[test]
fn the_same_holds_where_the_journal_has_no_room_for_the_result() {
    let mut cuts = 0;
    for n in 0..6 {
        let (slot, below) = ([0, 4, 16][n % 3], [Held::Mark, Held::Byte(7)][n / 3]);
        let (placed, torn) = (n % 2 == 1, false);
        let case = Case { slot, below, byte: 8, placed, settled: false, torn };
        cuts += cut_off_everywhere(|cut| cut_off_full(case, cut), case);
    }
    assert!(cuts > 1_000, "{cuts}");
}

/// Content without the journal takes room in it for the entries of checkpoints, and frees none. There is always enough for the
/// checkpoint that does.
#[test]
fn a_rebuild_leaves_room_in_the_journal_while_a_write_is_undecided() {
    let undecided = [UNDECIDED, OTHERS + 1200];
    for (slot, sector) in [0, 4, 16].into_iter().flat_map(|slot| undecided.map(|s| (slot, s))) {
        let case =
            Case { slot, below: Held::Mark, byte: 8, placed: false, settled: false, torn: false };
        let mut one = One::with_journal(Superblock::LEAST_JOURNAL, case, 1);
        one.store.begin_life(1);
        let ts = one.prepare(sector, ChangeKind::Content, 1, true);
        for _ in 0..100 {
            one.rebuild(&[], 1100);
            one.begin_checkpoint();
            one.rest();
        }
        one.store.outcome(ts, true);
        one.store.release(ts);
        one.store.flush_outcomes();
        for _ in 0..10 {
            one.rest();
            one.store.checkpoint(true, |_, _, _| false);
        }
        assert!(one.store.is_quiet(), "{case:?}, sector {sector}: {}", one.store.waiting());
        assert_eq!(one.held(sector), Held::Byte(1));
    }
}

/// The later content's checksum, or the owner of its slot, is lost to rot. The journal still has the earlier content.
#[test]
fn damage_does_not_bring_back_what_unlogged_content_replaced() {
    let slots = [(0, false), (2, false), (4, false), (2, true), (4, true)];
    // One checkpoint places both, or each has its own.
    for ((slot, owners), is_one) in slots.into_iter().flat_map(|s| [(s, false), (s, true)]) {
        for below in [Held::Mark, Held::Byte(7)] {
            let case = Case { slot, below, byte: 8, placed: false, settled: false, torn: false };
            let mut one = One::new(case, 1);
            one.prepare(UNDECIDED, ChangeKind::Content, 1, true);
            match below {
                Held::Byte(byte) => one.write(LOOSE, ChangeKind::Content, byte),
                _ => one.write(LOOSE, ChangeKind::Mark, 0),
            }
            if !is_one {
                one.begin_checkpoint();
                one.rest();
            }
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
            assert!(may_be.contains(&found), "{case:?}, {is_one}: {found:?}");
            // Nobody else has it if it is in its place.
            let is_found = found == Held::Byte(case.byte) || owners || below == Held::Mark;
            assert!(is_found || !is_one, "{case:?}: {found:?}");
        }
    }
}

/// A journaled write is prepared first and decided last, below content that the journal does not get. Of a whole slot the
/// journal has only where it is. The power fails after `at` operations of the checkpoint that places both, or before it. Says
/// whether that came to its end.
fn decided_below(case: Case, is_whole: bool, at: usize) -> bool {
    let mut one = One::new(case, at as u64);
    if case.placed {
        one.write(LOOSE, ChangeKind::Content, 3);
        one.begin_checkpoint();
        one.rest();
    }
    let sectors = match is_whole {
        true => LOOSE / case.slot * case.slot..(LOOSE / case.slot + 1) * case.slot,
        false => LOOSE..LOOSE + 1,
    };
    let first = one.prepare_run(sectors.clone(), ChangeKind::Content, 7, true);
    let later = one.prepare_run(sectors, ChangeKind::Content, case.byte, false);
    for ts in [later, first] {
        one.store.outcome(ts, true);
        one.store.flush_outcomes();
        one.rest();
        one.store.release(ts);
    }
    assert!(
        one.said.iter().any(|e| matches!(e, Event::OutcomeSafe(list) if list.contains(&first)))
    );
    if at > 0 {
        one.begin_checkpoint();
    }
    let ended = at > 0 && !one.steps(at - 1);
    one.power_cut();
    one.opens(1);
    let found = one.held(LOOSE);
    // Unlogged content over that of a whole slot goes to the same place: a torn write loses both, and it is known.
    let is_lost = found == Held::Lost && (is_whole || case.slot == 1) && case.torn;
    let may_be = [Held::Byte(7), Held::Byte(case.byte)];
    assert!(is_lost || may_be.contains(&found), "{found:?} at first");
    for epoch in 2..4 {
        one.begin_checkpoint();
        one.rest();
        one.power_cut();
        one.opens(epoch);
        assert_eq!(one.held(LOOSE), found, "it changed by itself");
    }
    ended
}

#[test]
fn a_write_is_not_forgotten_for_later_content_that_the_journal_has_not() {
    for n in 0..64 {
        let (slot, is_whole) = ([0, 1, 2, 4][n % 4], n % 8 >= 4);
        let (byte, placed, torn) = ([8, 0][n / 8 % 2], n / 16 % 2 == 1, n / 32 == 1);
        let case = Case { slot, below: Held::Byte(7), byte, placed, settled: false, torn };
        if is_whole && slot == 0 {
            continue;
        }
        let at = Cell::new((0, 0));
        let _where = Where(case, &at);
        for cut in 0.. {
            at.set((cut, usize::from(is_whole)));
            if decided_below(case, is_whole, cut) {
                break;
            }
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
