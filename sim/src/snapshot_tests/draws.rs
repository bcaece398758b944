//! What a trial is drawn with: kinds of faults, and the volumes.

use super::*;

/// Layouts over some of the nodes, and how wide they are.
pub(super) const LAYOUTS: [(&str, usize); 5] =
    [("raid5", 4), ("rs:3+1", NODES), ("rs:2+2", NODES), ("raid1", 4), ("raid6", 4)];

/// Draws that have been added since the first seeds were pinned. Those go without.
#[derive(Clone, Copy)]
pub(super) struct Draws {
    /// Views are compared.
    pub(super) compares: bool,
    /// Clones are flattened.
    pub(super) flattens: bool,
    /// Snapshots are imported.
    pub(super) imports: bool,
    /// Disks are so small that they are full at times. Then none is lost, since catching up may have to wait for space.
    pub(super) tight: bool,
    /// Disks are damaged, and scrubbed before anything else happens to one.
    pub(super) damages: bool,
    /// Volumes have any ordering, not timestamps alone.
    pub(super) orders: bool,
    /// Layouts whose parities cover different columns.
    pub(super) local: bool,
    /// At times more nodes are down than the layouts bear.
    pub(super) beyond: bool,
    /// The two volumes have different layouts, so that one may sleep while the other goes on.
    pub(super) differ: bool,
    /// Small writes to volumes are copied before their first snapshot.
    pub(super) copies: bool,
    /// In the end nodes are down two at a time, if the layouts bear that.
    pub(super) pairs: bool,
}

impl Draws {
    pub(super) fn of(seed: u64) -> Draws {
        let (imports, tight) = (seed % 40 >= 20, seed % 4 == 3);
        let (damages, orders, local) = (seed % 8 == 5, seed % 8 == 6, seed % 8 == 2);
        Draws {
            compares: true,
            flattens: true,
            imports,
            tight,
            damages,
            orders,
            local,
            beyond: seed % 3 == 2 && !tight && !damages,
            differ: seed % 6 == 5 && !local,
            copies: false,
            pairs: true,
        }
    }

    /// The same with copied writes, which go with timestamps only. Nothing is imported into a volume that has any.
    pub(super) fn with_copies(seed: u64) -> Draws {
        Draws { copies: true, imports: false, orders: false, ..Draws::of(seed) }
    }

    /// As it was before views were compared.
    pub(super) const FIRST: Draws = Draws {
        compares: false,
        flattens: false,
        imports: false,
        tight: false,
        damages: false,
        orders: false,
        local: false,
        beyond: false,
        differ: false,
        copies: false,
        pairs: false,
    };

    /// A layout, how wide it is, and of how many nodes.
    pub(super) fn layout(&self, rng: &mut Rng, seed: u64) -> (&'static str, usize, usize) {
        let (layout, width) = LAYOUTS[rng.usize(0..5)];
        if !self.local {
            return (layout, width, NODES);
        }
        match seed / 8 % 8 {
            5 => ("drnet", 25, 25),
            0 | 3 | 6 => ("lrc:4+2+1", 7, 8),
            1 | 4 => ("lrc:4+2+2", 8, 8),
            _ => ("grid:2x2", 9, 10),
        }
    }
}

pub(super) fn volumes(
    rng: &mut Rng,
    layouts: [(&str, usize); 2],
    nodes: usize,
    data: u64,
    tight: bool,
) -> Vec<Volume> {
    let unit = [2, 16, 5][rng.usize(0..3)];
    let unit = if tight { 16 } else { unit };
    let rooms = Room::apart(&vec![data; nodes]);
    let mut all: Vec<Volume> = Vec::new();
    for (id, (layout, width)) in [FIRST, OTHER].into_iter().zip(layouts) {
        let spec: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(spec.over(width).unwrap(), unit * SECTOR);
        let size = STRIPES * geometry.stripe_bytes();
        let column = 8 * geometry.unit;
        let others: Vec<&Volume> = all.iter().collect();
        let extents = match rng.bool() {
            true => place_thin(thin_space(id), &geometry, 0..STRIPES, &rooms, &others, column),
            false => place_volume(&geometry, size, &rooms, &others, column),
        };
        let name = format!("v{}", id.0);
        all.push(Volume::new(id, &name, size, &spec, geometry, extents.unwrap()));
    }
    all
}
