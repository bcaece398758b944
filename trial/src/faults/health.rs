//! The state of the cluster under test, as its nodes report it, and waits until all is whole.

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;
use weft_host::ControlRequest;
use weft_host::status::{ClusterStatus, NodeState, Status, VolumeMode};

use super::cluster::{BUSY, Cluster, WHOLE};

/// Scrubs of a volume; one of them must have passed over nothing.
const SCRUBS: u32 = 3;

/// What a scrub says of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scrubbed {
    /// All parity matches.
    True,
    /// Nothing is wrong, and some was not looked at.
    InPart,
    /// Parity is wrong, whether or not it can be told which unit is.
    Wrong,
}

/// Reads what a node answers to a scrub.
pub(super) fn scrubbed(answer: &Value) -> Scrubbed {
    let is_none = |what: &str| answer[what] == 0;
    match (is_none("mismatched") && is_none("unclear"), is_none("skipped")) {
        (true, true) => Scrubbed::True,
        (true, false) => Scrubbed::InPart,
        (false, _) => Scrubbed::Wrong,
    }
}

/// How a process sees the group that it is in, in words.
fn group(cluster: &ClusterStatus) -> String {
    let leader = cluster.leader.map_or("no leader".to_string(), |n| format!("{n} leads"));
    let numbers = |all: &[u16]| all.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let serves = if cluster.serving { "serves" } else { "does not serve" };
    format!(
        "; {leader} in term {}; it {serves}, and is connected to {}",
        cluster.term,
        numbers(&cluster.connected)
    )
}

impl Cluster {
    /// The number of the map in force, as one of the nodes knows it.
    pub fn epoch(&self, node: usize) -> Result<u64> {
        Ok(self.status(node)?.epoch)
    }

    /// Whether a deleted snapshot has yet to be merged.
    pub fn merges(&self) -> Result<bool> {
        Ok(self.status(0)?.volumes.iter().any(|v| v.mode == VolumeMode::Deleted))
    }

    /// Sectors, pages of the table and the like that a node has found unreadable or wrong since it was started.
    pub fn erasures(&self, node: usize) -> Result<u64> {
        let status = self.status(node)?;
        let us = status.nodes.iter().find(|n| usize::from(n.node) == node);
        Ok(us.and_then(|n| n.counters).map_or(0, |c| c.erasures + c.damaged))
    }

    /// The nodes on whose disks the record of used slots is damaged.
    pub fn without_claims(&self) -> Result<Vec<usize>> {
        let nodes = self.status(0)?.nodes.into_iter();
        Ok(nodes.filter(|n| n.lost_claims).map(|n| usize::from(n.node)).collect())
    }

    /// Waits until all nodes agree, take part and have caught up, and that has lasted for `lasts`. Says
    /// how long it took until then, without what it had to last.
    pub fn wait_until_whole(&mut self, patience: Duration, lasts: Duration) -> Result<Duration> {
        let since = Instant::now();
        let mut whole_since: Option<Instant> = None;
        loop {
            for (n, child) in self.running.iter_mut().enumerate() {
                if let Some(status) = child.as_mut().map(Child::try_wait).transpose()?.flatten() {
                    bail!("the process of node {n} has ended by itself ({status})");
                }
            }
            let why = match self.unwhole() {
                Ok(why) => why,
                Err(e) => Some(format!("{e:#}")),
            };
            if let Some(why) = why {
                whole_since = None;
                if since.elapsed() > patience {
                    bail!(
                        "{} s were not enough for all nodes to serve with all redundancy: {why}; {BUSY}",
                        patience.as_secs()
                    );
                }
            } else {
                let begun = *whole_since.get_or_insert_with(Instant::now);
                if begun.elapsed() >= lasts {
                    return Ok(begun - since);
                }
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Why not everything is whole, if it is not.
    fn unwhole(&self) -> Result<Option<String>> {
        let mut epochs = Vec::new();
        for n in self.places() {
            let status = self.status(n)?;
            if !status.settled || !status.cluster.is_some_and(|c| c.serving) {
                return Ok(Some(format!("node {n} does not serve")));
            }
            if let Some(node) = status.nodes.iter().find(|n| n.state != NodeState::Up) {
                return Ok(Some(format!("node {} is {}", node.node, node.state)));
            }
            let is_well = |mode| matches!(mode, VolumeMode::FaultFree | VolumeMode::Deleted);
            if !status.volumes.iter().all(|v| is_well(v.mode)) {
                return Ok(Some("a volume is not fault-free".to_string()));
            }
            epochs.push(status.epoch);
        }
        let agree = epochs.iter().all(|e| *e == epochs[0]);
        Ok((!agree).then(|| "the nodes are in different epochs".to_string()))
    }

    /// Has everything read and verified. Stripes are passed over while a node is out for a moment, as
    /// may happen on a machine that is busy: these are looked at again.
    pub fn scrub(&mut self) -> Result<()> {
        let volumes = self.status(0)?.volumes.into_iter();
        let (snapshots, volumes): (Vec<_>, Vec<_>) = volumes.partition(|v| v.snapshot_of.is_some());
        for volume in volumes.into_iter().chain(snapshots) {
            for left in (0..SCRUBS).rev() {
                let found = match self.ask(0, &ControlRequest::scrub(&volume.name)) {
                    // It has been deleted since.
                    Err(_) if volume.snapshot_of.is_some() => break,
                    found => found?,
                };
                match scrubbed(&found) {
                    Scrubbed::True => break,
                    Scrubbed::InPart if left > 0 => {
                        self.wait_until_whole(WHOLE, Duration::ZERO)?;
                    }
                    _ => bail!("the scrub of {} found wrong parity: {found}", volume.name),
                }
            }
        }
        Ok(())
    }

    /// What each process says, for whoever looks for a fault.
    pub fn describe(&self) -> String {
        let mut out = String::new();
        for n in self.places() {
            match self.status(n) {
                Ok(Status { epoch, settled, cluster, nodes, .. }) => {
                    let us = nodes.iter().filter(|s| usize::from(s.node) == n);
                    let us = us.map(|s| match &s.waiting {
                        Some(what) => format!("{}, waiting for {what}", s.state),
                        None => s.state.to_string(),
                    });
                    let us = us.collect::<Vec<_>>().join("; ");
                    let changing = if settled { "" } else { " (changing)" };
                    let group = cluster.map_or(String::new(), |c| group(&c));
                    out += &format!("node {n} is {us}; map {epoch}{changing}{group}\n");
                }
                Err(e) => out += &format!("node {n}: {e:#}\n"),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parity_is_wrong_also_where_nobody_can_tell_which() {
        let answer = |mismatched, unclear, skipped| {
            scrubbed(&json!({ "mismatched": mismatched, "unclear": unclear, "skipped": skipped }))
        };
        assert_eq!([answer(0, 0, 0), answer(0, 0, 2)], [Scrubbed::True, Scrubbed::InPart]);
        assert_eq!([answer(1, 0, 0), answer(0, 1, 0), answer(0, 1, 2)], [Scrubbed::Wrong; 3]);
        assert_eq!(scrubbed(&json!({})), Scrubbed::Wrong, "it is not said");
    }
}
