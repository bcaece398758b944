//! An attempt at a write whose bytes an endpoint holds. Whoever takes part fetches what it needs; the endpoint derives
//! its own cells, and the calculator's, from the header.

use std::collections::BTreeMap;

use crate::Buffer;
use crate::cluster::Volume;
use crate::node::originator::new_data;
use crate::node::outbox::Outbox;
use crate::node::task::Cast;
use crate::node::{Body, Header, Item, Task};
use crate::plan::{Execution, Range, Role, Sending, WritePlan};
use crate::units::NodeId;

/// See the module.
#[derive(Clone, Hash)]
pub(super) struct Giving {
    pub header: Header,
    plan: WritePlan,
    /// What columns can have at once, by seat.
    ready: BTreeMap<usize, Vec<Item>>,
    /// The calculator's cell of each row, where that gathers what columns send.
    calculators: Vec<Option<Box<Execution>>>,
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
        let plan = header.task.plan(volume, header.avoid, header.waits).ok()?;
        let at = (range.offset - offset) as usize;
        let new = data.slice(at, at + range.len as usize);
        let (ready, calculators) = (BTreeMap::new(), Vec::with_capacity(plan.rows.len()));
        let mut giving = Giving { header, plan, ready, calculators };
        for n in 0..giving.plan.rows.len() {
            giving.begin_row(n, volume, (range, &new), outbox);
        }
        debug_assert!(
            giving.plan.rows.iter().all(|row| !row.asks_first),
            "votes are needed: {g:?}"
        );
        Some(giving)
    }

    fn begin_row(&mut self, n: usize, volume: &Volume, new: (Range, &Buffer), outbox: &mut Outbox) {
        let (g, row) = (&volume.geometry, self.plan.rows[n]);
        let mut calculator = Execution::new(row.cell(g, Role::Calculator));
        let mut sent = Vec::new();
        for sending in new_data(g, &row, Some(new), row.cell(g, Role::Endpoint)) {
            match sending.to.columns().is_empty() {
                true => calculator.take(sending.part, sending.data),
                false => sent.push(sending),
            }
        }
        let gathers = calculator.cell().gathers();
        if !gathers {
            sent.extend(calculator.advance());
            outbox.counters.xor_bytes += calculator.take_added();
        }
        for Sending { to, part, data } in sent {
            for seat in to.columns().iter() {
                let item = Item { stripe: row.stripe, part, data: data.clone() };
                self.ready.entry(seat).or_default().push(item);
            }
        }
        self.calculators.push(gathers.then(|| Box::new(calculator)));
    }

    /// Sends a column what it can have at once.
    pub fn give(&self, to: NodeId, column: usize, volume: &Volume, outbox: &mut Outbox) {
        let g = &volume.geometry;
        let mut sent = false;
        for (seat, items) in &self.ready {
            let its = |item: &&Item| g.layout.column_at(item.stripe, *seat) == column;
            let items: Vec<Item> = items.iter().filter(its).cloned().collect();
            if !items.is_empty() {
                sent = true;
                let (header, to_role) = (self.header, Role::Column(*seat));
                outbox.send(to, Body::Part { header, to: to_role, items });
            }
        }
        if !sent {
            // It only has to know that the endpoint knows of the attempt.
            let (header, to_role) = (self.header, Role::Column(column));
            outbox.send(to, Body::Part { header, to: to_role, items: Vec::new() });
        }
    }

    /// What a column shows, for the calculator.
    pub fn take(&mut self, item: Item, cast: Cast, outbox: &mut Outbox) {
        let Ok(n) = self.plan.rows.binary_search_by_key(&item.stripe, |r| r.stripe) else { return };
        let Some(calculator) = self.calculators.get_mut(n).and_then(Option::as_mut) else { return };
        calculator.take(item.part, item.data);
        if !calculator.has_gathered() {
            return;
        }
        let mut calculator = self.calculators[n].take().expect("just seen");
        let mut parcels: BTreeMap<(NodeId, Role), Vec<Item>> = BTreeMap::new();
        for Sending { to, part, data } in calculator.advance() {
            for role in to.roles() {
                let node = cast.node(item.stripe, role).expect("a role in this plan");
                let item = Item { stripe: item.stripe, part, data: data.clone() };
                parcels.entry((node, role)).or_default().push(item);
            }
        }
        outbox.counters.xor_bytes += calculator.take_added();
        for ((node, to), items) in parcels {
            outbox.send(node, Body::Part { header: self.header, to, items });
        }
    }
}
