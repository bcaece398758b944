//! Writes refused because a disk's file system is full: those that may be seen nevertheless.
//!
//! A refused write has not happened. But its abort is not durable yet: after a power cut in the same moment the nodes that
//! prepared it may be the only ones that know of it, and commit it. So may any write that failed.

use std::ops::Range;

use weft_core::units::{MILLIS, Nanos};

/// The refused writes.
#[derive(Default)]
pub struct NoSpace {
    /// How many there were.
    pub count: u64,
    /// Those whose aborts may not be durable: when they were refused, after how many deaths and starts of nodes.
    unsure: Vec<(Nanos, u64, Range<u32>)>,
}

impl NoSpace {
    /// A write that has not happened was refused now, after that number of deaths and starts of nodes.
    pub fn refused(&mut self, now: Nanos, lives: u64, pieces: Range<u32>) {
        self.unsure.push((now, lives, pieces));
    }

    /// Removes and returns the refused writes whose aborts are durable by now: they never happen. Those after which a
    /// node died or started are forgotten: they may happen, and stay in the history without an end.
    pub fn take_settled(&mut self, now: Nanos, lives: u64, disks_hang: bool) -> Vec<Range<u32>> {
        // An abort is durable after an operation of the disk.
        let durable_after = if disks_hang { 60_000 * MILLIS } else { 200 * MILLIS };
        self.unsure.retain(|(_, then, _)| *then == lives);
        let settled = self.unsure.extract_if(.., |(at, ..)| *at + durable_after < now);
        settled.map(|(.., pieces)| pieces).collect()
    }
}
