//! Disks of each version of the format that Weft has written, kept in `tests/fixtures`: each opens, holds what was written, can be
//! written to, and stays of its version or becomes one of the version that its entry in `VERSIONS` names.

use weft_core::Buffer;
use weft_core::store::{
    Change, ChangeKind, DiskOp, Event, JournalStore, SUPERBLOCKS, Store, StoreConfig, Superblock,
};
use weft_core::units::{SECTOR, SECTOR_BYTES, Timestamp};

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

/// The disk that a fixture is a picture of.
fn load(fixture: &[u8]) -> SimDisk {
    let mut disk = SimDisk::new(SECTORS);
    let sectors = fixture.chunks_exact(8 + SECTOR_BYTES);
    assert!(sectors.remainder().is_empty(), "the fixture is cut short");
    for piece in sectors {
        let (number, bytes) = piece.split_at(8);
        let sector = u64::from_le_bytes(number.try_into().unwrap());
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

    /// The bytes that fill the first sectors.
    fn read(&mut self) -> Vec<u8> {
        self.store.read(1, 0, LOOKED_AT as u64);
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
        let ts = Timestamp(self.store.latest().0 + 1);
        let data = Buffer::from(vec![byte; SECTOR_BYTES]);
        self.store.prepare(ts, Vec::new(), vec![Change { sector, kind, data }], true);
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

fn works_as_before(fixture: &[u8], version: u32, becomes: u32) {
    let mut disk = load(fixture);
    let before = superblock(&mut disk);
    assert_eq!(before.version, version);
    let in_place = raw(&mut disk, before.data_start() + 4);
    assert_eq!(in_place, [0x14; SECTOR_BYTES], "what was written last is not in its place yet");

    let mut opened = Opened::open(disk);
    let mut expected = content(version);
    assert_eq!(opened.read(), expected);

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
    // Where there are slots, it went to the third: the first two held what was there before.
    let place = before.data_start() + 2 * before.slot() + 4;
    assert_eq!(raw(&mut opened.disk, place), [0x4b; SECTOR_BYTES], "it has been put in place");

    let after = &opened.superblock;
    assert_eq!(after.version, becomes);
    assert_eq!(after.incarnation, before.incarnation);
    assert!(after.sequence > before.sequence, "its superblock has been written");
    assert_eq!(opened.store.counters().damaged, 0);
}

#[test]
fn a_disk_of_version_1_works_as_before() {
    works_as_before(include_bytes!("../tests/fixtures/disk-v1.sectors"), 1, 1);
}

#[test]
fn a_disk_of_version_3_works_as_before() {
    works_as_before(include_bytes!("../tests/fixtures/disk-v3.sectors"), 3, 3);
}

#[test]
fn a_disk_of_version_4_works_as_before() {
    works_as_before(include_bytes!("../tests/fixtures/disk-v4.sectors"), 4, 4);
}

#[test]
fn a_disk_of_version_2_works_as_before_and_becomes_one_of_version_3() {
    works_as_before(include_bytes!("../tests/fixtures/disk-v2.sectors"), 2, 3);
}
