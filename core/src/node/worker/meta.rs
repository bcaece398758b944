//! A write's metadata in the journal, enough to settle it after a crash.

use super::*;
use weft_bytes::{Read, Reader, Writer, at_most};
use weft_code::Code;

/// Set in the number of a column that only marks its parity.
const MARKS: u16 = 1 << 15;

/// Set in the number of this disk's column if parity of a stripe of the write is deferred.
const WAITS: u16 = 1 << 15;

/// A write's metadata besides its changes: volume, extent, column, participants, the bytes of the volume that it writes,
/// and the volume's address space.
pub(super) fn encode(txn: &Participation) -> Vec<u8> {
    let mut w: Writer = Writer::with_room(36 + 4 * txn.participants.len());
    w.u32(txn.named.0);
    w.u32(txn.extent as u32);
    w.u16(txn.column as u16 | if txn.waits { WAITS } else { 0 });
    w.u16(txn.participants.len() as u16);
    for (column, node) in &txn.participants {
        let flag = if txn.markers.contains(*column) { MARKS } else { 0 };
        w.u16(*column as u16 | flag);
        w.u16(node.0);
    }
    w.u64(txn.writes.offset);
    w.u64(txn.writes.len);
    txn.space.iter().for_each(|space| w.u64(*space));
    w.finish()
}

pub(super) fn decode(meta: &[u8]) -> Option<Participation> {
    read(&mut Reader::new(meta)).ok()
}

fn read(r: &mut Reader) -> Read<Participation> {
    let (volume, extent, flagged) = (VolumeId(r.u32()?), r.u32()? as usize, r.u16()?);
    let (column, waits) = (usize::from(flagged & !WAITS), flagged & WAITS != 0);
    let (mut participants, mut markers) = (Vec::new(), ColumnSet::EMPTY);
    for _ in 0..r.u16()? {
        let (flagged, node) = (r.u16()?, NodeId(r.u16()?));
        let column = usize::from(flagged & !MARKS);
        if flagged & MARKS != 0 {
            at_most("the column of a participant", column as u64, Code::MAX_COLUMNS as u64 - 1)?;
            markers.insert(column);
        }
        participants.push((column, node));
    }
    // Earlier versions did not keep it.
    let writes = match r.left() {
        0 => EVERYTHING,
        _ => VolumeRange { offset: r.u64()?, len: r.u64()? },
    };
    let space = match r.left() {
        0 => None,
        _ => Some(r.u64()?),
    };
    Ok(Participation {
        epoch: 0,
        volume,
        named: volume,
        space,
        extent,
        column,
        journal: true,
        alone: false,
        unfinished: 0,
        new: false,
        fetches: false,
        has_fetched: false,
        is_told: false,
        originator: NodeId(0),
        participants,
        markers,
        waits,
        cells: Vec::new(),
        calculators: Vec::new(),
        ranges: Vec::new(),
        writes,
        ordering: Ordering::Timestamps,
        delayed: false,
        task: None,
        asker: None,
        phase: Phase::Prepared,
        hops: 0,
        awaited: false,
        told_by: None,
        heard: false,
        settled: false,
        since: 0,
    })
}
