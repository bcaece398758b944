//! A simulated disk. What has been written but not flushed is kept apart, so that a power
//! cut can keep, drop or tear it sector by sector. A flush makes safe what had been written when it began, and no more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::store::{DiskOp, DiskResult};
use weft_core::units::SECTOR;

/// Shared by the copies of a disk.
type Sector = Arc<[u8]>;

/// What has been asked of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// What becomes of a write that ends well all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Astray {
    /// It does not come to the disk.
    Lost,
    /// It comes to the sectors from this one on instead.
    To(u64),
}

/// A disk some of whose operations end with errors, per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRates {
    /// Of reads.
    pub reads_ppm: u32,
    /// Of writes and flushes.
    pub writes_ppm: u32,
}

/// The rates, and what draws which operations they are.
#[derive(Clone)]
struct Erring {
    rates: ErrorRates,
    rng: Rng,
}

impl Erring {
    /// Whether this operation is one of them.
    fn draw(&mut self, op: &DiskOp) -> bool {
        let ppm = match op {
            DiskOp::Read { .. } => self.rates.reads_ppm,
            DiskOp::Write { .. } | DiskOp::Flush => self.rates.writes_ppm,
            DiskOp::Discard { .. } => 0,
        };
        self.rng.u32(0..1_000_000) < ppm
    }
}

/// A sector that was written and not flushed.
#[derive(Clone)]
struct Unsafe {
    /// The number of sectors written before it.
    number: u64,
    sector: u64,
    bytes: Sector,
}

/// Sectors that were written and are not safe yet.
#[derive(Clone, Default)]
struct Cache {
    /// In the order in which they were written.
    writes: Vec<Unsafe>,
    /// The number of sectors written so far.
    written: u64,
    /// The last of each, which a read sees.
    latest: BTreeMap<u64, Sector>,
}

/// An operation that has begun.
#[derive(Clone)]
struct Started {
    op: DiskOp,
    /// The number of sectors written before it began.
    written: u64,
}

/// A disk.
#[derive(Clone, Default)]
pub struct SimDisk {
    sectors: u64,
    safe: BTreeMap<u64, Sector>,
    cache: Cache,
    /// Sectors that cannot be read until they are written again.
    unreadable: BTreeSet<u64>,
    /// It answers every write and flush with an error.
    refuses: bool,
    /// Some of its operations end with errors that pass.
    errs: Option<Erring>,
    /// How many of them did.
    pub erred: u64,
    /// With a deliberate bug: writes that were in work when a process died. One with the same number is said to have ended
    /// before it has.
    late: Option<BTreeSet<u64>>,
    /// Those that were said to have ended.
    early: BTreeSet<u64>,
    /// What was in each sector before it was written last.
    before: BTreeMap<u64, Sector>,
    /// What becomes of the next write, if it goes astray.
    pub astray: Option<Astray>,
    /// Whether anything has happened to it that it never told.
    pub harmed: Harmed,
    /// Whether a sector has gone bad by itself.
    pub decayed: bool,
    /// A copy of all that was safe at some time, of a formatting.
    copy: Option<(u64, BTreeMap<u64, Sector>)>,
    /// Operations that have been started and have not ended.
    started: BTreeMap<u64, Started>,
    /// Draws which sectors a power cut tears; none if it writes each whole or not at all.
    tears: Option<Rng>,
    /// What has been asked of it so far.
    pub asked: Asked,
}

/// Whether anything has happened to a disk that it never told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Harmed {
    /// Nothing has.
    #[default]
    Never,
    /// Something has since its node started: much of a disk is read only then.
    Since,
    /// Something had, before its node started.
    Before,
}

impl Harmed {
    /// Whether anything ever has.
    pub fn ever(self) -> bool {
        self != Harmed::Never
    }
}

impl SimDisk {
    /// A disk of zeros.
    pub fn new(sectors: u64) -> SimDisk {
        SimDisk { sectors, ..SimDisk::default() }
    }

    /// Its size in sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Does an operation at once and for good: for formatting.
    pub fn apply_now(&mut self, op: DiskOp) {
        self.start(0, op);
        self.finish(0).expect("formatting a healthy disk");
        self.flush(self.cache.written);
    }

    /// An operation begins.
    pub fn start(&mut self, id: u64, op: DiskOp) {
        match &op {
            DiskOp::Read { len, .. } => {
                self.asked.reads += 1;
                self.asked.read_bytes += len;
            }
            DiskOp::Write { data, .. } => {
                self.asked.writes += 1;
                self.asked.written_bytes += data.iter().map(|b| b.len() as u64).sum::<u64>();
            }
            DiskOp::Flush => self.asked.flushes += 1,
            DiskOp::Discard { .. } => {}
        }
        let is_write = matches!(op, DiskOp::Write { .. });
        if is_write && self.late.as_mut().is_some_and(|late| late.remove(&id)) {
            self.early.insert(id);
        }
        self.started.insert(id, Started { op, written: self.cache.written });
    }

    /// What it ends late counts for the next process: a deliberate bug.
    pub fn tell_late(&mut self) {
        self.late.get_or_insert_default();
    }

    /// Whether an operation is said to have ended before it has.
    pub fn is_early(&self, id: u64) -> bool {
        self.early.contains(&id)
    }

    /// Whether an operation that was started is a write.
    pub fn is_write(&self, id: u64) -> bool {
        matches!(self.started.get(&id), Some(Started { op: DiskOp::Write { .. }, .. }))
    }

    /// Whether an operation that has been started is a write.
    pub fn writes(&self, id: u64) -> bool {
        matches!(self.started.get(&id), Some(Started { op: DiskOp::Write { .. }, .. }))
    }

    /// It ends.
    pub fn finish(&mut self, id: u64) -> DiskResult {
        let Started { op, written } = self.started.remove(&id).expect("a started operation");
        if self.refuses {
            return self.refuse(op);
        }
        if self.errs.as_mut().is_some_and(|errs| errs.draw(&op)) {
            self.erred += 1;
            return match op {
                DiskOp::Read { .. } => Err("the device answers a read with an error".to_string()),
                other => self.refuse(other),
            };
        }
        match op {
            DiskOp::Read { offset, len } => self.read(offset / SECTOR, len / SECTOR),
            DiskOp::Write { offset, data, durable } => {
                let mut written = pieces(offset, &data);
                match self.astray.take() {
                    None => {}
                    Some(Astray::Lost) => written.clear(),
                    Some(Astray::To(first)) => {
                        let from = offset / SECTOR;
                        written.iter_mut().for_each(|w| w.0 = w.0 - from + first);
                        written.retain(|w| w.0 < self.sectors);
                    }
                }
                for (sector, bytes) in written {
                    self.put(sector, bytes, durable);
                }
                Ok(Buffer::Zero(0))
            }
            DiskOp::Flush => {
                self.flush(written);
                Ok(Buffer::Zero(0))
            }
            DiskOp::Discard { offset, len } => {
                // What is read there afterwards is anybody's guess.
                let first = offset / SECTOR;
                for sector in first..first + len / SECTOR {
                    self.put(sector, vec![0xdb; SECTOR as usize].into(), false);
                }
                Ok(Buffer::Zero(0))
            }
        }
    }

    /// What it makes of an operation if it refuses writes: of those it does the first half.
    fn refuse(&mut self, op: DiskOp) -> DiskResult {
        match op {
            DiskOp::Read { offset, len } => self.read(offset / SECTOR, len / SECTOR),
            DiskOp::Discard { .. } => Ok(Buffer::Zero(0)),
            DiskOp::Flush => Err("the device answers a flush with an error".to_string()),
            DiskOp::Write { offset, data, .. } => {
                let sectors = pieces(offset, &data);
                let done = sectors.len().div_ceil(2);
                sectors.into_iter().take(done).for_each(|(s, bytes)| self.put(s, bytes, false));
                Err("the device answers a write with an error".to_string())
            }
        }
    }

    fn put(&mut self, sector: u64, bytes: Sector, durable: bool) {
        assert!(
            sector < self.sectors,
            "sector {sector} is past the end of the disk, {}",
            self.sectors
        );
        self.unreadable.remove(&sector);
        let was = self.cache.latest.get(&sector).or_else(|| self.safe.get(&sector));
        self.before.insert(sector, was.cloned().unwrap_or_else(|| vec![0; SECTOR as usize].into()));
        if durable {
            self.becomes(sector, bytes);
        } else {
            self.cache.latest.insert(sector, bytes.clone());
            self.cache.writes.push(Unsafe { number: self.cache.written, sector, bytes });
        }
        self.cache.written += 1;
    }

    /// Makes safe the first sectors that were written, up to this number.
    fn flush(&mut self, written: u64) {
        let old = self.cache.writes.partition_point(|w| w.number < written);
        for Unsafe { sector, bytes, .. } in self.cache.writes.drain(..old) {
            self.safe.insert(sector, bytes);
        }
        let left: BTreeSet<u64> = self.cache.writes.iter().map(|w| w.sector).collect();
        self.cache.latest.retain(|sector, _| left.contains(sector));
    }

    fn read(&self, first: u64, count: u64) -> DiskResult {
        let mut out = vec![0; (count * SECTOR) as usize];
        for (n, bytes) in out.chunks_exact_mut(SECTOR as usize).enumerate() {
            let sector = first + n as u64;
            if self.unreadable.contains(&sector) {
                return Err(format!("sector {sector} cannot be read"));
            }
            if let Some(found) = self.cache.latest.get(&sector).or_else(|| self.safe.get(&sector)) {
                bytes.copy_from_slice(found);
            }
        }
        Ok(out.into())
    }

    /// It answers every write and flush with an error from now on, or does not any more.
    pub fn refuse_writes(&mut self, refuses: bool) {
        self.refuses = refuses;
    }

    /// From now on operations end with errors at these rates, drawn with this seed; or none does any more.
    pub fn err(&mut self, rates: Option<ErrorRates>, seed: u64) {
        self.errs = rates.map(|rates| Erring { rates, rng: Rng::with_seed(seed) });
    }

    /// The process that used it dies: what had been started may have been done, in part.
    pub fn process_dies(&mut self, rng: &mut Rng) {
        self.astray = None;
        self.early.clear();
        if let Some(late) = &mut self.late {
            late.extend(self.started.keys());
        }
        for Started { op, .. } in std::mem::take(&mut self.started).into_values() {
            let DiskOp::Write { offset, data, .. } = op else { continue };
            for (sector, bytes) in pieces(offset, &data) {
                if rng.bool() {
                    self.put(sector, bytes, false);
                }
            }
        }
    }

    /// From now on its sectors are of 512 bytes: a power cut writes any pieces of that size of what was not flushed.
    pub fn tear_in_power_cuts(&mut self, seed: u64) {
        self.tears = Some(Rng::with_seed(seed));
    }

    /// The power goes: of what was not flushed, some was written and some was not.
    pub fn power_cut(&mut self, rng: &mut Rng) {
        self.process_dies(rng);
        for Unsafe { sector, bytes, .. } in std::mem::take(&mut self.cache.writes) {
            // Drawn first, so that a run in which sectors are torn is otherwise the same.
            let is_written = rng.bool();
            if let Some(tears) = &mut self.tears
                && tears.bool()
            {
                let zeros = || vec![0; SECTOR as usize].into();
                let torn = self.safe.entry(sector).or_insert_with(zeros);
                mix(Arc::make_mut(torn), &bytes, tears);
            } else if is_written {
                self.safe.insert(sector, bytes);
            }
        }
        self.cache.latest.clear();
    }

    /// Of the writes under way to these sectors any pieces of 512 bytes have been done.
    pub fn tear_started(&mut self, sectors: Range<u64>, rng: &mut Rng) {
        for (id, Started { op, written }) in std::mem::take(&mut self.started) {
            let op = match op {
                DiskOp::Write { offset, data, durable } if sectors.contains(&(offset / SECTOR)) => {
                    let len = data.iter().map(|b| b.len() as u64).sum::<u64>();
                    let old = self.read(offset / SECTOR, len / SECTOR);
                    let mut mixed =
                        old.map_or_else(|_| vec![0; len as usize], |b| b.to_bytes().to_vec());
                    let new = Buffer::join(&data);
                    mix(&mut mixed, &new, rng);
                    DiskOp::Write { offset, data: vec![mixed.into()], durable }
                }
                other => other,
            };
            self.started.insert(id, Started { op, written });
        }
    }

    /// One bit of a sector flips, also before it is flushed. Does nothing to a sector never written.
    pub fn rot(&mut self, sector: u64, rng: &mut Rng) {
        let bit = rng.usize(0..SECTOR as usize * 8);
        let written = self.cache.writes.iter_mut().rev().find(|w| w.sector == sector);
        let copies = [self.cache.latest.get_mut(&sector), self.safe.get_mut(&sector)];
        for copy in copies.into_iter().flatten().chain(written.map(|w| &mut w.bytes)) {
            Arc::make_mut(copy)[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// A sector holds this and nothing else from now on, and nobody was told.
    fn becomes(&mut self, sector: u64, bytes: Sector) {
        self.cache.writes.retain(|w| w.sector != sector);
        self.cache.latest.remove(&sector);
        self.safe.insert(sector, bytes);
    }

    /// A sector becomes zeros.
    pub fn zero(&mut self, sector: u64) {
        self.becomes(sector, vec![0; SECTOR as usize].into());
    }

    /// A sector is as it was before it was written last.
    pub fn roll_back(&mut self, sector: u64) {
        if let Some(before) = self.before.get(&sector).cloned() {
            self.becomes(sector, before);
        }
    }

    /// Of what was written last to a sector only the first bytes are there, so many.
    pub fn tear(&mut self, sector: u64, bytes: usize) {
        let now = self.cache.latest.get(&sector).or_else(|| self.safe.get(&sector)).cloned();
        if let (Some(now), Some(mut torn)) = (now, self.before.get(&sector).cloned()) {
            Arc::make_mut(&mut torn)[..bytes].copy_from_slice(&now[..bytes]);
            self.becomes(sector, torn);
        }
    }

    /// Keeps a copy of what is safe; the disk has this incarnation.
    pub fn copy(&mut self, incarnation: u64) {
        self.copy = Some((incarnation, self.safe.clone()));
    }

    /// The copy comes in the disk's place, if it is of this incarnation.
    pub fn put_copy_back(&mut self, incarnation: u64) {
        self.exchange_copy(incarnation);
        self.copy.take_if(|c| c.0 == incarnation);
    }

    /// The copy comes in the disk's place, if it is of this incarnation, and the disk is kept as the copy.
    pub fn exchange_copy(&mut self, incarnation: u64) {
        if let Some((_, safe)) = self.copy.as_mut().filter(|c| c.0 == incarnation) {
            std::mem::swap(safe, &mut self.safe);
            self.cache.writes.clear();
            self.cache.latest.clear();
        }
    }

    /// A sector cannot be read until it is written again.
    pub fn spoil(&mut self, sector: u64) {
        self.unreadable.insert(sector);
    }
}

/// Writes any pieces of 512 bytes.
fn mix(old: &mut [u8], new: &[u8], rng: &mut Rng) {
    for (old, new) in old.chunks_mut(512).zip(new.chunks(512)) {
        if rng.bool() {
            old.copy_from_slice(new);
        }
    }
}

fn pieces(offset: u64, data: &[Buffer]) -> Vec<(u64, Sector)> {
    let mut at = offset / SECTOR;
    let mut out = Vec::new();
    for buffer in data {
        let bytes = buffer.to_bytes();
        for sector in bytes.chunks_exact(SECTOR as usize) {
            out.push((at, sector.into()));
            at += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(sector: u64, byte: u8, durable: bool) -> DiskOp {
        let data = vec![vec![byte; SECTOR as usize].into()];
        DiskOp::Write { offset: sector * SECTOR, data, durable }
    }

    fn does(disk: &mut SimDisk, op: DiskOp) {
        disk.start(1, op);
        disk.finish(1).unwrap();
    }

    /// The first byte of a sector, and whether all others are the same.
    fn holds(disk: &SimDisk, sector: u64) -> (u8, bool) {
        let bytes = disk.read(sector, 1).unwrap().to_bytes();
        (bytes[0], bytes.iter().all(|b| *b == bytes[0]))
    }

    #[test]
    fn a_flush_makes_safe_what_was_written_before_it_began() {
        let mut disk = SimDisk::new(4);
        does(&mut disk, write(1, 1, false));
        does(&mut disk, write(2, 1, false));
        disk.start(7, write(3, 1, false));
        disk.start(2, DiskOp::Flush);
        disk.finish(7).unwrap();
        does(&mut disk, write(2, 2, false));
        disk.finish(2).unwrap();
        assert_eq!([1, 2, 3].map(|sector| holds(&disk, sector).0), [1, 2, 1]);
        let left: Vec<u64> = disk.cache.writes.iter().map(|w| w.sector).collect();
        assert_eq!(left, [3, 2], "written while it was flushed");
        let safe = [1, 2, 3].map(|sector| disk.safe.get(&sector).map(|bytes| bytes[0]));
        assert_eq!(safe, [Some(1), Some(1), None]);
        does(&mut disk, DiskOp::Flush);
        assert!(disk.cache.writes.is_empty() && disk.cache.latest.is_empty());
    }

    #[test]
    fn what_has_rotted_before_it_was_flushed_stays_so() {
        let mut disk = SimDisk::new(4);
        does(&mut disk, write(1, 7, false));
        disk.rot(1, &mut Rng::with_seed(1));
        assert!(!holds(&disk, 1).1);
        does(&mut disk, DiskOp::Flush);
        assert!(!holds(&disk, 1).1);
    }
}
