//! Every key of a [`System`](super::System): what it means, in which unit and range, and where
//! its default comes from; the default itself is the value's own. The workload's keys are in
//! [`weft_load::workload::PARAMETERS`], those of a disk's file in [`weft_model::spec::parameters`].

use weft_core::policy::{CalculatedAt, Commit, Dispatch, Ordering, SequencerForm, words};
pub use weft_model::spec::Range;

/// A key of a system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, with those above it.
    pub key: &'static str,
    /// What its value counts; empty if it counts nothing.
    pub unit: &'static str,
    /// What it may be.
    pub range: Range,
    /// Where the default, or the notion, comes from.
    pub source: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

const TT: &str = "TickerTAIP, TOCS 12(3), 1994";
const COSTS: &str = "Weft: the paper gives no path lengths; fitted, see sim/src/perf/costs.rs";
const WEFT: &str = "Weft";
const AFRAID: &str = "AFRAID, USENIX 1996";
const TPT: &str = "TPT-RAID, 2007";
const BST: &str = "Highly concurrent shared storage, ICDCS 2000, Table 2";

/// The most instructions for one piece of work: a minute and more at 10 MIPS.
const INSTRUCTIONS: Range = Range::Whole(0, 1_000_000_000);
/// Microseconds, up to a quarter of an hour.
const MICROS: Range = Range::Number(0.0, 1e9);

const fn row(
    key: &'static str,
    unit: &'static str,
    range: Range,
    source: &'static str,
    meaning: &'static str,
) -> Parameter {
    Parameter { key, unit, range, source, meaning }
}

/// All keys of a system but the workload's.
#[rustfmt::skip]
pub const PARAMETERS: &[Parameter] = &[
    row("nodes.roles", "", Range::Word(&["array", "host", "controller", "central"]), BST,
        "Who takes hosts' requests: nodes of the array, or each host for itself. Then each host is a \
         node without disk that nobody else asks, and one node more, without disk, serves locks; \
         nodes.originators has to be 0, and dispatch is best commanded. With controller or central the node more decides for \
         all hosts: what the volume's choice roles has. No data passes a controller, and all of it one that is central."),
    row("nodes.workers", "nodes", Range::Whole(1, 16_384), TT,
        "Nodes with a disk."),
    row("nodes.originators", "nodes", Range::Whole(0, 4_000), TT,
        "How many of the workers take hosts' requests too. 0: a node without disk does it for all \
         of them, as the controller of a central array."),
    row("nodes.controllers", "nodes", Range::Whole(1, 4_000), "DR-net, PRDC 2000",
        "With nodes.originators = 0: how many nodes without disk take hosts' requests; one if left out. On a torus \
         they stand in the middle of links and hosts take turns at them; in a hierarchy each is the controller \
         of the disks behind its intermediate bus."),
    row("nodes.lock_servers", "nodes", Range::Whole(1, 64), "shared storage, 4.3",
        "With nodes.roles = host, and locks that are served: among how many nodes without disk they are divided, each with \
         those of every n-th disk. Hosts ask one after the other, so that nobody waits in a circle."),
    row("nodes.buffers", "requests", Range::Whole(1, 1_000_000), "DR-net, PRDC 2000",
        "With saturating arrivals: how many requests a node that takes them has accepted at most; on a torus without \
         originators, the disk that a request begins at. A host whose request meets a full one is stuck."),
    row("nodes.store", "", Range::Word(&["plain", "journalled"]), WEFT,
        "How a worker keeps what is on its disk: plain, each block is written in its place, as in the \
         papers; journalled, with journal, checksums and checkpoints, as real nodes do."),
    row("nodes.coalesce", "", Range::YesNo, TT,
        "With nodes.store = plain: whether transfers of a write that follow one another on a disk are one. Otherwise each \
         unit of a stripe is read and written by itself. A host's read asks a worker for one range either way."),
    row("nodes.mips", "10^6 instructions/s", Range::Number(1e-3, 1e9), TT,
        "How fast each node's processor is."),
    row("nodes.processors", "processors", Range::Whole(1, 16_384), WEFT,
        "How many processors the nodes share, node n on the one of number n modulo so many. If left \
         out, each has its own; 1 is as nodes in one process."),
    row("nodes.rounds", "", Range::YesNo, WEFT,
        "Whether processors work in rounds, as real nodes do: what has come is taken in together and \
         handled, with the messages of nodes that share the processor; then disk operations begin, and \
         at the end hosts are answered. Otherwise each piece of work takes effect when it is done."),
    row("nodes.wake_us", "microseconds", MICROS, WEFT,
        "With rounds: from what an idle processor is to do until it begins."),
    row("nodes.memory_mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), TPT,
        "With links.fabric = switch: what passes a machine's memory, in and out together. The data of a message passes that \
         of who sends it and that of who gets it. If left out, it takes no time."),
    row("nodes.commands", "", Range::Word(&["column", "block"]), TPT,
        "As how many commands a message that has another node's worker read or write counts, for nodes.path.command and \
         nodes.path.execute: one, or one for each stripe unit of data or parity that it is about."),
    row("nodes.path.command", "instructions", INSTRUCTIONS, TPT,
        "A command to another node's worker to read or to write: sent, and its end taken in, on top of send."),
    row("nodes.path.execute", "instructions", INSTRUCTIONS, TPT,
        "Such a command at its worker, on top of receive."),
    row("nodes.path.lock", "instructions", INSTRUCTIONS, BST,
        "With volume.ordering = device-locks or timestamps: a message with which a worker's locks are asked or given \
         back, or its timestamps checked and prewrites entered, on top of receive. What comes to the worker meanwhile waits."),
    row("nodes.path.round", "instructions", INSTRUCTIONS, WEFT,
        "With rounds: each round, whatever is done in it."),
    row("nodes.path.sleep", "instructions", INSTRUCTIONS, WEFT,
        "With rounds: to go to sleep when nothing is left to do, and to wake up again. Nobody waits \
         for it but what comes meanwhile."),
    row("nodes.path.request", "instructions", INSTRUCTIONS, COSTS,
        "A host's request: taken in, and its plan made."),
    row("nodes.path.reply", "instructions", INSTRUCTIONS, COSTS,
        "A host's request: answered."),
    row("nodes.path.send", "instructions", INSTRUCTIONS, COSTS,
        "A message: put together and handed to the link."),
    row("nodes.path.receive", "instructions", INSTRUCTIONS, COSTS,
        "A message: its interrupt, and finding whom it is for."),
    row("nodes.path.local", "instructions", INSTRUCTIONS, COSTS,
        "A message to a role of the same node."),
    row("nodes.path.disk_start", "instructions", INSTRUCTIONS, COSTS,
        "A disk operation: set up."),
    row("nodes.path.disk_end", "instructions", INSTRUCTIONS, COSTS,
        "A disk operation: its interrupt."),
    row("nodes.path.unit", "instructions", INSTRUCTIONS, COSTS,
        "Each stripe unit that a message carries or a disk operation moves."),
    row("nodes.path.copy_byte", "instructions/byte", Range::Number(0.0, 1e6), COSTS,
        "Each byte that a processor copies: of a message, of a disk operation, and from and to a host. \
         0 where DMA engines do it."),
    row("nodes.path.send_byte", "instructions/byte", Range::Number(0.0, 1e6), TPT,
        "Each byte of data of a message, at who sends it, on top of copy_byte: making its buffers ready."),
    row("nodes.path.host_byte", "instructions/byte", Range::Number(0.0, 1e6), WEFT,
        "Each byte from and to a host, on top of copy_byte."),
    row("nodes.path.disk_byte", "instructions/byte", Range::Number(0.0, 1e6), WEFT,
        "Each byte of a disk operation, on top of copy_byte."),
    row("nodes.path.write_byte", "instructions/byte", Range::Number(0.0, 1e6), WEFT,
        "Each byte of a disk operation that writes, on top of copy_byte and disk_byte."),
    row("nodes.path.timer", "instructions", INSTRUCTIONS, COSTS,
        "A timer."),
    row("nodes.path.xor_byte", "instructions/byte", Range::Number(0.0, 1e6), COSTS,
        "Each byte added up for parity."),

    row("disks.model", "", Range::Text, TT,
        "The disk: one that comes with Weft, by its name, or the path of a parameter file (from \
         the scenario's directory)."),
    row("disks.devices", "devices", Range::Whole(1, 16_384), WEFT,
        "How many devices the disks are equal parts of, disk n on the one of number n modulo so many. \
         If left out, each is a device; 1 is as files on one disk."),
    row("disks.per_bus", "devices", Range::Whole(1, 16_384), WEFT,
        "How many devices share a bus, the first so many on the first and so on: what a piece of data \
         takes of it is bus.* of disks.model, and what wants it while it is taken waits. If left out, \
         each device has a bus to itself. Nodes whose disks share a bus share nothing else."),
    row("disks.in_memory", "", Range::YesNo, WEFT,
        "Whether disk operations are work of the nodes' processors and of nothing else, as those of files \
         in memory are. Then disks.model says only how large they are."),
    row("disks.emulated", "", Range::YesNo, WEFT,
        "Whether in the real world, too, disks take as long as disks.model says: files in memory, of \
         which the end of each operation is held back until then. Means nothing on models, which always do."),
    row("disks.size_bytes", "bytes", Range::Whole(4096, 1 << 60), BST,
        "How much of each disk the array has, a multiple of 4096, if not all."),
    row("disks.scheduler", "", Range::Word(&["fcfs", "sstf", "satf", "bnn", "c-look"]), TT,
        "The order in which a disk's queue is served."),
    row("disks.synchronized", "", Range::YesNo, TT,
        "Whether the platters of all disks turn together."),

    row("links.fabric", "", Range::Word(&["point-to-point", "bus", "switch", "torus", "hierarchy"]), TT,
        "A link from each node to each other, one link for all, or one from each node to a switch \
         and one back."),
    row("links.mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), TT,
        "What one link carries."),
    row("links.latency_us", "microseconds", MICROS, WEFT,
        "From the end of sending to the end of receiving."),
    row("links.latency_most_us", "microseconds", MICROS, BST,
        "What the latency is at most, if it varies: drawn for each message, all from links.latency_us \
         to this equally likely. Messages may overtake one another then."),
    row("links.set_up_us", "microseconds", MICROS, WEFT,
        "For how long a message takes the link before its first byte (arbitration)."),
    row("links.one_sided", "", Range::YesNo, TPT,
        "With nodes.roles = controller or central: whether a host's processor has nothing to do with what others read of its \
         memory and write into it, as with RDMA. What answers a Fetch, and a Place, then costs it nothing, and neither do \
         bytes that it sends or gets."),
    row("links.torus.width", "disks", Range::Whole(3, 16_384), "DR-net, PRDC 2000",
        "Of a torus: disks in a row. If left out, as many as make it nearest to a square; for drnet both sides are \
         multiples of 5."),
    row("links.torus.switching", "", Range::Word(&["cut-through", "store-and-forward"]), WEFT,
        "Of a torus: whether a message asks for its next link when its head has come to it, after \
         links.set_up_us, or when all of it has."),
    row("links.hierarchy.intermediate_mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), "DR-net, PRDC 2000",
        "Of a hierarchy: what the bus of a controller and its back-end buses carries. The front-end bus has \
         links.mb_s and links.set_up_us."),
    row("links.hierarchy.intermediate_set_up_us", "microseconds", MICROS, "DR-net, PRDC 2000",
        "Its set-up time."),
    row("links.hierarchy.back_end_mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), "DR-net, PRDC 2000",
        "Of a hierarchy: what a bus with disks carries."),
    row("links.hierarchy.back_end_set_up_us", "microseconds", MICROS, "DR-net, PRDC 2000",
        "Its set-up time."),
    row("links.hierarchy.disks_per_bus", "disks", Range::Whole(1, 16_384), "DR-net, PRDC 2000",
        "Of a hierarchy: disks of neighbouring numbers share a back-end bus."),
    row("links.hierarchy.turns", "turns", Range::Whole(1, 10_000), WEFT,
        "Of a hierarchy: how often a message takes each bus on its way, each time with set-up and for an equal part \
         of its bytes."),
    row("links.hierarchy.arbitration", "", Range::Word(&["random", "fcfs"]), "DR-net, PRDC 2000",
        "Of a hierarchy: who of those that wait for a bus is next: any, or who came first."),

    row("hosts.ask_us", "microseconds", MICROS, WEFT,
        "Time of the host's driver before a request leaves it."),
    row("hosts.reply_us", "microseconds", MICROS, WEFT,
        "Time of the host's driver after the reply."),

    row("hosts.threads", "", Range::YesNo, WEFT,
        "Whether each host is a thread, that does hosts.ask_us and hosts.reply_us of its requests one \
         after the other. Otherwise each request has them to itself."),
    row("hosts.wake_us", "microseconds", MICROS, WEFT,
        "Of threads: from a reply until one that slept takes it."),
    row("hosts.ask_byte_ns", "nanoseconds/byte", Range::Number(0.0, 1e6), WEFT,
        "Of threads: more to ask for each byte that is to be written."),
    row("hosts.reply_byte_ns", "nanoseconds/byte", Range::Number(0.0, 1e6), WEFT,
        "Of threads: more for each byte of a reply."),
    row("hosts.links.fabric", "", Range::Word(&["point-to-point", "bus", "switch"]), WEFT,
        "Links between hosts and the nodes that take their requests: one from each host and one back, one \
         for all, or one from each host and each node to a switch and one back. If no key of hosts.links \
         is given there are none: nothing waits there, and it takes no time, as in the paper."),
    row("hosts.links.mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), WEFT,
        "What one link between a host and the array carries."),
    row("hosts.links.latency_us", "microseconds", MICROS, WEFT,
        "From the end of sending to the end of receiving, between a host and the array."),
    row("hosts.links.latency_most_us", "microseconds", MICROS, WEFT,
        "What that is at most, if it varies: drawn for each request and each reply, all from \
         hosts.links.latency_us to this equally likely."),
    row("hosts.links.set_up_us", "microseconds", MICROS, WEFT,
        "For how long a request or a reply takes the link before its first byte (arbitration)."),
    row("hosts.at_switch", "", Range::YesNo, TPT,
        "With links.fabric = switch: whether hosts have a port each at it, too, so that what a node sends its hosts and \
         what it sends other nodes share its port. With nodes.roles other than array each host is a node, and has one."),
    row("hosts.message_us", "microseconds", MICROS, BST,
        "With nodes.roles = host: what each message takes of the processor of a host, or of the lock \
         server, that sends it or takes it in, on average; path lengths come on top."),
    row("hosts.message_times", "", Range::Word(&["constant", "exponential"]), BST,
        "With nodes.roles = host: whether that is always the same or exponentially distributed."),
    row("hosts.admits", "requests", Range::Whole(1, 1_000_000), AFRAID,
        "How many requests of a host are in the array at once, at most; the others wait in the host's driver. If left \
         out, none waits there."),
    row("hosts.scheduler", "", Range::Word(&["fcfs", "sstf", "c-look"]), AFRAID,
        "With hosts.admits: the order in which requests leave the host's driver."),
    row("hosts.clock_ms", "milliseconds", Range::Number(0.0, 1e9), BST,
        "With nodes.roles = host: by how much hosts' clocks are off at most, ahead or behind; by how \
         much each is, is drawn for each run, all equally likely."),

    row("volume.layout", "", Range::Text, TT,
        "Where data and parity lie, as `--layout` of `weft volume create`, whose help names all \
         layouts."),
    row("volume.unit", "bytes", Range::Whole(4096, 16 << 20), TT,
        "A stripe unit, a multiple of 4096."),
    row("volume.width", "disks", Range::Whole(1, 16_384), WEFT,
        "How many disks a stripe is on, if not all; the array's disks form groups of so many."),
    row("volume.size_bytes", "bytes", Range::Whole(4096, 1 << 60), WEFT,
        "How large the volume is, a multiple of 4096, if it is not to take all the room: it lies at \
         the beginning of each disk."),
    row("volume.calculator", "", Range::Word(&words(&CalculatedAt::CHOICES)), TT,
        "Where parity is computed: where it costs least, at the originator, or at the parity's \
         worker from what it is sent (solely) or from partial results of the data's workers \
         (parity)."),
    row("volume.stripes", "", Range::Word(&["small", "large"]), TT,
        "A stripe that is written in part: always by reading what is written over (small), or by \
         reading the rest where that is less (large)."),
    row("volume.dispatch", "", Range::Word(&words(&Dispatch::CHOICES)), TT,
        "Who works out what each worker does for a write: each for itself, or the originator step \
         by step, as the controller of a central array does; parity is then computed there."),
    row("volume.commit", "", Range::Word(&words(&Commit::CHOICES)), TT,
        "When a write is decided: by each worker for itself, when it can be finished without any \
         one node, when only the writes are left to do, or (limited, with commanded dispatch) when the \
         originator has heard from all devices that nothing stands against it."),

    row("volume.journal", "", Range::YesNo, WEFT,
        "With nodes.store = journalled: whether a write is decided when it is in the journals; \
         otherwise when it is in place."),

    row("volume.redundancy.timing", "", Range::Word(&["immediate", "deferred", "never"]), AFRAID,
        "When the parity of a stripe that is written in part is computed: with each write, when its disk is idle or a \
         bound is reached, or not at all. With nodes.store = plain, marks are in a memory that costs nothing, as the paper's."),
    row("volume.redundancy.refresh", "", Range::Word(&["idle", "busy", "first"]), AFRAID,
        "When parity that waits is computed: while its disk is idle, also while hosts use it, or before them. How much of it at \
         once is recovery.at_once_busy, and before hosts recovery.at_once."),
    row("volume.redundancy.idle_ms", "milliseconds", Range::Number(1e-3, 1e9), AFRAID,
        "For how long a disk must have been idle before that."),
    row("volume.redundancy.start", "", Range::Word(&["eager", "conservative"]), "AFRAID, 5",
        "Whether parity waits from the beginning on, or once enough idle time was seen."),
    row("volume.redundancy.exposed_stripes", "stripes", Range::Whole(1, 1_000_000_000_000), AFRAID,
        "Exposed stripes from which on parity is computed whatever the load; at twice that none waits. If left out, no bound."),
    row("volume.redundancy.exposed_s", "seconds", Range::Number(1e-3, 1e9), WEFT,
        "For how long a stripe may be exposed before its parity is computed whatever the load. If left out, no bound."),
    row("volume.redundancy.mttdl_h", "hours", Range::Whole(1, 100_000_000_000_000), "AFRAID, 4.1",
        "Hours until disks lose data that are to be achieved: while less was, no parity waits, and from 20 exposed stripes on it \
         is computed whatever the load. If left out, whatever it is."),
    row("volume.redundancy.disk_mttf_h", "hours", Range::Whole(1, 100_000_000_000_000), "AFRAID, Table 1",
        "Hours until a disk fails that nobody foresaw: 1M, half of them foreseen."),

    row("volume.ranges.from_bytes", "bytes", Range::Whole(0, 1 << 53), WEFT,
        "A list, [[volume.ranges]], of whole stripes that have some of volume.redundancy for themselves; what is left out is as \
         in the rest of the volume. The first byte."),
    row("volume.ranges.to_bytes", "bytes", Range::Whole(1, 1 << 53), WEFT,
        "The byte after the last."),
    row("volume.ranges.timing", "", Range::Word(&["immediate", "deferred", "never"]), WEFT,
        "When parity is computed there."),
    row("volume.ranges.refresh", "", Range::Word(&["idle", "busy", "first"]), WEFT,
        "When parity that waits there is computed."),
    row("volume.ranges.idle_ms", "milliseconds", Range::Number(1e-3, 1e9), WEFT,
        "For how long a disk must have been idle before that."),
    row("volume.ranges.exposed_stripes", "stripes", Range::Whole(1, 1_000_000_000_000), WEFT,
        "Exposed stripes of the range from which on parity is computed whatever the load."),
    row("volume.ranges.exposed_s", "seconds", Range::Number(1e-3, 1e9), WEFT,
        "For how long a stripe of the range may be exposed before its parity is computed whatever the load."),

    row("volume.ordering", "", Range::Word(&words(&Ordering::CHOICES)), BST,
        "Who goes first of requests that overlap: nobody sees to it (for comparison), a sequencer, a \
         lock server, a lock server whose locks are kept until called back, locks that each disk's \
         worker serves, or timestamps that it checks."),

    row("volume.sequencer", "", Range::Word(&words(&SequencerForm::CHOICES)), "TickerTAIP 3.4.4",
        "With a sequencer: who keeps the graph of requests. A primary and its backup; the same, with \
         each request's end told to all; the originators among themselves; or all nodes with disks. \
         The paper built the first."),

    row("volume.lock_timeout_ms", "milliseconds", Range::Number(1e-3, 1e9), WEFT,
        "With device-locks: how long a lock is waited for before deadlock is presumed, and the request \
         begun again after a pause of an eighth to a quarter of that. The paper has a time-out and \
         gives no number."),
    row("volume.lease_ms", "milliseconds", Range::Number(1e-3, 1e9), "Highly concurrent shared storage, 4.2.2",
        "With locks: how long one is good that is not given back."),

    row("faults.at_s", "seconds", Range::Number(0.0, 1e6), WEFT,
        "A list, [[faults]], of what happens to nodes and disks. When: from the beginning of the run."),
    row("faults.what", "", Range::Word(&["node-dies", "node-returns", "disk-replaced", "link-dies", "link-returns"]), WEFT,
        "What happens: a node dies, and its disk cannot be reached; one that had died is back with its \
         disk; or it is back with an empty one, which is filled. With nodes.store = plain nothing says \
         what a disk has missed, so all of it is put back in either case. Or a link dies, both ways, or is back; \
         messages take the shortest way round."),
    row("faults.node", "node", Range::Whole(0, 16_383), WEFT,
        "To which node with a disk, from 0."),
    row("faults.link", "nodes", Range::Text, WEFT,
        "To the link between which two nodes: [3, 4]. Nodes without disk have the numbers after those with."),

    row("recovery.notice_ms", "milliseconds", Range::Number(0.0, 1e6), WEFT,
        "Until others, and the hosts that it serves, find that a node is dead. Hosts ask another then."),
    row("recovery.map_ms", "milliseconds", Range::Number(0.0, 1e6), WEFT,
        "Until a new map of the cluster is safe, once all nodes have stopped for it."),
    row("recovery.at_once", "stripe units", Range::Whole(1, 65_536), WEFT,
        "How many units a disk that is filled has put back at once while no host uses it."),
    row("recovery.at_once_busy", "stripe units", Range::Whole(1, 65_536), WEFT,
        "How many while hosts use it."),
    row("recovery.together_bytes", "bytes", Range::Whole(0, 4_194_304), WEFT,
        "How many bytes of adjacent units are put back together: each helper gets one message for all of them. 0: each unit by \
         itself."),
    row("recovery.mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), WEFT,
        "How fast a disk is filled at most. If left out, as fast as it goes."),

    row("measure.warm_up", "requests", Range::WholeOr(0, 1_000_000_000_000, "mser-5"), TT,
        "Requests before measuring begins. mser-5: as many as it takes until the response times of a \
         pilot run are steady by that test (White 1997); the pilot is a replication of its own that \
         counts for nothing else."),
    row("measure.requests", "requests", Range::Whole(1, 1_000_000_000_000), WEFT,
        "Requests that are measured in each run."),
    row("measure.seconds", "seconds", Range::Number(1e-3, 1e6), BST,
        "Simulated seconds that are measured in each run, in the place of measure.requests."),
    row("measure.until_whole", "", Range::YesNo, WEFT,
        "Whether each run is measured until all faults are past and all disks are whole again, in the \
         place of measure.requests."),
    row("measure.replications", "runs", Range::Whole(1, 1_000_000), WEFT,
        "Independent runs. Of one alone there is no confidence interval."),
    row("measure.seed", "", Range::Whole(0, i64::MAX as u64), WEFT,
        "Where chance begins. The same seed gives the same results."),
];

/// A range, with large round numbers as powers of ten.
pub fn show(range: &Range) -> String {
    match range {
        Range::Number(low, high) if *high >= 1e6 => format!("{low} to {high:e}"),
        other => other.to_string(),
    }
}

/// The row of a key that is in the table.
pub(super) fn of(key: &str) -> &'static Parameter {
    PARAMETERS.iter().find(|p| p.key == key).unwrap_or_else(|| panic!("{key} is in the table"))
}

#[cfg(test)]
mod tests {
    use weft_core::policy::{Refresh, Timing};

    use super::super::{Fault, FaultKind, Hierarchy, RangeSpec, System, Torus};
    use super::*;

    const LEAST: &str =
        "[workload]\narrivals.closed.population = 1\nrequests.imitation = \"oltp\"\n";

    /// The keys of a table, but the workload's.
    fn leaves(prefix: &str, table: &toml::Table, found: &mut Vec<String>) {
        for (name, value) in table {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match value {
                toml::Value::Table(inner) if key != "workload" => leaves(&key, inner, found),
                toml::Value::Table(_) => {}
                toml::Value::Array(elements) => match &elements[0] {
                    toml::Value::Table(element) => leaves(&key, element, found),
                    _ => found.push(key),
                },
                _ => found.push(key),
            }
        }
    }

    #[test]
    fn the_table_has_the_keys_that_a_system_has() {
        let mut system: System = toml::from_str(LEAST).unwrap();
        // These are only there if they were given.
        system.volume.width = Some(11);
        system.volume.size_bytes = Some(1 << 20);
        (system.nodes.processors, system.disks.devices) = (Some(1), Some(1));
        system.disks.per_bus = Some(1);
        (system.disks.size_bytes, system.measure.seconds) = (Some(1 << 20), Some(1.0));
        system.links.latency_most_us = Some(20.0);
        system.faults =
            vec![Fault { link: Some([0, 1]), ..Fault::of_node(1.0, FaultKind::NodeDies, 0) }];
        system.hosts.admits = Some(1);
        system.volume.ranges = vec![RangeSpec {
            from_bytes: 0,
            to_bytes: 1,
            timing: Some(Timing::Never),
            refresh: Some(Refresh::Busy),
            idle_ms: Some(1.0),
            exposed_stripes: Some(1),
            exposed_s: Some(1.0),
        }];
        let redundancy = &mut system.volume.redundancy;
        (redundancy.exposed_stripes, redundancy.exposed_s) = (Some(1), Some(1.0));
        redundancy.mttdl_h = Some(1);
        (system.nodes.controllers, system.nodes.buffers) = (Some(1), Some(1));
        system.recovery.mb_s = Some(1.0);
        system.nodes.memory_mb_s = Some(1.0);
        system.hosts.links = Some(system.links);
        system.links.one_sided = true;
        let width = Some(5);
        system.links.torus = Some(Torus { width, ..Torus::default() });
        system.links.hierarchy = Some(Hierarchy::default());
        let mut theirs = Vec::new();
        leaves("", &toml::Table::try_from(&system).unwrap(), &mut theirs);
        let mut ours: Vec<&str> = PARAMETERS.iter().map(|p| p.key).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn every_word_is_accepted_and_no_other() {
        for row in PARAMETERS {
            let Range::Word(words) = row.range else { continue };
            if row.key.starts_with("faults.") || row.key.starts_with("volume.ranges.") {
                // Of lists, whose elements are read together: in the tests of faults, and of redundancy.
                continue;
            }
            let fabric = match row.key.split('.').nth(1) {
                Some(table @ ("torus" | "hierarchy")) => format!("links.fabric = \"{table}\"\n"),
                _ => String::new(),
            };
            let read = |word: &str| {
                let role = match word {
                    "host" | "controller" | "central" => "nodes.originators = 0\n",
                    "sstf" | "c-look" => "hosts.admits = 1\n",
                    "block" => "nodes.path.command = 1\n",
                    "limited" => "volume.dispatch = \"commanded\"\n",
                    "torus" | "cut-through" | "store-and-forward" => "nodes.workers = 12\n",
                    "hierarchy" | "random" | "fcfs" => {
                        "nodes.workers = 10\nnodes.originators = 0\n"
                    }
                    _ => "",
                };
                let text = format!("{} = \"{word}\"\n{fabric}{role}{LEAST}", row.key);
                toml::from_str::<System>(&text)
            };
            for word in words {
                assert_eq!(read(word).unwrap().check(), Ok(()), "{} = {word}", row.key);
            }
            assert!(read("nothing").is_err(), "{}", row.key);
        }
    }
}
