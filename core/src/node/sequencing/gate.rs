//! Where requests wait at their originators, if all nodes are told of each request's end
//! (TickerTAIP 3.4.4, all but the centralized sequencer).
//!
//! Those who give places (the primary, or the nodes that agree on them) answer with what a request
//! comes after. It begins when all have answered and all of that is over.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::Ledger;
use crate::order::sequencer::Step;
use crate::order::{PlaceError, RequestId};
use crate::units::NodeId;

#[derive(Clone, Debug, Hash)]
struct Waits {
    /// The place that was asked about; 0 if the answer says which it is.
    rank: u64,
    placed: bool,
    unheard: BTreeSet<NodeId>,
    /// Those that it names, and those that it overlaps with.
    after: BTreeSet<RequestId>,
    behind: BTreeSet<RequestId>,
    /// The length of the longest chain of messages that it waited for.
    hops: u8,
}

/// The requests that wait.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Gate {
    waits: BTreeMap<RequestId, Waits>,
    /// Which wait for a request.
    waiters: BTreeMap<RequestId, BTreeSet<RequestId>>,
}

/// An answer about a request.
pub(crate) struct Answer {
    pub id: RequestId,
    pub rank: u64,
    pub after: Vec<RequestId>,
    pub behind: Vec<RequestId>,
    pub hops: u8,
}

impl Gate {
    /// Some were asked about a request's place.
    pub fn ask(&mut self, id: RequestId, rank: u64, asked: BTreeSet<NodeId>) {
        self.remove(id);
        let (after, behind) = (BTreeSet::new(), BTreeSet::new());
        let waits = Waits { rank, placed: false, unheard: asked, after, behind, hops: 0 };
        self.waits.insert(id, waits);
    }

    /// Whether any were.
    pub fn knows(&self, id: RequestId) -> bool {
        self.waits.contains_key(&id)
    }

    /// Who has not answered.
    pub fn unheard(&self, id: RequestId) -> impl Iterator<Item = NodeId> + '_ {
        self.waits.get(&id).into_iter().flat_map(|w| w.unheard.iter().copied())
    }

    /// One has answered. `known` has what is over.
    pub fn answer(&mut self, from: NodeId, answer: Answer, known: &Ledger) -> Option<Step> {
        let id = answer.id;
        let waits = self.waits.get_mut(&id)?;
        if waits.rank != 0 && answer.rank != waits.rank || !waits.unheard.remove(&from) {
            return None;
        }
        waits.placed |= answer.rank != 0;
        waits.hops = waits.hops.max(answer.hops);
        for other in answer.after {
            match known.outcome(other) {
                Some(true) => continue,
                Some(false) => return Some(Step::Refuse(id, PlaceError::Aborted(other))),
                None => drop(waits.after.insert(other)),
            }
            self.waiters.entry(other).or_default().insert(id);
        }
        for other in answer.behind {
            if known.outcome(other).is_none() {
                waits.behind.insert(other);
                self.waiters.entry(other).or_default().insert(id);
            }
        }
        self.open(id)
    }

    /// A request is over: what becomes of those that waited for it.
    pub fn over(&mut self, over: RequestId, done: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        for id in self.waiters.remove(&over).unwrap_or_default() {
            let Some(waits) = self.waits.get_mut(&id) else { continue };
            waits.behind.remove(&over);
            if waits.after.remove(&over) && !done {
                steps.push(Step::Refuse(id, PlaceError::Aborted(over)));
            } else {
                steps.extend(self.open(id));
            }
        }
        steps
    }

    fn open(&self, id: RequestId) -> Option<Step> {
        let w = &self.waits[&id];
        let waits = !(w.unheard.is_empty() && w.after.is_empty() && w.behind.is_empty());
        (w.placed && !waits).then_some(Step::Begin(id))
    }

    /// A request waits no more. Returns the length of the longest chain of messages that it
    /// waited for, to say its place.
    pub fn remove(&mut self, id: RequestId) -> u8 {
        let Some(waits) = self.waits.remove(&id) else { return 0 };
        for other in waits.after.union(&waits.behind) {
            if let Some(waiters) = self.waiters.get_mut(other) {
                waiters.remove(&id);
                if waiters.is_empty() {
                    self.waiters.remove(other);
                }
            }
        }
        waits.hops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::HostId;

    fn id(number: u64) -> RequestId {
        RequestId { host: HostId(1), number }
    }

    fn answer(rank: u64, after: &[u64], behind: &[u64]) -> Answer {
        let ids = |numbers: &[u64]| numbers.iter().map(|n| id(*n)).collect();
        Answer { id: id(9), rank, after: ids(after), behind: ids(behind), hops: 2 }
    }

    fn nodes<const N: usize>(nodes: [u16; N]) -> BTreeSet<NodeId> {
        nodes.map(NodeId).into()
    }

    #[test]
    fn a_request_begins_when_all_have_answered_and_what_they_said_is_over() {
        let (mut gate, mut known) = (Gate::default(), Ledger::default());
        known.close(id(3), true, 0);
        gate.ask(id(9), 7, nodes([1, 2]));
        assert_eq!(
            gate.answer(NodeId(1), answer(6, &[], &[]), &known),
            None,
            "about another place"
        );
        assert_eq!(gate.answer(NodeId(1), answer(7, &[1, 3], &[2]), &known), None);
        assert_eq!(gate.over(id(1), true), []);
        assert_eq!(gate.over(id(2), false), [], "an abort does not cross overlaps");
        assert_eq!(gate.unheard(id(9)).collect::<Vec<_>>(), [NodeId(2)]);
        assert_eq!(gate.answer(NodeId(1), answer(7, &[4], &[]), &known), None, "it has answered");
        assert_eq!(gate.answer(NodeId(2), answer(7, &[], &[3]), &known), Some(Step::Begin(id(9))));
        assert_eq!(gate.remove(id(9)), 2);
        assert_eq!(gate.over(id(1), false), []);
    }

    #[test]
    fn one_that_names_what_is_aborted_is_refused() {
        let refused = Some(Step::Refuse(id(9), PlaceError::Aborted(id(1))));
        let (mut gate, mut known) = (Gate::default(), Ledger::default());
        gate.ask(id(9), 7, nodes([1]));
        assert_eq!(gate.answer(NodeId(1), answer(7, &[1], &[]), &known), None);
        assert_eq!(gate.over(id(1), false), Vec::from_iter(refused.clone()));
        known.close(id(1), false, 0);
        gate.ask(id(9), 8, nodes([1]));
        assert_eq!(gate.answer(NodeId(1), answer(8, &[1], &[]), &known), refused);
    }

    #[test]
    fn without_a_place_it_does_not_begin_though_all_have_answered() {
        let (mut gate, known) = (Gate::default(), Ledger::default());
        gate.ask(id(9), 0, nodes([1, 2]));
        assert_eq!(gate.answer(NodeId(1), answer(0, &[], &[]), &known), None);
        assert_eq!(gate.answer(NodeId(2), answer(0, &[], &[]), &known), None);
        gate.ask(id(9), 0, nodes([1]));
        assert_eq!(gate.answer(NodeId(1), answer(5, &[], &[]), &known), Some(Step::Begin(id(9))));
    }
}
