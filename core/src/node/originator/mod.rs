//! The originator: takes hosts' requests, cuts them into chunks, plans each chunk, tells the
//! workers, and answers the host.
//!
//! - this file: the life of jobs
//! - [`job`]: a chunk, a rebuild, the verification of a stripe
//! - [`requests`]: hosts' requests, which are cut into jobs and answered when these are done
//! - [`scrubbing`]: scrubs, which verify stripe after stripe
//! - [`settling`]: the end of a write: acknowledged, given up, or asked about
//! - [`writing`]: writes and rebuilds
//! - [`locking`]: locks from the lock server
//! - [`reading`]: reads, maps of holes and verification
//! - [`jobs`]: jobs that have not begun
//! - [`lacking`]: jobs that wait for lost nodes
//! - [`numbered`]: questions to other nodes with numbers
//! - [`spent`]: the time of a request by cause
//! - [`detours`]: reads that avoid a slow node
//! - [`speeds`]: which nodes are slow
//! - [`recalling`]: outcomes of repeated requests
//! - [`deferring`]: deferred parity, and the choice to copy a write
//! - [`folding`]: copies that are put in place and into parity
//! - [`relying`]: writes that rely on marks
//! - [`precedence`]: requests that others keep overtaking
//! - [`rebuilding`]: jobs that a worker has refused, and rebuilds

mod changed;
mod check;
mod deferring;
mod detours;
mod flushing;
mod folding;
mod job;
mod jobs;
mod lacking;
mod locking;
mod modifying;
mod numbered;
mod precedence;
mod reading;
mod rebuilding;
mod recalling;
mod relying;
mod requests;
mod scrubbing;
mod settling;
mod speeds;
mod spent;
mod used;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::account::Accounts;
use super::background::Background;
use super::outbox::Outbox;
use super::settle::{Inquiry, Verdict};
use super::worker::Folded;
use super::{
    Body, HostData, HostError, NodeClock, NodeConfig, Notice, Output, Refusal, Standing, Timer,
};
use crate::cluster::{ClusterMap, Volume};
use crate::layout::Geometry;
use crate::order::ByTime;
use crate::plan::{self, Waits};
use crate::policy::Policy;
use crate::units::{ColumnSet, Nanos, NodeId, Timestamp, VolumeId};

use detours::Detours;
use flushing::Flush;
use job::{Job, Purpose, What};
use jobs::Jobs;
use lacking::Lacking;
use locking::{Locks, unlock, unlock_given_up};
use modifying::is_forbidden;
use numbered::Numbered;
use precedence::Precedence;
use reading::Reading;
use rebuilding::Rebuilds;
use recalling::Recall;
use relying::KnownMarks;
use requests::OpenRequest;
pub(super) use requests::whole_stripes;
pub use scrubbing::{ScrubFindings, ScrubProgress};
pub use speeds::RunningMedian;
pub use spent::Spent;
use writing::Writing;
pub(super) use writing::new_data;

/// Columns that were unreadable one after the other, in different stripes or at different times, may be more than are
/// recoverable, although those of one stripe at one time are not. This often a job forgets them and tries again.
const FRESH_LOOKS: u32 = 16;

/// An attempt at a job.
#[derive(Clone, Hash)]
struct RunningJob {
    job: Job,
    /// The volume that has its address space: a snapshot, if one was taken before it was settled.
    volume: Arc<Volume>,
    /// The volume's policy when it began: it ends by that, even if the policy changes meanwhile.
    policy: Policy,
    /// The deferred parities.
    waits: Waits,
    /// Whether its job is done when it has happened.
    answers: bool,
    extent: usize,
    state: State,
    started: Nanos,
    /// The workers at which a request waits for its outcome.
    awaited_by: BTreeSet<NodeId>,
    /// A host's write that happened in an earlier epoch: the host waits until it is in place.
    decided: bool,
    /// Participants that had a say may have decided it among themselves.
    may_be_decided: bool,
    /// The refusal of a helper when the others may have prepared already.
    refusal: Option<Refusal>,
}

/// An attempt at a job: its timestamp, and the columns that it avoids.
struct Attempt {
    ts: Timestamp,
    job: Job,
    volume: Arc<Volume>,
    extent: usize,
    avoid: ColumnSet,
}

/// Why a job is impossible without the lost columns.
enum Unplanned {
    /// A stripe is verified as a whole or not at all.
    Verify,
    /// The remaining columns do not determine the content that it needs.
    Undetermined,
}

#[derive(Clone, Hash)]
enum State {
    Reading(Reading),
    Writing(Box<Writing>),
    /// The outcome of a write is unknown and being asked for.
    Asking(Inquiry, Vec<(usize, NodeId)>),
    /// It is given up, and participants that may have prepared it have yet to say that they have dropped it. Then the
    /// job continues according to the refusal, or is tried again if there was none.
    GivingUp(Inquiry, Vec<(usize, NodeId)>, Option<Refusal>),
}

/// Attempts at a job before its host gets an error: with the pauses between them at least several seconds.
const MOST_ATTEMPTS: u32 = 1000;
/// This often a late job is tried again at once. Then it pauses, longer each time up to a limit, so that conflicting
/// jobs do not meet again.
const AT_ONCE: u32 = 4;
const FIRST_PAUSE: Nanos = 50_000;
const MOST_DOUBLINGS: u32 = 8;
/// The same where a disk's locks were not granted in time: from a quarter of `lock_timeout` to 16 times that.
const MOST_DOUBLINGS_BUSY: u32 = 6;

/// A node's originator.
#[derive(Clone, Hash)]
pub(crate) struct Originator {
    config: NodeConfig,
    clock: NodeClock,
    /// The most bytes of an atomic piece that one disk may have to journal: they must fit the smallest journal.
    pub per_disk: u64,
    map: Arc<ClusterMap>,
    requests: BTreeMap<u64, Box<OpenRequest>>,
    /// Those of them that are scrubs.
    scrubs: BTreeSet<u64>,
    jobs: Jobs,
    lacking: Lacking,
    txns: ByTime<Box<RunningJob>>,
    /// Committed writes, with the participants that have not acknowledged the outcome.
    settling: ByTime<Box<Settling>>,
    flushes: Numbered<Flush>,
    /// Parts of repeated requests whose outcome is not yet known.
    recalls: Numbered<Recall>,
    locks: Locks,
    precedence: Precedence,
    rebuilds: Rebuilds,
    /// Parity that is known to be marked.
    known_marks: KnownMarks,
    detours: Detours,
    /// The deferred parity of volumes that this node controls.
    accounts: Accounts,
}

#[derive(Clone, Hash)]
struct Settling {
    volume: VolumeId,
    policy: Policy,
    stripes: std::ops::Range<u64>,
    participants: Vec<NodeId>,
    left: SmallVec<[NodeId; 8]>,
    /// The job that ends when all participants know (without journal).
    job: Option<Job>,
    since: Nanos,
}

impl Originator {
    pub fn new(node: NodeId, config: NodeConfig) -> Originator {
        Originator {
            config,
            clock: NodeClock::new(node),
            per_disk: config.max_chunk,
            map: Arc::new(ClusterMap::default()),
            requests: BTreeMap::new(),
            scrubs: BTreeSet::new(),
            jobs: Jobs::default(),
            lacking: Lacking::default(),
            txns: ByTime::default(),
            settling: ByTime::default(),
            flushes: Numbered::default(),
            recalls: Numbered::default(),
            locks: Locks::default(),
            precedence: Precedence::default(),
            rebuilds: Rebuilds::default(),
            known_marks: KnownMarks::default(),
            detours: Detours::new(config.detours),
            accounts: Accounts::new(config),
        }
    }

    /// The most bytes of an atomic piece of a request.
    pub fn most_atomic(&self, g: &Geometry) -> u64 {
        plan::most_atomic(g, self.config.max_chunk, self.per_disk)
    }

    /// Its clock.
    pub fn clock(&mut self) -> &mut NodeClock {
        &mut self.clock
    }

    /// Host requests in progress.
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// The number of retries of jobs.
    pub fn retries(&self) -> u64 {
        self.jobs.retries()
    }

    pub fn is_busy(&self) -> bool {
        !(self.requests.is_empty()
            && self.txns.is_empty()
            && self.settling.is_empty()
            && self.jobs.is_empty()
            && self.lacking.is_empty()
            && self.recalls.is_empty()
            && !self.locks.is_busy()
            && self.precedence.is_empty()
            && !self.accounts.is_learning()
            && self.rebuilds.are_awaited_by() == 0)
    }

    /// A summary of the work in progress.
    pub fn waiting(&self) -> String {
        format!(
            "{} requests, {} transactions, {} settling, {} waiting for a rebuild, {} for lost nodes",
            self.requests.len(),
            self.txns.len(),
            self.settling.len(),
            self.rebuilds.are_awaited_by(),
            self.lacking.len()
        )
    }

    /// Starts the jobs that can be started.
    pub fn run(&mut self, background: &mut Background, outbox: &mut Outbox) {
        if !self.scrubs.is_empty() || background.has_scrubs() {
            self.feed_scrubs(background, outbox);
        }
        if !self.accounts.is_empty() {
            self.refresh_next(background, outbox);
        }
        while let Some(job) = self.jobs.next(self.config.max_in_flight) {
            self.launch(job, outbox);
        }
    }

    /// Begins an attempt at a job. Usually there is none to begin, and then this must cost nothing.
    #[inline(never)]
    fn launch(&mut self, mut job: Job, outbox: &mut Outbox) {
        self.jobs.take_room(&mut job);
        job.is_to_read();
        let Some(volume) = self.volume_of(&job) else {
            self.finish(job, Err(HostError::NoVolume), outbox);
            return;
        };
        let gone = |id: u64| self.requests.get(&id).is_some_and(|r| r.gone);
        if matches!(job.purpose, Purpose::Host(id) if gone(id)) {
            self.finish(job, Err(HostError::Gone), outbox);
            return;
        }
        if job.attempts > MOST_ATTEMPTS {
            let error = HostError::NoProgress { attempts: job.attempts };
            return self.give_up_on(job, error, outbox);
        }
        let stripe = job.what.first_stripe(&volume);
        if stripe >= volume.stripes() {
            // Its range has been cut off meanwhile.
            let offset = stripe * volume.geometry.stripe_bytes();
            let error = HostError::OutOfRange { offset, len: job.bytes(), size: volume.size };
            return self.give_up_on(job, error, outbox);
        }
        if self.must_part(&job, &volume) {
            return self.part(job, outbox);
        }
        self.leave_rest(&mut job, &volume);
        let extent = volume.extent_of(stripe);
        let lost = self.map.lost(&volume, extent);
        if !job.with.is_empty() && !self.is_whole(&volume, extent) {
            job.with = ColumnSet::EMPTY;
        }
        let avoid = lost.union(job.avoid).union(job.mistrusts);
        let recoverable = |lost| volume.geometry.is_recoverable_in(job.what.stripes(&volume), lost);
        // Marks persist, however often they are checked.
        let may_change = !job.avoid.minus(job.marked).is_empty();
        if may_change && !recoverable(avoid) && recoverable(lost) && job.fresh_looks < FRESH_LOOKS {
            job.look_anew();
            job.fresh_looks += 1;
            self.retry_later(job, outbox);
            return;
        }
        let avoid = avoid.union(self.detour(&mut job, &volume, extent, avoid));
        let writes = matches!(job.what, What::Write(..) | What::Rebuild { .. } | What::Lose { .. });
        let is_disturbed = self.map.rests(&volume) && !self.config.keeps_rest();
        if writes && self.map.is_asleep(&volume) && !is_disturbed {
            return self.lacks_nodes(job, outbox);
        }
        if let Some(which) = self.must_recall(&job) {
            return self.recall(job, which, &volume, outbox);
        }
        if is_forbidden(&job, &volume) {
            return self.refuse_begun(job, HostError::NotOffered, outbox);
        }
        if writes && self.is_outdated(&job, &volume) {
            return self.refuse(job, HostError::Outdated, outbox);
        }
        if job.locked.as_ref().is_some_and(|l| l.avoid != avoid) {
            self.unlock_job(&mut job, outbox);
        }
        if self.gives_way(&job, &volume) {
            return self.hold(job);
        }
        // A job that cannot be planned needs no locks to be refused.
        if let Some(keeps) = volume.policy.ordering.keeps_locks()
            && job.locked.is_none()
            && !matches!(job.what, What::Used(..))
            && let Ok(locks) = locking::needed(&job, &self.map, &volume, avoid)
        {
            self.lock(job, locks, avoid, keeps, outbox);
            return;
        }
        if matches!(job.what, What::Used(..)) && !self.may_ask_for_used(&job, &volume, avoid) {
            return self.is_all_used(job, &volume, outbox);
        }
        let ts = self.clock.issue(outbox.now);
        self.begin(Attempt { ts, job, volume, extent, avoid }, outbox);
    }

    /// Asks the workers for their parts of a job.
    fn begin(&mut self, attempt: Attempt, outbox: &mut Outbox) {
        let begun = match attempt.job.what {
            What::Write(..) if attempt.job.reads_first() => {
                self.begin_read(&attempt, outbox).map(State::Reading)
            }
            What::Read(_)
            | What::Holes(_)
            | What::Own(_)
            | What::Used(..)
            | What::Compare(..)
            | What::Verify { .. } => self.begin_read(&attempt, outbox).map(State::Reading),
            What::Write(..) | What::Rebuild { .. } | What::Lose { .. } => {
                self.begin_write(&attempt, outbox).map(State::Writing)
            }
        };
        let Attempt { ts, mut job, volume, extent, .. } = attempt;
        job.course.held(outbox.now);
        match begun {
            Ok(state) => {
                self.may_be_hedged(&job, outbox);
                let job = RunningJob::new(job, volume, extent, state, outbox.now);
                self.txns.insert(ts, Box::new(job));
            }
            Err(Unplanned::Verify) => self.finish(job, Err(HostError::TooManyLost), outbox),
            Err(Unplanned::Undetermined) => self.nothing_determines(job, outbox),
        }
    }

    /// Tries a job again with a later timestamp.
    fn retry(&mut self, job: Job) {
        self.jobs.again(job);
    }

    /// Retries a job that others have overtaken: after a pause, if that continues.
    fn retry_later(&mut self, job: Job, outbox: &mut Outbox) {
        let Some(doublings) = job.attempts.checked_sub(AT_ONCE) else { return self.retry(job) };
        self.retry_after(job, FIRST_PAUSE << doublings.min(MOST_DOUBLINGS), outbox);
    }

    /// Retries a job after a pause of at most this time, and at least half of it.
    fn retry_after(&mut self, job: Job, most: Nanos, outbox: &mut Outbox) {
        let name = self.clock.issue(outbox.now);
        let pause = pause(most, name);
        // A job that is due before all others gets its own timer: at theirs they would begin together, and conflict
        // again.
        if self.jobs.pause(job, (outbox.now + pause, name)) {
            outbox.push(Output::Timer(Timer::Retry, pause));
        }
    }

    /// Pauses may be over.
    pub fn on_retry(&mut self, outbox: &mut Outbox) {
        if let Some(due) = self.jobs.end_pauses(outbox.now) {
            outbox.push(Output::Timer(Timer::Retry, due - outbox.now));
        }
    }

    /// A node answers, perhaps in an attempt at a job: the time until now was spent waiting for it.
    pub fn hears(&mut self, from: NodeId, ts: Timestamp, outbox: &Outbox) {
        let job = match self.txns.get_mut(&ts) {
            Some(txn) => Some(&mut txn.job),
            None => self.settling.get_mut(&ts).and_then(|settling| settling.job.as_mut()),
        };
        if let Some(job) = job {
            job.course.heard(from, outbox.node(), outbox.now);
        }
    }

    /// A job has succeeded or failed.
    fn finish(&mut self, mut job: Job, result: Result<HostData, HostError>, outbox: &mut Outbox) {
        job.course.held(outbox.now);
        self.unlock_job(&mut job, outbox);
        self.give_up_claim(&mut job);
        match job.purpose {
            Purpose::Rebuild => self.rebuilt(&job, result.is_ok(), outbox),
            Purpose::Repair => {}
            Purpose::Fold(of, kept) => {
                self.folded(job, (of, kept), result.map(|_| Folded::InPlace))
            }
            Purpose::Host(id) => {
                self.jobs.give_room(&mut job);
                self.accounts.used(outbox.now);
                self.part_done(id, &job, result, outbox);
            }
        }
    }

    /// Looks for overdue work.
    pub fn tick(&mut self, outbox: &mut Outbox) {
        let now = outbox.now;
        let patience = self.config.patience;
        let late = |t: &RunningJob| {
            let factor = 1 << t.job.attempts.min(4);
            now.saturating_sub(t.started) >= patience * factor
        };
        let waiting: Vec<_> =
            self.txns.iter().filter(|(_, t)| late(t)).map(|(ts, _)| *ts).collect();
        for ts in waiting {
            if matches!(self.txns[&ts].state, State::Reading(_)) {
                let mut txn = self.txns.remove(&ts).expect("just seen");
                txn.job.course.silent(now);
                unlock_given_up(ts, &txn, outbox);
                if self.map.is_asleep(&txn.volume) {
                    // It waits for the outcome of a write that no node can know now.
                    self.lacks_nodes(txn.job, outbox);
                } else {
                    self.retry(txn.job);
                }
            } else {
                self.inquire(ts, outbox);
            }
        }
        self.tick_flushes(outbox);
        self.tick_recalls(outbox);
        self.tick_locks(outbox);
        self.tick_waiting(outbox);
        self.accounts.tick(outbox);
        for (ts, settling) in self.settling.iter_mut() {
            if now.saturating_sub(settling.since) >= patience {
                settling.since = now;
                settling.left.iter().for_each(|n| outbox.notice(*n, Notice::Commit(*ts)));
            }
        }
    }

    /// Work on volumes that no longer exist ends. No participant is asked for the outcome of a write: all forget it
    /// when they enter the epoch. Jobs that have not begun end when they are due.
    fn leave_removed(&mut self, outbox: &mut Outbox) {
        let map = self.map.clone();
        let is_gone = |volume: VolumeId| !map.volumes.contains_key(&volume);
        let txns = self.txns.take_where(|t| is_gone(t.job.volume));
        let writes = |s: &Settling| s.job.as_ref().is_some_and(|j| is_gone(j.volume));
        let settling = self.settling.take_where(|s| writes(s)).into_iter();
        for job in txns.into_iter().map(|t| t.job).chain(settling.filter_map(|s| s.job)) {
            self.finish(job, Err(HostError::NoVolume), outbox);
        }
        self.leave_scrubs(is_gone);
    }

    /// A new epoch: reads begin again, and writes are settled with the remaining nodes.
    pub fn enter(&mut self, map: &Arc<ClusterMap>, outbox: &mut Outbox) {
        self.map = map.clone();
        self.leave_removed(outbox);
        self.enter_recalls();
        self.known_marks.enter();
        self.accounts.enter(map, outbox);
        self.enter_detours();
        self.enter_waiting(outbox.now);
        for (ts, settling) in std::mem::take(&mut self.settling) {
            // The participants settle it among themselves; a host that still waits is answered after that.
            if let Some(job) = settling.job {
                let volume = map.volumes[&job.volume].clone();
                let stripe = job.what.first_stripe(&volume);
                if stripe >= volume.stripes() {
                    // Its range has been cut off since.
                    self.finish(job, Ok(HostData::Done), outbox);
                    continue;
                }
                let extent = volume.extent_of(stripe);
                let columns = settling.participants.iter();
                // A disk that its column is leaving knows of it too.
                let place = |n: &NodeId| Some((volume.extents[extent].place_on(*n)?.0, *n));
                let participants = columns.filter_map(place).collect();
                let state = State::Asking(Inquiry::default(), participants);
                let txn = RunningJob::new(job, volume, extent, state, outbox.now);
                let decided = matches!(txn.job.purpose, Purpose::Host(_));
                let txn = RunningJob { decided, policy: settling.policy, ..txn };
                self.txns.insert(ts, Box::new(txn));
            }
        }
        for ts in self.txns.keys().copied().collect::<Vec<_>>() {
            self.find_volume(ts);
            let txn = self.txns.get_mut(&ts).expect("just seen");
            // A disk may now have content that it lacked: no rebuild is needed, and it may be impossible.
            txn.refusal = None;
            match &mut txn.state {
                State::Reading(_) => {
                    let mut txn = self.txns.remove(&ts).expect("just seen");
                    txn.job.course.silent(outbox.now);
                    self.retry(txn.job);
                }
                State::Asking(inquiry, _) => {
                    *inquiry = Inquiry::default();
                    self.inquire(ts, outbox);
                }
                State::GivingUp(_, participants, _) => {
                    // The remaining participants decide, and may not have heard of it.
                    txn.state = State::Asking(Inquiry::default(), std::mem::take(participants));
                    self.inquire(ts, outbox);
                }
                State::Writing(_) => self.inquire(ts, outbox),
            }
        }
        self.enter_scrubs(map, outbox.now);
        self.enter_locks(outbox);
        self.jobs.all_ready(self.rebuilds.take_all_waiting());
        self.enter_flushes(outbox);
    }
}

impl RunningJob {
    fn new(
        job: Job,
        volume: Arc<Volume>,
        extent: usize,
        state: State,
        started: Nanos,
    ) -> RunningJob {
        let policy = volume.policy_at(job.what.first_stripe(&volume));
        let waits = match &state {
            State::Writing(writing) => writing.waits(),
            _ => Waits::NONE,
        };
        RunningJob {
            job,
            volume,
            policy,
            waits,
            answers: true,
            extent,
            state,
            started,
            awaited_by: BTreeSet::new(),
            decided: false,
            may_be_decided: false,
            refusal: None,
        }
    }
}

/// A time between half of `most` and all of it, determined by `name`.
fn pause(most: Nanos, name: Timestamp) -> Nanos {
    let half = most / 2;
    // The multiplier of the 64-bit linear congruential generator of Knuth's MMIX.
    half + (name.0.wrapping_mul(6_364_136_223_846_793_005) >> 32) % half
}
