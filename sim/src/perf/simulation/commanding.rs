//! As how many commands messages count, for the processors at both ends (`nodes.path.command`, `nodes.path.execute`).

use weft_core::node::{Body, Task};
use weft_core::plan::Range;
use weft_core::units::ColumnSet;

use super::super::system::{Commands, Stripes};
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
            (Body::Read { range, avoid, .. }, Commands::Block) => {
                self.commands_of_read(node, *range, *avoid)
            }
            (Body::Write { header, .. }, Commands::Block) => match header.task {
                Task::Write(range) => self.commands_of_write(node, range, header.avoid),
                _ => 1,
            },
            _ => 0,
        }
    }

    /// A node's commands in a read: one for each block, and where one is lost each other column of the stripe has one to
    /// send what that is solved from, or to solve it and send it.
    fn commands_of_read(&self, node: u32, range: Range, lost: ColumnSet) -> u64 {
        let of = |stripe: u64| {
            let touched = self.touched(stripe, range);
            let is_its = |column: &usize| self.node_of(stripe, *column) == node;
            let its = touched.clone().filter(is_its).count() as u64;
            let helps = touched.clone().any(|c| lost.contains(c))
                && (0..self.volume.extent(stripe).columns.len()).any(|c| is_its(&c));
            its + u64::from(helps)
        };
        range.stripes(&self.volume.geometry).map(of).sum::<u64>().max(1)
    }

    /// A node's commands in a write, by TPT-RAID 3.2 and 3.4: each block of data is fetched from the host, each transfer
    /// to who adds up is a command, for a command names one peer, and when all is there each block, of data and of parity,
    /// is written. A stripe that is written in part has a transfer for each block. The full stripes together have one
    /// for each target, to the one that adds up for all of them.
    ///
    /// A node whose parity is made of new data alone gets no message of the controller here. So parity's commands count
    /// with the stripe's first data then.
    fn commands_of_write(&self, node: u32, range: Range, lost: ColumnSet) -> u64 {
        let g = &self.volume.geometry;
        let is_full = |stripe: u64| {
            let start = stripe * g.stripe_bytes();
            range.offset <= start && start + g.stripe_bytes() <= range.end()
        };
        let (mut commands, mut takes_part, mut has_full) = (0, false, false);
        for stripe in range.stripes(g) {
            let is_its = |column: &usize| self.node_of(stripe, *column) == node;
            let touched = self.touched(stripe, range);
            let is_data =
                |c: usize| (0..g.data_columns()).any(|n| g.layout.data_column(stripe, n) == c);
            let mut parity = (0..self.volume.extent(stripe).columns.len()).filter(|c| !is_data(*c));
            let parity = parity.next();
            let its = touched.clone().filter(is_its).count() as u64;
            commands += 2 * its;
            takes_part |= its > 0 || parity.as_ref().is_some_and(is_its);
            let Some(parity) = parity.filter(|c| !lost.contains(*c)) else { continue };
            let transfers = match is_full(stripe) {
                true if std::mem::replace(&mut has_full, true) => 0,
                true => g.data_columns() as u64,
                false => touched.clone().count() as u64,
            };
            let is_told =
                self.system.volume.stripes == Stripes::Small && !is_full(stripe) && lost.is_empty();
            let first = touched.clone().find(|c| !lost.contains(*c));
            if (if is_told { Some(parity) } else { first }).as_ref().is_some_and(is_its) {
                commands += transfers + 1;
            }
        }
        // Others send what they have.
        if takes_part { commands } else { 1 }
    }

    /// The columns of a stripe whose data the range touches.
    fn touched(&self, stripe: u64, range: Range) -> impl Iterator<Item = usize> + Clone {
        let g = &self.volume.geometry;
        let start = stripe * g.stripe_bytes();
        let first = range.offset.saturating_sub(start) / g.unit;
        let end = (range.end() - start).min(g.stripe_bytes()).div_ceil(g.unit);
        (first..end).map(move |n| g.layout.data_column(stripe, n as usize))
    }

    fn node_of(&self, stripe: u64, column: usize) -> u32 {
        self.volume.extent(stripe).columns[column].0.0.into()
    }
}
