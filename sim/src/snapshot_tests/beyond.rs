//! More disks away at a time than the layouts bear. Each comes back intact, so no acknowledged write is lost, whatever hosts
//! and operators did meanwhile.

use super::*;

/// Nodes that may be down at a time beyond what the layouts bear.
const BEYOND: usize = 2;

impl Trial {
    /// More is away than the layouts bear, and back in the end. The change, if there is one, is asked for in between.
    pub(super) fn go_beyond(&mut self, change: Option<&Change>) {
        match self.beyond.bool() {
            true => self.die_and_return(change),
            false => self.die_while_another_is_behind(change),
        }
        for node in std::mem::take(&mut self.down) {
            self.return_beyond(node);
        }
        if self.beyond.bool() {
            self.until("all is whole", Trial::is_whole);
        }
    }

    /// Volumes copy no more writes, so that this snapshot of them can be taken. Copies may be on disks that are away then, and
    /// nowhere else.
    pub(super) fn end_copies(&mut self, of: &[VolumeId], snapshot: &Change) {
        let away = self.beyond.bool();
        while away && self.down.len() <= self.most_down {
            self.die_beyond();
        }
        self.step_beyond(2000);
        for id in of.iter().copied() {
            let to = PolicyChange::to([Setting::Redundancy(Timing::Immediate)]);
            self.change(&Change::SetPolicy(id, to), |w| !w.map().volumes[&id].copies());
        }
        self.world.change(snapshot.clone());
        self.step_beyond(400);
        if away {
            for node in std::mem::take(&mut self.down) {
                self.return_beyond(node);
            }
        }
    }

    /// Nodes die and come back in any order while hosts write.
    fn die_and_return(&mut self, change: Option<&Change>) {
        let most = (self.most_down + BEYOND).min(self.nodes - 1);
        for _ in 0..self.beyond.usize(3..12) {
            match self.beyond.u8(0..6) {
                0 | 1 if self.down.len() < most => self.die_beyond(),
                2 if !self.down.is_empty() => {
                    let node = self.down.swap_remove(self.beyond.usize(0..self.down.len()));
                    self.return_beyond(node);
                }
                3 => change.into_iter().for_each(|change| self.world.change(change.clone())),
                _ => self.write_some(),
            }
            let most = if self.beyond.bool() { 40 } else { 400 };
            self.step_beyond(most);
        }
    }

    /// As many nodes as the layouts bear are back and still behind when another dies. Writes that were begun just before
    /// wait for it.
    fn die_while_another_is_behind(&mut self, change: Option<&Change>) {
        while self.down.len() < self.most_down {
            self.die_beyond();
        }
        let down = self.down.clone();
        self.until("they are missed", |t| !down.iter().any(|node| t.world.map().is_up(*node)));
        (0..3).for_each(|_| self.write_some());
        self.step_beyond(400);
        for node in std::mem::take(&mut self.down) {
            self.return_beyond(node);
        }
        self.until("they are back", |t| down.iter().all(|node| t.world.map().is_up(*node)));
        self.write_some();
        self.step_beyond(20);
        while self.down.is_empty() {
            self.die_beyond();
        }
        self.step_beyond(400);
        change.into_iter().for_each(|change| self.world.change(change.clone()));
        self.step_beyond(4000);
    }

    fn write_some(&mut self) {
        (0..self.beyond.usize(1..6)).for_each(|_| self.write());
    }

    fn step_beyond(&mut self, most: u64) {
        for _ in 0..self.beyond.u64(0..most) {
            self.world.step();
            self.hear();
        }
    }

    fn return_beyond(&mut self, node: NodeId) {
        self.tell(|| format!("{node} is back"));
        self.world.start_node(node);
    }

    fn die_beyond(&mut self) {
        let node = NodeId(self.beyond.u16(0..self.nodes as u16));
        if self.down.contains(&node) {
            return;
        }
        let power = self.beyond.bool();
        self.tell(|| format!("{node} dies, power lost: {power}"));
        self.kill(node, power);
        self.down.push(node);
    }
}
