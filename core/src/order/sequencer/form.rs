//! The four ways to keep the graph of requests (TickerTAIP 3.4.4), and what each costs.

use crate::policy::SequencerForm;

/// Where a request comes from, for [`SequencerForm::cost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standpoint {
    /// How many nodes take part.
    pub nodes: u64,
    /// How many of them have taken requests, the request's own among them.
    pub originators: u64,
    /// Whether the primary is at the request's node.
    pub at_primary: bool,
}

/// What order costs a request while nothing is in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderCost {
    /// Messages that it waits for before it begins.
    pub before: u64,
    /// How many times it waits for one to go and another to come back.
    pub round_trips: u64,
    /// Messages when it is over, which nobody waits for: that it is, and that this was heard.
    pub after: u64,
}

impl SequencerForm {
    /// Whether a primary gives requests their places. Else the nodes agree on them.
    pub fn has_primary(self) -> bool {
        matches!(self, SequencerForm::Centralized | SequencerForm::PartiallyCentralized)
    }

    /// Whether all nodes are told of each request's end, and a request's own node lets it begin.
    pub fn tells_all(self) -> bool {
        self != SequencerForm::Centralized
    }

    /// What it costs a request that has nothing in its way and names nothing that has not come.
    pub fn cost(self, at: Standpoint) -> OrderCost {
        let Standpoint { nodes, originators, at_primary } = at;
        let (others, has_backup) = (nodes.saturating_sub(1), nodes > 1);
        // To the primary and back, and from there to the backup and back.
        let to_primary = u64::from(!at_primary && nodes > 1);
        let trips = to_primary + u64::from(has_backup);
        let asked = if self == SequencerForm::WorkerDriven { others } else { originators - 1 };
        let (before, round_trips) = match self.has_primary() {
            true => (2 * trips, trips),
            false => (2 * asked, u64::from(asked > 0)),
        };
        let after = if self.tells_all() { 2 * others } else { 2 * trips };
        OrderCost { before, round_trips, after }
    }

    /// What TickerTAIP 3.4.4 says of its messages.
    pub fn prediction(self) -> &'static str {
        match self {
            SequencerForm::Centralized => {
                "two round trips before a request begins, one at the primary's own node"
            }
            SequencerForm::PartiallyCentralized => {
                "as centralized before it begins, and a broadcast to the workers when it is over"
            }
            SequencerForm::OriginatorDriven => {
                "consensus of the originators, always more messages than the centralized ones, and \
                 the broadcast"
            }
            SequencerForm::WorkerDriven => {
                "consensus of every node in the array, and the broadcast"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_paper_where_it_says_them() {
        let cost = |form: SequencerForm, originators, at_primary| {
            form.cost(Standpoint { nodes: 11, originators, at_primary })
        };
        let is = |before, round_trips, after| OrderCost { before, round_trips, after };
        use SequencerForm::*;
        assert_eq!(cost(Centralized, 3, false), is(4, 2, 4));
        assert_eq!(cost(Centralized, 3, true), is(2, 1, 2));
        assert_eq!(cost(PartiallyCentralized, 3, false), is(4, 2, 20));
        assert_eq!(cost(OriginatorDriven, 1, false), is(0, 0, 20));
        assert_eq!(cost(OriginatorDriven, 4, false), is(6, 1, 20));
        assert_eq!(cost(WorkerDriven, 1, true), is(20, 1, 20));
        let alone = Standpoint { nodes: 1, originators: 1, at_primary: true };
        assert!(SequencerForm::ALL.iter().all(|f| f.cost(alone) == is(0, 0, 0)));
    }
}
