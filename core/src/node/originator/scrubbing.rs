//! Scrubs at the originator: each is a host's request that verifies stripe after stripe.

use std::collections::BTreeMap;
use std::ops::Range as Stripes;

use super::requests::{Answer, OpenRequest};
use super::{Job, Originator, Purpose, What, used};
use crate::cluster::{ClusterMap, Volume};
use crate::node::background::{Background, Loop};
use crate::node::outbox::Outbox;
use crate::node::{HostError, Trust};
use crate::plan::Range;
use crate::units::{MILLIS, Nanos, NodeId, SECTOR, VolumeId};

/// The progress of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScrubProgress {
    /// Stripes of the volume.
    pub stripes: u64,
    /// The stripes before the first, which were not verified.
    pub from: u64,
    /// Stripes read and found consistent, perhaps after repair, or never written.
    pub verified: u64,
    /// Those of them that were never written in this volume: nothing was read.
    pub unwritten: u64,
    /// Units with unreadable parts that were rebuilt.
    pub rebuilt: u64,
    /// Units that did not match the rest of their stripe and were recomputed.
    pub mismatched: u64,
    /// Stripes whose parity does not match the data, with an unknown faulty unit: they are left unchanged.
    pub unclear: u64,
    /// Those of them whose parity is newer than all data: data is lost there.
    pub data_lost: u64,
    /// Stripes that could not be verified because a column is lost.
    pub skipped: u64,
}

impl ScrubProgress {
    /// Whether every stripe was verified, and everything matched.
    pub fn is_true(&self) -> bool {
        self.mismatched == 0 && self.unclear == 0 && self.skipped == 0
    }
}

/// A scrub's findings, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScrubFindings {
    /// The ranges whose faulty unit is unknown: the first of them, up to [`MOST_UNCLEAR`](crate::node::MOST_UNCLEAR).
    pub unclear: Vec<Range>,
    /// Units that it recomputed, by the node with their disk.
    pub mended: BTreeMap<NodeId, u64>,
}

/// How long a scrub waits for a node that has gone. Then its stripes are skipped.
const GIVEN: Nanos = 60_000 * MILLIS;

/// A scrub in progress.
#[derive(Clone, Hash)]
pub(super) struct Scrub {
    /// The next stripe.
    pub next: u64,
    pub progress: ScrubProgress,
    /// Background work knows of it.
    pub is_open: bool,
    /// Bytes of each disk that are verified in a second.
    pub rate: u64,
    pub trust: Trust,
    pub findings: ScrubFindings,
    /// Up to which stripe it is known which have ever been written, and those from the next one on that have.
    looked: (u64, Vec<Stripes<u64>>),
    /// The disks are being asked for more.
    is_asking: bool,
    /// Nodes with columns that it found lost, and since when; 0 if they were lost when the scrub began.
    away: BTreeMap<NodeId, Nanos>,
    /// Bytes of stripes with lost data, which are read to know all of it.
    to_read: Vec<Range>,
    /// Units that are being rebuilt before their stripes can be verified: by stripe, their columns and numbers.
    rebuilding: BTreeMap<u64, Vec<(usize, u64)>>,
}

/// The next stripe of a scrub.
enum Next {
    /// It is verified.
    Verify,
    /// It cannot be verified, and neither can those up to this one.
    PassOver(u64),
    /// It cannot be yet.
    Wait,
}

impl Scrub {
    pub fn new(volume: &Volume, from: u64, rate: u64, trust: Trust) -> Scrub {
        let stripes = volume.stripes();
        let from = from.min(stripes);
        let progress = ScrubProgress { stripes, from, ..ScrubProgress::default() };
        Scrub {
            next: from,
            progress,
            is_open: false,
            rate,
            trust,
            findings: ScrubFindings::default(),
            looked: (from, Vec::new()),
            is_asking: false,
            away: BTreeMap::new(),
            to_read: Vec::new(),
            rebuilding: BTreeMap::new(),
        }
    }

    /// Whether there is more to begin.
    pub fn has_more(&self) -> bool {
        self.next < self.progress.stripes || !self.to_read.is_empty()
    }

    /// The next sector to read.
    fn sector_to_read(&mut self) -> Option<Range> {
        let range = self.to_read.last_mut()?;
        let sector = Range { offset: range.offset, len: SECTOR.min(range.len) };
        *range = Range { offset: sector.end(), len: range.len - sector.len };
        if range.len == 0 {
            self.to_read.pop();
        }
        Some(sector)
    }

    /// A stripe cannot be verified.
    pub fn skips(&mut self, stripe: u64) {
        self.rebuilding.remove(&stripe);
        self.progress.skipped += 1;
    }

    /// Of these next stripes those in `used` have been written, on one disk or several.
    pub fn found_used(&mut self, stripes: Stripes<u64>, used: Vec<Stripes<u64>>) {
        (self.looked, self.is_asking) = ((stripes.end, used), false);
    }

    /// The disks did not report which.
    pub fn asks_again(&mut self) {
        self.is_asking = false;
    }

    /// Skips stripes that were never written, where no disk can have wrong content. Returns the end of the next stripes
    /// that are known to be written.
    fn pass_unwritten(&mut self) -> u64 {
        let from = self.next;
        self.looked.1.retain(|run| run.end > from);
        let (end, used) = (self.looked.0.min(self.progress.stripes), &self.looked.1);
        let next = used.iter().map(|run| run.start.max(from)).min().unwrap_or(end).min(end);
        self.progress.verified += next.saturating_sub(from);
        self.progress.unwritten += next.saturating_sub(from);
        self.next = from.max(next);
        let run = used.iter().filter(|run| run.contains(&self.next));
        run.map(|run| run.end.min(end)).max().unwrap_or(self.next)
    }
}

impl Scrub {
    /// The state of the next stripe. Without all columns of its extent none can be verified.
    fn next(&self, map: &ClusterMap, volume: &Volume, now: Nanos) -> Next {
        let extent = volume.extent_of(self.next);
        let columns = &volume.extents[extent].columns;
        let long = |column: usize| {
            let since = self.away.get(&columns[column].0);
            since.is_some_and(|since| *since == 0 || now.saturating_sub(*since) >= GIVEN)
        };
        let lost = map.lost(volume, extent);
        match lost.iter().any(long) {
            _ if lost.is_empty() => Next::Verify,
            true => Next::PassOver(volume.extent_end(self.next)),
            false => Next::Wait,
        }
    }
}

impl Originator {
    /// Keeps as many stripes in verification as background work may have; answers the scrubs that have ended.
    pub(super) fn feed_scrubs(&mut self, background: &mut Background, outbox: &mut Outbox) {
        let mut done = Vec::new();
        for id in &self.scrubs {
            let request = self.requests.get_mut(id).expect("a request in work");
            let Answer::Scrub(scrub) = &mut request.answer else {
                unreachable!("all of them are scrubs");
            };
            let volume = self.map.volumes.get(&request.volume);
            if !std::mem::replace(&mut scrub.is_open, true) {
                background.open_scrub(*id, scrub.rate);
                scrub.away = volume.map_or(BTreeMap::new(), |v| absent(&self.map, v, 0));
            }
            let which = Loop::Scrub(*id);
            let unit = volume.map_or(0, |v| v.geometry.unit);
            let most = background.most(which, outbox.now);
            while !scrub.to_read.is_empty()
                && request.left < most
                && background.begin(which, SECTOR, outbox.now)
            {
                let sector = scrub.sector_to_read().expect("there are some");
                self.jobs.ready(Job::new(Purpose::Host(*id), request.volume, What::Read(sector)));
                request.left += 1;
            }
            while scrub.next < scrub.progress.stripes {
                match volume.map_or(Next::Verify, |v| scrub.next(&self.map, v, outbox.now)) {
                    Next::Verify => {}
                    Next::PassOver(end) => {
                        let end = end.min(scrub.progress.stripes);
                        scrub.progress.skipped += end - scrub.next;
                        scrub.next = end;
                        continue;
                    }
                    Next::Wait => break,
                }
                let written = scrub.pass_unwritten();
                if scrub.next >= scrub.progress.stripes {
                    break;
                }
                if written <= scrub.next
                    && let Some(volume) = volume
                {
                    if request.left < most && !std::mem::replace(&mut scrub.is_asking, true) {
                        let what = used::to_verify(volume, scrub.next);
                        self.jobs.ready(Job::new(Purpose::Host(*id), request.volume, what));
                        request.left += 1;
                    }
                    break;
                }
                if request.left >= most || !background.begin(which, unit, outbox.now) {
                    break;
                }
                let what = What::Verify { stripe: scrub.next, trust: scrub.trust };
                self.jobs.ready(Job::new(Purpose::Host(*id), request.volume, what));
                scrub.next += 1;
                request.left += 1;
            }
            if !scrub.has_more() && request.left == 0 {
                done.push(*id);
            }
        }
        for id in done {
            self.answer_request(id, outbox);
        }
        background.keep_scrubs(&self.scrubs);
    }

    /// A new epoch: volumes may be smaller, and nodes may have gone or come.
    pub(super) fn enter_scrubs(&mut self, map: &ClusterMap, now: Nanos) {
        for id in &self.scrubs {
            let request = self.requests.get_mut(id).expect("a request in work");
            if let Answer::Scrub(scrub) = &mut request.answer {
                // A node that has returned may go again.
                let now_away = map.volumes.get(&request.volume);
                let now_away = now_away.map_or(BTreeMap::new(), |v| absent(map, v, now));
                let since = |(node, now)| (node, scrub.away.get(&node).copied().unwrap_or(now));
                scrub.away = now_away.into_iter().map(since).collect();
                let stripes = map.volumes.get(&request.volume).map_or(0, |v| v.stripes());
                scrub.progress.stripes = scrub.progress.stripes.min(stripes);
                // A deleted snapshot that is merged no longer shows the same on all disks.
                if map.shown_in(request.volume) != request.volume {
                    request.error = Some(HostError::NoVolume);
                }
            }
        }
    }

    /// Volumes have gone.
    pub(super) fn leave_scrubs(&mut self, is_gone: impl Fn(VolumeId) -> bool) {
        for id in &self.scrubs {
            let request = self.requests.get_mut(id).expect("a request in work");
            if is_gone(request.volume) {
                request.error = Some(HostError::NoVolume);
            }
        }
    }

    /// A scrub in work.
    pub(super) fn scrub_of(&mut self, id: u64) -> Option<&mut Scrub> {
        match &mut self.requests.get_mut(&id)?.answer {
            Answer::Scrub(scrub) => Some(scrub),
            _ => None,
        }
    }

    /// The scrubs in work.
    pub fn scrubs(&self) -> Vec<(VolumeId, ScrubProgress)> {
        let scrub = |r: &OpenRequest| match &r.answer {
            Answer::Scrub(scrub) => Some((r.volume, scrub.progress)),
            _ => None,
        };
        self.scrubs.iter().filter_map(|id| scrub(&self.requests[id])).collect()
    }

    /// The progress and findings of a job's scrub.
    pub(super) fn scrub(&mut self, job: &Job) -> Option<(&mut ScrubProgress, &mut ScrubFindings)> {
        let Purpose::Host(id) = job.purpose else { return None };
        match &mut self.requests.get_mut(&id)?.answer {
            Answer::Scrub(scrub) => Some((&mut scrub.progress, &mut scrub.findings)),
            _ => None,
        }
    }

    /// A stripe can be verified when these units of a column are rebuilt, which could not be read.
    pub(super) fn rebuilds_to_verify(&mut self, job: &Job, stripe: u64, column: usize, units: u64) {
        let Purpose::Host(id) = job.purpose else { return };
        if let Some(scrub) = self.scrub_of(id) {
            scrub.rebuilding.entry(stripe).or_default().push((column, units));
        }
    }

    /// A stripe is verified: counts the units that were rebuilt for that.
    pub(super) fn count_rebuilt(&mut self, job: &Job, volume: &Volume, stripe: u64) {
        let Purpose::Host(id) = job.purpose else { return };
        let Some(scrub) = self.scrub_of(id) else { return };
        for (column, units) in scrub.rebuilding.remove(&stripe).into_iter().flatten() {
            scrub.progress.rebuilt += units;
            *scrub.findings.mended.entry(volume.extent(stripe).columns[column].0).or_default() +=
                units;
        }
    }

    /// Data of a stripe is lost, though all disks are there, and perhaps more than the scrub has met: it is read sector by sector,
    /// so that all of it is known.
    pub(super) fn look_for_losses(&mut self, id: u64, stripe: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let Some(volume) = self.map.volumes.get(&request.volume) else { return };
        if !self.map.lost(volume, volume.extent_of(stripe)).is_empty() {
            return;
        }
        let bytes = volume.geometry.stripe_bytes();
        let end = ((stripe + 1) * bytes).min(volume.size);
        if let Answer::Scrub(scrub) = &mut request.answer
            && stripe * bytes < end
        {
            scrub.to_read.push(Range { offset: stripe * bytes, len: end - stripe * bytes });
        }
    }
}

/// The nodes of a volume of which columns are lost, each with this time.
fn absent(map: &ClusterMap, volume: &Volume, now: Nanos) -> BTreeMap<NodeId, Nanos> {
    let lost = (0..volume.extents.len()).flat_map(|extent| {
        let columns = &volume.extents[extent].columns;
        map.lost(volume, extent).iter().map(|column| (columns[column].0, now)).collect::<Vec<_>>()
    });
    lost.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::cluster::{Attendance, ClusterMap, Volume};
    use crate::node::originator::ScrubProgress;
    use crate::node::test_bench::{Bench, PEER, UNIT, VOLUME, map};
    use crate::node::{HostData, HostOp, Input};
    use crate::units::{Epoch, Timestamp};

    /// More stripes than are in verification at a time.
    const STRIPES: u64 = 100;

    fn large(epoch: Epoch, away: bool) -> Arc<ClusterMap> {
        let attendance = Attendance {
            away: if away { [PEER].into() } else { Default::default() },
            ..Attendance::default()
        };
        let mut map = ClusterMap::clone(&map(epoch, attendance));
        let volume = map.volumes.get_mut(&VOLUME).expect("it is there");
        Arc::<Volume>::make_mut(volume).size = 2 * STRIPES * UNIT;
        Arc::new(map)
    }

    fn over(bench: &mut Bench) -> Option<ScrubProgress> {
        match bench.replies.pop() {
            Some((1, Ok(HostData::Scrubbed(progress, _)))) => Some(progress),
            _ => None,
        }
    }

    /// One after the other, a few with each input, they took as long as the node's clock ticked.
    #[test]
    fn stripes_of_which_a_column_is_lost_are_skipped_at_once() {
        let mut bench = Bench::new();
        bench.enter(large(2, true), Timestamp::ZERO);
        bench.handle(Input::Host(1, VOLUME, HostOp::SCRUB));
        let progress = over(&mut bench).expect("it is over");
        assert_eq!((progress.skipped, progress.verified), (STRIPES, 0));
    }

    /// It may be back soon, and the scrub is to look at the rest then.
    #[test]
    fn a_node_that_goes_during_a_scrub_is_waited_for() {
        let mut bench = Bench::new();
        bench.enter(large(2, false), Timestamp::ZERO);
        bench.handle(Input::Host(1, VOLUME, HostOp::SCRUB));
        bench.enter(large(3, true), Timestamp::ZERO);
        for _ in 0..STRIPES {
            bench.handle(Input::Timer(crate::node::Timer::Tick));
        }
        assert!(over(&mut bench).is_none(), "it has not gone on to the end");
        bench.now += super::GIVEN;
        bench.handle(Input::Timer(crate::node::Timer::Tick));
        let progress = over(&mut bench).expect("it is over");
        assert_eq!((progress.skipped, progress.verified), (STRIPES, 0));
    }
}
