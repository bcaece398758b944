//! How the nodes of other processes are, as these have said last.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_core::units::{Epoch, NodeId, VolumeId};

use crate::control::absences::Absences;
use crate::engine::Sighting;
use crate::hosts::promises::AllTold;
use crate::status::Detour;
use crate::throttle::AllDemands;

/// A status that is older says nothing any more.
const STALE: Duration = Duration::from_secs(3);

/// What other processes have said, and when, by their numbers.
#[derive(Default)]
pub(crate) struct PeerStatus(BTreeMap<NodeId, (Instant, Value)>);

impl PeerStatus {
    /// Takes what a process says of its nodes.
    pub(crate) fn take(&mut self, process: NodeId, bytes: &[u8]) {
        if let Ok(value) = serde_json::from_slice(bytes) {
            self.0.insert(process, (Instant::now(), value));
        }
    }

    fn of(&self, process: NodeId) -> Option<&Value> {
        self.0.get(&process).filter(|n| n.0.elapsed() < STALE).map(|n| &n.1)
    }

    /// What a process has said of a node.
    pub(crate) fn of_node(&self, process: NodeId, node: NodeId) -> Option<&Value> {
        let nodes = self.of(process)?["nodes"].as_array()?;
        nodes.iter().find(|n| n["node"] == node.0)
    }

    /// Whether a process was quiet in this epoch at some time after `since`.
    pub(crate) fn is_quiet_since(&self, process: NodeId, since: Instant, epoch: Epoch) -> bool {
        self.0.get(&process).is_some_and(|(at, value)| {
            // It may have been on its way for a while.
            *at > since + Duration::from_millis(200)
                && value["quiet"] == true
                && value["epoch"].as_u64() == Some(epoch)
        })
    }

    /// Whether a process that stops has stopped its nodes.
    pub(crate) fn has_stopped(&self, process: NodeId) -> bool {
        self.of(process).is_some_and(|n| n["stopped"] == true)
    }

    /// Whom a process reaches not as it should, or through others.
    pub(crate) fn detours(&self, process: NodeId) -> Vec<Detour> {
        let said = self.of(process).map(|n| n["detours"].clone());
        said.and_then(|said| serde_json::from_value(said).ok()).unwrap_or_default()
    }

    /// The nodes that a process finds slow.
    pub(crate) fn slow_nodes(&self, process: NodeId) -> Vec<Sighting> {
        let said = self.of(process).map(|n| n["slow"].clone());
        said.and_then(|said| serde_json::from_value(said).ok()).unwrap_or_default()
    }

    /// The nodes of a process whose disks rotate.
    pub(crate) fn rotating(&self, process: NodeId) -> Vec<u16> {
        let said = self.of(process).map(|n| n["rotating"].clone());
        said.and_then(|said| serde_json::from_value(said).ok()).unwrap_or_default()
    }

    /// The nodes that are down, as the process says that leads.
    pub(crate) fn absences(&self, process: NodeId) -> Absences {
        let said = self.of(process).map(|n| n["absences"].clone());
        said.and_then(|said| serde_json::from_value(said).ok()).unwrap_or_default()
    }

    /// A process that lets others in.
    pub(crate) fn admits(&self) -> Option<NodeId> {
        let admits = |process: &NodeId| self.of(*process).is_some_and(|n| n["admits"] == true);
        self.0.keys().copied().find(admits)
    }

    /// Whether what a process has said last is from this epoch or a later one.
    pub(crate) fn is_of_epoch(&self, process: NodeId, epoch: Epoch) -> bool {
        let said = self.0.get(&process).and_then(|(_, value)| value["epoch"].as_u64());
        said.is_some_and(|said| said >= epoch)
    }

    /// Whether another process is making, changing or deleting a volume.
    pub(crate) fn has_in_hand(&self, volume: VolumeId) -> bool {
        let has = |process: &NodeId| {
            let in_hand = self.of(*process).and_then(|n| n["in_hand"].as_array());
            in_hand.is_some_and(|all| all.iter().any(|id| *id == volume.0))
        };
        self.0.keys().any(has)
    }

    /// Addresses at which other processes serve hosts, as URIs.
    pub(crate) fn addresses(&self) -> Vec<(NodeId, String)> {
        let of = |process: &NodeId| {
            let said = self.of(*process).map(|n| n["listens"].clone());
            let said: Option<Vec<String>> = said.and_then(|s| serde_json::from_value(s).ok());
            said.unwrap_or_default().into_iter().map(|uri| (*process, uri)).collect::<Vec<_>>()
        };
        self.0.keys().flat_map(of).collect()
    }

    /// What hosts of a process need of the limits of volumes, if it was heard.
    pub(crate) fn demands(&self, process: NodeId) -> Option<AllDemands> {
        let said = self.of(process)?;
        serde_json::from_value(said["demands"].clone()).ok()
    }

    /// How a process keeps promises to its hosts, if it was heard.
    pub(crate) fn promises(&self, process: NodeId) -> Option<AllTold> {
        let said = self.of(process)?;
        serde_json::from_value(said["promises"].clone()).ok()
    }

    /// Connections of hosts to a volume in other processes.
    pub(crate) fn clients_of(&self, volume: VolumeId) -> u64 {
        let of = |process: &NodeId| self.of(*process)?["clients"][volume.0.to_string()].as_u64();
        self.0.keys().filter_map(of).sum()
    }
}
