//! The graph of requests.
//!
//! A request that has come is *resolved* when all that it names have come and are resolved
//! themselves. Then it takes its place in the *line*; of two that overlap, at least one of them a
//! write, the one further back waits for the other. One that is not resolved has no place yet and
//! is in nobody's way. So explicit edges, too, always lead from the back of the line to its front,
//! nothing can wait in a circle, and once a request has its place, what it waits for never grows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Limits;
use super::hosts::Hosts;
use super::states::{Event, State, step};
use crate::order::{HostId, Place, PlaceError, RequestId};
use crate::units::{Nanos, Range, VolumeId};

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
    /// It has its place: what it waits for is final ([`Graph::waits_of`]).
    Resolved(RequestId),
    /// All that it names are resolved. In a graph whose owners place their requests, its owner is
    /// to give it a place ([`Graph::stand`]).
    Arrived(RequestId),
    /// It begins, as far as this graph knows.
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
    /// Whether it gives requests their places itself.
    places: bool,
    entries: BTreeMap<RequestId, Entry>,
    hosts: Hosts,
    /// The line, from front to back.
    line: BTreeMap<u64, RequestId>,
    next_rank: u64,
    steps: Vec<Step>,
}

impl Graph {
    /// A graph without requests, which gives them their places in the order in which they are
    /// resolved.
    pub fn new(limits: Limits) -> Graph {
        Graph { places: true, ..Graph::placed_by_owners(limits) }
    }

    /// A graph without requests, one of several that know parts of the same: whoever owns a request
    /// gives it its place.
    pub fn placed_by_owners(limits: Limits) -> Graph {
        Graph {
            limits,
            places: false,
            entries: BTreeMap::new(),
            hosts: Hosts::default(),
            line: BTreeMap::new(),
            next_rank: 1,
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
        self.reconsider(now, [id]);
    }

    /// A request that is not resolved takes its place in the line, behind all there that it
    /// overlaps with.
    pub fn stand(&mut self, now: Nanos, id: RequestId, rank: u64) {
        if self.state(id) == Some(State::Unresolved) {
            let dependents = self.place(now, id, rank);
            self.reconsider(now, std::iter::once(id).chain(dependents));
        }
    }

    /// Gives a request its place. Returns those that name it.
    fn place(&mut self, now: Nanos, id: RequestId, rank: u64) -> BTreeSet<RequestId> {
        self.go(now, id, Event::Arrived);
        if let Some(reach) = self.entries[&id].reach {
            let meets = |other: &&RequestId| {
                self.entries[*other].reach.is_some_and(|o| o.conflicts(&reach))
            };
            let before = self.line.range(..rank).map(|p| p.1);
            let behind: BTreeSet<RequestId> = before.filter(meets).copied().collect();
            for other in &behind {
                self.followers_of(*other).insert(id);
            }
            self.line.insert(rank, id);
            self.entries.get_mut(&id).expect("it has come").behind = behind;
        }
        let entry = self.entries.get_mut(&id).expect("it has come");
        entry.rank = rank;
        self.steps.push(Step::Resolved(id));
        entry.dependents.clone()
    }

    fn next_rank(&mut self) -> u64 {
        self.next_rank += 1;
        self.next_rank - 1
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
        let mut left: VecDeque<RequestId> = which.into_iter().collect();
        while let Some(id) = left.pop_front() {
            let Some(entry) = self.entries.get(&id) else { continue };
            let unresolved = |d: &RequestId| {
                matches!(self.entries[d].state, State::NotIssued | State::Unresolved)
            };
            if entry.state == State::Unresolved && !entry.after.iter().any(unresolved) {
                if self.places {
                    let rank = self.next_rank();
                    left.extend(self.place(now, id, rank));
                } else {
                    self.steps.push(Step::Arrived(id));
                }
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
        self.entries.values().any(|e| matches!(e.state, State::Unresolved | State::Resolved))
    }

    /// What a request that has come waits for: what it names, and what it overlaps with.
    pub fn waits_of(&self, id: RequestId) -> (Vec<RequestId>, Vec<RequestId>) {
        let list = |set: &BTreeSet<RequestId>| set.iter().copied().collect();
        self.entries.get(&id).map_or_else(Default::default, |e| (list(&e.after), list(&e.behind)))
    }

    /// Which requests in the line another, that would stand at `rank`, would wait for.
    pub fn in_the_way(&self, reach: &Reach, rank: u64) -> Vec<RequestId> {
        let meets =
            |other: &&RequestId| self.entries[*other].reach.is_some_and(|o| o.conflicts(reach));
        self.line.range(..rank).map(|p| p.1).filter(meets).copied().collect()
    }

    /// A request's place in the line, if it has one.
    pub fn rank(&self, id: RequestId) -> Option<u64> {
        self.entries
            .get(&id)
            .filter(|e| e.state == State::Resolved || e.state == State::InProgress)
            .map(|e| e.rank)
    }

    /// Takes over a request that has begun already, whatever it was to come after.
    pub fn adopt_begun(&mut self, now: Nanos, id: RequestId, reach: Option<Reach>) {
        let known = !matches!(self.state(id), None | Some(State::NotIssued));
        if known || self.hosts.is_past(id) {
            return;
        }
        self.count_issued(id);
        for event in [Event::Issued, Event::Arrived, Event::Freed] {
            self.go(now, id, event);
        }
        let rank = self.next_rank();
        let entry = self.entries.get_mut(&id).expect("it has just come");
        (entry.reach, entry.rank) = (reach, rank);
        let dependents = entry.dependents.clone();
        if reach.is_some() {
            self.line.insert(rank, id);
        }
        self.reconsider(now, dependents);
    }

    /// Takes over what became of a request, as another knew it. What it was to come after may not be
    /// known to be over here.
    pub fn adopt_outcome(&mut self, now: Nanos, id: RequestId, happened: bool) {
        match self.state(id) {
            // It may be one that its host has passed: it is kept for as long as any.
            None if !happened => return self.fail(now, id, false),
            _ if !happened => return self.abort(now, id),
            None | Some(State::NotIssued) => self.adopt_begun(now, id, None),
            Some(State::Unresolved) => {
                self.go(now, id, Event::Arrived);
                self.go(now, id, Event::Freed);
            }
            Some(State::Resolved) => self.go(now, id, Event::Freed),
            Some(State::InProgress | State::Completed | State::Aborted) => {}
        }
        self.complete(now, id);
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
