//! What of a system does not fit the rest of it, each by the key that is to be changed.

use weft_core::policy::Dispatch;
use weft_core::units::SECTOR;
use weft_load::workload::{Arrivals, Problem, Spacing, Think};
use weft_model::schedule::Policy as Scheduler;
use weft_model::spec::{Device, Spec, Start};

use super::{Arbitration, Commands, Fabric, JournalAt, MessageTimes, Roles, Store, System};
use crate::perf::parameters;

/// Nodes that timestamps can tell apart.
pub(super) const MOST_TIMESTAMPED: u64 = 1 << 12;

/// Refuses a number that is not in the range that [`parameters`] gives for its key.
pub(super) fn within(key: &str, value: f64) -> Result<(), Problem> {
    let range = parameters::of(key).range;
    match range.holds(value) {
        true => Ok(()),
        false => Err(Problem::new(key, value, format!("give {}", parameters::show(&range)))),
    }
}

impl System {
    /// Refuses a trace that ends with the warm-up, and runs of one that would all be the same.
    pub(super) fn check_trace(&self, disk: &Spec) -> Result<(), Problem> {
        let Some(trace) = self.workload.requests.trace() else { return Ok(()) };
        if self.measured_requests() == 0 {
            let all = trace.surveyed.as_ref().map_or(0, |t| t.requests);
            let expected = format!("the trace has {all} requests; give less than that");
            return Err(Problem::new("measure.warm_up", self.measure.warm_up, expected));
        }
        let replications = self.measure.replications;
        if replications > 1 && !self.has_chance(disk) {
            let expected =
                "neither the trace nor this system is random: all runs would be the same; give 1";
            return Err(Problem::new("measure.replications", replications, expected));
        }
        Ok(())
    }

    /// Whether anything but requests is drawn, so that one run of a trace differs from another.
    fn has_chance(&self, disk: &Spec) -> bool {
        let arrivals = match self.workload.arrivals {
            Arrivals::Closed { think, .. } => !matches!(think, Think::ConstantUs(_)),
            Arrivals::Open { spacing, .. } => spacing != Spacing::Fixed,
            Arrivals::Traced { .. } | Arrivals::Saturating => false,
        };
        let disks = match &disk.device {
            Device::Mechanical(_) => !self.disks.synchronized,
            Device::Fixed(_) => false,
            Device::Flash(flash) => {
                [&flash.read_latency, &flash.write_latency, &flash.flush_latency]
                    .iter()
                    .any(|points| points.len() > 1)
                    || flash.collection.as_ref().is_some_and(|c| c.start == Start::Preconditioned)
            }
        };
        let hierarchy = self.links.hierarchy.unwrap_or_default();
        let buses =
            self.links.fabric == Fabric::Hierarchy && hierarchy.arbitration == Arbitration::Random;
        let links =
            buses || self.links.vary() || self.hosts.links.is_some_and(|links| links.vary());
        let messages =
            self.hosts.message_us > 0.0 && self.hosts.message_times == MessageTimes::Exponential;
        arrivals || disks || links || messages || self.hosts.clock_ms > 0.0
    }

    /// Refuses what only hosts that are nodes can have, and more of those than have numbers.
    pub(super) fn check_roles(&self) -> Result<(), Problem> {
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
            let expected = "hosts that are nodes are on the array's own links; omit hosts.links";
            return Err(Problem::new("hosts.links.mb_s", links.mb_s, expected));
        }
        let (word, chosen) = self.nodes.roles.chooses();
        if self.nodes.originators != 0 {
            let expected = format!("with nodes.roles = {word} only hosts take requests; give 0");
            return Err(Problem::new("nodes.originators", self.nodes.originators, expected));
        }
        if chosen.is_some() && self.volume.dispatch != Dispatch::Collaborative {
            let expected = format!("nodes.roles = {word} determines it; omit it");
            return Err(Problem::new("volume.dispatch", self.volume.dispatch, expected));
        }
        let others = u64::from(self.nodes.lock_servers) + u64::from(self.workload.hosts);
        let nodes = u64::from(self.nodes.workers) + others;
        if nodes > MOST_TIMESTAMPED {
            let expected = format!(
                "with the workers and the lock servers there would be {nodes} nodes, and \
                 timestamps distinguish {MOST_TIMESTAMPED}; give fewer"
            );
            return Err(Problem::new("workload.hosts", self.workload.hosts, expected));
        }
        Ok(())
    }

    /// Refuses what a store cannot do.
    pub(super) fn check_store(&self) -> Result<(), Problem> {
        let sector = self.sector_bytes()?;
        if !SECTOR.is_multiple_of(sector) {
            let expected = format!(
                "its sectors have {sector} bytes, which does not divide {SECTOR}, the size of a \
                 node's sectors; give a disk with {SECTOR} or a divisor of it"
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
        if self.nodes.journal == JournalAt::Nvram {
            let expected = "there is no journal; give nodes.store = journalled, or disk";
            return Err(Problem::new("nodes.journal", "nvram", expected));
        }
        Ok(())
    }

    /// Refuses an order of a driver's queue that it cannot know: of a disk's position, or where nothing waits.
    pub(super) fn check_driver(&self) -> Result<(), Problem> {
        let (order, admits) = (self.hosts.scheduler, self.hosts.admits);
        if let Some(admits) = admits {
            within("hosts.admits", f64::from(admits))?;
        }
        if matches!(order, Scheduler::Satf | Scheduler::Bnn) {
            let expected = "a host knows only addresses; give fcfs, sstf or c-look";
            return Err(Problem::new("hosts.scheduler", order.name(), expected));
        }
        match order != Scheduler::Fcfs && admits.is_none() {
            true => {
                let expected =
                    "nothing waits at a host that admits all; give hosts.admits too, or fcfs";
                Err(Problem::new("hosts.scheduler", order.name(), expected))
            }
            false => Ok(()),
        }
    }

    /// Refuses what only rounds or threads have, where there are none.
    pub(super) fn check_threads(&self) -> Result<(), Problem> {
        let (nodes, hosts) = (&self.nodes, &self.hosts);
        if nodes.rounds && nodes.roles.hosts_are_nodes() {
            let expected = "hosts that are nodes are sequential already; give false";
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
            let expected = "disks in memory have no bus; omit it, or give disks.in_memory = false";
            return Err(Problem::new("disks.per_bus", so_many, expected));
        }
        if self.disks.emulated && self.disks.in_memory {
            let expected =
                "disks in memory take no time of their own; give disks.in_memory = false";
            return Err(Problem::new("disks.emulated", true, expected));
        }
        if let (Some(devices), true) = (self.disks.devices, self.disks.in_memory && !nodes.rounds) {
            let expected = "disks in memory answer at once and share nothing; omit it, or give \
                            disks.in_memory = false";
            return Err(Problem::new("disks.devices", devices, expected));
        }
        Ok(())
    }

    /// Refuses what only a switch has where there is none, and hosts that would be on two kinds of links.
    pub(super) fn check_switch(&self) -> Result<(), Problem> {
        let is_switch = self.links.fabric == Fabric::Switch;
        if let Some(expected) = self.no_port_for_hosts().filter(|_| self.hosts.at_switch) {
            return Err(Problem::new("hosts.at_switch", true, expected));
        }
        if let (Some(rate), false) = (self.nodes.memory_mb_s, is_switch) {
            let expected = "memory takes time only where machines are at a switch; omit it, or give \
                            links.fabric = switch";
            return Err(Problem::new("nodes.memory_mb_s", rate, expected));
        }
        if self.links.one_sided && !self.nodes.roles.is_controlled() {
            let expected = "only hosts of a controller are read and written this way; give nodes.roles = \
                            controller or central, or false";
            return Err(Problem::new("links.one_sided", true, expected));
        }
        let path = &self.nodes.path;
        if !self.nodes.coalesce && self.nodes.store == Store::Journalled {
            let expected = "the journal always combines writes; give true, or nodes.store = plain";
            return Err(Problem::new("nodes.coalesce", false, expected));
        }
        if self.nodes.lock_servers != 1 && !self.nodes.roles.hosts_are_nodes() {
            let expected = "locks are divided where hosts are their own controllers; give nodes.roles = host, or 1";
            return Err(Problem::new("nodes.lock_servers", self.nodes.lock_servers, expected));
        }
        if self.nodes.commands == Commands::Block && path.command + path.execute == 0 {
            let expected = "no command costs anything; give nodes.path.command or \
                            nodes.path.execute, or column";
            return Err(Problem::new("nodes.commands", "block", expected));
        }
        Ok(())
    }

    /// Why hosts cannot have a port each at the nodes' switch, if they cannot.
    fn no_port_for_hosts(&self) -> Option<&'static str> {
        if self.links.fabric != Fabric::Switch {
            return Some("only a switch has ports for hosts; give links.fabric = switch, or false");
        }
        if self.hosts.links.is_some() {
            return Some("hosts have separate links; omit hosts.links, or give false");
        }
        let is_node = self.nodes.roles != Roles::Array;
        is_node.then_some("hosts that are nodes have a port each already; give false")
    }

    pub(super) fn check_path_lengths(&self) -> Result<(), Problem> {
        let path = &self.nodes.path;
        for (name, instructions) in [
            ("request", path.request),
            ("reply", path.reply),
            ("send", path.send),
            ("receive", path.receive),
            ("command", path.command),
            ("execute", path.execute),
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
        within("nodes.path.send_byte", path.send_byte)?;
        within("nodes.path.host_byte", path.host_byte)?;
        within("nodes.path.disk_byte", path.disk_byte)?;
        within("nodes.path.write_byte", path.write_byte)?;
        within("nodes.path.xor_byte", path.xor_byte)
    }
}
