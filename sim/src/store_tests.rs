//! One disk by itself: writes to a few sectors, contents, zeros and deltas, are
//! prepared, decided and put in place, while the process dies or the power goes again and again, also
//! while the disk is being opened. What was decided must be there each time, what was written without
//! the journal from when it is in place, and the disk must know how late its content is.

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

struct Trial {
    rng: Rng,
    disk: SimDisk,
    store: JournalStore,
    sectors: u64,
    open: bool,
    /// What is committed: the byte that fills each sector.
    content: BTreeMap<u64, u8>,
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
}

impl Trial {
    fn new(seed: u64) -> Trial {
        let mut rng = Rng::with_seed(seed);
        let sectors = 1400;
        let mut superblock = Superblock::divide(1, 0, 1, sectors, 0).unwrap();
        // So small that it is full now and then.
        superblock.journal = [48, 64, 200][rng.usize(0..3)];
        let mut disk = SimDisk::new(sectors);
        JournalStore::format(&superblock).into_iter().for_each(|op| disk.apply_now(op));
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
        }
    }

    fn opening(sectors: u64) -> JournalStore {
        let config = StoreConfig { table_pages: 2, overlay_sectors: 8, ..StoreConfig::default() };
        JournalStore::open(config, 1, 0, sectors)
    }

    fn step(&mut self) {
        match self.rng.u8(0..40) {
            0 => self.crash(),
            1..4 if self.open => self.write(),
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
                        apply(&mut self.content, &write);
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
            let content = self.rng.u8(0..3) == 0;
            let kind = if content { ChangeKind::Content } else { ChangeKind::Delta };
            (s, kind, self.rng.u8(0..3))
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
            apply(&mut self.content, write);
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
        for sector in PLACES {
            let expected = self.content.get(&sector).copied().unwrap_or(0);
            assert_eq!(self.read(sector), Some(expected), "sector {sector}");
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
        let latest = self.store.latest();
        let later = Scan::Kept(Timestamp(latest.0 + 1));
        for sector in PLACES.into_iter().chain(LOOSE) {
            self.store.scan(0, sector, 1, later);
            let found = self.await_event(|event| match event {
                Event::Scanned(_, found) => Ok(found),
                other => Err(other),
            });
            assert_eq!(found, [], "content later than {latest}, the latest that the disk knows");
        }
    }

    /// The byte that fills a sector, if it is there.
    fn read(&mut self, sector: u64) -> Option<u8> {
        self.store.read(sector, sector, 1);
        let done = self.await_event(|event| match event {
            Event::Read(done) => Ok(done),
            other => Err(other),
        });
        let bytes = done.data.to_bytes();
        assert!(bytes.iter().all(|b| *b == bytes[0]), "sector {sector} is mixed");
        done.erased.is_empty().then_some(bytes[0])
    }

    /// The disk works until the store says what is awaited; all else that it says is heard.
    fn await_event<T>(&mut self, awaited: impl Fn(Event) -> Result<T, Event>) -> T {
        loop {
            match self.store.poll().map(&awaited) {
                Some(Ok(found)) => return found,
                Some(Err(event)) => self.hear(event),
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

fn apply(content: &mut BTreeMap<u64, u8>, write: &Write) {
    for (sector, kind, byte) in &write.changes {
        let held = content.entry(*sector).or_default();
        *held = if kind.is_delta() { *held ^ byte } else { *byte };
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
