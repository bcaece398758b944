//! A node's seat in its lane: what a thread needs to run the node.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_core::node::{Node, NodeStatus, RunningMedian, Timer};
use weft_core::store::{DiskOp, DiskRequest, Urgency};
use weft_core::units::Nanos;

use crate::disk::Disk;

/// The state machine of a node of this process while it lives, its disk and its timers.
#[derive(Default)]
pub(crate) struct Seat {
    pub(crate) node: Option<Box<Node>>,
    pub(crate) disk: Option<Arc<Disk>>,
    /// Counts its lives, so that what was meant for an earlier one is not taken for this.
    pub(crate) life: u64,
    /// The first life on this disk. Operations of earlier ones are another disk's.
    first: u64,
    /// Disk operations begun, also by an earlier life.
    pub(crate) disk_ops: usize,
    /// Those that are under way and timed, by life and number.
    begun: BTreeMap<(u64, u64), Begun>,
    /// How long those took that have ended, of this life: reads, and durable writes and flushes.
    took: [RunningMedian; 2],
    /// Operations that waited for the disk when its lane was last looked at.
    pub(crate) queued: usize,
    /// The node has said that its disk is no good. It takes nothing in any more, and is about to be killed.
    pub(super) ended: bool,
    /// When those that are set are due.
    timers: BTreeMap<Timer, Nanos>,
}

/// A disk operation that is under way.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Nanos,
    /// It makes a write durable that somebody waits for.
    writes: bool,
    /// Which of [`Seat::took`] it counts for, if for one.
    kind: Option<usize>,
}

impl Seat {
    /// One whose node is in its so manieth life.
    pub(crate) fn of_life(life: u64) -> Seat {
        Seat { life, first: life, ..Seat::default() }
    }

    /// Begins a life. What the disk has in work for an earlier one is still counted.
    pub(crate) fn begin(&mut self, node: Box<Node>, disk: Option<Arc<Disk>>) {
        (self.node, self.disk) = (Some(node), disk);
        self.ended = false;
    }

    /// Drops the node with all it knew, as if its process had died.
    pub(crate) fn drop_node(&mut self) {
        let (life, first, disk_ops) = (self.life + 1, self.first, self.disk_ops);
        let begun = std::mem::take(&mut self.begun);
        *self = Seat { life, first, disk_ops, begun, ..Seat::default() };
    }

    /// The disk begins an operation of this life; `now` if it is timed.
    pub(super) fn begins(&mut self, request: &DiskRequest, now: Option<Nanos>) {
        self.disk_ops += 1;
        if let Some(at) = now {
            let durable = matches!(request.op, DiskOp::Write { durable: true, .. } | DiskOp::Flush);
            let writes = durable && request.urgency == Urgency::Awaited;
            let kind = match request.op {
                DiskOp::Read { .. } => Some(0),
                _ => writes.then_some(1),
            };
            self.begun.insert((self.life, request.id), Begun { at, writes, kind });
        }
    }

    /// The disk has ended an operation of a life. Returns how long it took, if that is known.
    pub(super) fn ends(&mut self, (life, id): (u64, u64), now: Nanos) -> Option<Nanos> {
        if life < self.first {
            return None;
        }
        self.disk_ops -= 1;
        let begun = self.begun.remove(&(life, id))?;
        let took = now.saturating_sub(begun.at);
        if let Some(kind) = begun.kind.filter(|_| life == self.life) {
            self.took[kind].count(took);
        }
        Some(took)
    }

    /// Half of its disk's reads, or of the durable writes that somebody waited for, took longer.
    pub(crate) fn usual(&self, writes: bool) -> Nanos {
        self.took[usize::from(writes)].get()
    }

    /// When the oldest operation of this life that its disk has not ended was begun.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.begun.range((self.life, 0)..).map(|(_, begun)| begun.at).min()
    }

    /// When the oldest operation of any life was begun that its disk has not ended.
    pub(crate) fn oldest_of_any_life(&self) -> Option<Nanos> {
        self.begun.values().map(|begun| begun.at).min()
    }

    /// When the oldest of this life was begun that makes a write durable for which somebody waits.
    pub(crate) fn oldest_write(&self) -> Option<Nanos> {
        let ours = self.begun.range((self.life, 0)..).map(|(_, begun)| begun);
        ours.filter(|begun| begun.writes).map(|begun| begun.at).min()
    }

    /// Sets a timer, unless it is set for an earlier time already.
    pub(super) fn set_timer(&mut self, timer: Timer, deadline: Nanos) {
        let first = self.timers.entry(timer).or_insert(deadline);
        *first = deadline.min(*first);
    }

    /// Takes a timer that is set, if it is due at `now`.
    pub(super) fn take_due(&mut self, timer: Timer, now: Nanos) -> bool {
        let due = self.timers.get(&timer).is_some_and(|deadline| *deadline <= now);
        if due {
            self.timers.remove(&timer);
        }
        due
    }

    /// Whether a [`Timer::Soon`] is set.
    pub(super) fn has_soon(&self) -> bool {
        self.timers.contains_key(&Timer::Soon)
    }

    /// When the first timer is due.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.timers.values().copied().min()
    }

    /// Its node's state, if it lives.
    pub(crate) fn status(&self) -> Option<NodeStatus> {
        self.node.as_ref().map(|n| n.status())
    }
}
