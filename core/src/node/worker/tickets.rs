//! Tickets: operations that a worker has requested from its store.

use smallvec::SmallVec;

use super::memory::Recalling;
use super::used::Asked;
use crate::units::{NodeId, Timestamp};

/// The purpose of an operation.
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
    /// The stripes in use.
    Used(Box<Asked>),
    Dirty,
    Own,
    Marks,
    Recall(Recalling),
}

/// The operations at the store.
#[derive(Clone, Default, Hash)]
pub(super) struct Tickets {
    /// By place; a ticket's number names its place and how many were issued before it. So it is found at once, and
    /// one that has been taken is not found again in what is issued for the same place later.
    issued: Vec<Option<(u64, Ticket)>>,
    /// Places that are free.
    free: Vec<u32>,
    count: u64,
}

/// So many bits of a ticket's number name its place.
const PLACE_BITS: u32 = 24;

impl Tickets {
    /// Issues one. No two have the same number.
    pub fn issue(&mut self, what: Ticket) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.issued.push(None);
            self.issued.len() as u32 - 1
        });
        assert!(place < 1 << PLACE_BITS, "the store has {place} tickets at once");
        self.count += 1;
        let number = self.count << PLACE_BITS | u64::from(place);
        let before = self.issued[place as usize].replace((number, what));
        debug_assert!(before.is_none(), "a free place is empty");
        number
    }

    /// The store has finished an operation; `None` if its result is not needed any more.
    pub fn take(&mut self, ticket: u64) -> Option<Ticket> {
        let place = (ticket & ((1 << PLACE_BITS) - 1)) as u32;
        let there = self.issued.get_mut(place as usize)?;
        let (_, what) = there.take_if(|(number, _)| *number == ticket)?;
        self.free.push(place);
        Some(what)
    }

    /// The results of searches for stale nodes are not needed any more.
    pub fn forget_scans(&mut self) {
        self.forget(|what| matches!(what, Ticket::Dirty | Ticket::Own));
    }

    /// Nobody waits for flushes any more. The numbers of a node that has restarted begin again.
    pub fn forget_flushes(&mut self) {
        self.forget(|what| matches!(what, Ticket::Flush { .. }));
    }

    fn forget(&mut self, which: impl Fn(&Ticket) -> bool) {
        for (place, there) in self.issued.iter_mut().enumerate() {
            if there.take_if(|(_, what)| which(what)).is_some() {
                self.free.push(place as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_taken_once_though_its_place_is_used_again() {
        let mut tickets = Tickets::default();
        let (own, dirty) = (tickets.issue(Ticket::Own), tickets.issue(Ticket::Dirty));
        assert!(matches!(tickets.take(own), Some(Ticket::Own)));
        assert!(tickets.take(own).is_none(), "taken");
        let marks = tickets.issue(Ticket::Marks);
        assert!(tickets.take(own).is_none(), "another's place");
        tickets.forget_scans();
        assert!(tickets.take(dirty).is_none(), "nobody wants it");
        let flush = tickets.issue(Ticket::Flush { to: NodeId(0), id: 7 });
        assert!(matches!(tickets.take(marks), Some(Ticket::Marks)));
        assert!(matches!(tickets.take(flush), Some(Ticket::Flush { id: 7, .. })));
        let flush = tickets.issue(Ticket::Flush { to: NodeId(0), id: 8 });
        tickets.forget_flushes();
        assert!(tickets.take(flush).is_none(), "it is asked for again");
        assert!(tickets.take(u64::MAX).is_none());
    }
}
