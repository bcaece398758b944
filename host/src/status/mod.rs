//! What `weft status --json` says, field by field. The array makes these, and the commands read them: what
//! people are shown is printed from the same. `docs/use/status.md` explains every field, and a test holds it to this.
//!
//! An answer of another version of Weft may lack a field: then it has its default.

mod errors;
mod exposed;
mod flattening;
mod health;
mod hosts;
mod lanes;
mod latency;
mod prediction;
mod promise;
mod schedule;
mod scrubs;
mod slots;
mod slow;
mod transfer;
mod ways;

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Sum;

use serde::{Deserialize, Serialize};

pub use errors::DiskErrors;
pub use exposed::{ExposedStatus, RangeStatus};
pub use flattening::{FlatteningOnDisk, FlatteningStatus};
pub use health::{Health, Summary};
pub use hosts::{HostStatus, LoginStatus};
pub use lanes::LaneStatus;
pub use latency::{LatencyStatus, VolumeLatency};
pub use prediction::{
    LayoutFigures, PredictedDisk, PredictedLayout, PredictedMode, PredictedMoves, PredictedRebuild,
    PredictedVolume, Prediction,
};
pub use promise::PromiseStatus;
pub use schedule::ScheduleStatus;
pub use scrubs::ScrubStatus;
pub use slots::{SlotsStatus, ThinStatus};
pub use slow::SlowStatus;
pub use transfer::TransferStatus;
pub use ways::{Detour, LinkStatus};

/// How an array is, as the process that is asked knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The number of the cluster map in force.
    pub epoch: u64,
    /// Whether no change of the map is under way.
    pub settled: bool,
    /// Seconds since this process was started.
    pub uptime_seconds: f64,
    /// The directory of the array, or of this process.
    pub directory: String,
    /// Where hosts connect, as URIs without the name of a volume.
    pub listens: Vec<String>,
    /// What one host may ask at a time.
    pub limits: RequestLimits,
    /// All volumes, also those that are being made or have been deleted.
    pub volumes: Vec<VolumeStatus>,
    /// The hosts that are connected to this process.
    pub hosts: Vec<HostStatus>,
    /// Logins of hosts at this process since it started.
    pub logins: LoginStatus,
    /// The threads that run the nodes of this process.
    pub lanes: Vec<LaneStatus>,
    /// All nodes that have not left.
    pub nodes: Vec<NodeStatus>,
    /// The scrubs that are under way, of all nodes.
    pub scrubs: Vec<ScrubStatus>,
    /// Whether the disks are equally full.
    pub balance: Evenness,
    /// The settings of the cluster, as `weft cluster set` takes them.
    pub settings: BTreeMap<String, String>,
    /// What the nodes have done since they were started, all together.
    pub totals: Totals,
    /// The group of processes; only if the array has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterStatus>,
    /// What an operator is to see to for known hosts.
    pub host_warnings: Vec<String>,
    /// The numbers that volumes, snapshots and clones get.
    pub numbers: NumberStatus,
    /// Why nothing else of this can be relied on; only from a process that reaches no majority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_off: Option<String>,
}

/// The numbers that volumes, snapshots and clones get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NumberStatus {
    /// How many have been given. None is given again.
    pub given: u32,
    /// How many there are.
    pub all: u32,
}

/// What one host may ask at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestLimits {
    /// Bytes of a request that are atomic together; longer ones are cut.
    pub max_request_bytes: u64,
    /// Bytes of all requests in work at a node; more wait.
    pub max_in_flight_bytes: u64,
}

/// What the nodes have done since they were started, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Requests of hosts.
    pub requests: u64,
    /// Messages between nodes, for requests.
    pub messages: u64,
    /// Messages that put requests in order.
    pub order_messages: u64,
    /// Bytes of data in messages.
    pub wire_bytes: u64,
    /// Round trips before hosts were answered.
    pub round_trips: u64,
    /// Reads of disks.
    pub disk_reads: u64,
    /// Writes of disks, without the journals'.
    pub disk_writes: u64,
    /// Records written to journals.
    pub journal_writes: u64,
    /// Messages that nobody waits for.
    pub notices: u64,
    /// Transactions begun again with a later timestamp.
    pub retries: u64,
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Totals>>(all: I) -> Totals {
        all.fold(Totals::default(), |a, b| Totals {
            requests: a.requests + b.requests,
            messages: a.messages + b.messages,
            order_messages: a.order_messages + b.order_messages,
            wire_bytes: a.wire_bytes + b.wire_bytes,
            round_trips: a.round_trips + b.round_trips,
            disk_reads: a.disk_reads + b.disk_reads,
            disk_writes: a.disk_writes + b.disk_writes,
            journal_writes: a.journal_writes + b.journal_writes,
            notices: a.notices + b.notices,
            retries: a.retries + b.retries,
        })
    }
}

/// What a node has done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// The counts summed in the totals.
    #[serde(flatten)]
    pub totals: Totals,
    /// Frames written to its journal; a frame holds one record or more.
    pub journal_frames: u64,
    /// Checkpoints of its journal.
    pub checkpoints: u64,
    /// Sectors that could not be read or did not match their checksum.
    pub erasures: u64,
    /// Pages of its table, superblocks and journals that were damaged.
    pub damaged: u64,
    /// Sectors that it has rebuilt.
    pub rebuilt_sectors: u64,
    /// Messages of requests that it did not heed, since who sent them showed no right to them.
    pub refused_strangers: u64,
}

/// What a node is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It takes part and has all that it should.
    Up,
    /// It takes part and fetches writes that it missed.
    CatchingUp,
    /// It takes part and its columns move to other nodes.
    Draining,
    /// It takes part, and its disk is expected to fail: no parity of its content is deferred.
    Suspect,
    /// It opens its disk.
    Opening,
    /// It stops in good order.
    Stopping,
    /// It has been let in and has not come yet.
    Expected,
    /// Its disk does not answer, or has no free space. It comes back when that is over.
    Hung,
    /// Its disk was much slower than the others for long. It comes back after a while.
    Slow,
    /// It does not take part.
    #[default]
    Down,
    /// It does not take part, and its columns have been given up.
    Lost,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            NodeState::Up => "up",
            NodeState::CatchingUp => "catching-up",
            NodeState::Draining => "draining",
            NodeState::Suspect => "suspect",
            NodeState::Opening => "opening",
            NodeState::Stopping => "stopping",
            NodeState::Expected => "expected",
            NodeState::Hung => "hung",
            NodeState::Slow => "slow",
            NodeState::Down => "down",
            NodeState::Lost => "lost",
        })
    }
}

/// A node and its disk. What a node of another process says of itself may be half a second old.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its number.
    pub node: u16,
    /// What it is doing.
    pub state: NodeState,
    /// Why it is down; only if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What keeps its disk from working while the node takes part: volumes cannot do without it, so hosts wait for it, or
    /// cannot write there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// How slow its reads or writes are; only if they take much longer than other nodes', as this process sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowStatus>,
    /// Since when it is down, and its future; only if it is down or lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absence: Option<AbsenceStatus>,
    /// Columns of extents that it has.
    pub columns: usize,
    /// Its disk: a file or a device. `null` of a host, and of a node that has said nothing.
    pub disk: Option<String>,
    /// Bytes of its disk.
    pub disk_bytes: Option<u64>,
    /// Bytes of its disk that hold volumes' data, or are kept for it; `null` of a host.
    pub used_bytes: Option<u64>,
    /// Bytes of its disk that hold no volume's data and could; `null` if it gets no columns.
    pub free_bytes: Option<u64>,
    /// How its disk is driven: `uring` or `sync`; `null` while it is closed.
    pub backend: Option<String>,
    /// The order in which waiting operations of its disk are begun.
    pub queue: Option<String>,
    /// Operations that its disk is given at a time.
    pub queue_depth: Option<u32>,
    /// Operations that wait for their turn at its disk.
    pub queued: Option<usize>,
    /// The lane of its process that it is in.
    pub lane: Option<usize>,
    /// Sectors that it has yet to catch up on; `null` until it knows.
    pub stale_sectors: Option<u64>,
    /// Bytes of copied writes on its disk that have yet to be folded; only if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_bytes: Option<u64>,
    /// How many slots of its disk are used for what; only while it runs, and if the disk has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<SlotsStatus>,
    /// Whether damage destroyed its disk's record of used slots; only if it did.
    #[serde(skip_serializing_if = "is_false")]
    pub lost_claims: bool,
    /// What thin volumes have on its disk. In a status it is part of what each volume uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thin: Vec<ThinStatus>,
    /// How far its disk is with each volume that is flattened. A status has it at the volume.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flattening: Vec<FlatteningOnDisk>,
    /// Requests of hosts that it works on; only while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<usize>,
    /// Whether nothing is in work or unsettled at it; only while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<bool>,
    /// What keeps it from being quiet, in words; only while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// Seconds that its machine's clock is ahead of the cluster's time; only if it is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_is_ahead_seconds: Option<u64>,
    /// Bytes that it rebuilds in a second; only while it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuilt_bytes_per_second: Option<u64>,
    /// Seconds until it has rebuilt all, at that rate; only while it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild_seconds_left: Option<u64>,
    /// Errors of its disk; only if it has one, and its process says them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<DiskErrors>,
    /// What it has done since it was started; only while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// The exposure by deferred parity on its disk, of each volume that has or had any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exposed: Vec<ExposedStatus>,
    /// Its scrubs that are under way. In a status they are in a list of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scrubs: Vec<ScrubStatus>,
    /// Whether it is a host that is its own controller, and has no disk; only if it is.
    #[serde(skip_serializing_if = "is_false")]
    pub host: bool,
    /// Whether it is there to be the controller, and has neither disk nor hosts; only if it is.
    #[serde(skip_serializing_if = "is_false")]
    pub controller: bool,
    /// The name of its process; only in a cluster of processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where other processes reach its process, as `address:port`; only in a cluster of processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The failure domains that it is in, by label; only in a cluster of processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// The number of its process; only in a cluster of processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u16>,
}

fn is_false(is: &bool) -> bool {
    !is
}

/// A node that is down or has been given up, as the process knows that leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AbsenceStatus {
    /// Seconds for which that process has seen it down.
    pub down_seconds: u64,
    /// Whether its disk has failed; only if it has.
    #[serde(skip_serializing_if = "is_false")]
    pub disk_failed: bool,
    /// Seconds until it is given up without an operator; only if it will be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up_in_seconds: Option<u64>,
    /// Why it is not given up though it is time; only then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hindrance: Option<String>,
}

/// What a volume is like now: the worst of its extents decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeMode {
    /// This process is cut off, and does not know.
    #[serde(rename = "not served")]
    NotServed,
    /// It is being made or deleted, or whoever did that is gone.
    Unfinished,
    /// It has been deleted, and can be brought back.
    Deleted,
    /// Some extent lacks more than its layout bears.
    Failed,
    /// Some column is on a node that is down.
    Degraded,
    /// Some column is not caught up.
    Reconstructing,
    /// Some column moves to another node.
    Migrating,
    /// Nothing of that.
    #[default]
    FaultFree,
}

impl fmt::Display for VolumeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            VolumeMode::NotServed => "not served",
            VolumeMode::Unfinished => "unfinished",
            VolumeMode::Deleted => "deleted",
            VolumeMode::Failed => "failed",
            VolumeMode::Degraded => "degraded",
            VolumeMode::Reconstructing => "reconstructing",
            VolumeMode::Migrating => "migrating",
            VolumeMode::FaultFree => "fault-free",
        })
    }
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// The name of its target, for iSCSI.
    pub iscsi_target: String,
    /// Bytes that hosts see.
    pub size: u64,
    /// Whether it is thin: it takes space when it is written.
    pub thin: bool,
    /// The volume that it is a snapshot of; only if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_of: Option<String>,
    /// When the snapshot was taken, UTC; only if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// The snapshot whose content it shows where it was not written since; only if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<String>,
    /// What exports and imports go by; only for snapshots, and volumes with imported ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferStatus>,
    /// How far it is with becoming independent of that; only while it does (`weft volume flatten`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flattening: Option<FlatteningStatus>,
    /// Its snapshots.
    pub snapshots: usize,
    /// When snapshots of it are taken without an operator; only if they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<ScheduleStatus>,
    /// Bytes of it that have space on disks, to the slot; only if it is thin. What lies below it is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Bytes that the deletion of the snapshot alone would free, to the slot; only if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_bytes: Option<u64>,
    /// The name of its layout.
    pub layout: String,
    /// Bytes of a stripe unit.
    pub stripe_unit: u64,
    /// Whether its writes go through the journal.
    pub journal: bool,
    /// What it is like now.
    pub mode: VolumeMode,
    /// Its extents.
    pub extents: usize,
    /// Extents with a column that is being rebuilt.
    pub extents_reconstructing: usize,
    /// Extents with a column that moves.
    pub extents_migrating: usize,
    /// Extents with a column on a node that is down, which their layout bears.
    pub extents_degraded: usize,
    /// Extents that bear no more losses; they may be degraded too.
    pub extents_critical: usize,
    /// Extents that lack more than their layout bears.
    pub extents_failed: usize,
    /// Its stripes.
    pub stripes: u64,
    /// Stripes of degraded extents.
    pub stripes_degraded: u64,
    /// Stripes of such extents.
    pub stripes_critical: u64,
    /// Stripes of failed extents.
    pub stripes_failed: u64,
    /// The nodes that its failed extents lack.
    pub missing: Vec<MissingNode>,
    /// The nodes whose disks have lost writes that they had promised.
    pub forgot: Vec<u16>,
    /// Nodes that may be lost together now, whichever they are; `null` if this process is cut off.
    pub survives: Option<usize>,
    /// The share of sets of one node more that may be lost, 0 to 1; `null` if there is none.
    pub survives_next: Option<f64>,
    /// The label of the failure domains that its columns are kept apart by.
    pub apart: String,
    /// Failure domains that may be lost together now, by label; `null` if this process is cut off.
    pub bears: Option<BTreeMap<String, usize>>,
    /// Seconds for which it can be brought back yet, while nobody needs its room; only if it has been deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_seconds_left: Option<u64>,
    /// How long requests took that this process answered in the last minute or two; only if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<VolumeLatency>,
    /// Requests of hosts of this process that wait for its limits.
    pub requests_limited: usize,
    /// How its promise is kept; only if it has one (`p99`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise: Option<PromiseStatus>,
    /// The nodes that hold its columns.
    pub nodes: Vec<u16>,
    /// Connections of hosts.
    pub clients: u64,
    /// The hosts that may use it, and whether they may write; `null` if all may.
    pub hosts: Option<BTreeMap<String, String>>,
    /// How it is reserved, and by whom; `null` if it is not.
    pub reservation: Option<String>,
    /// The registrants of its reservation.
    pub registrants: Vec<String>,
    /// Whether several hosts may use it though nothing orders their requests.
    pub unordered_sharing: bool,
    /// The exposure by deferred parity, now and so far, by the nodes' reports; only if parity may wait, or
    /// something is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed: Option<ExposedStatus>,
    /// The ranges that have a redundancy of their own; only if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<RangeStatus>,
    /// The node that is its controller; only if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<u16>,
    /// The node that is, when the process of that one is lost; only if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_backup: Option<u16>,
    /// Notes on its choices; only if something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Its other choices, by their names, in words.
    #[serde(flatten)]
    pub policy: BTreeMap<String, String>,
}

impl VolumeStatus {
    /// One of its choices, in words; a question mark if nothing is said of it.
    pub fn choice(&self, name: &str) -> &str {
        self.policy.get(name).map_or("?", String::as_str)
    }
}

/// A node that failed extents lack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissingNode {
    /// Its number.
    pub node: u16,
    /// The name of its process; `null` in an array of one process.
    pub name: Option<String>,
    /// Whether it is up, and has not caught up.
    pub up: bool,
    /// Failed extents that lack it.
    pub extents: usize,
}

/// Whether the disks are equally full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evenness {
    /// Whether columns are being moved until the disks are equally full.
    pub rebalancing: bool,
    /// Whether the disks could be more equally full.
    pub uneven: bool,
    /// Per cent of the fullest disk that is used.
    pub fullest_percent: f64,
    /// Per cent of the emptiest disk that is used.
    pub emptiest_percent: f64,
}

/// The group of processes, as this one knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterStatus {
    /// The number of this process.
    pub node: u16,
    /// The nodes in this process.
    pub nodes: Vec<u16>,
    /// The process that leads; `null` if this one knows none.
    pub leader: Option<u16>,
    /// The term of Raft.
    pub term: u64,
    /// Whether this process serves hosts.
    pub serving: bool,
    /// The processes that vote.
    pub voters: Vec<u16>,
    /// Whether most of the others say that this process is none of the cluster.
    pub disowned: bool,
    /// The processes that this one is connected to.
    pub connected: Vec<u16>,
    /// Whether this process has left permanently.
    pub left: bool,
    /// How this process reaches those that it is connected to.
    pub links: Vec<LinkStatus>,
    /// Pairs of processes known to have no good direct connection.
    pub detours: Vec<Detour>,
    /// What an operator should see to.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests;
