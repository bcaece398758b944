//! Predictions of `weft cluster what-if`: what the loss of nodes, or more disks, would mean.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{NodeStatus, Status};
use crate::error::{Result, fail};

/// What would become of an array.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prediction {
    /// Nodes that would be lost.
    pub lost: Vec<u16>,
    /// How many disks would have been added before.
    pub added: usize,
    /// Volumes without their snapshots.
    pub volumes: Vec<PredictedVolume>,
    /// What would be rebuilt.
    pub rebuild: PredictedRebuild,
    /// What other layouts would mean.
    pub layouts: Vec<PredictedLayout>,
    /// What `weft cluster rebalance` would move to the added disks, if there are any.
    pub rebalance: Option<PredictedMoves>,
    /// The disks that are left, when all that is done.
    pub disks: Vec<PredictedDisk>,
}

/// What another layout of a volume would mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PredictedLayout {
    /// The volume's name.
    pub volume: String,
    /// With its layout now.
    pub now: LayoutFigures,
    /// With the other.
    pub then: LayoutFigures,
    /// Whether there is space for both at once, so that the volume can be copied to one of the other layout.
    pub fits_beside: bool,
}

/// What a layout of a volume means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LayoutFigures {
    /// The layout.
    pub layout: String,
    /// Bytes on all disks together. A thin volume takes as much if it is full.
    pub bytes_on_disks: u64,
    /// Disks with parts of it.
    pub disks: usize,
    /// How many nodes could be lost, whichever they are.
    pub survives: usize,
    /// Mean hours until more of its disks are lost together than the layout bears (AFRAID's equation 1), with all
    /// parity up to date.
    pub mttdl_hours: f64,
}

/// What would become of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PredictedVolume {
    /// Its name.
    pub name: String,
    /// Its mode then.
    pub then: PredictedMode,
    /// How many more nodes could be lost then, whichever they are.
    pub survives: usize,
    /// The same after the rebuild.
    pub survives_rebuilt: usize,
    /// Whether everything that it would lose has a place on another disk.
    pub has_room: bool,
}

/// The mode of a volume after a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictedMode {
    /// It would lose no column.
    #[default]
    AsNow,
    /// All its content could be read and written.
    Degraded,
    /// Hosts would lose access to some of its content.
    Failed,
}

/// What would be rebuilt, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PredictedRebuild {
    /// Bytes. Of thin volumes only the used slots count.
    pub bytes: u64,
    /// The most that one disk would get.
    pub most_bytes_on_a_disk: u64,
    /// How long that takes at the rebuild floor, while hosts use the disk.
    pub seconds_at_floor: Option<u64>,
    /// The same at the ceiling, if there is one, while no host does.
    pub seconds_at_ceiling: Option<u64>,
}

/// What would be moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PredictedMoves {
    /// Columns.
    pub columns: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// A disk before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PredictedDisk {
    /// Its node. Added disks have the next numbers.
    pub node: u16,
    /// Bytes for volumes.
    pub bytes: u64,
    /// Bytes that volumes have now.
    pub used_bytes: u64,
    /// Bytes that they would have.
    pub used_bytes_after: u64,
    /// Bytes that would be rebuilt on it.
    pub rebuilt_bytes: u64,
}

impl Status {
    /// The node with a number, or all nodes of a process, by its name.
    ///
    /// # Errors
    /// If no process has the name.
    pub fn nodes_of(&self, whose: &str) -> Result<Vec<usize>> {
        if let Ok(node) = whose.parse() {
            return Ok(vec![node]);
        }
        let named = |n: &&NodeStatus| n.name.as_deref() == Some(whose);
        // A process that another of its name has replaced is not meant.
        let there = |n: &&NodeStatus| named(n) && n.address.is_some();
        let nodes: Vec<usize> =
            self.nodes.iter().filter(there).map(|n| usize::from(n.node)).collect();
        if !nodes.is_empty() {
            return Ok(nodes);
        }
        let names: BTreeSet<&str> = self.nodes.iter().filter_map(|n| n.name.as_deref()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let there = match names.is_empty() {
            true => "the nodes of this array have only numbers".to_string(),
            false => format!("there are: {}", names.join(", ")),
        };
        fail(format!("no process is called '{whose}'; {there}"))
    }
}
