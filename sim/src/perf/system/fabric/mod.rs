//! A torus or a hierarchy: its form, which disks extents are on, and what does not fit.

use weft_core::layout::{Layout, LayoutSpec};
use weft_load::workload::{Arrivals, Problem};

use super::fit::{MOST_TIMESTAMPED, within};
use super::{Fabric, Roles, System};
use crate::perf::lines::{Buses, Graph};

/// Arms of a plus, pluses of a cell, and what sides of a torus of cells are multiples of.
const SIDE: usize = 5;

impl System {
    /// Whether links die.
    pub(in crate::perf) fn has_link_faults(&self) -> bool {
        self.faults.iter().any(|f| f.what.is_of_link())
    }

    /// The number of the first node with a disk. Those without come after, or on a large torus before them: only so many
    /// have timestamps, and disks need none.
    pub(in crate::perf) fn first_disk(&self) -> u16 {
        let (workers, diskless) = (u64::from(self.nodes.workers), self.nodes.diskless() as u16);
        let many = workers + u64::from(diskless) > MOST_TIMESTAMPED;
        if many && self.links.fabric == Fabric::Torus { diskless } else { 0 }
    }

    /// The number of the first node without disk.
    pub(in crate::perf) fn first_diskless(&self) -> u16 {
        if self.first_disk() > 0 { 0 } else { self.nodes.workers }
    }

    fn is_of_cells(&self) -> bool {
        self.volume.layout.0.parse() == Ok(LayoutSpec::DrNet)
    }

    /// Width and height of the torus: as it is said, or as near to a square as can be. For DR-net's
    /// layout sides are multiples of five, if there are such.
    pub(in crate::perf) fn torus_sides(&self) -> (u16, u16) {
        let disks = self.nodes.workers;
        if let Some(width) = self.links.torus.and_then(|t| t.width) {
            return (width, disks / width);
        }
        let wide =
            |w: &u16| disks.is_multiple_of(*w) && u32::from(*w) * u32::from(*w) >= u32::from(disks);
        let of_cells =
            |w: &u16| w.is_multiple_of(SIDE as u16) && (disks / w).is_multiple_of(SIDE as u16);
        let all = || (1..=disks).filter(wide);
        let cells = all().find(of_cells).filter(|_| self.is_of_cells());
        let width = cells.or_else(|| all().next()).unwrap_or(disks);
        (width, disks / width)
    }

    /// The disk that column `c` of extent number `g` is on. Extents are on disks of neighbouring
    /// numbers; those of DR-net on a cell of the torus, or, in a hierarchy, with their first groups across
    /// five back-end buses, and a second group on each.
    pub fn disk_of(&self, g: usize, c: usize, width: usize) -> u16 {
        let disk = match self.links.fabric {
            Fabric::Torus if self.is_of_cells() => self.on_torus(g, c),
            Fabric::Hierarchy if self.is_of_cells() => self.on_buses(g, c),
            _ => (g * width + c) as u16,
        };
        self.first_disk() + disk
    }

    /// Where the layout puts a column, as it does on real machines by their labels.
    fn on_torus(&self, cell: usize, column: usize) -> u16 {
        let (w, h) = self.torus_sides();
        let cells = usize::from(w) / SIDE;
        // No column of a cell is farther than this from the centre of its middle plus.
        let reach = -3..=3i32;
        let near = reach.clone().flat_map(|dy| reach.clone().map(move |dx| (dx, dy)));
        let mut at = near.map(|(dx, dy)| {
            let x = ((SIDE * (cell % cells)) as i32 + dx).rem_euclid(i32::from(w));
            let y = ((SIDE * (cell / cells)) as i32 + dy).rem_euclid(i32::from(h));
            (x as u32, y as u32)
        });
        let sides = (u32::from(w), u32::from(h));
        let is_there = |at: &(u32, u32)| Layout::DrNet.on_torus(*at, sides) == Some((cell, column));
        let (x, y) = at.find(is_there).expect("a cell has each of its columns");
        (y * u32::from(w) + x) as u16
    }

    fn on_buses(&self, cell: usize, column: usize) -> u16 {
        let per_bus = usize::from(self.links.hierarchy.unwrap_or_default().disks_per_bus);
        let pluses = per_bus / SIDE;
        let (group, slot) = (cell / pluses, cell % pluses);
        let (plus, arm) = (column / SIDE, column % SIDE);
        ((group * SIDE + arm) * per_bus + slot * SIDE + plus) as u16
    }

    /// Refuses a torus or a hierarchy that cannot be.
    pub(super) fn check_fabric(&self) -> Result<(), Problem> {
        self.check_diskless()?;
        if self.workload.arrivals == Arrivals::Saturating && self.nodes.buffers.is_none() {
            let expected =
                "requests would accumulate without bound; give nodes.buffers, or other arrivals";
            return Err(Problem::new("workload.arrivals", "saturating", expected));
        }
        if let Some(buffers) = self.nodes.buffers {
            within("nodes.buffers", f64::from(buffers))?;
            if self.workload.arrivals != Arrivals::Saturating {
                let expected = "only saturating arrivals fill buffers; omit it, or give \
                                workload.arrivals = \"saturating\"";
                return Err(Problem::new("nodes.buffers", buffers, expected));
            }
        }
        let fabric = self.links.fabric;
        for (is_there, key, of) in [
            (self.links.torus.is_some(), "links.torus", Fabric::Torus),
            (self.links.hierarchy.is_some(), "links.hierarchy", Fabric::Hierarchy),
        ] {
            if is_there && fabric != of {
                let (name, other) = (key.trim_start_matches("links."), "another fabric");
                let expected = format!("omit it, or give links.fabric = {name}");
                return Err(Problem::new(key, other, expected));
            }
        }
        let has_queues =
            matches!(fabric, Fabric::Torus | Fabric::Hierarchy) || self.has_link_faults();
        if let Some(most) = self.links.latency_most_us.filter(|_| has_queues) {
            let expected =
                "latencies cannot vary where messages queue at links, or links fail; omit it";
            return Err(Problem::new("links.latency_most_us", most, expected));
        }
        match fabric {
            Fabric::Torus => self.check_torus(),
            Fabric::Hierarchy => self.check_hierarchy(),
            Fabric::PointToPoint | Fabric::Bus | Fabric::Switch => Ok(()),
        }
    }

    fn check_diskless(&self) -> Result<(), Problem> {
        let (workers, diskless) = (u64::from(self.nodes.workers), self.nodes.diskless() as u64);
        let last = u64::from(self.first_diskless()) + diskless;
        if diskless > 0 && last > MOST_TIMESTAMPED {
            let expected = format!(
                "nodes without a disk are numbered after them, and timestamps distinguish \
                 {MOST_TIMESTAMPED} nodes; give fewer, or \
                 nodes.originators of the workers"
            );
            return Err(Problem::new("nodes.workers", workers, expected));
        }
        let Some(controllers) = self.nodes.controllers else { return Ok(()) };
        within("nodes.controllers", f64::from(controllers))?;
        if self.nodes.originators > 0 || self.nodes.roles.hosts_are_nodes() {
            let expected = "such nodes exist only if no worker and no host takes requests; omit it, or give \
                            nodes.originators = 0 and nodes.roles = array";
            return Err(Problem::new("nodes.controllers", controllers, expected));
        }
        Ok(())
    }

    fn check_torus(&self) -> Result<(), Problem> {
        let disks = self.nodes.workers;
        let given = self.links.torus.and_then(|t| t.width);
        if let Some(width) = given {
            within("links.torus.width", f64::from(width))?;
            if !disks.is_multiple_of(width) {
                let expected = format!("give a number that divides the {disks} workers into rows");
                return Err(Problem::new("links.torus.width", width, expected));
            }
        }
        let (width, height) = self.torus_sides();
        let (key, value) = match given {
            Some(width) => ("links.torus.width", width),
            None => ("nodes.workers", disks),
        };
        if width < 3 || height < 3 {
            let expected =
                format!("that is a torus of {width} by {height}, and sides are at least 3");
            return Err(Problem::new(key, value, expected));
        }
        let five = SIDE as u16;
        if self.is_of_cells() && !(width.is_multiple_of(five) && height.is_multiple_of(five)) {
            let expected = format!(
                "that is a torus of {width} by {height}, and sides of one for drnet are multiples of 5"
            );
            return Err(Problem::new(key, value, expected));
        }
        let (nodes, links) = (self.nodes.diskless(), 2 * usize::from(disks));
        if nodes > links {
            let expected = format!("each is in a link, and there are {links}; give at most that");
            return Err(Problem::new("nodes.controllers", nodes, expected));
        }
        if self.nodes.roles.hosts_are_nodes() {
            let expected = "hosts that are nodes have no place on a torus; give array";
            return Err(Problem::new("nodes.roles", "host", expected));
        }
        Ok(())
    }

    fn check_hierarchy(&self) -> Result<(), Problem> {
        let hierarchy = self.links.hierarchy.unwrap_or_default();
        for (name, value) in [
            ("intermediate_buses", f64::from(hierarchy.intermediate_buses)),
            ("intermediate_mb_s", hierarchy.intermediate_mb_s),
            ("intermediate_set_up_us", hierarchy.intermediate_set_up_us),
            ("back_end_mb_s", hierarchy.back_end_mb_s),
            ("back_end_set_up_us", hierarchy.back_end_set_up_us),
            ("disks_per_bus", f64::from(hierarchy.disks_per_bus)),
            ("turns", f64::from(hierarchy.turns)),
        ] {
            within(&format!("links.hierarchy.{name}"), value)?;
        }
        if self.nodes.diskless() == 0 {
            let expected = "disks are behind controllers here; give nodes.originators = 0 and nodes.roles = array";
            return Err(Problem::new("links.fabric", "hierarchy", expected));
        }
        if let Some(links) = self.hosts.links {
            let expected = "hosts are on the front-end bus; omit hosts.links";
            return Err(Problem::new("hosts.links.mb_s", links.mb_s, expected));
        }
        let (disks, per_bus) = (self.nodes.workers, hierarchy.disks_per_bus);
        let (key, five) = ("links.hierarchy.disks_per_bus", SIDE as u16);
        if !disks.is_multiple_of(per_bus) {
            let expected = format!("give a number that divides the {disks} workers");
            return Err(Problem::new(key, per_bus, expected));
        }
        let (buses, controllers) = (disks / per_bus, self.nodes.diskless() as u16);
        if !buses.is_multiple_of(controllers) {
            let expected = format!("give a number that divides the {buses} back-end buses");
            return Err(Problem::new("nodes.controllers", controllers, expected));
        }
        let (each, between) = (buses / controllers, hierarchy.intermediate_buses);
        if !each.is_multiple_of(between) {
            let expected =
                format!("give a number that divides a controller's {each} back-end buses");
            return Err(Problem::new("links.hierarchy.intermediate_buses", between, expected));
        }
        if !self.is_of_cells() {
            return Ok(());
        }
        if !per_bus.is_multiple_of(five) {
            let expected = "drnet has second groups of five disks on a bus; give a multiple of 5";
            return Err(Problem::new(key, per_bus, expected));
        }
        if !(each / between).is_multiple_of(five) {
            let expected = format!(
                "drnet has first groups across five buses of an intermediate bus, and there would be {} for each; \
                 give another number",
                each / between
            );
            let (key, value) = match each.is_multiple_of(five) {
                true => ("links.hierarchy.intermediate_buses", between),
                false => ("nodes.controllers", controllers),
            };
            return Err(Problem::new(key, value, expected));
        }
        Ok(())
    }

    /// The controller of a hierarchy that a disk is behind, from 0.
    pub(in crate::perf) fn controller_of(&self, disk: u16) -> u32 {
        Buses::new(self).controller_of(disk.into())
    }

    /// The links that may die.
    pub(super) fn links_that_die(&self) -> Option<Graph> {
        let nodes = usize::from(self.nodes.workers) + self.nodes.diskless();
        match self.links.fabric {
            Fabric::Torus => Some(Graph::torus(self)),
            Fabric::PointToPoint if self.nodes.roles == Roles::Array => Some(Graph::direct(nodes)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
