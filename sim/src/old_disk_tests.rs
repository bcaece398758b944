//! Disks of each version of the format that Weft opens, kept in `tests/fixtures`: each opens, holds what was written, can be
//! written to, and becomes one of the newest version. So does each that was
//! cut off in a checkpoint, after any of the sectors that it writes.

use weft_core::Buffer;
use weft_core::store::{
    Change, ChangeKind, DiskOp, Event, FORMAT_VERSION, JournalStore, SUPERBLOCKS, Store,
    StoreConfig, Superblock,
};
use weft_core::units::{SECTOR, SECTOR_BYTES, Timestamp, VolumeId, thin_space};

use crate::disk::SimDisk;

/// Sectors of each disk.
const SECTORS: u64 = 16_384;

/// A disk, and the store that has it open.
struct Opened {
    disk: SimDisk,
    superblock: Superblock,
    store: JournalStore,
}

/// Sectors that are looked at, from the first on.
const LOOKED_AT: usize = 21;

/// The bytes that fill the first sectors of a disk of this version; how the disks were made is in the fixtures' README.
fn content(version: u32) -> [u8; LOOKED_AT] {
    let mut bytes = [0; LOOKED_AT];
    if version < 4 {
        (0..8).for_each(|n| bytes[n] = 0x10 + n as u8);
        (4..6).for_each(|n| bytes[n] = 0x40 + n as u8);
        (12..15).for_each(|n| bytes[n] = 0x60 + n as u8);
    } else {
        (0..16).for_each(|n| bytes[n] = 0x40 + n as u8);
        (17..19).for_each(|n| bytes[n] = 0x60 + n as u8);
        bytes[20] = 0x20;
    }
    bytes
}

/// The sectors of a fixture, each with its number.
fn sectors(fixture: &[u8]) -> Vec<(u64, &[u8])> {
    let sectors = fixture.chunks_exact(8 + SECTOR_BYTES);
    assert!(sectors.remainder().is_empty(), "the fixture is cut short");
    sectors
        .map(|piece| {
            let (number, bytes) = piece.split_at(8);
            (u64::from_le_bytes(number.try_into().unwrap()), bytes)
        })
        .collect()
}

/// The disk on which these sectors have been written, one after the other.
fn load(sectors: &[(u64, &[u8])]) -> SimDisk {
    let mut disk = SimDisk::new(SECTORS);
    for (sector, bytes) in sectors {
        let data = vec![Buffer::from(bytes.to_vec())];
        disk.apply_now(DiskOp::Write { offset: sector * SECTOR, data, durable: true });
    }
    disk
}

/// What stands in a sector of the disk.
fn raw(disk: &mut SimDisk, sector: u64) -> Vec<u8> {
    disk.start(0, DiskOp::Read { offset: sector * SECTOR, len: SECTOR });
    disk.finish(0).unwrap().to_bytes().to_vec()
}

/// The superblock's copy that holds.
fn superblock(disk: &mut SimDisk) -> Superblock {
    let copies = (0..SUPERBLOCKS).filter_map(|n| Superblock::decode_copy(&raw(disk, n), n).ok());
    copies.collect::<Vec<_>>().into_iter().max_by_key(|sb| sb.sequence).expect("a superblock")
}

impl Opened {
    /// Opens a disk. What was prepared and is not known to have committed has: the hosts had their answers.
    fn open(mut disk: SimDisk) -> Opened {
        let superblock = superblock(&mut disk);
        let (cluster, number) = (superblock.cluster, superblock.disk);
        let store = JournalStore::open(StoreConfig::default(), cluster, number, SECTORS);
        let mut opened = Opened { disk, superblock, store };
        let found = opened.await_event(|event| match event {
            Event::Opened(found) => Some(found),
            _ => None,
        });
        for write in found {
            if !write.committed {
                opened.store.outcome(write.ts, true);
            }
            opened.store.release(write.ts);
        }
        opened.settle();
        opened
    }

    /// The power goes, and everything not flushed with it; it is opened again.
    fn crash(mut self) -> Opened {
        self.disk.power_cut(&mut fastrand::Rng::with_seed(1));
        Opened::open(self.disk)
    }

    /// The disk works until the store says what is awaited.
    fn await_event<T>(&mut self, awaited: impl Fn(Event) -> Option<T>) -> T {
        loop {
            while let Some(event) = self.store.poll() {
                if let Event::Refused(_) | Event::Failed(_) = event {
                    panic!("{event:?}");
                }
                if let Some(found) = awaited(event) {
                    return found;
                }
            }
            assert!(self.work(), "it is never said");
        }
    }

    /// Does what the store asks of the disk; says whether there was anything.
    fn work(&mut self) -> bool {
        let ops = Store::take_ops(&mut self.store);
        let any = !ops.is_empty();
        for request in ops {
            self.disk.start(request.id, request.op);
            let result = self.disk.finish(request.id);
            self.store.done(request.id, result);
        }
        any
    }

    fn settle(&mut self) {
        while self.work() {}
    }

    /// Whether a sector is marked as out of date, or lost.
    fn is_erased(&mut self, sector: u64) -> bool {
        self.store.read(1, sector, 1);
        let done = self.await_event(|event| match event {
            Event::Read(done) => Some(done),
            _ => None,
        });
        !done.erased.is_empty()
    }

    /// The bytes that fill the first sectors.
    fn read(&mut self) -> Vec<u8> {
        self.read_from(0, LOOKED_AT)
    }

    fn read_from(&mut self, first: u64, count: usize) -> Vec<u8> {
        self.store.read(1, first, count as u64);
        let done = self.await_event(|event| match event {
            Event::Read(done) => Some(done),
            _ => None,
        });
        assert!(done.erased.is_empty(), "lost: {:?}", done.erased);
        let bytes = done.data.to_bytes();
        let sectors = bytes.chunks(SECTOR_BYTES);
        sectors
            .map(|sector| {
                assert!(sector.iter().all(|b| *b == sector[0]), "a sector is mixed");
                sector[0]
            })
            .collect()
    }

    /// Fills a sector with a byte, or adds it.
    fn write(&mut self, sector: u64, kind: ChangeKind, byte: u8) {
        let data = Buffer::from(vec![byte; SECTOR_BYTES]);
        self.change(vec![Change { sector, kind, data }]);
    }

    /// Changes sectors in one write.
    fn change(&mut self, changes: Vec<Change>) {
        let ts = Timestamp(self.store.latest().0 + 1);
        self.store.prepare(ts, Vec::new(), changes, true);
        self.await_event(|event| matches!(event, Event::Prepared(t) if t == ts).then_some(()));
        self.store.outcome(ts, true);
        self.store.flush_outcomes();
        self.await_event(|event| match event {
            Event::OutcomeSafe(list) => list.contains(&ts).then_some(()),
            _ => None,
        });
        self.store.release(ts);
        self.settle();
    }
}

/// From version 6 on disks have the first sector of this thin volume, filled with this byte.
const THIN: (VolumeId, u8) = (VolumeId(1), 0x31);

fn works_as_before(fixture: &[u8], version: u32) {
    let mut disk = load(&sectors(fixture));
    let before = superblock(&mut disk);
    assert_eq!(before.version, version);
    let in_place = raw(&mut disk, before.data_start() + 4);
    assert_eq!(in_place, [0x14; SECTOR_BYTES], "what was written last is not in its place yet");

    let mut opened = Opened::open(disk);
    let mut expected = content(version);
    assert_eq!(opened.read(), expected);
    if version >= 6 {
        assert_eq!(opened.read_from(thin_space(THIN.0), 2), [THIN.1, 0]);
    }

    opened.write(4, ChangeKind::Delta, 0x0f);
    opened.write(17, ChangeKind::Content, 0x77);
    expected[4] ^= 0x0f;
    expected[17] = 0x77;
    assert_eq!(opened.read(), expected);
    let mut opened = opened.crash();
    assert_eq!(opened.read(), expected, "after a crash");

    opened.store.checkpoint(true, |_, _, _| false);
    opened.settle();
    opened.write(0, ChangeKind::Content, 0x99);
    expected[0] = 0x99;
    let mut opened = opened.crash();
    assert_eq!(opened.read(), expected, "after a checkpoint and a crash");
    // Where there are slots, it went to the first that held nothing before.
    let held = if version < 6 { 2 } else { 3 };
    let place = before.data_start() + held * before.slot() + 4;
    assert_eq!(raw(&mut opened.disk, place), [0x4b; SECTOR_BYTES], "it has been put in place");

    let after = &opened.superblock;
    assert_eq!(after.version, FORMAT_VERSION);
    assert_eq!(after.incarnation, before.incarnation);
    assert!(after.sequence > before.sequence, "its superblock has been written");
    assert_eq!(opened.store.counters().damaged, 0);
}

/// What `content` says, with what had been written when the checkpoint began that a fixture was cut off in.
fn content_in_checkpoint(version: u32) -> [u8; LOOKED_AT] {
    let mut bytes = content(version);
    match version {
        4.. => (0..16).for_each(|n| bytes[n] = 0x80 + n as u8),
        _ => bytes[2] = 0xa2,
    }
    bytes[4] ^= 0x0f;
    bytes[12] = 0;
    bytes[17] = 0x77;
    bytes
}

/// The sector that was marked before that checkpoint.
const MARKED: u64 = 30;

/// Of which sector a fixture says that those which follow were written by a checkpoint, one after the other.
const CHECKPOINT: u64 = u64::MAX;

/// A disk that was cut off anywhere in a checkpoint.
fn opens_wherever_it_is_cut_off(fixture: &[u8], version: u32) {
    let all = sectors(fixture);
    let at = all.iter().position(|s| s.0 == CHECKPOINT).expect("a checkpoint");
    let (before, written) = (&all[..at], &all[at + 1..]);
    assert!(written.len() >= 8, "a checkpoint writes more than {} sectors", written.len());
    for cut in 0..=written.len() {
        let disk = load(&[before, &written[..cut]].concat());
        let mut opened = Opened::open(disk);
        assert_eq!(opened.superblock.version, version);
        let mut expected = content_in_checkpoint(version);
        assert_eq!(opened.read(), expected, "cut off after {cut} sectors");
        if version >= 6 {
            let thin = opened.read_from(thin_space(THIN.0), 1);
            assert_eq!(thin, [0], "its slot is dropped, cut off after {cut} sectors");
        }
        assert!(opened.is_erased(MARKED), "cut off after {cut} sectors");
        opened.write(5, ChangeKind::Content, 0x55);
        expected[5] = 0x55;
        let mut opened = opened.crash();
        opened.store.checkpoint(true, |_, _, _| false);
        opened.settle();
        assert_eq!(opened.read(), expected, "cut off after {cut} sectors, and written to");
        let mut opened = opened.crash();
        assert_eq!(opened.read(), expected, "cut off after {cut} sectors, and opened again");
        assert_eq!(opened.store.counters().damaged, 0);
    }
}

#[test]
fn disks_of_each_version_work_as_before_and_become_newer_ones() {
    works_as_before(include_bytes!("../tests/fixtures/disk-v3.sectors"), 3);
    works_as_before(include_bytes!("../tests/fixtures/disk-v4.sectors"), 4);
    works_as_before(include_bytes!("../tests/fixtures/disk-v5.sectors"), 5);
    works_as_before(include_bytes!("../tests/fixtures/disk-v6.sectors"), 6);
    works_as_before(include_bytes!("../tests/fixtures/disk-v7.sectors"), 7);
}

#[test]
fn disks_of_each_version_open_wherever_a_checkpoint_was_cut_off() {
    opens_wherever_it_is_cut_off(include_bytes!("../tests/fixtures/disk-v3-checkpoint.sectors"), 3);
    opens_wherever_it_is_cut_off(include_bytes!("../tests/fixtures/disk-v4-checkpoint.sectors"), 4);
    opens_wherever_it_is_cut_off(include_bytes!("../tests/fixtures/disk-v5-checkpoint.sectors"), 5);
    opens_wherever_it_is_cut_off(include_bytes!("../tests/fixtures/disk-v6-checkpoint.sectors"), 6);
    opens_wherever_it_is_cut_off(include_bytes!("../tests/fixtures/disk-v7-checkpoint.sectors"), 7);
}
