//! Hosts' requests at the originator: cut into jobs, and answered when all are done.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::changed::Changes;
use super::deferring;
use super::modifying::HostModify;
use super::scrubbing::Scrub;
use super::spent::{Course, Spent};
use super::used::Then;
use super::{Job, Originator, Purpose, What};
use crate::Buffer;
use crate::cluster::{ClusterMap, Volume};
use crate::node::outbox::{ForEndpoint, Outbox};
use crate::node::{Holder, HostData, HostError, HostOp, LostRange, Output};
use crate::order::Origin;
use crate::plan::Range;
use crate::units::{MILLIS, Nanos, Timestamp, VolumeId};

/// Requests that took this long are logged with their time by cause.
const LONG: Nanos = 10 * MILLIS;

/// A host's request in progress.
#[derive(Clone, Hash)]
pub(super) struct OpenRequest {
    pub volume: VolumeId,
    pub answer: Answer,
    /// Jobs that are not finished.
    pub left: usize,
    /// Its time by cause: that of the job that ended last.
    pub spent: Spent,
    /// Of the slowest job: jobs run in parallel.
    pub round_trips: u64,
    pub error: Option<HostError>,
    /// Its host is gone: no more of it is begun.
    pub gone: bool,
    /// Its known origin.
    pub origin: Option<Origin>,
    /// The endpoint that holds its bytes, or receives them, if there is one.
    pub holder: Option<Holder>,
    /// Whether its bytes are here, too.
    pub is_inline: bool,
    /// The attempts whose pieces the endpoint has.
    pub counted: Vec<Timestamp>,
}

#[derive(Clone, Hash)]
pub(super) enum Answer {
    Done,
    Bytes(BTreeMap<u64, Vec<Buffer>>),
    Extents(BTreeMap<u64, Vec<(u64, bool)>>),
    Changed(Changes),
    Scrub(Scrub),
    /// Sectors of parity that could not be computed.
    Refreshed(u64),
    /// Bytes that are lost, and the first ranges of them.
    Lost(u64, Vec<LostRange>),
    /// The part of a range that all disks have searched, and its exposed parts.
    Exposed(Range, Vec<Range>),
}

impl Answer {
    /// If it says what has changed.
    pub fn changes(&mut self) -> Option<&mut Changes> {
        match self {
            Answer::Changed(changes) => Some(changes),
            _ => None,
        }
    }
}

impl Originator {
    /// A host's request.
    pub fn host(
        &mut self,
        id: u64,
        volume: VolumeId,
        op: HostOp,
        origin: Option<Origin>,
        map: &ClusterMap,
        outbox: &mut Outbox,
    ) {
        let Some(volume) = map.volumes.get(&volume).cloned() else {
            outbox.reply(id, Err(HostError::NoVolume));
            return;
        };
        if let Some(range) = op.range()
            && (range.len == 0 || range.end() > volume.size || range.end() < range.offset)
        {
            outbox.reply(id, Err(out_of_range(range, &volume, origin)));
            return;
        }
        let now = outbox.now;
        match op {
            HostOp::Read(range) => {
                let what = self.cut(&volume, range, What::Read);
                self.take((id, now), &volume, Answer::Bytes(BTreeMap::new()), what);
            }
            HostOp::Holes(range) => {
                let what = self.with_care(&volume, range, Then::Holes);
                self.take((id, now), &volume, Answer::Extents(BTreeMap::new()), what);
            }
            HostOp::Changed(range, since) => {
                let answer = Answer::Changed(Changes::new(volume.id, since, range, map));
                self.requests.insert(id, Box::new(OpenRequest::new(volume.id, answer, 0)));
                self.step_changed(id, outbox);
            }
            HostOp::Write(offset, data) => {
                let range = Range { offset, len: data.len() as u64 };
                let what = self.cut(&volume, range, |r| {
                    let at = (r.offset - offset) as usize;
                    What::Write(r, data.slice(at, at + r.len as usize))
                });
                self.take((id, now), &volume, Answer::Done, what);
            }
            HostOp::Modify { offset, data, by } => {
                self.modify(id, &volume, HostModify { offset, data, by, origin }, outbox);
            }
            HostOp::WriteZeroes(range) => {
                let what = self.with_care(&volume, range, Then::Zero);
                self.take((id, now), &volume, Answer::Done, what);
            }
            HostOp::Trim(range) => match whole_stripes(&volume, range) {
                Some(inner) => {
                    let what = self.with_care(&volume, inner, Then::Zero);
                    self.take((id, now), &volume, Answer::Done, what);
                }
                None => outbox.reply(id, Ok(HostData::Done)),
            },
            HostOp::Flush => return self.flush(id, &volume, outbox),
            HostOp::Refresh(range) => self.refresh(id, &volume, range, outbox),
            HostOp::Accept(range) => {
                let jobs = deferring::accepting(&volume, range, id);
                self.requests
                    .insert(id, Box::new(OpenRequest::new(volume.id, Answer::Done, jobs.len())));
                self.jobs.queue(jobs);
            }
            HostOp::Lost(range) => self.list_lost(id, &volume, range, outbox),
            HostOp::Exposed(range) => self.list_exposed(id, &volume, range, outbox),
            HostOp::Scrub { from, rate, trust } => {
                let answer = Answer::Scrub(Scrub::new(&volume, from, rate, trust));
                let request = OpenRequest::new(volume.id, answer, 0);
                self.requests.insert(id, Box::new(request));
                self.scrubs.insert(id);
            }
        }
        if let Some(request) = self.requests.get_mut(&id) {
            request.origin = origin;
        }
    }

    /// An endpoint holds the bytes of a request, or receives them.
    pub fn is_held(&mut self, id: u64, holder: Option<Holder>, is_inline: bool) {
        if let Some(request) = self.requests.get_mut(&id) {
            (request.holder, request.is_inline) = (holder, is_inline);
        }
    }

    /// The volume of a job, if it may be used. A deleted snapshot may not while disks merge it, each at its own pace: what a
    /// read finds on two disks may not fit together. Only the content of its own space may be listed.
    pub(super) fn volume_of(&self, job: &Job) -> Option<Arc<Volume>> {
        let volume = self.map.volumes.get(&job.volume)?;
        let looks_only = matches!(job.what, What::Own(_) | What::Used(..));
        let is_merged = self.map.shown_in(volume.id) != volume.id;
        (looks_only || !is_merged || self.config.reads_what_is_merged()).then(|| volume.clone())
    }

    /// The endpoint that holds the bytes of a job, or receives them; and whether they are here, too.
    pub(super) fn holder(&self, job: &Job) -> Option<(Holder, bool)> {
        let Purpose::Host(id) = job.purpose else { return None };
        self.requests.get(&id).and_then(|r| r.holder.map(|holder| (holder, r.is_inline)))
    }

    /// The endpoint has the pieces of an attempt at a job, or will have them.
    pub(super) fn counts(&mut self, job: &Job, ts: Timestamp) {
        if let Purpose::Host(id) = job.purpose
            && let Some(request) = self.requests.get_mut(&id)
        {
            request.counted.push(ts);
        }
    }

    /// The host of a request is gone. Its jobs in progress go on, but none is begun or retried: the host may have sent
    /// the same request to another node, and other requests after it.
    pub fn abandon(&mut self, id: u64) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.gone = true;
            if let Answer::Scrub(scrub) = &mut request.answer {
                scrub.next = scrub.progress.stripes;
            }
        }
        self.wake_waiting_of(id);
    }

    /// A request arrives, with this operation.
    fn take(&mut self, (id, now): (u64, Nanos), volume: &Volume, answer: Answer, what: Vec<What>) {
        let course = Course::new(now);
        self.accounts.used(now);
        let left = what.len();
        let job = |what| Job { course, ..Job::new(Purpose::Host(id), volume.id, what) };
        self.jobs.queue(what.into_iter().map(job));
        let request = OpenRequest::new(volume.id, answer, left);
        self.requests.insert(id, Box::new(request));
    }

    pub(super) fn part_done(
        &mut self,
        id: u64,
        job: &Job,
        result: Result<HostData, HostError>,
        outbox: &mut Outbox,
    ) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.left -= 1;
        request.spent = job.course.spent();
        let (at, mut lost) = (job.what.offset(), None);
        match (result, &mut request.answer) {
            (Ok(HostData::Bytes(b)), Answer::Bytes(all)) => drop(all.insert(at, b)),
            (Ok(HostData::Extents(e)), Answer::Extents(all)) => drop(all.insert(at, e)),
            (Ok(HostData::Extents(e)), Answer::Changed(changes)) => changes.take(at, &e),
            // It was merged into another, which is asked after it.
            (Err(HostError::NoVolume), Answer::Changed(_)) if job.volume != request.volume => {}
            (Ok(_), _) => {}
            (Err(_), Answer::Scrub(scrub)) if matches!(job.what, What::Used(..)) => {
                scrub.asks_again();
            }
            (Err(error), Answer::Scrub(scrub)) => {
                if let What::Verify { stripe, .. } = job.what {
                    scrub.skips(stripe);
                    lost = (error == HostError::TooManyLost).then_some(stripe);
                }
            }
            (Err(error), _) => request.fails(error),
        }
        if let Some(stripe) = lost {
            self.look_for_losses(id, stripe);
        }
        let Some(request) = self.requests.get(&id) else { return };
        if let Answer::Scrub(scrub) = &request.answer
            && scrub.has_more()
        {
            return;
        }
        if request.left == 0 {
            match request.answer {
                Answer::Changed(_) => self.step_changed(id, outbox),
                _ => self.answer_request(id, outbox),
            }
        }
    }

    /// A request is complete.
    pub(super) fn answer_request(&mut self, id: u64, outbox: &mut Outbox) {
        if let Some(request) = self.requests.remove(&id) {
            self.scrubs.remove(&id);
            match outbox.is_for_endpoint(id) {
                // The endpoint counts them, with those between it and this node.
                true => {
                    let hops = (2 * request.round_trips) as u8;
                    let mut request = request;
                    let counted = std::mem::take(&mut request.counted);
                    let result = request.result();
                    outbox.reply_to_endpoint(ForEndpoint { id, result, hops, counted });
                }
                false => {
                    outbox.counters.totals.round_trips += request.round_trips;
                    if request.spent.total() >= LONG {
                        outbox.push(Output::Spent(id, request.spent));
                    }
                    outbox.reply(id, request.result());
                }
            }
        }
    }

    /// The longest chain of messages of a host's job.
    pub(super) fn count_round_trips(&mut self, purpose: Purpose, hops: u8) {
        if let Purpose::Host(id) = purpose
            && let Some(request) = self.requests.get_mut(&id)
        {
            request.round_trips = request.round_trips.max(u64::from(hops.div_ceil(2)));
        }
    }
}

impl OpenRequest {
    pub fn new(volume: VolumeId, answer: Answer, left: usize) -> OpenRequest {
        OpenRequest {
            volume,
            answer,
            left,
            spent: Spent::default(),
            round_trips: 0,
            error: None,
            gone: false,
            origin: None,
            holder: None,
            is_inline: false,
            counted: Vec::new(),
        }
    }

    /// A part has failed. An unknown outcome of one part matters more than the error of another.
    fn fails(&mut self, error: HostError) {
        if self.error != Some(HostError::OutcomeUnknown) {
            self.error = Some(error);
        }
    }

    pub fn result(self) -> Result<HostData, HostError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        Ok(match self.answer {
            Answer::Done => HostData::Done,
            Answer::Bytes(mut parts) if parts.len() == 1 => {
                HostData::Bytes(parts.pop_first().expect("just counted").1)
            }
            Answer::Bytes(parts) => HostData::Bytes(parts.into_values().flatten().collect()),
            Answer::Extents(parts) => HostData::Extents(joined(parts.into_values().flatten())),
            Answer::Changed(changes) => changes.answer(),
            Answer::Refreshed(left) => HostData::Refreshed(left),
            Answer::Lost(bytes, found) => HostData::Lost(bytes, found),
            Answer::Exposed(range, found) => HostData::Exposed(super::flushing::cut(range, found)),
            Answer::Scrub(scrub) => HostData::Scrubbed(scrub.progress, scrub.findings),
        })
    }
}

/// Why a request beyond the end is refused. When it was sent first, the volume may have been larger.
fn out_of_range(range: Range, volume: &Volume, origin: Option<Origin>) -> HostError {
    let Range { offset, len } = range;
    match origin.is_some_and(|o| o.again.is_some()) {
        true => HostError::OutcomeUnknown,
        false => HostError::OutOfRange { offset, len, size: volume.size },
    }
}

/// The whole stripes inside a range.
pub(in crate::node) fn whole_stripes(volume: &Volume, range: Range) -> Option<Range> {
    let stripe = volume.geometry.stripe_bytes();
    let from = range.offset.next_multiple_of(stripe);
    let to = range.end() / stripe * stripe;
    (from < to).then(|| Range { offset: from, len: to - from })
}

/// Joins adjacent parts of one kind.
pub(super) fn joined(extents: impl Iterator<Item = (u64, bool)>) -> Vec<(u64, bool)> {
    let mut out: Vec<(u64, bool)> = Vec::new();
    for (len, hole) in extents {
        match out.last_mut() {
            Some(last) if last.1 == hole => last.0 += len,
            _ => out.push((len, hole)),
        }
    }
    out
}
