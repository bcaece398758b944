//! What a run begins with: its volume, its disks, how its nodes are run, and the requests of a trace.

use std::io::Read;
use std::ops::Range;

use weft_core::cluster::{Extent, Volume};
use weft_core::layout::Geometry;
use weft_core::node::{FillRates, NodeConfig, Rebuilding, UNBOUNDED};
use weft_core::store::{PlainConfig, StoreConfig, Superblock};
use weft_core::units::{MILLIS, Nanos, NodeId, SECTOR, VolumeId};
use weft_load::random::Streams;
use weft_load::trace::Pace;
use weft_load::workload::{Asks, Requests};
use weft_model::disk::{Disk, Model};
use weft_model::spec::Device;

use super::system::{JournalAt, Problem, Store, System};

pub(super) const VOLUME: VolumeId = VolumeId(1);

/// No request takes so long: nodes ask after nothing, and nobody is late.
const FOREVER: Nanos = 3_600_000 * MILLIS;

/// The requests of the system's trace, if they are a trace's, from its bytes.
pub(super) fn replay(
    system: &System,
    volume_bytes: u64,
    input: impl Read + 'static,
) -> Result<Option<Asks>, Problem> {
    let Requests::Trace(trace) = &system.workload.requests else { return Ok(None) };
    let pace = match system.workload.speed() {
        Some(speed) => Pace::AsTimed { speed },
        None => Pace::AsFast,
    };
    let asks = trace.replay(&trace.file, input, volume_bytes, pace);
    asks.map(Some).map_err(|e| of_trace(system, e))
}

pub(super) fn of_trace(system: &System, error: impl ToString) -> Problem {
    let file = system.workload.requests.trace().map_or("", |t| &t.file);
    Problem::new("workload.requests.trace.file", file, error)
}

/// Sectors of a disk's slots: as a real disk of this kind would get them.
fn slot(system: &System) -> u64 {
    let rotates =
        system.disks.spec().is_ok_and(|spec| matches!(spec.device, Device::Mechanical(_)));
    if rotates { Superblock::ROTATING_SLOT } else { Superblock::SLOT }
}

/// The bytes of each disk that its node has in NVRAM instead: those of the journal, or none.
pub(super) fn nvram(system: &System, disk_bytes: u64) -> Range<u64> {
    let (slot, journal) = (slot(system), Superblock::JOURNAL);
    if system.nodes.journal == JournalAt::Disk {
        return 0..0;
    }
    let superblock = Superblock::divide_in(slot, 0, 0, 1, disk_bytes / SECTOR, journal);
    let sectors = superblock.map_or(0..0, |sb| sb.journal_start()..sb.index_start());
    sectors.start * SECTOR..sectors.end * SECTOR
}

/// How nodes are run here: no request is cut, nobody loses patience.
pub(super) fn config(system: &System, gap: u64) -> NodeConfig {
    let plain = PlainConfig { gap, coalesces: system.nodes.coalesce };
    let nanos = |ms: f64| (ms * 1e6).round() as Nanos;
    let recovery = &system.recovery;
    let rate = recovery.mb_s.map_or(UNBOUNDED, |rate| (rate * 1e6).round() as u64);
    let filling = NodeConfig {
        rebuilds: recovery.at_once as usize,
        rebuilds_busy: recovery.at_once_busy as usize,
        rebuilding: Rebuilding {
            together: recovery.together_bytes,
            on_demand: recovery.on_demand,
            led_by: None,
        },
        fill: FillRates { floor: rate, ceiling: rate },
        ..NodeConfig::default()
    };
    if system.nodes.store == Store::Journalled {
        // As real ones.
        return NodeConfig {
            store: StoreConfig { full: Some(slot(system)), ..StoreConfig::default() },
            lock_timeout: nanos(system.volume.lock_timeout_ms),
            lock_servers: system.nodes.lock_servers as usize,
            lease: nanos(system.volume.lease_ms),
            ..filling
        };
    }
    NodeConfig {
        store: StoreConfig { plain: Some(plain), ..StoreConfig::default() },
        max_chunk: u64::MAX / 4,
        max_in_flight: u64::MAX / 4,
        // Hosts' messages cost time: what nobody waits for rides on others.
        notice_delay: match system.nodes.roles.hosts_are_nodes() {
            false => 500 * MILLIS,
            true => 60_000 * MILLIS,
        },
        lock_timeout: nanos(system.volume.lock_timeout_ms),
        lock_servers: system.nodes.lock_servers as usize,
        lease: nanos(system.volume.lease_ms),
        patience: FOREVER,
        timestamp_window: 60_000 * MILLIS,
        // There is nothing to place; only who fills a disk looks now and then whether hosts use it.
        place_after: if system.faults.is_empty() { 10_000 * MILLIS } else { 100 * MILLIS },
        ..filling
    }
}

/// All of all disks as one volume: as many disks as a stripe is wide, then as many again.
pub(super) fn volume(system: &System, data_bytes: u64) -> Result<Volume, Problem> {
    let (spec, layout) = system.layout()?;
    let geometry = Geometry::new(layout, system.volume.unit);
    let width = layout.width();
    let groups = usize::from(system.nodes.workers) / width;
    let stripes = system.stripes(data_bytes)?;
    let extent = |g: usize| {
        let columns = (0..width).map(|c| (NodeId(system.disk_of(g, c, width)), 0)).collect();
        Extent::new(g as u64 * stripes, columns)
    };
    let size = system.volume_bytes()?;
    // Groups that hold nothing of it are left out.
    let used = size.div_ceil(geometry.stripe_bytes()).div_ceil(stripes) as usize;
    let extents: Vec<Extent> = (0..groups.min(used)).map(extent).collect();
    let policy = system.policy();
    Ok(system
        .with_ranges(Volume { policy, ..Volume::new(VOLUME, "v", size, &spec, geometry, extents) }))
}

/// The devices of a run, as they are before anything is asked of them.
pub(super) fn disks(
    system: &System,
    model: &Model,
    streams: Streams,
    devices: usize,
) -> impl Iterator<Item = Disk> {
    let turn = model.revolution().filter(|_| !system.disks.synchronized);
    (0..devices as u64).map(move |n| {
        let phase = turn.map_or(0, |turn| streams.stream("phase", n).u64(0..turn));
        Disk::new(model, system.disks.scheduler, phase, streams.stream("disk", n))
    })
}

impl System {
    /// Models of its workers' disks, each a device of its own, as a run of it begins with.
    ///
    /// # Errors
    /// If there is no such model.
    pub fn model_disks(&self, replication: u64) -> Result<Vec<Disk>, Problem> {
        let model = Model::new(&self.disks.spec()?);
        let streams = Streams::new(self.measure.seed, replication);
        Ok(disks(self, &model, streams, self.nodes.workers.into()).collect())
    }

    /// Bytes of a sector of its disks.
    ///
    /// # Errors
    /// If there is no such model.
    pub fn sector_bytes(&self) -> Result<u64, Problem> {
        Ok(Model::new(&self.disks.spec()?).sector_bytes())
    }
}
