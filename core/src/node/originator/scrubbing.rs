//! Scrubs at the originator: each is a host's request that is fed with stripes as it goes.

use super::requests::{Answer, OpenRequest};
use super::{Job, Originator, Purpose, What};
use crate::cluster::{ClusterMap, Volume};
use crate::node::background::{Background, Loop};
use crate::node::outbox::Outbox;
use crate::node::{HostError, Trust};
use crate::plan::Range;
use crate::units::VolumeId;

/// How far a scrub has come, or came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScrubProgress {
    /// Stripes of the volume.
    pub stripes: u64,
    /// Of those, the ones before the first, which were not looked at.
    pub from: u64,
    /// Stripes read and found true, perhaps after repair.
    pub verified: u64,
    /// Units in which something could not be read and was rebuilt.
    pub rebuilt: u64,
    /// Units that did not fit the rest of their stripe and were made anew.
    pub mismatched: u64,
    /// Stripes in which parity does not fit the data and it cannot be told which is wrong: they are left as
    /// they are.
    pub unclear: u64,
    /// Those of them in which parity is newer than all data: data is lost there.
    pub data_lost: u64,
    /// Stripes that could not be verified because a column is lost.
    pub skipped: u64,
}

impl ScrubProgress {
    /// Whether every stripe was looked at, and nothing did not fit.
    pub fn is_true(&self) -> bool {
        self.mismatched == 0 && self.unclear == 0 && self.skipped == 0
    }
}

/// A scrub in work.
#[derive(Clone, Hash)]
pub(super) struct Scrub {
    /// The stripe that comes next.
    pub next: u64,
    pub progress: ScrubProgress,
    /// Background work knows of it.
    pub is_open: bool,
    /// Bytes of each disk that are looked at in a second.
    pub rate: u64,
    pub trust: Trust,
    /// Where it could not tell who is wrong.
    pub unclear: Vec<Range>,
}

impl Scrub {
    pub fn new(volume: &Volume, from: u64, rate: u64, trust: Trust) -> Scrub {
        let stripes = volume.stripes();
        let from = from.min(stripes);
        let progress = ScrubProgress { stripes, from, ..ScrubProgress::default() };
        Scrub { next: from, progress, is_open: false, rate, trust, unclear: Vec::new() }
    }
}

impl Originator {
    /// Keeps as many stripes in verification as background work may have; answers the scrubs that are done.
    pub(super) fn feed_scrubs(&mut self, background: &mut Background, outbox: &mut Outbox) {
        let mut done = Vec::new();
        for id in &self.scrubs {
            let request = self.requests.get_mut(id).expect("a request in work");
            let Answer::Scrub(scrub) = &mut request.answer else {
                unreachable!("what is no scrub is not among them");
            };
            if !std::mem::replace(&mut scrub.is_open, true) {
                background.open_scrub(*id, scrub.rate);
            }
            let which = Loop::Scrub(*id);
            let volume = self.map.volumes.get(&request.volume);
            let unit = volume.map_or(0, |v| v.geometry.unit);
            let most = background.most(which, outbox.now);
            while scrub.next < scrub.progress.stripes {
                if let Some(end) = volume.and_then(|v| lost_until(&self.map, v, scrub.next)) {
                    let end = end.min(scrub.progress.stripes);
                    scrub.progress.skipped += end - scrub.next;
                    scrub.next = end;
                    continue;
                }
                if request.left >= most || !background.begin(which, unit, outbox.now) {
                    break;
                }
                let what = What::Verify { stripe: scrub.next, trust: scrub.trust };
                self.jobs.ready(Job::new(Purpose::Host(*id), request.volume, what));
                scrub.next += 1;
                request.left += 1;
            }
            if scrub.next >= scrub.progress.stripes && request.left == 0 {
                done.push(*id);
            }
        }
        for id in done {
            self.answer_request(id, outbox);
        }
        background.keep_scrubs(&self.scrubs);
    }

    /// A new epoch: volumes may be smaller.
    pub(super) fn enter_scrubs(&mut self, map: &ClusterMap) {
        for id in &self.scrubs {
            let request = self.requests.get_mut(id).expect("a request in work");
            if let Answer::Scrub(scrub) = &mut request.answer {
                let stripes = map.volumes.get(&request.volume).map_or(0, |v| v.stripes());
                scrub.progress.stripes = scrub.progress.stripes.min(stripes);
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

    /// The scrubs in work.
    pub fn scrubs(&self) -> Vec<(VolumeId, ScrubProgress)> {
        let scrub = |r: &OpenRequest| match &r.answer {
            Answer::Scrub(scrub) => Some((r.volume, scrub.progress)),
            _ => None,
        };
        self.scrubs.iter().filter_map(|id| scrub(&self.requests[id])).collect()
    }

    /// How far the scrub of a job has come, and where it could not tell who is wrong.
    pub(super) fn scrub(&mut self, job: &Job) -> Option<(&mut ScrubProgress, &mut Vec<Range>)> {
        let Purpose::Host(id) = job.purpose else { return None };
        match &mut self.requests.get_mut(&id)?.answer {
            Answer::Scrub(scrub) => Some((&mut scrub.progress, &mut scrub.unclear)),
            _ => None,
        }
    }

    pub(super) fn count_rebuilt(&mut self, job: &Job, units: u64) {
        if let Some((progress, _)) = self.scrub(job) {
            progress.rebuilt += units;
        }
    }
}

/// Where the extent of a stripe ends, if columns of it are lost: then no stripe of it can be verified.
fn lost_until(map: &ClusterMap, volume: &Volume, stripe: u64) -> Option<u64> {
    let lost = map.lost(volume, volume.extent_of(stripe));
    (!lost.is_empty()).then(|| volume.extent_end(stripe))
}

#[cfg(test)]
mod tests {
    use crate::cluster::Attendance;
    use crate::node::test_bench::{Bench, PEER, VOLUME, map};
    use crate::node::{HostData, HostOp, Input};
    use crate::units::Timestamp;

    /// One after the other, each with the next input, they took as long as the node's clock ticked for each.
    #[test]
    fn stripes_of_which_a_column_is_lost_are_skipped_at_once() {
        let mut bench = Bench::new();
        let away = Attendance { away: [PEER].into(), ..Attendance::default() };
        bench.enter(map(2, away), Timestamp::ZERO);
        bench.handle(Input::Host(1, VOLUME, HostOp::SCRUB));
        let Some((1, Ok(HostData::Scrubbed(progress, _)))) = bench.replies.pop() else {
            panic!("it is over: {:?}", bench.replies);
        };
        assert_eq!((progress.skipped, progress.verified, progress.stripes), (4, 0, 4));
    }
}
