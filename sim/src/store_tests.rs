//! One disk by itself: writes to a few sectors, contents, zeros, deltas and marks, are
//! prepared, decided and put in place, while the process dies or the power goes again and again, also
//! while the disk is being opened. What was decided must be there each time, what was written without
//! the journal from when it is in place, and the disk must know how late its content is, and which sectors are marked.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::store::{
    Change, ChangeKind, Event, JournalStore, Scan, Store, StoreConfig, Superblock,
};
use weft_core::units::{NodeId, SECTOR, Timestamp};

use crate::disk::SimDisk;

/// Sectors that are written to. They are on three pages of the table.
const PLACES: [u64; 12] = [0, 1, 2, 3, 4, 100, 253, 254, 255, 256, 510, 511];

/// A sector on a page of the table that is not read otherwise.
const LAST_PAGE: u64 = 800;

/// Sectors that are written without the journal, as what is rebuilt is.
const LOOSE: [u64; 4] = [5, 252, 512, 600];

/// A write that has not been forgotten.
#[derive(Clone, Debug)]
struct Write {
    changes: Vec<(u64, ChangeKind, u8)>,
    prepared: bool,
    /// What it was told, if anything.
    outcome: Option<bool>,
    safe: bool,
}

/// What a sector holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Byte(u8),
    /// It is marked as out of date.
    Mark,
}

struct Trial {
    rng: Rng,
    disk: SimDisk,
    store: JournalStore,
    sectors: u64,
    open: bool,
    /// What is committed: the byte that fills each sector, and the write of what is there now.
    content: BTreeMap<u64, (Held, Timestamp)>,
    writes: BTreeMap<Timestamp, Write>,
    /// What may be in place in each of [`LOOSE`]; `None` stands for lost content.
    loose: BTreeMap<u64, BTreeSet<Option<u8>>>,
    /// What is to be placed there.
    unplaced: BTreeMap<Timestamp, (u64, u8)>,
    /// Writes whose abort is safe: they must not be in doubt again.
    over: BTreeSet<Timestamp>,
    started: Vec<u64>,
    clock: u64,
    crashes: u32,
    /// A page of its table was spoilt.
    is_damaged: bool,
    /// The disk's sector where the table begins.
    table_start: u64,
    /// Sectors of a slot.
    slot: u64,
}

impl Trial {
    fn new(seed: u64) -> Trial {
        let mut rng = Rng::with_seed(seed);
        let sectors = 1400;
        let slot = [0, 2, 4, 16][seed as usize % 4];
        let mut superblock = Superblock::divide_in(slot, 1, 0, 1, sectors, 0).unwrap();
        // So small that it is full now and then.
        superblock.journal = [48, 64, 200][rng.usize(0..3)];
        let mut disk = SimDisk::new(sectors);
        JournalStore::format(&superblock).for_each(|op| disk.apply_now(op));
        let store = Trial::opening(sectors);
        Trial {
            rng,
            disk,
            store,
            sectors,
            open: false,
            content: BTreeMap::new(),
            writes: BTreeMap::new(),
            loose: LOOSE.map(|sector| (sector, BTreeSet::from([Some(0)]))).into(),
            unplaced: BTreeMap::new(),
            over: BTreeSet::new(),
            started: Vec::new(),
            clock: 10,
            crashes: 0,
            is_damaged: false,
            table_start: superblock.table_start(),
            slot: superblock.slot(),
        }
    }

    fn opening(sectors: u64) -> JournalStore {
        let config = StoreConfig { table_pages: 2, overlay_sectors: 8, ..StoreConfig::default() };
        JournalStore::open(config, 1, 0, sectors)
    }

    fn step(&mut self) {
        match self.rng.u8(0..40) {
            0 => self.crash(),
            1..3 if self.open => self.write(),
            3 if self.open && self.slot == 0 => self.write(),
            3 if self.open => self.write_slots(),
            4..10 if self.open => self.decide(),
            10..12 if self.open => self.release(),
            12 if self.open => self.place(),
            13 if self.open => self.store.flush_outcomes(),
            14..16 if self.open => self.write_loose(),
            _ => self.finish_one(),
        }
        self.settle();
        self.store.check();
        self.store.check_sums();
    }

    /// One of the operations that the disk has ends, whichever.
    fn finish_one(&mut self) {
        if self.started.is_empty() {
            return;
        }
        let id = self.started.swap_remove(self.rng.usize(0..self.started.len()));
        let result = self.disk.finish(id);
        self.store.done(id, result);
    }

    /// Starts what the store asks for, and takes note of what it says.
    fn settle(&mut self) {
        loop {
            while let Some(event) = self.store.poll() {
                self.hear(event);
            }
            let ops = Store::take_ops(&mut self.store);
            if ops.is_empty() {
                return;
            }
            for request in ops {
                self.disk.start(request.id, request.op);
                self.started.push(request.id);
            }
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Prepared(ts) if self.unplaced.contains_key(&ts) => {}
            Event::Prepared(ts) => self.writes.get_mut(&ts).expect("it was asked").prepared = true,
            Event::OutcomeSafe(list) => {
                let told = self.writes.iter_mut().filter(|(ts, _)| list.contains(ts));
                told.for_each(|(_, w)| w.safe = true);
                let over = |w: &Write| w.safe && w.outcome == Some(false);
                self.over.extend(self.writes.iter().filter(|(_, w)| over(w)).map(|(ts, _)| *ts));
                self.writes.retain(|_, w| !over(w));
            }
            Event::Placed(ts) => {
                let (sector, byte) = self.unplaced.remove(&ts).expect("it was asked");
                self.loose.insert(sector, BTreeSet::from([Some(byte)]));
            }
            Event::Opened(found) => {
                let found = found.into_iter().map(|r| (r.ts, r.committed)).collect();
                self.opened(&found);
            }
            Event::Refused(why) => panic!("refused: {why}"),
            Event::Failed(why) => panic!("failed: {why}"),
            Event::Dropped(_) => {}
            Event::Damaged(_) if self.is_damaged => {}
            other => panic!("nobody asked for {other:?}"),
        }
    }

    /// What is in doubt is decided as it was before, if it was.
    fn opened(&mut self, found: &BTreeMap<Timestamp, bool>) {
        self.open = true;
        let back = found.keys().find(|ts| self.over.contains(ts));
        assert_eq!(back, None, "it was aborted for good, and is in doubt again");
        for (ts, mut write) in std::mem::take(&mut self.writes) {
            match (found.get(&ts), write.outcome) {
                (None, None) => assert!(!write.prepared, "{ts} was prepared, and is forgotten"),
                // An abort that is not known any more is one all the same.
                (None, Some(false)) => {}
                (None, Some(true)) => panic!("{ts} has committed, not all know, and is forgotten"),
                (Some(true), outcome) => {
                    assert_eq!(outcome, Some(true), "{ts} has committed by itself");
                    (write.prepared, write.safe) = (true, true);
                    self.writes.insert(ts, write);
                }
                (Some(false), outcome) => {
                    assert!(
                        !(write.safe && outcome == Some(true)),
                        "{ts}: the outcome is forgotten"
                    );
                    let commit = outcome.unwrap_or_else(|| self.rng.bool());
                    if outcome.is_none() && commit {
                        apply(&mut self.content, ts, &write);
                    }
                    write = Write { prepared: true, safe: false, outcome: Some(commit), ..write };
                    self.store.outcome(ts, commit);
                    self.writes.insert(ts, write);
                }
            }
        }
    }

    fn crash(&mut self) {
        self.crashes += 1;
        match self.rng.bool() {
            true => self.disk.process_dies(&mut self.rng),
            false => self.disk.power_cut(&mut self.rng),
        }
        self.started.clear();
        for (sector, byte) in std::mem::take(&mut self.unplaced).into_values() {
            self.loose.get_mut(&sector).expect("a loose sector").extend([Some(byte), None]);
        }
        self.open = false;
        self.store = Trial::opening(self.sectors);
    }

    /// Sectors that an undecided write changes: another one waits for it.
    fn held(&self) -> BTreeSet<u64> {
        let undecided = self.writes.values().filter(|w| w.outcome.is_none());
        undecided.flat_map(|w| w.changes.iter().map(|c| c.0)).collect()
    }

    fn write(&mut self) {
        let held = self.held();
        self.clock += 1;
        let ts = Timestamp::new(self.clock, NodeId(0));
        let first = self.rng.usize(0..PLACES.len());
        let places = PLACES[first..].iter().take(self.rng.usize(1..4));
        let places: Vec<u64> = places.copied().filter(|s| !held.contains(s)).collect();
        let mut change = |s| {
            let kind = match self.rng.u8(0..8) {
                0..3 => ChangeKind::Content,
                3 => ChangeKind::Mark,
                _ => ChangeKind::Delta,
            };
            let byte = self.rng.u8(0..3);
            (s, kind, if kind.is_mark() { 0 } else { byte })
        };
        let changes: Vec<(u64, ChangeKind, u8)> = places.into_iter().map(&mut change).collect();
        if changes.is_empty() {
            return;
        }
        let made =
            changes.iter().map(|&(sector, kind, byte)| Change { sector, kind, data: data(byte) });
        let made = made.collect();
        let write = Write { changes, prepared: false, outcome: None, safe: false };
        self.writes.insert(ts, write);
        self.store.prepare(ts, Vec::new(), made, true);
    }

    /// Content of a whole slot or two, in which no sector is written otherwise that is not among [`PLACES`].
    fn write_slots(&mut self) {
        let held = self.held();
        let slot = PLACES[self.rng.usize(0..PLACES.len())] / self.slot;
        let count = self.rng.u64(1..3) * self.slot;
        let sectors = slot * self.slot..slot * self.slot + count;
        if sectors.clone().any(|s| held.contains(&s) || LOOSE.contains(&s)) {
            return;
        }
        self.clock += 1;
        let ts = Timestamp::new(self.clock, NodeId(0));
        let byte = self.rng.u8(1..4);
        let changes: Vec<_> = sectors.clone().map(|s| (s, ChangeKind::Content, byte)).collect();
        let write = Write { changes, prepared: false, outcome: None, safe: false };
        self.writes.insert(ts, write);
        let data = Buffer::from(vec![byte; (count * SECTOR) as usize]);
        let change = Change { sector: sectors.start, kind: ChangeKind::Content, data };
        self.store.prepare(ts, Vec::new(), vec![change], true);
    }

    /// One at a time for each sector.
    fn write_loose(&mut self) {
        let sector = *self.rng.choice(&LOOSE).expect("not empty");
        if self.unplaced.values().any(|w| w.0 == sector) {
            return;
        }
        self.clock += 1;
        let ts = Timestamp::new(self.clock, NodeId(0));
        let byte = self.rng.u8(0..3);
        self.unplaced.insert(ts, (sector, byte));
        let change = Change { sector, kind: ChangeKind::Content, data: data(byte) };
        self.store.prepare(ts, Vec::new(), vec![change], false);
        self.store.outcome(ts, true);
        self.store.release(ts);
    }

    fn decide(&mut self) {
        let open = self.writes.iter().filter(|(_, w)| w.prepared && w.outcome.is_none());
        let open: Vec<Timestamp> = open.map(|(ts, _)| *ts).collect();
        let Some(ts) = self.rng.choice(open) else { return };
        let commit = self.rng.u8(0..5) > 0;
        let write = self.writes.get_mut(&ts).expect("just seen");
        write.outcome = Some(commit);
        if commit {
            apply(&mut self.content, ts, write);
        }
        self.store.outcome(ts, commit);
    }

    fn release(&mut self) {
        let done = self.writes.iter().filter(|(_, w)| w.safe && w.outcome == Some(true));
        let done: Vec<Timestamp> = done.map(|(ts, _)| *ts).collect();
        let Some(ts) = self.rng.choice(done) else { return };
        self.writes.remove(&ts);
        self.store.release(ts);
    }

    fn place(&mut self) {
        let held = self.held();
        self.store.checkpoint(true, |sector, _, _| held.contains(&sector));
    }

    /// Everything comes to rest, and is read.
    fn check(&mut self) {
        while !(self.open && self.started.is_empty()) {
            self.finish_one();
            self.settle();
        }
        let written: BTreeSet<u64> = self.content.keys().copied().chain(PLACES).collect();
        for sector in written {
            let expected = match self.content.get(&sector) {
                Some((Held::Mark, _)) => None,
                Some((Held::Byte(byte), _)) => Some(*byte),
                None => Some(0),
            };
            assert_eq!(self.read(sector), expected, "sector {sector}");
        }
        for sector in LOOSE {
            let found = self.read(sector);
            match self.unplaced.values().find(|w| w.0 == sector) {
                Some((_, byte)) => assert_eq!(found, Some(*byte), "sector {sector}"),
                None => {
                    let known = self.loose.insert(sector, BTreeSet::from([found]));
                    let known = known.expect("a loose sector");
                    assert!(known.contains(&found), "sector {sector}: {found:?} of {known:?}");
                }
            }
        }
        self.check_marks();
        let latest = self.store.latest();
        let later = Scan::Kept(Timestamp(latest.0 + 1));
        for sector in PLACES.into_iter().chain(LOOSE) {
            let found = self.scan(sector, 1, later);
            assert_eq!(found, [], "content later than {latest}, the latest that the disk knows");
        }
    }

    /// The disk knows of all marks, and of the write of each.
    fn check_marks(&mut self) {
        let marked = self.content.iter().filter(|(_, (held, _))| *held == Held::Mark);
        let marked: Vec<_> = marked.map(|(sector, (_, ts))| (*sector, *ts)).collect();
        let mut found = self.scan(0, self.store.data_sectors(), Scan::Marked);
        found.retain(|(sector, _)| self.content.contains_key(sector));
        assert_eq!(found, marked);
    }

    /// One change by itself, until it has happened.
    fn commit_alone(&mut self, sector: u64, kind: ChangeKind, byte: u8) -> Timestamp {
        self.clock += 1;
        let ts = Timestamp::new(self.clock, NodeId(0));
        let changes = vec![(sector, kind, byte)];
        let write = Write { changes, prepared: false, outcome: Some(true), safe: false };
        self.writes.insert(ts, write);
        self.store.prepare(ts, Vec::new(), vec![Change { sector, kind, data: data(byte) }], true);
        self.work_until(|trial| trial.writes[&ts].prepared);
        self.store.outcome(ts, true);
        ts
    }

    /// Everything that has happened is put in its place.
    fn place_all(&mut self) {
        self.work_until(|trial| trial.writes.values().all(|w| w.safe));
        for ts in std::mem::take(&mut self.writes).into_keys() {
            self.store.release(ts);
        }
        self.place();
        self.settle();
        self.work_until(|trial| trial.started.is_empty());
    }

    /// The disk works until a condition holds.
    fn work_until(&mut self, holds: impl Fn(&Trial) -> bool) {
        while !holds(self) {
            self.store.flush_outcomes();
            self.settle();
            self.finish_one();
            self.settle();
        }
    }

    fn scan(&mut self, first: u64, count: u64, what: Scan) -> Vec<(u64, Timestamp)> {
        self.store.scan(0, first, count, what);
        self.await_event(|event| match event {
            Event::Scanned(_, found) => Ok(found),
            other => Err(Box::new(other)),
        })
    }

    /// The byte that fills a sector, if it is there.
    fn read(&mut self, sector: u64) -> Option<u8> {
        self.store.read(sector, sector, 1);
        let done = self.await_event(|event| match event {
            Event::Read(done) => Ok(done),
            other => Err(Box::new(other)),
        });
        let bytes = done.data.to_bytes();
        assert!(bytes.iter().all(|b| *b == bytes[0]), "sector {sector} is mixed");
        done.erased.is_empty().then_some(bytes[0])
    }

    /// The disk works until the store says what is awaited; all else that it says is heard.
    fn await_event<T>(&mut self, awaited: impl Fn(Event) -> Result<T, Box<Event>>) -> T {
        loop {
            match self.store.poll().map(&awaited) {
                Some(Ok(found)) => return found,
                Some(Err(event)) => self.hear(*event),
                None => {
                    for request in Store::take_ops(&mut self.store) {
                        self.disk.start(request.id, request.op);
                        self.started.push(request.id);
                    }
                    self.finish_one();
                }
            }
        }
    }
}

/// A sector full of one byte.
fn data(byte: u8) -> Buffer {
    match byte {
        0 => Buffer::Zero(SECTOR as usize),
        _ => Buffer::from(vec![byte; SECTOR as usize]),
    }
}

fn apply(content: &mut BTreeMap<u64, (Held, Timestamp)>, ts: Timestamp, write: &Write) {
    for (sector, kind, byte) in &write.changes {
        let held = content.entry(*sector).or_insert((Held::Byte(0), ts));
        *held = match (kind, held.0) {
            (ChangeKind::Content, _) => (Held::Byte(*byte), ts),
            (ChangeKind::Mark, _) | (ChangeKind::Delta, Held::Mark) => (Held::Mark, ts),
            (ChangeKind::Delta, Held::Byte(before)) => (Held::Byte(before ^ byte), ts),
            (ChangeKind::Copy(_) | ChangeKind::Fold(_), _) => unreachable!("no copies are drawn"),
        };
    }
}

#[test]
fn what_is_decided_is_there_after_any_number_of_crashes() {
    let mut crashes = 0;
    for seed in 0..300 {
        let mut trial = Trial::new(seed);
        for _ in 0..6 {
            (0..150).for_each(|_| trial.step());
            trial.check();
        }
        crashes += trial.crashes;
    }
    assert!(crashes > 3000, "{crashes}");
}

#[test]
fn what_is_marked_and_was_lost_before_is_as_late_as_its_mark() {
    // Without slots: the sector's entry is where its number says.
    let mut trial = Trial::new(0);
    trial.settle();
    trial.work_until(|t| t.open);
    let (sector, page) = (LAST_PAGE, LAST_PAGE / 255);
    trial.commit_alone(sector, ChangeKind::Content, 1);
    trial.place_all();
    trial.is_damaged = true;
    trial.disk.rot(trial.table_start + page, &mut trial.rng);
    trial.crash();
    trial.settle();
    trial.work_until(|t| t.open);
    assert_eq!(trial.read(sector), None, "its page of the table is damaged");
    let ts = trial.commit_alone(sector, ChangeKind::Mark, 0);
    assert_eq!(trial.scan(sector, 1, Scan::Marked), [(sector, ts)]);
}
