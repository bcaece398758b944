//! The description of an array, its volume, its hosts and what to measure.
//!
//! - [`hardware`]: nodes, disks, links and hosts
//! - [`redundancy`]: when parity is computed
//! - [`ranges`]: and where otherwise
//! - [`faults`]: what happens to them, and how they go about it
//! - [`fabric`]: what of a torus or a hierarchy does not fit
//! - [`fit`]: what does not fit the rest

mod fabric;
mod faults;
mod fit;
mod hardware;
mod ranges;
mod redundancy;

use serde::{Deserialize, Serialize};
use weft_core::layout::LayoutSpec;
use weft_core::policy::Roles::Central;
use weft_core::policy::{
    CalculatedAt, Commit, Dispatch, Ordering, Policy, Preference, SequencerForm, Setting,
};
use weft_core::store::Superblock;
use weft_core::units::SECTOR;
pub use weft_load::workload::Problem;
use weft_load::workload::{Generator, Workload};
use weft_model::disk::Model;

pub use faults::{Fault, FaultKind, Recovery};
use fit::within;
pub use hardware::{
    Arbitration, Commands, Disks, Fabric, Hierarchy, Hosts, JournalAt, Links, MessageTimes, Nodes,
    Roles, Store, Switching, Torus,
};

pub use ranges::RangeSpec;
pub use redundancy::RedundancySpec;

use super::{WarmUp, by_word, capacity};

/// The most workers with a link from each to each: 16 million links.
const MOST_LINKED: u16 = 4_096;

/// An array and what is done with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// The nodes.
    #[serde(default)]
    pub nodes: Nodes,
    /// Their disks.
    #[serde(default)]
    pub disks: Disks,
    /// What is between them.
    #[serde(default)]
    pub links: Links,
    /// What is between them and their hosts.
    #[serde(default)]
    pub hosts: Hosts,
    /// The volume.
    #[serde(default)]
    pub volume: VolumeSpec,
    /// What hosts ask.
    pub workload: Workload,
    /// What happens to nodes and disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// How the array goes about it.
    #[serde(default)]
    pub recovery: Recovery,
    /// What to measure.
    #[serde(default)]
    pub measure: Measure,
}

/// The volume: all of all disks if nothing else is said, and one value for each choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VolumeSpec {
    /// Where data and parity lie.
    pub layout: Layout,
    /// Bytes of a stripe unit.
    pub unit: u64,
    /// How many disks a stripe is on, if not all.
    pub width: Option<u16>,
    /// How many bytes, if not all that the disks have room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Where parity is computed; where it is cheapest if open.
    #[serde(with = "by_word", rename = "calculator")]
    pub calculated_at: Option<CalculatedAt>,
    /// Whether parity may be computed from what is not written, where that reads less
    /// (TickerTAIP's large-stripe policy).
    pub stripes: Stripes,
    /// Who works out what each worker does.
    #[serde(with = "by_word")]
    pub dispatch: Dispatch,
    /// When a write is decided.
    #[serde(with = "by_word")]
    pub commit: Commit,
    /// Whether writes are in the journal before they are decided, and answered then; otherwise when
    /// they are in place.
    pub journal: bool,
    /// When parity is computed.
    pub redundancy: RedundancySpec,
    /// Where it is computed by other rules than in the rest of the volume.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<RangeSpec>,
    /// Who goes first of those that overlap.
    #[serde(with = "by_word")]
    pub ordering: Ordering,
    /// With a sequencer: who keeps the graph of requests.
    #[serde(with = "by_word")]
    pub sequencer: SequencerForm,
    /// For how many milliseconds a lock that a device serves is waited for before deadlock is
    /// presumed.
    pub lock_timeout_ms: f64,
    /// For how many milliseconds a lock is good that nobody gives back.
    pub lease_ms: f64,
}

impl Default for VolumeSpec {
    fn default() -> Self {
        VolumeSpec {
            layout: Layout("raid5".to_string()),
            unit: 4096,
            width: None,
            size_bytes: None,
            calculated_at: Some(CalculatedAt::Parity),
            stripes: Stripes::Large,
            dispatch: Dispatch::Collaborative,
            commit: Commit::Late,
            journal: false,
            redundancy: RedundancySpec::default(),
            ranges: Vec::new(),
            ordering: Ordering::Timestamps,
            sequencer: SequencerForm::Centralized,
            lock_timeout_ms: 200.0,
            lease_ms: 4_000.0,
        }
    }
}

/// A layout's name, as `weft volume create` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout(pub String);

/// How a stripe that is written in part is dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stripes {
    /// Always by reading what is written over.
    Small,
    /// By reading the rest, where that is less.
    Large,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Requests before measuring begins.
    pub warm_up: WarmUp,
    /// Requests that are measured.
    pub requests: u64,
    /// For how many seconds is measured, if not for so many requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Whether it is measured until all faults are past and all disks are whole again, if not for so
    /// many requests.
    pub until_whole: bool,
    /// Independent runs.
    pub replications: u32,
    /// Where chance begins.
    pub seed: u64,
}

impl Default for Measure {
    fn default() -> Self {
        Measure {
            warm_up: WarmUp::default(),
            requests: 10_000,
            seconds: None,
            until_whole: false,
            replications: 2,
            seed: 1,
        }
    }
}

impl System {
    /// The paper's array (TickerTAIP 4.2) under this workload.
    pub fn under(workload: Workload) -> System {
        System {
            nodes: Nodes::default(),
            disks: Disks::default(),
            links: Links::default(),
            hosts: Hosts::default(),
            volume: VolumeSpec::default(),
            workload,
            faults: Vec::new(),
            recovery: Recovery::default(),
            measure: Measure::default(),
        }
    }

    /// Five nodes, of which each has a disk and takes requests, with RAID 5 and stripe units of 64 KiB:
    /// what `weft up` makes if nothing is said. All else is as in the paper.
    pub fn like_weft_up(workload: Workload) -> System {
        let mut system = System::under(workload);
        (system.nodes.workers, system.nodes.originators) = (5, 5);
        system.volume.layout = Layout("raid5".to_string());
        system.volume.unit = 64 << 10;
        system
    }

    /// Checks that every value is in its range and that they fit one another.
    ///
    /// # Errors
    /// The first that is not, by its key.
    pub fn check(&self) -> Result<(), Problem> {
        let workers = self.nodes.workers;
        within("nodes.workers", f64::from(workers))?;
        within("nodes.originators", f64::from(self.nodes.originators))?;
        if self.nodes.originators > workers {
            let expected = format!(
                "there are {workers} workers; give 0 to {workers} ({} if left out)",
                Nodes::default().originators
            );
            return Err(Problem::new("nodes.originators", self.nodes.originators, expected));
        }
        self.check_roles()?;
        within("nodes.mips", self.nodes.mips)?;
        if let Some(processors) = self.nodes.processors {
            within("nodes.processors", f64::from(processors))?;
        }
        if let Some(devices) = self.disks.devices {
            within("disks.devices", f64::from(devices))?;
        }
        if let Some(so_many) = self.disks.per_bus {
            within("disks.per_bus", f64::from(so_many))?;
        }
        if let Some(rate) = self.nodes.memory_mb_s {
            within("nodes.memory_mb_s", rate)?;
        }
        self.check_path_lengths()?;
        self.check_switch()?;
        if self.links.fabric == Fabric::PointToPoint && workers > MOST_LINKED {
            let expected = format!(
                "{workers} workers would need a link for each pair; give switch or bus beyond \
                 {MOST_LINKED} workers"
            );
            return Err(Problem::new("links.fabric", "point-to-point", expected));
        }
        self.links.check("links")?;
        self.check_fabric()?;
        if let Some(links) = &self.hosts.links {
            links.check("hosts.links")?;
        }
        within("hosts.ask_us", self.hosts.ask_us)?;
        within("hosts.reply_us", self.hosts.reply_us)?;
        within("hosts.wake_us", self.hosts.wake_us)?;
        within("hosts.ask_byte_ns", self.hosts.ask_byte_ns)?;
        within("hosts.reply_byte_ns", self.hosts.reply_byte_ns)?;
        within("nodes.wake_us", self.nodes.wake_us)?;
        self.check_threads()?;
        within("hosts.message_us", self.hosts.message_us)?;
        within("hosts.clock_ms", self.hosts.clock_ms)?;
        within("measure.warm_up", self.measure.warm_up.requests() as f64)?;
        within("measure.requests", self.measure.requests as f64)?;
        if let Some(seconds) = self.measure.seconds {
            within("measure.seconds", seconds)?;
        }
        within("measure.replications", f64::from(self.measure.replications))?;
        within("volume.lock_timeout_ms", self.volume.lock_timeout_ms)?;
        within("volume.lease_ms", self.volume.lease_ms)?;
        let mut said = vec![Setting::Commit(self.volume.commit)];
        // Nobody says where a central one computes parity: it can be nowhere else.
        said.extend(self.nodes.roles.chooses().1.filter(|r| *r != Central).map(Setting::Roles));
        if let Err(why) = self.policy().check(&said) {
            return Err(match self.nodes.roles.chooses() {
                (word, Some(_)) => Problem::new("nodes.roles", word, why),
                _ => Problem::new("volume.commit", self.volume.commit, why),
            });
        }
        let unit = self.volume.unit;
        if unit == 0 || !unit.is_multiple_of(SECTOR) || unit > 16 << 20 {
            return Err(Problem::new("volume.unit", unit, "give a multiple of 4096, to 16 MiB"));
        }
        if let Some(width) = self.volume.width
            && (width == 0 || !workers.is_multiple_of(width))
        {
            let expected = format!("give a number that divides the {workers} workers into groups");
            return Err(Problem::new("volume.width", width, expected));
        }
        let (_, layout) = self.layout()?;
        let disk = self.disks.spec()?;
        self.check_store()?;
        self.check_redundancy()?;
        self.check_driver()?;
        let of_workload = |p: Problem| match p.key.as_str() {
            "volume" => p,
            _ => p.within("workload"),
        };
        self.workload.check().map_err(of_workload)?;
        let redundancy = layout.width() as f64 / layout.data_columns() as f64;
        capacity::check(self, &disk, redundancy)?;
        let volume = self.volume_bytes()?;
        Generator::new(&self.workload, volume).map_err(of_workload)?;
        self.check_faults()?;
        self.check_trace(&disk)
    }

    /// What the volume chooses. The paper's large-stripe policy leaves a stripe's strategy to cost.
    pub fn policy(&self) -> Policy {
        let volume = &self.volume;
        let policy = Policy {
            strategy: (volume.stripes == Stripes::Small).then_some(Preference::Small),
            calculated_at: volume.calculated_at,
            dispatch: volume.dispatch,
            commit: volume.commit,
            ordering: volume.ordering,
            sequencer: volume.sequencer,
            journal: volume.journal,
            redundancy: volume.redundancy.policy(),
            ..Policy::default()
        };
        policy.with(self.nodes.roles.chooses().1.map(Setting::Roles))
    }

    /// How many requests a run measures at most: `measure.requests`, or those of its trace that
    /// are not for the warm-up.
    pub fn measured_requests(&self) -> u64 {
        let trace = self.workload.requests.trace().and_then(|t| t.surveyed.as_ref());
        let most =
            trace.map_or(u64::MAX, |t| t.requests.saturating_sub(self.measure.warm_up.requests()));
        self.measure.requests.min(most)
    }

    /// Bytes of each disk: of a device, or of an equal part of one.
    ///
    /// # Errors
    /// If there is no such model.
    pub fn disk_bytes(&self) -> Result<u64, Problem> {
        let device = Model::new(&self.disks.spec()?);
        let bytes = device.sectors() * device.sector_bytes();
        let disks = |devices: u16| u64::from(self.nodes.workers.div_ceil(devices));
        let parts = self.disks.devices.map_or(1, disks);
        // Whole sectors of 4,096 bytes, if it is cut at all.
        let room = if parts == 1 { bytes } else { bytes / parts / SECTOR * SECTOR };
        match self.disks.size_bytes {
            None => Ok(room),
            Some(size) if size > 0 && size <= room && size.is_multiple_of(SECTOR) => Ok(size),
            Some(size) => {
                let expected = format!("give a multiple of {SECTOR}, at most the {room} of each");
                Err(Problem::new("disks.size_bytes", size, expected))
            }
        }
    }

    /// Bytes for data on each disk: all of it, or what journal and table leave.
    ///
    /// # Errors
    /// If there is no such model, or the disk is too small.
    pub fn data_bytes(&self) -> Result<u64, Problem> {
        let bytes = self.disk_bytes()?;
        if self.nodes.store == Store::Plain {
            return Ok(bytes);
        }
        let offered = Superblock::offered_by(bytes / SECTOR);
        Ok(offered.map_err(|e| Problem::new("nodes.store", "journalled", e))? * SECTOR)
    }

    /// Bytes of the volume.
    ///
    /// # Errors
    /// If the disks have no room for it.
    pub fn volume_bytes(&self) -> Result<u64, Problem> {
        let (_, layout) = self.layout()?;
        let stripes = stripes_in(&layout, self.data_bytes()? / self.volume.unit);
        let groups = u64::from(self.nodes.workers) / layout.width() as u64;
        let room = groups * stripes * self.volume.unit * layout.data_columns() as u64;
        match self.volume.size_bytes {
            None => Ok(room),
            Some(size) if size > 0 && size <= room && size.is_multiple_of(SECTOR) => Ok(size),
            Some(size) => {
                let expected =
                    format!("give a multiple of {SECTOR}, at most the {room} of all disks");
                Err(Problem::new("volume.size_bytes", size, expected))
            }
        }
    }

    /// Stripes of an extent that has all the room of its disks.
    pub(super) fn stripes(&self, data_bytes: u64) -> Result<u64, Problem> {
        let (_, layout) = self.layout()?;
        Ok(stripes_in(&layout, data_bytes / self.volume.unit))
    }

    /// The layout, over as many disks as a stripe is on.
    pub(super) fn layout(&self) -> Result<(LayoutSpec, weft_core::layout::Layout), Problem> {
        let name = &self.volume.layout.0;
        let wrong = |e: &dyn ToString| Problem::new("volume.layout", name, e.to_string());
        let spec: LayoutSpec = name.parse().map_err(|e| wrong(&e))?;
        let width = usize::from(self.volume.width.unwrap_or(self.nodes.workers));
        let layout = spec.over(width).map_err(|e| wrong(&e))?;
        Ok((spec, layout))
    }
}

/// How many stripes there are where a column has so many units: less where a column has two units of some.
fn stripes_in(layout: &weft_core::layout::Layout, units: u64) -> u64 {
    let mut stripes = units;
    while layout.most_units(stripes) > units {
        stripes -= (layout.most_units(stripes) - units).div_ceil(2);
    }
    stripes
}
