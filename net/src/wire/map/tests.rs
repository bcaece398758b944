//! What layouts are in a map, byte for byte.

use bytes::Bytes;

use super::*;

/// What a layout is in a map, which must never change either.
#[test]
fn grids_have_their_bytes_and_others_are_refused() {
    let taken = |bytes: [u8; 13]| {
        Layout::take(&mut Reader::new(super::super::VERSION, &bytes, Bytes::new()))
    };
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
    let whole =
        |bytes: &[u8]| Layout::take(&mut Reader::new(super::super::VERSION, bytes, Bytes::new()));
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
