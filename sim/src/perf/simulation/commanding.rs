//! As how many commands messages count, for the processors at both ends (`nodes.path.command`, `nodes.path.execute`).

use weft_core::node::{Body, Task};
use weft_core::plan::Range;

use super::super::system::Commands;
use super::*;

impl Simulation {
    /// The commands that an output sends to another node's worker.
    pub(super) fn commands_sent(&self, output: &Output) -> u64 {
        match output {
            Output::Send(m) => self.commands(m),
            _ => 0,
        }
    }

    /// The commands of another node that come in with an input.
    pub(super) fn commands_in(&self, input: &Input) -> u64 {
        match input {
            Input::Message(m) => self.commands(m),
            _ => 0,
        }
    }

    #[inline]
    fn commands(&self, message: &Envelope) -> u64 {
        match &message.body {
            Some(body @ (Body::Read { .. } | Body::Write { .. })) if message.from != message.to => {
                self.commands_of(u32::from(message.to.0), body)
            }
            _ => 0,
        }
    }

    fn commands_of(&self, node: u32, body: &Body) -> u64 {
        match (body, self.system.nodes.commands) {
            (Body::Read { .. } | Body::Write { .. }, Commands::Column) => 1,
            (Body::Read { range, .. }, Commands::Block) => self.units_on(node, *range).max(1),
            (Body::Write { header, .. }, Commands::Block) => match header.task {
                Task::Write(range) => self.units_on(node, range) + self.parity_on(node, range),
                _ => 1,
            },
            _ => 0,
        }
    }

    /// Stripe units of data in the range that are on a node's disk.
    fn units_on(&self, node: u32, range: Range) -> u64 {
        let unit = self.volume.geometry.unit;
        let all = range.offset / unit..(range.offset + range.len).div_ceil(unit);
        all.filter(|n| self.disk_at(n * unit) == node).count() as u64
    }

    /// Stripe units of parity of the range's stripes that are on a node's disk.
    fn parity_on(&self, node: u32, range: Range) -> u64 {
        let g = &self.volume.geometry;
        let has = |stripe: &u64| {
            let columns = &self.volume.extent(*stripe).columns;
            let is_parity =
                |c: usize| (0..g.data_columns()).all(|i| g.layout.data_column(*stripe, i) != c);
            (0..columns.len()).any(|c| u32::from(columns[c].0.0) == node && is_parity(c))
        };
        range.stripes(g).filter(has).count() as u64
    }
}
