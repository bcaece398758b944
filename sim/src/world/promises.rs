//! What disks have promised, and when: to tell a loss that somebody must remember from one of which nobody can know.
//!
//! How far a disk has got is known to those who hear from it, in memory, and is on their disks a little later
//! (docs/internals/disk-format.md, "What others know of a disk"). If a disk loses what it promised last, and all who have heard of
//! it lose their power within that time, nobody is left that knows. So it is if nobody has heard of it yet: a host is answered
//! by its own node, which needs no message for what its own disk has promised. That is the one damage to a single disk that is
//! not borne. All that was promised earlier must be remembered.

use weft_core::store::Reached;
use weft_core::units::{MILLIS, Nanos};

/// How long what was heard may be in memory alone: until the next journal frame, which is written at the next tick at
/// the latest, and that several times over for disks that are slow.
const RECENT: Nanos = 100 * MILLIS;

/// What a disk has promised since its node last entered an epoch after a start.
#[derive(Default)]
pub(super) struct Promises {
    made: Vec<(Nanos, Reached)>,
    /// When all power went since: what had been promised a while before, and all that had been.
    at_cut: Option<(Reached, Reached)>,
    /// When its node died since: what others had heard of, and all that had been promised.
    at_death: Option<(Vec<Reached>, Reached)>,
}

/// Of which promises nobody knows any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forgotten {
    /// Of some that were made just before all power went.
    ByAll,
    /// Of some of which nobody had heard when the node died. There need be none of a host's writes among them.
    Unheard,
}

impl Promises {
    /// It has got so far.
    pub fn note(&mut self, now: Nanos, reached: Reached) {
        if self.made.last().is_none_or(|(_, last)| *last != reached) {
            self.made.push((now, reached));
            let old = self.made.partition_point(|(at, _)| at + RECENT < now);
            self.made.drain(..old.saturating_sub(1));
        }
    }

    /// All power goes.
    pub fn power_cut(&mut self, now: Nanos) {
        let Some((_, all)) = self.made.last() else { return };
        let old = self.made.iter().rev().find(|(at, _)| at + RECENT < now);
        let old = old.map_or(Reached::default(), |(_, reached)| *reached);
        self.at_cut.get_or_insert((old, *all));
    }

    /// Its node dies. So much of it have those heard who go on.
    pub fn died(&mut self, heard: impl Iterator<Item = Reached>) {
        let Some((_, all)) = self.made.last() else { return };
        self.at_death.get_or_insert_with(|| (heard.collect(), *all));
    }

    /// Whether it is known what others had heard when its node died.
    #[cfg(test)]
    pub fn are_over(&self) -> bool {
        self.at_death.is_some()
    }

    /// It is taken up again, as it was found. Says of what it has lost a promise of which nobody can know any more.
    pub fn taken_up(&mut self, found: Reached) -> Option<Forgotten> {
        let Promises { at_cut, at_death, .. } = std::mem::take(self);
        let unknown = |all: Reached, known: &[Reached]| {
            all.shows_loss(found, 0) && !known.iter().any(|known| known.shows_loss(found, 0))
        };
        if at_cut.is_some_and(|(old, all)| unknown(all, &[old])) {
            return Some(Forgotten::ByAll);
        }
        at_death.filter(|(heard, all)| unknown(*all, heard)).map(|_| Forgotten::Unheard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(frame: u64) -> Reached {
        Reached { disk: 1, life: 1, frame, sequence: 1 }
    }

    #[test]
    fn only_what_was_promised_just_before_a_power_cut_may_be_forgotten() {
        let promised = |cut: bool| {
            let mut promises = Promises::default();
            promises.note(MILLIS, frame(4));
            promises.note(RECENT + 5 * MILLIS, frame(5));
            promises.note(RECENT + 6 * MILLIS, frame(6));
            if cut {
                promises.power_cut(RECENT + 7 * MILLIS);
            }
            promises
        };
        let by_all = Some(Forgotten::ByAll);
        assert_eq!([5, 4].map(|n| promised(true).taken_up(frame(n))), [by_all; 2]);
        assert_eq!(promised(true).taken_up(frame(6)), None, "nothing is lost");
        assert_eq!(promised(true).taken_up(frame(3)), None, "others must remember that");
        assert_eq!(promised(false).taken_up(frame(5)), None, "others are alive");
    }

    #[test]
    fn what_nobody_has_heard_of_when_its_node_dies_may_be_forgotten() {
        let promised = |heard: &[Reached]| {
            let mut promises = Promises::default();
            promises.note(MILLIS, frame(5));
            promises.died(heard.iter().copied());
            promises
        };
        let unheard = Some(Forgotten::Unheard);
        assert_eq!(promised(&[]).taken_up(frame(4)), unheard);
        assert_eq!(promised(&[frame(4)]).taken_up(frame(4)), unheard);
        assert_eq!(promised(&[frame(4), frame(5)]).taken_up(frame(4)), None, "one remembers");
        assert_eq!(promised(&[frame(4)]).taken_up(frame(5)), None, "nothing is lost");
    }
}
