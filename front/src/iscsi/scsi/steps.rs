//! From a command whose data are there to what nodes do.

use bytes::Bytes;

use super::mode::select;
use super::unit::{Designator, Unit};
use super::{
    Check, MOST_STATUS, MOST_UNMAPPED, Query, Sense, Step, Stretch, Work, copying, long, reserving,
};
use crate::iscsi::Op;

/// What is about the whole unit.
const NOWHERE: Stretch = Stretch { offset: 0, length: 0 };

/// As many bytes of the same block are written at a time.
const SAME_AT_ONCE: u64 = 1 << 20;

/// What becomes of the answer of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::iscsi) enum Then {
    /// Nothing.
    Drop,
    /// It is sent.
    Send,
    /// It must be these bytes.
    Compare(Bytes),
    /// The same is written behind it, for this many bytes.
    Repeat(u64),
    /// It is written to this unit, at this offset.
    WriteTo(Designator, u64),
    /// Answer with the allocation status, in at most this many bytes.
    Status(usize),
    /// Answer with the port groups, in at most so many bytes.
    Ports { extended: bool, most: usize },
    /// It is what became of a reservation, or of moving one.
    Outcome { moves: bool },
    /// Answer with who has registered, in at most this many bytes.
    Reservations(Query, usize),
}

pub(super) fn steps(work: &Work, data: Bytes, unit: &Unit) -> Result<Vec<Step>, Sense> {
    let step = |op, at, then| Step { op, at, durable: false, then, unit: None };
    Ok(match work {
        // What became of a copy the session knows.
        Work::Data(_) | Work::Nothing | Work::Conflict | Work::CopyStatus { .. } => Vec::new(),
        Work::Copy { .. } => copying::steps(&data, unit)?,
        Work::Read(at) => vec![step(Op::Read, *at, Then::Send)],
        Work::Flush => vec![step(Op::Flush, NOWHERE, Then::Drop)],
        Work::Write { at, durable, then } => {
            let at = Stretch { length: data.len() as u64, ..*at };
            let write = step(Op::Write(data.clone()), at, Then::Drop);
            let write = Step { durable: *durable, ..write };
            std::iter::once(write).chain(look(*then, at, data)).collect()
        }
        Work::CompareAndWrite { at, .. } if at.length == 0 => Vec::new(),
        Work::CompareAndWrite { at, durable } => {
            let (expected, data) =
                (data.slice(..at.length as usize), data.slice(at.length as usize..));
            let step = step(Op::CompareAndWrite { expected, data }, *at, Then::Drop);
            vec![Step { durable: *durable, ..step }]
        }
        Work::OrWrite { at, durable } => {
            let at = Stretch { length: data.len() as u64, ..*at };
            vec![Step { durable: *durable, ..step(Op::OrWrite(data), at, Then::Drop) }]
        }
        Work::WriteAtomic { at, durable } => {
            vec![Step { durable: *durable, ..step(Op::Write(data), *at, Then::Drop) }]
        }
        Work::Verify { at, check } => look(*check, *at, data).into_iter().collect(),
        Work::Same { at, zeros, .. } if *zeros || data.iter().all(|byte| *byte == 0) => {
            vec![step(Op::WriteZeroes, *at, Then::Drop)]
        }
        Work::Same { at, block, .. } => vec![same(*at, *block, &data)],
        Work::Unmap { .. } => unmap(&data, unit)?,
        Work::Modes { long, .. } => {
            select(&data, *long, unit)?;
            Vec::new()
        }
        Work::Status { at, most } => vec![step(Op::Holes, *at, Then::Status(*most))],
        Work::Ports { extended, most } => {
            vec![step(Op::Ports, NOWHERE, Then::Ports { extended: *extended, most: *most })]
        }
        Work::Reserve { asked, .. } => {
            let action = reserving::action(*asked, &data)?;
            let moves = *asked == reserving::Asked::Move;
            vec![step(Op::Reserve(action), NOWHERE, Then::Outcome { moves })]
        }
        Work::Reservations { query, most } => {
            vec![step(Op::Reservations, NOWHERE, Then::Reservations(*query, *most))]
        }
    })
}

/// A read that checks stored content.
fn look(check: Check, at: Stretch, data: Bytes) -> Option<Step> {
    let then = match check {
        Check::Nothing => return None,
        Check::Readable => Then::Drop,
        Check::Equal => Then::Compare(data),
    };
    Some(Step { op: Op::Read, at, durable: false, then, unit: None })
}

/// Writes the same block everywhere: the first of the writes.
fn same(at: Stretch, block: u64, data: &[u8]) -> Step {
    let length = at.length.min(SAME_AT_ONCE);
    let op = Op::Write(data.repeat((length / block) as usize).into());
    let then = Then::Repeat(at.length - length);
    Step { op, at: Stretch { length, ..at }, durable: false, then, unit: None }
}

/// The write behind one of the same block, with as many bytes left.
pub(in crate::iscsi) fn repeated(step: &Step, left: u64) -> Option<Step> {
    let Op::Write(data) = &step.op else { return None };
    let length = left.min(step.at.length);
    let op = Op::Write(data.slice(..length as usize));
    let at = Stretch { offset: step.at.offset + step.at.length, length };
    (left > 0).then(|| Step { op, at, then: Then::Repeat(left - length), ..step.clone() })
}

/// Where the descriptors of an UNMAP begin, and how long one is.
const DESCRIPTORS: usize = 8;
const DESCRIPTOR: usize = 16;

fn unmap(list: &[u8], unit: &Unit) -> Result<Vec<Step>, Sense> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let Some(head) = list.first_chunk::<DESCRIPTORS>() else { return Err(Sense::LIST_LENGTH) };
    let said = usize::from(u16::from_be_bytes([head[2], head[3]]));
    // A truncated descriptor is ignored, as in a list that is shorter than its length field.
    let descriptors = list[DESCRIPTORS..].chunks_exact(DESCRIPTOR).take(said / DESCRIPTOR);
    if descriptors.len() as u64 > super::MOST_DESCRIPTORS {
        return Err(Sense::parameter(2));
    }
    let (mut steps, mut all) = (Vec::new(), 0);
    for (n, descriptor) in descriptors.enumerate() {
        let (first, count) = (long(&descriptor[..8]), long(&descriptor[8..12]));
        if first.checked_add(count).is_none_or(|end| end > unit.blocks()) {
            return Err(Sense::OUT_OF_RANGE);
        }
        all += count;
        if all > MOST_UNMAPPED / unit.block {
            return Err(Sense::parameter(DESCRIPTORS + n * DESCRIPTOR + 8));
        }
        if count > 0 {
            let at = unit.stretch(first, count);
            steps.push(Step {
                op: Op::WriteZeroes,
                at,
                durable: false,
                then: Then::Drop,
                unit: None,
            });
        }
    }
    Ok(steps)
}

/// Where GET LBA STATUS looks again, if all of a stretch is one hole: further.
pub(in crate::iscsi) fn further(step: &Step, found: &[(u64, bool)], unit: &Unit) -> Option<Step> {
    const FACTOR: u64 = 16;
    let Stretch { offset, length } = step.at;
    let is_hole = found.iter().all(|(_, hole)| *hole)
        && found.iter().map(|(length, _)| length).sum::<u64>() >= length;
    let most = (unit.blocks() * unit.block - offset).min(MOST_STATUS);
    let longer = (length * FACTOR).min(most);
    let at = Stretch { offset, length: longer };
    (is_hole && longer > length).then(|| Step { at, ..step.clone() })
}

/// The answer of GET LBA STATUS: what of a stretch from a block on has room, as lengths in bytes.
pub(in crate::iscsi) fn allocation(
    at: Stretch,
    block: u64,
    found: &[(u64, bool)],
    most: usize,
) -> Vec<u8> {
    let mut runs: Vec<(u64, bool)> = Vec::new();
    let mut left = at.length;
    for &(length, hole) in found {
        let length = length.min(left);
        left -= length;
        match runs.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.1 == hole => last.0 += length,
            _ => runs.push((length, hole)),
        }
    }
    // A block that is a hole only in part counts as mapped.
    let (mut bytes, mut from, mut reached) = (vec![0; 8], at.offset, at.offset);
    let end = at.offset + at.length - left;
    let mut told: Vec<(u64, u64, bool)> = Vec::new();
    for (length, hole) in runs {
        reached += length;
        let until = match hole && reached < end {
            true => reached / block * block,
            false => reached.next_multiple_of(block),
        };
        if until > from {
            told.push((from / block, (until - from) / block, hole));
            from = until;
        }
    }
    for (first, count, hole) in told {
        if bytes.len() + DESCRIPTOR > most.max(24) {
            break;
        }
        bytes.extend_from_slice(&first.to_be_bytes());
        bytes.extend_from_slice(&(count as u32).to_be_bytes());
        bytes.extend_from_slice(&[u8::from(hole), 0, 0, 0]);
    }
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes.truncate(most);
    bytes
}
