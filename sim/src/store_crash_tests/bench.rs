//! A store on a disk, on which a script is played, and what is known of what it must hold.

mod compare;

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::store::ChangeKind::{self, Content, Delta, Mark};
use weft_core::store::{
    Change, DiskOp, Event, JournalStore, Reached, Scan, Store, StoreBug, StoreConfig, Superblock,
};
use weft_core::units::{LAST_THIN, NodeId, SECTOR, SPACE_SECTORS, Timestamp, thin_space};

use super::copies::FOLD;
use super::script::Act::{self, *};
use super::script::{SLOT, SLOTS};
use crate::disk::{Astray, SimDisk};

/// What a write is to change: the first sector, how many, and with what they are filled.
type Changes = (u64, u64, ChangeKind, u8);

/// Another node, whose disk this one hears of.
const OTHER: NodeId = NodeId(5);

/// How far that disk has got.
fn another(frame: u64) -> Reached {
    Reached { disk: 77, life: 1, frame, sequence: 1 }
}

#[derive(Clone)]
struct Written {
    changes: Changes,
    /// What had been heard of another disk when it was prepared.
    told: u64,
    prepared: bool,
    outcome: Option<bool>,
    safe: bool,
}

/// A store on a disk, and what is known of what it must hold.
#[derive(Clone)]
pub(super) struct Bench {
    pub(super) disk: SimDisk,
    pub(super) store: JournalStore,
    config: StoreConfig,
    divided: Superblock,
    pub(super) rng: Rng,
    started: Vec<u64>,
    /// Reads of the disk that are not answered yet.
    slow: BTreeSet<u64>,
    is_slow: bool,
    /// Whether it has not crashed yet.
    is_whole: bool,
    /// So many more operations end before it crashes.
    pub(super) left: Option<usize>,
    /// How many operations have ended since the script began, and how many of them were writes.
    pub(super) ended: usize,
    pub(super) written: usize,
    order: Order,
    /// The number of the first of the volume's sectors.
    pub(super) base: u64,
    /// Sectors that belonged to no volume for a while: they may have been dropped.
    dropped: BTreeSet<u64>,
    clock: u64,
    /// The epoch that its node entered when the disk was opened last.
    life: u64,
    writes: BTreeMap<Timestamp, Written>,
    /// A write of a space that no other uses, undecided all the time: it keeps the journal from forgetting.
    pin: Option<Timestamp>,
    /// What aborted last, and whether the journal says so.
    aborted: Option<(Timestamp, Changes, bool)>,
    /// What fills each sector, and the last write of it; no byte if it is marked.
    content: BTreeMap<u64, (Option<u8>, Timestamp)>,
    /// The last write that replaced what each sector had. Earlier ones that are decided later have no effect.
    replaced: BTreeMap<u64, Timestamp>,
    /// When sectors became zeros that had been something else.
    pub(super) emptied: BTreeMap<u64, Timestamp>,
    /// What fills the copies of sectors, and the write that each is of.
    pub(super) copies: BTreeMap<u64, (u8, Timestamp)>,
    /// The last write of each sector that replaced copies.
    pub(super) folded: BTreeMap<u64, Timestamp>,
    /// Whether sectors may be lost: the disk has lied.
    pub(super) may_lose: bool,
    /// Whether a power cut has torn sectors.
    is_torn: bool,
    /// The disk loses a write after so many more, or puts it elsewhere, though it says that it is safe.
    pub(super) lies_after: Option<usize>,
    /// Whether it has done so.
    pub(super) has_lied: bool,
    /// How far others have heard that it had got.
    heard: Reached,
    /// How far it has heard that another disk had got, and how much of that it must still know.
    told: u64,
    must_know: u64,
    /// They find that it has forgotten what it promised, or it finds that itself: it is made whole from them.
    pub(super) is_missed: bool,
    open: bool,
    /// The first sectors of the spaces of snapshots, each above the one before; and whether the first is being merged.
    pub(super) below: Vec<u64>,
    pub(super) merges: bool,
    /// Whether the volume becomes independent of its snapshots.
    pub(super) flattens: bool,
    pub(super) reads: Vec<(u64, Vec<u8>, Vec<u64>)>,
    scanned: Vec<(u64, Timestamp)>,
}

/// In which order operations of the disk end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    First,
    Last,
    Any,
}

/// What becomes of what is not safe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Crash {
    ProcessDies,
    PowerCut,
    Torn,
}

pub(super) fn divided() -> Superblock {
    let sectors = 2 + Superblock::LEAST_JOURNAL + SLOTS * SLOT + 4;
    let mut divided = Superblock::divide_in(SLOT, 1, 0, 1, sectors, 0).unwrap();
    assert_eq!(divided.slots(), SLOTS);
    divided.journal = 48;
    // So that a disk that is full has none to spare.
    divided.spare = 0;
    divided
}

impl Bench {
    pub(super) fn new(seed: u64, order: Order, bug: Option<StoreBug>) -> Bench {
        Bench::of(0, seed, order, bug)
    }

    /// The same, for a volume whose first sector has this number.
    pub(super) fn of(base: u64, seed: u64, order: Order, bug: Option<StoreBug>) -> Bench {
        Bench::on(divided(), base, seed, order, bug)
    }

    /// One whose journal cannot forget, and has room for all of a script.
    pub(super) fn pinned(base: u64, seed: u64, order: Order) -> Bench {
        let divided = Superblock { journal: Superblock::LEAST_JOURNAL, ..divided() };
        let mut bench = Bench::on(divided, base, seed, order, None);
        let ts = Timestamp::new(1 << 40, NodeId(0));
        let data = Buffer::from(vec![1; SECTOR as usize]);
        let sector = thin_space(LAST_THIN);
        let change = Change { sector, kind: Content, data };
        bench.pin = Some(ts);
        bench.store.prepare(ts, Vec::new(), vec![change], true);
        bench.rest();
        (bench.ended, bench.written) = (0, 0);
        bench
    }

    fn on(divided: Superblock, base: u64, seed: u64, order: Order, bug: Option<StoreBug>) -> Bench {
        let mut disk = SimDisk::new(divided.sectors());
        JournalStore::format(&divided).for_each(|op| disk.apply_now(op));
        let config = StoreConfig {
            table_pages: 2,
            overlay_sectors: 1 << 20,
            discards_free: Some(1),
            bug,
            ..StoreConfig::default()
        };
        let store = JournalStore::open(config, 1, 0, disk.sectors());
        let mut bench = Bench {
            disk,
            store,
            config,
            divided,
            rng: Rng::with_seed(seed),
            started: Vec::new(),
            slow: BTreeSet::new(),
            is_slow: false,
            is_whole: true,
            left: None,
            ended: 0,
            written: 0,
            order,
            base,
            dropped: BTreeSet::new(),
            clock: 10,
            life: 0,
            writes: BTreeMap::new(),
            pin: None,
            aborted: None,
            content: BTreeMap::new(),
            replaced: BTreeMap::new(),
            emptied: BTreeMap::new(),
            copies: BTreeMap::new(),
            folded: BTreeMap::new(),
            may_lose: false,
            is_torn: false,
            lies_after: None,
            has_lied: false,
            heard: Reached::default(),
            told: 0,
            must_know: 0,
            is_missed: false,
            open: false,
            below: Vec::new(),
            merges: false,
            flattens: false,
            reads: Vec::new(),
            scanned: Vec::new(),
        };
        bench.rest();
        (bench.ended, bench.written) = (0, 0);
        bench
    }

    /// Says whether it went on to the end.
    pub(super) fn run(&mut self, acts: &[Act]) -> bool {
        acts.iter().all(|act| self.act(*act)) && self.rest()
    }

    pub(super) fn act(&mut self, act: Act) -> bool {
        match act {
            Write(sector, count, kind, byte) => self.write((sector, count, kind, byte)),
            Commit => return self.decide(true),
            Abort => return self.decide(false),
            Again => self.prepare_again(),
            Release => self.release(),
            Checkpoint => self.checkpoint(),
            Steps(count) => return (0..count).all(|_| self.step().is_some()),
            Rest => {
                self.is_slow = false;
                return self.rest();
            }
            Forget => self.store.forget_empty(Timestamp(u64::MAX), |_| true),
            Keep(sectors) => self.keep(sectors),
            Snapshot => self.snapshot(),
            Merge => {
                self.merges = true;
                self.store.set_views(&self.views());
            }
            Merged if !self.merged() => return false,
            Merged => {}
            Flatten => {
                self.flattens = true;
                self.store.set_views(&self.views());
                self.keep_all();
            }
            Flattened if !self.flattened() => return false,
            Flattened => {}
            Read(sector) => {
                self.store.read(1000, self.base + sector, 1);
                self.is_slow = true;
            }
        }
        self.settle();
        true
    }

    /// The volume has this many sectors now.
    fn keep(&mut self, sectors: u64) {
        let kept = self.base..self.base + sectors;
        self.store.keep_only(std::slice::from_ref(&kept), 0);
        // A slot that belongs to it in part is kept.
        let gone = sectors.next_multiple_of(SLOT)..SLOTS * SLOT;
        gone.for_each(|sector| {
            self.content.remove(&sector);
            self.replaced.remove(&sector);
            self.emptied.remove(&sector);
            self.dropped.insert(sector);
        });
    }

    fn write(&mut self, changes: Changes) {
        self.clock += 1;
        self.prepare(Timestamp::new(self.clock, NodeId(0)), changes);
    }

    fn prepare_again(&mut self) {
        let (ts, changes, _) = self.aborted.expect("a script aborts before");
        self.prepare(ts, changes);
    }

    fn prepare(&mut self, ts: Timestamp, changes: Changes) {
        let (sector, count, kind, byte) = changes;
        let data = match byte {
            0 => Buffer::Zero((count * SECTOR) as usize),
            _ => Buffer::from(vec![byte; (count * SECTOR) as usize]),
        };
        self.told += 1;
        self.store.hear(OTHER, another(self.told));
        let told = self.told;
        let written = Written { changes, told, prepared: false, outcome: None, safe: false };
        self.writes.insert(ts, written);
        // In two pieces, as it may come.
        let middle = (count / 2 * SECTOR) as usize;
        let (first, second) = (data.slice(0, middle), data.slice(middle, data.len()));
        let pieces = [(sector, first), (sector + count / 2, second)];
        let pieces = pieces.into_iter().filter(|(_, data)| !data.is_empty());
        let base = self.base;
        let of_content = if kind == FOLD { Content } else { kind };
        let change = |(sector, data)| Change { sector: base + sector, kind: of_content, data };
        let mut changes: Vec<Change> = pieces.map(change).collect();
        let data = Buffer::Zero((count * SECTOR) as usize);
        changes.extend((kind == FOLD).then_some(Change { sector: base + sector, kind, data }));
        self.store.prepare(ts, Vec::new(), changes, true);
    }

    /// Decides the last write that is undecided. Says whether it came to that.
    fn decide(&mut self, commit: bool) -> bool {
        let Some((&ts, _)) = self.writes.iter().rfind(|(_, w)| w.outcome.is_none()) else {
            return true;
        };
        for tries in 0.. {
            if !commit || self.writes[&ts].prepared {
                break;
            }
            assert!(tries < 10_000, "it waits for ever: {}", self.store.waiting());
            match self.step() {
                None => return false,
                // It waits for room.
                Some(false) => self.checkpoint(),
                Some(true) => {}
            }
        }
        self.outcome(ts, commit);
        self.settle();
        true
    }

    fn release(&mut self) {
        self.store.flush_outcomes();
        let done = |(_, w): &(&Timestamp, &Written)| w.safe && w.outcome == Some(true);
        if let Some((&ts, _)) = self.writes.iter().find(done) {
            self.writes.remove(&ts);
            self.store.release(ts);
        }
    }

    pub(super) fn checkpoint(&mut self) {
        let undecided = self.writes.values().filter(|w| w.outcome.is_none());
        let held: BTreeSet<u64> =
            undecided.flat_map(|w| w.changes.0..w.changes.0 + w.changes.1).collect();
        self.store.flush_outcomes();
        self.store.checkpoint(true, |sector, _, _| held.contains(&(sector % SPACE_SECTORS)));
        self.settle();
    }

    fn settle(&mut self) {
        let mut is_checked = false;
        loop {
            while let Some(event) = self.store.poll() {
                self.hear(event);
                is_checked = false;
            }
            if !is_checked {
                self.store.check();
                self.store.check_sums();
                is_checked = true;
            }
            let ops = Store::take_ops(&mut self.store);
            if ops.is_empty() {
                return;
            }
            for request in ops {
                match &request.op {
                    DiskOp::Read { .. } if self.is_slow && self.slow.is_empty() => {
                        self.slow.insert(request.id);
                    }
                    DiskOp::Write { offset, data, durable: true }
                        if self.is_whole && !self.has_lied =>
                    {
                        let len: usize = data.iter().map(Buffer::len).sum();
                        self.check_content(offset / SECTOR, len as u64 / SECTOR);
                    }
                    _ => {}
                }
                self.disk.start(request.id, request.op);
                self.started.push(request.id);
            }
        }
    }

    /// New content goes where no pointer leads that is on the disk.
    fn check_content(&mut self, first: u64, count: u64) {
        let Some(from) = first.checked_sub(self.divided.data_start()) else { return };
        let (_, newest) = self.newest_owners();
        for place in from / SLOT..(from + count) / SLOT {
            let claim = &newest[place as usize * 16..place as usize * 16 + 8];
            assert_eq!(claim, [0; 8], "content goes to slot {place}, to which a pointer leads");
        }
    }

    /// The newest copy of the page of the owners: its sector, and what is in it.
    pub(super) fn newest_owners(&mut self) -> (u64, Vec<u8>) {
        let copies = self.divided.owners().map(|sector| {
            let offset = sector * SECTOR;
            self.disk.start(u64::MAX, DiskOp::Read { offset, len: SECTOR });
            let page = self.disk.finish(u64::MAX).expect("it can be read").to_bytes();
            (sector, page.to_vec())
        });
        let written = |page: &[u8]| u64::from_le_bytes(page[4084..4092].try_into().unwrap());
        copies.max_by_key(|(_, page)| written(page)).expect("there are two")
    }

    /// One operation ends. Says whether there was any; or nothing, if it is time to crash. Everything has settled before.
    fn step(&mut self) -> Option<bool> {
        let ready = |n: &usize| !self.is_slow || !self.slow.contains(&self.started[*n]);
        let ready: Vec<usize> = (0..self.started.len()).filter(ready).collect();
        let (Some(first), Some(last)) = (ready.first(), ready.last()) else { return Some(false) };
        let n = match self.order {
            Order::First => *first,
            Order::Last => *last,
            Order::Any => ready[self.rng.usize(0..ready.len())],
        };
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        let id = self.started.remove(n);
        self.ended += 1;
        self.written += usize::from(self.disk.is_write(id));
        self.lie_about(id);
        let result = self.disk.finish(id);
        self.store.done(id, result);
        self.settle();
        Some(true)
    }

    /// If it is time for that, a write that ends is lost, or comes to another place.
    fn lie_about(&mut self, id: u64) {
        if !self.disk.is_write(id) {
            return;
        }
        let Some(left) = self.lies_after else { return };
        self.lies_after = left.checked_sub(1);
        if left == 0 {
            let elsewhere = self.rng.u64(0..self.disk.sectors());
            let astray = [Astray::Lost, Astray::To(elsewhere)];
            self.disk.astray = self.rng.choice(astray);
            (self.has_lied, self.may_lose) = (true, true);
        }
    }

    pub(super) fn rest(&mut self) -> bool {
        self.settle();
        loop {
            match self.step() {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
    }

    pub(super) fn crash(&mut self, crash: Crash) {
        if crash == Crash::Torn {
            self.is_torn = true;
            self.disk.tear_in_power_cuts(self.rng.u64(..));
        }
        match crash {
            Crash::ProcessDies => self.disk.process_dies(&mut self.rng),
            Crash::PowerCut | Crash::Torn => self.disk.power_cut(&mut self.rng),
        }
        self.started.clear();
        self.slow.clear();
        (self.is_slow, self.open, self.is_whole) = (false, false, false);
        self.reads.clear();
        self.store = JournalStore::open(self.config, 1, 0, self.disk.sectors());
        self.settle();
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Prepared(ts) if self.pin == Some(ts) => {}
            Event::Prepared(ts) => {
                self.heard = self.store.reached();
                let write = self.writes.get_mut(&ts).expect("it was asked");
                write.prepared = true;
                self.must_know = self.must_know.max(write.told);
            }
            Event::OutcomeSafe(list) => {
                self.heard = self.store.reached();
                for ts in list {
                    // The abort may be that of a prepare before the one of which all is known.
                    let is_abort = self.aborted.as_mut().filter(|(of, _, safe)| *of == ts && !safe);
                    let is_first = is_abort.map(|(_, _, safe)| *safe = true).is_some();
                    let told =
                        self.writes.get_mut(&ts).filter(|w| !is_first || w.outcome == Some(false));
                    told.into_iter().for_each(|w| w.safe = true);
                }
                self.writes.retain(|_, w| !(w.safe && w.outcome == Some(false)));
            }
            Event::Opened(_)
                if self.store.forgot() || self.heard.shows_loss(self.store.found(), 0) =>
            {
                assert!(self.has_lied, "it has forgotten something");
                self.is_missed = true;
            }
            Event::Opened(found) => {
                let known = Store::heard(&self.store).and_then(|heard| heard.get(&OTHER)).copied();
                let known = known.unwrap_or_default().frame;
                let is_known = self.has_lied || known >= self.must_know;
                assert!(is_known, "of another disk it knows {known}, and knew {}", self.must_know);
                self.store.set_views(&self.views());
                self.opened(&found.into_iter().map(|r| (r.ts, r.committed)).collect());
                self.life += 1;
                self.store.begin_life(self.life);
            }
            Event::Read(done) => {
                let is_whole = done.erased.is_empty() || self.has_lied;
                assert!(done.ticket == 7 || is_whole, "a slot was used while read");
                self.reads.push((done.ticket, done.data.to_bytes().to_vec(), done.erased));
            }
            Event::Scanned(_, found) => self.scanned = found,
            Event::Dropped(_) => {}
            Event::Damaged(_) if self.has_lied => {}
            // What came to another place came to both superblocks.
            Event::Refused(_) if self.has_lied => self.is_missed = true,
            Event::Damaged(what)
                if (self.may_lose || self.is_torn)
                    && (what.contains("superblock") || what.contains("owners")) => {}
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn opened(&mut self, found: &BTreeMap<Timestamp, bool>) {
        self.open = true;
        for (ts, mut write) in std::mem::take(&mut self.writes) {
            match (found.get(&ts), write.outcome) {
                (None, None) => assert!(!write.prepared, "{ts} was prepared, and is forgotten"),
                (None, Some(false)) => {}
                (None, Some(true)) => panic!("{ts} has committed, not all know, and is forgotten"),
                (Some(true), outcome) => {
                    assert_eq!(outcome, Some(true), "{ts} has committed by itself");
                    (write.prepared, write.safe) = (true, true);
                    self.writes.insert(ts, write);
                }
                (Some(false), outcome) => {
                    let forgotten = write.safe && outcome == Some(true);
                    assert!(!forgotten, "{ts}: the outcome is forgotten");
                    let commit = outcome.unwrap_or_else(|| self.rng.bool());
                    (write.prepared, write.safe) = (true, false);
                    self.writes.insert(ts, write);
                    self.outcome(ts, commit);
                }
            }
        }
    }

    /// Everything is as it must be; then it goes on, and still is.
    pub(super) fn check(&mut self) {
        assert!(self.rest(), "it comes to rest");
        if self.is_missed {
            return;
        }
        assert!(self.open, "it is opened");
        self.keep_all();
        self.compare();
        // The journal may forget now.
        if let Some(ts) = self.pin.take() {
            self.store.outcome(ts, false);
        }
        self.come_to_an_end();
        self.compare();
        self.fold_all();
        while !self.below.is_empty() {
            assert!(self.act(Merge) && self.merged(), "nothing is cut off now");
            self.compare();
        }
        // All places are used again.
        let acts: Vec<Act> = (2..SLOTS)
            .flat_map(|slot| [Write(slot * SLOT, SLOT, Content, 100 + slot as u8), Commit, Release])
            .collect();
        assert!(self.run(&acts), "nothing is cut off now");
        self.compare();
        self.come_to_an_end();
        self.crash(Crash::PowerCut);
        self.rest();
        if !self.is_missed {
            self.compare();
        }
    }

    pub(super) fn come_to_an_end(&mut self) {
        for _ in 0..3 {
            while self.writes.values().any(|w| w.outcome.is_none()) {
                assert!(self.decide(true), "nothing is cut off now");
            }
            self.store.flush_outcomes();
            self.rest();
            (0..self.writes.len()).for_each(|_| self.release());
            self.checkpoint();
            self.rest();
        }
    }
}
