//! One disk by itself. Writes with and without the journal change the same sectors: content, whole slots, deltas, marks and
//! zeros, decided in any order, between checkpoints. Whether the journal can forget is drawn, too. Then the disk crashes, perhaps once
//! more while it is opened. Safe writes must be there. Of others, which the journal does not have and which are not in place,
//! each sector has its part or not. Then nothing changes by itself.

use std::collections::BTreeMap;
use std::ops::Range;

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::store::{
    Change, ChangeKind, Event, JournalStore, Scan, Store, StoreConfig, Superblock,
};
use weft_core::units::{NodeId, SECTOR, Timestamp};

use crate::disk::SimDisk;

const SECTORS: u64 = 600;
const SLOT: u64 = 4;
/// The sectors that are written.
const WRITTEN: u64 = 3 * SLOT;
/// A write of this one may be undecided all the time, so that the journal cannot forget.
const UNDECIDED: u64 = 40;
/// Acts before a crash.
const ACTS: usize = 60;

/// A write that not all know of.
struct Written {
    sectors: Range<u64>,
    kind: ChangeKind,
    byte: u8,
    journal: bool,
    prepared: bool,
    outcome: Option<bool>,
    safe: bool,
}

/// A change of a sector that has committed.
#[derive(Clone, Copy, Debug)]
struct Done {
    ts: Timestamp,
    kind: ChangeKind,
    byte: u8,
    /// The journal has it, or it is in place.
    is_safe: bool,
}

/// What a sector holds: its bytes, or nothing that counts (a mark).
type Held = Option<u8>;

/// The result of changes.
fn result(all: &[Done]) -> Held {
    let newest = all.iter().filter(|d| !d.kind.is_delta()).max_by_key(|d| d.ts);
    let (from, below) = newest.map_or((Timestamp::ZERO, Some(0)), |d| {
        (d.ts, (d.kind != ChangeKind::Mark).then_some(d.byte))
    });
    let deltas = all.iter().filter(|d| d.kind.is_delta() && d.ts > from);
    below.map(|below| deltas.fold(below, |sum, d| sum ^ d.byte))
}

struct Mixed {
    acts: Rng,
    rng: Rng,
    disk: SimDisk,
    store: JournalStore,
    started: Vec<u64>,
    /// It crashes after this number of operations.
    left: Option<usize>,
    clock: u64,
    life: u64,
    is_torn: bool,
    pinned: Option<Timestamp>,
    writes: BTreeMap<Timestamp, Written>,
    done: BTreeMap<u64, Vec<Done>>,
    said: Vec<Event>,
    ended: usize,
}

/// Something failed to come to its end: it is time to crash.
struct Cut;

impl Mixed {
    fn new(seed: u64, is_torn: bool) -> Mixed {
        let mut divided = Superblock::divide_in(SLOT, 1, 0, 1, SECTORS, 0).unwrap();
        divided.journal = 64;
        let mut disk = SimDisk::new(SECTORS);
        JournalStore::format(&divided).for_each(|op| disk.apply_now(op));
        if is_torn {
            disk.tear_in_power_cuts(seed);
        }
        let mut mixed = Mixed {
            acts: Rng::with_seed(seed),
            rng: Rng::with_seed(seed + 1),
            disk,
            store: opening(),
            started: Vec::new(),
            left: None,
            clock: 10,
            life: 0,
            is_torn,
            pinned: None,
            writes: BTreeMap::new(),
            done: BTreeMap::new(),
            said: Vec::new(),
            ended: 0,
        };
        assert!(mixed.rest().is_ok());
        mixed
    }

    /// Draws what happens.
    fn run(&mut self) -> Result<(), Cut> {
        if self.acts.bool() {
            self.prepare(UNDECIDED..UNDECIDED + 1, ChangeKind::Content, 1, true);
            self.rest()?;
            self.pinned = self.writes.keys().next().copied();
        }
        for _ in 0..ACTS {
            match self.acts.u32(0..20) {
                0..7 => self.write(),
                7..12 => self.decide(),
                12..14 => self.checkpoint(),
                14..17 => {
                    for _ in 0..self.acts.usize(1..8) {
                        self.step()?;
                    }
                }
                17 => self.rest()?,
                _ => self.release(),
            }
            self.settle();
        }
        self.rest()
    }

    fn write(&mut self) {
        let first = self.acts.u64(0..WRITTEN);
        let sectors = match self.acts.u32(0..4) {
            0 => first / SLOT * SLOT..(first / SLOT + 1) * SLOT,
            1 => first..(first + 2).min(WRITTEN),
            _ => first..first + 1,
        };
        // No change goes on top of undecided content.
        let meets = |w: &Written| w.sectors.start < sectors.end && sectors.start < w.sectors.end;
        let undecided = self.writes.values().filter(|w| w.outcome.is_none() && meets(w));
        let is_over = undecided.into_iter().any(|w| !w.kind.is_delta());
        let kind = match self.acts.u32(0..8) {
            0 | 1 if !is_over => ChangeKind::Delta,
            2 => ChangeKind::Mark,
            _ => ChangeKind::Content,
        };
        let byte = if self.acts.u32(0..6) == 0 { 0 } else { self.acts.u8(1..) };
        let (byte, journal) = (if kind == ChangeKind::Mark { 0 } else { byte }, self.acts.bool());
        self.prepare(sectors, kind, byte, journal);
    }

    fn prepare(&mut self, sectors: Range<u64>, kind: ChangeKind, byte: u8, journal: bool) {
        self.clock += 1;
        let ts = Timestamp::new(self.clock, NodeId(0));
        let len = ((sectors.end - sectors.start) * SECTOR) as usize;
        let data = if byte == 0 { Buffer::Zero(len) } else { vec![byte; len].into() };
        let change = Change { sector: sectors.start, kind, data };
        let (prepared, outcome, safe) = (false, None, false);
        let written = Written { sectors, kind, byte, journal, prepared, outcome, safe };
        self.writes.insert(ts, written);
        self.store.prepare(ts, Vec::new(), vec![change], journal);
    }

    /// Any write that is prepared is decided.
    fn decide(&mut self) {
        let ready = |(ts, w): &(&Timestamp, &Written)| {
            w.prepared && w.outcome.is_none() && Some(**ts) != self.pinned
        };
        let ready: Vec<Timestamp> = self.writes.iter().filter(ready).map(|(ts, _)| *ts).collect();
        if let Some(ts) = self.acts.choice(&ready) {
            let commit = self.acts.u32(0..6) > 0;
            self.outcome(*ts, commit);
        }
    }

    fn outcome(&mut self, ts: Timestamp, commit: bool) {
        let write = self.writes.get_mut(&ts).expect("it is undecided");
        let is_new = write.outcome.replace(commit).is_none();
        if is_new && commit {
            let (kind, byte, is_safe) = (write.kind, write.byte, write.journal);
            for sector in write.sectors.clone() {
                self.done.entry(sector).or_default().push(Done { ts, kind, byte, is_safe });
            }
        }
        if !commit && !write.journal {
            self.writes.remove(&ts);
        }
        self.store.outcome(ts, commit);
    }

    /// All know of the oldest write that is safe.
    fn release(&mut self) {
        self.store.flush_outcomes();
        let mut safe = self.writes.iter().filter(|(_, w)| w.safe && w.outcome == Some(true));
        if let Some((&ts, _)) = safe.next() {
            self.writes.remove(&ts);
            self.store.release(ts);
        }
    }

    fn checkpoint(&mut self) {
        let undecided = self.writes.iter().filter(|(_, w)| w.outcome.is_none());
        let undecided: Vec<(Timestamp, Range<u64>)> =
            undecided.map(|(ts, w)| (*ts, w.sectors.clone())).collect();
        let earlier = |sector: u64, ts: Timestamp| {
            undecided.iter().any(|(of, sectors)| *of < ts && sectors.contains(&sector))
        };
        self.store.flush_outcomes();
        self.store.checkpoint(true, |sector, ts, content| content && earlier(sector, ts));
    }

    fn settle(&mut self) {
        loop {
            while let Some(event) = self.store.poll() {
                self.hear(event);
            }
            self.store.check();
            self.store.check_sums();
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
            Event::Prepared(ts) => {
                self.writes.get_mut(&ts).into_iter().for_each(|w| w.prepared = true);
            }
            Event::OutcomeSafe(list) => {
                for ts in list {
                    self.writes.get_mut(&ts).into_iter().for_each(|w| w.safe = true);
                }
                self.writes.retain(|_, w| !(w.safe && w.outcome == Some(false)));
            }
            Event::Placed(ts) => {
                for done in self.done.values_mut().flatten().filter(|d| d.ts == ts) {
                    done.is_safe = true;
                }
                self.writes.get_mut(&ts).into_iter().for_each(|w| w.safe = true);
            }
            Event::Opened(found) => {
                assert!(!self.store.forgot(), "it has forgotten nothing");
                self.opened(&found.into_iter().map(|r| (r.ts, r.committed)).collect());
                self.life += 1;
                self.store.begin_life(self.life);
            }
            Event::Damaged(what) if self.is_torn => {
                assert!(what.contains("superblock") || what.contains("owners"), "{what}");
            }
            Event::Dropped(_) => {}
            Event::Read(_) | Event::Scanned(..) => self.said.push(event),
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn opened(&mut self, found: &BTreeMap<Timestamp, bool>) {
        self.writes.retain(|_, w| w.journal);
        for ts in self.writes.keys().copied().collect::<Vec<_>>() {
            let write = self.writes.get_mut(&ts).expect("just seen");
            match (found.get(&ts), write.outcome) {
                (None, None) => {
                    assert!(!write.prepared, "{ts} was prepared, and is forgotten");
                    self.writes.remove(&ts);
                }
                (None, Some(false)) => drop(self.writes.remove(&ts)),
                (None, Some(true)) => panic!("{ts} has committed, not all know, and is forgotten"),
                (Some(true), outcome) => {
                    assert_eq!(outcome, Some(true), "{ts} has committed by itself");
                    (write.prepared, write.safe) = (true, true);
                }
                (Some(false), outcome) => {
                    assert!(
                        !(write.safe && outcome == Some(true)),
                        "{ts}: its outcome is forgotten"
                    );
                    (write.prepared, write.safe) = (true, false);
                    let commit = outcome.unwrap_or_else(|| self.rng.bool());
                    self.outcome(ts, commit);
                }
            }
        }
        self.pinned = None;
    }

    /// One operation ends, if there is any.
    fn step(&mut self) -> Result<bool, Cut> {
        self.settle();
        if self.started.is_empty() {
            return Ok(false);
        }
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).ok_or(Cut)?;
        }
        self.ended += 1;
        let id = self.started.remove(self.rng.usize(0..self.started.len()));
        let result = self.disk.finish(id);
        self.store.done(id, result);
        self.settle();
        Ok(true)
    }

    fn rest(&mut self) -> Result<(), Cut> {
        while self.step()? {}
        Ok(())
    }

    fn crash(&mut self, process_dies: bool) {
        match process_dies {
            true => self.disk.process_dies(&mut self.rng),
            false => self.disk.power_cut(&mut self.rng),
        }
        self.started.clear();
        self.said.clear();
        self.store = opening();
        self.settle();
    }

    /// Compares all sectors with what they may hold. From now on they hold that.
    fn compare(&mut self) {
        self.said.clear();
        // Before any page of the table is looked at.
        self.store.scan(2, 0, WRITTEN, Scan::Marked);
        assert!(self.rest().is_ok());
        self.store.read(1, 0, WRITTEN);
        assert!(self.rest().is_ok());
        let (mut bytes, mut erased, mut marked) = (Vec::new(), Vec::new(), Vec::new());
        for event in std::mem::take(&mut self.said) {
            match event {
                Event::Read(read) => {
                    (bytes, erased) = (read.data.to_bytes().to_vec(), read.erased);
                }
                Event::Scanned(_, found) => marked = found.into_iter().map(|(s, _)| s).collect(),
                _ => {}
            }
        }
        for (sector, bytes) in (0..WRITTEN).zip(bytes.chunks(SECTOR as usize)) {
            let done = self.done.entry(sector).or_default();
            let found = (!erased.contains(&sector)).then_some(bytes[0]);
            let is_mixed = bytes.iter().any(|b| *b != bytes[0]);
            assert!(found.is_none() || !is_mixed, "sector {sector} is mixed");
            let (safe, loose): (Vec<Done>, Vec<Done>) = done.iter().partition(|d| d.is_safe);
            let some = |n: u32| {
                let in_place = (0u32..).zip(&loose).filter(|(bit, _)| n >> bit & 1 == 1);
                safe.iter().chain(in_place.map(|(_, d)| d)).copied().collect::<Vec<Done>>()
            };
            let is_found = |all: &Vec<Done>| {
                result(all) == found && (found.is_some() || marked.contains(&sector))
            };
            let mut all = (0..1 << loose.len()).rev().map(some);
            let Some(mut counts) = all.find(is_found) else {
                // A torn write of what the journal does not have is known as such.
                let is_lost = self.is_torn && found.is_none() && !loose.is_empty();
                assert!(
                    is_lost,
                    "sector {sector} has {found:?}, of {done:?}; marked are {marked:?}"
                );
                continue;
            };
            counts.iter_mut().for_each(|d| d.is_safe = true);
            *done = counts;
        }
    }

    /// Everything is as it must be; then it goes on, and still is.
    fn check(&mut self) {
        assert!(self.rest().is_ok());
        self.compare();
        for _ in 0..3 {
            let undecided = self.writes.iter().filter(|(_, w)| w.outcome.is_none());
            for ts in undecided.map(|(ts, _)| *ts).collect::<Vec<_>>() {
                self.outcome(ts, true);
                self.settle();
            }
            self.store.flush_outcomes();
            assert!(self.rest().is_ok());
            (0..self.writes.len()).for_each(|_| self.release());
            self.checkpoint();
            assert!(self.rest().is_ok());
        }
        assert!(self.store.is_quiet(), "{}", self.store.waiting());
        self.compare();
        self.crash(false);
        assert!(self.rest().is_ok());
        self.compare();
    }
}

fn opening() -> JournalStore {
    let config = StoreConfig { table_pages: 2, ..StoreConfig::default() };
    JournalStore::open(config, 1, 0, SECTORS)
}

/// Says where it was when something fails.
struct Where(String);

impl Drop for Where {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Plays a script up to an operation, and perhaps a part of the opening. Returns how many operations there are in all.
fn cut_off(seed: u64, at: usize, again: Option<usize>) -> usize {
    let _where = Where(format!("script {seed}, cut off at {at}, then {again:?}"));
    let kind = seed.wrapping_add(at as u64) % 3;
    let mut mixed = Mixed::new(seed, kind == 2);
    mixed.left = Some(at);
    let ended = mixed.ended;
    let is_cut = mixed.run().is_err();
    if is_cut {
        mixed.left = again;
        mixed.crash(kind == 0);
        if mixed.rest().is_err() {
            mixed.left = None;
            mixed.crash(kind == 0);
        }
    }
    mixed.left = None;
    let all = mixed.ended - ended;
    mixed.check();
    all
}

fn scripts(seeds: Range<u64>, cuts: usize) {
    for seed in seeds {
        let all = cut_off(seed, usize::MAX, None);
        let mut rng = Rng::with_seed(seed);
        for _ in 0..cuts {
            let again = rng.bool().then(|| rng.usize(0..24));
            cut_off(seed, rng.usize(0..all.max(1)), again);
        }
    }
}

#[test]
fn what_is_safe_stays_beside_what_the_journal_has_not() {
    scripts(0..200, 30);
}
