//! What is wrong with a process that its operator should know.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_core::cluster::{self, ClusterMap, NodeKind};
use weft_core::units::NodeId;
use weft_net::transport::Lost;

use super::Together;

/// What is said of a process that has left.
pub(super) const HAS_LEFT: &str =
    "the last node of this process has left the cluster, so the process can be stopped";

/// What is said of a process whose member's log was lost.
const WAITS: &str = "the member's log was lost, and most of the voting members have not readmitted this process yet: they must run, \
                     with their logs";

/// What is said where no majority remembers.
const STUCK: &str = "most of the voting members have lost their logs, so the cluster cannot agree on changes: stop all processes, and \
                     found the cluster again with the map on the disks (`weft recover --config FILE --found`)";

impl Together {
    /// What is wrong with this process that its operator should know.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let left = self.home.has_left().then(|| HAS_LEFT.to_string());
        let anew = self.process.waits_for_admission().then(|| WAITS.to_string());
        let stuck = self.process.is_stuck().then(|| STUCK.to_string());
        let refused = |(peer, why): (&NodeId, &Lost)| {
            format!(
                "node {}: {why}. If it has left the cluster, it must join again with a new directory",
                peer.0
            )
        };
        let refused = self.links.refusals().iter().map(refused);
        let log = self.log_writer.trouble().map(|why| {
            format!(
                "this process cannot write its log: {why}; while it leads, the map cannot be changed: free space there, or stop the \
                 process, and another one leads"
            )
        });
        let own = left.into_iter().chain(anew).chain(stuck).chain(log).chain(self.label_warning());
        let own = own.chain(self.kind_warning());
        let own = own.chain(self.renewal.warning());
        own.chain(refused).collect()
    }

    /// What a process is for is said when it joins.
    fn kind_warning(&self) -> Option<String> {
        let first = self.map().served_by(self.us()).next()?;
        let known = self.map().nodes[usize::from(first.0)].kind == NodeKind::Controller;
        (known != self.home.config.controller).then(|| {
            format!(
                "`controller` is {} in the configuration and {known} in the cluster, since this process joined; restore that value, \
                 or remove the process from the cluster and join it again",
                self.home.config.controller
            )
        })
    }

    pub(super) fn label_warning(&self) -> Option<String> {
        let (known, config) = (self.home_in(self.map())?, &self.home.config);
        let listed = |labels: &BTreeMap<String, String>| match labels.is_empty() {
            true => "none".to_string(),
            false => labels.iter().map(|(l, v)| format!("{l}={v}")).collect::<Vec<_>>().join(" "),
        };
        (known.labels != config.labels).then(|| {
            format!(
                "the labels in the configuration ({}) differ from those in the cluster ({}), which apply; restore them, or remove \
             the process from the cluster and join it again",
                listed(&config.labels),
                listed(&known.labels)
            )
        })
    }

    /// Where this process lives, as a map has it.
    pub(super) fn home_in<'a>(&self, map: &'a ClusterMap) -> Option<&'a Arc<cluster::Home>> {
        let node = map.served_by(self.us()).next()?;
        map.nodes[usize::from(node.0)].home.as_ref()
    }
}
