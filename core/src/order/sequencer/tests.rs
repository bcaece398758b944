//! The graph: what it must do case by case, and against a naive model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::order::{HostId, Place, PlaceError, RequestId};
use crate::plan::Range;
use crate::units::VolumeId;

const SECOND: Nanos = 1000 * MILLIS;

fn id(host: u64, number: u64) -> RequestId {
    RequestId { host: HostId(host), number }
}

fn place(id: RequestId, after: &[RequestId]) -> Place {
    Place { id, after: after.to_vec(), oldest: 1 }
}

fn write(offset: u64, len: u64) -> Option<Reach> {
    Some(Reach { volume: VolumeId(1), range: Range { offset, len }, writes: true })
}

fn read(offset: u64, len: u64) -> Option<Reach> {
    Some(Reach { writes: false, ..write(offset, len).unwrap() })
}

fn graph() -> Graph {
    Graph::new(Limits::default())
}

fn begun(graph: &mut Graph) -> Vec<RequestId> {
    let begin = |s| match s {
        Step::Begin(id) => Some(id),
        Step::Resolved(_) | Step::Arrived(_) | Step::Refuse(..) => None,
    };
    graph.take_steps().into_iter().filter_map(begin).collect()
}

#[test]
fn a_request_waits_for_those_it_names_even_if_they_come_later() {
    let (a, b, c) = (id(1, 1), id(2, 1), id(1, 2));
    let mut g = graph();
    g.issue(0, &place(c, &[a, b]), None).unwrap();
    assert_eq!(g.state(a), Some(State::NotIssued));
    assert_eq!(g.state(c), Some(State::Unresolved));
    g.issue(1, &place(a, &[]), None).unwrap();
    assert_eq!(begun(&mut g), [a]);
    g.complete(2, a);
    assert_eq!(g.state(c), Some(State::Unresolved));
    g.issue(3, &place(b, &[]), None).unwrap();
    assert_eq!(g.state(c), Some(State::Resolved));
    assert_eq!(begun(&mut g), [b]);
    g.complete(4, b);
    assert_eq!(begun(&mut g), [c]);
    assert_eq!(g.state(c), Some(State::InProgress));
    g.complete(5, c);
    assert_eq!(g.state(c), Some(State::Completed));
}

#[test]
fn overlaps_wait_if_one_writes_and_only_in_the_same_volume() {
    let mut g = graph();
    g.issue(0, &place(id(1, 1), &[]), write(0, 10)).unwrap();
    g.issue(0, &place(id(2, 1), &[]), write(5, 10)).unwrap();
    g.issue(0, &place(id(3, 1), &[]), write(10, 5)).unwrap();
    g.issue(0, &place(id(4, 1), &[]), read(0, 5)).unwrap();
    g.issue(0, &place(id(5, 1), &[]), read(100, 5)).unwrap();
    g.issue(0, &place(id(6, 1), &[]), read(100, 5)).unwrap();
    let other = write(0, 10).map(|r| Reach { volume: VolumeId(2), ..r });
    g.issue(0, &place(id(7, 1), &[]), other).unwrap();
    assert_eq!(begun(&mut g), [id(1, 1), id(5, 1), id(6, 1), id(7, 1)]);
    g.abort(1, id(1, 1));
    let after = begun(&mut g);
    assert_eq!(after, [id(2, 1), id(4, 1)], "an abort does not cross implicit edges");
    g.complete(1, id(2, 1));
    assert_eq!(begun(&mut g), [id(3, 1)]);
}

/// What is refused, without what follows for others.
fn refused(graph: &mut Graph) -> Vec<Step> {
    graph.take_steps().into_iter().filter(|s| matches!(s, Step::Refuse(..))).collect()
}

#[test]
fn one_that_is_not_resolved_is_in_nobodys_way() {
    // 2 names 3, which has not come, and 1 names 2; 4 overlaps with all.
    let mut g = graph();
    g.issue(0, &place(id(1, 2), &[id(1, 3)]), write(0, 10)).unwrap();
    g.issue(0, &place(id(1, 1), &[id(1, 2)]), write(0, 10)).unwrap();
    g.issue(0, &place(id(1, 4), &[]), write(0, 10)).unwrap();
    assert_eq!(g.state(id(1, 1)), Some(State::Unresolved), "what it names is");
    assert_eq!(begun(&mut g), [id(1, 4)]);
    g.issue(0, &place(id(1, 3), &[id(1, 4)]), write(0, 10)).unwrap();
    let placed = [id(1, 3), id(1, 2), id(1, 1)].map(Step::Resolved);
    assert_eq!(g.take_steps(), placed, "in the order in which they may begin");
    assert_eq!(g.waits_of(id(1, 2)), (vec![id(1, 3)], vec![id(1, 3), id(1, 4)]));
    for next in [4, 3, 2, 1] {
        g.complete(0, id(1, next));
        let then = if next == 1 { vec![] } else { vec![id(1, next - 1)] };
        assert_eq!(begun(&mut g), then);
    }
}

#[test]
fn where_owners_place_requests_the_graph_says_which_arrived_and_waits_for_the_place() {
    let mut g = Graph::placed_by_owners(Limits::default());
    g.issue(0, &place(id(1, 2), &[id(1, 1)]), write(0, 10)).unwrap();
    g.issue(0, &place(id(2, 1), &[]), write(5, 10)).unwrap();
    assert_eq!(g.take_steps(), [Step::Arrived(id(2, 1))]);
    g.stand(0, id(2, 1), 1 << 40);
    assert_eq!(g.take_steps(), [Step::Resolved(id(2, 1)), Step::Begin(id(2, 1))]);
    g.adopt_begun(0, id(1, 1), write(0, 10));
    assert_eq!(g.take_steps(), [Step::Arrived(id(1, 2))]);
    assert_eq!(g.in_the_way(&write(0, 7).unwrap(), 1 << 41), [id(1, 1), id(2, 1)]);
    assert_eq!(g.in_the_way(&write(0, 7).unwrap(), 1 << 30), [id(1, 1)], "what had begun is first");
    g.stand(0, id(1, 2), 1 << 42);
    assert_eq!(g.waits_of(id(1, 2)), (vec![id(1, 1)], vec![id(1, 1), id(2, 1)]));
    // Another may know that it is over before the ends of what it came after are known here.
    g.adopt_outcome(0, id(1, 2), true);
    assert_eq!(g.state(id(1, 2)), Some(State::Completed));
}

#[test]
fn aborts_follow_explicit_edges_all_the_way_and_are_kept_ten_seconds() {
    let mut g = graph();
    g.issue(0, &place(id(1, 1), &[]), None).unwrap();
    g.issue(0, &place(id(2, 1), &[id(1, 1)]), None).unwrap();
    g.issue(0, &place(id(3, 1), &[id(2, 1)]), None).unwrap();
    g.take_steps();
    g.abort(SECOND, id(1, 1));
    let refused = [
        Step::Refuse(id(2, 1), PlaceError::Aborted(id(1, 1))),
        Step::Refuse(id(3, 1), PlaceError::Aborted(id(2, 1))),
    ];
    assert_eq!(self::refused(&mut g), refused);
    let mut late = place(id(1, 2), &[id(3, 1)]);
    late.oldest = 2;
    g.expire(11 * SECOND - 1, |_| false);
    assert_eq!(g.issue(11 * SECOND, &late, None), Err(PlaceError::Aborted(id(3, 1))));
    g.expire(11 * SECOND, |kept| kept == id(2, 1));
    assert_eq!(g.state(id(3, 1)), None);
    assert_eq!(g.state(id(2, 1)), Some(State::Aborted), "kept for another reason");
}

#[test]
fn what_is_not_issued_in_time_is_aborted() {
    let mut g = graph();
    g.issue(0, &place(id(1, 2), &[id(1, 1)]), None).unwrap();
    g.issue(0, &place(id(1, 3), &[id(1, 2)]), None).unwrap();
    g.expire(30 * SECOND - 1, |_| false);
    assert_eq!(g.take_steps(), []);
    g.expire(30 * SECOND, |_| false);
    let refused = [
        Step::Refuse(id(1, 2), PlaceError::NeverIssued(id(1, 1))),
        Step::Refuse(id(1, 3), PlaceError::Aborted(id(1, 2))),
    ];
    assert_eq!(self::refused(&mut g), refused);
    let now = 31 * SECOND;
    assert_eq!(g.issue(now, &place(id(1, 1), &[]), None), Err(PlaceError::TooLate(id(1, 1))));
}

#[test]
fn what_cannot_be_is_refused_and_counts_as_aborted() {
    let (a, b, c) = (id(1, 1), id(1, 2), id(1, 3));
    let mut g = graph();
    assert_eq!(g.issue(0, &place(a, &[a]), None), Err(PlaceError::AfterItself(a)));
    assert_eq!(g.issue(0, &place(a, &[]), None), Err(PlaceError::Reused(a)));
    assert_eq!(g.issue(0, &place(b, &[a]), None), Err(PlaceError::Aborted(a)));

    let mut g = graph();
    g.issue(0, &place(a, &[b]), None).unwrap();
    g.issue(0, &place(b, &[c]), None).unwrap();
    assert_eq!(g.issue(0, &place(c, &[a]), None), Err(PlaceError::Cycle(c)));
    assert_eq!(g.state(a), Some(State::Aborted), "what waited for the refused one goes too");
    assert_eq!(g.issue(0, &place(b, &[]), None), Err(PlaceError::Reused(b)));

    let far = id(1, 1 + Limits::default().ahead);
    let refused = PlaceError::TooFarAhead { id: far, oldest: 1, bound: 65_536 };
    assert_eq!(graph().issue(0, &place(far, &[]), None), Err(refused));
}

#[test]
fn a_host_that_names_too_many_is_refused_and_others_are_not() {
    let limits = Limits { unissued: 3, ..Limits::default() };
    let mut g = Graph::new(limits);
    let unknown: Vec<RequestId> = (1..=3).map(|n| id(9, n)).collect();
    g.issue(0, &place(id(1, 1), &unknown), None).unwrap();
    let refused = PlaceError::TooManyUnissued { host: 1, bound: 3 };
    assert_eq!(g.issue(0, &place(id(1, 2), &[id(9, 4)]), None), Err(refused));
    g.issue(0, &place(id(1, 3), &unknown), None).expect("they are counted once");
    g.issue(0, &place(id(2, 1), &[id(9, 4)]), None).expect("another host's count is its own");
    g.issue(0, &place(id(9, 1), &[]), None).unwrap();
    g.issue(0, &place(id(1, 4), &[id(9, 5)]), None).expect("one has come, so there is room");
    g.abort(0, id(2, 1));
    assert_eq!(g.state(id(9, 4)), None, "nobody waits for it any more");
}

#[test]
fn completed_requests_go_when_their_host_has_heard_of_all_before() {
    let mut g = graph();
    for n in 1..=3 {
        g.issue(0, &place(id(1, n), &[]), None).unwrap();
    }
    g.complete(0, id(1, 1));
    g.complete(0, id(1, 3));
    g.advance(HostId(1), 2, 0);
    assert_eq!(g.state(id(1, 1)), None);
    assert_eq!(g.state(id(1, 3)), Some(State::Completed));
    // One that depends on what is past has nothing to wait for.
    g.take_steps();
    g.issue(0, &place(id(2, 1), &[id(1, 1)]), None).unwrap();
    assert_eq!(begun(&mut g), [id(2, 1)]);
    // One that was awaited and turns out to be past is not awaited any more.
    g.issue(0, &place(id(2, 2), &[id(3, 5)]), None).unwrap();
    g.advance(HostId(3), 6, 0);
    assert_eq!(begun(&mut g), [id(2, 2)]);
    let again = Place { oldest: 2, ..place(id(1, 1), &[]) };
    assert_eq!(g.issue(0, &again, None), Err(PlaceError::Reused(id(1, 1))));
}

/// A later request of its host, which says so, may come before the word that it is over.
#[test]
fn one_that_is_over_before_it_began_is_in_nobodys_way() {
    let (first, second, third) = (id(1, 1), id(2, 1), id(3, 1));
    let mut g = graph();
    [first, second, third]
        .into_iter()
        .for_each(|r| g.issue(0, &place(r, &[]), write(0, 9)).unwrap());
    assert_eq!(begun(&mut g), [first]);
    g.advance(HostId(2), 2, 0);
    g.abort(0, second);
    assert_eq!(g.state(second), Some(State::Aborted));
    g.complete(0, first);
    assert_eq!(begun(&mut g), [third]);
    g.advance(HostId(3), 2, 0);
    g.abort(0, third);
    g.issue(0, &place(id(4, 1), &[]), write(0, 9)).unwrap();
    assert_eq!(begun(&mut g), [id(4, 1)]);
}

#[test]
fn a_silent_host_is_forgotten_at_last() {
    let mut g = graph();
    g.issue(0, &Place { oldest: 7, ..place(id(1, 7), &[]) }, None).unwrap();
    g.complete(0, id(1, 7));
    g.advance(HostId(1), 8, 0);
    g.expire(599 * SECOND, |_| false);
    assert_eq!(g.hosts().collect::<Vec<_>>(), [(HostId(1), 8)]);
    g.expire(600 * SECOND, |_| false);
    assert_eq!(g.hosts().count(), 0);
}

#[test]
fn what_another_knew_is_taken_over() {
    let mut g = graph();
    g.advance(HostId(1), 2, 0);
    g.adopt_outcome(0, id(1, 2), true);
    g.adopt_outcome(0, id(1, 3), false);
    g.adopt_begun(0, id(1, 4), write(0, 10));
    assert_eq!(g.take_steps(), []);
    g.issue(0, &place(id(2, 1), &[id(1, 2)]), write(0, 10)).unwrap();
    assert_eq!(g.state(id(2, 1)), Some(State::Resolved), "it overlaps with one in progress");
    assert_eq!(g.issue(0, &place(id(2, 2), &[id(1, 3)]), None), Err(PlaceError::Aborted(id(1, 3))));
    g.complete(0, id(1, 4));
    assert_eq!(begun(&mut g), [id(2, 1)]);
}

/// What is drawn for one step of a run against the model.
#[derive(Clone, Debug)]
enum Act {
    /// A host issues one of its next numbers, after some others.
    Issue { host: u64, skip: u64, after: Vec<(u64, u64)>, at: u64, len: u64, writes: bool },
    /// One that is in progress ends.
    End { which: usize, well: bool },
    /// One that waits is aborted: its host is gone.
    Gone { which: usize },
}

fn act() -> impl Strategy<Value = Act> {
    let after = proptest::collection::vec((0..3u64, 1..16u64), 0..3);
    prop_oneof![
        4 => (0..3u64, 0..3u64, after, 0..20u64, 0..6u64, any::<bool>()).prop_map(
            |(host, skip, after, at, len, writes)| {
                Act::Issue { host, skip, after, at, len, writes }
            }
        ),
        3 => (any::<usize>(), prop::bool::weighted(0.85)).prop_map(|(which, well)| {
            Act::End { which, well }
        }),
        1 => any::<usize>().prop_map(|which| Act::Gone { which }),
    ]
}

/// Everything that ever came, and nothing clever.
#[derive(Default)]
struct Model {
    came: BTreeMap<RequestId, (Vec<RequestId>, Option<Reach>)>,
    begun: BTreeSet<RequestId>,
    done: BTreeSet<RequestId>,
    aborted: BTreeSet<RequestId>,
}

impl Model {
    fn is_over(&self, id: &RequestId) -> bool {
        self.done.contains(id) || self.aborted.contains(id)
    }

    /// The oldest number of a host that is not over.
    fn oldest(&self, host: u64) -> u64 {
        (1..).find(|n| !self.is_over(&id(host, *n))).expect("there is always a next")
    }

    /// Whether `id` is reached from any of `from` along what they are to come after.
    fn reaches(&self, from: &[RequestId], id: RequestId) -> bool {
        let (mut left, mut seen) = (from.to_vec(), BTreeSet::new());
        while let Some(next) = left.pop() {
            if next == id {
                return true;
            }
            if seen.insert(next) && !self.is_over(&next) {
                left.extend(self.came.get(&next).into_iter().flat_map(|c| c.0.clone()));
            }
        }
        false
    }

    /// Everything not begun that depends on what is aborted is aborted.
    fn spread(&mut self) {
        loop {
            let hit = |r: &(&RequestId, &(Vec<RequestId>, Option<Reach>))| {
                let waits = !self.is_over(r.0) && !self.begun.contains(r.0);
                waits && r.1.0.iter().any(|d| self.aborted.contains(d))
            };
            let Some(next) = self.came.iter().find(hit).map(|r| *r.0) else { return };
            self.aborted.insert(next);
        }
    }

    fn state(&self, id: &RequestId) -> Option<State> {
        let Some((after, _)) = self.came.get(id) else {
            let named = |r: (&RequestId, &(Vec<RequestId>, _))| {
                !self.is_over(r.0) && !self.begun.contains(r.0) && r.1.0.contains(id)
            };
            return self.came.iter().any(named).then_some(State::NotIssued);
        };
        Some(if self.aborted.contains(id) {
            State::Aborted
        } else if self.done.contains(id) {
            State::Completed
        } else if self.begun.contains(id) {
            State::InProgress
        } else if after
            .iter()
            .any(|d| matches!(self.state(d), None | Some(State::NotIssued | State::Unresolved)))
        {
            State::Unresolved
        } else {
            State::Resolved
        })
    }

    fn take(&mut self, graph: &mut Graph) {
        for step in graph.take_steps() {
            match step {
                Step::Refuse(id, _) => assert!(self.aborted.contains(&id), "{id} refused"),
                Step::Resolved(id) => assert_ne!(self.state(&id), Some(State::Unresolved), "{id}"),
                Step::Arrived(id) => panic!("{id} is to be placed by another"),
                Step::Begin(id) => {
                    let (after, reach) = &self.came[&id];
                    assert!(after.iter().all(|d| self.done.contains(d)), "{id} began early");
                    for other in self.begun.iter().filter(|o| !self.is_over(o)) {
                        let both = reach.zip(self.came[other].1);
                        assert!(!both.is_some_and(|(a, b)| a.conflicts(&b)), "{id} on {other}");
                    }
                    assert!(self.begun.insert(id), "{id} began twice");
                }
            }
        }
    }

    fn check(&self, graph: &Graph) {
        for host in 0..3 {
            for number in 1..48 {
                let id = id(host, number);
                let (has, should) = (graph.state(id), self.state(&id));
                // What is past is forgotten.
                let forgotten = has.is_none() && graph.is_past(id);
                assert!(
                    has == should || (forgotten && should == Some(State::Completed)),
                    "{id}: {has:?}, should be {should:?}"
                );
            }
        }
    }

    fn issue(
        &mut self,
        graph: &mut Graph,
        id: RequestId,
        after: Vec<RequestId>,
        reach: Option<Reach>,
    ) {
        let oldest = self.oldest(id.host.0);
        let place = Place { id, after: after.clone(), oldest };
        let known = self.came.contains_key(&id);
        let expected = if known {
            Err(PlaceError::Reused(id))
        } else if after.contains(&id) {
            Err(PlaceError::AfterItself(id))
        } else if self.reaches(&after, id) {
            Err(PlaceError::Cycle(id))
        } else if let Some(dead) = after.iter().find(|d| self.aborted.contains(d)) {
            Err(PlaceError::Aborted(*dead))
        } else {
            Ok(())
        };
        assert_eq!(graph.issue(0, &place, reach), expected);
        if !known {
            self.came.insert(id, (after, reach));
            if expected.is_err() {
                self.aborted.insert(id);
            }
            self.spread();
        }
        self.take(graph);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn it_does_what_a_naive_model_says(acts in proptest::collection::vec(act(), 1..60)) {
        let (mut model, mut graph) = (Model::default(), graph());
        let mut next = [1u64; 3];
        for act in acts {
            match act {
                Act::Issue { host, skip, after, at, len, writes } => {
                    // Some numbers are skipped, and come later or never.
                    let low = (1..next[host as usize]).find(|n| !model.came.contains_key(&id(host, *n)));
                    let number = match low {
                        Some(low) if skip == 1 => low,
                        _ => next[host as usize] + skip,
                    };
                    if number > 16 { continue }
                    next[host as usize] = next[host as usize].max(number + 1);
                    let range = Range { offset: at, len };
                    let reach = (len > 0).then_some(Reach { volume: VolumeId(1), range, writes });
                    let after = after.into_iter().map(|(h, n)| id(h, n)).collect();
                    model.issue(&mut graph, id(host, number), after, reach);
                }
                Act::End { which, well } => {
                    let running: Vec<_> = model.begun.iter().filter(|i| !model.is_over(i)).copied().collect();
                    if running.is_empty() { continue }
                    let which = running[which % running.len()];
                    if well {
                        model.done.insert(which);
                        graph.complete(0, which);
                    } else {
                        model.aborted.insert(which);
                        model.spread();
                        graph.abort(0, which);
                    }
                    model.take(&mut graph);
                }
                Act::Gone { which } => {
                    let waiting: Vec<_> = model.came.keys()
                        .filter(|i| !model.is_over(i) && !model.begun.contains(i)).copied().collect();
                    if waiting.is_empty() { continue }
                    let which = waiting[which % waiting.len()];
                    model.aborted.insert(which);
                    model.spread();
                    graph.abort(0, which);
                    model.take(&mut graph);
                }
            }
            model.check(&graph);
        }
        // What never comes is given up; then everything that is left must get its turn.
        let missing: Vec<_> = graph.in_state(State::NotIssued).collect();
        for id in &missing {
            model.came.insert(*id, (Vec::new(), None));
            model.aborted.insert(*id);
        }
        model.spread();
        graph.expire(Limits::default().issue_within, |_| true);
        model.take(&mut graph);
        while let Some(running) = model.begun.iter().find(|i| !model.is_over(i)).copied() {
            model.done.insert(running);
            graph.complete(0, running);
            model.take(&mut graph);
        }
        prop_assert!(!graph.has_waiting(), "something waits for nothing");
    }
}
