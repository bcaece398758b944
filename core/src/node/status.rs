//! What a node has done, and how it stands.

use std::collections::BTreeMap;

use super::Node;
use super::ScrubProgress;
use crate::cluster::Area;
use crate::plan::Totals;
use crate::store::{SlotCounts, StoreCounters};
use crate::units::{Epoch, Nanos, NodeId, VolumeId};

/// What a node has done; the first part as [`Totals`] counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Messages, bytes and round trips; disk transfers are in `store`.
    pub totals: Totals,
    /// Messages sent to and from the roles that order requests: lock server and sequencer.
    pub order_messages: u64,
    /// Notices sent.
    pub notices: u64,
    /// Bytes that were added up (xor, or multiplied in the code's field), the store's apart.
    pub xor_bytes: u64,
    /// Those of them that made what a worker has its disk write.
    pub summed_to_write: u64,
    /// Messages that were not heeded, since who sent them showed no right to what they ask or say.
    pub refused_strangers: u64,
    /// Bytes of data that have passed this node as a controller that is to see none.
    pub controlled_bytes: u64,
    /// Writes of which parity was not told, since it was marked as out of date already.
    pub relied_on_marks: u64,
    /// Attempts at writes that were kept as copies, and folds begun.
    pub copied: (u64, u64),
    /// Writes that were taken for done without their originator, while a disk could not be asked that was to hold data of
    /// them, and parity waited: nothing may determine what it was to hold.
    pub settled_in_part: u64,
    /// Host requests answered.
    pub requests: u64,
    /// Transactions begun again with a later timestamp.
    pub retries: u64,
    /// Those of them that are reads which began again without the columns that kept them waiting.
    pub hedged: u64,
    /// Sectors rebuilt.
    pub rebuilt_sectors: u64,
    /// Sectors that could not be read, or did not match their checksum, and have been written again.
    pub mended_sectors: u64,
    /// The store's own.
    pub store: StoreCounters,
}

impl std::hash::Hash for NodeCounters {
    /// Counters decide nothing: states that differ only in them are one.
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// What is exposed of a volume by parity that waits on a disk, or on several (AFRAID 3.2 and 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exposed {
    /// Units of parity that are out of date, at least in part.
    pub stripes: u64,
    /// Bytes of data that they cover: the parity lag.
    pub bytes: u64,
    /// Most bytes at once, so far.
    pub most_bytes: u64,
    /// Bytes of data that are lost for good.
    pub lost_bytes: u64,
    /// For how long the oldest is out of date, or a little less.
    pub age: Nanos,
    /// For how long it has been looked.
    pub watched: Nanos,
    /// For how long of that something was exposed.
    pub unprotected: Nanos,
    /// The bytes by the time for which they were exposed; by `watched` that is the mean.
    pub byte_time: u128,
}

impl Exposed {
    /// What it is when nothing has changed for so long.
    pub fn after(self, span: Nanos) -> Exposed {
        Exposed {
            watched: self.watched + span,
            unprotected: self.unprotected + if self.stripes > 0 { span } else { 0 },
            byte_time: self.byte_time + u128::from(self.bytes) * u128::from(span),
            ..self
        }
    }

    /// Whether there is anything to be kept over the node's lives.
    pub fn is_measured(&self) -> bool {
        self.most_bytes > 0
    }

    /// The mean of the bytes that were exposed.
    pub fn mean_bytes(&self) -> u64 {
        (self.byte_time / u128::from(self.watched.max(1))) as u64
    }
}

/// A node's state at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The epoch it serves in.
    pub epoch: Epoch,
    /// Whether it serves.
    pub serving: bool,
    /// Sectors of its disk that it has yet to catch up on; `None` until it knows.
    pub stale_sectors: Option<u64>,
    /// Bytes of copies on its disk that no parity describes yet.
    pub copied_bytes: u64,
    /// How many slots of its disk are used for what, if it has any.
    pub slots: Option<SlotCounts>,
    /// How many slots of its disk each thin volume has.
    pub thin: Vec<(VolumeId, u64)>,
    /// How many slots of the volume below each volume shows.
    pub shown: Vec<(VolumeId, u64)>,
    /// How far its disk is with each volume that is flattened, in thousandths.
    pub flattening: Vec<(VolumeId, u64)>,
    /// Whether that waits for space on its disk.
    pub flattens_without_space: bool,
    /// Whether damage destroyed its disk's record of used slots. The disk has to be replaced.
    pub has_lost_claims: bool,
    /// Host requests in work.
    pub in_flight: usize,
    /// The scrubs in work: of which volumes, and how far they are.
    pub scrubs: Vec<(VolumeId, ScrubProgress)>,
    /// What is exposed of each volume by parity that waits on its disk.
    pub exposed: Vec<(VolumeId, Exposed)>,
    /// The same of the areas of volumes that have ranges.
    pub exposed_areas: Vec<((VolumeId, Area), Exposed)>,
    /// Nothing is in work, nothing unsettled, everything in place.
    pub quiet: bool,
    /// What keeps it from being quiet, in words.
    pub waiting: String,
    /// By how much its machine's clock is ahead of the cluster's time, if it is wrong; 0 else.
    pub clock_is_ahead: Nanos,
    /// What it has done.
    pub counters: NodeCounters,
}

/// At what a node is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlowAt {
    /// It answers reads late.
    Reads,
    /// It votes on writes late.
    Writes,
}

impl SlowAt {
    /// All there are.
    pub const ALL: [SlowAt; 2] = [SlowAt::Reads, SlowAt::Writes];
}

/// A node that is much slower than the others, and how long half of its answers take at most, and half of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowNode {
    /// Which.
    pub node: NodeId,
    /// At what.
    pub at: SlowAt,
    /// How long it takes.
    pub takes: Nanos,
    /// How long the others take.
    pub others: Nanos,
    /// For how long its answers have shown it, without a break.
    pub seen_for: Nanos,
}

impl Node {
    /// What was measured of what its disk exposes in earlier lives: it counts with what comes. To be said before the node
    /// enters an epoch.
    pub fn measured_before(
        &mut self,
        before: impl IntoIterator<Item = ((VolumeId, Area), Exposed)>,
    ) {
        self.worker.measured_before(before);
    }

    /// How many slots of its disk each volume has, but for those whose space is reserved.
    fn used_by_volume(&self) -> Vec<(VolumeId, u64)> {
        self.by_volume(self.worker.store.used_by_space())
    }

    /// How many slots of the volume below each volume shows on its disk.
    fn shown_by_volume(&self) -> Vec<(VolumeId, u64)> {
        self.by_volume(self.worker.store.shown_by_space())
    }

    /// Numbers of address spaces, as those of their volumes.
    fn by_volume(&self, numbers: Vec<(u64, u64)>) -> Vec<(VolumeId, u64)> {
        if numbers.is_empty() {
            return Vec::new();
        }
        let volumes: BTreeMap<u64, VolumeId> =
            self.map.volumes.values().map(|volume| (volume.space(), volume.id)).collect();
        numbers.into_iter().filter_map(|(space, n)| Some((*volumes.get(&space)?, n))).collect()
    }

    /// How far its disk is with each volume that is flattened.
    fn flattening(&self) -> Vec<(VolumeId, u64)> {
        self.by_volume(self.worker.store.flattening())
    }

    /// What is exposed of each volume by parity that waits on its disk, now and so far.
    pub fn exposed(&self) -> impl Iterator<Item = (VolumeId, Exposed)> + '_ {
        let all = self.worker.exposed(self.outbox.now);
        all.filter(|((_, area), _)| *area == Area::Whole).map(|((id, _), exposed)| (id, exposed))
    }

    /// Stripes and bytes of a volume that are exposed on all disks now, by the account that it keeps as the controller.
    pub fn exposed_by_account(&self, volume: VolumeId) -> Option<(u64, u64)> {
        let exposed = self.originator.accounted(volume, self.outbox.now)?;
        Some((exposed.stripes, exposed.bytes))
    }

    /// This part of the work that no host waits for may go on from now on, in thousandths ([`ALL`](super::ALL)).
    pub fn gives_way(&mut self, part: u64) {
        self.background.gives_way(part);
        self.worker.store.merge_in_part(part);
    }

    /// Nodes that are much slower than the others at what its hosts ask.
    pub fn slow_nodes(&self) -> Vec<SlowNode> {
        self.originator.slow_nodes()
    }

    /// How long half of a node's answers to its hosts take at most; 0 if that is not known.
    pub fn takes(&self, at: SlowAt, node: NodeId) -> Nanos {
        self.originator.takes(at, node)
    }

    /// The same of the areas of volumes that have ranges.
    pub fn exposed_areas(&self) -> impl Iterator<Item = ((VolumeId, Area), Exposed)> + '_ {
        self.worker.exposed(self.outbox.now).filter(|((_, area), _)| *area != Area::Whole)
    }

    /// Its state at a glance.
    pub fn status(&self) -> NodeStatus {
        let mut counters = self.outbox.counters;
        counters.retries = self.originator.retries();
        counters.rebuilt_sectors = self.worker.rebuilt_sectors();
        counters.mended_sectors = self.worker.mended_sectors();
        counters.store = self.worker.store.counters();
        counters.totals.disk_reads = counters.store.disk_reads;
        counters.totals.disk_writes = counters.store.disk_writes;
        counters.totals.journal_writes = counters.store.journal_writes;
        NodeStatus {
            clock_is_ahead: self.clock_is_ahead,
            epoch: self.map.epoch,
            serving: self.serving,
            stale_sectors: self.stale_sectors(),
            copied_bytes: self.worker.store.copied_bytes(),
            slots: self.worker.store.slots(),
            thin: self.used_by_volume(),
            shown: self.shown_by_volume(),
            flattening: self.flattening(),
            flattens_without_space: self.worker.store.flattens_without_space(),
            has_lost_claims: self.worker.store.has_lost_claims(),
            exposed: self.exposed().collect(),
            exposed_areas: self.exposed_areas().collect(),
            in_flight: self.endpoint.in_flight() + self.originator.in_flight()
                - self.controlling.in_work(),
            scrubs: self.originator.scrubs(),
            quiet: !self.is_busy() && self.serving,
            waiting: format!(
                "{}; {}; {}",
                self.sequencing.waiting(),
                self.originator.waiting(),
                self.worker.waiting()
            ),
            counters,
        }
    }
}
