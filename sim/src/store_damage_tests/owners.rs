//! Damage to the owners of slots.

use weft_core::store::DiskOp;

use super::*;

/// Pages of the owners that were never written rot, and are read with the pages beside them. Nothing is lost: slots that
/// nobody claims are holes.
#[test]
fn of_owners_that_were_never_written_nothing_is_lost() {
    // With small slots there are several pages.
    let mut one = One::divided(Superblock::divide_in(1, 1, 0, 1, SECTORS, 0).unwrap());
    one.write_slot(1, 6);
    let (pages, owners) = (one.divided.owner_pages(), one.divided.owners());
    assert!(pages > 1);
    let mut rng = Rng::with_seed(7);
    let unwritten = owners.clone().filter(|sector| (sector - owners.start) % pages > 0);
    unwritten.for_each(|sector| one.disk.rot(sector, &mut rng));
    one.opened_again();
    assert_eq!([1, 2].map(|slot| one.read(slot)), [Some(6), Some(0)]);
    assert_eq!(one.damage_said(), 0);
}

/// Bytes of a claim, and where a page of the owners ends with its checksum.
const CLAIM: usize = 16;
const CRC: usize = 4092;

/// Changes the claim on a physical slot in both copies of the first page of the owners. Their checksums are right.
fn claim(one: &mut One, place: usize, owner: u64) {
    let owners = one.divided.owners();
    for sector in [owners.start, owners.start + one.divided.owner_pages()] {
        one.disk.start(u64::MAX, DiskOp::Read { offset: sector * SECTOR, len: SECTOR });
        let read = one.disk.finish(u64::MAX).expect("it is read");
        let mut page = read.to_bytes().to_vec();
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        page[place * CLAIM..place * CLAIM + 8].copy_from_slice(&owner.to_le_bytes());
        let disk = one.divided.incarnation.to_le_bytes();
        let crc = Buffer::from([&[3][..], &disk, &page[..CRC]].concat()).crc();
        page[CRC..].copy_from_slice(&crc.to_le_bytes());
        let (offset, data) = (sector * SECTOR, vec![page.into()]);
        one.disk.apply_now(DiskOp::Write { offset, data, durable: true });
    }
}

/// One claim of a page names a slot that cannot exist. The others of that page hold. The slot that has lost its claim is
/// lost, and does not pass for a hole.
#[test]
fn a_claim_of_a_slot_that_cannot_exist_is_ignored() {
    for stray in [one_past_own(), u64::MAX] {
        let mut one = One::divided(Superblock::divide_in(1, 1, 0, 1, SECTORS, 0).unwrap());
        one.write_slot(1, 6);
        one.write_slot(2, 7);
        one.write_slot(3, 8);
        // As on the disk: places are taken from the first on.
        claim(&mut one, 1, stray);
        one.opened_again();
        let said = one.said.iter().filter_map(|e| match e {
            Event::Damaged(what) => Some(what.clone()),
            _ => None,
        });
        let said: Vec<String> = said.collect();
        assert!(matches!(&said[..], [one] if one.contains("1 of its claims")), "{said:?}");
        assert_eq!([1, 2, 3].map(|slot| one.read(slot)), [Some(6), None, Some(8)]);
        // The page is rewritten with the next checkpoint. The slot stays lost until it is written.
        one.write_slot(4, 5);
        one.opened_again();
        assert_eq!(one.damage_said(), 0);
        assert_eq!([1, 2, 3].map(|slot| one.read(slot)), [Some(6), None, Some(8)]);
        one.write_slot(2, 9);
        assert_eq!([1, 2, 3].map(|slot| one.read(slot)), [Some(6), Some(9), Some(8)]);
    }
}

/// The first number behind all slots of space 0, as claims have it.
fn one_past_own() -> u64 {
    let one = One::divided(Superblock::divide_in(1, 1, 0, 1, SECTORS, 0).unwrap());
    one.divided.logical_slots() + 1
}
