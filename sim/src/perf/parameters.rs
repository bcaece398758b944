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
        "Who takes hosts' requests: nodes of the array, or each host for itself (host). With host, each \
         host is a node without a disk, used by nobody else, and one more node without a disk serves \
         locks; nodes.originators must be 0, and dispatch is best commanded. With controller or central, \
         one more node decides for all hosts, as with the volume's choice roles. Data do not pass through \
         a controller; with central they all do."),
    row("nodes.workers", "nodes", Range::Whole(1, 16_384), TT,
        "Nodes with a disk."),
    row("nodes.originators", "nodes", Range::Whole(0, 4_000), TT,
        "How many of the workers also take hosts' requests. 0: one node without a disk takes them all, \
         like the controller of a central array."),
    row("nodes.controllers", "nodes", Range::Whole(1, 4_000), "DR-net, PRDC 2000",
        "With nodes.originators = 0: how many nodes without a disk take hosts' requests; one if left out. \
         On a torus they are in the middle of links, and hosts use them in turn; in a hierarchy each is \
         the controller of the disks behind its intermediate bus."),
    row("nodes.lock_servers", "nodes", Range::Whole(1, 64), "shared storage, 4.3",
        "With nodes.roles = host and lock servers: how many nodes without a disk share the locks, each \
         with those of every n-th disk. A host asks them one after the other, so no circular wait can \
         arise."),
    row("nodes.buffers", "requests", Range::Whole(1, 1_000_000), "DR-net, PRDC 2000",
        "With saturating arrivals: the most requests that a node which takes them has accepted at any \
         time; on a torus without originators, the disk at which a request begins. A host whose request \
         finds no free buffer is blocked."),
    row("nodes.store", "", Range::Word(&["plain", "journalled"]), WEFT,
        "How a worker stores its content: plain, each block is written in place, as in the papers; \
         journalled, with journal, checksums and checkpoints, as real nodes do."),
    row("nodes.journal", "", Range::Word(&["disk", "nvram"]), WEFT,
        "With nodes.store = journalled: where a worker keeps its journal, on its disk or in a non-volatile \
         memory. With nvram, writes of the journal take no time."),
    row("nodes.coalesce", "", Range::YesNo, TT,
        "With nodes.store = plain: whether a write's adjacent transfers on a disk are combined into one. \
         Otherwise each stripe unit is read and written by itself. A host's read asks a worker for one \
         range in either case."),
    row("nodes.mips", "10^6 instructions/s", Range::Number(1e-3, 1e9), TT,
        "How fast each node's processor is."),
    row("nodes.processors", "processors", Range::Whole(1, 16_384), WEFT,
        "Number of processors that the nodes share; with N of them, node n uses processor n modulo N. If \
         left out, each node has its own; 1 is like nodes in one process."),
    row("nodes.rounds", "", Range::YesNo, WEFT,
        "Whether processors work in rounds, as real nodes do: a round takes in all input and handles it, \
         with messages between nodes of the same processor; then disk operations begin, and at the end \
         hosts are answered. Otherwise each piece of work takes effect when it is done."),
    row("nodes.wake_us", "microseconds", MICROS, WEFT,
        "With rounds: from the arrival of work at an idle processor until it begins."),
    row("nodes.memory_mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), TPT,
        "With links.fabric = switch: memory bandwidth of a machine, in and out together. The data of a \
         message use the memory of its sender and of its receiver. If left out, memory takes no time."),
    row("nodes.commands", "", Range::Word(&["column", "block"]), TPT,
        "How many commands a message to another node's worker counts as, for nodes.path.command and \
         nodes.path.execute: one, or as TPT-RAID 3.2 sends them. There a read has one for each stripe unit. \
         A write has two for each unit of data, one for each unit of parity, and one for each transfer to \
         who computes parity: for each block of a stripe written in part, for each target of full ones."),
    row("nodes.path.command", "instructions", INSTRUCTIONS, TPT,
        "A command to another node's worker to read or write: to send it and to receive its completion, \
         in addition to send."),
    row("nodes.path.execute", "instructions", INSTRUCTIONS, TPT,
        "Such a command at its worker, in addition to receive."),
    row("nodes.path.lock", "instructions", INSTRUCTIONS, BST,
        "With volume.ordering = device-locks or timestamps: a message that acquires or releases a \
         worker's locks, or has it check timestamps and enter prewrites, in addition to receive. Work \
         that arrives at the worker in the meantime waits."),
    row("nodes.path.round", "instructions", INSTRUCTIONS, WEFT,
        "With rounds: each round, whatever it does."),
    row("nodes.path.sleep", "instructions", INSTRUCTIONS, WEFT,
        "With rounds: to sleep when there is no work, and to wake up. It delays only work that arrives in \
         the meantime."),
    row("nodes.path.request", "instructions", INSTRUCTIONS, COSTS,
        "To receive and plan a host's request."),
    row("nodes.path.reply", "instructions", INSTRUCTIONS, COSTS,
        "To answer a host's request."),
    row("nodes.path.send", "instructions", INSTRUCTIONS, COSTS,
        "To assemble a message and pass it to the link."),
    row("nodes.path.receive", "instructions", INSTRUCTIONS, COSTS,
        "To receive a message: its interrupt and its dispatch."),
    row("nodes.path.local", "instructions", INSTRUCTIONS, COSTS,
        "A message to a role of the same node."),
    row("nodes.path.disk_start", "instructions", INSTRUCTIONS, COSTS,
        "To set up a disk operation."),
    row("nodes.path.disk_end", "instructions", INSTRUCTIONS, COSTS,
        "The interrupt at the end of a disk operation."),
    row("nodes.path.unit", "instructions", INSTRUCTIONS, COSTS,
        "Each stripe unit that a message or a disk operation transfers."),
    row("nodes.path.copy_byte", "instructions/byte", Range::Number(0.0, 1e6), COSTS,
        "Each byte that a processor copies: of messages, of disk operations, and from and to hosts. 0 \
         where DMA engines copy."),
    row("nodes.path.send_byte", "instructions/byte", Range::Number(0.0, 1e6), TPT,
        "Each data byte of a message, at its sender, in addition to copy_byte: to prepare its buffers."),
    row("nodes.path.host_byte", "instructions/byte", Range::Number(0.0, 1e6), WEFT,
        "Each byte from and to a host, in addition to copy_byte."),
    row("nodes.path.disk_byte", "instructions/byte", Range::Number(0.0, 1e6), WEFT,
        "Each byte of a disk operation, in addition to copy_byte."),
    row("nodes.path.write_byte", "instructions/byte", Range::Number(0.0, 1e6), WEFT,
        "Each byte of a disk write, in addition to copy_byte and disk_byte."),
    row("nodes.path.timer", "instructions", INSTRUCTIONS, COSTS,
        "A timer."),
    row("nodes.path.xor_byte", "instructions/byte", Range::Number(0.0, 1e6), COSTS,
        "Each byte combined into parity."),

    row("disks.model", "", Range::Text, TT,
        "The disk: one that comes with Weft, by its name, or the path of a parameter file (from \
         the scenario's directory)."),
    row("disks.devices", "devices", Range::Whole(1, 16_384), WEFT,
        "Number of devices that the disks divide into equal parts; with N of them, disk n is on device n \
         modulo N. If left out, each disk is a device; 1 is like files on one disk."),
    row("disks.per_bus", "devices", Range::Whole(1, 16_384), WEFT,
        "Number of devices that share a bus, in order of their numbers. bus.* of disks.model says how \
         long a transfer occupies it; other transfers wait for that time. If left out, each device has \
         its own bus. Nodes whose disks share a bus share nothing else."),
    row("disks.in_memory", "", Range::YesNo, WEFT,
        "Whether disk operations cost only processor time of the nodes, like those of files in memory. \
         disks.model then gives only the size."),
    row("disks.emulated", "", Range::YesNo, WEFT,
        "Whether disks take as long as disks.model says in real runs, too: they are files in memory, and \
         the end of each operation is delayed until then. Has no effect in simulated runs, where disks \
         always do."),
    row("disks.size_bytes", "bytes", Range::Whole(4096, 1 << 60), BST,
        "How many bytes of each disk the array uses, a multiple of 4096. If left out, all."),
    row("disks.scheduler", "", Range::Word(&["fcfs", "sstf", "satf", "bnn", "c-look"]), TT,
        "The order in which a disk's queue is served."),
    row("disks.synchronized", "", Range::YesNo, TT,
        "Whether the platters of all disks rotate in phase."),

    row("links.fabric", "", Range::Word(&["point-to-point", "bus", "switch", "torus", "hierarchy"]), TT,
        "point-to-point: a link from each node to each other. bus: one link for all. switch: one link \
         from each node to a switch, and one back. torus and hierarchy: see links.torus and \
         links.hierarchy."),
    row("links.mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), TT,
        "Bandwidth of one link."),
    row("links.latency_us", "microseconds", MICROS, WEFT,
        "From the end of sending to the end of receiving."),
    row("links.latency_most_us", "microseconds", MICROS, BST,
        "The highest latency, if it varies: each message draws one between links.latency_us and this, \
         with equal probability. Messages may then overtake one another."),
    row("links.set_up_us", "microseconds", MICROS, WEFT,
        "How long a message occupies the link before its first byte (arbitration)."),
    row("links.one_sided", "", Range::YesNo, TPT,
        "With nodes.roles = controller or central: whether others read and write a host's memory without \
         its processor, as with RDMA. Answers to Fetch and Place then cost the host no processor time, \
         nor do bytes that it sends or receives."),
    row("links.torus.width", "disks", Range::Whole(3, 16_384), "DR-net, PRDC 2000",
        "Of a torus: disks in a row. If left out, the width nearest to a square; for drnet both sides are \
         multiples of 5."),
    row("links.torus.switching", "", Range::Word(&["cut-through", "store-and-forward"]), WEFT,
        "Of a torus: whether a message requests its next link once its head has arrived and \
         links.set_up_us has passed (cut-through), or once all of it has arrived (store-and-forward)."),
    row("links.hierarchy.intermediate_buses", "buses", Range::Whole(1, 1_000), "DR-net, PRDC 2000",
        "Of a hierarchy: number of buses between each controller and its back-end buses, which they share \
         evenly in order of their numbers."),
    row("links.hierarchy.intermediate_mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), "DR-net, PRDC 2000",
        "Of a hierarchy: bandwidth of a bus between a controller and its back-end buses. The front-end \
         bus uses links.mb_s and links.set_up_us."),
    row("links.hierarchy.intermediate_set_up_us", "microseconds", MICROS, "DR-net, PRDC 2000",
        "Its set-up time."),
    row("links.hierarchy.back_end_mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), "DR-net, PRDC 2000",
        "Of a hierarchy: bandwidth of a bus with disks."),
    row("links.hierarchy.back_end_set_up_us", "microseconds", MICROS, "DR-net, PRDC 2000",
        "Its set-up time."),
    row("links.hierarchy.disks_per_bus", "disks", Range::Whole(1, 16_384), "DR-net, PRDC 2000",
        "Of a hierarchy: number of disks that share a back-end bus, in order of their numbers."),
    row("links.hierarchy.turns", "turns", Range::Whole(1, 10_000), WEFT,
        "Of a hierarchy: how often a message occupies each bus on its path; each time includes set-up and \
         an equal part of its bytes."),
    row("links.hierarchy.arbitration", "", Range::Word(&["random", "fcfs"]), "DR-net, PRDC 2000",
        "Of a hierarchy: which waiting message gets a bus next: a random one, or the first to arrive."),

    row("hosts.ask_us", "microseconds", MICROS, WEFT,
        "Time in the host's driver before it sends a request."),
    row("hosts.reply_us", "microseconds", MICROS, WEFT,
        "Time in the host's driver after the reply."),

    row("hosts.threads", "", Range::YesNo, WEFT,
        "Whether each host is a thread, in which hosts.ask_us and hosts.reply_us of its requests follow \
         one another. Otherwise requests do not wait for one another there."),
    row("hosts.wake_us", "microseconds", MICROS, WEFT,
        "With threads: from a reply until a sleeping thread takes it."),
    row("hosts.ask_byte_ns", "nanoseconds/byte", Range::Number(0.0, 1e6), WEFT,
        "With threads: extra time before a request for each byte to write."),
    row("hosts.reply_byte_ns", "nanoseconds/byte", Range::Number(0.0, 1e6), WEFT,
        "With threads: extra time for each byte of a reply."),
    row("hosts.links.fabric", "", Range::Word(&["point-to-point", "bus", "switch"]), WEFT,
        "Links between hosts and the nodes that take their requests. point-to-point: one from each host \
         and one back. bus: one for all. switch: one from each host and each node to a switch, and one \
         back. Without any key of hosts.links, transfers to and from hosts take no time, as in the paper."),
    row("hosts.links.mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), WEFT,
        "Bandwidth of one link between a host and the array."),
    row("hosts.links.latency_us", "microseconds", MICROS, WEFT,
        "From the end of sending to the end of receiving, between a host and the array."),
    row("hosts.links.latency_most_us", "microseconds", MICROS, WEFT,
        "The highest such latency, if it varies: each request and each reply draws one between \
         hosts.links.latency_us and this, with equal probability."),
    row("hosts.links.set_up_us", "microseconds", MICROS, WEFT,
        "How long a request or a reply occupies the link before its first byte (arbitration)."),
    row("hosts.at_switch", "", Range::YesNo, TPT,
        "With links.fabric = switch: whether each host, too, has a port at the switch, so that a node's \
         port carries its traffic with hosts and with nodes. With nodes.roles other than array each host \
         is a node, and has a port anyway."),
    row("hosts.message_us", "microseconds", MICROS, BST,
        "With nodes.roles = host: mean processor time of a host or lock server to send or receive a \
         message; path lengths come in addition."),
    row("hosts.message_times", "", Range::Word(&["constant", "exponential"]), BST,
        "With nodes.roles = host: whether hosts.message_us is constant or the mean of an exponential \
         distribution."),
    row("hosts.admits", "requests", Range::Whole(1, 1_000_000), AFRAID,
        "The most requests of a host that the array has at once; further ones wait in the host's driver. \
         If left out, none waits there."),
    row("hosts.scheduler", "", Range::Word(&["fcfs", "sstf", "c-look"]), AFRAID,
        "With hosts.admits: the order in which requests leave the host's driver."),
    row("hosts.clock_ms", "milliseconds", Range::Number(0.0, 1e9), BST,
        "With nodes.roles = host: the most by which a host's clock is ahead or behind. Each run draws \
         each host's offset, with equal probability."),

    row("volume.layout", "", Range::Text, TT,
        "Placement of data and parity, as for `--layout` of `weft volume create`, whose help lists all \
         layouts."),
    row("volume.unit", "bytes", Range::Whole(4096, 16 << 20), TT,
        "A stripe unit, a multiple of 4096."),
    row("volume.width", "disks", Range::Whole(1, 16_384), WEFT,
        "Number of disks of a stripe. The array's disks form groups of this size. If left out, all disks."),
    row("volume.size_bytes", "bytes", Range::Whole(4096, 1 << 60), WEFT,
        "Size of the volume, a multiple of 4096. The volume occupies the beginning of each disk. If left \
         out, all space."),
    row("volume.calculator", "", Range::Word(&words(&CalculatedAt::CHOICES)), TT,
        "Where parity is computed: where it costs least, at the originator, or at the parity's worker \
         from the data that it is sent (solely) or from partial results of the data's workers (parity)."),
    row("volume.stripes", "", Range::Word(&["small", "large"]), TT,
        "How a write of a part of a stripe computes parity: always from the old content of its range \
         (small), or from the rest of the stripe if that reads less (large)."),
    row("volume.dispatch", "", Range::Word(&words(&Dispatch::CHOICES)), TT,
        "Who decides the steps of each worker in a write: each worker for itself, or the originator step \
         by step, like the controller of a central array; the originator then computes parity."),
    row("volume.commit", "", Range::Word(&words(&Commit::CHOICES)), TT,
        "When a write commits: once every node holds its part (late), once no single node is \
         needed to finish it (early), at each node for itself (none), or, with commanded \
         dispatch, once every participant has agreed, without votes (limited)."),

    row("volume.journal", "", Range::YesNo, WEFT,
        "With nodes.store = journalled: whether a write commits once it is in the journals; otherwise \
         once it is in place."),

    row("volume.redundancy.timing", "", Range::Word(&["immediate", "deferred", "never", "copied"]), AFRAID,
        "When the parity of a partly written stripe is computed: with each write, when its disk is idle \
         or a bound is reached, or never. With nodes.store = plain, marks are in a memory that costs \
         nothing, as in the paper. With copied, parity's disks keep copies of small writes in their \
         journals until parity has taken them in; it needs volume.journal, and has no bounds."),
    row("volume.redundancy.refresh", "", Range::Word(&["idle", "busy", "first"]), AFRAID,
        "When deferred parity is computed: while its disk is idle, also while hosts use it, or before \
         hosts' requests. recovery.at_once_busy says how much at once, and before hosts' requests \
         recovery.at_once."),
    row("volume.redundancy.idle_ms", "milliseconds", Range::Number(1e-3, 1e9), AFRAID,
        "How long a disk must have been idle before deferred parity is computed or copies are folded."),
    row("volume.redundancy.start", "", Range::Word(&["eager", "conservative"]), "AFRAID, 5",
        "Whether parity is deferred from the beginning, or after enough idle time was observed."),
    row("volume.redundancy.exposed_stripes", "stripes", Range::Whole(1, 1_000_000_000_000), AFRAID,
        "Number of exposed stripes at which parity is computed regardless of load; at twice as many it is \
         no longer deferred. If left out, no bound."),
    row("volume.redundancy.exposed_s", "seconds", Range::Number(1e-3, 1e9), WEFT,
        "How long a stripe may be exposed before its parity is computed regardless of load. If left out, \
         no bound."),
    row("volume.redundancy.mttdl_h", "hours", Range::Whole(1, 100_000_000_000_000), "AFRAID, 4.1",
        "Target MTTDL of the disks in hours. Parity is deferred only while the measured MTTDL is above \
         it; below it, 20 exposed stripes suffice to compute parity regardless of load. If left out, no \
         target."),
    row("volume.redundancy.disk_mttf_h", "hours", Range::Whole(1, 100_000_000_000_000), "AFRAID, Table 1",
        "Mean time to an unpredicted failure of a disk. The default, 1M, is for disks half of whose \
         failures are predicted."),

    row("volume.ranges.from_bytes", "bytes", Range::Whole(0, 1 << 53), WEFT,
        "First byte of the range. [[volume.ranges]] is a list of ranges of whole stripes with their own \
         values of some keys of volume.redundancy; keys that are left out have the volume's values."),
    row("volume.ranges.to_bytes", "bytes", Range::Whole(1, 1 << 53), WEFT,
        "The byte after the last one of the range."),
    row("volume.ranges.timing", "", Range::Word(&["immediate", "deferred", "never", "copied"]), WEFT,
        "When parity of the range is computed."),
    row("volume.ranges.refresh", "", Range::Word(&["idle", "busy", "first"]), WEFT,
        "When deferred parity of the range is computed."),
    row("volume.ranges.idle_ms", "milliseconds", Range::Number(1e-3, 1e9), WEFT,
        "How long a disk must have been idle before deferred parity of the range is computed or its copies are folded."),
    row("volume.ranges.exposed_stripes", "stripes", Range::Whole(1, 1_000_000_000_000), WEFT,
        "Number of exposed stripes of the range at which parity is computed regardless of load."),
    row("volume.ranges.exposed_s", "seconds", Range::Number(1e-3, 1e9), WEFT,
        "How long a stripe of the range may be exposed before its parity is computed regardless of load."),

    row("volume.ordering", "", Range::Word(&words(&Ordering::CHOICES)), BST,
        "How overlapping requests are ordered: not at all (for comparison), by a sequencer, by a lock \
         server, by a lock server whose locks are kept until called back, by locks at each disk's worker, \
         or by timestamps that the worker checks."),

    row("volume.sequencer", "", Range::Word(&words(&SequencerForm::CHOICES)), "TickerTAIP 3.4.4",
        "With a sequencer: who keeps the graph of requests. A primary and its backup, which the paper \
         built; the same, with the end of each request sent to all; the originators together; or all \
         nodes with disks."),

    row("volume.lock_timeout_ms", "milliseconds", Range::Number(1e-3, 1e9), WEFT,
        "With device-locks: how long a request waits for a lock until it presumes a deadlock. It starts \
         again after a pause of an eighth to a quarter of that. The paper has a time-out and gives no \
         number."),
    row("volume.lease_ms", "milliseconds", Range::Number(1e-3, 1e9), "Highly concurrent shared storage, 4.2.2",
        "With locks: how long a lock is valid if it is not released."),

    row("faults.at_s", "seconds", Range::Number(0.0, 1e6), WEFT,
        "When it happens, from the beginning of the run. [[faults]] is a list of events at nodes, disks \
         and links."),
    row("faults.what", "", Range::Word(&["node-dies", "node-returns", "disk-replaced", "link-dies", "link-returns"]), WEFT,
        "node-dies: a node fails, and its disk is unreachable. node-returns: it is up again with its \
         disk. disk-replaced: it is up again with an empty disk, which is rebuilt. link-dies, \
         link-returns: a link fails or works again in both directions; messages take the shortest \
         remaining path. With nodes.store = plain, nothing records which writes a disk has missed, so a \
         returned disk, too, is rebuilt as a whole."),
    row("faults.node", "node", Range::Whole(0, 16_383), WEFT,
        "The node, one with a disk, from 0."),
    row("faults.link", "nodes", Range::Text, WEFT,
        "The link, by its two nodes: [3, 4]. Nodes without a disk are numbered after those with one."),

    row("recovery.notice_ms", "milliseconds", Range::Number(0.0, 1e6), WEFT,
        "Time until other nodes, and the hosts that it serves, detect that a node is down. Hosts then use \
         another node."),
    row("recovery.map_ms", "milliseconds", Range::Number(0.0, 1e6), WEFT,
        "Time to store a new cluster map durably, once all nodes have stopped for it."),
    row("recovery.at_once", "stripe units", Range::Whole(1, 65_536), WEFT,
        "Number of stripe units of a disk that are rebuilt at once while no host uses the disk."),
    row("recovery.at_once_busy", "stripe units", Range::Whole(1, 65_536), WEFT,
        "The same while hosts use the disk."),
    row("recovery.together_bytes", "bytes", Range::Whole(0, 4_194_304), WEFT,
        "Number of bytes of adjacent units that are rebuilt together, with one message to each helper for \
         all of them. 0: each unit by itself."),
    row("recovery.on_demand", "", Range::YesNo, WEFT,
        "Whether content that a host reads before it is back is rebuilt first, as by real nodes. Otherwise \
         reads solve for it, and the disk is rebuilt in order."),
    row("recovery.mb_s", "10^6 bytes/s", Range::Number(1e-3, 1e9), WEFT,
        "The highest rate at which a disk is rebuilt. If left out, no limit."),

    row("measure.warm_up", "requests", Range::WholeOr(0, 1_000_000_000_000, "mser-5"), TT,
        "Requests before measurement begins. mser-5: as many as the response times of a pilot run need to \
         become steady by that test (White 1997); the pilot is a replication of its own and is used for \
         nothing else."),
    row("measure.requests", "requests", Range::Whole(1, 1_000_000_000_000), WEFT,
        "Requests measured in each run."),
    row("measure.seconds", "seconds", Range::Number(1e-3, 1e6), BST,
        "Simulated seconds measured in each run, instead of measure.requests."),
    row("measure.until_whole", "", Range::YesNo, WEFT,
        "Whether each run is measured until all faults have occurred and no disk is stale or being \
         rebuilt, instead of measure.requests."),
    row("measure.replications", "runs", Range::Whole(1, 1_000_000), WEFT,
        "Independent runs. A single run gives no confidence interval."),
    row("measure.seed", "", Range::Whole(0, i64::MAX as u64), WEFT,
        "Seed of the random numbers. The same seed gives the same results."),
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
                    "nvram" => "nodes.store = \"journalled\"\n",
                    "copied" => "nodes.store = \"journalled\"\nvolume.journal = true\n",
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
