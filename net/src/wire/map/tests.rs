//! What layouts and policies are in a map, byte for byte.

use bytes::Bytes;
use weft_core::policy::{CHOICES, Setting};

use super::*;

/// What a layout is in a map, which must never change either.
#[test]
fn grids_have_their_bytes_and_others_are_refused() {
    let taken =
        |bytes: [u8; 13]| Layout::take(&mut Reader::new(WITH_SETTINGS, &bytes, Bytes::new()));
    let bytes = |data: u32, parity: u32, rows: u32| {
        let mut out = [0; 13];
        out[..4].copy_from_slice(&data.to_le_bytes());
        out[4..8].copy_from_slice(&parity.to_le_bytes());
        out[8] = 7;
        out[9..].copy_from_slice(&rows.to_le_bytes());
        out
    };
    let grid = Layout::Grid(Grid { rows: 2, across: 3 });
    let mut w = Writer::new(Vec::new());
    grid.put(&mut w);
    assert_eq!(w.finish().0, bytes(6, 6, 2));
    let mut w = Writer::new(Vec::new());
    Layout::DrNet.put(&mut w);
    let drnet = [20, 0, 0, 0, 10, 0, 0, 0, 8];
    assert_eq!(w.finish().0, drnet);
    let whole = |bytes: &[u8]| Layout::take(&mut Reader::new(WITH_SETTINGS, bytes, Bytes::new()));
    assert_eq!(whole(&drnet), Ok(Layout::DrNet));
    assert!(whole(&[19, 0, 0, 0, 10, 0, 0, 0, 8]).is_err());
    assert_eq!(taken(bytes(6, 6, 2)).unwrap(), grid);
    for (data, parity, rows) in [
        (6, 5, 2),
        (6, 6, 4),
        (6, 6, 0),
        (5, 7, 1),
        (0, 1, 0),
        (0, 0, u32::MAX),
        (6, 6, u32::MAX),
        (24, 11, 4),
    ] {
        assert!(taken(bytes(data, parity, rows)).is_err(), "{data} {parity} {rows}");
    }
}

/// What a policy is in a map, which must never change: the default, and each value in it.
#[test]
fn policies_have_the_bytes_that_they_always_had() {
    let bytes = |policy: &Policy| {
        let mut w = Writer::new(Vec::new());
        policy.put(&mut w);
        w.finish().0
    };
    let usual = bytes(&Policy::default());
    assert_eq!(usual[..7], [0, 0, 1, 1, 6, 1, 1]);
    assert_eq!(usual[7..], 20_000_000_000_u64.to_le_bytes());
    let head = |setting: Setting| {
        let mut all = bytes(&Policy::default().with([setting]));
        all.truncate(all.len() - 8);
        all
    };
    let others: [(&str, &[&[u8]]); 7] = [
        ("strategy", &[&[0], &[1, 2], &[1, 3]]),
        ("calculator", &[&[0], &[1, 1], &[1, 2], &[1, 3], &[1, 4], &[1, 5]]),
        ("dispatch", &[&[1], &[2]]),
        ("commit", &[&[1], &[3], &[4], &[2]]),
        ("ordering", &[&[1], &[2], &[3], &[4], &[5], &[6]]),
        ("sequencer", &[&[1], &[2], &[3], &[4]]),
        ("journal", &[&[1], &[0]]),
    ];
    for (at, (key, codes)) in others.into_iter().enumerate() {
        let choice = CHOICES.iter().find(|c| c.key == key).expect("a choice");
        let values = choice.values();
        assert!(values.len() >= codes.len(), "{key}: values do not go");
        for (value, code) in values.iter().zip(codes) {
            let mut expected = usual[..usual.len() - 8].to_vec();
            expected.splice(at..=at, code.iter().copied());
            assert_eq!(head(choice.parse(value.word).unwrap()), expected, "{key}={}", value.word);
        }
    }
}
