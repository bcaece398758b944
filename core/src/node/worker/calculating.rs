//! Computation of a worker for other columns: as the calculator of stripes, and as a part of a tree of columns. Between
//! the calculator and its own column no message is needed.

use smallvec::SmallVec;

use super::*;

impl Participation {
    /// Takes input of columns, or the endpoint, for the calculators of their stripes.
    pub(super) fn gather(&mut self, items: Vec<Item>) {
        for item in items {
            let stripe = |c: &Calculator| c.stripe();
            if let Ok(n) = self.calculators.binary_search_by_key(&item.stripe, stripe) {
                self.calculators[n].take(item.part, item.data);
            }
        }
    }

    /// Takes in something for the cell of a seat. Returns which that is.
    pub(super) fn take(&mut self, seat: usize, item: Item) -> Option<usize> {
        let key = (item.stripe, seat);
        let n = self.cells.binary_search_by_key(&key, |c| (c.row.stripe, c.seat)).ok()?;
        self.cells[n].execution.take(item.part, item.data);
        Some(n)
    }

    /// Whether any of its parts waits, or waited, for columns' messages.
    pub(super) fn gathers(&self) -> bool {
        let waits = |cell: &Cell| cell.execution.cell().gathers();
        !self.calculators.is_empty() || self.cells.iter().any(waits)
    }
}

impl Worker {
    /// Advances the calculators until they must wait. Returns the cells here that got output.
    pub(super) fn calculate(
        &mut self,
        ts: Timestamp,
        shares: &mut Shares,
        outbox: &mut Outbox,
    ) -> Vec<usize> {
        let mut touched = Vec::new();
        let txn = self.txns.get_mut(&ts).expect("a write in work");
        if txn.calculators.is_empty() {
            return touched;
        }
        let Some(volume) = self.map.volumes.get(&txn.volume) else { return touched };
        let g = &volume.geometry;
        for n in 0..txn.calculators.len() {
            let calculator = &mut txn.calculators[n];
            if calculator.is_done() {
                continue;
            }
            let header = calculator.header();
            let (results, sent_at) = (calculator.advance(), calculator.sent_at());
            txn.unfinished -= usize::from(calculator.is_done());
            outbox.counters.xor_bytes += calculator.take_added();
            for (to, item) in results {
                let Role::Column(seat) = to else { unreachable!("parity is a column's") };
                let column = g.layout.column_at(item.stripe, seat);
                if column == txn.column {
                    touched.extend(txn.take(seat, item));
                    continue;
                }
                let node = volume.extents[txn.extent].columns[column].0;
                if header.task.is_joined() {
                    shares.add(node, to, sent_at, item);
                    continue;
                }
                let items = vec![item];
                outbox.send_after(node, Body::Part { header, to, items }, sent_at);
            }
        }
        touched
    }

    /// Advances a cell until it must wait. Its output goes in one message to each receiver.
    pub(super) fn send_to_columns(
        &mut self,
        ts: Timestamp,
        n: usize,
        shares: &mut Shares,
        outbox: &mut Outbox,
    ) {
        let txn = self.txns.get_mut(&ts).expect("a write in work");
        let mut parcels: SmallVec<[(Role, Vec<Item>); 2]> = SmallVec::new();
        let stripe = txn.cells[n].row.stripe;
        for Sending { to, part, mut data } in txn.cells[n].advance() {
            if let Destination::Columns(_) = to {
                data = self.sent.share(&self.config, data);
            }
            let item = Item { stripe, part, data };
            for to in to.roles() {
                if txn.cells[n].stays(to) {
                    txn.gather(vec![item.clone()]);
                    continue;
                }
                match parcels.iter_mut().find(|parcel| parcel.0 == to) {
                    Some(parcel) => parcel.1.push(item.clone()),
                    None => parcels.push((to, vec![item.clone()])),
                }
            }
        }
        let cell = &txn.cells[n];
        for (to, items) in parcels {
            let node = cell.cast().node(stripe, to).expect("a role in this plan");
            if cell.header.task.is_joined() {
                items.into_iter().for_each(|item| shares.add(node, to, cell.sent_at, item));
                continue;
            }
            outbox.send_after(node, Body::Part { header: cell.header, to, items }, cell.sent_at);
        }
    }
}
