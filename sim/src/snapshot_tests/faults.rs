//! Deaths, power cuts, replaced disks and drains, as many at a time as the layouts bear.

use super::*;

impl Trial {
    pub(super) fn fail(&mut self) {
        let kind = if self.draws.tight { self.rng.u8(0..2) * 7 } else { self.rng.u8(0..8) };
        match kind {
            0 => {
                self.tell(|| "all power is cut".into());
                self.asked.clear();
                self.world.power_cut();
                self.world.start_everything();
                self.down.clear();
            }
            1 | 2 if self.down.len() + self.behind() < self.most_down => {
                let node = self.any_node();
                if !self.down.contains(&node) {
                    let power = self.rng.bool();
                    self.tell(|| format!("{node} dies"));
                    self.kill(node, power);
                    self.down.push(node);
                }
            }
            3 if !self.down.is_empty() => {
                let node = self.down.swap_remove(self.rng.usize(0..self.down.len()));
                self.tell(|| format!("{node} is back"));
                self.world.start_node(node);
            }
            4 if self.down.is_empty() => {
                self.until("all is whole", Trial::is_whole);
                let node = self.any_node();
                self.tell(|| format!("{node} has an empty disk"));
                self.kill(node, true);
                self.step(300);
                self.world.replace_disk(node);
                self.world.start_node(node);
            }
            5 => {
                let node = self.any_node();
                let on = !self.world.map().nodes[usize::from(node.0)].draining;
                let drained = self.world.map().nodes.iter().filter(|n| n.draining).count();
                if !on || drained == 0 {
                    self.tell(|| format!("{node} is drained: {on}"));
                    self.world.drain(node, on);
                }
            }
            _ => {}
        }
    }

    /// A node comes back while hosts write, and perhaps another dies: soon the first lacks what others have prepared, and
    /// nobody knows what became of it.
    pub(super) fn come_back_under_writes(&mut self) {
        let node = self.down.swap_remove(self.rng.usize(0..self.down.len()));
        self.tell(|| format!("{node} is back, under writes"));
        let starts_last = self.rng.bool();
        if !starts_last {
            self.world.start_node(node);
        }
        for _ in 0..self.rng.u64(1..8) {
            self.write();
            self.step(16);
        }
        let other = self.any_node();
        let may_die = other != node && !self.down.contains(&other);
        if self.rng.bool() && may_die && self.down.len() + self.behind() < self.most_down {
            self.tell(|| format!("{other} dies"));
            self.kill(other, true);
            self.down.push(other);
        }
        if starts_last {
            self.world.start_node(node);
        }
    }

    /// How many nodes that are up lack something.
    fn behind(&self) -> usize {
        let map = self.world.map();
        let extents = || map.volumes.values().flat_map(|v| &v.extents);
        let fills = |n: NodeId| extents().any(|e| e.filling_on(n).is_some());
        let all = self.all_nodes().filter(|n| !self.down.contains(n));
        all.filter(|n| !map.is_up(*n) || map.is_stale(*n) || fills(*n)).count()
    }

    pub(super) fn come_back(&mut self) {
        for node in std::mem::take(&mut self.down) {
            self.world.start_node(node);
        }
        self.until("all is whole", Trial::is_whole);
    }
}
