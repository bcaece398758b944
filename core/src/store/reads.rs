//! Reads.
//!
//! A read takes the table entries and the overlay as they are when it starts, and the rest
//! from the disk; checked against the entries it started with, it is a true picture of that
//! moment or is said to have raced.

use std::collections::BTreeSet;
use std::ops::Range;

use super::place::Base;
use super::slots::Run;
use super::views::Shown;
use super::{DiskResult, Event, JournalStore, Purpose, ReadDone};
use crate::Buffer;
use crate::units::{SECTOR, SECTOR_BYTES, SPACE_SECTORS, Timestamp, VolumeId};

/// The content that a read wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wanted {
    /// The content that parity describes.
    Content,
    /// The same, and the versions.
    Versions,
    /// The content with this volume's copies above it.
    Newest(VolumeId),
}

#[derive(Clone, Hash)]
pub(super) struct ReadJob {
    first: u64,
    count: u64,
    /// The picture, once the table entries are there.
    sources: Option<Vec<Source>>,
    /// Whether the picture had to wait for the table.
    deferred: bool,
    wanted: Wanted,
    /// How many checkpoints had begun to place sectors by then.
    placings: u64,
    /// What is read of the disk: a piece for each run of sectors whose places follow one another.
    pieces: Vec<Piece>,
    /// Reading sector by sector, after a read of all of them failed.
    salvage: Option<Salvage>,
}

impl ReadJob {
    /// Whether it has its picture, and waits for what is in place.
    pub fn waits_for_disk(&self) -> bool {
        self.sources.is_some()
    }

    /// Whether it reads any of these physical sectors.
    pub fn reads(&self, sectors: &Range<u64>) -> bool {
        let overlaps = |at: &Range<u64>| at.start < sectors.end && sectors.start < at.end;
        self.pieces.iter().any(|piece| overlaps(&piece.at))
    }
}

#[derive(Clone, Hash)]
struct Piece {
    /// Which sector of those that are asked for comes first.
    first: u64,
    /// The physical sectors.
    at: Range<u64>,
    /// What was read, or that it could not be.
    read: Option<Result<Buffer, ()>>,
}

#[derive(Clone, Hash)]
struct Salvage {
    base: Vec<u8>,
    /// Sectors that could not be read.
    bad: BTreeSet<u64>,
    waiting: usize,
}

#[derive(Clone, Hash)]
pub(super) struct Source {
    /// The newest write in it.
    version: Timestamp,
    pub base: Base,
    pub deltas: Vec<Buffer>,
}

impl JournalStore {
    /// Reads `count` sectors from `first`; says [`Event::Read`] with `ticket`.
    pub fn read(&mut self, ticket: u64, first: u64, count: u64) {
        self.begin_read(ticket, first, count, Wanted::Content);
    }

    pub(super) fn begin_read(&mut self, ticket: u64, first: u64, count: u64, wanted: Wanted) {
        let has = self.slots.has(first..first + count) || first >= SPACE_SECTORS;
        assert!(count > 0 && has, "read {first}+{count}");
        let job = ReadJob {
            first,
            count,
            sources: None,
            deferred: false,
            wanted,
            placings: 0,
            pieces: Vec::new(),
            salvage: None,
        };
        self.reads.insert(ticket, job);
        self.step_read(ticket);
    }

    pub(super) fn step_reads(&mut self) {
        let waiting = self.reads.iter().filter(|(_, j)| j.sources.is_none()).map(|(t, _)| *t);
        for ticket in waiting.collect::<Vec<_>>() {
            self.step_read(ticket);
        }
    }

    fn step_read(&mut self, ticket: u64) {
        let Some(job) = self.reads.get(&ticket) else { return };
        let (first, count, wanted) = (job.first, job.count, job.wanted);
        let knows = self.look_beneath(first..first + count);
        let shown = self.shown(first..first + count);
        if !self.want(self.pages_shown(&shown)) || !knows {
            self.reads.get_mut(&ticket).expect("just seen").deferred = true;
            return;
        }
        let mut sources = Vec::with_capacity(count as usize);
        for Shown { sectors, runs } in shown {
            sources.extend(sectors.map(|sector| self.source_by(sector, runs.as_deref())));
        }
        if let Wanted::Newest(volume) = wanted
            && !self.copies.is_empty()
        {
            self.lay_copies_over(first, volume, &mut sources);
        }
        if first >= SPACE_SECTORS && sources.iter().all(|source| matches!(source.base, Base::Hole))
        {
            self.look_for_empty(first..first + count);
        }
        let pieces = pieces(&sources);
        let places: Vec<Range<u64>> = pieces.iter().map(|piece| piece.at.clone()).collect();
        let placings = self.placings();
        let job = self.reads.get_mut(&ticket).expect("just seen");
        job.sources = Some(sources);
        job.placings = placings;
        job.pieces = pieces;
        if places.is_empty() {
            self.finish_read(ticket, Ok(Buffer::Zero((count * SECTOR) as usize)), false);
        }
        self.counters.disk_reads += u64::from(!places.is_empty());
        for (piece, at) in places.into_iter().enumerate() {
            self.read_place(Purpose::Read { ticket, piece }, at);
        }
    }

    /// Puts the copies of sectors in the place of what they consist of.
    fn lay_copies_over(&self, first: u64, volume: VolumeId, sources: &mut [Source]) {
        for (source, sector) in sources.iter_mut().zip(first..) {
            if let Some((version, content)) = self.copies.newest(sector, volume) {
                let base = Base::Memory(content.clone());
                *source = Source { version: *version, base, deltas: Vec::new() };
            }
        }
    }

    /// What a sector consists of right now.
    pub(super) fn source(&mut self, sector: u64) -> Source {
        self.source_by(sector, self.runs_beneath(sector).as_deref())
    }

    /// The same by the runs of its slot, if they are known.
    fn source_by(&mut self, sector: u64, runs: Option<&[Run]>) -> Source {
        let (layers, entry, place) = self.seen_by(sector, runs);
        Source {
            version: layers.newest().max(entry.version),
            base: Base::of(&layers, entry, place),
            deltas: layers.deltas.into_iter().map(|d| d.1).collect(),
        }
    }

    pub(super) fn read_arrived(&mut self, ticket: u64, piece: usize, result: DiskResult) {
        let Some(job) = self.reads.get_mut(&ticket) else { return };
        job.pieces[piece].read = Some(result.map_err(drop));
        let read: Option<Vec<_>> = job.pieces.iter().map(|piece| piece.read.clone()).collect();
        let Some(read) = read else { return };
        let count = job.count;
        let raced = job.placings != self.placings() || self.is_placing();
        match read.into_iter().collect::<Result<Vec<Buffer>, ()>>() {
            Err(()) => self.salvage(ticket),
            Ok(read) => {
                let job = self.reads.get_mut(&ticket).expect("just seen");
                let firsts = job.pieces.iter().map(|piece| piece.first);
                let whole = together(count, firsts.zip(read).collect());
                self.finish_read(ticket, Ok(whole), raced);
            }
        }
    }

    /// Whether a read of a slot is under way.
    pub(super) fn is_read(&self, place: u64) -> bool {
        let sectors = self.slots.sectors_of(place);
        self.reads.values().any(|job| job.reads(&sectors))
    }

    /// A read has ended: slots that only reads held are free.
    fn give_back_what_was_read(&mut self) {
        let unread = self.slots.being_read().filter(|place| !self.is_read(*place));
        let unread: Vec<u64> = unread.collect();
        unread.into_iter().for_each(|place| self.slots.read(place));
    }

    /// A read failed: one bad sector must not cost its neighbours, so each that matters is
    /// tried alone.
    fn salvage(&mut self, ticket: u64) {
        let job = self.reads.get_mut(&ticket).expect("a read in work");
        let sources = job.sources.iter().flatten().enumerate();
        let wanted = sources.filter_map(|(n, s)| Some((job.first + n as u64, s.base.on_disk()?)));
        let wanted: Vec<(u64, u64)> = wanted.collect();
        job.salvage = Some(Salvage {
            base: vec![0; (job.count * SECTOR) as usize],
            bad: BTreeSet::new(),
            waiting: wanted.len(),
        });
        for (sector, at) in wanted {
            self.read_place(Purpose::Salvage { ticket, sector }, at..at + 1);
        }
    }

    pub(super) fn salvaged(&mut self, ticket: u64, sector: u64, result: DiskResult) {
        let Some(job) = self.reads.get_mut(&ticket) else { return };
        let first = job.first;
        let Some(salvage) = &mut job.salvage else { return };
        match result {
            Ok(data) => {
                let at = ((sector - first) * SECTOR) as usize;
                data.copy_to(&mut salvage.base[at..at + SECTOR_BYTES]);
            }
            Err(_) => {
                salvage.bad.insert(sector);
            }
        }
        salvage.waiting -= 1;
        if salvage.waiting == 0 {
            let base = std::mem::take(&mut salvage.base);
            let raced = job.placings != self.placings() || self.is_placing();
            self.finish_read(ticket, Ok(base.into()), raced);
        }
    }

    fn finish_read(&mut self, ticket: u64, result: DiskResult, may_have_raced: bool) {
        let job = self.reads.remove(&ticket).expect("a read in work");
        self.give_back_what_was_read();
        let sources = job.sources.expect("a read with its picture");
        let deferred = job.deferred;
        let versions = match job.wanted == Wanted::Versions {
            true => sources.iter().map(|s| s.version).collect(),
            false => Vec::new(),
        };
        let base = result.ok();
        let bad_sectors = job.salvage.map(|s| s.bad).unwrap_or_default();
        let (mut erased, mut damaged, mut unfit) = (Vec::new(), Vec::new(), 0);
        for (n, (source, sector)) in sources.iter().zip(job.first..).enumerate() {
            let readable = || base.as_ref().filter(|_| !bad_sectors.contains(&sector));
            let read = || readable().map(|b| b.slice(n * SECTOR_BYTES, (n + 1) * SECTOR_BYTES));
            if source.base.content(read).is_none() {
                erased.push(sector);
                damaged.extend((!source.base.is_marked()).then_some(sector));
                unfit += u64::from(!source.base.is_marked() && readable().is_some());
            }
        }
        let raced = !damaged.is_empty() && may_have_raced;
        if !raced {
            self.counters.erasures += damaged.len() as u64;
            self.counters.checksum_errors += unfit;
        }
        let base = base.unwrap_or(Buffer::Zero((job.count * SECTOR) as usize));
        let untouched =
            erased.is_empty() && sources.iter().all(|s| s.deltas.is_empty() && s.base.is_on_disk());
        let hollow = sources.iter().all(|s| s.deltas.is_empty() && matches!(s.base, Base::Hole));
        let data = if untouched {
            base
        } else if hollow {
            Buffer::Zero((job.count * SECTOR) as usize)
        } else if let ([Source { base: Base::Memory(content), deltas, .. }], true) =
            (&sources[..], sources[0].deltas.is_empty())
        {
            debug_assert!(deltas.is_empty());
            content.clone()
        } else {
            assemble(&sources, &base)
        };
        self.events.push_back(Event::Read(ReadDone {
            ticket,
            data,
            versions,
            erased,
            damaged,
            raced,
            deferred,
        }));
    }
}

/// What is read of the disk: places that follow one another as their sectors do are read at once, and so is what lies between
/// them that nobody needs.
fn pieces(sources: &[Source]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (first, source) in (0..).zip(sources) {
        let Some(at) = source.base.on_disk() else { continue };
        match pieces.last_mut() {
            Some(piece) if at >= piece.at.end && at - piece.at.start == first - piece.first => {
                piece.at.end = at + 1;
            }
            _ => pieces.push(Piece { first, at: at..at + 1, read: None }),
        }
    }
    pieces
}

/// What was read in pieces, as so many sectors that follow one another. What no piece has is zeros.
fn together(count: u64, mut pieces: Vec<(u64, Buffer)>) -> Buffer {
    let bytes = (count * SECTOR) as usize;
    if pieces.len() == 1 && pieces[0].1.len() == bytes {
        return pieces.remove(0).1;
    }
    if pieces.iter().any(|(_, read)| read.is_length()) {
        return Buffer::Length(bytes);
    }
    let mut whole = Vec::with_capacity(bytes);
    for (first, read) in pieces {
        whole.resize((first * SECTOR) as usize, 0);
        whole.extend_from_slice(&read.to_bytes());
    }
    whole.resize(bytes, 0);
    whole.into()
}

fn assemble(sources: &[Source], base: &Buffer) -> Buffer {
    let in_memory = |s: &Source| match &s.base {
        Base::Memory(content) => content.is_length(),
        Base::Hole | Base::Disk { .. } | Base::Lost | Base::Marked => false,
    };
    let is_length = |s: &Source| in_memory(s) || s.deltas.iter().any(Buffer::is_length);
    if base.is_length() || sources.iter().any(is_length) {
        return Buffer::Length(sources.len() * SECTOR_BYTES);
    }
    let mut out = vec![0; sources.len() * SECTOR_BYTES];
    for (n, (source, sector)) in sources.iter().zip(out.chunks_exact_mut(SECTOR_BYTES)).enumerate()
    {
        match &source.base {
            Base::Memory(content) => content.copy_to(sector),
            Base::Disk { .. } => {
                base.slice(n * SECTOR_BYTES, (n + 1) * SECTOR_BYTES).copy_to(sector);
            }
            Base::Hole | Base::Lost | Base::Marked => {}
        }
        source.deltas.iter().for_each(|d| d.add_to(sector, 1));
    }
    out.into()
}
