//! Choosing disks, and places on them, for a volume's extents.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::layout::Geometry;
use crate::units::{NodeId, SECTOR, SPACE_SECTORS};

use super::map::{Extent, Volume};
use super::torus::{self, Cell, TorusError};

/// A disk that extents can go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its data sectors.
    pub sectors: u64,
    /// Its failure domain: no two columns of an extent go to the same one.
    pub domain: usize,
    /// The box that it is in: columns of an extent go to as many as there are.
    pub in_box: usize,
    /// Its position on a torus, if it has one.
    pub at: Option<(u32, u32)>,
}

impl Place {
    /// Disks with so many data sectors, each a failure domain by itself.
    pub fn apart(sectors: &[u64]) -> Vec<Place> {
        let place =
            |(n, &sectors): (usize, &u64)| Place { sectors, domain: n, in_box: n, at: None };
        sectors.iter().enumerate().map(place).collect()
    }

    /// The same with no space if it is smaller than one stripe unit.
    fn for_units_of(self, geometry: &Geometry) -> Place {
        match self.sectors < geometry.unit / SECTOR {
            true => Place { sectors: 0, ..self },
            false => self,
        }
    }
}

/// A volume that cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Not enough failure domains.
    #[error("{columns} columns need as many failure domains, and there are {domains}")]
    Domains {
        /// Columns of the layout.
        columns: usize,
        /// Failure domains with disks.
        domains: usize,
    },
    /// The positions on a torus are no torus that the layout fits.
    #[error("{0}")]
    Torus(#[from] TorusError),
    /// Not enough room.
    #[error(
        "a volume of {asked} bytes does not fit; with this layout at most {free} bytes are free: make it smaller, \
         delete or shrink others, or add a disk"
    )]
    NoRoom {
        /// The size asked for.
        asked: u64,
        /// The largest size that would fit.
        free: u64,
    },
}

/// Bytes of an extent's column: what moves to another disk at a time.
pub const EXTENT_COLUMN_BYTES: u64 = 16 << 20;

/// The same for a volume that is not to be cut into extents.
pub const ONE_EXTENT: u64 = u64::MAX;

/// The most extents of a new volume. It bounds the map, in which each snapshot has as many, and the time that a change of the map
/// takes. Over 100 disks the columns of such a volume are spread to within 4 %.
const MOST_EXTENTS: u64 = 512;

/// Bytes of an extent's column for a volume of so many bytes: [`EXTENT_COLUMN_BYTES`], or the power
/// of two times that with which [`MOST_EXTENTS`] are enough.
pub fn column_bytes(geometry: &Geometry, size: u64) -> u64 {
    let column = size / geometry.data_columns() as u64;
    let wanted = column.div_ceil(MOST_EXTENTS).div_ceil(EXTENT_COLUMN_BYTES).max(1);
    EXTENT_COLUMN_BYTES * wanted.next_power_of_two()
}

/// Chooses disks and places for a new volume's extents, given each disk's data sectors and
/// the volumes already there. Extents go to the disks with the most room, so that a layout
/// with fewer columns than disks spreads over all of them; each has `column_bytes` on a disk
/// (see [`EXTENT_COLUMN_BYTES`]). No two columns of an extent go to one failure domain, and no more
/// than need be to one box.
pub fn place_volume(
    geometry: &Geometry,
    size: u64,
    disks: &[Place],
    others: &[&Volume],
    column_bytes: u64,
) -> Result<Vec<Extent>, PlacementError> {
    let stripes = size.div_ceil(geometry.stripe_bytes());
    place_stripes(geometry, 0..stripes, disks, others, column_bytes).map_err(|e| match e {
        PlacementError::NoRoom { free, .. } => PlacementError::NoRoom { asked: size, free },
        other => other,
    })
}

/// The first sector of the places that [`place_thin`] gives to a volume's further extents. The first half of its address
/// space belongs to extents whose places were chosen in another space, before a snapshot was taken, if there are any.
pub fn thin_start(volume: &Volume) -> u64 {
    let start = volume.space() * SPACE_SECTORS;
    let is_own = |extent: &Extent| {
        let places = extent.columns.iter().chain(extent.leaving.values());
        let own = [0, HALF].map(|from| thin_place(start + from, &volume.geometry, extent.first));
        places.map(|place| place.1).all(|sector| own.contains(&sector))
    };
    let in_first_half = |extent: &Extent| extent.columns.iter().all(|c| c.1 - start < HALF);
    match volume.extents.iter().all(|extent| is_own(extent) && in_first_half(extent)) {
        true => start,
        false => start + HALF,
    }
}

/// Half of an address space.
const HALF: u64 = SPACE_SECTORS / 2;

/// Another place of a thin volume's extent in its address space, where no other extent lies.
pub(super) fn other_thin_place(volume: &Volume, extent: usize) -> u64 {
    let start = volume.space() * SPACE_SECTORS + HALF;
    thin_place(start, &volume.geometry, volume.extents[extent].first)
}

/// Chooses disks for stripes of a thin volume. All its columns lie in an address space of its own, from `start` on, so
/// there is always a place. Extents go to the disks to which least has been promised for their size.
pub fn place_thin(
    start: u64,
    geometry: &Geometry,
    stripes: Range<u64>,
    disks: &[Place],
    others: &[&Volume],
    column_bytes: u64,
) -> Result<Vec<Extent>, PlacementError> {
    let columns = geometry.layout.width();
    let disks = &disks.iter().map(|disk| disk.for_units_of(geometry)).collect::<Vec<_>>();
    check_domains(columns, disks)?;
    let stripe_sectors = thin_stripe_sectors(geometry);
    let most_sectors = SPACE_SECTORS - start % SPACE_SECTORS;
    if stripes.end.checked_mul(stripe_sectors).is_none_or(|end| end > most_sectors) {
        let free = most_sectors / stripe_sectors * geometry.stripe_bytes();
        return Err(PlacementError::NoRoom { asked: stripes.end * geometry.stripe_bytes(), free });
    }
    let cells = torus::cells(&geometry.layout, disks)?;
    let promised = |d: usize| promised_on(NodeId(d as u16), others);
    let mut promised: Vec<u64> = (0..disks.len()).map(promised).collect();
    let most = (column_bytes / geometry.unit).max(1);
    let mut extents = Vec::new();
    let mut first = stripes.start;
    while first < stripes.end {
        let left = |d: usize| match disks[d].sectors {
            0 => Vec::new(),
            size => vec![(0, left_of(size, promised[d]))],
        };
        let gaps: Vec<Vec<(u64, u64)>> = (0..disks.len()).map(left).collect();
        let nodes = match &cells {
            Some(cells) => torus::choose(&gaps, cells, 1),
            None => choose(&gaps, disks, columns, 1),
        };
        let place = thin_place(start, geometry, first);
        let want =
            geometry.layout.most_units(most.min(stripes.end - first)) * (geometry.unit / SECTOR);
        let nodes = nodes.ok_or(PlacementError::Domains { columns, domains: 0 })?;
        nodes.iter().for_each(|d| promised[*d] += want);
        let columns = nodes.into_iter().map(|d| (NodeId(d as u16), place));
        extents.push(Extent::new(first, columns.collect()));
        first += most;
    }
    Ok(extents)
}

/// Fails if disks with space are in fewer failure domains than there are columns.
fn check_domains(columns: usize, disks: &[Place]) -> Result<(), PlacementError> {
    let usable = disks.iter().filter(|d| d.sectors > 0);
    match usable.map(|d| d.domain).collect::<BTreeSet<_>>().len() {
        domains if domains < columns => Err(PlacementError::Domains { columns, domains }),
        _ => Ok(()),
    }
}

/// Where the columns of a thin volume's extent begin that has `stripe` as its first; those of the first begin at `start`.
fn thin_place(start: u64, geometry: &Geometry, stripe: u64) -> u64 {
    start + stripe * thin_stripe_sectors(geometry)
}

/// Sectors of a column's address space for each stripe, as many as it can need.
fn thin_stripe_sectors(geometry: &Geometry) -> u64 {
    geometry.layout.most_units(1) * (geometry.unit / SECTOR)
}

/// The unpromised share of a disk of this size, in parts of 2^48.
fn left_of(size: u64, promised: u64) -> u64 {
    let whole = u128::from(size) << 48;
    ((whole / (u128::from(size) + u128::from(promised))) as u64).max(1)
}

/// Sectors of a disk that volumes have been promised, thin or not.
fn promised_on(node: NodeId, volumes: &[&Volume]) -> u64 {
    let of = |v: &&Volume| {
        let here = |n: &usize| v.extents[*n].place_on(node).is_some();
        (0..v.extents.len()).filter(here).map(|n| v.extent_sectors(n)).sum::<u64>()
    };
    volumes.iter().map(of).sum()
}

/// Chooses disks and places for more stripes of a volume, as [`place_volume`] does; those that
/// it has are among `others`. What it says to be free is for these stripes.
pub fn place_stripes(
    geometry: &Geometry,
    stripes: Range<u64>,
    disks: &[Place],
    others: &[&Volume],
    column_bytes: u64,
) -> Result<Vec<Extent>, PlacementError> {
    check_domains(geometry.layout.width(), disks)?;
    let cells = torus::cells(&geometry.layout, disks)?;
    let gaps: Vec<Vec<(u64, u64)>> =
        (0..disks.len()).map(|d| free_runs(NodeId(d as u16), disks[d].sectors, others)).collect();
    let count = stripes.end - stripes.start;
    let place = |count: u64| {
        let stripes = stripes.start..stripes.start + count;
        place(geometry, stripes, &gaps, disks, cells.as_deref(), column_bytes)
    };
    place(count).ok_or_else(|| {
        // The most stripes that fit, by bisection.
        let (mut fit, mut too_many) = (0, count);
        while fit + 1 < too_many {
            let middle = fit.midpoint(too_many);
            match place(middle) {
                Some(_) => fit = middle,
                None => too_many = middle,
            }
        }
        let stripe = geometry.stripe_bytes();
        PlacementError::NoRoom { asked: count * stripe, free: fit * stripe }
    })
}

/// Places stripes into the free runs of the disks, if they fit.
fn place(
    geometry: &Geometry,
    stripes: Range<u64>,
    free: &[Vec<(u64, u64)>],
    disks: &[Place],
    cells: Option<&[Cell]>,
    column_bytes: u64,
) -> Option<Vec<Extent>> {
    let width = geometry.layout.width();
    let unit = geometry.unit / SECTOR;
    let most = (column_bytes / geometry.unit).max(1);
    let mut gaps = free.to_vec();
    let mut extents = Vec::new();
    let mut first = stripes.start;
    while first < stripes.end {
        let want = geometry.layout.most_units(most.min(stripes.end - first)) * unit;
        let nodes = match cells {
            Some(cells) => torus::choose(&gaps, cells, want)?,
            None => choose(&gaps, disks, width, want)?,
        };
        let columns = nodes.into_iter().map(|d| (NodeId(d as u16), take(&mut gaps[d], want)));
        extents.push(Extent::new(first, columns.collect()));
        first += most;
    }
    Some(extents)
}

/// Of the disks that have a run of `want` sectors the `width` with the most room, each in a
/// failure domain of its own, and spread evenly over the boxes. If all are needed they come in
/// their order.
fn choose(
    gaps: &[Vec<(u64, u64)>],
    disks: &[Place],
    width: usize,
    want: u64,
) -> Option<Vec<usize>> {
    let room = |d: usize| gaps[d].iter().map(|r| r.1).sum::<u64>();
    let mut order: Vec<usize> =
        (0..gaps.len()).filter(|d| gaps[*d].iter().any(|r| r.1 >= want)).collect();
    if width < gaps.len() {
        order.sort_by_key(|&d| (std::cmp::Reverse(room(d)), d));
    }
    let mut domains = BTreeSet::new();
    order.retain(|d| domains.insert(disks[*d].domain));
    // Of each box first the best disk, then the second best, and so on.
    let mut ranks: BTreeMap<usize, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, usize)> = Vec::new();
    for d in order {
        let rank = ranks.entry(disks[d].in_box).or_default();
        ranked.push((*rank, d));
        *rank += 1;
    }
    if ranked.len() > width {
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.truncate(width);
    }
    (ranked.len() == width).then(|| ranked.into_iter().map(|(_, d)| d).collect())
}

fn take(runs: &mut [(u64, u64)], want: u64) -> u64 {
    let run = runs.iter_mut().find(|r| r.1 >= want).expect("checked that it fits");
    let at = run.0;
    run.0 += want;
    run.1 -= want;
    at
}

/// The free runs of a disk, first sector and length.
pub(super) fn free_runs(node: NodeId, sectors: u64, volumes: &[&Volume]) -> Vec<(u64, u64)> {
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for volume in volumes.iter().filter(|v| !v.is_thin()) {
        for (n, extent) in volume.extents.iter().enumerate() {
            if let Some((_, first)) = extent.place_on(node) {
                taken.push((first, volume.extent_sectors(n)));
            }
        }
    }
    taken.sort_unstable();
    let mut at = 0;
    let mut free = Vec::new();
    for (start, len) in taken {
        if start > at {
            free.push((at, start - at));
        }
        at = start + len;
    }
    if at < sectors {
        free.push((at, sectors - at));
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LayoutSpec;
    use crate::units::{VolumeId, thin_space};

    fn volume(
        layout: &str,
        size: u64,
        disks: &[u64],
        others: &[&Volume],
    ) -> Result<Volume, PlacementError> {
        let spec: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(spec.over(disks.len()).unwrap(), 65536);
        let places = Place::apart(disks);
        let extents = place_volume(&geometry, size, &places, others, EXTENT_COLUMN_BYTES)?;
        Ok(Volume::new(VolumeId(0), "v", size, &spec, geometry, extents))
    }

    #[test]
    fn volumes_share_disks_without_overlap_and_too_much_is_refused() {
        let disks = [20_000; 5];
        let a = volume("raid5", 64 << 20, &disks, &[]).unwrap();
        let b = volume("raid1", 100 << 20, &disks, &[&a]).unwrap();
        assert_eq!(b.extents.len(), 7);
        assert_ne!(b.extents[0].columns[0].0, b.extents[1].columns[0].0, "spread over the disks");
        for node in (0..5).map(NodeId) {
            let mut owners = 0;
            for sector in 0..20_000 {
                let both = [&a, &b].iter().filter(|v| v.stripe_at(node, sector).is_some()).count();
                assert!(both <= 1);
                owners += both;
            }
            assert!(owners > 0);
        }
        let err = volume("raid5", 1 << 30, &disks, &[&a, &b]).unwrap_err();
        let PlacementError::NoRoom { free, .. } = err else { panic!("{err}") };
        assert!(volume("raid5", free, &disks, &[&a, &b]).is_ok(), "{free} bytes were said to fit");
    }

    #[test]
    fn thin_volumes_take_no_room_and_are_spread_by_what_is_promised() {
        let disks = [20_000, 20_000, 20_000, 20_000, 60_000];
        let geometry = |layout: &str| {
            Geometry::new(layout.parse::<LayoutSpec>().unwrap().over(5).unwrap(), 65536)
        };
        let place = |id, layout: &str, size: u64, others: &[&Volume]| {
            let (g, places) = (geometry(layout), Place::apart(&disks));
            let stripes = 0..size.div_ceil(g.stripe_bytes());
            let column = column_bytes(&g, size);
            let extents =
                place_thin(thin_space(VolumeId(id)), &g, stripes, &places, others, column)?;
            let spec = layout.parse().unwrap();
            Ok::<_, PlacementError>(Volume::new(VolumeId(id), "t", size, &spec, g, extents))
        };
        let thin = place(7, "raid1", 1 << 40, &[]).unwrap();
        assert!(thin.is_thin() && thin.extents.len() <= 4096);
        let on = |node| thin.extents.iter().filter(|e| e.column_of(NodeId(node)).is_some()).count();
        assert!(
            on(4) > 2 * on(0) && on(3) > 0,
            "the larger disk gets more: {} and {}",
            on(4),
            on(0)
        );
        // Whatever is promised, there is as much room as before for a volume that reserves it.
        let all = volume("raid5", 64 << 20, &disks, &[]).unwrap();
        assert_eq!(volume("raid5", 64 << 20, &disks, &[&thin]).unwrap(), all);
        for (stripe, seat) in [(0, 0), (12_345, 1), (thin.stripes() - 1, 0)] {
            let column = thin.geometry.layout.column_at(stripe, seat);
            let node = thin.extent(stripe).columns[column].0;
            assert_eq!(
                thin.stripe_at(node, thin.sector(stripe, seat) + 3),
                Some((stripe, seat, 3))
            );
        }
        // Several volumes, and what one gets when it grows, are apart.
        let other = place(8, "raid5", 1 << 40, &[&thin]).unwrap();
        assert!(other.extents[0].columns[0].1 > thin.extents.last().unwrap().columns[0].1);
        let err = place(9, "raid5", u64::MAX / 2, &[]).unwrap_err();
        assert!(matches!(err, PlacementError::NoRoom { .. }), "{err}");
    }

    #[test]
    fn no_column_of_a_thin_volume_is_on_a_disk_smaller_than_a_stripe_unit() {
        let layout = "raid5".parse::<LayoutSpec>().unwrap().over(3).unwrap();
        let g = Geometry::new(layout, 1001 * SECTOR);
        let place = |disks: &[u64]| {
            place_thin(thin_space(VolumeId(7)), &g, 0..1, &Place::apart(disks), &[], 1 << 20)
        };
        let extents = place(&[2000, 1000, 1001, 2000]).unwrap();
        assert!(extents.iter().all(|e| e.column_of(NodeId(1)).is_none()), "{extents:?}");
        let err = PlacementError::Domains { columns: 3, domains: 2 };
        assert_eq!(place(&[2000, 1000, 1001]), Err(err));
    }

    #[test]
    fn sectors_map_back_to_stripes() {
        let v = volume("raid5", 10 << 20, &[20_000; 5], &[]).unwrap();
        let sector = v.sector(7, 3) + 5;
        assert_eq!(v.stripe_at(NodeId(3), sector), Some((7, 3, 5)));
        assert_eq!(v.stripe_at(NodeId(3), 19_999), None);
    }

    /// Nine disks in five boxes: two in each of the first four, and a large one alone.
    #[test]
    fn columns_go_to_different_failure_domains() {
        let geometry =
            Geometry::new("rs:2+1".parse::<LayoutSpec>().unwrap().over(9).unwrap(), 4096);
        let place = |n: usize| Place {
            sectors: 1000 + 3000 * (n as u64 / 8),
            domain: n / 2,
            at: None,
            in_box: n / 2,
        };
        let disks: Vec<Place> = (0..9).map(place).collect();
        let extents = place_volume(&geometry, 16 << 20, &disks, &[], 64 << 10).unwrap();
        assert!(extents.len() > 100);
        let mut used = [0; 9];
        for extent in &extents {
            let domains: BTreeSet<u16> = extent.columns.iter().map(|c| c.0.0 / 2).collect();
            assert_eq!(domains.len(), 3, "{extent:?}");
            extent.columns.iter().for_each(|c| used[usize::from(c.0.0)] += 1);
        }
        assert!(used[8] > 2 * used[0] && used[..8].iter().all(|n| *n > 0), "{used:?}");
        let four = &disks[..4];
        let err = place_volume(&geometry, 4096, four, &[], 64 << 10).unwrap_err();
        assert_eq!(err, PlacementError::Domains { columns: 3, domains: 2 });
    }

    /// Three boxes of three disks each, and six columns that may be on any disks: two in each box.
    #[test]
    fn columns_that_may_be_on_any_disk_are_spread_over_the_boxes() {
        let geometry =
            Geometry::new("rs:4+2".parse::<LayoutSpec>().unwrap().over(9).unwrap(), 4096);
        let place =
            |n: usize| Place { sectors: 1000 + 40 * n as u64, domain: n, in_box: n / 3, at: None };
        let disks: Vec<Place> = (0..9).map(place).collect();
        let extents = place_volume(&geometry, 8 << 20, &disks, &[], 64 << 10).unwrap();
        assert!(extents.len() > 30);
        let mut used = [0; 9];
        for extent in &extents {
            let mut boxes = [0; 3];
            extent.columns.iter().for_each(|c| boxes[usize::from(c.0.0) / 3] += 1);
            assert_eq!(boxes, [2; 3], "{extent:?}");
            extent.columns.iter().for_each(|c| used[usize::from(c.0.0)] += 1);
        }
        assert!(used.iter().all(|n| *n > 0), "{used:?}");
    }
}
