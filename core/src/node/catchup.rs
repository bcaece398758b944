//! Catching up: what a disk missed while its node was away, sector by sector.
//!
//! The version table of every disk is the durable record of what was written when. A node
//! that returns asks the others which sectors of the stripes it shares with them were
//! written since it left; of those, the ones that its own table does not show at that
//! version are stale. Stale sectors answer like sectors that cannot be read: reads decode
//! them from the others and writes that need them first have them rebuilt. Meanwhile the
//! node takes part in every new write, so the list only shrinks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::units::{NodeId, Timestamp};

/// How a disk stands.
#[derive(Debug)]
pub(crate) enum Catchup {
    /// It has everything.
    Fresh,
    /// It does not know yet what it missed: everything counts as stale but what has been
    /// written since it returned.
    Asking(Asking),
    /// It knows.
    Known {
        /// The stale sectors.
        stale: BTreeSet<u64>,
        /// Whether the authority has been told, once there were none left.
        reported: bool,
    },
}

/// Finding out what was missed.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// The first timestamp that may have been missed.
    pub since: Timestamp,
    /// Who has yet to answer.
    pub waiting: BTreeSet<NodeId>,
    /// The sectors of the volumes of which this disk missed something.
    pub behind: Vec<Range<u64>>,
    /// Whether one of those volumes is asleep: what was written to it is not known yet.
    pub asleep: bool,
    /// What they said: sectors of this disk, and the newest version of their stripe's row.
    pub listed: BTreeMap<u64, Timestamp>,
    /// Written since the return.
    pub fresh: BTreeSet<u64>,
    /// What this disk has at `since` or later, when it has looked.
    pub own: Option<BTreeMap<u64, Timestamp>>,
    /// Whether the look has begun.
    pub looking: bool,
}

impl Catchup {
    /// Whether a sector in the range is stale.
    pub fn is_stale(&self, range: Range<u64>) -> bool {
        match self {
            Catchup::Fresh => false,
            Catchup::Asking(a) => {
                let missed = |s: u64| a.behind.iter().any(|b| b.contains(&s));
                range.into_iter().any(|s| missed(s) && !a.fresh.contains(&s))
            }
            Catchup::Known { stale, .. } => stale.range(range).next().is_some(),
        }
    }

    /// Sectors in the range have new content. Returns how many were stale.
    pub fn wrote(&mut self, range: Range<u64>) -> u64 {
        match self {
            Catchup::Fresh => 0,
            Catchup::Asking(a) => {
                a.fresh.extend(range);
                0
            }
            Catchup::Known { stale, .. } => {
                range.into_iter().map(|s| u64::from(stale.remove(&s))).sum()
            }
        }
    }

    /// Goes on to [`Catchup::Known`] when everything has been heard.
    pub fn conclude(&mut self) {
        let Catchup::Asking(a) = self else { return };
        let Some(own) = &a.own else { return };
        if !a.waiting.is_empty() || a.asleep {
            return;
        }
        let behind = |(s, v): (&u64, &Timestamp)| {
            let has = own.get(s).is_some_and(|mine| mine >= v);
            (!has && !a.fresh.contains(s)).then_some(*s)
        };
        let stale = a.listed.iter().filter_map(behind).collect();
        *self = Catchup::Known { stale, reported: false };
    }

    /// How many sectors are stale, if known.
    pub fn stale_sectors(&self) -> Option<u64> {
        match self {
            Catchup::Fresh => Some(0),
            Catchup::Asking(_) => None,
            Catchup::Known { stale, .. } => Some(stale.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_missed_is_stale() {
        let mut c = Catchup::Asking(Asking {
            since: Timestamp(10),
            behind: vec![0..1, 3..8],
            asleep: true,
            ..Asking::default()
        });
        assert!(c.is_stale(0..1) && !c.is_stale(1..3) && c.stale_sectors().is_none());
        c.wrote(5..6);
        assert!(!c.is_stale(5..6));
        let Catchup::Asking(a) = &mut c else { panic!("asking") };
        for (sector, version) in [(4, 20), (5, 20), (6, 20), (7, 20)] {
            a.listed.insert(sector, Timestamp(version));
        }
        a.own = Some([(6, Timestamp(20)), (7, Timestamp(15))].into());
        c.conclude();
        assert_eq!(c.stale_sectors(), None, "who is not there may know of more");
        let Catchup::Asking(a) = &mut c else { panic!("asking") };
        a.asleep = false;
        c.conclude();
        assert_eq!(c.stale_sectors(), Some(2));
        assert!(c.is_stale(4..5) && !c.is_stale(5..7) && c.is_stale(7..8));
        assert_eq!(c.wrote(0..8), 2);
        assert_eq!(c.stale_sectors(), Some(0));
    }
}
