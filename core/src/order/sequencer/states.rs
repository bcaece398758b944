//! The states of a request and how it goes from one to another: the state table of TickerTAIP
//! 3.4.3 (its Figure 6), as data.

/// What has become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It has not come, but another that has come names it.
    NotIssued,
    /// It has come, and one that it is to come after has not, or is itself unresolved.
    Unresolved,
    /// All that it is to come after have come and are resolved, but it waits for one of them, or for
    /// one that it overlaps with.
    Resolved,
    /// It waits for nothing: it has begun.
    InProgress,
    /// It has happened.
    Completed,
    /// It has not happened, or nobody knows whether it has; it will not begin.
    Aborted,
}

/// What can befall a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// Another that has come is to come after it.
    Named,
    /// It comes.
    Issued,
    /// The last that it is to come after is resolved.
    Arrived,
    /// The last that it waited for is over.
    Freed,
    /// It has been done.
    Done,
    /// It failed, came too late, its host is gone, or one that it depends on explicitly was
    /// aborted.
    Failed,
    /// Nobody need know of it any more.
    Forgotten,
}

/// A row of the table. `None` is a request that is not in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: Option<State>,
    /// What befalls it.
    pub event: Event,
    /// The state after.
    pub to: Option<State>,
}

const fn row(from: Option<State>, event: Event, to: Option<State>) -> Transition {
    Transition { from, event, to }
}

/// Every transition that there is. Whatever is not here cannot be.
pub const TRANSITIONS: [Transition; 14] = {
    use Event::{Arrived, Done, Failed, Forgotten, Freed, Issued, Named};
    use State::{Aborted, Completed, InProgress, NotIssued, Resolved, Unresolved};
    [
        row(None, Named, Some(NotIssued)),
        row(None, Issued, Some(Unresolved)),
        // It was refused, or one that it depends on had been aborted before it came.
        row(None, Failed, Some(Aborted)),
        row(Some(NotIssued), Issued, Some(Unresolved)),
        // The time for it to come is over, or it is refused when it comes.
        row(Some(NotIssued), Failed, Some(Aborted)),
        // Its host says that it is over, or nobody waits for it any more.
        row(Some(NotIssued), Forgotten, None),
        row(Some(Unresolved), Arrived, Some(Resolved)),
        row(Some(Unresolved), Failed, Some(Aborted)),
        row(Some(Resolved), Freed, Some(InProgress)),
        row(Some(Resolved), Failed, Some(Aborted)),
        row(Some(InProgress), Done, Some(Completed)),
        row(Some(InProgress), Failed, Some(Aborted)),
        // Its host's oldest incomplete request is a later one.
        row(Some(Completed), Forgotten, None),
        // The time for which aborted requests are kept is over.
        row(Some(Aborted), Forgotten, None),
    ]
};

/// The state after an event, if it can befall a request in this state.
pub fn step(from: Option<State>, event: Event) -> Option<Option<State>> {
    TRANSITIONS.iter().find(|t| t.from == from && t.event == event).map(|t| t.to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const STATES: [State; 6] = [
        State::NotIssued,
        State::Unresolved,
        State::Resolved,
        State::InProgress,
        State::Completed,
        State::Aborted,
    ];

    #[test]
    fn each_state_has_one_way_for_an_event_and_all_are_reached_and_left() {
        let keys: BTreeSet<_> = TRANSITIONS.iter().map(|t| (t.from, t.event)).collect();
        assert_eq!(keys.len(), TRANSITIONS.len());
        for state in STATES {
            let moves = || TRANSITIONS.iter();
            assert!(moves().any(|t| t.to == Some(state)), "{state:?} is never reached");
            assert!(moves().any(|t| t.from == Some(state)), "{state:?} is never left");
        }
    }

    #[test]
    fn what_is_over_stays_over_and_only_what_has_come_begins() {
        for t in &TRANSITIONS {
            if matches!(t.from, Some(State::Completed | State::Aborted)) {
                assert_eq!(t.to, None, "{t:?}");
            }
            if t.to == Some(State::InProgress) {
                assert_eq!((t.from, t.event), (Some(State::Resolved), Event::Freed));
            }
            if t.to == Some(State::Completed) {
                assert_eq!(t.from, Some(State::InProgress));
            }
        }
    }

    #[test]
    fn the_picture_in_the_docs_has_every_row_and_no_other() {
        let page = include_str!("../../../../docs/internals/ordering.md");
        let picture = page.split("stateDiagram-v2").nth(1).expect("a picture of states");
        let picture = picture.split("```").next().expect("it ends");
        let name = |s: Option<State>| s.map_or("[*]".to_string(), |s| format!("{s:?}"));
        let row = |t: &Transition| format!("{} --> {}: {:?}", name(t.from), name(t.to), t.event);
        let drawn: BTreeSet<String> =
            picture.lines().map(|l| l.trim().to_string()).filter(|l| l.contains("-->")).collect();
        assert_eq!(drawn, TRANSITIONS.iter().map(row).collect());
    }
}
