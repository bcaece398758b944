//! What a host keeps of its requests: which have been sent, which may be, and which have ended.
//! No I/O here.
//!
//! Requests are numbered as they are taken and sent as soon as they may be. Two things hold one
//! back, so that repeating it at another node does no harm (`docs/internals/client-protocol.md` says why):
//!
//! - a change waits until no change of the same bytes, taken before it, is still to be answered;
//! - a request waits until those of this host that it comes after have been sent;
//! - one that comes after more than a request may name waits for the rest until they have ended.
//!
//! What is refused here has a number, and another host may name it. So the node is told: in its place
//! goes a *notice*, a request that names itself and so is refused there, too, and counts as aborted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use weft_front::native::client::Client;
use weft_front::native::wire::flag;
use weft_front::native::{Answer, Code, Limits, Name, NumberedRequest, Verb, Welcome};

use crate::completion::{Completion, Promise};
use crate::error::{Error, ErrorKind};
use crate::id::Id;
use crate::ranges::Ranges;

/// A request whose end has not been heard.
struct Outstanding {
    request: NumberedRequest,
    /// Requests of this host that it comes after and does not name: they end before it is sent.
    behind: BTreeSet<u64>,
    /// Who waits for its end; nobody if it was refused here and this is the notice of that.
    promise: Option<Arc<Promise<Result<Bytes, Error>>>>,
    /// Over the connection that there is.
    sent: bool,
    /// Over an earlier one: a node may have done it that does not answer any more.
    sent_before: bool,
}

impl Outstanding {
    /// The notice that a request was refused here: it cannot come after itself.
    fn notice(host: u64, number: u64) -> Outstanding {
        let request = NumberedRequest {
            verb: Verb::Flush,
            flags: 0,
            number,
            oldest: 0,
            offset: 0,
            length: 0,
            after: vec![Name { host, number }],
            data: Bytes::new(),
        };
        let behind = BTreeSet::new();
        Outstanding { request, behind, promise: None, sent: false, sent_before: false }
    }

    /// Why it is refused if one that must come first was not done.
    fn refused_for(&self, because: Id) -> Error {
        match self.sent_before && self.request.verb.changes() {
            true => Error::in_doubt(because),
            false => Error::aborted(because),
        }
    }

    /// The bytes that it changes.
    fn changes(&self) -> Option<(u64, u64)> {
        let r = &self.request;
        r.verb.changes().then_some((r.offset, r.offset.saturating_add(r.length)))
    }

    /// The bytes that count against what may be in work.
    fn weight(&self) -> u64 {
        weight(&self.request)
    }
}

fn weight(request: &NumberedRequest) -> u64 {
    match request.verb {
        Verb::Read | Verb::Write => request.length,
        _ => 0,
    }
}

/// All requests of a host.
pub(crate) struct State {
    pub(crate) host: u64,
    next: u64,
    out: BTreeMap<u64, Outstanding>,
    unsent: BTreeSet<u64>,
    /// The bytes that those change which have been sent.
    busy: Ranges,
    /// Requests that were not done, and because of which: of the first that failed for a reason of its own,
    /// that is itself. What is neither here nor outstanding is complete.
    failed: BTreeMap<u64, Id>,
    /// Those that have ended since somebody asked, if somebody wants to know.
    pub(crate) told: Option<VecDeque<Id>>,
    weight: u64,
    /// What the node said when it was reached last.
    pub(crate) welcome: Option<Welcome>,
    /// Why nothing is taken any more.
    pub(crate) dead: Option<Error>,
}

impl State {
    /// That of a new host.
    pub(crate) fn new(host: u64) -> State {
        State {
            host,
            next: 1,
            out: BTreeMap::new(),
            unsent: BTreeSet::new(),
            busy: Ranges::default(),
            failed: BTreeMap::new(),
            told: None,
            weight: 0,
            welcome: None,
            dead: None,
        }
    }

    /// What the node takes.
    pub(crate) fn limits(&self) -> Limits {
        let none =
            Limits { request_bytes: 0, bytes_in_work: 0, requests_in_work: 0, ahead: 0, after: 0 };
        self.welcome.as_ref().map_or(none, |w| w.limits)
    }

    /// Whether everything has ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.out.is_empty()
    }

    /// The oldest request whose end has not been heard.
    pub(crate) fn oldest(&self) -> u64 {
        self.out.keys().next().copied().unwrap_or(self.next)
    }

    /// Whether a request must wait until others have ended.
    pub(crate) fn is_full(&self) -> bool {
        let limits = self.limits();
        self.out.len() >= limits.requests_in_work as usize
            || self.weight >= u64::from(limits.bytes_in_work)
            || self.next >= self.oldest() + u64::from(limits.ahead)
    }

    /// Takes a request. What cannot be has ended at once.
    pub(crate) fn take(
        &mut self,
        request: NumberedRequest,
        after: &[Id],
    ) -> Result<Completion, Error> {
        self.take_behind(request, after, BTreeSet::new())
    }

    /// Takes a request that comes after all of this host that have not ended.
    pub(crate) fn take_after_all(&mut self, request: NumberedRequest) -> Result<Completion, Error> {
        let host = self.host;
        let named = |o: &Outstanding| o.request.after.iter().map(|n| n.number).collect::<Vec<_>>();
        let mut last: BTreeSet<u64> =
            self.out.iter().filter(|(_, o)| o.promise.is_some()).map(|(n, _)| *n).collect();
        // Who is named by another need not be named once more.
        for number in self.out.values().filter(|o| o.promise.is_some()).flat_map(named) {
            last.remove(&number);
        }
        let most = usize::from(self.limits().after);
        let mut last = last.into_iter();
        let after: Vec<Id> = last.by_ref().take(most).map(|number| Id { host, number }).collect();
        self.take_behind(request, &after, last.collect())
    }

    fn take_behind(
        &mut self,
        mut request: NumberedRequest,
        after: &[Id],
        behind: BTreeSet<u64>,
    ) -> Result<Completion, Error> {
        if let Some(why) = &self.dead {
            return Err(why.clone());
        }
        self.check(&request)?;
        let number = self.next;
        self.next += 1;
        let (id, promise) = (Id { host: self.host, number }, Promise::new());
        let completion = Completion { id, promise: promise.clone() };
        request.number = number;
        match self.name(after, &mut request) {
            Ok(()) => {
                self.weight += weight(&request);
                if !behind.is_empty() {
                    request.flags |= flag::AFTER_COMPLETED;
                }
                let promise = Some(promise);
                let (sent, sent_before) = (false, false);
                let out = Outstanding { request, behind, promise, sent, sent_before };
                self.out.insert(number, out);
                self.unsent.insert(number);
            }
            Err(why) => {
                let root = why.root(id);
                promise.fill(Err(why));
                self.tell(number);
                self.give_notice(number, root);
            }
        }
        Ok(completion)
    }

    fn check(&self, request: &NumberedRequest) -> Result<(), Error> {
        let invalid = |text: String| Err(Error::new(ErrorKind::Invalid, text));
        if request.length == 0 && request.verb != Verb::Flush {
            return invalid("a request must have at least one byte".to_string());
        }
        let most = u64::from(self.limits().request_bytes);
        if weight(request) > most {
            return invalid(format!(
                "{} bytes exceed the maximum of a request, {most}",
                request.length
            ));
        }
        Ok(())
    }

    /// Names those that must come first. The complete ones need not be.
    fn name(&self, after: &[Id], request: &mut NumberedRequest) -> Result<(), Error> {
        for id in after {
            if let Some(root) = self.root(*id) {
                return Err(Error::aborted(root));
            }
            if id.host == self.host && id.number >= request.number {
                let text = format!("{id}, which must come first, has not been accepted");
                return Err(Error::new(ErrorKind::Place, text));
            }
            if id.host == self.host && !self.out.contains_key(&id.number) {
                request.flags |= flag::AFTER_COMPLETED;
                continue;
            }
            let name = Name { host: id.host, number: id.number };
            if !request.after.contains(&name) {
                request.after.push(name);
            }
        }
        let most = usize::from(self.limits().after);
        if request.after.len() > most {
            let text = format!("a request can depend on {most} incomplete requests at most");
            return Err(Error::new(ErrorKind::Place, text));
        }
        Ok(())
    }

    /// Sends what may be sent. Says whether there was something.
    pub(crate) fn send(&mut self, link: &mut Client) -> bool {
        let oldest = self.oldest();
        let before = self.unsent.len();
        let mut behind = Ranges::default();
        let mut overlapping: Vec<(u64, u64)> = Vec::new();
        for number in self.unsent.iter().copied().collect::<Vec<u64>>() {
            let ours = |n: &&Name| n.host == self.host && n.number != number;
            let unsent = |n: &Name| self.unsent.contains(&n.number);
            let this = &self.out[&number];
            let waits = this.request.after.iter().filter(ours).any(unsent)
                || this.behind.iter().any(|n| self.out.contains_key(n));
            let changes = this.changes();
            let overlaps = changes.is_some_and(|(from, to)| {
                !self.busy.is_free(from, to)
                    || !behind.is_free(from, to)
                    || overlapping.iter().any(|o| o.0 < to && from < o.1)
            });
            if waits || overlaps {
                // Those that come later and change the same bytes stay behind it.
                match changes {
                    Some((from, to)) if behind.is_free(from, to) => behind.take(from, to),
                    Some(range) => overlapping.push(range),
                    None => {}
                }
                continue;
            }
            self.unsent.remove(&number);
            if let Some((from, to)) = changes {
                self.busy.take(from, to);
            }
            let Some(this) = self.out.get_mut(&number) else { continue };
            this.request.oldest = oldest;
            this.sent = true;
            link.request(&this.request);
            // If it is sent once more, it is so over another connection. A notice is as good as new: what
            // the node may have done with the request is not asked for.
            if this.promise.is_some() {
                this.request.flags |= flag::AGAIN;
            }
        }
        self.unsent.len() < before
    }

    /// The connection broke: all is to be sent again.
    pub(crate) fn unsend(&mut self) {
        self.busy = Ranges::default();
        for (number, out) in &mut self.out {
            out.sent = false;
            self.unsent.insert(*number);
        }
        // What is complete need not be named any more; what failed takes with it what comes after.
        for number in self.out.keys().copied().collect::<Vec<u64>>() {
            let Some(out) = self.out.get(&number) else { continue };
            if out.promise.is_none() {
                continue;
            }
            let root = |n: &Name| self.root(Id { host: n.host, number: n.number });
            if let Some(root) = out.request.after.iter().find_map(root) {
                let why = out.refused_for(root);
                self.refuse(number, why);
                continue;
            }
            let waits = |n: &Name| n.host != self.host || self.out.contains_key(&n.number);
            let after: Vec<Name> = out.request.after.iter().copied().filter(waits).collect();
            let Some(out) = self.out.get_mut(&number) else { continue };
            if after.len() < out.request.after.len() {
                out.request.flags |= flag::AFTER_COMPLETED;
            }
            out.request.after = after;
        }
        self.out.values_mut().for_each(|out| out.sent_before = out.request.has(flag::AGAIN));
    }

    /// A request has ended.
    pub(crate) fn ended(&mut self, mut answer: Answer) {
        let Some(out) = self.out.get(&answer.number) else { return };
        if !out.sent {
            return;
        }
        let result = match answer.code {
            Code::Done => Ok(match answer.data.len() {
                0 => Bytes::new(),
                _ => answer.data.swap_remove(0),
            }),
            _ => Err(self.with_root(Error::of(&answer))),
        };
        self.end(answer.number, result);
    }

    fn end(&mut self, number: u64, result: Result<Bytes, Error>) {
        let Some(out) = self.out.remove(&number) else { return };
        self.unsent.remove(&number);
        self.weight -= out.weight();
        if let Some((from, _)) = out.changes().filter(|_| out.sent) {
            self.busy.give_back(from);
        }
        let Some(promise) = out.promise else { return };
        let id = Id { host: self.host, number };
        let root = result.as_ref().err().map(|why| why.root(id));
        promise.fill(result);
        self.tell(number);
        if let Some(root) = root {
            self.failed.insert(number, root);
            self.abort_unsent(number, root);
        }
    }

    /// Who wants to know of ends hears of this one.
    fn tell(&mut self, number: u64) {
        let id = Id { host: self.host, number };
        self.told.iter_mut().for_each(|told| told.push_back(id));
    }

    /// Because of which request one of this host was not done.
    fn root(&self, id: Id) -> Option<Id> {
        (id.host == self.host).then(|| self.failed.get(&id.number).copied()).flatten()
    }

    /// An error of a node with the first request that was not done, as far as it is known here.
    fn with_root(&self, error: Error) -> Error {
        let aborted = error.because().filter(|_| error.kind() == ErrorKind::Aborted);
        aborted.and_then(|id| self.root(id)).map_or(error, Error::aborted)
    }

    /// One that is not under way ends here, and the node is told.
    fn refuse(&mut self, number: u64, why: Error) {
        let root = why.root(Id { host: self.host, number });
        self.end(number, Err(why));
        self.give_notice(number, root);
    }

    /// One was refused here: the node is to count it as aborted.
    fn give_notice(&mut self, number: u64, root: Id) {
        self.failed.insert(number, root);
        self.out.insert(number, Outstanding::notice(self.host, number));
        self.unsent.insert(number);
    }

    /// One was not done; so are those that come after it and that the node has not been told of.
    fn abort_unsent(&mut self, number: u64, root: Id) {
        let name = Name { host: self.host, number };
        // (A notice names itself.)
        let follows = |n: &&u64| {
            let out = &self.out[*n];
            **n != number && (out.request.after.contains(&name) || out.behind.contains(&number))
        };
        for follower in self.unsent.iter().filter(follows).copied().collect::<Vec<u64>>() {
            let why = self.out[&follower].refused_for(root);
            self.refuse(follower, why);
        }
    }

    /// Nothing will be answered any more.
    pub(crate) fn die(&mut self, why: Error) {
        self.dead.get_or_insert(why.clone());
        for number in self.out.keys().copied().collect::<Vec<u64>>() {
            // (Those that come after it may have ended with it.)
            self.unsent.remove(&number);
            self.end(number, Err(why.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
