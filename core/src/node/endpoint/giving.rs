//! An attempt at a write whose bytes an endpoint holds. Whoever takes part fetches what it needs; the endpoint derives
//! its own cells from the header, and those of calculators that need nothing of columns.

use std::collections::BTreeMap;

use crate::Buffer;
use crate::cluster::Volume;
use crate::node::originator::new_data;
use crate::node::outbox::Outbox;
use crate::node::{Body, Header, Item, Task};
use crate::plan::{Execution, Range, Role, Sending, WritePlan, WriteRow};
use crate::units::NodeId;

/// See the module.
#[derive(Clone, Hash)]
pub(super) struct Giving {
    pub header: Header,
    /// What a column can have, by column and its role.
    ready: BTreeMap<(usize, Role), Vec<Item>>,
}

impl Giving {
    /// Derives the cells of an attempt at writing `data`, which begins at `offset`. `None` if it cannot be planned.
    pub fn new(
        header: Header,
        volume: &Volume,
        (offset, data): (u64, &Buffer),
        outbox: &mut Outbox,
    ) -> Option<Giving> {
        let g = &volume.geometry;
        let Task::Write(range) = header.task else { return None };
        let mut plan: WritePlan = header.task.plan(volume, header.avoid, header.waits).ok()?;
        plan.assign(g, header.calculators).ok()?;
        let at = (range.offset - offset) as usize;
        let new = data.slice(at, at + range.len as usize);
        let mut giving = Giving { header, ready: BTreeMap::new() };
        for row in &plan.rows {
            debug_assert!(!row.asks_first, "votes are needed: {g:?}");
            giving.begin_row(row, volume, (range, &new), outbox);
        }
        Some(giving)
    }

    fn begin_row(
        &mut self,
        row: &WriteRow,
        volume: &Volume,
        new: (Range, &Buffer),
        outbox: &mut Outbox,
    ) {
        let g = &volume.geometry;
        let mut calculator = Execution::new(row.cell(g, Role::Calculator));
        let mut sent = Vec::new();
        for sending in new_data(g, row, Some(new), row.cell(g, Role::Endpoint)) {
            match (sending.to.columns().is_empty(), row.calculator) {
                (false, _) => sent.push(sending),
                (true, Some(column)) => self.add(column, Role::Calculator, row.stripe, sending),
                (true, None) => calculator.take(sending.part, sending.data),
            }
        }
        if row.calculator.is_none() {
            debug_assert!(!calculator.cell().gathers(), "a column gathers: {row:?}");
            sent.extend(calculator.advance());
            outbox.counters.xor_bytes += calculator.take_added();
        }
        for sending in sent {
            for seat in sending.to.columns().iter() {
                let column = g.layout.column_at(row.stripe, seat);
                self.add(column, Role::Column(seat), row.stripe, sending.clone());
            }
        }
    }

    fn add(&mut self, column: usize, to: Role, stripe: u64, Sending { part, data, .. }: Sending) {
        self.ready.entry((column, to)).or_default().push(Item { stripe, part, data });
    }

    /// Sends a column what it can have.
    pub fn give(&self, to: NodeId, column: usize, outbox: &mut Outbox) {
        let header = self.header;
        let mut its = self.ready.iter().filter(|((c, _), _)| *c == column).peekable();
        if its.peek().is_none() {
            // It only has to know that the endpoint knows of the attempt.
            let to_role = Role::Column(column);
            outbox.send(to, Body::Part { header, to: to_role, items: Vec::new() });
        }
        for ((_, role), items) in its {
            outbox.send(to, Body::Part { header, to: *role, items: items.clone() });
        }
    }
}
