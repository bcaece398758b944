//! What the journal keeps of a write besides its content: enough to settle it after a crash.

use super::*;

/// What the journal keeps of a write besides its changes: volume, extent, column, and who
/// takes part.
pub(super) fn encode(txn: &Txn) -> Vec<u8> {
    let mut out = Vec::with_capacity(12 + 4 * txn.participants.len());
    out.extend_from_slice(&txn.volume.0.to_le_bytes());
    out.extend_from_slice(&(txn.extent as u32).to_le_bytes());
    out.extend_from_slice(&(txn.column as u16).to_le_bytes());
    out.extend_from_slice(&(txn.participants.len() as u16).to_le_bytes());
    for (column, node) in &txn.participants {
        out.extend_from_slice(&(*column as u16).to_le_bytes());
        out.extend_from_slice(&node.0.to_le_bytes());
    }
    out
}

pub(super) fn decode(meta: &[u8]) -> Option<Txn> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(meta.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(meta.get(at..at + 4)?.try_into().ok()?));
    let count = u16_at(10)? as usize;
    let participant = |n: usize| Some((u16_at(12 + 4 * n)? as usize, NodeId(u16_at(14 + 4 * n)?)));
    Some(Txn {
        epoch: 0,
        volume: VolumeId(u32_at(0)?),
        extent: u32_at(4)? as usize,
        column: u16_at(8)? as usize,
        journal: true,
        alone: false,
        unfinished: 0,
        new: false,
        originator: NodeId(0),
        participants: (0..count).map(participant).collect::<Option<_>>()?,
        cells: Vec::new(),
        ranges: Vec::new(),
        writes: EVERYTHING,
        ordering: Ordering::Timestamps,
        delayed: false,
        copies: false,
        puts_back: false,
        asker: None,
        phase: Phase::Prepared,
        hops: 0,
        awaited: false,
        told_by: None,
        heard: false,
        since: 0,
    })
}
