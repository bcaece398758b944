//! What happens to nodes and disks at given times, and how the array goes about it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weft_core::cluster::Volume;
use weft_core::units::NodeId;
use weft_load::workload::Problem;

use super::System;
use super::fit::{MOST_TIMESTAMPED, within};
use crate::perf::lines::Graph;
use crate::perf::setup;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When: seconds from the beginning of the run.
    pub at_s: f64,
    /// What happens.
    pub what: FaultKind,
    /// To which node, where it happens to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// To the link between which two nodes, where it happens to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<[u16; 2]>,
}

impl Fault {
    /// Something that happens to a node.
    pub fn of_node(at_s: f64, what: FaultKind, node: u16) -> Fault {
        Fault { at_s, what, node: Some(node), link: None }
    }

    /// Something that happens to a link.
    pub fn of_link(at_s: f64, what: FaultKind, link: [u16; 2]) -> Fault {
        Fault { at_s, what, node: None, link: Some(link) }
    }
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
    /// A link dies, both ways.
    LinkDies,
    /// A link that had died is back.
    LinkReturns,
}

impl FaultKind {
    /// What it is called.
    fn word(self) -> &'static str {
        match self {
            FaultKind::NodeDies => "node-dies",
            FaultKind::NodeReturns => "node-returns",
            FaultKind::DiskReplaced => "disk-replaced",
            FaultKind::LinkDies => "link-dies",
            FaultKind::LinkReturns => "link-returns",
        }
    }

    /// Whether it happens to a link.
    pub fn is_of_link(self) -> bool {
        matches!(self, FaultKind::LinkDies | FaultKind::LinkReturns)
    }
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
    /// Bytes of adjacent units that are put back together at most, if it is more than one unit.
    pub together_bytes: u64,
    /// Whether content that a host reads before it is back is rebuilt first.
    pub on_demand: bool,
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
            together_bytes: real.rebuilding.together,
            on_demand: real.rebuilding.on_demand,
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
        within("recovery.together_bytes", self.together_bytes as f64)?;
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
            let expected = "there are no faults; give some, or false";
            return Err(Problem::new("measure.until_whole", true, expected));
        }
        if self.faults.is_empty() {
            return Ok(());
        }
        let nodes = u64::from(self.nodes.workers) + self.nodes.diskless() as u64;
        if nodes > MOST_TIMESTAMPED {
            let expected = format!(
                "all nodes of an array with faults need timestamps, which distinguish \
                 {MOST_TIMESTAMPED} nodes; give fewer, or no faults"
            );
            return Err(Problem::new("nodes.workers", self.nodes.workers, expected));
        }
        let mut standing = Standing {
            volume: setup::volume(self, self.data_bytes()?)?,
            dead: vec![false; usize::from(self.nodes.workers)],
            links: self.links_that_die(),
            dead_links: BTreeSet::new(),
        };
        for (n, fault) in self.faults_in_order() {
            let within_list = |p: Problem| Problem { key: format!("faults[{n}].{}", p.key), ..p };
            within("faults.at_s", fault.at_s)
                .map_err(|p| Problem { key: format!("faults[{n}].at_s"), ..p })?;
            match fault {
                Fault { node: Some(node), link: None, .. } if !fault.what.is_of_link() => {
                    self.check_node(&mut standing, &fault, node).map_err(within_list)?;
                }
                Fault { node: None, link: Some(link), .. } if fault.what.is_of_link() => {
                    standing.check_link(self, &fault, link).map_err(within_list)?;
                }
                _ => {
                    let (of, other) =
                        if fault.what.is_of_link() { ("link", "node") } else { ("node", "link") };
                    let expected = format!("it happens to a {of}; give {of}, and omit {other}");
                    return Err(within_list(Problem::new("what", fault.what.word(), expected)));
                }
            }
            standing.check_ways(&fault).map_err(within_list)?;
        }
        let dead = standing.dead;
        if self.measure.until_whole && dead.contains(&true) {
            let expected = "a node stays down, so the array never recovers; let it return, or \
                            give false";
            return Err(Problem::new("measure.until_whole", true, expected));
        }
        Ok(())
    }

    /// Refuses a node that is not there, or cannot be done without, or that is dead or not already.
    fn check_node(&self, standing: &mut Standing, fault: &Fault, node: u16) -> Result<(), Problem> {
        let workers = self.nodes.workers;
        let refuse = |expected: String| Err(Problem::new("node", node, expected));
        if node >= workers {
            let last = workers - 1;
            return refuse(match self.nodes.roles.hosts_are_nodes() {
                true => format!("nodes without a disk cannot fail here; give 0 to {last}"),
                false => format!("there are {workers} nodes with disks; give 0 to {last}"),
            });
        }
        let (dead, dies) = (&mut standing.dead, fault.what == FaultKind::NodeDies);
        let is_dead = std::mem::replace(&mut dead[usize::from(node)], dies);
        if is_dead == dies {
            let at = fault.at_s;
            return refuse(match is_dead {
                true => format!("node {node} is down at {at} s; let it return first"),
                false => format!("node {node} is up at {at} s; let it fail first"),
            });
        }
        if let Some(graph) = &mut standing.links {
            graph.sets_node(node.into(), dies);
        }
        let lost = |n: NodeId| dead.get(usize::from(n.0)).is_some_and(|dead| *dead);
        if standing.volume.is_lost_with(lost) {
            return refuse(format!(
                "{} does not tolerate the failures at that time; let others return before, or \
                 give another volume.layout",
                self.volume.layout.0
            ));
        }
        let originators = &dead[..usize::from(self.nodes.originators)];
        if !originators.is_empty() && originators.iter().all(|dead| *dead) {
            let expected = "no node would take hosts' requests; give more nodes.originators";
            return refuse(expected.to_string());
        }
        Ok(())
    }
}

/// What is dead at some time.
struct Standing {
    volume: Volume,
    dead: Vec<bool>,
    /// The links, if there are such as may die.
    links: Option<Graph>,
    dead_links: BTreeSet<(u16, u16)>,
}

impl Standing {
    /// Refuses a link that is not there, or that is dead or not already.
    fn check_link(
        &mut self,
        system: &System,
        fault: &Fault,
        link: [u16; 2],
    ) -> Result<(), Problem> {
        let [a, b] = link;
        let refuse = |expected: String| Err(Problem::new("link", format!("[{a}, {b}]"), expected));
        let Some(graph) = &mut self.links else {
            return refuse(
                "only a torus, or links between any two nodes of an array, have links that fail; \
                 let a node fail, or give links.fabric = torus or point-to-point"
                    .to_string(),
            );
        };
        let ends = (u32::from(a), u32::from(b));
        if !graph.has_link(ends) {
            let nodes = usize::from(system.nodes.workers) + system.nodes.diskless();
            return refuse(match usize::from(a.max(b)) < nodes && a != b {
                true => {
                    let near: Vec<String> =
                        graph.neighbours(ends.0).map(|n| n.to_string()).collect();
                    format!("this link does not exist; node {a} has links to {}", near.join(", "))
                }
                false => format!("give two of the {nodes} nodes, from 0"),
            });
        }
        let dies = fault.what == FaultKind::LinkDies;
        let key = (a.min(b), a.max(b));
        let changes = if dies { self.dead_links.insert(key) } else { self.dead_links.remove(&key) };
        if !changes {
            let at = fault.at_s;
            return refuse(match dies {
                true => format!("it is down at {at} s; let it return first"),
                false => format!("it is up at {at} s; let it fail first"),
            });
        }
        graph.sets_link(ends, dies);
        Ok(())
    }

    /// Refuses what leaves living nodes without a way to one another.
    fn check_ways(&mut self, fault: &Fault) -> Result<(), Problem> {
        if self.links.as_mut().is_none_or(Graph::is_connected) {
            return Ok(());
        }
        let expected = "nodes that are up would have no path to one another then; let others \
                        return before, or let nodes fail whose links are down";
        Err(Problem::new("at_s", fault.at_s, expected))
    }
}
