//! How the network and the disks behave.

use weft_core::node::{Body, Envelope, Task};
use weft_core::units::{Nanos, NodeId};

use super::MICROS;

/// How the network and the disks behave.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// A message takes between these.
    pub latency: (Nanos, Nanos),
    /// Lost messages of a million.
    pub drop_ppm: u32,
    /// Duplicated messages of a million.
    pub repeat_ppm: u32,
    /// Messages of a million that take a hundred times as long.
    pub straggle_ppm: u32,
    /// A disk operation takes between these.
    pub disk: (Nanos, Nanos),
    /// A node, and the factor by which its disk is slower.
    pub slow: Option<(NodeId, u64)>,
    /// Nodes, one bit each, to which hosts' writes take longer than other messages, and by how much.
    pub late_writes: Option<(u64, Nanos)>,
}

impl Default for Conditions {
    fn default() -> Self {
        Conditions {
            latency: (20 * MICROS, 100 * MICROS),
            drop_ppm: 0,
            repeat_ppm: 0,
            straggle_ppm: 0,
            disk: (50 * MICROS, 300 * MICROS),
            slow: None,
            late_writes: None,
        }
    }
}

impl Conditions {
    /// How much longer a message takes for what it is.
    pub(super) fn lateness(&self, envelope: &Envelope) -> Nanos {
        let is_write = matches!(&envelope.body, Some(Body::Write { header, .. })
            if matches!(header.task, Task::Write(_)));
        let late = self.late_writes.filter(|late| is_write && late.0 >> envelope.to.0 & 1 == 1);
        late.map_or(0, |late| late.1)
    }
}
