//! Writes that rely on marks (AFRAID 2): all parity that covers their change is already marked as out of date, so only
//! the disk with the data must be told.
//!
//! Such a write must not rely on a mark that a refresh removes without having read its data:
//!
//! 1. The originator knows the marks that it has made in this epoch, and since when (`originator/relying.rs`). The header of
//!    the write names that time, `marked_since`. Only committed marks count, so all parity nodes have them durably.
//! 2. The data disk notes when its data last went into parity: when it was sent for a rebuild, a refresh or a large write,
//!    or was written together with parity. If that was after `marked_since`, it refuses the write (`MarksAreGone`), which is
//!    retried with marks. Forgotten times count as later.
//! 3. That suffices. Let all parity over a sector be marked at time t, and let R be the first later time at which one of them
//!    is computed. At R all other parity over the sector is marked and shows nothing. So the sector itself was read at R,
//!    and its disk knows.
//! 4. A refresh at R and a write at w that relies on marks from before R meet at that disk. If the refresh comes first,
//!    point 2 refuses the write. If the write comes first, the refresh is late (`order/admission.rs`), or waits for it.
//! 5. Only the data disk knows the outcome of such a write. While it is down the request waits for `lost-wait`; a repeated
//!    request asks that disk alone (`originator/recalling.rs`). The originator tells the parity nodes that disk's position
//!    with its next message to each.
//!
//! No write relies on marks across epochs, without an order, while refreshing continues under load, or while a disk is down,
//! behind or suspect.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Participation, Worker};
use crate::order::Accesses;
use crate::units::Timestamp;

/// The number of sectors that share a note.
const TOGETHER: u64 = 16;

/// The most runs of sectors with a note; beyond that the older half is forgotten.
const MOST: usize = 1 << 17;

/// When data of this disk last went into parity.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct IntoParity {
    /// By runs of sectors.
    latest: BTreeMap<u64, Timestamp>,
    /// The time for runs without a note is unknown, but not later than this.
    forgotten: Timestamp,
}

impl IntoParity {
    /// The node enters an epoch: no time is earlier than this.
    pub fn enter(&mut self, floor: Timestamp) {
        self.latest.clear();
        self.forgotten = floor;
    }

    /// Parity is computed from these sectors at that time.
    pub fn note(&mut self, ts: Timestamp, sectors: &Range<u64>) {
        for run in runs(sectors) {
            let latest = self.latest.entry(run).or_default();
            *latest = ts.max(*latest);
        }
        if self.latest.len() > MOST {
            self.forget_half();
        }
    }

    /// Whether no parity has been computed from these sectors since then.
    pub fn nothing_since(&self, ts: Timestamp, sectors: &Range<u64>) -> bool {
        let mut noted = runs(sectors).filter_map(|run| self.latest.get(&run));
        ts > self.forgotten && noted.all(|latest| *latest < ts)
    }

    fn forget_half(&mut self) {
        let mut times: Vec<Timestamp> = self.latest.values().copied().collect();
        let half = times.len() / 2;
        let (_, middle, _) = times.select_nth_unstable(half);
        self.forgotten = self.forgotten.max(*middle);
        let forgotten = self.forgotten;
        self.latest.retain(|_, latest| *latest > forgotten);
    }
}

fn runs(sectors: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    sectors.start / TOGETHER..sectors.end.div_ceil(TOGETHER)
}

impl Worker {
    /// Notes data that a write puts into parity. A write that defers all of its parity puts it into none. In a volume
    /// without deferred parity nothing is noted: no write of this epoch relies on marks, and those of a later one name
    /// times after this epoch.
    pub(super) fn note_into_parity(&mut self, ts: Timestamp, txn: &Participation) {
        for cell in txn.cells.iter().filter(|cell| !cell.outdates_parity()) {
            let mut accesses = Accesses::new();
            cell.add_accesses(&mut accesses);
            accesses.iter().for_each(|(sectors, _)| self.into_parity.note(ts, sectors));
        }
    }

    /// Whether the marks still exist since the time that a write names. If a part of its range is missing here, or
    /// marked as lost, parity must hear that it is there again.
    pub(super) fn marks_stand(&self, since: Timestamp, txn: &Participation) -> bool {
        let is_here = |sectors: &Range<u64>| {
            !self.is_stale(sectors.clone())
                && !self.exposure.has(sectors)
                && sectors.clone().all(|s| !self.damaged.contains(&s))
        };
        let stands = |sectors: &Range<u64>| {
            self.into_parity.nothing_since(since, sectors) || !self.config.heeds_refreshes()
        };
        txn.ranges.iter().all(|changed| is_here(&changed.sectors) && stands(&changed.sectors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::NodeId;

    fn at(micros: u64) -> Timestamp {
        Timestamp::new(micros, NodeId(0))
    }

    #[test]
    fn what_went_into_parity_is_known_until_it_is_forgotten() {
        let mut into = IntoParity::default();
        into.enter(at(100));
        assert!(!into.nothing_since(at(100), &(0..1)), "of an earlier epoch");
        assert!(into.nothing_since(at(101), &(0..1)));
        into.note(at(200), &(15..17));
        into.note(at(150), &(15..17));
        assert!(!into.nothing_since(at(200), &(0..1)), "the same run, at the same time");
        assert!(into.nothing_since(at(201), &(0..40)));
        assert!(!into.nothing_since(at(199), &(31..40)));
        assert!(into.nothing_since(at(199), &(32..40)), "another run");
        into.enter(at(300));
        assert!(!into.nothing_since(at(201), &(32..40)));
    }

    #[test]
    fn of_too_much_the_older_half_is_forgotten_and_counts_as_computed() {
        let mut into = IntoParity::default();
        for run in 0..=MOST as u64 {
            into.note(at(1000 + run), &(run * TOGETHER..run * TOGETHER + 1));
        }
        assert!(into.latest.len() <= MOST / 2 + 1);
        let never_noted = 1u64 << 40..(1 << 40) + 1;
        assert!(!into.nothing_since(at(1000), &never_noted));
        assert!(into.nothing_since(at(1001 + MOST as u64), &never_noted));
    }
}
