//! The order in which a disk is given its operations.
//!
//! The device is given a number of operations at a time; what comes beyond that waits here,
//! and goes in the order of a policy. The policies are those of simulated disks, by the same
//! code ([`weft_model::schedule`]), which for a real disk must guess positions from
//! offsets.
//!
//! The order among operations in work means nothing to the store: it starts none that relies
//! on another before that one has ended (the simulation check ends them in any order), and
//! the kernel keeps none either. Flushes are kept in their place all the same: nothing is
//! given to the device before a flush that was asked for after it, or after one that was
//! asked for before it.

use std::collections::VecDeque;

use weft_core::store::DiskOp;
use weft_model::schedule::{Addresses, Policy, Positions, Queue};

use crate::error::{Error, Result, fail};

/// The policies that need no more than addresses.
const POSSIBLE: [Policy; 3] = [Policy::Fcfs, Policy::Sstf, Policy::CLook];

/// How a disk's queue is served.
///
/// Unless something else is asked for, the device is given all that there is in the order in
/// which it came. Flash has no arm to save, and a hard disk that takes many commands at a time
/// chooses among them by where its arm and its platter really are, which nobody outside
/// knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskQueue {
    policy: Policy,
    depth: u32,
}

impl Default for DiskQueue {
    fn default() -> Self {
        DiskQueue { policy: Policy::Fcfs, depth: DiskQueue::DEEPEST }
    }
}

impl DiskQueue {
    /// The most operations that a device is given at a time.
    pub const DEEPEST: u32 = 256;

    /// How many operations a device is given if it is not to choose among them: one to work on,
    /// and the next, so that it need not wait for us.
    const SHALLOW: u32 = 2;

    /// A queue in the order of `policy` before a device that is given `depth` operations at a
    /// time. Open: first come, first served; as many as possible of those, and two in any other
    /// order.
    ///
    /// # Errors
    /// If there is no such order or depth, with those that there are.
    pub fn new(policy: Option<&str>, depth: Option<u32>) -> Result<DiskQueue> {
        let names = POSSIBLE.map(Policy::name).join(", ");
        let unknown =
            |name| Error(format!("queue: '{name}' is not an order of disks; choose from {names}"));
        let policy =
            policy.map_or(Ok(Policy::Fcfs), |name| name.parse().map_err(|_| unknown(name)))?;
        if !POSSIBLE.contains(&policy) {
            return fail(format!(
                "queue: {} needs the platter's position, which disks do not report; choose from \
                 {names}",
                policy.name()
            ));
        }
        let usual = if policy == Policy::Fcfs { Self::DEEPEST } else { Self::SHALLOW };
        let depth = depth.unwrap_or(usual);
        if depth == 0 || depth > Self::DEEPEST {
            return fail(format!(
                "queue_depth: {depth} operations at a time are not possible; choose 1 to {}",
                Self::DEEPEST
            ));
        }
        Ok(DiskQueue { policy, depth })
    }

    /// The order's name.
    pub fn order(&self) -> &'static str {
        self.policy.name()
    }

    /// How many operations the device is given at a time.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// What is to be written down of it: order and depth, unless they are as always.
    pub(crate) fn words(&self) -> (Option<String>, Option<u32>) {
        let usual = DiskQueue::default();
        if *self == usual {
            return (None, None);
        }
        let as_it_comes = DiskQueue::new(Some(self.order()), None);
        let depth = (as_it_comes != Ok(*self)).then_some(self.depth);
        ((self.policy != usual.policy).then(|| self.order().to_string()), depth)
    }
}

/// What waits for a disk, and how much of it the device has.
#[derive(Debug)]
pub(crate) struct Line<T> {
    depth: u32,
    /// Operations that the device has.
    given: u32,
    /// Operations that the device has refused for now, and that come back later.
    parked: u32,
    waiting: Queue<Waiting<T>>,
    /// From the first flush that waits on: the flush, and what came after it.
    later: VecDeque<Waiting<T>>,
    arm: Arm,
}

#[derive(Debug)]
struct Waiting<T> {
    /// First byte and the one after the last; a flush has none.
    bytes: Option<(u64, u64)>,
    item: T,
}

/// Where the arm must be when all that was given is done.
#[derive(Debug, Default)]
struct Arm(Addresses);

impl<T> Positions<Waiting<T>> for Arm {
    fn address(&self, waiting: &Waiting<T>) -> u64 {
        waiting.bytes.map_or(0, |(first, _)| first)
    }

    fn here(&self) -> u64 {
        self.0.here
    }

    fn seek(&self, waiting: &Waiting<T>) -> u64 {
        self.0.seek(&self.address(waiting))
    }

    fn access(&self, waiting: &Waiting<T>) -> u64 {
        self.0.access(&self.address(waiting))
    }
}

impl<T> Line<T> {
    /// Nothing waits.
    pub(crate) fn new(queue: DiskQueue) -> Line<T> {
        Line {
            depth: queue.depth,
            given: 0,
            parked: 0,
            waiting: Queue::new(queue.policy),
            later: VecDeque::new(),
            arm: Arm::default(),
        }
    }

    /// Adds what stands for an operation.
    pub(crate) fn push(&mut self, op: &DiskOp, item: T) {
        self.add(Waiting { bytes: bytes(op), item });
    }

    fn add(&mut self, waiting: Waiting<T>) {
        if waiting.bytes.is_none() || !self.later.is_empty() {
            self.later.push_back(waiting);
        } else {
            self.waiting.push(waiting);
        }
    }

    /// The next for the device, if it may be given one more.
    pub(crate) fn give(&mut self) -> Option<T> {
        if self.given >= self.depth {
            return None;
        }
        let next = self.waiting.take(&self.arm).or_else(|| self.take_later())?;
        if let Some((_, end)) = next.bytes {
            self.arm.0.here = end;
        }
        self.given += 1;
        Some(next.item)
    }

    /// What stood before the flush is gone: the flush is next, and what came after it can be
    /// ordered up to the next one.
    fn take_later(&mut self) -> Option<Waiting<T>> {
        let flush = self.later.pop_front()?;
        while let Some(after) = self.later.pop_front_if(|w| w.bytes.is_some()) {
            self.waiting.push(after);
        }
        Some(flush)
    }

    /// The device has done one of those that it was given.
    pub(crate) fn ended(&mut self) {
        self.given -= 1;
    }

    /// The device has refused one for now: others take its place until it is [put back](Line::put_back).
    pub(crate) fn park(&mut self) {
        self.given -= 1;
        self.parked += 1;
    }

    /// A parked operation waits again, behind those that have come since. Given its first byte and the one after the last.
    pub(crate) fn put_back(&mut self, bytes: (u64, u64), item: T) {
        self.parked -= 1;
        self.add(Waiting { bytes: Some(bytes), item });
    }

    /// How many the device has.
    pub(crate) fn given(&self) -> u32 {
        self.given
    }

    /// Whether nothing waits or is parked, and the device has nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.given == 0 && self.parked == 0 && self.len() == 0
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.later.len()
    }
}

/// First byte of an operation and the one after its last.
pub(crate) fn bytes(op: &DiskOp) -> Option<(u64, u64)> {
    match op {
        DiskOp::Read { offset, len } | DiskOp::Discard { offset, len } => {
            Some((*offset, offset + len))
        }
        DiskOp::Write { offset, data, .. } => {
            let len: usize = data.iter().map(weft_core::Buffer::len).sum();
            Some((*offset, offset + len as u64))
        }
        DiskOp::Flush => None,
    }
}

#[cfg(test)]
mod tests;
