//! A node's place in the process: its state machine while it lives, its disk, its timers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weft_core::node::{Node, NodeStatus, Timer};
use weft_core::units::Nanos;

use crate::disk::Disk;
use crate::disk_queue::DiskQueue;

/// How far along in its life a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does not run.
    Down,
    /// It opens its disk.
    Opening,
    /// It takes part.
    Running,
    /// It takes part, and stops when what it has begun is finished.
    Draining,
    /// It is another process's.
    Elsewhere,
}

/// A node's place.
pub(crate) struct Slot {
    pub(crate) node: Option<Box<Node>>,
    pub(crate) disk: Option<Arc<Disk>>,
    /// Where the disk is; empty if there is none.
    pub(crate) path: PathBuf,
    /// Bytes of the disk.
    pub(crate) size: u64,
    /// How the disk's queue is served.
    pub(crate) queue: DiskQueue,
    pub(crate) phase: Phase,
    /// Counts its lives, so that what was meant for an earlier one is not taken for this.
    pub(crate) life: u64,
    /// Disk operations begun, also by an earlier life.
    pub(crate) disk_ops: usize,
    /// To be started as soon as the earlier life's disk operations have ended.
    pub(crate) wanted: bool,
    /// Until when it may finish what it has begun, if it is being stopped.
    pub(crate) patience: Option<Nanos>,
    /// Why it is down.
    pub(crate) why: String,
    /// When those that are set are due.
    timers: BTreeMap<Timer, Nanos>,
}

impl Slot {
    /// A place whose node does not run.
    pub(crate) fn new(path: PathBuf, size: u64) -> Slot {
        Slot {
            node: None,
            disk: None,
            path,
            size,
            queue: DiskQueue::default(),
            phase: Phase::Down,
            life: 0,
            disk_ops: 0,
            wanted: false,
            patience: None,
            why: "it has not been started".to_string(),
            timers: BTreeMap::new(),
        }
    }

    /// With its disk's queue served like this.
    pub(crate) fn queued(self, queue: DiskQueue) -> Slot {
        Slot { queue, ..self }
    }

    /// A place whose node has no disk, and does not run.
    pub(crate) fn diskless() -> Slot {
        Slot::new(PathBuf::new(), 0)
    }

    /// The place of a node of another process.
    pub(crate) fn elsewhere() -> Slot {
        Slot { phase: Phase::Elsewhere, ..Slot::new(PathBuf::new(), 0) }
    }

    /// Drops the node with all it knew, as if its process had died.
    pub(crate) fn drop_node(&mut self, why: &str) {
        self.node = None;
        self.disk = None;
        self.phase = Phase::Down;
        self.life += 1;
        self.timers.clear();
        self.wanted = false;
        self.patience = None;
        self.why = why.to_string();
    }

    /// Whether it takes part in the cluster, as far as its place knows.
    pub(crate) fn runs(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Draining)
    }

    /// Sets a timer, unless it is set already.
    pub(crate) fn set_timer(&mut self, timer: Timer, deadline: Nanos) {
        self.timers.entry(timer).or_insert(deadline);
    }

    /// Takes a timer that is set, if it is due at `now`.
    pub(crate) fn take_due(&mut self, timer: Timer, now: Nanos) -> bool {
        let due = self.timers.get(&timer).is_some_and(|deadline| *deadline <= now);
        if due {
            self.timers.remove(&timer);
        }
        due
    }

    /// Whether a [`Timer::Soon`] is set.
    pub(crate) fn has_soon(&self) -> bool {
        self.timers.contains_key(&Timer::Soon)
    }

    /// When the first timer is due, or its patience ends.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.timers.values().copied().chain(self.patience).min()
    }

    /// Its node's state, if it lives.
    pub(crate) fn status(&self) -> Option<NodeStatus> {
        self.node.as_ref().map(|n| n.status())
    }
}
