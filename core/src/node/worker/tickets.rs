//! Tickets: what a worker has asked its store for, until the store has done it.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::memory::Recalling;
use crate::units::{NodeId, Timestamp};

/// What the store was asked for.
#[derive(Clone, Debug, Hash)]
pub(super) enum Ticket {
    Read {
        ts: Timestamp,
        run: usize,
    },
    /// Parts of the reads of cells, which adjoin: cell, and number of the part.
    Cells {
        ts: Timestamp,
        cells: SmallVec<[(usize, usize); 1]>,
    },
    Flush {
        to: NodeId,
        id: u64,
    },
    Holes {
        ts: Timestamp,
        run: usize,
    },
    Dirty,
    Own,
    Marks,
    Recall(Recalling),
}

/// The tickets that the store has.
#[derive(Clone, Default, Hash)]
pub(super) struct Tickets {
    issued: BTreeMap<u64, Ticket>,
    last: u64,
}

impl Tickets {
    /// Issues one. No two have the same number.
    pub fn issue(&mut self, what: Ticket) -> u64 {
        self.last += 1;
        self.issued.insert(self.last, what);
        self.last
    }

    /// The store has done what a ticket was for; `None` if nobody wants it any more.
    pub fn take(&mut self, ticket: u64) -> Option<Ticket> {
        self.issued.remove(&ticket)
    }

    /// Nobody wants any more what has been looked for on the disk for those that catch up.
    pub fn forget_scans(&mut self) {
        self.issued.retain(|_, t| !matches!(t, Ticket::Dirty | Ticket::Own));
    }
}
