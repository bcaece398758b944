//! A disk that can be copied cheaply and of which a crash is a choice, not chance.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use weft_core::Buffer;
use weft_core::store::{DiskOp, DiskResult};
use weft_core::units::SECTOR;

use super::print::print;

/// A sector's content and its fingerprint.
#[derive(Clone)]
struct Sector(Bytes, u64);

impl Hash for Sector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.1);
    }
}

/// A disk.
#[derive(Clone, Default, Hash)]
pub(super) struct Disk {
    safe: BTreeMap<u64, Sector>,
    /// Written and not flushed.
    cached: BTreeMap<u64, Sector>,
    /// Operations that have been started and have not ended, by their numbers: of two the later has the higher one.
    started: BTreeMap<u64, Started>,
    /// What each of the flushes among them makes safe: what had been written when it began.
    flushing: BTreeMap<u64, BTreeMap<u64, Sector>>,
}

#[derive(Clone)]
struct Started(DiskOp, u64);

impl Hash for Started {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.1);
    }
}

/// What a crash leaves of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// Everything that was written, and of the writes under way those whose bit is set, the lowest
    /// bit for the one that was started first.
    Written(u8),
    /// Only what was flushed or written durably.
    Flushed,
}

/// So many writes under way are told apart when a node crashes; of more, the later ones are not done.
const MOST_APART: usize = 3;

impl Disk {
    /// Does an operation at once and for good: for formatting.
    pub fn apply_now(&mut self, op: DiskOp) {
        self.start(0, op);
        self.finish(0).expect("formatting a healthy disk");
        self.safe.append(&mut self.cached);
    }

    /// An operation begins.
    pub fn start(&mut self, id: u64, op: DiskOp) {
        let fingerprint = print(&op);
        if matches!(op, DiskOp::Flush) {
            self.flushing.insert(id, self.cached.clone());
        }
        self.started.insert(id, Started(op, fingerprint));
    }

    /// The operations under way.
    pub fn under_way(&self) -> impl Iterator<Item = u64> + '_ {
        self.started.keys().copied()
    }

    /// What an operation under way is, in words.
    pub fn describe(&self, id: u64) -> String {
        match &self.started[&id].0 {
            DiskOp::Read { offset, len } => {
                format!("reads {} sectors at {}", len / SECTOR, offset / SECTOR)
            }
            DiskOp::Write { offset, data, durable } => {
                let sectors = data.iter().map(Buffer::len).sum::<usize>() as u64 / SECTOR;
                let how = if *durable { "durably " } else { "" };
                format!("has written {how}{sectors} sectors at {}", offset / SECTOR)
            }
            DiskOp::Flush => "has flushed".into(),
            DiskOp::Discard { offset, len } => {
                format!("has discarded {} sectors at {}", len / SECTOR, offset / SECTOR)
            }
        }
    }

    /// An operation ends.
    pub fn finish(&mut self, id: u64) -> DiskResult {
        let Started(op, _) = self.started.remove(&id).expect("a started operation");
        match op {
            DiskOp::Read { offset, len } => return Ok(self.read(offset / SECTOR, len / SECTOR)),
            DiskOp::Flush => self.flush(id),
            op => self.write(&op),
        }
        Ok(Buffer::Zero(0))
    }

    fn write(&mut self, op: &DiskOp) {
        let (offset, data, durable) = match op {
            DiskOp::Write { offset, data, durable } => (*offset, data.clone(), *durable),
            // What is read there afterwards is anybody's guess.
            DiskOp::Discard { offset, len } => {
                (*offset, vec![Buffer::from(vec![0xdb; *len as usize])], false)
            }
            DiskOp::Read { .. } | DiskOp::Flush => return,
        };
        let mut at = offset / SECTOR;
        for buffer in data {
            let bytes = buffer.to_bytes();
            for lo in (0..bytes.len()).step_by(SECTOR as usize) {
                let bytes = bytes.slice(lo..lo + SECTOR as usize);
                let sector = Sector(bytes.clone(), print(&bytes));
                if durable {
                    self.cached.remove(&at);
                    self.flushing.values_mut().for_each(|old| drop(old.remove(&at)));
                    self.safe.insert(at, sector);
                } else {
                    self.cached.insert(at, sector);
                }
                at += 1;
            }
        }
    }

    fn flush(&mut self, id: u64) {
        let Some(mut written) = self.flushing.remove(&id) else { return };
        // What a flush that began earlier has to make safe is older.
        for (_, older) in self.flushing.range_mut(..id) {
            older.retain(|at, _| !written.contains_key(at));
        }
        self.cached.retain(|at, now| written.get(at).is_none_or(|then| then.1 != now.1));
        self.safe.append(&mut written);
    }

    /// What stands in so many sectors.
    pub fn read(&self, first: u64, count: u64) -> Buffer {
        let zeros = || Bytes::from(vec![0; SECTOR as usize]);
        let sector = |s| {
            self.cached.get(&s).or_else(|| self.safe.get(&s)).map_or_else(zeros, |s| s.0.clone())
        };
        if count == 1 {
            return sector(first).into();
        }
        (first..first + count).flat_map(sector).collect::<Vec<u8>>().into()
    }

    /// All that a crash may leave of it.
    pub fn crashes(&self) -> Vec<Left> {
        let writes = self.writes().count().min(MOST_APART);
        let mut out: Vec<Left> = (0..1u8 << writes).map(Left::Written).collect();
        if !self.cached.is_empty() {
            out.push(Left::Flushed);
        }
        out
    }

    fn writes(&self) -> impl Iterator<Item = &DiskOp> {
        let writes = |op: &&DiskOp| matches!(op, DiskOp::Write { .. } | DiskOp::Discard { .. });
        self.started.values().map(|s| &s.0).filter(writes)
    }

    /// The process that used it dies, and perhaps the power goes.
    pub fn crash(&mut self, left: Left) {
        match left {
            Left::Flushed => self.cached.clear(),
            Left::Written(done) => {
                let writes: Vec<DiskOp> = self.writes().take(MOST_APART).cloned().collect();
                let done = |n: &usize| done >> n & 1 == 1;
                (0..writes.len()).filter(done).for_each(|n| self.write(&writes[n]));
            }
        }
        self.started.clear();
        self.flushing.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(sector: u64, byte: u8, durable: bool) -> DiskOp {
        let data = vec![vec![byte; SECTOR as usize].into()];
        DiskOp::Write { offset: sector * SECTOR, data, durable }
    }

    fn first(disk: &Disk, sector: u64) -> u8 {
        disk.read(sector, 1).to_bytes()[0]
    }

    #[test]
    fn a_flush_makes_safe_what_was_written_before_it_began() {
        let mut disk = Disk::default();
        let does = |disk: &mut Disk, id, op| {
            disk.start(id, op);
            disk.finish(id).unwrap();
        };
        does(&mut disk, 1, write(1, 1, false));
        disk.start(2, DiskOp::Flush);
        does(&mut disk, 3, write(1, 2, false));
        does(&mut disk, 4, write(2, 2, false));
        let left = |disk: &Disk| {
            let mut disk = disk.clone();
            disk.crash(Left::Flushed);
            [1, 2].map(|sector| first(&disk, sector))
        };
        let mut early = disk.clone();
        early.finish(2).unwrap();
        assert_eq!((left(&early), first(&early, 1)), ([1, 0], 2));
        disk.start(5, DiskOp::Flush);
        disk.finish(5).unwrap();
        disk.finish(2).unwrap();
        assert_eq!(left(&disk), [2, 2], "the earlier flush has nothing newer");
    }

    #[test]
    fn a_crash_keeps_what_was_flushed_and_of_the_rest_what_it_is_told() {
        let mut disk = Disk::default();
        disk.apply_now(write(1, 1, true));
        disk.start(1, write(1, 2, false));
        disk.finish(1).unwrap();
        disk.start(2, write(2, 3, true));
        disk.start(3, write(3, 4, true));
        let all = [0, 1, 2, 3].map(Left::Written);
        assert_eq!(disk.crashes(), [&all[..], &[Left::Flushed]].concat());
        let after = |left| {
            let mut disk = disk.clone();
            disk.crash(left);
            [1, 2, 3].map(|s| first(&disk, s))
        };
        assert_eq!(after(Left::Flushed), [1, 0, 0]);
        assert_eq!(after(Left::Written(0)), [2, 0, 0]);
        assert_eq!(after(Left::Written(1)), [2, 3, 0]);
        assert_eq!(after(Left::Written(2)), [2, 0, 4]);
        assert_eq!(after(Left::Written(3)), [2, 3, 4]);
    }
}
