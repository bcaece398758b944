//! What hosts ask of nodes.

use super::*;

impl World {
    /// A host asks a node.
    pub fn host(&mut self, node: NodeId, request: u64, volume: VolumeId, op: HostOp) {
        self.ask_node(node, Input::Host(request, volume, op));
    }

    /// A host asks a node for something that has a place among its requests.
    pub fn host_in_order(
        &mut self,
        node: NodeId,
        request: u64,
        volume: VolumeId,
        order: Order,
        op: HostOp,
    ) {
        self.ask_node(node, Input::Ordered(request, volume, order, op));
    }

    /// A host asks a node for something of which it is known where it comes from.
    pub fn host_by_name(
        &mut self,
        node: NodeId,
        request: u64,
        volume: VolumeId,
        origin: Origin,
        op: HostOp,
    ) {
        self.ask_node(node, Input::Named(request, volume, origin, None, op));
    }

    /// The map that a node has entered, if it runs.
    pub fn map_of(&self, node: NodeId) -> Option<&ClusterMap> {
        self.places[usize::from(node.0)].node.as_ref().map(Node::cluster_map)
    }

    /// The host of a request is gone.
    pub fn host_gone(&mut self, node: NodeId, request: u64) {
        self.ask_node(node, Input::HostGone(request));
    }

    pub(super) fn ask_node(&mut self, node: NodeId, input: Input) {
        if self.together.is_none() {
            return self.input(node, input);
        }
        let delay = self.rng.u64(MICROS..50 * MICROS);
        let life = self.places[usize::from(node.0)].life;
        self.happens(node, delay, Happens::Host(life, Box::new(input)));
    }
}
