//! Earlier undecided writes that a write must wait for before it is prepared, because it would go on top of them.

use super::*;

impl Worker {
    /// The undecided writes with parity that a write would go on top of.
    ///
    /// A change of parity was computed from the data columns' content. One of them may not have heard of an earlier
    /// write whose parity this disk has prepared, or know that it did not happen; and if the nodes that know fail, it
    /// may yet happen here. So nothing is put on top of new parity, and no change on top of a change of the same data,
    /// until that is decided.
    pub(super) fn undecided_below(&self, ts: Timestamp) -> BTreeSet<Timestamp> {
        let txn = &self.txns[&ts];
        let is_ordered = txn.ordering != Ordering::None;
        // Without an order a write from before a snapshot may have a later timestamp.
        let upto = if is_ordered { ts } else { Timestamp(u64::MAX) };
        let overlaps = |earlier: &Participation, range: &Range<u64>| {
            let meets = |r: &Changed| r.sectors.start < range.end && range.start < r.sectors.end;
            earlier.volume == txn.volume
                && !matches!(earlier.phase, Phase::Committed { .. })
                && share_sectors(earlier.writes, txn.writes)
                && earlier.ranges.iter().any(meets)
        };
        let below = |Changed { sectors, kind }: Changed| {
            let range = sectors.clone();
            let same_data = move |e: &Timestamp| {
                kind.is_delta() && self.txns.get(e).is_some_and(|t| overlaps(t, &range))
            };
            let changes = self.admission.earlier_unresolved(ts, sectors.clone()).filter(same_data);
            let waits = self.config.waits_for_undecided_content();
            let content = self.admission.earlier_content(ts, sectors).filter(move |_| waits);
            content.chain(changes)
        };
        let parity = txn.cells.iter().filter(|c| c.is_parity());
        // Usually nothing earlier is undecided.
        let meets_any = |c: &Changed| is_ordered && self.admission.must_wait(ts, c.sectors.clone());
        let mut undecided = BTreeSet::new();
        for changed in parity.flat_map(Cell::writes) {
            undecided.extend(self.undecided_beneath(upto, changed.sectors.clone()));
            if meets_any(&changed) {
                undecided.extend(below(changed));
            }
        }
        undecided
    }

    /// The undecided writes at the place of a rebuild that are earlier than its content. The content comes from disks
    /// that know nothing of them: a copy's source takes no part in writes, and a helper may have refused one. If that
    /// helper fails before others hear of the refusal, the write happens, and content computed without it must not
    /// replace it.
    pub(super) fn undecided_before_put_back(&self, ts: Timestamp) -> Vec<Timestamp> {
        let txn = &self.txns[&ts];
        if !self.config.waits_to_put_back() {
            return Vec::new();
        }
        let before = |c: Changed| {
            let beneath = self.undecided_beneath(ts, c.sectors.clone());
            self.admission.earlier_unresolved(ts, c.sectors).chain(beneath)
        };
        txn.cells.iter().flat_map(Cell::writes).flat_map(before).collect()
    }

    /// Whether a copy must wait because this disk does not know its own content yet.
    pub(super) fn copies_too_early(&self, ts: Timestamp) -> bool {
        self.txns[&ts].copies() && self.catchup.is_asking()
    }
}
