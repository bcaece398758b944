//! What happens to nodes and disks at given times, and how the array goes about it.

use serde::{Deserialize, Serialize};
use weft_load::workload::Problem;

use super::fit::within;
use super::{Roles, System};
use crate::perf::setup;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When: seconds from the beginning of the run.
    pub at_s: f64,
    /// What happens.
    pub what: FaultKind,
    /// To which node.
    pub node: u16,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// A node dies, and nobody reaches its disk any more.
    NodeDies,
    /// A node that had died is back, with its disk.
    NodeReturns,
    /// A node that had died is back, with an empty disk.
    DiskReplaced,
}

/// How an array goes about faults.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recovery {
    /// Milliseconds until others, and hosts, find that a node is dead.
    pub notice_ms: f64,
    /// Milliseconds until a new map of the cluster is safe.
    pub map_ms: f64,
    /// Stripe units that a disk which is filled has in work at once.
    pub at_once: u32,
    /// The same while hosts use the disk.
    pub at_once_busy: u32,
    /// 10^6 bytes a second at which a disk is filled at most; as fast as it goes if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mb_s: Option<f64>,
}

impl Default for Recovery {
    fn default() -> Self {
        // As many at once as a node in the real world.
        let real = weft_core::node::NodeConfig::default();
        Recovery {
            notice_ms: 300.0,
            map_ms: 10.0,
            at_once: real.rebuilds as u32,
            at_once_busy: real.rebuilds_busy as u32,
            mb_s: None,
        }
    }
}

impl Recovery {
    pub(super) fn check(&self) -> Result<(), Problem> {
        within("recovery.notice_ms", self.notice_ms)?;
        within("recovery.map_ms", self.map_ms)?;
        within("recovery.at_once", f64::from(self.at_once))?;
        within("recovery.at_once_busy", f64::from(self.at_once_busy))?;
        self.mb_s.map_or(Ok(()), |rate| within("recovery.mb_s", rate))
    }
}

impl System {
    /// Faults in the order in which they happen, each with its place in the list.
    pub(in crate::perf) fn faults_in_order(&self) -> Vec<(usize, Fault)> {
        let mut faults: Vec<(usize, Fault)> = self.faults.iter().copied().enumerate().collect();
        faults.sort_by(|a, b| a.1.at_s.total_cmp(&b.1.at_s));
        faults
    }

    /// Refuses faults of what is not there, in an order that cannot be, or after which nobody could serve.
    pub(super) fn check_faults(&self) -> Result<(), Problem> {
        self.recovery.check()?;
        if self.measure.until_whole && self.faults.is_empty() {
            let expected = "nothing is ever lost; give faults, or false";
            return Err(Problem::new("measure.until_whole", true, expected));
        }
        if self.faults.is_empty() {
            return Ok(());
        }
        let volume = setup::volume(self, self.data_bytes()?)?;
        let mut dead = vec![false; usize::from(self.nodes.workers)];
        for (n, fault) in self.faults_in_order() {
            let key = |name: &str| format!("faults[{n}].{name}");
            within("faults.at_s", fault.at_s).map_err(|p| Problem { key: key("at_s"), ..p })?;
            self.check_node(&key("node"), fault.node)?;
            let is_dead = &mut dead[usize::from(fault.node)];
            if *is_dead == (fault.what == FaultKind::NodeDies) {
                let (node, at) = (fault.node, fault.at_s);
                let expected = match *is_dead {
                    true => format!("node {node} is dead at {at} s; let it return first"),
                    false => format!("node {node} is not dead at {at} s; let it die first"),
                };
                return Err(Problem::new(&key("node"), node, expected));
            }
            *is_dead = fault.what == FaultKind::NodeDies;
            let lost = |node: weft_core::units::NodeId| {
                dead.get(usize::from(node.0)).is_some_and(|dead| *dead)
            };
            if volume.is_lost_with(lost) {
                let expected = format!(
                    "{} does not bear what is dead then; let others return before, or give another \
                     volume.layout",
                    self.volume.layout.0
                );
                return Err(Problem::new(&key("node"), fault.node, expected));
            }
            let originators = &dead[..usize::from(self.nodes.originators)];
            if !originators.is_empty() && originators.iter().all(|dead| *dead) {
                let expected = "nobody would take hosts' requests any more; give more \
                                nodes.originators";
                return Err(Problem::new(&key("node"), fault.node, expected));
            }
        }
        if self.measure.until_whole && dead.contains(&true) {
            let expected = "a node stays dead, so nothing is ever whole again; let it return, or \
                            give false";
            return Err(Problem::new("measure.until_whole", true, expected));
        }
        Ok(())
    }

    /// Refuses a node that is not there, or that cannot be done without.
    fn check_node(&self, key: &str, node: u16) -> Result<(), Problem> {
        let workers = self.nodes.workers;
        if node < workers {
            return Ok(());
        }
        let last = workers - 1;
        let expected = match self.nodes.roles {
            Roles::Host => format!("hosts and the lock server do not die here; give 0 to {last}"),
            Roles::Array => format!("there are {workers} nodes with disks; give 0 to {last}"),
        };
        Err(Problem::new(key, node, expected))
    }
}
