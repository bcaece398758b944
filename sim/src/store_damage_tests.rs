//! One disk by itself that is damaged: what it finds out without the others, and what a scrub finds while it is
//! open.

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::store::{Change, ChangeKind, Event, JournalStore, Store, StoreConfig, Superblock};
use weft_core::units::{NodeId, SECTOR, Timestamp};

use crate::disk::{Astray, SimDisk};

mod owners;
mod undecided;

const SECTORS: u64 = 1400;

struct One {
    disk: SimDisk,
    divided: Superblock,
    store: JournalStore,
    started: Vec<u64>,
    said: Vec<Event>,
    clock: u64,
}

impl One {
    fn new() -> One {
        One::divided(Superblock::divide(1, 0, 1, SECTORS, 0).unwrap())
    }

    fn divided(mut divided: Superblock) -> One {
        divided.journal = 48;
        let mut disk = SimDisk::new(SECTORS);
        JournalStore::format(&divided).for_each(|op| disk.apply_now(op));
        let store = JournalStore::open(StoreConfig::default(), 1, 0, SECTORS);
        let mut one = One { disk, divided, store, started: vec![], said: vec![], clock: 10 };
        one.rest();
        one
    }

    /// The process dies, and another opens the disk.
    fn opened_again(&mut self) {
        self.dies();
        self.rest();
    }

    fn dies(&mut self) {
        self.disk.process_dies(&mut Rng::with_seed(7));
        self.started.clear();
        self.said.clear();
        self.store = JournalStore::open(StoreConfig::default(), 1, 0, SECTORS);
    }

    /// The first operation that was started ends. Says whether there was one.
    fn step(&mut self) -> bool {
        self.ends(|_| 0)
    }

    /// One of those that were started ends.
    fn ends(&mut self, which: impl Fn(usize) -> usize) -> bool {
        self.said.extend(std::iter::from_fn(|| self.store.poll()));
        for request in Store::take_ops(&mut self.store) {
            self.disk.start(request.id, request.op);
            self.started.push(request.id);
        }
        if self.started.is_empty() {
            return false;
        }
        let id = self.started.remove(which(self.started.len()));
        let result = self.disk.finish(id);
        self.store.done(id, result);
        true
    }

    /// So many operations end, if there are so many.
    fn steps(&mut self, most: u32) {
        let _ = (0..most).all(|_| self.step());
    }

    /// Everything ends, and what is to be mended is.
    fn rest(&mut self) {
        loop {
            while self.step() {}
            self.store.checkpoint(false, |_, _, _| false);
            if !self.step() {
                return;
            }
        }
    }

    fn prepare(&mut self, sector: u64, kind: ChangeKind, byte: u8, journal: bool) -> Timestamp {
        self.clock += 1;
        let ts = Timestamp::new(self.clock, NodeId(0));
        let data = Buffer::from(vec![byte; SECTOR as usize]);
        self.store.prepare(ts, Vec::new(), vec![Change { sector, kind, data }], journal);
        ts
    }

    /// Prepares and commits a write with the journal.
    fn write(&mut self, sector: u64, kind: ChangeKind, byte: u8) {
        let ts = self.prepare(sector, kind, byte, true);
        while self.step() {}
        self.store.outcome(ts, true);
        self.store.flush_outcomes();
        while self.step() {}
        self.store.release(ts);
    }

    fn place(&mut self) {
        self.store.checkpoint(true, |_, _, _| false);
        self.rest();
    }

    /// The byte that fills a sector; none if its content is lost.
    fn read(&mut self, sector: u64) -> Option<u8> {
        self.store.read_versions(1, sector, 1);
        while self.step() {}
        let read = self.said.iter().rposition(|e| matches!(e, Event::Read(_)));
        let Event::Read(done) = self.said.remove(read.expect("it is read")) else { unreachable!() };
        let bytes = done.data.to_bytes();
        let whole = done.erased.is_empty();
        assert!(!whole || bytes.iter().all(|b| *b == bytes[0]), "sector {sector} is mixed");
        whole.then_some(bytes[0])
    }

    fn damage_said(&mut self) -> usize {
        let damage = self.said.iter().filter(|e| matches!(e, Event::Damaged(_))).count();
        self.said.clear();
        damage
    }
}

/// It is in memory, and would be missed when the disk is opened next.
#[test]
fn a_scrub_finds_what_is_damaged_behind_what_is_in_memory() {
    type Sectors = fn(&Superblock) -> Vec<u64>;
    let parts: [(&str, Sectors); 4] = [
        ("a page of the table", |sb| vec![sb.table_start()]),
        ("a page of the index", |sb| vec![sb.index_start()]),
        ("both superblocks", |_| vec![0, 1]),
        ("the journal", |sb| (sb.journal_start() + 10..sb.journal_start() + 48).collect()),
    ];
    for (part, sectors) in parts {
        let mut one = One::new();
        one.write(3, ChangeKind::Content, 7);
        one.place();
        assert_eq!((one.read(3), one.damage_said()), (Some(7), 0), "{part}");
        for sector in sectors(&one.divided) {
            one.disk.spoil(sector);
        }
        one.rest();
        assert_eq!(one.read(3), Some(7), "{part}");
        one.rest();
        assert!(one.damage_said() > 0, "{part}");
        one.opened_again();
        assert_eq!((one.damage_said(), one.store.forgot()), (0, false), "{part}");
        assert_eq!((one.read(3), one.damage_said()), (Some(7), 0), "{part}");
    }
}

#[test]
fn a_journal_that_is_not_there_any_more_is_missed() {
    let mut one = One::new();
    one.write(3, ChangeKind::Content, 7);
    // The superblock that is written when it is opened says how much of the journal was durable.
    one.opened_again();
    assert!(!one.store.forgot());
    one.write(4, ChangeKind::Content, 8);
    one.opened_again();
    for sector in one.divided.journal_start()..one.divided.index_start() {
        one.disk.zero(sector);
    }
    one.opened_again();
    assert!(one.store.forgot() && one.damage_said() > 0);
}

/// An older copy of the disk, from before it was in place, must be known by what the disk has said.
#[test]
fn a_write_without_journal_is_in_place_when_the_superblock_shows_it() {
    let mut one = One::new();
    one.write(2, ChangeKind::Content, 1);
    one.place();
    one.store.begin_life(1);
    let before = one.store.reached();
    let ts = one.prepare(3, ChangeKind::Content, 7, false);
    one.store.outcome(ts, true);
    one.store.checkpoint(true, |_, _, _| false);
    let mut reached = before;
    loop {
        let more = one.step();
        if one.said.iter().any(|e| matches!(e, Event::Placed(_))) {
            break;
        }
        assert!(more, "it is placed in the end");
        reached = one.store.reached();
    }
    // One superblock was written when the disk was opened, one when the slot got its place, and one when the table was safe.
    // The journal has an apply entry, so none goes along with the data.
    assert_eq!(reached.sequence, before.sequence + 3);
    one.opened_again();
    assert_eq!(one.read(3), Some(7));
}

impl One {
    /// All content goes bad.
    fn content_rots(&mut self) {
        let mut rng = Rng::with_seed(7);
        for sector in self.divided.data_start()..self.divided.data_start() + self.divided.data {
            self.disk.rot(sector, &mut rng);
        }
    }

    /// The writes that were found undecided when the disk was opened.
    fn undecided(&self) -> Vec<Timestamp> {
        let opened = self.said.iter().find_map(|event| match event {
            Event::Opened(found) => Some(found),
            _ => None,
        });
        opened.expect("it is open").iter().filter(|f| !f.committed).map(|f| f.ts).collect()
    }
}

impl One {
    /// Prepares content of a whole slot; zeros are holes. Returns the slot's first sector as well.
    fn prepare_slot(&mut self, slot: u64, byte: u8) -> (Timestamp, u64) {
        let begun = self.begin_slot(slot, byte);
        while self.step() {}
        begun
    }

    /// Begins to.
    fn begin_slot(&mut self, slot: u64, byte: u8) -> (Timestamp, u64) {
        self.clock += 1;
        let (ts, size) = (Timestamp::new(self.clock, NodeId(0)), self.divided.slot());
        let data = match byte {
            0 => Buffer::Zero((size * SECTOR) as usize),
            _ => Buffer::from(vec![byte; (size * SECTOR) as usize]),
        };
        let change = Change { sector: slot * size, kind: ChangeKind::Content, data };
        self.store.prepare(ts, Vec::new(), vec![change], true);
        (ts, slot * size)
    }

    /// The same, commits it, and puts it in place.
    fn write_slot(&mut self, slot: u64, byte: u8) {
        let (ts, _) = self.prepare_slot(slot, byte);
        self.store.outcome(ts, true);
        self.store.release(ts);
        self.place();
    }
}

/// A page of the table is an older copy, and the index that would tell is gone: what it says of a place was said of another
/// slot.
#[test]
fn what_was_said_of_another_slot_says_nothing() {
    let mut one = One::new();
    one.write_slot(1, 6);
    one.write_slot(1, 0);
    // It moves, and the next takes its place.
    one.write_slot(1, 7);
    one.write_slot(2, 8);
    let slot = one.divided.slot();
    assert_eq!([1, 2].map(|n| one.read(n * slot)), [Some(7), Some(8)]);
    // Back to when slot 1 was a hole.
    one.disk.roll_back(one.divided.table_start());
    one.disk.zero(one.divided.index_start());
    one.opened_again();
    assert_eq!(one.read(2 * slot), None);
}

/// What is found then is not in the journal, and the disk dies again before anything is put in place.
#[test]
fn a_checkpoint_whose_apply_entry_was_lost_does_not_add_changes_twice() {
    let mut after = 0;
    // It dies after so many more operations. That the change has committed is lost as well, or not.
    for (steps, outcome_is_lost) in (0..20).flat_map(|steps| [(steps, false), (steps, true)]) {
        let mut one = One::new();
        one.write(3, ChangeKind::Content, 1);
        one.place();
        let ts = one.prepare(3, ChangeKind::Delta, 6, true);
        while one.step() {}
        one.store.outcome(ts, true);
        if !outcome_is_lost {
            one.store.flush_outcomes();
            while one.step() {}
        }
        one.disk.astray = Some(Astray::Lost);
        one.store.checkpoint(true, |_, _, _| false);
        for _ in 0..steps {
            after += u32::from(one.step());
        }
        let when = format!("after {steps} operations, outcome lost: {outcome_is_lost}");
        for opened in 1..=3 {
            one.opened_again();
            one.undecided().into_iter().for_each(|ts| one.store.outcome(ts, true));
            let read = one.read(3);
            assert!(read.is_none_or(|byte| byte == 7), "{read:?} when opened {opened}, {when}");
        }
        one.place();
        let read = one.read(3);
        assert!(read.is_none_or(|byte| byte == 7), "{read:?} when in place, {when}");
    }
    assert!(after > 40, "{after}");
}

/// The pointers that it moved are in a copy of a page that is refused, also when the disk has got as far as its number. The
/// other copy is right.
#[test]
fn owners_of_a_checkpoint_whose_apply_entry_was_lost_are_not_believed_later() {
    let mut refused = 0;
    for steps in 0..20 {
        let mut one = One::new();
        one.write_slot(1, 6);
        let (ts, first) = one.prepare_slot(2, 7);
        one.store.outcome(ts, true);
        one.disk.astray = Some(Astray::Lost);
        one.store.checkpoint(true, |_, _, _| false);
        for _ in 0..steps {
            one.step();
        }
        let opened = |one: &One| one.said.iter().any(|e| matches!(e, Event::Opened(_)));
        let is_of_owners =
            |e: &Event| matches!(e, Event::Damaged(what) if what.contains("owners is damaged"));
        for times in 1..=2 {
            one.dies();
            while !opened(&one) {
                one.step();
            }
            let is_refused = one.said.iter().any(is_of_owners);
            assert!(times == 1 || !is_refused, "it is written anew, after {steps} operations");
            refused += u32::from(is_refused);
        }
        one.undecided().into_iter().for_each(|ts| one.store.outcome(ts, true));
        one.rest();
        assert_eq!(one.read(first / 2), Some(6), "after {steps} operations");
        let read = one.read(first);
        assert!(read.is_none_or(|byte| byte == 7), "{read:?} after {steps} operations");
    }
    assert!(refused > 0, "no page is refused");
}

/// The number of a checkpoint and what it is about to place may come into two frames. The second is lost.
#[test]
fn a_checkpoint_of_which_only_the_number_is_left_does_not_count() {
    for steps in 0..16 {
        let mut one = One::new();
        one.write(3, ChangeKind::Content, 1);
        one.place();
        // All are to be known on, so that the first frame is full with the number.
        for n in 0..510 {
            let (sector, kind, byte) = match n {
                509 => (3, ChangeKind::Delta, 6),
                _ => (4 + n % 5, ChangeKind::Content, 2),
            };
            let ts = one.prepare(sector, kind, byte, true);
            while one.step() {}
            one.store.outcome(ts, true);
            one.store.flush_outcomes();
            while one.step() {}
            if n % 5 == 4 && n < 509 {
                one.place();
            }
        }
        let frames = |one: &One| Store::counters(&one.store).journal_frames;
        let before = frames(&one);
        one.store.checkpoint(true, |_, _, _| false);
        while frames(&one) < before + 2 {
            assert!(one.step(), "there is no second frame");
        }
        one.disk.astray = Some(Astray::Lost);
        one.steps(steps);
        for opened in 1..=2 {
            one.opened_again();
            let read = one.read(3);
            assert!(
                read.is_none_or(|byte| byte == 7),
                "{read:?} when opened {opened}, {steps} operations later"
            );
        }
    }
}

/// The superblock that said so rots. The older one names a tail behind which there was room enough.
#[test]
fn a_ring_that_had_been_emptied_is_read_from_its_beginning_though_a_superblock_is_gone() {
    for copy in 0..2 {
        let mut one = One::new();
        one.write(3, ChangeKind::Content, 1);
        one.write(3, ChangeKind::Content, 2);
        let ts = one.prepare(4, ChangeKind::Content, 4, true);
        while one.step() {}
        one.place();
        one.store.outcome(ts, true);
        one.store.flush_outcomes();
        while one.step() {}
        one.store.release(ts);
        one.place();
        let promised = one.prepare(5, ChangeKind::Content, 5, true);
        while one.step() {}
        one.disk.rot(copy, &mut Rng::with_seed(7));
        one.opened_again();
        assert_eq!(one.undecided(), [promised], "without superblock {copy}");
        assert_eq!((one.read(3), one.read(4)), (Some(2), Some(4)));
    }
}

/// A ring that had been emptied begins anew at its first sector. What was promised there can be read in part.
#[test]
fn a_frame_that_cannot_be_read_is_missed_also_at_the_beginning_of_the_journal() {
    for at in [0, 1] {
        // It dies again while it is opened, after so many operations.
        for steps in 0..90 {
            let mut one = One::new();
            one.write(3, ChangeKind::Content, 1);
            one.place();
            one.prepare(5, ChangeKind::Content, 5, true);
            one.rest();
            one.disk.spoil(one.divided.journal_start() + at);
            one.dies();
            one.steps(steps);
            one.opened_again();
            assert!(one.store.forgot(), "sector {at}, {steps} operations");
            assert_eq!(one.read(3), Some(1));
            one.opened_again();
            assert_eq!(one.damage_said(), 0, "it can be read by now");
        }
    }
}

/// The disk dies again while it puts that right: one of the copies counts, whenever that is. Or the page was never written
/// before.
#[test]
fn of_owners_that_were_refused_nothing_is_lost_whenever_the_disk_dies_again() {
    for (steps, more) in (0..20).flat_map(|steps| (0..40).map(move |more| (steps, more))) {
        let mut one = One::new();
        let has_been_written = more % 2 == 0;
        if has_been_written {
            one.write_slot(1, 6);
        }
        let (ts, first) = one.prepare_slot(2, 7);
        one.store.outcome(ts, true);
        one.disk.astray = Some(Astray::Lost);
        one.store.checkpoint(true, |_, _, _| false);
        one.steps(steps);
        one.dies();
        one.steps(more);
        for times in 1..=2 {
            one.opened_again();
            let when = format!("after {steps} operations and {more} of opening, opened {times}");
            if has_been_written {
                assert_eq!(one.read(first / 2), Some(6), "{when}");
            }
            assert_eq!(one.read(5 * first), Some(0), "it was never written, {when}");
        }
    }
}

/// A frame stands at the ring's beginning if there was no room for it behind the one before. One that came there by a write that
/// went astray does not count: as if all room between had been skipped, there would be none left for ever. But it was promised.
#[test]
fn a_frame_that_went_astray_to_the_beginning_of_the_journal_takes_no_room() {
    let mut one = One::new();
    one.write(3, ChangeKind::Content, 1);
    let ts = one.prepare(3, ChangeKind::Delta, 2, true);
    one.rest();
    // Before that nothing is needed any more.
    one.place();
    one.disk.astray = Some(Astray::To(one.divided.journal_start()));
    one.prepare(4, ChangeKind::Content, 4, true);
    one.rest();
    one.opened_again();
    assert!(one.store.forgot() && one.undecided().is_empty(), "{ts} is forgotten, too");
    for byte in 1..20 {
        one.write(5, ChangeKind::Content, byte);
        one.place();
        assert_eq!((one.read(3), one.read(5)), (Some(1), Some(byte)));
    }
}

/// What a checkpoint that was cut off had begun is ended without any more room in the journal.
#[test]
fn a_disk_that_dies_in_checkpoints_again_and_again_has_room_left() {
    let mut rng = Rng::with_seed(1);
    let mut one = One::new();
    for round in 0..300 {
        one.dies();
        for _ in 0..rng.usize(0..16) {
            one.step();
        }
        if one.said.iter().any(|e| matches!(e, Event::Opened(_))) {
            one.store.checkpoint(true, |_, _, _| false);
            for _ in 0..rng.usize(0..12) {
                one.step();
            }
        }
        if round % 50 == 0 {
            one.opened_again();
            let kind = if round % 3 == 0 { ChangeKind::Delta } else { ChangeKind::Content };
            one.write(round % 7, kind, 5);
            assert!(!one.store.waits_for_room(Timestamp::new(one.clock, NodeId(0))), "{round}");
        }
    }
    one.opened_again();
    one.place();
    one.write(9, ChangeKind::Content, 9);
    one.place();
    assert_eq!(one.read(9), Some(9));
}

/// What is later was prepared first, and is gone from the journal when the earlier one is found there. Where the table does
/// not say any more which of them is in place, only the journal can.
#[test]
fn what_later_content_had_overtaken_does_not_come_back() {
    let kinds = [ChangeKind::Content, ChangeKind::Delta];
    for (kind, is_rotten) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut one = One::new();
        one.clock = 20;
        let later = one.prepare(3, ChangeKind::Content, 7, true);
        while one.step() {}
        // It stays undecided, and so what follows it stays in the journal.
        one.prepare(200, ChangeKind::Content, 5, true);
        while one.step() {}
        one.clock = 10;
        let earlier = one.prepare(3, kind, 1, true);
        while one.step() {}
        one.store.outcome(later, true);
        one.store.outcome(earlier, true);
        one.store.flush_outcomes();
        while one.step() {}
        one.store.release(later);
        one.place();
        if is_rotten {
            one.disk.rot(one.divided.table_start(), &mut Rng::with_seed(1));
        }
        for _ in 0..2 {
            one.opened_again();
            one.place();
            assert_eq!(
                one.read(3),
                Some(7),
                "{kind:?}, a page of the table is rotten: {is_rotten}"
            );
        }
    }
}
