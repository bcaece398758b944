//! What a node remembers of requests so that a new primary can learn it: which are open, and what
//! became of those that are over. It is the backup's table, and an originator's memory of the
//! requests that came to it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Account, SequenceReport};
use crate::order::sequencer::{Graph, Limits, State};
use crate::order::{HostId, RequestId};
use crate::units::{Nanos, NodeId};

/// What is over of a host's requests.
#[derive(Clone, Debug, Hash)]
struct Books {
    /// All before this one are over.
    oldest: u64,
    done: BTreeSet<u64>,
    /// With the time from which they are kept.
    aborted: BTreeMap<u64, Nanos>,
    heard: Nanos,
}

/// The ledger.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Ledger {
    hosts: BTreeMap<HostId, Books>,
    /// Requests that are not over, and their originators.
    open: BTreeMap<RequestId, NodeId>,
}

impl Ledger {
    /// What a graph knows, and the requests that are not over with their originators.
    pub fn of<'a>(
        graph: &Graph,
        open: impl Iterator<Item = (&'a RequestId, &'a NodeId)>,
    ) -> Ledger {
        let mut ledger = Ledger::default();
        graph.hosts().for_each(|(host, oldest)| ledger.advance(host, oldest, 0));
        for (state, done) in [(State::Completed, true), (State::Aborted, false)] {
            graph.in_state(state).for_each(|id| ledger.close(id, done, 0));
        }
        open.for_each(|(id, owner)| ledger.open(*id, *owner));
        ledger
    }

    /// Has a graph take over what is over.
    pub fn hand_to(&self, graph: &mut Graph, now: Nanos) {
        for (host, books) in &self.hosts {
            graph.advance(*host, books.oldest, now);
            let id = |number: &u64| RequestId { host: *host, number: *number };
            books.done.iter().for_each(|n| graph.adopt_outcome(now, id(n), true));
            books.aborted.keys().for_each(|n| graph.adopt_outcome(now, id(n), false));
        }
    }

    fn books(&mut self, host: HostId, now: Nanos) -> &mut Books {
        let books = self.hosts.entry(host).or_insert_with(|| Books {
            oldest: 1,
            done: BTreeSet::new(),
            aborted: BTreeMap::new(),
            heard: now,
        });
        books.heard = now;
        books
    }

    /// All of a host's requests before `oldest` are over.
    pub fn advance(&mut self, host: HostId, oldest: u64, now: Nanos) {
        let books = self.books(host, now);
        if oldest > books.oldest {
            books.oldest = oldest;
            books.done = books.done.split_off(&oldest);
        }
    }

    /// A request has come.
    pub fn open(&mut self, id: RequestId, owner: NodeId) {
        self.open.insert(id, owner);
    }

    /// A request is over.
    pub fn close(&mut self, id: RequestId, done: bool, now: Nanos) {
        self.open.remove(&id);
        let books = self.books(id.host, now);
        if done {
            books.aborted.remove(&id.number);
            if id.number >= books.oldest {
                books.done.insert(id.number);
            }
        } else if !books.done.contains(&id.number) {
            books.aborted.insert(id.number, now);
        }
    }

    /// Whether a request is known to be over.
    pub fn is_over(&self, id: RequestId) -> bool {
        self.outcome(id).is_some()
    }

    /// Whether a request has happened, if it is known to be over.
    pub fn outcome(&self, id: RequestId) -> Option<bool> {
        let books = self.hosts.get(&id.host)?;
        let done = || id.number < books.oldest || books.done.contains(&id.number);
        match books.aborted.contains_key(&id.number) {
            true => Some(false),
            false => done().then_some(true),
        }
    }

    /// What was not over is others' business.
    pub fn forget_open(&mut self) {
        self.open.clear();
    }

    /// The requests that are not over, and their originators.
    pub fn unfinished(&self) -> impl Iterator<Item = (RequestId, NodeId)> + '_ {
        self.open.iter().map(|(id, owner)| (*id, *owner))
    }

    /// Whether any request is not over.
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Takes in what another knows. That a request has happened outweighs that it was aborted.
    pub fn merge(&mut self, report: &SequenceReport, now: Nanos) {
        for account in &report.accounts {
            let host = account.host;
            self.advance(host, account.oldest, now);
            for (first, last) in &account.done {
                (*first..=*last).for_each(|n| self.close(RequestId { host, number: n }, true, now));
            }
            for number in &account.aborted {
                self.close(RequestId { host, number: *number }, false, now);
            }
        }
        for (id, owner) in &report.open {
            if !self.is_over(*id) {
                self.open(*id, *owner);
            }
        }
    }

    /// All that it has.
    pub fn report(&self) -> SequenceReport {
        let account = |(host, books): (&HostId, &Books)| Account {
            host: *host,
            oldest: books.oldest,
            done: runs(&books.done),
            aborted: books.aborted.keys().copied().collect(),
        };
        SequenceReport {
            claims: Vec::new(),
            open: self.unfinished().collect(),
            accounts: self.hosts.iter().map(account).collect(),
        }
    }

    /// Forgets what has been kept long enough.
    pub fn expire(&mut self, now: Nanos, limits: &Limits) {
        for books in self.hosts.values_mut() {
            books.aborted.retain(|_, since| now.saturating_sub(*since) < limits.abort_kept);
        }
        self.hosts.retain(|_, b| now.saturating_sub(b.heard) < limits.host_kept);
    }
}

/// Numbers as runs, from first to last.
fn runs(numbers: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for n in numbers {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == *n => run.1 = *n,
            _ => runs.push((*n, *n)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_knows_another_learns_and_what_happened_outweighs_an_abort() {
        let id = |number| RequestId { host: HostId(1), number };
        let mut one = Ledger::default();
        one.advance(HostId(1), 3, 0);
        [4, 5, 6, 8].into_iter().for_each(|n| one.close(id(n), true, 0));
        one.close(id(7), false, 0);
        one.open(id(9), NodeId(2));
        let report = one.report();
        assert_eq!(report.accounts[0].done, [(4, 6), (8, 8)]);

        let mut other = Ledger::default();
        other.close(id(4), false, 0);
        other.close(id(7), true, 0);
        other.open(id(5), NodeId(1));
        other.merge(&report, 0);
        assert!([1, 2, 4, 5, 6, 7, 8].into_iter().all(|n| other.is_over(id(n))));
        assert!(!other.is_over(id(3)) && !other.is_over(id(9)));
        assert_eq!(other.report().accounts[0].aborted, [0; 0]);
        assert_eq!(other.unfinished().collect::<Vec<_>>(), [(id(9), NodeId(2))]);
        other.advance(HostId(1), 7, 0);
        assert_eq!(other.report().accounts[0].done, [(7, 8)]);
    }
}
