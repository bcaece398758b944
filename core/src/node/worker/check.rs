//! What must hold between the fields of a worker whenever it is asked.

use super::{Cell, Participation, Phase, Worker};
use crate::units::Timestamp;

impl Worker {
    /// Checks what can be seen without walking over sectors.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check(&self) {
        self.store.check();
        self.exposure.check();
        for (ts, txn) in self.txns.iter() {
            assert!(!self.fenced.contains(ts), "{ts} is in work, and was said to be dropped");
            txn.check(*ts);
        }
    }

    /// Checks what takes a walk over all that it has in memory.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check_sums(&self) {
        self.store.check_sums();
        self.admission.check_sums();
        self.exposure.check_sums();
    }
}

impl Participation {
    /// A write has cells as long as they are carried out, and what it changes until that has happened.
    fn check(&self, ts: Timestamp) {
        match self.phase {
            Phase::Working => {
                let cells = self.cells.iter().filter(|c| !c.is_finished).count();
                let open = cells + self.calculators.iter().filter(|c| !c.is_done()).count();
                assert_eq!(open, self.unfinished, "cells of {ts} that have more to do");
                let place = |c: &Cell| (c.row.stripe, c.seat);
                let sorted = self.cells.windows(2).all(|c| place(&c[0]) < place(&c[1]));
                assert!(sorted, "cells of {ts} are not in the order of stripes and seats");
            }
            Phase::Preparing | Phase::Prepared => {
                assert!(self.cells.is_empty(), "{ts} is prepared and has cells");
                let takes_part = self.participants.iter().any(|p| p.0 == self.column);
                assert!(takes_part, "{ts} is prepared by one that does not take part in it");
            }
            Phase::Committed { .. } => {
                assert!(self.cells.is_empty(), "{ts} has happened and has cells");
                assert!(self.ranges.is_empty(), "{ts} has happened and is to change something");
            }
        }
    }
}
