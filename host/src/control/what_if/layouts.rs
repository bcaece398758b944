//! Other layouts of volumes: what each would take and survive, placed on a copy of the map.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_core::cluster::{APART_BY_NODE, ClusterMap, Volume};
use weft_core::layout::LayoutSpec;
use weft_core::units::{NodeId, SECTOR, VolumeId};

use crate::error::{Error, Result, fail};
use crate::policy::refused;
use crate::status::{LayoutFigures, PredictedLayout};
use crate::volumes::{self, NewVolume, SNAPSHOT_MARK};

/// Layouts that one question may name: each is placed while hosts wait.
const MOST_LAYOUTS: usize = 16;

/// The columns that are lost or behind already: volume, extent and node.
pub(super) type Lacking = BTreeSet<(VolumeId, usize, NodeId)>;

/// The map with volumes that have these layouts in place of those of the same names, which go, and what that means.
pub(super) fn with_layouts(
    mut map: ClusterMap,
    layouts: &BTreeMap<String, String>,
    lacking: &Lacking,
) -> Result<(ClusterMap, Vec<PredictedLayout>)> {
    if layouts.len() > MOST_LAYOUTS {
        return fail(format!(
            "{} layouts are too many; give {MOST_LAYOUTS} at most",
            layouts.len()
        ));
    }
    let mut all = Vec::new();
    for (name, layout) in layouts {
        let now = named(&map, name)?.clone();
        let layout: LayoutSpec = layout.parse().map_err(|e| Error(format!("{e}")))?;
        let new = NewVolume {
            name: name.clone(),
            size: now.size,
            thin: now.is_thin(),
            layout,
            stripe_unit: now.geometry.unit,
            policy: now.policy,
            apart: now.apart.clone(),
        };
        let fits_beside = volumes::place(&NewVolume { name: unused(&map), ..new.clone() }, &map);
        let lacks = |n: usize, node| lacking.contains(&(now.id, n, node));
        let figures_now = figures(&map, &now, lacks);
        map.volumes.remove(&now.id);
        let then = volumes::place(&new, &map)?;
        map.check_new_policy(&then, &[]).map_err(refused)?;
        all.push(PredictedLayout {
            volume: name.clone(),
            now: figures_now,
            then: figures(&map, &then, |_, _| false),
            fits_beside: fits_beside.is_ok(),
        });
        map.next_volume += 1;
        map.volumes.insert(then.id, Arc::new(then));
    }
    Ok((map, all))
}

fn named<'a>(map: &'a ClusterMap, name: &str) -> Result<&'a Volume> {
    if let Some((origin, _)) = name.split_once(SNAPSHOT_MARK) {
        return fail(format!("a snapshot has the layout of its volume; name '{origin}'"));
    }
    let is_it = |v: &&Arc<Volume>| v.name == name && !v.is_snapshot() && !v.is_deleted();
    match map.volumes.values().find(is_it) {
        Some(volume) => Ok(volume),
        None => fail(format!("there is no volume '{name}'; `weft volume list` lists them")),
    }
}

/// A name that no volume has.
fn unused(map: &ClusterMap) -> String {
    let is_free = |name: &String| !map.volumes.values().any(|v| v.name == *name);
    (0..).map(|n| format!("v{n}")).find(is_free).expect("there are more numbers than volumes")
}

fn figures(
    map: &ClusterMap,
    volume: &Volume,
    lacks: impl Fn(usize, NodeId) -> bool,
) -> LayoutFigures {
    let extents = volume.extents.iter().enumerate();
    let sectors = extents.map(|(n, e)| volume.extent_sectors(n) * e.columns.len() as u64);
    LayoutFigures {
        layout: volume.layout.clone(),
        bytes_on_disks: sectors.sum::<u64>() * SECTOR,
        disks: volume.nodes().len(),
        survives: map.survives(volume, APART_BY_NODE, lacks),
        mttdl_hours: volume.rates().protected_h,
    }
}
