//! Nodes that answer reads much later than the others do, as the originators of this process see it: said in the log when
//! that begins and ends, and kept for the status.

use std::collections::BTreeMap;

use weft_core::node::SlowNode;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::Engine;
use crate::log::About;

impl Engine {
    /// Asks the originators which nodes are slow.
    pub(super) fn look_for_slow_nodes(&mut self) {
        let mut slow: BTreeMap<NodeId, SlowNode> = BTreeMap::new();
        for n in 0..self.instances.len() {
            let node = self.seat(n).and_then(|seat| seat.node.as_ref());
            for found in node.map_or(Vec::new(), |node| node.slow_nodes()) {
                let known = slow.entry(found.node).or_insert(found);
                if known.takes < found.takes {
                    *known = found;
                }
            }
        }
        let before = std::mem::replace(&mut self.slow, slow);
        for found in self.slow.values().filter(|s| !before.contains_key(&s.node)) {
            let text = format!(
                "node {} is slow: half of its reads take {:.1} ms or more, and those of the others {:.1} ms; hosts' reads \
                 go round it",
                found.node.0,
                millis(found.takes),
                millis(found.others)
            );
            self.log.on(About::node(found.node.0.into())).warn(&text);
        }
        for gone in before.keys().filter(|node| !self.slow.contains_key(node)) {
            let text = format!("node {} is not slow any more", gone.0);
            self.log.on(About::node(gone.0.into())).info(&text);
        }
    }

    /// Whether a node is slow, as this process sees it.
    pub(crate) fn slow_node(&self, n: usize) -> Option<SlowNode> {
        self.slow.get(&NodeId(n as u16)).copied()
    }
}

fn millis(time: Nanos) -> f64 {
    time as f64 / MILLIS as f64
}
