//! What a write has to wait for before it is prepared: earlier writes that are undecided, on top of which it would go.

use super::*;

impl Worker {
    /// The writes on top of whose parity a write would go, and which are still undecided.
    ///
    /// What changes parity was computed from what the data columns had. One of them may not have
    /// heard of an earlier write whose parity this disk has prepared, or know that it did not
    /// happen; and if those who know fail, it may yet happen here. So nothing is put on top of
    /// new parity, and no change on top of a change of the same data, until that is decided.
    pub(super) fn undecided_below(&self, ts: Timestamp) -> BTreeSet<Timestamp> {
        let txn = &self.txns[&ts];
        if txn.ordering == Ordering::None {
            return BTreeSet::new();
        }
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
        // Mostly nothing earlier is undecided.
        let meets_any = |c: &Changed| self.admission.must_wait(ts, c.sectors.clone());
        let mut undecided = BTreeSet::new();
        for changed in parity.flat_map(Cell::writes).filter(meets_any) {
            undecided.extend(below(changed));
        }
        undecided
    }

    /// The writes from before what this one puts back that are undecided where it is to go. It comes from
    /// disks that know nothing of them: a copy's source takes no part in writes, and a helper may have
    /// refused one. If that helper fails before anyone hears of it, the write happens all the same, and
    /// what was computed without it must not stand above it.
    pub(super) fn undecided_before_put_back(&self, ts: Timestamp) -> Vec<Timestamp> {
        let txn = &self.txns[&ts];
        if !self.config.waits_to_put_back() {
            return Vec::new();
        }
        let before = |c: Changed| self.admission.earlier_unresolved(ts, c.sectors);
        txn.cells.iter().flat_map(Cell::writes).flat_map(before).collect()
    }

    /// Whether a copy must wait because this disk does not know yet what it has.
    pub(super) fn copies_too_early(&self, ts: Timestamp) -> bool {
        self.txns[&ts].copies && self.catchup.is_asking()
    }
}
