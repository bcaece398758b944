//! Buses over one another (DR-net, section 3.1): hosts and controllers are on the front-end bus, a controller and
//! its back-end buses on an intermediate one, and disks on back-end buses.

use smallvec::SmallVec;

use super::Hop;
use crate::perf::system::{Links, System};

/// Which buses there are, and who is on which.
pub(in crate::perf) struct Buses {
    disks: u32,
    disks_per_bus: u32,
    controllers: u32,
    buses_per_controller: u32,
    /// Of each controller, and the back-end buses of each.
    intermediates: u32,
    buses_per_intermediate: u32,
    backs: u32,
}

impl Buses {
    pub fn new(system: &System) -> Buses {
        let disks = u32::from(system.nodes.workers);
        let hierarchy = system.links.hierarchy.unwrap_or_default();
        let disks_per_bus = u32::from(hierarchy.disks_per_bus);
        let controllers = system.nodes.diskless() as u32;
        let backs = disks.div_ceil(disks_per_bus);
        let buses_per_controller = backs.div_ceil(controllers);
        let intermediates = u32::from(hierarchy.intermediate_buses);
        Buses {
            disks,
            disks_per_bus,
            controllers,
            buses_per_controller,
            intermediates,
            buses_per_intermediate: buses_per_controller.div_ceil(intermediates),
            backs,
        }
    }

    /// The controller of a disk, from 0.
    pub fn controller_of(&self, disk: u32) -> u32 {
        disk / self.disks_per_bus / self.buses_per_controller
    }

    /// Of each line what it carries a second, and its set-up time: the front-end bus, then intermediate, then back-end ones.
    pub fn rates(&self, links: &Links) -> impl Iterator<Item = (f64, f64)> {
        let hierarchy = links.hierarchy.unwrap_or_default();
        let middle = (hierarchy.intermediate_mb_s, hierarchy.intermediate_set_up_us);
        let back = (hierarchy.back_end_mb_s, hierarchy.back_end_set_up_us);
        std::iter::once((links.mb_s, links.set_up_us))
            .chain((0..self.all_intermediates()).map(move |_| middle))
            .chain((0..self.backs).map(move |_| back))
    }

    fn all_intermediates(&self) -> u32 {
        self.controllers * self.intermediates
    }

    /// From an end up to the front-end bus: its bus, and the intermediate one above that.
    fn up(&self, end: u32) -> SmallVec<[u32; 2]> {
        let mut lines = SmallVec::new();
        if end < self.disks {
            let bus = end / self.disks_per_bus;
            lines.push(1 + self.all_intermediates() + bus);
            lines.push(1 + bus / self.buses_per_intermediate);
        }
        lines
    }

    /// The controller that an end is, or is of; none of a host.
    fn controller(&self, end: u32) -> Option<u32> {
        match end.checked_sub(self.disks) {
            None => Some(self.controller_of(end)),
            Some(n) => (n < self.controllers).then_some(n),
        }
    }

    /// The buses from an end to another.
    fn legs(&self, from: u32, to: u32) -> SmallVec<[u32; 5]> {
        let (mut up, mut down) = (self.up(from), self.up(to));
        let mut legs = SmallVec::new();
        if self.controller(from) == self.controller(to) {
            // What lies on one bus goes over it alone, and the rest over the intermediate bus once.
            if up.len() == 2 && down.len() == 2 && up[1] == down[1] {
                if up[0] == down[0] {
                    down.clear();
                    up.truncate(1);
                }
                down.truncate(1);
            }
        } else {
            up.push(0);
        }
        legs.extend(up);
        legs.extend(down.into_iter().rev());
        legs
    }

    pub(super) fn hop(&self, from: u32, to: u32, leg: u32) -> Option<Hop> {
        let legs = self.legs(from, to);
        let line = *legs.get(leg as usize)?;
        Some(Hop { line, to, is_last: leg as usize + 1 == legs.len() })
    }

    pub fn name(&self, line: usize) -> String {
        let intermediates = self.all_intermediates() as usize;
        match line {
            0 => "front-end bus".to_string(),
            n if n <= intermediates => format!("intermediate bus {}", n - 1),
            n => format!("back-end bus {}", n - 1 - intermediates),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two controllers with five buses each of ten disks; hosts from 102 on.
    fn buses() -> Buses {
        Buses {
            disks: 100,
            disks_per_bus: 10,
            controllers: 2,
            buses_per_controller: 5,
            intermediates: 1,
            buses_per_intermediate: 5,
            backs: 10,
        }
    }

    #[test]
    fn everyone_is_reached_over_the_buses_between() {
        let legs = |from, to| buses().legs(from, to).to_vec();
        assert_eq!(legs(102, 100), [0], "a host and a controller");
        assert_eq!(legs(100, 0), [1, 3], "a controller and its disk");
        assert_eq!(legs(0, 100), [3, 1]);
        assert_eq!(legs(100, 99), [0, 2, 12], "another's");
        assert_eq!(legs(0, 9), [3], "disks of one bus");
        assert_eq!(legs(0, 10), [3, 1, 4], "of one controller");
        assert_eq!(legs(0, 50), [3, 1, 0, 2, 8]);
        assert_eq!(legs(0, 103), [3, 1, 0]);
    }

    /// The same disks on buses of five: ten for each controller, at two intermediate buses.
    #[test]
    fn a_controller_with_several_intermediate_buses_is_between_them() {
        let buses = Buses {
            disks_per_bus: 5,
            buses_per_controller: 10,
            intermediates: 2,
            backs: 20,
            ..buses()
        };
        let legs = |from, to| buses.legs(from, to).to_vec();
        assert_eq!(legs(100, 0), [1, 5], "a controller and its disk");
        assert_eq!(legs(100, 49), [2, 14], "by the other bus");
        assert_eq!(legs(101, 99), [4, 24]);
        assert_eq!(legs(0, 5), [5, 1, 6], "disks of one intermediate bus");
        assert_eq!(legs(0, 49), [5, 1, 2, 14], "of one controller");
        assert_eq!(legs(0, 50), [5, 1, 0, 3, 15]);
        assert_eq!(
            (buses.name(4), buses.name(5)),
            ("intermediate bus 3".into(), "back-end bus 0".into())
        );
    }
}
