//! What fails together: disks, the boxes they are in, and the extents that lie on them.
//!
//! A *unit* is as many disks as an extent may lie on. With `Placement::Groups` that is as many as the layout has columns;
//! an array has several units, side by side. With `Placement::Spread` it is all disks, and extents lie on any of them.

use serde::{Deserialize, Serialize};
use weft_core::layout::Geometry;
use weft_core::units::ColumnSet;

/// On which disks extents lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Disks in groups of as many as the layout has columns; an extent lies on a group.
    #[default]
    Groups,
    /// Each extent on disks of its own choice, as a cluster of Weft places them.
    Spread,
}

/// What may fail.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Columns, and what may be lost of them.
    pub geometry: Geometry,
    /// Disks.
    pub disks: usize,
    /// Boxes among which the disks are, disk n in box n modulo so many; 0 if none is lost as one.
    pub boxes: usize,
    /// Extents, each on as many disks as the layout has columns.
    pub extents: usize,
    /// Bytes of an extent on each of its disks.
    pub column_bytes: f64,
}

impl Unit {
    /// Columns of a stripe.
    pub fn width(&self) -> usize {
        self.geometry.layout.width()
    }

    /// Boxes in which an extent has columns: as many as can be.
    pub fn slots(&self) -> usize {
        self.boxes.min(self.width())
    }

    /// The columns of an extent that are in these of its boxes, by number: column c is in number c modulo all.
    pub fn columns_in(&self, slots: ColumnSet) -> ColumnSet {
        let all = self.slots().max(1);
        (0..self.width()).filter(|c| slots.contains(c % all)).collect()
    }

    /// Disks in a box, on the mean.
    pub fn disks_in_box(&self) -> f64 {
        if self.boxes == 0 { 0.0 } else { self.disks as f64 / self.boxes as f64 }
    }

    /// Bytes of data on all disks.
    pub fn data_bytes(&self) -> f64 {
        self.extents as f64 * self.column_bytes * self.width() as f64 * self.data_share()
    }

    /// The share of a stripe that is data. A column may hold several units of a stripe, so columns say less.
    pub fn data_share(&self) -> f64 {
        self.geometry.data_columns() as f64 / self.geometry.layout.seats() as f64
    }

    /// Bytes that each disk holds, on the mean.
    pub fn disk_bytes(&self) -> f64 {
        self.extents as f64 * self.column_bytes * self.width() as f64 / self.disks as f64
    }

    /// The share of a stripe's data that these columns hold and nothing determines any more, on the mean over stripes.
    pub fn data_lost(&self, lost: ColumnSet) -> f64 {
        let g = &self.geometry;
        let turns = g.layout.turns();
        let of = |stripe: u64| {
            let seats = g.seats_of(stripe, lost);
            let gone = |code_column: &usize| {
                *code_column < g.data_columns()
                    && g.helpers(stripe, seats, *code_column, ColumnSet::EMPTY).is_none()
            };
            g.code_columns(stripe, seats).iter().filter(gone).count()
        };
        let all: usize = (0..turns).map(of).sum();
        all as f64 / (turns as usize * g.data_columns()) as f64
    }
}

/// A unit of one extent for tests, with all it has to say of size in units of its own.
#[cfg(test)]
pub(crate) fn group(layout: &str, boxes: usize) -> Unit {
    use weft_core::layout::LayoutSpec;
    let spec: LayoutSpec = layout.parse().unwrap();
    let geometry = Geometry::new(spec.over(spec.least_nodes()).unwrap(), 65_536);
    let disks = geometry.layout.width();
    Unit { geometry, disks, boxes, extents: 1, column_bytes: 1e12 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_columns_lose_their_data() {
        let raid5 = group("rs:4+1", 0);
        assert_eq!(raid5.data_lost(ColumnSet::first(1)), 0.0);
        assert_eq!(raid5.data_lost(ColumnSet::first(2)), 0.4);
        assert_eq!(raid5.data_bytes(), 4e12);
        // A group of lrc that lost more than it and the global parities bear; the other group is whole.
        let local = group("lrc:12+2+2", 0);
        let lost = local.data_lost(ColumnSet::first(5));
        assert!(lost > 0.0 && lost < 5.0 / 12.0, "{lost}");
    }

    #[test]
    fn columns_are_spread_over_boxes() {
        let unit = group("rs:4+2", 4);
        let sizes: Vec<usize> = (0..4).map(|b| unit.columns_in(ColumnSet::of(b)).len()).collect();
        assert_eq!(sizes, [2, 2, 1, 1]);
        assert_eq!((group("rs:4+2", 9).slots(), group("rs:4+2", 0).slots()), (6, 0));
    }
}
