//! Placing extents on the cells of a torus: for layouts whose groups are to be close together.
//!
//! Nodes say where they are by the labels `x` and `y`. If any does, a layout that is made for a torus goes to its
//! cells, and its columns to their positions; all positions must be there. Without positions it goes to any failure domains.

use std::collections::BTreeMap;

use super::map::{ClusterMap, NodeInfo};
use super::placement::Place;
use crate::layout::Layout;
use crate::units::NodeId;

/// The labels of a node's position.
const LABELS: [&str; 2] = ["x", "y"];

/// Of a cell, for each column, the disks at its position.
pub(super) type Cell = Vec<Vec<usize>>;

/// Positions that are no torus for a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TorusError {
    /// The sides do not hold whole cells.
    #[error(
        "by the labels x and y the disks are on a torus of {width} x {height}, and its sides must be multiples \
         of {cell}; give disks positions from 0 to {} and 0 to {}, or remove the labels",
        width.next_multiple_of(*cell) - 1, height.next_multiple_of(*cell) - 1
    )]
    Sides {
        /// Positions along x.
        width: u32,
        /// Positions along y.
        height: u32,
        /// What both sides must be multiples of.
        cell: u32,
    },
    /// Nobody is there.
    #[error(
        "no disk has the labels x={0} and y={1}; on a torus of {2} x {3} there must be one at each position"
    )]
    Missing(u32, u32, u32, u32),
    /// Two boxes are at one position.
    #[error("two boxes have the labels x={0} and y={1}; a position is that of one box")]
    Taken(u32, u32),
}

impl NodeInfo {
    /// The node's position on a torus, by its labels.
    pub fn position(&self) -> Option<(u32, u32)> {
        let label = |name: &str| self.home.as_ref()?.labels.get(name)?.parse().ok();
        (!self.removed).then_some(())?;
        Some((label(LABELS[0])?, label(LABELS[1])?))
    }
}

impl ClusterMap {
    /// Whether a column that moves between these nodes stays at its position, as far as that matters to the layout.
    pub(super) fn keeps_position(&self, layout: &Layout, from: NodeId, to: NodeId) -> bool {
        let position = |n: NodeId| self.nodes.get(usize::from(n.0)).and_then(NodeInfo::position);
        layout.torus_cell().is_none() || position(from).is_none() || position(from) == position(to)
    }
}

/// The cells of the torus that the disks are on; `None` if the layout asks for none, or no disk is on one.
pub(super) fn cells(layout: &Layout, disks: &[Place]) -> Result<Option<Vec<Cell>>, TorusError> {
    let Some(cell) = layout.torus_cell() else { return Ok(None) };
    let mut there: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for (n, disk) in disks.iter().enumerate() {
        if let Some(at) = disk.at {
            there.entry(at).or_default().push(n);
        }
    }
    if there.is_empty() {
        return Ok(None);
    }
    let side =
        |of: fn(&(u32, u32)) -> u32| there.keys().map(of).max().unwrap_or(0).saturating_add(1);
    let (width, height) = (side(|at| at.0), side(|at| at.1));
    if width % cell != 0 || height % cell != 0 {
        return Err(TorusError::Sides { width, height, cell });
    }
    for (x, y) in (0..width).flat_map(|x| (0..height).map(move |y| (x, y))) {
        let Some(here) = there.get(&(x, y)) else {
            return Err(TorusError::Missing(x, y, width, height));
        };
        if here.iter().any(|n| disks[*n].in_box != disks[here[0]].in_box) {
            return Err(TorusError::Taken(x, y));
        }
    }
    let count = (width / cell) as usize * (height / cell) as usize;
    let mut cells = vec![vec![Vec::new(); layout.width()]; count];
    for (at, disks) in there {
        let (cell, column) = layout.on_torus(at, (width, height)).expect("it is made for one");
        cells[cell][column] = disks;
    }
    Ok(Some(cells))
}

/// The disks of the cell with the most room that has a run of `want` sectors at each position: in the order of columns.
pub(super) fn choose(gaps: &[Vec<(u64, u64)>], cells: &[Cell], want: u64) -> Option<Vec<usize>> {
    let room = |d: usize| gaps[d].iter().map(|r| r.1).sum::<u64>();
    let best = |disks: &Vec<usize>| {
        let fits = disks.iter().copied().filter(|d| gaps[*d].iter().any(|r| r.1 >= want));
        fits.max_by_key(|d| (room(*d), std::cmp::Reverse(*d)))
    };
    let chosen = cells.iter().filter_map(|cell| cell.iter().map(best).collect::<Option<Vec<_>>>());
    let least = |disks: &Vec<usize>| disks.iter().map(|d| room(*d)).min();
    // Of those that tie the first.
    chosen.rev().max_by_key(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::placement::{PlacementError, place_volume};
    use crate::layout::Geometry;
    use crate::units::SECTOR;

    fn torus(width: u32, height: u32) -> Vec<Place> {
        let at = (0..width).flat_map(|x| (0..height).map(move |y| (x, y)));
        let place = |(n, at)| Place { sectors: 100, domain: n, in_box: n, at: Some(at) };
        at.enumerate().map(place).collect()
    }

    fn placed(disks: &[Place]) -> Result<Vec<Vec<u16>>, PlacementError> {
        let geometry = Geometry::new(Layout::DrNet, SECTOR);
        let size = 12 * 5 * geometry.stripe_bytes();
        let extents = place_volume(&geometry, size, disks, &[], 5 * SECTOR)?;
        Ok(extents.iter().map(|e| e.columns.iter().map(|c| c.0.0).collect()).collect())
    }

    #[test]
    fn extents_go_to_cells() {
        let disks = torus(10, 10);
        let extents = placed(&disks).unwrap();
        let mut used = std::collections::BTreeSet::new();
        for columns in &extents {
            let on = |n: &u16| {
                let at = disks[usize::from(*n)].at.unwrap();
                Layout::DrNet.on_torus(at, (10, 10)).unwrap()
            };
            let cell = on(&columns[0]).0;
            let expected: Vec<(usize, usize)> = (0..25).map(|c| (cell, c)).collect();
            assert_eq!(columns.iter().map(on).collect::<Vec<_>>(), expected);
            used.insert(cell);
        }
        assert_eq!((extents.len(), used.len()), (12, 4), "all cells take their share");
    }

    #[test]
    fn what_is_no_torus_is_refused() {
        let refused = |disks: &[Place]| placed(disks).unwrap_err().to_string();
        let error = refused(&torus(6, 5));
        assert!(error.contains("6 x 5") && error.contains("0 to 9 and 0 to 4"), "{error}");
        let mut hole = torus(10, 5);
        hole[7].at = None;
        assert!(refused(&hole).starts_with("no disk has the labels x=1 and y=2"));
        let mut twice = torus(5, 5);
        twice.push(Place { domain: 25, in_box: 25, ..twice[3] });
        assert!(refused(&twice).starts_with("two boxes have the labels x=0 and y=3"));
        // Two disks of a box are no matter.
        twice[25].in_box = 3;
        assert!(placed(&twice).is_ok());
        // Nor are positions to a layout that is not made for them.
        let raid5 = Geometry::new(
            "raid5".parse::<crate::layout::LayoutSpec>().unwrap().over(3).unwrap(),
            SECTOR,
        );
        assert!(place_volume(&raid5, 10 * SECTOR, &torus(3, 1), &[], 5 * SECTOR).is_ok());
        let nowhere: Vec<Place> =
            torus(5, 5).into_iter().map(|d| Place { at: None, ..d }).collect();
        assert!(
            place_volume(
                &Geometry::new(Layout::DrNet, SECTOR),
                10 * SECTOR,
                &nowhere,
                &[],
                5 * SECTOR
            )
            .is_ok()
        );
    }
}
