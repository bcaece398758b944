//! Nodes, their disks, the links between them, and the hosts.

use serde::{Deserialize, Serialize};
use weft_core::policy;
use weft_load::workload::Problem;
use weft_model::schedule::Policy as Scheduler;
use weft_model::spec::{self, Spec};

use super::fit::within;
use crate::perf::costs::PathLengths;

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
    /// Each host's own node without disk, which keeps the data; one more such node controls, and no data passes it
    /// (TPT-RAID).
    Controller,
    /// The same, but all data passes the one that controls, and it computes parity (TPT-RAID's baseline).
    Central,
}

impl Roles {
    /// Whether each host is a node of its own.
    pub(in crate::perf) fn hosts_are_nodes(self) -> bool {
        self != Roles::Array
    }

    /// Whether a node without disk controls what hosts' nodes ask for.
    pub(in crate::perf) fn is_controlled(self) -> bool {
        matches!(self, Roles::Controller | Roles::Central)
    }

    /// The word of it, and what it chooses for a volume, if it chooses anything.
    pub(in crate::perf) fn chooses(self) -> (&'static str, Option<policy::Roles>) {
        match self {
            Roles::Array => ("array", None),
            Roles::Host => ("host", None),
            Roles::Controller => ("controller", Some(policy::Roles::Controller)),
            Roles::Central => ("central", Some(policy::Roles::Central)),
        }
    }
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

/// Where a worker keeps its journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalAt {
    /// On its disk, before the data.
    #[default]
    Disk,
    /// In a memory that survives a loss of power, and takes no time.
    Nvram,
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
    /// With hosts that are their own controllers: among how many nodes without disk the locks of a lock server are
    /// divided.
    pub lock_servers: u32,
    /// How a worker keeps what is on its disk.
    pub store: Store,
    /// Where a worker whose store is journalled keeps the journal.
    pub journal: JournalAt,
    /// Whether a worker whose store is plain puts neighbouring transfers together.
    pub coalesce: bool,
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
    /// With no originators: how many nodes without disk take hosts' requests, if not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controllers: Option<u16>,
    /// How many requests a node that takes them, or on a torus the disk that a request begins at, has accepted at
    /// most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffers: Option<u32>,
    /// Millions of bytes a second that pass a machine's memory, in and out together; if not said, it takes no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb_s: Option<f64>,
    /// As how many commands a message to a worker counts.
    pub commands: Commands,
    /// What work costs.
    pub path: PathLengths,
}

/// As how many commands a message that has a worker read or write counts, for the processors at its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Commands {
    /// As one.
    #[default]
    Column,
    /// As TPT-RAID's controller sends them (3.2): a read one for each stripe unit; a write one to fetch each unit from
    /// the host, one for each transfer to who computes parity, and one to write each unit of data and parity.
    Block,
}

impl Nodes {
    /// Nodes without disk that take hosts' requests.
    pub(in crate::perf) fn diskless(&self) -> usize {
        match (self.roles, self.originators) {
            (Roles::Array, 0) => self.controllers.unwrap_or(1).into(),
            _ => 0,
        }
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Nodes {
            roles: Roles::Array,
            workers: 11,
            originators: 4,
            lock_servers: 1,
            store: Store::Plain,
            journal: JournalAt::Disk,
            coalesce: true,
            mips: 10.0,
            processors: None,
            rounds: false,
            wake_us: 0.0,
            controllers: None,
            buffers: None,
            memory_mb_s: None,
            commands: Commands::Column,
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
    /// nothing else. They are done in the round that begins them, or without rounds at once.
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
    pub(in crate::perf) fn buses(&self, devices: usize) -> usize {
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
    /// Whether a host's processor has nothing to do with what others read of its memory and write into it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_sided: bool,
    /// Of a torus: its form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torus: Option<Torus>,
    /// Of a hierarchy: its other buses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<Hierarchy>,
}

/// The form of a torus of disks, numbered row by row; nodes without disk stand in the middle of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Torus {
    /// Disks in a row; as many as make it nearest to a square if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u16>,
    /// How a message goes over several links.
    pub switching: Switching,
}

/// How a message goes over several links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switching {
    /// It asks for the next link when its head has come to it.
    #[default]
    CutThrough,
    /// It asks for the next link when all of it has.
    StoreAndForward,
}

/// The buses of a hierarchy but the front-end bus, for which the links' own keys are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hierarchy {
    /// Buses between a controller and its back-end buses, which they share evenly.
    pub intermediate_buses: u16,
    /// Millions of bytes a second on one.
    pub intermediate_mb_s: f64,
    /// Microseconds for which a message takes it before its first byte.
    pub intermediate_set_up_us: f64,
    /// Millions of bytes a second on a bus with disks.
    pub back_end_mb_s: f64,
    /// Microseconds for which a message takes it before its first byte.
    pub back_end_set_up_us: f64,
    /// Disks on one.
    pub disks_per_bus: u16,
    /// How often a message takes each bus on its way, each time for an equal part of its bytes.
    pub turns: u32,
    /// Who of those that wait for a bus is next.
    pub arbitration: Arbitration,
}

impl Default for Hierarchy {
    fn default() -> Self {
        Hierarchy {
            intermediate_buses: 1,
            intermediate_mb_s: 400.0,
            intermediate_set_up_us: 1.0,
            back_end_mb_s: 100.0,
            back_end_set_up_us: 1.0,
            disks_per_bus: 10,
            turns: 1,
            arbitration: Arbitration::Random,
        }
    }
}

/// Who of those that wait for a bus is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// Any, all equally likely.
    #[default]
    Random,
    /// Who came first.
    Fcfs,
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
    /// One each way between neighbours on a torus.
    Torus,
    /// A front-end bus for hosts and controllers, an intermediate one for each controller, back-end ones for disks.
    Hierarchy,
}

impl Default for Links {
    fn default() -> Self {
        Links {
            fabric: Fabric::PointToPoint,
            mb_s: 10.0,
            latency_us: 10.0,
            latency_most_us: None,
            set_up_us: 0.0,
            one_sided: false,
            torus: None,
            hierarchy: None,
        }
    }
}

impl Links {
    /// Checks their values; their keys are below this one.
    pub(super) fn check(&self, above: &str) -> Result<(), Problem> {
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
        if above == "hosts.links" && matches!(self.fabric, Fabric::Torus | Fabric::Hierarchy) {
            let expected = "hosts have point-to-point, bus or switch; with links.fabric = hierarchy they are on its \
                            front-end bus";
            let word = if self.fabric == Fabric::Torus { "torus" } else { "hierarchy" };
            return Err(Problem::new(&key("fabric"), word, expected));
        }
        if above == "hosts.links" && self.one_sided {
            let expected = "only the nodes' own links have it; omit it";
            return Err(Problem::new(&key("one_sided"), true, expected));
        }
        within(&key("set_up_us"), self.set_up_us)
    }

    /// Whether latencies are drawn.
    pub(super) fn vary(&self) -> bool {
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
    /// How many requests of a host are in the array at once, at most; others wait in its driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admits: Option<u32>,
    /// The order in which they leave it.
    pub scheduler: Scheduler,
    /// By how many milliseconds a host's clock is off at most, ahead or behind.
    pub clock_ms: f64,
    /// Whether they have a port each at the switch that nodes are at.
    pub at_switch: bool,
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
            ask_us: 3_500.0,
            reply_us: 2_200.0,
            threads: false,
            wake_us: 0.0,
            ask_byte_ns: 0.0,
            reply_byte_ns: 0.0,
            message_us: 0.0,
            message_times: MessageTimes::Constant,
            admits: None,
            scheduler: Scheduler::Fcfs,
            clock_ms: 0.0,
            at_switch: false,
            links: None,
        }
    }
}
