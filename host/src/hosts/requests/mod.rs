//! Requests that nodes work on, kept until they are answered so that they can be given to
//! another node when theirs stops.
//!
//! A write that is given to another node may take effect twice: all of the first attempt, or
//! some of its chunks, may have happened, or the survivors may settle that it did. In between no host must have seen
//! it and none must have overwritten it, or overwritten content would return. So one rule holds for all requests of
//! this process, whoever their host and their node: **while a change is in work, no other request that touches the
//! same bytes is.** Later ones wait here, in the order in which they came, and a change also
//! waits for earlier ones that wait.
//!
//! What follows from it: between a change's beginning and its end nobody reads or writes its
//! bytes, so that doing it again is the same as doing it once, and to hosts it happens at one
//! instant before its answer. Requests begun after it have later timestamps than each of its attempts, also than one
//! that is still being settled, and nodes keep to that order. A
//! change that nobody waits for any more, because its connection is gone, is not given to
//! another node nor begun again by its own; it keeps its bytes until its node has answered or
//! stopped, and what became of it is then for the survivors to settle, before anything later.
//!
//! The node of a host that is its own controller may be left out by the others, while the host was
//! paused, and come back as a new one: there is no other to give its requests to, and they are
//! *parked* until it is back. Another host may have written over what the others have settled of them. So in a cluster
//! the outcome of a request given to a node for a second time is determined first, by the name that it had
//! the first time, and done only if it has not happened (docs/internals/messages.md).
//!
//! Reads may be given to another node as they are: they change nothing. A change may begin
//! while a read of its bytes is in work; the read then sees them as before or as after it, or,
//! if it is longer than a chunk, some of each.
//!
//! Hosts that keep to distinct bytes, as file systems do, never wait here.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Instant;

use weft_core::cluster::{ClusterMap, Registrant};
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::order::{Again, Asker, HostId, Origin, Place, RequestId};
use weft_core::units::{Epoch, Timestamp, VolumeId};

use crate::doors::who::Who;
use crate::engine::{Answer, Engine};
use crate::hosts::course::{Course, Stage};
use crate::hosts::overlap::{Claim, Claims};
use crate::hosts::queue::Queue;
use crate::hosts::resets::Resets;
use shown::Shown;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A host's connection, and its number for the request.
    Session {
        /// The connection.
        conn: usize,
        /// Its number for the request.
        number: u64,
    },
    /// A host that numbers its requests. It may come back over another connection.
    Host {
        /// The host.
        host: HostId,
        /// Its number for the request.
        number: u64,
    },
    /// A control connection.
    Control {
        /// The connection.
        conn: usize,
    },
}

impl Owner {
    fn conn(self) -> Option<usize> {
        match self {
            Owner::Session { conn, .. } | Owner::Control { conn } => Some(conn),
            Owner::Host { .. } => None,
        }
    }
}

/// How a host left that names its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It said that it will not come back.
    ForGood,
    /// Its connection broke, and it may come back.
    Unsaid,
}

/// A request to give to a node.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) volume: VolumeId,
    pub(crate) op: HostOp,
    /// Its place in the graph of requests, if its host gave it one.
    pub(crate) place: Option<Place>,
    /// Earlier writes must be safe before it begins.
    pub(crate) first_flush: bool,
    /// The answer waits until the writes are safe.
    pub(crate) then_flush: bool,
    /// Its host has asked for it before, here or in another process.
    pub(crate) again: bool,
    /// The oldest of its host's requests that the host has not heard the end of, if it says.
    pub(crate) oldest: Option<u64>,
    /// By what name its host may have registered with the volume.
    pub(crate) registrant: Option<Arc<Registrant>>,
    /// Who asks, if it is a host.
    pub(crate) who: Option<Arc<Who>>,
    /// The epoch of the map in force when it came, if resets of the volume and preemptions concern it.
    pub(crate) came: Option<Epoch>,
}

struct Pending {
    /// `None` if nobody waits for the answer any more.
    owner: Option<Owner>,
    node: usize,
    job: Job,
    claim: Option<Claim>,
    /// Its host is gone, or may ask again in another process: no other node begins it.
    left: bool,
    /// By which it is known to those who take part in it.
    name: RequestId,
    /// When it was first given to a node; no attempt at it has an earlier timestamp.
    since: Option<Timestamp>,
    /// It may have been begun before: it is not begun again before it is known what became of that.
    again: bool,
    /// No attempt was made after this epoch, as far as they have been ended by reservations.
    tried_until: Epoch,
    /// The version of the volume's reservations that it was permitted under last.
    permitted: u64,
    /// Why it may not begin, if its place among others is taken nevertheless.
    refused: Option<HostError>,
    course: Course,
}

impl Job {
    /// One without a place.
    pub(crate) fn new(volume: VolumeId, op: HostOp, then_flush: bool) -> Job {
        Job {
            volume,
            op,
            place: None,
            first_flush: false,
            then_flush,
            again: false,
            oldest: None,
            registrant: None,
            who: None,
            came: None,
        }
    }

    /// Whether the nodes may hold it until others are done. What it waits for may touch the same
    /// bytes and come later, so it can claim nothing here: the sequencer orders it among those
    /// that overlap.
    fn waits_for_others(&self) -> bool {
        self.place.as_ref().is_some_and(|p| !p.after.is_empty())
    }
}

impl Pending {
    fn is_of(&self, conn: usize) -> bool {
        self.owner.is_some_and(|o| o.conn() == Some(conn))
    }

    fn is_of_host(&self, host: HostId) -> bool {
        matches!(self.owner, Some(Owner::Host { host: h, .. }) if h == host)
    }

    /// Where it is once it has been given to a node, or is parked.
    fn stage(&self, parks: bool) -> Stage {
        // Of a write: a host's own flush is work like any other.
        let flushes = self.claim.is_none() && matches!(self.job.op, HostOp::Flush);
        match (parks, self.job.first_flush || (flushes && self.course.is_of_write())) {
            (true, _) => Stage::Parked,
            (false, true) => Stage::Flush,
            (false, false) => Stage::Node,
        }
    }

    fn changes(&self) -> bool {
        self.claim.is_some_and(|c| c.changes())
    }
}

/// The version of a volume's reservations.
fn reservations_of(map: &ClusterMap, volume: VolumeId) -> u64 {
    map.volumes.get(&volume).map_or(0, |v| v.reservations.version)
}

/// What a request came to.
pub(crate) struct Finished {
    pub(crate) owner: Owner,
    pub(crate) volume: VolumeId,
    /// The node that it was given to last.
    pub(crate) node: usize,
    /// Where its time went.
    pub(crate) course: Course,
    pub(crate) result: Result<HostData, HostError>,
}

/// The requests in work, and those that wait for them.
pub(crate) struct Requests {
    next: u64,
    /// Whose the requests are that have no name, drawn when the process starts, and how many there were.
    us: HostId,
    named: u64,
    /// One of those that is no later than the oldest that is not over, and how many have been begun since it was looked
    /// for.
    oldest: (u64, usize),
    /// By the number that the node knows it by.
    pending: HashMap<u64, Pending>,
    /// What the changes among them touch.
    claims: Claims,
    waiting: Queue<Pending>,
    /// Those for a node that is coming back; they have their claims.
    parked: Vec<Pending>,
    resets: Resets,
    shown: Shown,
}

impl Default for Requests {
    fn default() -> Self {
        Requests {
            next: 0,
            us: HostId(RandomState::new().build_hasher().finish()),
            named: 0,
            oldest: (0, 0),
            pending: HashMap::new(),
            claims: Claims::default(),
            waiting: Queue::default(),
            parked: Vec::new(),
            resets: Resets::default(),
            shown: Shown::default(),
        }
    }
}

impl Requests {
    /// The name of a request for those who take part in it.
    fn name(&mut self, owner: Owner) -> RequestId {
        if let Owner::Host { host, number } = owner {
            return RequestId { host, number };
        }
        self.named += 1;
        RequestId { host: self.us, number: self.named }
    }

    /// The oldest of those without names of their own that is not over, or an earlier one: among many it is not looked
    /// for each time.
    fn oldest(&mut self, name: RequestId) -> u64 {
        self.oldest.1 += 1;
        if self.oldest.1 > (self.pending.len() + self.parked.len() + self.waiting.len()) / 8 {
            self.oldest = (self.find_oldest(name), 0);
        }
        self.oldest.0.min(name.number)
    }

    fn find_oldest(&self, name: RequestId) -> u64 {
        let all = self.pending.values().chain(&self.parked).chain(self.waiting.iter());
        let its = all.map(|p| p.name).filter(|n| n.host == name.host).map(|n| n.number);
        its.min().unwrap_or(name.number).min(name.number)
    }

    /// The known origin of a request.
    fn origin(&mut self, engine: &mut Engine, pending: &mut Pending, oldest: u64) -> Origin {
        let since = *pending.since.get_or_insert_with(|| match pending.job.again {
            // What its host asked of other processes is known by its name only.
            true => Timestamp(u64::MAX),
            false => engine.reading(),
        });
        let again = pending.again || pending.job.again;
        let epoch = engine.last_epoch.max(pending.tried_until);
        let again = again.then_some(Again { since, epoch });
        let permitted = reservations_of(engine.map(), pending.job.volume);
        pending.permitted = permitted;
        Origin { asker: Asker { id: pending.name, oldest }, again, permitted }
    }

    /// How many of a volume wait for others which touch the same bytes.
    pub(crate) fn waiting_of(&self, volume: VolumeId) -> usize {
        self.waiting.len_of(volume)
    }

    /// Hosts are about to be heard: their requests come after the resets and preemptions of this map.
    pub(crate) fn look_at(&mut self, map: &ClusterMap) {
        self.resets.look(map);
        self.shown.look(map);
    }

    /// Gives a request to `node` if it takes requests, or to another that does.
    pub(crate) fn submit(&mut self, engine: &mut Engine, owner: Owner, node: usize, job: Job) {
        let now = Instant::now();
        let mut course = Course::new(&job.op, now);
        course.is_within_limits(now);
        self.submit_since(engine, (owner, course), node, job);
    }

    /// The same for a request that has been on its way for a while.
    pub(crate) fn submit_since(
        &mut self,
        engine: &mut Engine,
        (owner, course): (Owner, Course),
        node: usize,
        job: Job,
    ) {
        let claim = Claim::of(job.volume, &job.op).filter(|_| !job.waits_for_others());
        let name = self.name(owner);
        let (left, since, again, tried_until, permitted) = (false, None, false, 0, 0);
        let owner = Some(owner);
        let pending = Pending {
            owner,
            node,
            job,
            claim,
            left,
            name,
            since,
            again,
            tried_until,
            permitted,
            refused: None,
            course,
        };
        let begins = match pending.claim {
            Some(claim) => self.waiting.admit(claim, self.claims.overlapping(&claim), pending),
            None => Some(pending),
        };
        if let Some(pending) = begins {
            self.begin(engine, pending);
        }
    }

    fn begin(&mut self, engine: &mut Engine, pending: Pending) {
        if let Some(claim) = pending.claim.filter(Claim::changes) {
            self.claims.take(&claim);
        }
        self.issue(engine, pending);
    }

    fn begin_waiting(&mut self, engine: &mut Engine) {
        while let Some(pending) = self.waiting.begin() {
            self.begin(engine, pending);
        }
    }

    fn issue(&mut self, engine: &mut Engine, mut pending: Pending) {
        let node = engine.originator(pending.node);
        let parks = node.is_none() && engine.hosts_wait();
        pending.course.enter(pending.stage(parks), Instant::now());
        if parks {
            return self.parked.push(pending);
        }
        self.look_at(engine.map());
        let refusal = self.refusal(&pending, engine.map());
        let may_pass =
            |e: &HostError| matches!(e, HostError::Reserved | HostError::OutOfRange { .. });
        if refusal.as_ref().is_some_and(may_pass) && engine.expects_map() {
            // The map that comes may permit it: perhaps another process has told hosts so already.
            return self.parked.push(pending);
        }
        let number = self.next;
        self.next += 1;
        let job = match pending.job.first_flush {
            true => Job { op: HostOp::Flush, place: None, ..pending.job.clone() },
            false => pending.job.clone(),
        };
        pending.node = node.unwrap_or(pending.node);
        let changes = pending.changes() || pending.job.waits_for_others();
        let oldest = pending.job.oldest.unwrap_or_else(|| self.oldest(pending.name));
        let origin = changes.then(|| self.origin(engine, &mut pending, oldest));
        let may_have_happened = pending.may_have_happened();
        let refused = |error| if may_have_happened { HostError::OutcomeUnknown } else { error };
        // Also of one whose flush comes first.
        let place = pending.job.place.clone();
        self.pending.insert(number, pending);
        if let Some(error) = refusal {
            let error = refused(error);
            if let (Some(node), Some(place)) = (node, place) {
                self.pending.get_mut(&number).expect("just put there").refused = Some(error);
                return engine.submit_ordered(node, number, job.volume, place, refusing::NOTHING);
            }
            return engine.answer((number, Err(error)));
        }
        match (node, origin, job.place) {
            (Some(node), Some(origin), place) => {
                engine.submit_named(node, number, job.volume, (origin, place), job.op);
            }
            (Some(node), None, Some(place)) => {
                engine.submit_ordered(node, number, job.volume, place, job.op);
            }
            (Some(node), None, None) => engine.submit(node, number, job.volume, job.op),
            (None, ..) => engine.answer((number, Err(refused(HostError::NotServing)))),
        }
    }

    /// A request is not in work any more, so that those it stood in the way of may be.
    fn end(&mut self, engine: &mut Engine, pending: &mut Pending) {
        if let Some(claim) = pending.claim.take().filter(Claim::changes) {
            self.claims.give_back(&claim);
            self.waiting.is_over(&claim);
            self.begin_waiting(engine);
        }
    }

    /// Takes an answer; `None` if nobody waits for it, or if something is still to be done.
    pub(crate) fn finish(&mut self, engine: &mut Engine, answer: Answer) -> Option<Finished> {
        let (number, result) = answer;
        let spent = engine.take_spent(number);
        let mut pending = self.pending.remove(&number)?;
        pending.course.answered(spent);
        let result = match pending.refused.take() {
            Some(error) => Err(error),
            None => result,
        };
        let result = match result {
            // Its host may ask for it again: it would begin late.
            Ok(_) if pending.job.first_flush && pending.left => Err(HostError::Gone),
            Ok(_) if pending.job.first_flush => {
                pending.job.first_flush = false;
                self.issue(engine, pending);
                return None;
            }
            Err(HostError::Outdated) if pending.owner.is_some() => {
                // Where it has a place it needs another name: the sequencer takes each once.
                if !pending.left && pending.job.place.is_none() {
                    self.permit_again(engine, pending);
                    return None;
                }
                Err(HostError::Gone)
            }
            result => result,
        };
        self.end(engine, &mut pending);
        let owner = pending.owner?;
        if pending.job.then_flush && result.is_ok() {
            (pending.job.then_flush, pending.job.place) = (false, None);
            pending.job.op = HostOp::Flush;
            self.issue(engine, pending);
            return None;
        }
        let Pending { job: Job { volume, .. }, node, course, .. } = pending;
        Some(Finished { owner, volume, node, course, result })
    }

    /// A request was permitted by reservations that have changed since, and may be permitted by the new ones. Some of it may
    /// have been done before.
    fn permit_again(&mut self, engine: &mut Engine, mut pending: Pending) {
        pending.again = true;
        pending.tried_until = engine.map().epoch.saturating_sub(1);
        let version = reservations_of(engine.map(), pending.job.volume);
        match version > pending.permitted {
            true => self.issue(engine, pending),
            // The node has a later map than this process.
            false => self.parked.push(pending),
        }
    }

    /// Gives what a node that stopped had in work to others.
    pub(crate) fn move_from(&mut self, engine: &mut Engine, node: usize) {
        let mut numbers: Vec<u64> =
            self.pending.iter().filter(|(_, p)| p.node == node).map(|(n, _)| *n).collect();
        // In the order in which they came, which readers of the log will expect.
        numbers.sort_unstable();
        for number in numbers {
            let Some(mut pending) = self.pending.remove(&number) else { continue };
            match pending.owner {
                Some(Owner::Host { .. }) if pending.left || pending.job.place.is_some() => {
                    // It needs another name: the sequencer takes each once.
                    engine.answer((number, Err(HostError::Gone)));
                    self.pending.insert(number, pending);
                }
                Some(_) => {
                    // In an array of one process nobody can have come in between: see above. But what compares would find
                    // what it has written itself.
                    let compares = matches!(pending.job.op, HostOp::Modify { .. });
                    pending.again |= engine.rule.together().is_some() || compares;
                    self.issue(engine, pending);
                }
                None => self.end(engine, &mut pending),
            }
        }
    }

    /// The node that was waited for is back, or will not be; or there is a new map.
    pub(crate) fn resume(&mut self, engine: &mut Engine) {
        let mut parked = std::mem::take(&mut self.parked);
        // The oldest first: nodes forget what they remember of older ones. What came while the node was stopping was
        // parked before what it had in work.
        parked.sort_by_key(|p| p.name.number);
        for pending in parked {
            self.issue(engine, pending);
        }
    }

    /// Takes those out that are parked and are such. They are not in work any more.
    fn drop_parked(&mut self, engine: &mut Engine, is: impl Fn(&Pending) -> bool) {
        for mut pending in self.parked.extract_if(.., |p| is(p)).collect::<Vec<Pending>>() {
            self.end(engine, &mut pending);
        }
    }

    /// Nobody waits any more for the answers to a connection that is gone.
    pub(crate) fn forget(&mut self, engine: &mut Engine, conn: usize) {
        self.waiting.drop_those(|p| p.is_of(conn));
        self.drop_parked(engine, |p| p.is_of(conn));
        for (number, pending) in self.pending.iter().filter(|(_, p)| p.is_of(conn)) {
            engine.abandon(pending.node, *number);
        }
        self.pending.retain(|_, p| p.changes() || !p.is_of(conn));
        for pending in self.pending.values_mut().filter(|p| p.is_of(conn)) {
            pending.owner = None;
        }
        self.begin_waiting(engine);
    }

    /// A host that names its requests is not connected any more. What waits is dropped, and its
    /// numbers are returned. Requests in progress continue, so that the host receives their outcomes when it
    /// reconnects; but if it does not come back, or may elsewhere, no node begins it again. (It
    /// could then happen after what the host asks there.)
    pub(crate) fn leave(&mut self, engine: &mut Engine, host: HostId, how: Leave) -> Vec<u64> {
        let number = |p: &Pending| match p.owner {
            Some(Owner::Host { number, .. }) => Some(number),
            _ => None,
        };
        let idle = self.waiting.iter().chain(&self.parked);
        let dropped = idle.filter(|p| p.is_of_host(host)).filter_map(number).collect();
        self.waiting.drop_those(|p| p.is_of_host(host));
        self.drop_parked(engine, |p| p.is_of_host(host));
        if how == Leave::ForGood || engine.rule.together().is_some() {
            for (number, pending) in self.pending.iter_mut().filter(|(_, p)| p.is_of_host(host)) {
                pending.left = true;
                engine.abandon(pending.node, *number);
            }
        }
        self.begin_waiting(engine);
        dropped
    }

    /// The volumes and the ways of hosts' requests that are in work or wait for others.
    pub(crate) fn of_hosts(&self) -> impl Iterator<Item = (VolumeId, &Course)> {
        let of_host =
            |p: &&Pending| matches!(p.owner, Some(Owner::Session { .. } | Owner::Host { .. }));
        let all = self.pending.values().chain(self.waiting.iter()).chain(&self.parked);
        all.filter(of_host).map(|p| (p.job.volume, &p.course))
    }
}

mod refusing;
mod shown;

#[cfg(test)]
mod tests;
