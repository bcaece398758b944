//! Which volumes hosts can use; making a new one: checking what is asked, and finding room.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_core::SECTOR;
use weft_core::cluster::{ClusterMap, EXTENT_COLUMN_BYTES, PlacementError, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::plan::Policy;
use weft_core::units::VolumeId;

use crate::error::{Error, Result, fail};
use crate::size::{Size, require_multiple};

/// The volumes of a map.
pub(crate) type Volumes = BTreeMap<VolumeId, Arc<Volume>>;

/// The volumes that hosts can use: those of the map whose room is clear.
#[derive(Clone, Copy)]
pub(crate) struct Exports<'a> {
    pub(crate) map: &'a ClusterMap,
    pub(crate) clearing: &'a BTreeMap<VolumeId, Option<u64>>,
}

impl<'a> Exports<'a> {
    /// All of them, by number.
    pub(crate) fn all(self) -> impl Iterator<Item = &'a Arc<Volume>> {
        self.map.volumes.values().filter(move |v| !self.clearing.contains_key(&v.id))
    }

    /// One by its name; the empty name means the first.
    pub(crate) fn named(self, name: &str) -> Option<&'a Arc<Volume>> {
        self.all().find(|v| name.is_empty() || v.name == name)
    }
}

/// What a new volume is to be.
#[derive(Clone, Debug)]
pub(crate) struct NewVolume {
    pub(crate) name: String,
    /// Bytes; 0 takes all the room that is left.
    pub(crate) size: u64,
    pub(crate) layout: LayoutSpec,
    pub(crate) stripe_unit: u64,
    pub(crate) journal: bool,
}

/// A volume's sizes are multiples of this.
const GRAIN: u64 = 512;

/// Finds room for a volume on disks with so many data sectors each.
pub(crate) fn place(
    new: &NewVolume,
    id: VolumeId,
    disks: &[u64],
    there: &Volumes,
) -> Result<Volume> {
    check_name(&new.name, there)?;
    require_multiple("a stripe unit", new.stripe_unit, SECTOR)?;
    if new.size != 0 {
        require_multiple("a volume size", new.size, GRAIN)?;
    }
    let layout = new.layout.over(disks.len()).map_err(|e| Error(e.to_string()))?;
    let geometry = Geometry::new(layout, new.stripe_unit);
    let others: Vec<&Volume> = there.values().map(|v| &**v).collect();
    let size = match new.size {
        0 => largest(&new.name, &geometry, disks, &others)?,
        size => size,
    };
    let (extent_stripes, extents) =
        place_volume(&geometry, size, disks, &others, EXTENT_COLUMN_BYTES)
            .map_err(|e| no_room(&new.name, &e))?;
    Ok(Volume {
        id,
        name: new.name.clone(),
        size,
        layout: new.layout.to_string(),
        geometry,
        policy: Policy { journal: new.journal, ..Policy::default() },
        extent_stripes,
        extents,
    })
}

fn no_room(name: &str, error: &PlacementError) -> Error {
    let PlacementError::NoRoom { asked, free } = error;
    Error(format!(
        "volume '{name}' of {asked} bytes does not fit: with this layout {free} bytes ({}) are \
         free; make it smaller or delete another",
        Size(*free)
    ))
}

/// The largest size that fits, in whole stripes.
fn largest(name: &str, geometry: &Geometry, disks: &[u64], others: &[&Volume]) -> Result<u64> {
    let stripe = geometry.stripe_bytes();
    let all: u64 = disks.iter().sum::<u64>() * SECTOR;
    let free = match place_volume(geometry, all.max(stripe), disks, others, EXTENT_COLUMN_BYTES) {
        Ok(_) => all,
        Err(PlacementError::NoRoom { free, .. }) => free,
    };
    match free / stripe {
        0 => fail(format!(
            "there is no room for volume '{name}', not even for one stripe of {}; delete another \
             volume or choose larger disks",
            Size(stripe)
        )),
        stripes => Ok(stripes * stripe),
    }
}

fn check_name(name: &str, there: &Volumes) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return fail(format!(
            "'{name}' cannot be a volume's name; use 1 to 64 letters, digits, dots, dashes and \
             underscores"
        ));
    }
    if there.values().any(|v| v.name == name) {
        return fail(format!("there is a volume called '{name}' already; choose another name"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str, size: u64, layout: &str) -> NewVolume {
        let layout = layout.parse().unwrap();
        NewVolume { name: name.into(), size, layout, stripe_unit: 65536, journal: true }
    }

    #[test]
    fn a_volume_of_no_size_takes_the_room() {
        for layout in ["raid0", "raid1", "raid5", "raid6", "rs:2+1"] {
            let v =
                place(&new("a", 0, layout), VolumeId(0), &[10_000; 5], &Volumes::new()).unwrap();
            assert!(v.size > 0 && v.size.is_multiple_of(v.geometry.stripe_bytes()), "{layout}");
            let there = Volumes::from([(v.id, Arc::new(v))]);
            let next = place(&new("b", 256 << 20, "raid0"), VolumeId(1), &[10_000; 5], &there);
            assert!(next.unwrap_err().0.contains("does not fit"));
        }
    }

    #[test]
    fn bad_names_and_sizes_are_refused() {
        let one =
            place(&new("a", 4096, "raid5"), VolumeId(0), &[10_000; 5], &Volumes::new()).unwrap();
        let there = Volumes::from([(one.id, Arc::new(one))]);
        for (name, size, layout, why) in [
            ("a", 4096, "raid5", "already"),
            ("", 4096, "raid5", "letters"),
            ("a/b", 4096, "raid5", "letters"),
            ("b", 1000, "raid5", "nearest are 512 and 1KiB"),
            ("b", 4096, "rs:4+2", "at least 6 nodes"),
        ] {
            let err =
                place(&new(name, size, layout), VolumeId(1), &[10_000; 5], &there).unwrap_err();
            assert!(err.0.contains(why), "{err}");
        }
    }
}
