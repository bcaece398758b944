//! Journals that have their checksums, and say what no store writes.

use super::super::format::{Entry, encode_frame};
use super::super::{DiskOp, Event, Recovered, Store, StoreConfig};
use super::*;
use crate::units::Timestamp;

/// Opens a fresh disk with a frame of these entries in its journal; what is found there.
fn opened(entries: &[Entry]) -> Vec<Recovered> {
    let superblock = Superblock::divide(7, 3, 9, 700, 512).expect("it is large enough");
    let mut disk = vec![0; superblock.sectors() as usize * SECTOR_BYTES];
    let (frame, _) = encode_frame(superblock.incarnation, superblock.tail_frame, entries);
    let offset = superblock.journal_start() * SECTOR;
    let mut ops: Vec<DiskOp> = JournalStore::format(&superblock).collect();
    ops.push(DiskOp::Write { offset, data: vec![frame.into()], durable: true });
    ops.into_iter().for_each(|op| drop(work(&mut disk, op)));

    let sectors = superblock.sectors();
    let mut store = JournalStore::open(StoreConfig::default(), 7, 3, sectors);
    loop {
        let ops = Store::take_ops(&mut store);
        if ops.is_empty() {
            break;
        }
        for request in ops {
            let read = work(&mut disk, request.op);
            Store::done(&mut store, request.id, Ok(read));
        }
    }
    Store::check(&store);
    Store::check_sums(&store);
    let events = std::iter::from_fn(|| store.poll());
    let mut found = events.filter_map(|event| match event {
        Event::Opened(found) => Some(found),
        _ => None,
    });
    found.next().expect("it is opened")
}

pub(super) fn work(disk: &mut [u8], op: DiskOp) -> Buffer {
    match op {
        DiskOp::Read { offset, len } => disk[offset as usize..][..len as usize].to_vec().into(),
        DiskOp::Write { offset, data, .. } => {
            let bytes = Buffer::join(&data);
            disk[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
            Buffer::Zero(0)
        }
        DiskOp::Flush | DiskOp::Discard { .. } => Buffer::Zero(0),
    }
}

/// Found by fuzzing: the disk's latest write was earlier than one that it knew.
#[test]
fn a_known_write_that_is_later_than_the_superblock_says() {
    let found = opened(&[Entry::Known { ts: Timestamp(99), meta: vec![1] }]);
    assert_eq!(
        found.iter().map(|w| (w.ts, w.committed)).collect::<Vec<_>>(),
        [(Timestamp(99), true)]
    );
}
