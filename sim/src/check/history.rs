//! What hosts did and saw, and whether it could have been so.
//!
//! Every block of 512 bytes that a request writes carries the request's number, so a read
//! says exactly which write it saw. Two things are checked:
//!
//! - each block is a *linearizable register* (Gibbons and Korach, 1997): the operations on
//!   one value form a zone from the earliest end to the latest start; no two zones may each
//!   have to come before the other, and no read may end before its write began;
//! - requests are *atomic*: a read that sees a write in one block may not see, in another
//!   block that the same write covers, a value that had to come before it.
//!
//! A request whose host was never answered may have happened at any time after it began, or
//! never. Where a reservation forbids it, it must have happened before that.
//!
//! Zeros carry no number. They are checked by what has one: a value is not there before and after zeros were written
//! or seen, and where zeros are seen, some zeroing (or the beginning) may be the last before that.
//!
//! A request that compares and writes comes next after what it found: the two values are one in the first check.
//!
//! With limited atomicity ([`check_limited`]) a write that was interrupted may have happened in part, and once
//! more when it was tried again. Then every block of it may have got its content at any time, and more than
//! once, while it was in work; of what was answered nothing may be missing all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weft_core::units::Nanos;

/// The unit in which content is told apart.
pub const BLOCK: u64 = 512;

/// What an operation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// Wrote its own number (or zeros) into its blocks.
    Wrote {
        /// Whether it wrote zeros.
        zeros: bool,
    },
    /// Read these numbers; 0 is zeros.
    Read(Vec<u32>),
    /// Compared its blocks with these numbers and wrote its own, with nothing in between.
    Replaced(Vec<u32>),
    /// Compared its block with this number, and found something else.
    Missed(u32),
    /// Accepted that content is lost: lost blocks are zeros from then on, and all others stay.
    Accepted,
}

impl Did {
    /// Whether it changes its blocks.
    pub fn writes(&self) -> bool {
        !matches!(self, Did::Read(_) | Did::Missed(_))
    }

    /// Whether it leaves its own number in its blocks.
    pub fn is_known_by_number(&self) -> bool {
        matches!(self, Did::Wrote { zeros: false } | Did::Replaced(_))
    }

    /// Whether zeros may come of it.
    fn may_zero(&self) -> bool {
        matches!(self, Did::Wrote { zeros: true } | Did::Accepted)
    }
}

/// An operation of a host.
#[derive(Clone, Debug)]
pub struct Op {
    /// Its number, from 1.
    pub id: u32,
    /// What it did.
    pub did: Did,
    /// The blocks.
    pub blocks: Range<u64>,
    /// When it began.
    pub start: Nanos,
    /// When it was answered; `None` if never.
    pub end: Option<Nanos>,
    /// After this it cannot have happened: a reservation forbids it.
    pub by: Option<Nanos>,
}

impl Op {
    /// When it was over at the latest, if it happened.
    fn over(&self) -> Nanos {
        let end = self.end.unwrap_or(Nanos::MAX);
        self.by.map_or(end, |by| by.min(end))
    }

    /// When a block must have been zeros, if ever: from when until when. A zeroing that was answered though it was
    /// forbidden has found zeros.
    fn zeros_at(&self, block: u64) -> Option<(Nanos, Nanos)> {
        let is_zeros = match &self.did {
            Did::Wrote { zeros } => *zeros,
            Did::Read(values) => values[(block - self.blocks.start) as usize] == 0,
            Did::Replaced(_) | Did::Missed(_) | Did::Accepted => false,
        };
        self.end.filter(|_| is_zeros).map(|end| (self.start, end))
    }
}

/// Fills the blocks of a write.
pub fn content(id: u32, blocks: Range<u64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(((blocks.end - blocks.start) * BLOCK) as usize);
    for block in blocks {
        let head = [id.to_le_bytes(), (block as u32).to_le_bytes()].concat();
        let fill = (id as u8).wrapping_mul(31).wrapping_add(block as u8) | 1;
        out.extend_from_slice(&head);
        out.extend(std::iter::repeat_n(fill, BLOCK as usize - head.len()));
    }
    out
}

/// The numbers in what was read, or the first block that nobody ever wrote.
pub fn numbers(first: u64, bytes: &[u8]) -> Result<Vec<u32>, u64> {
    let blocks = bytes.chunks_exact(BLOCK as usize).enumerate();
    blocks
        .map(|(n, bytes)| {
            let block = first + n as u64;
            if bytes.iter().all(|b| *b == 0) {
                return Ok(0);
            }
            let id = u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes"));
            if content(id, block..block + 1) == bytes { Ok(id) } else { Err(block) }
        })
        .collect()
}

/// The operations on one value of one block.
#[derive(Clone, Copy, Debug)]
struct Zone {
    /// The earliest end of any.
    first_end: Nanos,
    /// The latest start of any.
    last_start: Nanos,
}

impl Zone {
    /// Whether all of this must come before all of `other`.
    fn before(&self, other: &Zone) -> bool {
        self.first_end < other.last_start
    }

    /// Whether some of this was over before that time, and some began after it.
    fn is_around(&self, start: Nanos, end: Nanos) -> bool {
        self.first_end < start && end < self.last_start
    }
}

/// Says what could not have been so, if anything.
pub fn check(ops: &[Op]) -> Result<(), String> {
    let by_id: BTreeMap<u32, &Op> = ops.iter().map(|op| (op.id, op)).collect();
    let seen = seen(ops);
    check_forbidden(ops, &seen)?;
    let mut on_block: BTreeMap<u64, Vec<&Op>> = BTreeMap::new();
    for op in ops {
        op.blocks.clone().for_each(|b| on_block.entry(b).or_default().push(op));
    }
    let mut zones = BTreeMap::new();
    for (block, ops) in &on_block {
        let found = zones_of(*block, ops, &by_id, &seen)?;
        check_missed(*block, ops, &found)?;
        let joined = joined(*block, ops, &found)?;
        check_zones(*block, &joined)?;
        check_between(*block, ops, &joined)?;
        let zeros = ops.iter().filter(|op| matches!(op.did, Did::Read(_)));
        let mut zeros = zeros.filter(|op| op.zeros_at(*block).is_some());
        zeros.try_for_each(|read| check_zeros(*block, read, ops, &found))?;
        zones.insert(*block, found);
    }
    ops.iter().try_for_each(|op| check_atomic(op, &by_id, &zones, &on_block))
}

/// Finds content that was read and that nobody can have written by then.
pub fn check_sources(ops: &[Op]) -> Result<(), String> {
    let by_id: BTreeMap<u32, &Op> = ops.iter().map(|op| (op.id, op)).collect();
    for read in ops {
        let Did::Read(values) = &read.did else { continue };
        for (block, value) in read.blocks.clone().zip(values).filter(|(_, value)| **value != 0) {
            source(block, read, *value, &by_id)?;
        }
    }
    Ok(())
}

/// The numbers that were seen, or found by who replaced them.
fn seen(ops: &[Op]) -> BTreeSet<u32> {
    let mut seen = BTreeSet::new();
    // What a request finds has a lower number than it.
    let mut latest: Vec<&Op> = ops.iter().collect();
    latest.sort_by_key(|op| std::cmp::Reverse((!op.did.writes(), op.id)));
    for op in latest {
        match &op.did {
            Did::Read(values) => seen.extend(values),
            Did::Replaced(found) if op.end.is_some() || seen.contains(&op.id) => seen.extend(found),
            Did::Replaced(_) | Did::Wrote { .. } | Did::Missed(_) | Did::Accepted => {}
        }
    }
    seen
}

/// What a reservation forbade before it was asked for has not happened. Zeros that were there already are no write.
fn check_forbidden(ops: &[Op], seen: &BTreeSet<u32>) -> Result<(), String> {
    let forbidden = |op: &&Op| op.by.is_some_and(|by| by <= op.start) && !op.blocks.is_empty();
    let happened =
        |op: &&Op| op.did.is_known_by_number() && (op.end.is_some() || seen.contains(&op.id));
    match ops.iter().filter(forbidden).find(happened) {
        Some(op) => Err(format!("write {} happened though a reservation forbids it", op.id)),
        None => Ok(()),
    }
}

/// The same, where writes have limited atomicity.
pub fn check_limited(ops: &[Op]) -> Result<(), String> {
    check_forbidden(ops, &seen(ops))?;
    let by_id: BTreeMap<u32, &Op> = ops.iter().map(|op| (op.id, op)).collect();
    let mut writes_to: BTreeMap<u64, Vec<&Op>> = BTreeMap::new();
    for op in ops.iter().filter(|op| op.did.writes()) {
        op.blocks.clone().for_each(|b| writes_to.entry(b).or_default().push(op));
    }
    for read in ops {
        let Did::Read(values) = &read.did else { continue };
        for (block, value) in read.blocks.clone().zip(values) {
            let writes = writes_to.get(&block).map_or(&[][..], |w| w);
            if *value == 0 {
                check_zeros(block, read, writes, &answered(writes))?;
                continue;
            }
            let seen = source(block, read, *value, &by_id)?;
            let over = seen.over();
            let later = |w: &&&Op| w.start > over && w.end.is_some_and(|end| end < read.start);
            if let Some(later) = writes.iter().find(later) {
                return Err(format!(
                    "block {block}: read {} saw write {value} after write {}, which came later, was answered",
                    read.id, later.id
                ));
            }
        }
    }
    Ok(())
}

/// The zones of the writes that were answered, by themselves.
fn answered(writes: &[&Op]) -> BTreeMap<u32, Zone> {
    let zone = |op: &&Op| Some((op.id, Zone { first_end: op.end?, last_start: op.start }));
    writes.iter().filter(|op| op.did.is_known_by_number()).filter_map(zone).collect()
}

/// The write that a read saw in a block.
fn source<'a>(
    block: u64,
    read: &Op,
    value: u32,
    by_id: &BTreeMap<u32, &'a Op>,
) -> Result<&'a Op, String> {
    let wrong =
        |what: &str| Err(format!("block {block}: read {} saw write {value}{what}", read.id));
    match by_id.get(&value) {
        None => wrong(", which never was"),
        Some(write) if !write.blocks.contains(&block) => wrong(", which does not cover it"),
        Some(write) if read.end.is_some_and(|end| end < write.start) => wrong(" before it began"),
        Some(write) => Ok(*write),
    }
}

fn zones_of(
    block: u64,
    ops: &[&Op],
    by_id: &BTreeMap<u32, &Op>,
    seen: &BTreeSet<u32>,
) -> Result<BTreeMap<u32, Zone>, String> {
    let mut zones: BTreeMap<u32, Zone> = BTreeMap::new();
    for op in ops {
        if op.did.is_known_by_number() {
            zones.insert(op.id, Zone { first_end: op.over(), last_start: op.start });
        }
    }
    for op in ops {
        let Did::Read(values) = &op.did else { continue };
        let value = values[(block - op.blocks.start) as usize];
        let end = op.end.unwrap_or(Nanos::MAX);
        if value == 0 {
            continue;
        }
        source(block, op, value, by_id)?;
        let zone = zones.get_mut(&value).expect("a write to it");
        zone.first_end = zone.first_end.min(end);
        zone.last_start = zone.last_start.max(op.start);
    }
    // A write never answered and seen nowhere need not have happened.
    zones.retain(|id, _| seen.contains(id) || by_id[id].end.is_some());
    Ok(zones)
}

/// Zeros may come of any zeroing, or have been there first. Of one of these it must not be certain that other content
/// came after it and before the read began.
fn check_zeros(
    block: u64,
    read: &Op,
    ops: &[&Op],
    zones: &BTreeMap<u32, Zone>,
) -> Result<(), String> {
    let zeroings = ops.iter().filter(|op| op.did.may_zero());
    let zeroings = zeroings.filter(|z| z.start <= read.end.unwrap_or(Nanos::MAX));
    // The first zeros were over before anything.
    let sources = zeroings.map(|z| Some(z.over())).chain([None]);
    let overwritten = |over: Option<Nanos>| {
        let later = |z: &Zone| Some(z.last_start) > over && z.first_end < read.start;
        zones.iter().rev().find(|(_, zone)| later(zone)).map(|(id, _)| *id)
    };
    match sources.map(overwritten).collect::<Option<Vec<u32>>>() {
        None => Ok(()),
        Some(by) => Err(format!(
            "block {block}: read {} saw zeros after write {} was there",
            read.id,
            by.into_iter().max().unwrap_or(0)
        )),
    }
}

/// No value is there before and after it was missed.
fn check_missed(block: u64, ops: &[&Op], zones: &BTreeMap<u32, Zone>) -> Result<(), String> {
    for op in ops {
        let (Did::Missed(value), Some(end)) = (&op.did, op.end) else { continue };
        if zones.get(value).is_some_and(|zone| zone.is_around(op.start, end)) {
            return Err(format!(
                "block {block}: write {value} was there before and after request {} missed it",
                op.id
            ));
        }
    }
    Ok(())
}

/// No value is there before and after zeros.
fn check_between(block: u64, ops: &[&Op], zones: &BTreeMap<u32, Zone>) -> Result<(), String> {
    for op in ops {
        let Some((start, end)) = op.zeros_at(block) else { continue };
        if let Some((id, _)) = zones.iter().find(|(_, zone)| zone.is_around(start, end)) {
            let what = if op.did.writes() { "wrote" } else { "saw" };
            return Err(format!(
                "block {block}: write {id} was there before and after request {} {what} zeros",
                op.id
            ));
        }
    }
    Ok(())
}

fn check_zones(block: u64, zones: &BTreeMap<u32, Zone>) -> Result<(), String> {
    let all: Vec<(&u32, &Zone)> = zones.iter().collect();
    for (n, (a, za)) in all.iter().enumerate() {
        for (b, zb) in &all[n + 1..] {
            if za.before(zb) && zb.before(za) {
                return Err(format!(
                    "block {block}: writes {a} and {b} would each have to come before the other \
                     (an old value was read after a new one, or an acknowledged write was lost)"
                ));
            }
        }
    }
    Ok(())
}

/// The zones, where the value that was found and the one that replaced it have one: nothing comes between them.
fn joined(
    block: u64,
    ops: &[&Op],
    zones: &BTreeMap<u32, Zone>,
) -> Result<BTreeMap<u32, Zone>, String> {
    let mut joined = zones.clone();
    let mut replaced: BTreeMap<u32, u32> = BTreeMap::new();
    // By descending number: a value that was found is older.
    for op in ops.iter().rev().filter(|op| zones.contains_key(&op.id)) {
        let Did::Replaced(found) = &op.did else { continue };
        let found = found[(block - op.blocks.start) as usize];
        let Some(old) = zones.get(&found) else { continue };
        if zones[&op.id].before(old) {
            return Err(format!(
                "block {block}: write {} replaced write {found}, and was over before it was there",
                op.id
            ));
        }
        if let Some(other) = replaced.insert(found, op.id) {
            return Err(format!(
                "block {block}: writes {} and {other} both replaced {found}",
                op.id
            ));
        }
        let new = joined.remove(&op.id).expect("it is not joined yet");
        let whole = joined.get_mut(&found).expect("found before");
        whole.first_end = whole.first_end.min(new.first_end);
        whole.last_start = whole.last_start.max(new.last_start);
    }
    Ok(joined)
}

/// A read that sees a write in part must not see older values in the rest.
fn check_atomic(
    read: &Op,
    by_id: &BTreeMap<u32, &Op>,
    zones: &BTreeMap<u64, BTreeMap<u32, Zone>>,
    on_block: &BTreeMap<u64, Vec<&Op>>,
) -> Result<(), String> {
    let Did::Read(values) = &read.did else { return Ok(()) };
    let value_at = |block: u64| values[(block - read.blocks.start) as usize];
    let distinct: BTreeSet<u32> = values.iter().copied().filter(|v| *v != 0).collect();
    let end = read.end.unwrap_or(Nanos::MAX);
    for write in distinct {
        let (covered, start) = (&by_id[&write].blocks, by_id[&write].start);
        let (lo, hi) = (covered.start.max(read.blocks.start), covered.end.min(read.blocks.end));
        for block in lo..hi {
            let other = value_at(block);
            let later = |z: &&Op| z.did.may_zero() && z.start <= end && z.over() >= start;
            if other == 0 && !on_block[&block].iter().any(later) {
                return Err(format!(
                    "read {} saw write {write} in part: block {block} held zeros, and nothing that \
                     zeroes it can have come after the write",
                    read.id
                ));
            }
            let (Some(zone), Some(older)) = (zones[&block].get(&write), zones[&block].get(&other))
            else {
                continue;
            };
            if other != write && older.before(zone) {
                return Err(format!(
                    "read {} saw write {write} in part: block {block} still held write {other}, \
                     which came before it",
                    read.id
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
