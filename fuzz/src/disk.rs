//! Small disks of several versions, changed by an input, and a store that opens them.
//!
//! An input changes a few bytes here and there. Damage of that kind would end at the checksums, so they can be mended
//! afterwards: what is behind them is to bear nonsense as well.

use std::sync::LazyLock;

use weft_bytes::checksum;
use weft_bytes::{Read, Reader};
use weft_core::Buffer;
use weft_core::store::{
    Change, ChangeKind, DiskOp, Event, FormatError, JournalStore, SUPERBLOCKS, Store, StoreConfig,
    Superblock,
};
use weft_core::units::{SECTOR, SECTOR_BYTES, Timestamp};

const CLUSTER: u128 = 7;
const NUMBER: u16 = 3;
const CRC: usize = SECTOR_BYTES - 4;

/// More operations than opening, reading and emptying such a disk ever takes.
const MOST_OPS: usize = 20_000;

/// A disk.
#[derive(Clone)]
pub struct Disk {
    superblock: Superblock,
    bytes: Vec<u8>,
}

/// Sectors of a slot of those disks that have slots, of which some are spare.
const SLOT: u64 = 4;
const SPARE: u64 = 2;

/// Disks of several versions, fresh and used; those from version 4 on have slots.
pub static DISKS: LazyLock<Vec<Disk>> = LazyLock::new(|| {
    let both = |version| [Disk::fresh(version), Disk::fresh(version).used()];
    [3, 4, 6].into_iter().flat_map(both).collect()
});

impl Disk {
    fn fresh(version: u32) -> Disk {
        let (slot, spare) = if version >= 4 { (SLOT, SPARE) } else { (0, 0) };
        let divided = Superblock::divide_in(slot, CLUSTER, NUMBER, 9, 1400, 0);
        let divided = divided.expect("it is large enough");
        let superblock = Superblock { version, journal: 48, data: 48, map: 0, spare, ..divided };
        let bytes = vec![0; superblock.sectors() as usize * SECTOR_BYTES];
        let mut disk = Disk { superblock, bytes };
        for op in JournalStore::format(&disk.superblock) {
            disk.work(op);
        }
        disk
    }

    /// With writes that are in place, committed, aborted and undecided.
    fn used(mut self) -> Disk {
        let mut open = Open::new(&mut self).expect("a fresh disk opens");
        for n in 1..=4 {
            open.prepare(n);
            open.store.outcome(Timestamp(n), n != 2);
        }
        open.put_in_place();
        for n in 5..=8 {
            open.prepare(n);
        }
        open.store.outcome(Timestamp(5), true);
        open.store.outcome(Timestamp(6), false);
        open.store.flush_outcomes();
        open.settle();
        self
    }

    /// Does an operation. None may reach beyond the disk: one that is too short is refused.
    fn work(&mut self, op: DiskOp) -> Buffer {
        match op {
            DiskOp::Read { offset, len } => {
                self.bytes[offset as usize..][..len as usize].to_vec().into()
            }
            DiskOp::Write { offset, data, .. } => {
                let bytes = data.iter().map(|b| b.to_bytes().to_vec()).collect::<Vec<_>>().concat();
                self.bytes[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                Buffer::Zero(0)
            }
            DiskOp::Flush | DiskOp::Discard { .. } => Buffer::Zero(0),
        }
    }

    /// Changes bytes as `changes` says: in which part of the disk, which sector of it, where, how many, and what they
    /// become.
    pub fn change(&mut self, changes: &[u8]) {
        let mut r: Reader = Reader::new(changes);
        while self.change_one(&mut r).is_ok() {}
    }

    fn change_one(&mut self, r: &mut Reader) -> Read<()> {
        let sb = &self.superblock;
        let parts = [
            0..sb.journal_start(),
            sb.journal_start()..sb.index_start(),
            sb.index_start()..sb.data_start(),
            sb.data_start()..sb.sectors(),
        ];
        let part = &parts[usize::from(r.u8()?) % parts.len()];
        let sector = part.start + u64::from(r.u8()?) % (part.end - part.start);
        let (at, len) = (usize::from(r.u16()?) % SECTOR_BYTES, usize::from(r.u8()?));
        let with = r.raw(len.min(r.left()).min(SECTOR_BYTES - at))?;
        self.sector(sector)[at..at + with.len()].copy_from_slice(with);
        Ok(())
    }

    /// Whether its superblocks and frames are counted as far as numbers go, or nearly. No disk comes to that; one that an input
    /// has brought there is refused next time.
    fn has_counted_out(&self) -> bool {
        const LAST: u64 = (1 << 62) - 1000;
        let copies = self.bytes.chunks(SECTOR_BYTES).take(SUPERBLOCKS as usize);
        copies.map(Superblock::decode).any(|copy| match copy {
            Ok(sb) => sb.sequence.max(sb.tail_frame).max(sb.durable_before) > LAST,
            // Those that are opened are written, and make sense otherwise.
            Err(why) => matches!(why, FormatError::Superblock(_)),
        })
    }

    /// Gives the frame that begins here, if one does, the checksums that its head should have.
    fn seal_frame(&mut self, first: u64) {
        let frame = &mut self.bytes[(first * SECTOR) as usize..];
        if !frame.starts_with(b"WEFTJRNL") {
            return;
        }
        let len = Reader::<weft_bytes::Little>::new(&frame[ENTRIES_LEN..]).u32();
        let len = len.expect("a sector is longer") as usize;
        if let Some(entries) = frame.get(ENTRIES..).and_then(|rest| rest.get(..len)) {
            let crc = checksum::crc32c(entries).to_le_bytes();
            frame[ENTRIES_CRC..ENTRIES_CRC + 4].copy_from_slice(&crc);
        }
        let crc = checksum::crc32c(&frame[..HEAD_CRC]).to_le_bytes();
        frame[HEAD_CRC..ENTRIES].copy_from_slice(&crc);
    }

    fn sector(&mut self, n: u64) -> &mut [u8] {
        &mut self.bytes[(n * SECTOR) as usize..][..SECTOR_BYTES]
    }

    /// Gives superblocks, pages and the heads of the journal's frames the checksums that they should have.
    pub fn mend(&mut self) {
        let sb = self.superblock.clone();
        for copy in 0..sb.journal_start() {
            seal(self.sector(copy), &[]);
        }
        for frame in sb.journal_start()..sb.index_start() {
            self.seal_frame(frame);
        }
        let disk = sb.incarnation.to_le_bytes();
        for page in sb.index_start()..sb.data_start() {
            let kind: &[u8] = if page < sb.table_start() { &[2] } else { &[1] };
            let begin = [kind, &disk].concat();
            seal(self.sector(page), &begin);
        }
        for page in sb.owners() {
            seal(self.sector(page), &[&[3], &disk[..]].concat());
        }
    }
}

/// Where in the head of a frame the length and the checksum of its entries stand, its own checksum, and the entries.
const ENTRIES_LEN: usize = 32;
const ENTRIES_CRC: usize = 36;
const HEAD_CRC: usize = 44;
const ENTRIES: usize = 48;

/// Ends a sector with the checksum of `begin` and itself, unless it is empty.
fn seal(sector: &mut [u8], begin: &[u8]) {
    if sector.iter().any(|b| *b != 0) {
        let crc = checksum::crc32c_append(checksum::crc32c(begin), &sector[..CRC]);
        sector[CRC..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A disk that is open.
pub struct Open<'a> {
    disk: &'a mut Disk,
    store: JournalStore,
    events: Vec<Event>,
}

impl<'a> Open<'a> {
    /// Opens a disk; `None` if it is refused. What is undecided commits if its timestamp is odd.
    pub fn new(disk: &'a mut Disk) -> Option<Open<'a>> {
        let config = StoreConfig { table_pages: 2, overlay_sectors: 8, ..StoreConfig::default() };
        let sectors = disk.superblock.sectors();
        let store = JournalStore::open(config, CLUSTER, NUMBER, sectors);
        let mut open = Open { disk, store, events: Vec::new() };
        open.settle();
        let mut opened = None;
        for event in open.events.drain(..) {
            match event {
                Event::Opened(found) => opened = Some(found),
                Event::Refused(_) => return None,
                _ => {}
            }
        }
        for write in opened.expect("a disk is opened or refused") {
            if !write.committed {
                open.store.outcome(write.ts, write.ts.0 % 2 == 1);
            }
            open.store.release(write.ts);
        }
        open.settle();
        Some(open)
    }

    fn settle(&mut self) {
        for _ in 0..MOST_OPS {
            while let Some(event) = self.store.poll() {
                assert!(!matches!(event, Event::Failed(_)), "the disk has no faults: {event:?}");
                self.events.push(event);
            }
            let ops = Store::take_ops(&mut self.store);
            if ops.is_empty() {
                // Not its sums: a journal that no store wrote may have changes from before their content.
                self.store.check();
                return;
            }
            for request in ops {
                let read = self.disk.work(request.op);
                Store::done(&mut self.store, request.id, Ok(read));
            }
        }
        panic!("it never comes to rest");
    }

    fn prepare(&mut self, n: u64) {
        let data = |b: u64| Buffer::from(vec![b as u8; SECTOR_BYTES]);
        let kind = if n % 3 == 0 { ChangeKind::Delta } else { ChangeKind::Content };
        let slot = Buffer::from(vec![n as u8; SLOT as usize * SECTOR_BYTES]);
        let changes = vec![
            Change { sector: n % 4, kind, data: data(n) },
            Change { sector: 8 + n % 2 * SLOT, kind: ChangeKind::Content, data: slot },
            Change {
                sector: 20 + n,
                kind: ChangeKind::Content,
                data: Buffer::Zero(2 * SECTOR_BYTES),
            },
        ];
        self.store.prepare(Timestamp(n), vec![1, 2, 3], changes, true);
        self.settle();
    }

    /// Writes some sectors and some whole slots, those that there are; each with what it is to read from then on. No write on
    /// the disk is later.
    pub fn write(&mut self) -> Vec<(u64, Vec<u8>)> {
        let offered = self.store.data_sectors();
        let mut written = Vec::new();
        for (n, sectors) in
            [1..2, 2 * SLOT..3 * SLOT, 5 * SLOT + 1..6 * SLOT + 1].iter().enumerate()
        {
            if sectors.end > offered {
                break;
            }
            let ts = Timestamp(u64::MAX - 8 + n as u64);
            let bytes = vec![100 + n as u8; SECTOR_BYTES];
            let data = Buffer::from(bytes.repeat((sectors.end - sectors.start) as usize));
            let change = Change { sector: sectors.start, kind: ChangeKind::Content, data };
            if !self.commit(ts, change) {
                break;
            }
            written.extend(sectors.clone().map(|sector| (sector, bytes.clone())));
        }
        written
    }

    /// Writes this, unless the journal is smaller than any that is made and has no room for it. Says whether it has.
    fn commit(&mut self, ts: Timestamp, change: Change) -> bool {
        self.store.prepare(ts, Vec::new(), vec![change], true);
        self.settle();
        if self.store.waits_for_room(ts) {
            self.put_in_place();
        }
        let has_room = !self.store.waits_for_room(ts);
        self.store.outcome(ts, has_room);
        if has_room {
            self.store.release(ts);
        }
        self.settle();
        has_room
    }

    /// Puts in place what is committed.
    pub fn put_in_place(&mut self) {
        self.store.checkpoint(true, &|_, _, _| false);
        self.store.flush_outcomes();
        self.settle();
    }

    /// Whether its superblocks and frames are counted as far as numbers go, or nearly.
    pub fn has_counted_out(&self) -> bool {
        self.disk.has_counted_out()
    }

    /// Whether it has forgotten what it promised.
    pub fn forgot(&self) -> bool {
        self.store.forgot()
    }

    /// Every sector's content; nothing where it is lost.
    pub fn read(&mut self) -> Vec<Option<Vec<u8>>> {
        let count = self.store.data_sectors();
        self.store.read(1, 0, count);
        self.settle();
        let read = self.events.drain(..).find_map(|event| match event {
            Event::Read(read) => Some(read),
            _ => None,
        });
        let read = read.expect("a read ends");
        let bytes = read.data.to_bytes();
        assert_eq!(bytes.len() as u64, count * SECTOR);
        let mut sectors: Vec<_> =
            bytes.chunks(SECTOR_BYTES).map(|sector| Some(sector.to_vec())).collect();
        read.erased.iter().for_each(|sector| sectors[*sector as usize] = None);
        sectors
    }
}
