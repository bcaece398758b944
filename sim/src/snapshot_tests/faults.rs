//! Deaths, power cuts, replaced disks and drains, as many at a time as the layouts bear.

use super::*;

impl Trial {
    pub(super) fn fail(&mut self) {
        match self.rng.u8(0..8) {
            0 => {
                self.tell(|| "all power is cut".into());
                self.asked.clear();
                self.world.power_cut();
                self.world.start_everything();
                self.down.clear();
            }
            1 | 2 if self.down.len() + self.behind() < self.most_down => {
                let node = NodeId(self.rng.u16(0..NODES as u16));
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
                let node = NodeId(self.rng.u16(0..NODES as u16));
                self.tell(|| format!("{node} has an empty disk"));
                self.kill(node, true);
                self.step(300);
                self.world.replace_disk(node);
                self.world.start_node(node);
            }
            5 => {
                let node = NodeId(self.rng.u16(0..NODES as u16));
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

    /// How many nodes that are up lack something.
    fn behind(&self) -> usize {
        let map = self.world.map();
        let extents = || map.volumes.values().flat_map(|v| &v.extents);
        let fills = |n: NodeId| extents().any(|e| e.filling_on(n).is_some());
        let all = (0..NODES as u16).map(NodeId).filter(|n| !self.down.contains(n));
        all.filter(|n| !map.is_up(*n) || map.is_stale(*n) || fills(*n)).count()
    }

    pub(super) fn come_back(&mut self) {
        for node in std::mem::take(&mut self.down) {
            self.world.start_node(node);
        }
        self.until("all is whole", Trial::is_whole);
    }
}
