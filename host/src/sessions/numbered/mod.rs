//! Hosts that say which requests must come first: the known requests of each, the order in which they may begin, and
//! the outcomes that the host has not acknowledged.
//!
//! A host numbers its requests one after the other and says with each which is the oldest that
//! it has not heard the end of (TickerTAIP, 3.4.3). Everything below that is complete, and forgotten. Here a request
//! *begins*: it is handed to a node when all that must come first are
//! complete, so that its effect is as if it began after them (3.4.2). On a volume whose ordering is
//! the sequencer's, requests of different hosts may depend on one another and the nodes see to
//! all of it: there nothing is held back here.
//!
//! | state | until |
//! |---|---|
//! | held | all that must come first are done; or one of them failed, and it is aborted; or one has not been sent after [`NEVER_ISSUED`], which is refused when it comes |
//! | in work | its node has answered |
//! | done, failed | the host says that it has heard |
//!
//! **A host that comes back** repeats what it has not heard the end of, under the same numbers. A
//! change that is done is answered and not done again. One in work is answered when it ends.
//! One that was held when the connection broke was given up then, and so is new. So nothing is
//! done twice while this process remembers the host: as long as it is connected, and
//! [`REMEMBERED`] after that. A host that moves to another process of a cluster takes its state along
//! ([`NumberedHosts::take_leave`], [`NumberedHosts::adopt`]), unless that is lost with a
//! process; `docs/internals/client-protocol.md` says what follows.
//!
//! No I/O and no clock here: the reactor says what time it is and does what comes of it.

mod hearing;
mod leaving;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use weft_core::node::{HostData, HostError, HostOp};
use weft_core::order::{HostId, PlaceError, RequestId};

pub(crate) use leaving::Departure;
use names::Names;

use crate::holder::Holder;

/// How long a request may wait for one that has not been sent.
pub(crate) const NEVER_ISSUED: Duration = Duration::from_secs(30);

/// How many requests that have not been sent a host may name.
pub(crate) const MOST_UNISSUED: usize = 64;

/// How far a number may be ahead of the oldest that its host has not heard of. It bounds the state kept of a host's
/// requests.
pub(crate) const AHEAD: u64 = 16_384;

/// How long a host is remembered that is not connected.
const REMEMBERED: Duration = Duration::from_secs(600);

/// How many hosts are remembered that are not connected.
const MOST_REMEMBERED: usize = 1024;

/// A request as its host sent it.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) number: u64,
    pub(crate) oldest: u64,
    pub(crate) op: HostOp,
    pub(crate) after: Vec<RequestId>,
    /// It was sent before, over a connection that broke.
    pub(crate) again: bool,
    /// The answer waits until the effect is safe.
    pub(crate) then_flush: bool,
    /// What it comes after must be made safe before it begins.
    pub(crate) first_flush: bool,
    /// The nodes see to what must come first.
    pub(crate) sequenced: bool,
}

impl Ask {
    fn changes(&self) -> bool {
        matches!(self.op, HostOp::Write(..) | HostOp::WriteZeroes(_) | HostOp::Trim(_))
    }

    /// Why it fails that cannot have its place. If it was sent before, it may have happened.
    fn refused(&self, why: Failure) -> Failure {
        match why {
            Failure::Host(HostError::Place(_)) if self.again && self.changes() => {
                HostError::OutcomeUnknown.into()
            }
            why => why,
        }
    }
}

/// Why a request is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// Its node says so, or its place in the graph.
    #[error(transparent)]
    Host(HostError),
    /// Its number is too far ahead.
    #[error(
        "request {number} is {AHEAD} or more ahead of {oldest}, the oldest that the host has not acknowledged"
    )]
    TooFarAhead {
        /// The request.
        number: u64,
        /// The oldest that the host has not heard of.
        oldest: u64,
    },
    /// It names a request of its host with a higher number.
    #[error("request {number} cannot follow {named}, which comes later; name earlier requests")]
    NamesLater {
        /// The request.
        number: u64,
        /// What it names.
        named: u64,
    },
}

impl Failure {
    /// The request because of which `of` was not done: itself, unless another that it comes after was not.
    fn root(&self, of: RequestId) -> RequestId {
        match self {
            Failure::Host(HostError::Place(PlaceError::Aborted(root))) => *root,
            _ => of,
        }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Failure {
        Failure::Host(error)
    }
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Failure {
        Failure::Host(error.into())
    }
}

/// What the reactor is to do, in order.
#[derive(Debug)]
pub(crate) enum Step {
    /// Hand it to a node, under this name.
    Begin(HostId, RequestId, Ask),
    /// Answer it, if its host is connected.
    Answer(HostId, u64, Result<HostData, Failure>),
    /// The host must look for another process.
    HangUp(HostId),
}

enum State {
    /// It waits for these of its host.
    Held {
        waits: BTreeSet<u64>,
        ask: Box<Ask>,
    },
    /// A node works on it. `again` is what to do if it was given up and the host still wants it.
    InWork {
        heard: bool,
        again: Option<Box<Ask>>,
    },
    Done,
    Failed(Failure, Instant),
}

/// The state of a host.
struct NumberedHost {
    holder: Holder,
    conn: Option<usize>,
    /// Since when it is not connected.
    left: Instant,
    /// It said that it will not come back: it is forgotten when nothing of it is in work.
    for_good: bool,
    /// Another process has asked for its outcomes, which are kept.
    has_left: bool,
    /// Counts up whenever a host is let in here.
    stay: u64,
    oldest: u64,
    requests: BTreeMap<u64, State>,
    /// The failed ones that the host has heard of, the oldest first.
    heard_failures: BTreeSet<(Instant, u64)>,
    /// Of a request: those held that wait for it.
    followers: BTreeMap<u64, BTreeSet<u64>>,
    /// Requests that others wait for and that have not been sent; and since when.
    unissued: BTreeMap<u64, Instant>,
    names: Names,
}

/// The state of all hosts that use the native protocol.
#[derive(Default)]
pub(crate) struct NumberedHosts {
    hosts: BTreeMap<HostId, NumberedHost>,
    /// How often hosts have been let in.
    stays: u64,
}

impl NumberedHosts {
    /// The connection of a host, if it has one.
    pub(crate) fn conn(&self, host: HostId) -> Option<usize> {
        self.hosts.get(&host)?.conn
    }

    /// Whether a number is known as another host's, or as one for another volume.
    pub(crate) fn is_anothers(&mut self, host: HostId, holder: &Holder, now: Instant) -> bool {
        self.forget_old(now);
        self.hosts.get(&host).is_some_and(|known| known.holder != *holder)
    }

    /// A host has come, perhaps again, whose number is not another's; the connection that it had before is gone. Says
    /// whether it is remembered.
    pub(crate) fn arrive(
        &mut self,
        host: HostId,
        conn: usize,
        holder: Holder,
        now: Instant,
    ) -> bool {
        debug_assert!(!self.is_anothers(host, &holder, now), "it has been refused");
        self.forget_old(now);
        let remembered = self.is_here(host);
        self.stays += 1;
        let session = self.hosts.entry(host).or_insert_with(|| NumberedHost {
            holder,
            conn: None,
            left: now,
            for_good: false,
            has_left: false,
            stay: 0,
            oldest: 1,
            requests: BTreeMap::new(),
            heard_failures: BTreeSet::new(),
            followers: BTreeMap::new(),
            unissued: BTreeMap::new(),
            names: Names::new(host),
        });
        (session.conn, session.stay) = (Some(conn), self.stays);
        (session.for_good, session.has_left) = (false, false);
        remembered
    }

    /// A host's connection broke: what has not begun is given up. Says whether it was this host's.
    pub(crate) fn lose(&mut self, host: HostId, conn: usize, now: Instant) -> bool {
        let Some(session) = self.hosts.get_mut(&host).filter(|s| s.conn == Some(conn)) else {
            return false;
        };
        (session.conn, session.left) = (None, now);
        session.requests.retain(|_, state| !matches!(state, State::Held { .. }));
        session.followers.clear();
        session.unissued.clear();
        for state in session.requests.values_mut() {
            if let State::InWork { heard, again } = state {
                (*heard, *again) = (false, None);
            }
        }
        true
    }

    /// A host has said that it will not come back.
    pub(crate) fn bye(&mut self, host: HostId, conn: usize, now: Instant) {
        if self.lose(host, conn, now)
            && let Some(session) = self.hosts.get_mut(&host)
        {
            session.for_good = true;
            self.forget_if_over(host);
        }
    }

    fn forget_if_over(&mut self, host: HostId) {
        if self.hosts.get(&host).is_some_and(|s| s.for_good && s.is_idle()) {
            self.hosts.remove(&host);
        }
    }

    fn forget_old(&mut self, now: Instant) {
        let gone = |s: &NumberedHost| s.conn.is_none() && s.is_idle();
        self.hosts.retain(|_, s| !gone(s) || now.duration_since(s.left) < REMEMBERED);
        while self.hosts.values().filter(|s| gone(s)).count() >= MOST_REMEMBERED {
            let oldest = self.hosts.iter().filter(|(_, s)| gone(s)).min_by_key(|(_, s)| s.left);
            let Some(host) = oldest.map(|(host, _)| *host) else { return };
            self.hosts.remove(&host);
        }
    }

    /// Takes a request.
    pub(crate) fn take(&mut self, host: HostId, ask: Ask, now: Instant, out: &mut Vec<Step>) {
        if let Some(session) = self.hosts.get_mut(&host) {
            session.take(host, ask, now, out);
        }
    }

    /// A node has answered. One that was given up with its connection says [`HostError::Gone`].
    pub(crate) fn finished(
        &mut self,
        host: HostId,
        number: u64,
        result: Result<HostData, HostError>,
        now: Instant,
        out: &mut Vec<Step>,
    ) {
        if let Some(session) = self.hosts.get_mut(&host) {
            session.finished(host, number, result, now, out);
            self.forget_if_over(host);
        }
    }

    /// When something is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let of = |s: &NumberedHost| s.unissued.values().min().map(|at| *at + NEVER_ISSUED);
        self.hosts.values().filter_map(of).min()
    }

    /// Aborts what has waited too long for something that was not sent.
    pub(crate) fn do_due(&mut self, now: Instant, out: &mut Vec<Step>) {
        for (host, session) in &mut self.hosts {
            let late = |at: &Instant| now.duration_since(*at) >= NEVER_ISSUED;
            let all: Vec<u64> =
                session.unissued.iter().filter(|(_, at)| late(at)).map(|(n, _)| *n).collect();
            for number in all {
                session.unissued.remove(&number);
                // Nothing could come after it any more: it is refused when it comes.
                let late = PlaceError::TooLate(RequestId { host: *host, number });
                session.note_failure(number, late.into(), now);
                let why = PlaceError::NeverIssued(RequestId { host: *host, number });
                for follower in session.followers.remove(&number).unwrap_or_default() {
                    session.fail(*host, follower, why.clone().into(), now, out);
                }
            }
        }
    }
}

impl NumberedHost {
    fn is_idle(&self) -> bool {
        !self.requests.values().any(|s| matches!(s, State::InWork { .. }))
    }

    /// Whether no request may have this number yet. Hosts choose numbers freely: none of them may overflow.
    fn is_too_far_ahead(&self, number: u64) -> bool {
        number.saturating_sub(self.oldest) >= AHEAD
    }

    fn take(&mut self, host: HostId, ask: Ask, now: Instant, out: &mut Vec<Step>) {
        let number = ask.number;
        let refuse = |why: Failure| Step::Answer(host, number, Err(why));
        self.hear(ask.oldest, now);
        if self.is_too_far_ahead(number) {
            return out.push(refuse(Failure::TooFarAhead { number, oldest: self.oldest }));
        }
        let reused = || refuse(PlaceError::Reused(RequestId { host, number }).into());
        match self.requests.get_mut(&number) {
            None if number < self.oldest => out.push(reused()),
            None => self.place(host, ask, now, out),
            Some(State::Failed(
                why @ Failure::Host(HostError::Place(PlaceError::TooLate(_))),
                _,
            )) => {
                out.push(refuse(why.clone()));
            }
            Some(_) if !ask.again => out.push(reused()),
            Some(State::Held { .. }) => out.push(reused()),
            Some(State::InWork { heard: true, .. }) => out.push(reused()),
            Some(State::InWork { heard, again }) => {
                (*heard, *again) = (true, Some(Box::new(ask)));
            }
            Some(State::Done) if ask.changes() => {
                out.push(Step::Answer(host, number, Ok(HostData::Done)));
            }
            // Content of reads is not kept, and flushed writes may have grown. All that comes first
            // is complete, since it was done.
            Some(State::Done) => {
                let ask = Ask { sequenced: false, after: Vec::new(), ..ask };
                self.begin(host, ask, out);
            }
            Some(State::Failed(why, _)) => out.push(refuse(why.clone())),
        }
    }

    /// Finds a new request's place.
    fn place(&mut self, host: HostId, ask: Ask, now: Instant, out: &mut Vec<Step>) {
        let number = ask.number;
        self.unissued.remove(&number);
        if ask.sequenced {
            if ask.again {
                // The nodes may know it, from another process.
                self.names.rename(number);
            }
            return self.begin(host, ask, out);
        }
        match self.waits(host, &ask) {
            Err(why) => self.fail(host, number, ask.refused(why), now, out),
            Ok(waits) if waits.is_empty() => self.begin(host, ask, out),
            Ok(waits) => {
                for wait in &waits {
                    self.followers.entry(*wait).or_default().insert(number);
                    if !self.requests.contains_key(wait) {
                        self.unissued.entry(*wait).or_insert(now);
                    }
                }
                self.requests.insert(number, State::Held { waits, ask: Box::new(ask) });
            }
        }
    }

    fn begin(&mut self, host: HostId, mut ask: Ask, out: &mut Vec<Step>) {
        // Where the nodes see to the order it is given to them again if its node stops.
        let again = ask.sequenced.then(|| Box::new(ask.clone()));
        self.requests.insert(ask.number, State::InWork { heard: true, again });
        let done = |id: &RequestId| {
            id.host == host && matches!(self.requests.get(&id.number), Some(State::Done))
        };
        ask.after.retain(|id| !done(id));
        ask.after.iter_mut().for_each(|id| *id = self.names.inside(*id));
        let name = self.names.inside(RequestId { host, number: ask.number });
        out.push(Step::Begin(host, name, ask));
    }

    /// What a request has to wait for.
    fn waits(&self, host: HostId, ask: &Ask) -> Result<BTreeSet<u64>, Failure> {
        let mut waits = BTreeSet::new();
        let mut unissued = self.unissued.len();
        for first in &ask.after {
            let number = first.number;
            if first.host != host {
                return Err(PlaceError::NotOrdered(*first).into());
            }
            if number == ask.number {
                return Err(PlaceError::AfterItself(*first).into());
            }
            // So there are no cycles to look for.
            if number > ask.number {
                return Err(Failure::NamesLater { number: ask.number, named: number });
            }
            match self.requests.get(&number) {
                Some(State::Failed(why, _)) => {
                    return Err(PlaceError::Aborted(why.root(*first)).into());
                }
                Some(State::Held { .. } | State::InWork { .. }) => drop(waits.insert(number)),
                Some(State::Done) => {}
                // Heard of, so it is complete.
                None if number < self.oldest => {}
                None => {
                    let new = !self.unissued.contains_key(&number) && waits.insert(number);
                    waits.insert(number);
                    unissued += usize::from(new);
                    if unissued > MOST_UNISSUED {
                        let bound = MOST_UNISSUED;
                        return Err(PlaceError::TooManyUnissued { host: host.0, bound }.into());
                    }
                }
            }
        }
        Ok(waits)
    }

    fn finished(
        &mut self,
        host: HostId,
        number: u64,
        result: Result<HostData, HostError>,
        now: Instant,
        out: &mut Vec<Step>,
    ) {
        let Some(State::InWork { heard, again }) = self.requests.get_mut(&number) else { return };
        let (heard, again) = (*heard, again.take());
        match result {
            Err(HostError::Gone) => match again {
                Some(mut ask) => {
                    // Some of it may have happened.
                    ask.again = true;
                    if ask.sequenced {
                        self.names.rename(number);
                    }
                    self.begin(host, *ask, out);
                }
                None => self.unknow(number, now),
            },
            Err(HostError::NotServing) => {
                // Another process may do it; this one has not.
                self.unknow(number, now);
                if heard {
                    out.push(Step::HangUp(host));
                }
            }
            Err(e) => {
                let why = self.with_root(host, self.names.translate(e)).into();
                let why = again.iter().fold(why, |why, ask| ask.refused(why));
                self.fail(host, number, why, now, out);
            }
            Ok(data) => {
                match number < self.oldest {
                    true => drop(self.requests.remove(&number)),
                    false => drop(self.requests.insert(number, State::Done)),
                }
                if heard {
                    out.push(Step::Answer(host, number, Ok(data)));
                }
                self.release(host, number, out);
            }
        }
    }

    /// What a node says, with the first request that was not done, if that is known here.
    fn with_root(&self, host: HostId, error: HostError) -> HostError {
        if let HostError::Place(PlaceError::Aborted(id)) = &error
            && id.host == host
            && let Some(State::Failed(why, _)) = self.requests.get(&id.number)
        {
            return PlaceError::Aborted(why.root(*id)).into();
        }
        error
    }

    /// One is as if it had never been sent.
    fn unknow(&mut self, number: u64, now: Instant) {
        self.requests.remove(&number);
        if self.followers.contains_key(&number) {
            self.unissued.insert(number, now);
        }
    }

    /// One is complete: those that waited for nothing else begin.
    fn release(&mut self, host: HostId, number: u64, out: &mut Vec<Step>) {
        for follower in self.followers.remove(&number).unwrap_or_default() {
            let Some(State::Held { waits, ask }) = self.requests.get_mut(&follower) else {
                continue;
            };
            waits.remove(&number);
            if waits.is_empty() {
                let ask = Ask::clone(ask);
                self.begin(host, ask, out);
            }
        }
    }

    /// One is not done, and so is none of those that wait for it (3.4.2).
    fn fail(&mut self, host: HostId, number: u64, why: Failure, now: Instant, out: &mut Vec<Step>) {
        let mut failing = vec![(number, why)];
        while let Some((number, why)) = failing.pop() {
            let root = why.root(RequestId { host, number });
            let before = self.requests.remove(&number);
            let why = match &before {
                Some(State::Held { ask, .. }) => ask.refused(why),
                _ => why,
            };
            self.note_failure(number, why.clone(), now);
            if let Some(State::Held { waits, .. }) = &before {
                for wait in waits {
                    self.leave(*wait, number);
                }
            }
            if !matches!(before, Some(State::InWork { heard: false, .. })) {
                out.push(Step::Answer(host, number, Err(why)));
            }
            let because = PlaceError::Aborted(root);
            for follower in self.followers.remove(&number).unwrap_or_default() {
                failing.push((follower, because.clone().into()));
            }
        }
    }

    /// `follower` waits for `number` no more.
    fn leave(&mut self, number: u64, follower: u64) {
        if let Some(all) = self.followers.get_mut(&number) {
            all.remove(&follower);
            if all.is_empty() {
                self.followers.remove(&number);
                self.unissued.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests;
