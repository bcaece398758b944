//! The description of an array, its volume, its hosts and what to measure.

use serde::{Deserialize, Serialize};
use weft_core::layout::LayoutSpec;
use weft_core::policy::{
    Commit, Dispatch, Ordering, ParityAt, Policy, Preference, SequencerForm, Setting,
};
use weft_core::store::Superblock;
use weft_core::units::SECTOR;
pub use weft_load::workload::Problem;
use weft_load::workload::{Arrivals, Generator, Spacing, Think, Workload};
use weft_model::disk::Model;
use weft_model::schedule::Policy as Scheduler;
use weft_model::spec::{self, Device, Spec};

use super::costs::PathLengths;
use super::{WarmUp, by_word, capacity, parameters};

/// The most workers with a link from each to each: 16 million links.
const MOST_LINKED: u16 = 4_096;

/// Nodes that timestamps can tell apart.
const MOST_TIMESTAMPED: u64 = 1 << 12;

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
    /// What to measure.
    #[serde(default)]
    pub measure: Measure,
}

/// Who takes hosts' requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Roles {
    /// Nodes of the array (TickerTAIP).
    #[default]
    Array,
    /// Each host for itself: a node without disk, with a processor of its own, that its host alone
    /// asks; and one more for the locks (shared storage).
    Host,
}

/// How a worker keeps what is on its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// Each block is written in its place and that is all, as in the papers.
    #[default]
    Plain,
    /// With a journal, checksums, versions and checkpoints, as real nodes do.
    Journalled,
}

/// The nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Nodes {
    /// Who takes hosts' requests.
    pub roles: Roles,
    /// Workers: nodes with a disk.
    pub workers: u16,
    /// How many of the workers take hosts' requests too; with 0 a node without disk does it for
    /// all of them: the controller of a central array.
    pub originators: u16,
    /// How a worker keeps what is on its disk.
    pub store: Store,
    /// Millions of instructions that a processor does in a second.
    pub mips: f64,
    /// How many processors the nodes share, node n on the one of number n modulo so many; if
    /// not said, each has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<u16>,
    /// Whether processors work in rounds, as real nodes do: what has come is done together, and
    /// messages between nodes that share the processor go nowhere.
    pub rounds: bool,
    /// With rounds: microseconds from what an idle processor is to do until it begins.
    pub wake_us: f64,
    /// What work costs.
    pub path: PathLengths,
}

impl Default for Nodes {
    fn default() -> Self {
        Nodes {
            roles: Roles::Array,
            workers: 11,
            originators: 4,
            store: Store::Plain,
            mips: 10.0,
            processors: None,
            rounds: false,
            wake_us: 0.0,
            path: PathLengths::default(),
        }
    }
}

/// The disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Disks {
    /// The name of a parameter file.
    pub model: String,
    /// The order of their queues.
    pub scheduler: Scheduler,
    /// Whether their platters turn together.
    pub synchronized: bool,
    /// How many devices the disks are equal parts of, disk n on the one of number n modulo so
    /// many; if not said, each is a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<u16>,
    /// How many devices share a bus, neighbours together; if not said, each has one to itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_bus: Option<u16>,
    /// Whether they are in memory: then disk operations are work of the nodes' processors and of
    /// nothing else, and are done in the round that begins them.
    pub in_memory: bool,
    /// Whether in the real world, too, they take as long as the model says.
    pub emulated: bool,
    /// How much of each disk the array has, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The text of the parameter file, if the model is none that comes with Weft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<String>,
}

impl Default for Disks {
    fn default() -> Self {
        Disks {
            model: "hp97560-tickertaip".to_string(),
            scheduler: Scheduler::Fcfs,
            synchronized: true,
            devices: None,
            per_bus: None,
            in_memory: false,
            emulated: false,
            size_bytes: None,
            parameters: None,
        }
    }
}

impl Disks {
    /// How many buses so many devices share: none if each has one to itself.
    pub(super) fn buses(&self, devices: usize) -> usize {
        self.per_bus.map_or(0, |so_many| devices.div_ceil(usize::from(so_many)))
    }

    /// The numbers of the model.
    ///
    /// # Errors
    /// If there is no such model, or its parameter file is wrong.
    pub fn spec(&self) -> Result<Spec, Problem> {
        let spec = match &self.parameters {
            Some(text) => Spec::parse(text),
            None => spec::builtin(&self.model),
        };
        spec.map_err(|e| Problem::new("disks.model", &self.model, e))
    }
}

/// The fabric between the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Links {
    /// Its form.
    pub fabric: Fabric,
    /// Millions of bytes a second on one link.
    pub mb_s: f64,
    /// Microseconds from the end of sending to the end of receiving.
    pub latency_us: f64,
    /// If they vary: what they are at most. Each message's is drawn, all between the two equally
    /// likely, so that one may overtake another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_most_us: Option<f64>,
    /// Microseconds for which a message takes the link before its first byte (arbitration).
    pub set_up_us: f64,
}

/// The form of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fabric {
    /// A link from each node to each other.
    PointToPoint,
    /// One for all.
    Bus,
    /// One from each node to a switch, and one back.
    Switch,
}

impl Default for Links {
    fn default() -> Self {
        Links {
            fabric: Fabric::PointToPoint,
            mb_s: 10.0,
            latency_us: 10.0,
            latency_most_us: None,
            set_up_us: 0.0,
        }
    }
}

impl Links {
    /// Checks their values; their keys are below this one.
    fn check(&self, above: &str) -> Result<(), Problem> {
        let key = |name: &str| format!("{above}.{name}");
        within(&key("mb_s"), self.mb_s)?;
        within(&key("latency_us"), self.latency_us)?;
        if let Some(most) = self.latency_most_us {
            within(&key("latency_most_us"), most)?;
            if most < self.latency_us {
                let expected = format!("give {}, {}, or more", key("latency_us"), self.latency_us);
                return Err(Problem::new(&key("latency_most_us"), most, expected));
            }
        }
        within(&key("set_up_us"), self.set_up_us)
    }

    /// Whether latencies are drawn.
    fn vary(&self) -> bool {
        self.latency_most_us.is_some_and(|most| most > self.latency_us)
    }
}

/// What is between hosts and the array: if nothing else is said nothing that is shared, and infinitely
/// fast (TickerTAIP 4.2), but for the hosts' own software. Hosts that are their own controllers are nodes, and
/// their messages cost them time (shared storage, Table 2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hosts {
    /// Microseconds of the host's driver before a request leaves it.
    pub ask_us: f64,
    /// Microseconds of the host's driver after the reply.
    pub reply_us: f64,
    /// Whether each host is a thread: it does what it does for its requests one after the other.
    pub threads: bool,
    /// Of threads: microseconds from a reply until one that slept takes it.
    pub wake_us: f64,
    /// Of threads: nanoseconds more to ask for each byte that is to be written.
    pub ask_byte_ns: f64,
    /// Of threads: nanoseconds more for each byte of a reply.
    pub reply_byte_ns: f64,
    /// Microseconds that each message takes of the processor of a host, or of the lock server, that
    /// sends it or takes it in; on average.
    pub message_us: f64,
    /// Whether that is always the same.
    pub message_times: MessageTimes,
    /// By how many milliseconds a host's clock is off at most, ahead or behind.
    pub clock_ms: f64,
    /// The links between hosts and the nodes that take their requests, if they take time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<Links>,
}

/// How the times of messages are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageTimes {
    /// They are all the same.
    #[default]
    Constant,
    /// Exponentially.
    Exponential,
}

impl Default for Hosts {
    fn default() -> Self {
        Hosts {
            ask_us: 2_500.0,
            reply_us: 1_500.0,
            threads: false,
            wake_us: 0.0,
            ask_byte_ns: 0.0,
            reply_byte_ns: 0.0,
            message_us: 0.0,
            message_times: MessageTimes::Constant,
            clock_ms: 0.0,
            links: None,
        }
    }
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
    #[serde(with = "by_word")]
    pub parity_at: Option<ParityAt>,
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
            parity_at: Some(ParityAt::Parity),
            stripes: Stripes::Large,
            dispatch: Dispatch::Collaborative,
            commit: Commit::Late,
            journal: false,
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
            replications: 2,
            seed: 1,
        }
    }
}

/// Refuses a number that is not in the range that [`parameters`] gives for its key.
fn within(key: &str, value: f64) -> Result<(), Problem> {
    let range = parameters::of(key).range;
    match range.holds(value) {
        true => Ok(()),
        false => Err(Problem::new(key, value, format!("give {}", parameters::show(&range)))),
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
        self.check_path_lengths()?;
        if self.links.fabric == Fabric::PointToPoint && workers > MOST_LINKED {
            let expected = format!(
                "{workers} workers would need a link for each pair; give switch or bus beyond \
                 {MOST_LINKED} workers"
            );
            return Err(Problem::new("links.fabric", "point-to-point", expected));
        }
        self.links.check("links")?;
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
        let limited = [Setting::Commit(self.volume.commit)];
        if let Err(why) = self.policy().check(&limited) {
            return Err(Problem::new("volume.commit", self.volume.commit, why));
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
        let of_workload = |p: Problem| match p.key.as_str() {
            "volume" => p,
            _ => p.within("workload"),
        };
        self.workload.check().map_err(of_workload)?;
        let redundancy = layout.width() as f64 / layout.data_columns() as f64;
        capacity::check(self, &disk, redundancy)?;
        let volume = self.volume_bytes()?;
        Generator::new(&self.workload, volume).map_err(of_workload)?;
        self.check_trace(&disk)
    }

    /// What the volume chooses. The paper's large-stripe policy leaves a stripe's strategy to cost.
    pub fn policy(&self) -> Policy {
        let volume = &self.volume;
        Policy {
            strategy: (volume.stripes == Stripes::Small).then_some(Preference::Small),
            parity_at: volume.parity_at,
            dispatch: volume.dispatch,
            commit: volume.commit,
            ordering: volume.ordering,
            sequencer: volume.sequencer,
            journal: volume.journal,
            ..Policy::default()
        }
    }

    /// How many requests a run measures at most: `measure.requests`, or those of its trace that
    /// are not for the warm-up.
    pub fn measured_requests(&self) -> u64 {
        let trace = self.workload.requests.trace().and_then(|t| t.surveyed.as_ref());
        let most =
            trace.map_or(u64::MAX, |t| t.requests.saturating_sub(self.measure.warm_up.requests()));
        self.measure.requests.min(most)
    }

    /// Refuses a trace that ends with the warm-up, and runs of one that would all be the same.
    fn check_trace(&self, disk: &Spec) -> Result<(), Problem> {
        let Some(trace) = self.workload.requests.trace() else { return Ok(()) };
        if self.measured_requests() == 0 {
            let all = trace.surveyed.as_ref().map_or(0, |t| t.requests);
            let expected = format!("the trace has {all} requests; give less than that");
            return Err(Problem::new("measure.warm_up", self.measure.warm_up, expected));
        }
        let replications = self.measure.replications;
        if replications > 1 && !self.has_chance(disk) {
            let expected = "a trace has no chance, and nothing else of this system has: all runs \
                            would be the same; give 1";
            return Err(Problem::new("measure.replications", replications, expected));
        }
        Ok(())
    }

    /// Whether anything but requests is drawn, so that one run of a trace differs from another.
    fn has_chance(&self, disk: &Spec) -> bool {
        let arrivals = match self.workload.arrivals {
            Arrivals::Closed { think, .. } => !matches!(think, Think::ConstantUs(_)),
            Arrivals::Open { spacing, .. } => spacing == Spacing::Poisson,
            Arrivals::Traced { .. } => false,
        };
        let disks = match &disk.device {
            Device::Mechanical(_) => !self.disks.synchronized,
            Device::Fixed(_) => false,
            Device::Flash(flash) => {
                [&flash.read_latency, &flash.write_latency, &flash.flush_latency]
                    .iter()
                    .any(|points| points.len() > 1)
            }
        };
        let links = self.links.vary() || self.hosts.links.is_some_and(|links| links.vary());
        let messages =
            self.hosts.message_us > 0.0 && self.hosts.message_times == MessageTimes::Exponential;
        arrivals || disks || links || messages || self.hosts.clock_ms > 0.0
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
                let expected = format!("give a multiple of {SECTOR}, to the {room} that each has");
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
        let divided = Superblock::divide(0, 0, 0, bytes / SECTOR, Superblock::JOURNAL);
        let divided = divided.map_err(|e| Problem::new("nodes.store", "journalled", e))?;
        Ok(divided.data * SECTOR)
    }

    /// Bytes of the volume.
    ///
    /// # Errors
    /// If the disks have no room for it.
    pub fn volume_bytes(&self) -> Result<u64, Problem> {
        let (_, layout) = self.layout()?;
        let stripes = self.data_bytes()? / self.volume.unit;
        let groups = u64::from(self.nodes.workers) / layout.width() as u64;
        let room = groups * stripes * self.volume.unit * layout.data_columns() as u64;
        match self.volume.size_bytes {
            None => Ok(room),
            Some(size) if size > 0 && size <= room && size.is_multiple_of(SECTOR) => Ok(size),
            Some(size) => {
                let expected = format!("give a multiple of {SECTOR}, to the {room} of all disks");
                Err(Problem::new("volume.size_bytes", size, expected))
            }
        }
    }

    /// Refuses what only hosts that are nodes can have, and more of those than have numbers.
    fn check_roles(&self) -> Result<(), Problem> {
        let hosts = &self.hosts;
        if self.nodes.roles == Roles::Array {
            let only = "only hosts that are nodes have this; give nodes.roles = host, or 0";
            for (key, value) in
                [("hosts.message_us", hosts.message_us), ("hosts.clock_ms", hosts.clock_ms)]
            {
                if value > 0.0 {
                    return Err(Problem::new(key, value, only));
                }
            }
            return Ok(());
        }
        if let Some(links) = &hosts.links {
            let expected =
                "hosts that are nodes are on the array's own links; leave hosts.links out";
            return Err(Problem::new("hosts.links.mb_s", links.mb_s, expected));
        }
        if self.nodes.originators != 0 {
            let expected = "with nodes.roles = host only hosts take requests; give 0";
            return Err(Problem::new("nodes.originators", self.nodes.originators, expected));
        }
        let nodes = u64::from(self.nodes.workers) + 1 + u64::from(self.workload.hosts);
        if nodes > MOST_TIMESTAMPED {
            let expected = format!(
                "with the workers and the lock server there would be {nodes} nodes, and timestamps \
                 tell {MOST_TIMESTAMPED} apart; give fewer"
            );
            return Err(Problem::new("workload.hosts", self.workload.hosts, expected));
        }
        Ok(())
    }

    /// Refuses what a store cannot do.
    fn check_store(&self) -> Result<(), Problem> {
        let sector = self.sector_bytes()?;
        if !SECTOR.is_multiple_of(sector) {
            let expected = format!(
                "its sectors have {sector} bytes, and no whole number of them makes {SECTOR}, which a \
                 node's sectors have; give a disk with {SECTOR} or a divisor of it"
            );
            return Err(Problem::new("disks.model", &self.disks.model, expected));
        }
        if self.nodes.store == Store::Journalled {
            return Ok(());
        }
        if self.volume.journal {
            let expected = "there is no journal; give nodes.store = journalled, or false";
            return Err(Problem::new("volume.journal", true, expected));
        }
        Ok(())
    }

    /// Refuses what only rounds or threads have, where there are none.
    fn check_threads(&self) -> Result<(), Problem> {
        let (nodes, hosts) = (&self.nodes, &self.hosts);
        if nodes.rounds && nodes.roles == Roles::Host {
            let expected = "hosts that are nodes do one thing after the other; give false";
            return Err(Problem::new("nodes.rounds", true, expected));
        }
        let rounds = "only a processor that works in rounds has this; give nodes.rounds = true, or";
        let threads = "only a host that is a thread has this; give hosts.threads = true, or";
        for (has, key, value, of) in [
            (nodes.rounds, "nodes.wake_us", nodes.wake_us, rounds),
            (nodes.rounds, "nodes.path.round", nodes.path.round as f64, rounds),
            (nodes.rounds, "nodes.path.sleep", nodes.path.sleep as f64, rounds),
            (hosts.threads, "hosts.wake_us", hosts.wake_us, threads),
            (hosts.threads, "hosts.ask_byte_ns", hosts.ask_byte_ns, threads),
            (hosts.threads, "hosts.reply_byte_ns", hosts.reply_byte_ns, threads),
        ] {
            if value > 0.0 && !has {
                return Err(Problem::new(key, value, format!("{of} 0")));
            }
        }
        if let (Some(so_many), true) = (self.disks.per_bus, self.disks.in_memory) {
            let expected =
                "disks in memory have no bus; leave it out, or give disks.in_memory = false";
            return Err(Problem::new("disks.per_bus", so_many, expected));
        }
        if self.disks.emulated && self.disks.in_memory {
            let expected =
                "disks in memory take no time of their own; give disks.in_memory = false";
            return Err(Problem::new("disks.emulated", true, expected));
        }
        if self.disks.in_memory && !nodes.rounds {
            return Err(Problem::new("disks.in_memory", true, format!("{rounds} false")));
        }
        Ok(())
    }

    fn check_path_lengths(&self) -> Result<(), Problem> {
        let path = &self.nodes.path;
        for (name, instructions) in [
            ("request", path.request),
            ("reply", path.reply),
            ("send", path.send),
            ("receive", path.receive),
            ("local", path.local),
            ("disk_start", path.disk_start),
            ("disk_end", path.disk_end),
            ("unit", path.unit),
            ("round", path.round),
            ("sleep", path.sleep),
            ("timer", path.timer),
        ] {
            within(&format!("nodes.path.{name}"), instructions as f64)?;
        }
        within("nodes.path.copy_byte", path.copy_byte)?;
        within("nodes.path.host_byte", path.host_byte)?;
        within("nodes.path.disk_byte", path.disk_byte)?;
        within("nodes.path.write_byte", path.write_byte)?;
        within("nodes.path.xor_byte", path.xor_byte)
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
