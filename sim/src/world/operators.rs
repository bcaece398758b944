//! What operators want of the cluster.

use super::*;

impl World {
    /// A dead node is not expected back.
    pub fn give_up(&mut self, id: NodeId) {
        self.tell(|| format!("{id} is given up"));
        self.given_up.was_asked(id);
        self.operator(Change::GiveUp(id));
    }

    /// An operator changes a volume's policy.
    pub fn set_policy(&mut self, volume: VolumeId, change: PolicyChange) {
        self.tell(|| format!("{volume:?}: {change:?}"));
        self.operator(Change::SetPolicy(volume, change));
    }

    /// A host changes a volume's reservations.
    pub fn reserve(&mut self, change: ReservationChange) {
        self.tell(|| format!("{change:?}"));
        self.operator(Change::Reserve(change));
    }

    /// What is on a node's disk is to be moved to others, or no more of it.
    pub fn drain(&mut self, id: NodeId, on: bool) {
        self.tell(|| format!("{id} is {}", if on { "drained" } else { "not drained any more" }));
        self.operator(Change::Drain(id, on));
    }

    /// A node's disk is expected to fail, or not any more.
    pub fn suspect(&mut self, id: NodeId, on: bool) {
        self.tell(|| format!("the disk of {id} is {}", if on { "suspect" } else { "trusted" }));
        self.operator(Change::Suspect(id, on));
    }

    /// The next node that is not in the map is admitted, and starts some time after that.
    pub fn admit_next(&mut self) {
        let node = NodeId(self.map().nodes.len() as u16);
        let process = Some(self.process_of(node)).filter(|p| *p != node);
        self.tell(|| format!("{node} will be admitted"));
        self.operator(Change::AddNodes(NewNodes { process, ..NewNodes::one(node) }));
    }

    /// A node that was drained leaves for good.
    pub fn remove_node(&mut self, id: NodeId) {
        self.tell(|| format!("{id} is removed"));
        self.operator(Change::RemoveNode(id));
    }

    /// An operator changes the map.
    pub fn change(&mut self, change: Change) {
        self.tell(|| format!("{change:?}"));
        self.operator(change);
    }

    pub(super) fn operator(&mut self, change: Change) {
        match self.together {
            Some(_) => self.wish(change),
            None => self.authority_input(AuthorityInput::Change(change)),
        }
    }

    /// Columns are to be moved until all disks are equally full, or no more of them.
    pub fn rebalance(&mut self, on: bool) {
        self.tell(|| format!("disks are {}made equally full", if on { "" } else { "no more " }));
        self.operator(Change::Rebalance(on));
    }

    /// A volume is to have another size.
    pub fn size_volume(&mut self, id: VolumeId, to: VolumeSize) {
        self.tell(|| format!("{id:?} is to have {} bytes", to.size));
        self.operator(Change::SizeVolume(id, to));
    }

    /// A volume is removed.
    pub fn remove_volume(&mut self, id: VolumeId) {
        self.tell(|| format!("{id:?} is removed"));
        self.operator(Change::RemoveVolume(id));
    }

    /// A volume is added.
    pub fn add_volume(&mut self, volume: Volume) {
        self.tell(|| format!("{:?} is added", volume.id));
        self.operator(Change::AddVolume(Arc::new(volume)));
    }

    /// Whether the authority runs, and no change of the map is under way.
    pub fn is_settled(&self) -> bool {
        if self.together.is_some() {
            return self.has_its_wishes();
        }
        self.awaited.is_none() && self.authority.is_settled()
    }
}
