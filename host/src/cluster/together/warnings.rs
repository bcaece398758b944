//! What is wrong with a process that its operator should know.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_core::cluster::{self, ClusterMap, NodeKind};
use weft_core::units::NodeId;
use weft_net::transport::Lost;

use super::Together;

/// What is said of a process that has left.
pub(super) const HAS_LEFT: &str = "the last node of this process has left the cluster: it has nothing to do any \
                        more, and can be stopped";

/// What is said of a process whose member's log was lost.
const WAITS: &str = "the member's log was lost, and most of the voting members have not admitted this process \
                     anew yet: they must run, with their logs";

/// What is said where no majority remembers.
const STUCK: &str = "most of the voting members have lost their logs, so nothing can be agreed on any more: stop \
                     all processes, and found the cluster anew with the map that is on the disks (`weft \
                     recover --config FILE`)";

impl Together {
    /// What is wrong with this process that its operator should know.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let left = self.home.has_left().then(|| HAS_LEFT.to_string());
        let anew = self.process.waits_for_admission().then(|| WAITS.to_string());
        let stuck = self.process.is_stuck().then(|| STUCK.to_string());
        let refused = |(peer, why): (&NodeId, &Lost)| {
            format!(
                "node {}: {why}. One that has left the cluster needs a \
                 new directory, and must join anew",
                peer.0
            )
        };
        let refused = self.links.refusals().iter().map(refused);
        let own = left.into_iter().chain(anew).chain(stuck).chain(self.label_warning());
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
                "`controller` is {} in the configuration and {known} in the cluster, which goes by what was said \
                 when this process joined; put that back, or have it leave the cluster and join anew",
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
                "the labels in the configuration ({}) are not those that the cluster has for this \
                 process ({}) and goes by; put those back, or have it leave the cluster and join anew",
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
