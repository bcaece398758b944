//! The graph of requests.
//!
//! Requests that have come and are not over stand in one *line*; of two that overlap, at least
//! one of them a write, the one further back waits for the other. A request that comes goes to
//! the end of the line, except that those which wait for it by explicit edges (they came before
//! it and named it) go behind it, in the order that they had. So explicit edges, too, always lead
//! from the back of the line to its front, and nothing can wait in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::Limits;
use super::hosts::Hosts;
use super::states::{Event, State, step};
use crate::order::{HostId, Place, PlaceError, RequestId};
use crate::plan::Range;
use crate::units::{Nanos, VolumeId};

/// What a request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reach {
    /// The volume.
    pub volume: VolumeId,
    /// The bytes.
    pub range: Range,
    /// Whether it changes them.
    pub writes: bool,
}

impl Reach {
    /// Whether one must wait for the other.
    pub fn conflicts(&self, other: &Reach) -> bool {
        let overlap =
            self.range.offset < other.range.end() && other.range.offset < self.range.end();
        self.volume == other.volume && overlap && (self.writes || other.writes)
    }
}

/// What is to be done about a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It begins.
    Begin(RequestId),
    /// It was waiting, and is aborted.
    Refuse(RequestId, PlaceError),
}

#[derive(Clone, Debug, Hash)]
struct Entry {
    state: State,
    reach: Option<Reach>,
    /// Explicit edges to requests that are not over, and back.
    after: BTreeSet<RequestId>,
    dependents: BTreeSet<RequestId>,
    /// Implicit edges to requests that are not over, and back.
    behind: BTreeSet<RequestId>,
    followers: BTreeSet<RequestId>,
    /// Its place in the line, if it is in it.
    rank: u64,
    /// When it came to its state.
    since: Nanos,
    /// Which host named it first, if it has not been issued.
    namer: HostId,
    /// Whether it was aborted because it did not come.
    never_came: bool,
}

/// The graph.
#[derive(Clone, Debug, Hash)]
pub struct Graph {
    limits: Limits,
    entries: BTreeMap<RequestId, Entry>,
    hosts: Hosts,
    /// The line, from front to back.
    line: BTreeMap<u64, RequestId>,
    next_rank: u64,
    steps: Vec<Step>,
}

impl Graph {
    /// A graph without requests.
    pub fn new(limits: Limits) -> Graph {
        Graph {
            limits,
            entries: BTreeMap::new(),
            hosts: Hosts::default(),
            line: BTreeMap::new(),
            next_rank: 0,
            steps: Vec::new(),
        }
    }

    /// A request comes. `reach` is what it touches, if it must be kept apart from others that
    /// touch it too. What follows, for it and for others, is in [`Graph::take_steps`].
    ///
    /// # Errors
    ///
    /// If it cannot have this place. Then it counts as aborted, unless it is one that came before.
    pub fn issue(
        &mut self,
        now: Nanos,
        place: &Place,
        reach: Option<Reach>,
    ) -> Result<(), PlaceError> {
        let id = place.id;
        self.advance(id.host, place.oldest.min(id.number), now);
        if self.hosts.is_past(id) {
            return Err(PlaceError::Reused(id));
        }
        match self.entries.get(&id) {
            None => {}
            Some(e) if e.state == State::NotIssued => {}
            Some(e) if e.never_came => return Err(PlaceError::TooLate(id)),
            Some(_) => return Err(PlaceError::Reused(id)),
        }
        if let Err(why) = self.may_have(place) {
            self.fail(now, id, false);
            return Err(why);
        }
        self.join(now, place, reach);
        Ok(())
    }

    /// Whether a request that has not come before can have its place.
    fn may_have(&self, place: &Place) -> Result<(), PlaceError> {
        let id = place.id;
        let (oldest, bound) = (self.hosts.oldest(id.host), self.limits.ahead);
        if id.number - oldest >= bound {
            return Err(PlaceError::TooFarAhead { id, oldest, bound });
        }
        if place.after.contains(&id) {
            return Err(PlaceError::AfterItself(id));
        }
        let waiting = self.explicitly_behind(id);
        if place.after.iter().any(|d| waiting.contains(d)) {
            return Err(PlaceError::Cycle(id));
        }
        let aborted = |d: &&RequestId| self.state(**d) == Some(State::Aborted);
        if let Some(dependency) = place.after.iter().find(aborted) {
            return Err(self.why_behind(*dependency));
        }
        let unknown = |d: &&RequestId| self.state(**d).is_none() && !self.hosts.is_past(**d);
        let new: BTreeSet<_> = place.after.iter().filter(unknown).collect();
        let bound = self.limits.unissued;
        if self.hosts.unissued(id.host) + new.len() > bound {
            return Err(PlaceError::TooManyUnissued { host: id.host.0, bound });
        }
        Ok(())
    }

    /// Why one that depends on an aborted request is refused.
    fn why_behind(&self, dependency: RequestId) -> PlaceError {
        match self.entries.get(&dependency) {
            Some(e) if e.never_came => PlaceError::NeverIssued(dependency),
            _ => PlaceError::Aborted(dependency),
        }
    }

    /// A request takes its place.
    fn join(&mut self, now: Nanos, place: &Place, reach: Option<Reach>) {
        let id = place.id;
        let mut after = BTreeSet::new();
        for dependency in &place.after {
            if !self.entries.contains_key(dependency) && !self.hosts.is_past(*dependency) {
                self.name(now, *dependency, id.host);
            }
            let Some(entry) = self.entries.get_mut(dependency) else { continue };
            if entry.state != State::Completed {
                entry.dependents.insert(id);
                after.insert(*dependency);
            }
        }
        self.count_issued(id);
        self.go(now, id, Event::Issued);
        let entry = self.entries.get_mut(&id).expect("it has just come");
        (entry.after, entry.reach) = (after, reach);
        let dependents: Vec<_> = entry.dependents.iter().copied().collect();
        let mut moved = vec![id];
        if !dependents.is_empty() {
            let waiting = self.explicitly_behind(id);
            moved.extend(self.line.values().filter(|other| waiting.contains(other)));
        }
        let freed = self.go_last(&moved);
        self.reconsider(now, dependents);
        self.reconsider(now, moved.into_iter().chain(freed));
    }

    /// A request that has not come is named.
    fn name(&mut self, now: Nanos, id: RequestId, namer: HostId) {
        self.go(now, id, Event::Named);
        self.entries.get_mut(&id).expect("just named").namer = namer;
        self.hosts.count_named(namer, now);
    }

    /// A request that was named is not awaited any more.
    fn count_issued(&mut self, id: RequestId) {
        if let Some(entry) = self.entries.get(&id)
            && entry.state == State::NotIssued
        {
            self.hosts.count_named_no_more(entry.namer);
        }
    }

    /// Requests that have not begun go to the end of the line, in this order, behind whatever
    /// they overlap with. Returns those that were behind one of them.
    fn go_last(&mut self, moved: &[RequestId]) -> BTreeSet<RequestId> {
        let mut freed = BTreeSet::new();
        for id in moved {
            let entry = self.entries.get_mut(id).expect("it is in the graph");
            if self.line.get(&entry.rank) == Some(id) {
                self.line.remove(&entry.rank);
            }
            let behind = std::mem::take(&mut entry.behind);
            let followers = std::mem::take(&mut entry.followers);
            for other in &behind {
                self.followers_of(*other).remove(id);
            }
            for other in &followers {
                self.entries.get_mut(other).expect("it waits").behind.remove(id);
            }
            freed.extend(followers);
        }
        for id in moved {
            let reach = self.entries[id].reach;
            let meets = |other: &&RequestId| match (&reach, &self.entries[other].reach) {
                (Some(a), Some(b)) => a.conflicts(b),
                _ => false,
            };
            let behind: BTreeSet<RequestId> = self.line.values().filter(meets).copied().collect();
            for other in &behind {
                self.followers_of(*other).insert(*id);
            }
            let rank = self.next_rank;
            self.next_rank += 1;
            let entry = self.entries.get_mut(id).expect("it is in the graph");
            (entry.behind, entry.rank) = (behind, rank);
            self.line.insert(rank, *id);
        }
        freed
    }

    fn followers_of(&mut self, id: RequestId) -> &mut BTreeSet<RequestId> {
        &mut self.entries.get_mut(&id).expect("it is in the line").followers
    }

    /// Everything that waits for `id` by explicit edges, over any number of them, and `id`.
    fn explicitly_behind(&self, id: RequestId) -> BTreeSet<RequestId> {
        let mut found = BTreeSet::from([id]);
        let mut left = vec![id];
        while let Some(entry) = left.pop().and_then(|next| self.entries.get(&next)) {
            left.extend(entry.dependents.iter().filter(|d| found.insert(**d)));
        }
        found
    }

    /// Lets requests go on that may have nothing to wait for now.
    fn reconsider(&mut self, now: Nanos, which: impl IntoIterator<Item = RequestId>) {
        for id in which {
            let Some(entry) = self.entries.get(&id) else { continue };
            let awaited = |d: &RequestId| self.entries[d].state == State::NotIssued;
            if entry.state == State::Unresolved && !entry.after.iter().any(awaited) {
                self.go(now, id, Event::Arrived);
            }
            let entry = &self.entries[&id];
            let waits = !entry.after.is_empty() || !entry.behind.is_empty();
            if entry.state == State::Resolved && !waits {
                self.go(now, id, Event::Freed);
                self.steps.push(Step::Begin(id));
            }
        }
    }

    /// A request that has begun has happened.
    pub fn complete(&mut self, now: Nanos, id: RequestId) {
        if self.state(id) == Some(State::InProgress) {
            self.go(now, id, Event::Done);
            let freed = self.let_go(id);
            self.reconsider(now, freed);
            self.collect(id);
        }
    }

    /// A request has not happened, or will not be begun: all that depend on it are aborted too.
    pub fn abort(&mut self, now: Nanos, id: RequestId) {
        match self.state(id) {
            Some(State::Completed | State::Aborted) => {}
            // Its host may have said that it is over before this was heard: then it waits still.
            None if self.hosts.is_past(id) => {}
            _ => self.fail(now, id, false),
        }
    }

    /// Aborts a request and what depends on it.
    fn fail(&mut self, now: Nanos, id: RequestId, never_came: bool) {
        self.count_issued(id);
        self.go(now, id, Event::Failed);
        let mut freed = Vec::new();
        let mut left = vec![id];
        self.entries.get_mut(&id).expect("just failed").never_came = never_came;
        while let Some(next) = left.pop() {
            let dependents = self.entries[&next].dependents.clone();
            freed.extend(self.let_go(next));
            for dependent in dependents {
                let state = self.state(dependent);
                debug_assert!(state != Some(State::InProgress), "{dependent} began early");
                if !matches!(state, Some(State::Unresolved | State::Resolved)) {
                    continue;
                }
                self.go(now, dependent, Event::Failed);
                self.steps.push(Step::Refuse(dependent, self.why_behind(next)));
                left.push(dependent);
            }
        }
        self.reconsider(now, freed);
    }

    /// A request that is over, or that is not known to be missing any more, leaves the line and
    /// all edges. Returns those that waited for it.
    fn let_go(&mut self, id: RequestId) -> BTreeSet<RequestId> {
        let entry = self.entries.get_mut(&id).expect("it is in the graph");
        if self.line.get(&entry.rank) == Some(&id) {
            self.line.remove(&entry.rank);
        }
        let after = std::mem::take(&mut entry.after);
        let behind = std::mem::take(&mut entry.behind);
        let dependents = std::mem::take(&mut entry.dependents);
        let followers = std::mem::take(&mut entry.followers);
        for other in &behind {
            self.followers_of(*other).remove(&id);
        }
        for dependency in after {
            let Some(entry) = self.entries.get_mut(&dependency) else { continue };
            entry.dependents.remove(&id);
            if entry.state == State::NotIssued && entry.dependents.is_empty() {
                self.forget(dependency);
            }
        }
        for other in &dependents {
            self.entries.get_mut(other).expect("it depends").after.remove(&id);
        }
        for other in &followers {
            self.entries.get_mut(other).expect("it follows").behind.remove(&id);
        }
        dependents.into_iter().chain(followers).collect()
    }

    /// A host says that all its requests before `oldest` are over.
    pub fn advance(&mut self, host: HostId, oldest: u64, now: Nanos) {
        if !self.hosts.advance(host, oldest, now) {
            return;
        }
        let from = RequestId { host, number: 0 };
        let to = RequestId { host, number: self.hosts.oldest(host) };
        let past: Vec<RequestId> = self.entries.range(from..to).map(|e| *e.0).collect();
        for id in past {
            if self.state(id) == Some(State::NotIssued) {
                // It has been: nobody need wait for it.
                let freed = self.let_go(id);
                self.forget(id);
                self.reconsider(now, freed);
            } else {
                self.collect(id);
            }
        }
    }

    /// Drops a completed request that its host will not hear of any more.
    fn collect(&mut self, id: RequestId) {
        if self.state(id) == Some(State::Completed) && self.hosts.is_past(id) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: RequestId) {
        self.count_issued(id);
        self.go(0, id, Event::Forgotten);
    }

    /// Looks for what has been awaited, or kept, long enough. `keep` says which aborted requests
    /// are to be kept all the same.
    pub fn expire(&mut self, now: Nanos, keep: impl Fn(RequestId) -> bool) {
        let old = |e: &Entry, limit: Nanos| now.saturating_sub(e.since) >= limit;
        let due = |e: &(&RequestId, &Entry)| match e.1.state {
            State::NotIssued => old(e.1, self.limits.issue_within),
            State::Aborted => old(e.1, self.limits.abort_kept) && !keep(*e.0),
            _ => false,
        };
        let due: Vec<RequestId> = self.entries.iter().filter(due).map(|e| *e.0).collect();
        for id in due {
            match self.state(id) {
                Some(State::NotIssued) => self.fail(now, id, true),
                Some(State::Aborted) => self.forget(id),
                _ => {}
            }
        }
        let entries = &self.entries;
        let known = |host| {
            let (first, last) = (0, u64::MAX);
            let ids = RequestId { host, number: first }..=RequestId { host, number: last };
            entries.range(ids).any(|e| e.1.state != State::Completed)
        };
        self.hosts.expire(now, &self.limits, known);
    }

    /// What is to be done, in order.
    pub fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// A request's state, if it is in the graph.
    pub fn state(&self, id: RequestId) -> Option<State> {
        self.entries.get(&id).map(|e| e.state)
    }

    /// Whether its host has said that a request is over.
    pub fn is_past(&self, id: RequestId) -> bool {
        self.hosts.is_past(id)
    }

    /// The hosts, and the oldest of each one's requests that may not be over.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, u64)> + '_ {
        self.hosts.iter()
    }

    /// The requests in a state.
    pub fn in_state(&self, state: State) -> impl Iterator<Item = RequestId> + '_ {
        self.entries.iter().filter(move |e| e.1.state == state).map(|e| *e.0)
    }

    /// Whether any request waits.
    pub fn has_waiting(&self) -> bool {
        let waits = |e: &Entry| matches!(e.state, State::Unresolved | State::Resolved);
        self.line.values().any(|id| waits(&self.entries[id]))
    }

    /// Takes over a request that has begun already, whatever it was to come after.
    pub fn adopt_begun(&mut self, now: Nanos, id: RequestId, reach: Option<Reach>) {
        if self.state(id).is_none() {
            self.join(now, &Place { id, after: Vec::new(), oldest: 1 }, None);
            self.entries.get_mut(&id).expect("it has just come").reach = reach;
            self.steps.retain(|s| *s != Step::Begin(id));
        }
    }

    /// Takes over what became of a request, as another knew it.
    pub fn adopt_outcome(&mut self, now: Nanos, id: RequestId, happened: bool) {
        if self.state(id).is_none() && !(happened && self.hosts.is_past(id)) {
            if happened {
                self.adopt_begun(now, id, None);
                self.complete(now, id);
            } else {
                self.fail(now, id, false);
            }
        }
    }

    /// A transition, by the table.
    fn go(&mut self, now: Nanos, id: RequestId, event: Event) {
        let from = self.state(id);
        let to =
            step(from, event).unwrap_or_else(|| panic!("{id} in {from:?} cannot be {event:?}"));
        match (to, self.entries.get_mut(&id)) {
            (Some(state), Some(entry)) => (entry.state, entry.since) = (state, now),
            (Some(state), None) => drop(self.entries.insert(id, Entry::new(id.host, state, now))),
            (None, _) => drop(self.entries.remove(&id)),
        }
    }
}

impl Entry {
    fn new(namer: HostId, state: State, since: Nanos) -> Entry {
        Entry {
            state,
            reach: None,
            after: BTreeSet::new(),
            dependents: BTreeSet::new(),
            behind: BTreeSet::new(),
            followers: BTreeSet::new(),
            rank: 0,
            since,
            namer,
            never_came: false,
        }
    }
}
