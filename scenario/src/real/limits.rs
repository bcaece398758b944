//! What of a scenario a real array cannot be, and what of it means nothing there.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use weft_core::layout::LayoutSpec;
use weft_core::units::SECTOR;
use weft_load::workload::Arrivals;
use weft_sim::perf::{
    Disks, Hosts, JournalAt, Links, Nodes, Ordering, Problem, Recovery, Roles, Store, System,
    WarmUp,
};

use super::hosts::longest;
use super::spec::used_bytes;
use weft_terminal::bytes;

/// The most nodes that are run in one process.
const MOST_NODES: u16 = 32;
/// The most hosts: each is a thread.
const MOST_HOSTS: u32 = 64;
/// The longest request that the array takes.
const LONGEST: u64 = 32 << 20;

/// Tables of a scenario, and single keys, that describe hardware: a real array has its own, but for
/// disks that are emulated.
pub const MEANINGLESS: &[&str] = &[
    "disks",
    "links",
    "hosts",
    "nodes.store",
    "nodes.journal",
    "nodes.mips",
    "nodes.processors",
    "nodes.rounds",
    "nodes.wake_us",
    "nodes.memory_mb_s",
    "nodes.commands",
    "nodes.path",
    "recovery",
];

/// The system with all that means nothing in the real world at its default, and the volume's size
/// said: points that differ only in what means nothing are one.
pub fn essence(system: &System) -> Result<System> {
    let mut essence = system.clone();
    essence.nodes = Nodes {
        workers: system.nodes.workers,
        originators: system.nodes.originators,
        store: Store::Journalled,
        ..Nodes::default()
    };
    // Of emulated disks journal and table take some.
    let whole = if system.disks.emulated { &essence } else { system };
    let size = whole.volume_bytes().map_err(|p| anyhow!("{p}"))?;
    essence.volume.size_bytes = Some(size);
    match system.disks.emulated {
        true => essence.nodes.journal = system.nodes.journal,
        false => essence.disks = Disks::default(),
    }
    (essence.links, essence.hosts) = (Links::default(), Hosts::default());
    essence.recovery = Recovery::default();
    Ok(essence)
}

/// Refuses what cannot be, by its key.
pub fn check(system: &System) -> Result<(), Problem> {
    let no = |key: &str, value: &dyn ToString, expected: String| {
        Err(Problem { key: key.into(), value: value.to_string(), expected })
    };
    if system.disks.emulated {
        check_emulated(system)?;
    }
    let nodes = &system.nodes;
    if nodes.workers > MOST_NODES {
        let expected = format!("real nodes share one process; give at most {MOST_NODES}");
        return no("nodes.workers", &nodes.workers, expected);
    }
    let other = match nodes.roles {
        Roles::Array => None,
        Roles::Host => Some("host"),
        Roles::Controller => Some("controller"),
        Roles::Central => Some("central"),
    };
    if let Some(word) = other {
        let expected = "real hosts send requests to the array's nodes; omit it, or give array";
        return no("nodes.roles", &word, expected.into());
    }
    if let Some(seconds) = system.measure.seconds {
        let expected = "real runs end after measure.requests; omit it";
        return no("measure.seconds", &seconds, expected.into());
    }
    if system.workload.arrivals == Arrivals::Saturating {
        let expected = "real nodes have no such bound on buffers; give closed or open arrivals";
        return no("workload.arrivals", &"saturating", expected.into());
    }
    if let Some(fault) = system.faults.first() {
        let expected = "real nodes have no injected faults; omit faults";
        return no("faults[0].at_s", &fault.at_s, expected.into());
    }
    if system.measure.warm_up == WarmUp::Mser5 {
        let expected = "real runs have no pilot; give a number";
        return no("measure.warm_up", &WarmUp::Mser5, expected.into());
    }
    if nodes.originators == 0 {
        let expected = "a real array has no controller without disk; give 1 or more, and \
                        volume.dispatch = \"commanded\" for commanded workers";
        return no("nodes.originators", &0, expected.into());
    }
    let volume = &system.volume;
    if volume.ordering == Ordering::None && system.workload.hosts > 1 {
        let expected = "with volume.ordering = none, a real volume can have one host only; give \
                        1, or another volume.ordering";
        return no("workload.hosts", &system.workload.hosts, expected.into());
    }
    let fixed = volume.layout.0.parse().is_ok_and(|l: LayoutSpec| l.names_columns());
    if let Some(width) = volume.width
        && width != nodes.workers
        && !fixed
    {
        let expected = format!(
            "a real volume's {} covers all nodes; omit it, or give {}",
            volume.layout.0, nodes.workers
        );
        return no("volume.width", &width, expected);
    }
    if let (Some(trace), None) = (system.workload.requests.trace(), system.workload.speed()) {
        let expected =
            "real hosts replay a trace at its own times only; give workload.arrivals.traced";
        return no("workload.requests.trace.file", &trace.file, expected.into());
    }
    if system.workload.hosts > MOST_HOSTS {
        let expected = format!("each host is a thread of this process; give at most {MOST_HOSTS}");
        return no("workload.hosts", &system.workload.hosts, expected);
    }
    let longest = longest(&system.workload.requests);
    if longest > LONGEST {
        let expected = format!("a real array takes requests of at most {LONGEST} bytes");
        return no("workload.requests", &format!("{longest} bytes"), expected);
    }
    Ok(())
}

/// Refuses disks that cannot be emulated.
fn check_emulated(system: &System) -> Result<(), Problem> {
    let disks = &system.disks;
    for (key, value) in [("disks.devices", disks.devices), ("disks.per_bus", disks.per_bus)] {
        if let Some(value) = value {
            let expected = "each emulated disk is a device with its own bus; omit it";
            return Err(Problem::new(key, value, expected));
        }
    }
    if system.nodes.journal == JournalAt::Nvram {
        let expected = "a real node has its journal on its disk; omit it, or give disk";
        return Err(Problem::new("nodes.journal", "nvram", expected));
    }
    Ok(())
}

/// Refuses a directory that has no room for the array, or is not in memory where disks are to be emulated.
pub fn check_dir(system: &System, dir: &Path) -> Result<()> {
    if !dir.is_dir() {
        bail!("--dir {}: this is not a directory; create it, or give another", dir.display());
    }
    if system.disks.emulated && !weft_host::is_in_memory(dir)? {
        bail!(
            "--dir {}: emulated disks are files in memory, and this is on a disk; give a directory on \
             a tmpfs, as /dev/shm, or disks.emulated = false",
            dir.display()
        );
    }
    let there = rustix::fs::statvfs(dir).with_context(|| dir.display().to_string())?;
    let free = there.f_bavail.saturating_mul(there.f_frsize);
    let need = u64::from(system.nodes.workers) * used_bytes(system)?;
    if need > free {
        let size = system.volume.size_bytes.unwrap_or(0);
        bail!(
            "volume.size_bytes = {size}: the array's disks would take {}, and {} has {} of free \
             space; give a smaller size (a multiple of {SECTOR})",
            bytes(need),
            dir.display(),
            bytes(free)
        );
    }
    Ok(())
}
