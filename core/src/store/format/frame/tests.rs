//! Frames and their checksums.

use super::super::carried::Standing;
use super::*;

const BOUNDS: Bounds = Bounds { offered: 960, data: 1000, slot: 4, has_spaces: true, pages: 9 };

#[test]
fn frames_round_trip_and_any_flipped_bit_is_seen() {
    let payload = vec![5u8; SECTOR_BYTES];
    let change = ChangeHead {
        sector: 9,
        count: 1,
        kind: ChangeKind::Delta,
        crc: Some(checksum::crc32c(&payload)),
    };
    let zeros = ChangeHead { sector: 77, count: 512, kind: ChangeKind::Content, crc: None };
    let entries = vec![
        Entry::Prepare {
            ts: Timestamp(5),
            meta: vec![1, 2],
            changes: vec![change.clone(), zeros.clone()],
            redirects: Vec::new(),
        },
        Entry::Prepare {
            ts: Timestamp(6),
            meta: vec![1, 2],
            changes: Vec::new(),
            redirects: vec![Redirect { slot: 3, place: 9, crcs: vec![1, 2, 3, 4] }],
        },
        Entry::Outcome { ts: Timestamp(4), commit: true },
        Entry::Carried(Carried {
            ts: Timestamp(7),
            meta: vec![3],
            standing: Standing::Undecided,
            changes: vec![zeros.clone()],
            redirects: vec![Redirect { slot: 3, place: 9, crcs: vec![1, 2, 3, 4] }],
            overtaken: vec![78],
        }),
        Entry::Carried(Carried {
            ts: Timestamp(8),
            meta: Vec::new(),
            standing: Standing::Released,
            changes: vec![change.clone()],
            redirects: Vec::new(),
            overtaken: Vec::new(),
        }),
        Entry::Safe(7),
        Entry::Released { ts: Timestamp(3) },
        Entry::Known { ts: Timestamp(2), meta: vec![] },
        Entry::Begin,
        Entry::Checkpoint(7),
        Entry::Overtaken { ts: Timestamp(4), sectors: vec![5, 6] },
        Entry::Life(8),
        Entry::Heard(vec![(NodeId(3), Reached { disk: 1, life: 2, frame: 3, sequence: 4 })]),
        Entry::Apply {
            sectors: vec![Applied { sector: 1, version: Timestamp(2), crc: 3, state: 1 }],
            pointers: Vec::new(),
            sums: PageSums::default(),
        },
        Entry::Apply {
            sectors: Vec::new(),
            pointers: vec![(3, 9), (SPACE_SECTORS, NOWHERE)],
            sums: PageSums::default(),
        },
        Entry::Apply {
            sectors: Vec::new(),
            pointers: Vec::new(),
            sums: PageSums {
                pages: vec![PageSum { page: 8, is_marked: true, crc: 7 }],
                index: vec![(0, 6)],
            },
        },
    ];
    let (mut frame, head) = encode_frame(42, 8, &entries);
    assert_eq!((head.head_sectors, head.payload_sectors), (1, 2));
    frame.extend_from_slice(&payload);
    frame.extend_from_slice(&payload);
    assert_eq!(decode_frame(42, &frame, BOUNDS), Some(Ok((head, entries))));
    assert_eq!(decode_frame(43, &frame, BOUNDS), None, "a frame of another formatting");
    for at in [0, 20, 60, SECTOR_BYTES + 7] {
        frame[at] ^= 4;
        assert_eq!(decode_frame(42, &frame, BOUNDS), None, "byte {at}");
        frame[at] ^= 4;
    }
}

/// An address space is far larger than a disk, and each sector of zeros that a frame names takes memory when it is replayed.
#[test]
fn no_change_is_longer_than_the_disk() {
    let prepare = |count| Entry::Prepare {
        ts: Timestamp(5),
        meta: Vec::new(),
        changes: vec![ChangeHead {
            sector: SPACE_SECTORS,
            count,
            kind: ChangeKind::Content,
            crc: None,
        }],
        redirects: Vec::new(),
    };
    assert_eq!(prepare(1000).check(BOUNDS), Ok(()));
    assert!(prepare(1001).check(BOUNDS).is_err());
}
