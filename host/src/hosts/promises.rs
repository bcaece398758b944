//! Volumes that promise that 99 of 100 requests end within a time (`p99`). As long as more take longer, the work that no host
//! waits for gives way on the disks of the volume, and grows again when they do not.
//!
//! A process looks at the requests of its own hosts and tells the others the consequence. Each node does as the strictest says
//! of all volumes on its disk.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weft_core::cluster::ClusterMap;
use weft_core::node::ALL;
use weft_core::policy::Policy;
use weft_core::units::{NodeId, VolumeId};

use super::Hosts;
use super::course::Course;
use crate::engine::Engine;
use crate::length_of_time::duration_in_words;
use crate::log::About;
use crate::status::PromiseStatus;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(500);

/// This number of requests tells whether one of a hundred is late, or all that came in this time.
const ENOUGH: u64 = 100;
const LONGEST: Duration = Duration::from_secs(5);

/// The least part of background work that goes on, in thousandths.
const LEAST: u64 = ALL / 64;

/// It is said when a promise has not been kept for this long with that.
const SAID_AFTER: Duration = Duration::from_secs(10);

/// What a process says of a volume: how much background work may go on, in thousandths, and for how many seconds the promise
/// has not been kept with the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    part: u64,
    missed: Option<u64>,
}

/// Of all volumes, by their numbers.
pub(crate) type AllTold = BTreeMap<u32, Told>;

/// A volume with a promise.
#[derive(Debug)]
struct Promise {
    within: Duration,
    /// Since when requests are counted, how many there were, and how many took longer.
    since: Instant,
    requests: u64,
    late: u64,
    part: u64,
    /// Since when it has not been kept though no more can give way.
    missed: Option<Instant>,
    said: bool,
}

impl Promise {
    fn new(within: Duration, now: Instant) -> Promise {
        let (missed, said) = (None, false);
        Promise { within, since: now, requests: 0, late: 0, part: ALL, missed, said }
    }

    fn record(&mut self, took: Duration) {
        self.requests += 1;
        self.late += u64::from(took > self.within);
    }

    /// Judges what has been counted, if that is enough. Requests in progress that are `overdue` count as late.
    fn judge(&mut self, now: Instant, overdue: u64) {
        if self.requests < ENOUGH && now.saturating_duration_since(self.since) < LONGEST {
            return;
        }
        let (requests, late) = (self.requests + overdue, self.late + overdue);
        if late * 100 > requests {
            if self.part == LEAST {
                self.missed.get_or_insert(now);
            }
            self.part = (self.part / 2).max(LEAST);
        } else {
            self.missed = None;
            // There must be some room left, or it would be too much at once.
            if late * 200 <= requests {
                self.part = (self.part * 5 / 4 + 1).min(ALL);
            }
        }
        (self.since, self.requests, self.late) = (now, 0, 0);
    }

    /// For how long it has not been kept, if that is worth a line.
    fn missed_for(&self, now: Instant) -> Option<Duration> {
        let missed = self.missed.map(|since| now.saturating_duration_since(since));
        missed.filter(|time| *time >= SAID_AFTER)
    }

    fn told(&self, now: Instant) -> Told {
        Told { part: self.part, missed: self.missed_for(now).map(|time| time.as_secs()) }
    }
}

/// The volumes with promises that hosts of this process use, and what other processes say.
#[derive(Default)]
pub(super) struct Promises {
    own: BTreeMap<VolumeId, Promise>,
    heard: AllTold,
    next: Option<Instant>,
    /// Some node gives way.
    gives_way: bool,
}

impl Promises {
    /// A read or a write has taken this time.
    pub(super) fn record(&mut self, volume: VolumeId, p99: u64, took: Duration, now: Instant) {
        if p99 == Policy::UNPROMISED {
            return;
        }
        let within = Duration::from_nanos(p99);
        let promise = self.own.entry(volume).or_insert_with(|| Promise::new(within, now));
        if promise.within != within {
            *promise = Promise { part: promise.part, ..Promise::new(within, now) };
        }
        promise.record(took);
    }

    /// Counts the requests in progress that have taken longer than their volumes promise.
    fn overdue<'a>(
        &mut self,
        promised: impl Fn(VolumeId) -> Option<u64>,
        in_progress: impl Iterator<Item = (VolumeId, &'a Course)>,
        now: Instant,
    ) -> BTreeMap<VolumeId, u64> {
        let mut overdue = BTreeMap::new();
        for (volume, course) in in_progress {
            let Some(p99) = promised(volume).filter(|p99| *p99 != Policy::UNPROMISED) else {
                continue;
            };
            let within = Duration::from_nanos(p99);
            if course.so_far(now).is_some_and(|time| time > within) {
                // Of a volume that has answered nothing yet, nothing has been counted.
                self.own.entry(volume).or_insert_with(|| Promise::new(within, now));
                *overdue.entry(volume).or_default() += 1;
            }
        }
        overdue
    }

    /// The strictest that anybody says of a volume.
    fn of(&self, volume: VolumeId, now: Instant) -> Told {
        let own = self.own.get(&volume).map(|promise| promise.told(now));
        let all = own.into_iter().chain(self.heard.get(&volume.0).copied());
        let strictest =
            |a: Told, b: Told| Told { part: a.part.min(b.part), missed: a.missed.max(b.missed) };
        all.fold(Told { part: ALL, missed: None }, strictest)
    }
}

impl Hosts {
    /// Has background work give way if promises need it, now and then.
    pub(crate) fn keep_promises(&mut self, engine: &mut Engine, now: Instant) {
        let promises = &mut self.promises;
        if promises.next.is_some_and(|next| now < next) {
            return;
        }
        promises.next = Some(now + LOOK);
        let map = engine.map();
        let promised = |id: VolumeId| map.volumes.get(&id).map(|volume| volume.policy.p99);
        let is_promised = |id: VolumeId| promised(id).is_some_and(|p99| p99 != Policy::UNPROMISED);
        let overdue = promises.overdue(promised, self.requests.of_hosts(), now);
        promises.own.retain(|id, _| is_promised(*id));
        for (id, promise) in &mut promises.own {
            promise.judge(now, overdue.get(id).copied().unwrap_or(0));
            let missed = promise.missed_for(now).is_some();
            if missed != std::mem::replace(&mut promise.said, missed) {
                let name = map.volumes.get(id).map_or("?", |volume| volume.name.as_str());
                let within = duration_in_words(promise.within);
                let about = About { volume: Some(name.to_string()), ..About::default() };
                match missed {
                    true => engine.log.on(about).warn(&format!(
                        "more than 1 % of the requests to volume {name} take longer than \
                         {within}, though background work is at its minimum: the cause is the \
                         hosts' load, the disks or the network"
                    )),
                    false => engine.log.on(about).info(&format!(
                        "again, 99 % of the requests to volume {name} take at most {within}"
                    )),
                }
            }
        }
        let is_strict = |id: &VolumeId| is_promised(*id) && promises.of(*id, now).part < ALL;
        let strict: Vec<VolumeId> = map.volumes.keys().copied().filter(is_strict).collect();
        if strict.is_empty() && !promises.gives_way {
            return;
        }
        promises.gives_way = !strict.is_empty();
        let mut parts = vec![ALL; map.nodes.len()];
        for id in strict {
            let part = promises.of(id, now).part;
            for node in whose_work_uses_disks_of(map, id) {
                let known = &mut parts[usize::from(node.0)];
                *known = part.min(*known);
            }
        }
        parts.into_iter().enumerate().for_each(|(n, part)| engine.gives_way(n, part));
    }

    /// What other processes are told.
    pub(crate) fn promises_told(&self) -> AllTold {
        let (own, now) = (self.promises.own.iter(), Instant::now());
        let told = own.map(|(id, promise)| (id.0, promise.told(now)));
        told.filter(|(_, told)| told.part < ALL).collect()
    }

    /// What other processes say.
    pub(crate) fn hear_of_promises(&mut self, said: impl Iterator<Item = AllTold>) {
        let mut heard = AllTold::new();
        for (id, told) in said.flatten() {
            let known = heard.entry(id).or_insert(told);
            *known =
                Told { part: known.part.min(told.part), missed: known.missed.max(told.missed) };
        }
        self.promises.heard = heard;
    }

    /// How a volume's promise is kept, if it has one.
    pub(crate) fn promise(&self, engine: &Engine, volume: VolumeId) -> Option<PromiseStatus> {
        let p99 = engine.map().volumes.get(&volume)?.policy.p99;
        let Told { part, missed } = self.promises.of(volume, Instant::now());
        let status = PromiseStatus { background_percent: part * 100 / ALL, missed_seconds: missed };
        (p99 != Policy::UNPROMISED).then_some(status)
    }
}

/// The nodes whose background work may use the disks of a volume: its own, and those of volumes that share a disk with it.
/// A node that is filled reads from the others of its volumes.
fn whose_work_uses_disks_of(map: &ClusterMap, volume: VolumeId) -> BTreeSet<NodeId> {
    let own = map.volumes[&volume].nodes();
    let all = map.volumes.values().map(|other| other.nodes());
    all.filter(|nodes| nodes.iter().any(|node| own.contains(node))).flatten().collect()
}

#[cfg(test)]
mod tests {
    use weft_core::node::HostOp;
    use weft_core::plan::Range;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Judges a promise of 5 ms for a number of looks, each with some requests, part of them late.
    fn looks(promise: &mut Promise, now: &mut Instant, looks: usize, requests: u64, late: u64) {
        for _ in 0..looks {
            *now += LOOK;
            (0..requests).for_each(|n| promise.record(if n < late { 6 * MS } else { 5 * MS }));
            promise.judge(*now, 0);
        }
    }

    #[test]
    fn background_work_halves_while_a_promise_is_broken_and_grows_while_it_is_kept() {
        let mut now = Instant::now();
        let mut promise = Promise::new(5 * MS, now);
        looks(&mut promise, &mut now, 4, 200, 2);
        assert_eq!(promise.part, ALL, "one of a hundred may be late");
        looks(&mut promise, &mut now, 1, 200, 3);
        assert_eq!(promise.part, ALL / 2);
        looks(&mut promise, &mut now, 4, 200, 2);
        assert_eq!(promise.part, ALL / 2, "there is no room for more");
        looks(&mut promise, &mut now, 1, 200, 1);
        assert_eq!(promise.part, ALL * 5 / 8 + 1);
        looks(&mut promise, &mut now, 6, 200, 200);
        assert_eq!((promise.part, promise.missed_for(now)), (LEAST, None));
        looks(&mut promise, &mut now, 30, 200, 200);
        assert!(promise.missed_for(now).is_some_and(|time| time >= SAID_AFTER));
        looks(&mut promise, &mut now, 1, 200, 0);
        assert_eq!(promise.missed_for(now), None);
        looks(&mut promise, &mut now, 20, 200, 0);
        assert_eq!(promise.part, ALL);
    }

    #[test]
    fn few_requests_are_judged_together() {
        let mut now = Instant::now();
        let mut promise = Promise::new(5 * MS, now);
        looks(&mut promise, &mut now, 9, 10, 10);
        assert_eq!(promise.part, ALL, "90 may be too few");
        looks(&mut promise, &mut now, 1, 10, 10);
        assert_eq!(promise.part, ALL / 2);
        looks(&mut promise, &mut now, 20, 0, 0);
        assert!(promise.part > ALL / 2, "where nobody asks nothing has to give way");
    }

    #[test]
    fn requests_that_do_not_end_break_a_promise() {
        let (begun, volume) = (Instant::now(), VolumeId(7));
        let read = Course::new(&HostOp::Read(Range { offset: 0, len: 4096 }), begun);
        let flush = Course::new(&HostOp::Flush, begun);
        let mut promises = Promises::default();
        let in_progress = || [(volume, &read), (volume, &flush), (VolumeId(8), &read)].into_iter();
        let promised = |id| (id == volume).then_some(5_000_000);
        assert!(promises.overdue(promised, in_progress(), begun + 5 * MS).is_empty());
        let mut now = begun + 6 * MS;
        let overdue = promises.overdue(promised, in_progress(), now);
        assert_eq!(overdue, [(volume, 1)].into());
        let promise = promises.own.get_mut(&volume).unwrap();
        for _ in 0..10 {
            now += LONGEST;
            promise.judge(now, 1);
        }
        assert_eq!(promise.part, LEAST);
        assert!(promise.missed_for(now).is_some(), "nothing else has been answered");
        (0..200).for_each(|_| promise.record(MS));
        promise.judge(now, 1);
        assert_eq!(promise.missed_for(now), None, "one of two hundred");
    }

    #[test]
    fn the_strictest_counts() {
        let now = Instant::now();
        let mut promises = Promises::default();
        let volume = VolumeId(7);
        (0..100).for_each(|_| promises.record(volume, 5_000_000, 6 * MS, now));
        promises.record(VolumeId(8), Policy::UNPROMISED, 6 * MS, now);
        assert_eq!(promises.own.len(), 1);
        promises.own.get_mut(&volume).unwrap().judge(now, 0);
        assert_eq!(promises.of(volume, now), Told { part: ALL / 2, missed: None });
        promises.heard.insert(7, Told { part: LEAST, missed: Some(11) });
        promises.heard.insert(9, Told { part: ALL, missed: None });
        assert_eq!(promises.of(volume, now), Told { part: LEAST, missed: Some(11) });
        // Another promise is another matter, from where it is.
        promises.record(volume, 9_000_000, 6 * MS, now);
        let own = &promises.own[&volume];
        assert_eq!((own.requests, own.late, own.part), (1, 0, ALL / 2));
    }
}
