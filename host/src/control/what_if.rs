//! Predictions for operators: the loss of nodes, more disks, other layouts.

mod layouts;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use weft_core::cluster::what_if::{self, AddedDisk, Fate, Loss, Rebuilt};
use weft_core::cluster::{ClusterMap, Extent, Fullness, Volume, plan_balance};
use weft_core::node::{FillRates, UNBOUNDED};
use weft_core::units::{NodeId, SECTOR, VolumeId};

use crate::control::commands::{Commands, Wait};
use crate::control::status;
use crate::control_protocol::{NewDiskOf, ok};
use crate::disk::handle::Aside;
use crate::error::{Result, fail};
use crate::status::{
    NodeStatus, PredictedDisk, PredictedMode, PredictedMoves, PredictedRebuild, PredictedVolume,
    Prediction,
};

use layouts::{Lacking, with_layouts};

/// Disks that one question may add.
const MOST_ADDED: usize = 1024;

/// Has a prediction computed in a thread of its own, for an answer.
pub(super) fn predict(
    commands: &Commands<'_>,
    lost: &[u16],
    added: &[NewDiskOf],
    layouts: &BTreeMap<String, String>,
) -> Result<Wait> {
    let predict = prediction(commands, lost, added, layouts)?;
    let looked_at = status::with_cut_off(commands.engine, json!({}));
    Ok(Wait::Computing(Aside::begin(move || {
        let mut answer = looked_at.clone();
        answer["prediction"] = json!(predict());
        ok(answer)
    })))
}

/// Predicts the consequences of the loss of these nodes, if these disks were added and volumes had these layouts before. The returned closure may take long in
/// a large cluster; call it where nothing waits for it.
fn prediction(
    commands: &Commands<'_>,
    lost: &[u16],
    added: &[NewDiskOf],
    layouts: &BTreeMap<String, String>,
) -> Result<impl Fn() -> Prediction + Send + Sync + use<>> {
    let engine = &*commands.engine;
    let lost = lost_nodes(engine.map(), lost)?;
    let now = what_if::with_disks(engine.map(), &added_disks(engine.map(), added)?);
    let columns = engine.map().volumes.values().flat_map(|volume| {
        let of = move |(n, extent): (usize, &Extent)| {
            extent.columns.iter().map(move |column| (volume, n, column.0)).collect::<Vec<_>>()
        };
        volume.extents.iter().enumerate().flat_map(of)
    });
    let lacking = columns.filter(|(volume, n, node)| status::lacks(engine, volume, *n, *node));
    let lacking: Lacking = lacking.map(|(volume, n, node)| (volume.id, n, node)).collect();
    let (map, layouts) = with_layouts(now.clone(), layouts, &lacking)?;
    let nodes = status::nodes(commands);
    let rates = FillRates::of(engine.fill_rates(), &map.settings);
    let added = added.len();
    Ok(move || {
        let lacks = |volume: &Volume, n, node| lacking.contains(&(volume.id, n, node));
        let loss = what_if::loss(&map, &lost, lacks);
        let by_disk = Bytes { map: &map, nodes: &nodes }.by_disk(&loss.rebuilt);
        let layouts = layouts.clone();
        Prediction { layouts, ..predicted((&now, &map), &lost, added, (&loss, &by_disk), rates) }
    })
}

/// On disks as they are `now`, and with the layouts of `map`.
fn predicted(
    (now, map): (&ClusterMap, &ClusterMap),
    lost: &BTreeSet<NodeId>,
    added: usize,
    (loss, by_disk): (&Loss, &BTreeMap<NodeId, u64>),
    rates: FillRates,
) -> Prediction {
    let most = by_disk.values().copied().max().unwrap_or(0);
    let plan = plan_balance(map, if added == 0 { 0 } else { usize::MAX });
    let moves = PredictedMoves {
        columns: plan.moves.len(),
        bytes: plan.moves.iter().map(|m| m.sectors * SECTOR).sum(),
    };
    let after = if lost.is_empty() { &plan.after } else { &loss.after };
    Prediction {
        lost: lost.iter().map(|n| n.0).collect(),
        added,
        volumes: loss.fates.iter().map(|f| volume(map, f, loss)).collect(),
        rebuild: PredictedRebuild {
            bytes: by_disk.values().sum(),
            most_bytes_on_a_disk: most,
            seconds_at_floor: seconds(most, rates.floor),
            seconds_at_ceiling: seconds(most, rates.ceiling),
        },
        rebalance: (added > 0).then_some(moves),
        disks: disks(&plan_balance(now, 0).before, after, by_disk),
        layouts: Vec::new(),
    }
}

fn lost_nodes(map: &ClusterMap, lost: &[u16]) -> Result<BTreeSet<NodeId>> {
    let nodes = &map.nodes;
    let is_there = |n: u16| nodes.get(usize::from(n)).is_some_and(|i| !i.removed && i.has_disk());
    match lost.iter().find(|n| !is_there(**n)) {
        Some(n) => fail(format!("there is no node {n} with a disk; `weft node list` shows them")),
        None => Ok(lost.iter().map(|n| NodeId(*n)).collect()),
    }
}

fn added_disks(map: &ClusterMap, added: &[NewDiskOf]) -> Result<Vec<AddedDisk>> {
    if added.len() > MOST_ADDED {
        return fail(format!("{} disks are too many; give {MOST_ADDED} at most", added.len()));
    }
    let disk = |new: &NewDiskOf| {
        let sectors = new.bytes / SECTOR;
        if sectors == 0 {
            return fail(format!("a disk of {} bytes has no sector; give 4096 or more", new.bytes));
        }
        let known = |n: u16| map.nodes.get(usize::from(n)).is_some_and(|i| !i.removed);
        match new.process {
            Some(n) if !known(n) => fail(format!("there is no process of node {n}")),
            process => {
                let process = process.map(|n| map.process_of(NodeId(n)));
                Ok(AddedDisk { process, sectors })
            }
        }
    };
    added.iter().map(disk).collect()
}

/// Rebuilt columns in bytes. Those of a thin volume have as much as its slots on the lost disk.
struct Bytes<'a> {
    map: &'a ClusterMap,
    nodes: &'a [NodeStatus],
}

impl Bytes<'_> {
    fn of(&self, rebuilt: &Rebuilt) -> u64 {
        let volume = &self.map.volumes[&rebuilt.volume];
        let all = rebuilt.sectors * SECTOR;
        if !volume.is_thin() {
            return all;
        }
        let reserved: u64 = (0..volume.extents.len())
            .filter(|n| volume.extents[*n].column_of(rebuilt.from).is_some())
            .map(|n| volume.extent_sectors(n) * SECTOR)
            .sum();
        let used = self.used_on(rebuilt.from, rebuilt.volume);
        (u128::from(used) * u128::from(all) / u128::from(reserved.max(1))) as u64
    }

    /// Bytes that a node's disk has of a thin volume, if known.
    fn used_on(&self, node: NodeId, volume: VolumeId) -> u64 {
        let said = self.nodes.iter().find(|n| n.node == node.0);
        let thin = said.into_iter().flat_map(|n| &n.thin).find(|thin| thin.volume == volume.0);
        thin.map_or(0, |thin| thin.bytes)
    }

    fn by_disk(&self, all: &[Rebuilt]) -> BTreeMap<NodeId, u64> {
        let mut bytes = BTreeMap::new();
        all.iter().for_each(|r| *bytes.entry(r.to).or_default() += self.of(r));
        bytes
    }
}

fn volume(map: &ClusterMap, fate: &Fate, loss: &Loss) -> PredictedVolume {
    PredictedVolume {
        name: map.volumes[&fate.volume].name.clone(),
        then: match (fate.fails, fate.is_affected) {
            (true, _) => PredictedMode::Failed,
            (false, true) => PredictedMode::Degraded,
            (false, false) => PredictedMode::AsNow,
        },
        survives: fate.survives,
        survives_rebuilt: fate.survives_rebuilt,
        has_room: !loss.homeless.contains(&fate.volume),
    }
}

fn disks(
    before: &[Fullness],
    after: &[Fullness],
    rebuilt: &BTreeMap<NodeId, u64>,
) -> Vec<PredictedDisk> {
    let used = |node| before.iter().find(|f| f.node == node).map_or(0, |f| f.used);
    let disk = |after: &Fullness| PredictedDisk {
        node: after.node.0,
        bytes: after.size,
        used_bytes: used(after.node),
        used_bytes_after: after.used,
        rebuilt_bytes: rebuilt.get(&after.node).copied().unwrap_or(0),
    };
    after.iter().map(disk).collect()
}

/// Seconds for these bytes, if there is a rate.
fn seconds(bytes: u64, rate: u64) -> Option<u64> {
    (rate > 0 && rate < UNBOUNDED).then(|| bytes.div_ceil(rate))
}
