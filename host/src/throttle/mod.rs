//! Limits of volumes: which requests of hosts may begin, and which wait, in the order in which they came.
//!
//! - this file: the volumes of a process, and what waits for their limits
//! - `bucket`: one limit at one process
//! - [`shares`]: how the processes of a cluster divide a limit
//!
//! No I/O and no clock here: the time is an argument, in nanoseconds since some moment.

mod bucket;
pub(crate) mod shares;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weft_core::policy::VolumeLimits;
use weft_core::units::{Nanos, VolumeId};

use bucket::{Bucket, Rate};
use shares::{Demand, WHOLE, equal, shares};

/// What a request counts against the limits of its volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

impl Cost {
    fn each(self) -> [u64; LIMITS] {
        [self.requests, self.bytes]
    }
}

/// What a process needs of the limits of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Demands {
    pub(crate) iops: Demand,
    pub(crate) bandwidth: Demand,
}

impl Demands {
    fn each(self) -> [Demand; LIMITS] {
        [self.iops, self.bandwidth]
    }
}

/// What a process needs of the limits of all volumes, by their numbers. One that is not listed has no demand there.
pub(crate) type AllDemands = BTreeMap<u32, Demands>;

/// A volume has two limits: on requests, and on bytes.
const LIMITS: usize = 2;

/// One limit of a volume at this process.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bucket: Bucket,
    /// The part of this process, in millionths.
    part: u64,
    /// Tokens used since the others were told last.
    used: u64,
    /// Tokens that wait for it now, and at most since the others were told last.
    waiting: u64,
    peak: u64,
    /// What the others were told last, and before that: they may not have heard the last yet.
    told: [Demand; 2],
}

impl Limit {
    /// How much has been needed in a time.
    fn tell(&mut self, elapsed: Nanos) -> Demand {
        let used = u128::from(self.used) * 1_000_000_000 / u128::from(elapsed.max(1));
        let used = u64::try_from(used).unwrap_or(u64::MAX);
        let demand = Demand { used, waiting: self.peak.max(self.waiting) };
        (self.used, self.peak) = (0, self.waiting);
        self.told = [demand, self.told[0]];
        demand
    }
}

/// A volume with limits, or one whose limits were lifted while requests waited.
struct Throttled<T> {
    limits: VolumeLimits,
    each: [Limit; LIMITS],
    queue: VecDeque<(Cost, T)>,
    /// The cost of all that wait.
    queued: Cost,
}

impl<T> Throttled<T> {
    fn new(now: Nanos, limits: VolumeLimits, part: u64) -> Throttled<T> {
        let told = [Demand::default(); 2];
        let limit = Limit { bucket: Bucket::new(now), part, used: 0, waiting: 0, peak: 0, told };
        let (queue, queued) = (VecDeque::new(), Cost::default());
        Throttled { limits, each: [limit; LIMITS], queue, queued }
    }

    /// The rate of a limit, if there is that limit.
    fn rate(&self, n: usize) -> Option<Rate> {
        let limit = [self.limits.iops, self.limits.bandwidth][n];
        let rate = Rate { limit, part: self.each[n].part, burst: self.limits.burst };
        (limit != VolumeLimits::UNLIMITED).then_some(rate)
    }

    /// The limits may have changed. A limit that is new begins without savings.
    fn set(&mut self, now: Nanos, limits: VolumeLimits) {
        if limits == self.limits {
            return;
        }
        let before = [0, 1].map(|n| self.rate(n));
        self.limits = limits;
        for (n, before) in before.into_iter().enumerate() {
            match (before, self.rate(n)) {
                (Some(before), Some(after)) => self.each[n].bucket.change(now, before, after),
                (None, Some(_)) => self.each[n].bucket = Bucket::new(now),
                (_, None) => {}
            }
        }
    }

    /// This process has another part of a limit now.
    fn change(&mut self, now: Nanos, n: usize, part: u64) {
        let before = self.rate(n);
        self.each[n].part = part;
        if let (Some(before), Some(after)) = (before, self.rate(n)) {
            self.each[n].bucket.change(now, before, after);
        }
    }

    /// When the next request may begin.
    fn due(&self) -> Nanos {
        let limited = (0..LIMITS).filter(|n| self.rate(*n).is_some());
        limited.map(|n| self.each[n].bucket.due()).max().unwrap_or(0)
    }

    fn begin(&mut self, now: Nanos, cost: Cost) {
        for (n, tokens) in cost.each().into_iter().enumerate() {
            let Some(rate) = self.rate(n).filter(|_| tokens > 0) else { continue };
            self.each[n].bucket.take(now, tokens, rate);
            self.each[n].used = self.each[n].used.saturating_add(tokens);
        }
    }

    fn push(&mut self, now: Nanos, cost: Cost, request: T) {
        self.queue.push_back((cost, request));
        self.queued.requests += cost.requests;
        self.queued.bytes += cost.bytes;
        self.count(now);
    }

    fn pop(&mut self, now: Nanos) -> Option<T> {
        let (cost, request) = self.queue.pop_front()?;
        self.queued.requests -= cost.requests;
        self.queued.bytes -= cost.bytes;
        self.begin(now, cost);
        self.count(now);
        Some(request)
    }

    /// Counts what waits, for the limit that has it wait longest: more of the other would be of no use.
    fn count(&mut self, now: Nanos) {
        let due = self.due();
        for (n, waiting) in self.queued.each().into_iter().enumerate() {
            let binds = self.rate(n).is_some() && self.each[n].bucket.due() == due && due > now;
            let limit = &mut self.each[n];
            limit.waiting = if binds { waiting } else { 0 };
            limit.peak = limit.peak.max(limit.waiting);
        }
    }
}

/// The requests of hosts of this process that wait for the limits of their volumes.
pub(crate) struct Throttle<T> {
    volumes: BTreeMap<VolumeId, Throttled<T>>,
    /// The processes that may serve hosts, this one among them.
    processes: usize,
    /// When the others were told last.
    told: Nanos,
}

impl<T> Default for Throttle<T> {
    fn default() -> Throttle<T> {
        Throttle { volumes: BTreeMap::new(), processes: 1, told: 0 }
    }
}

impl<T> Throttle<T> {
    /// A request has come. It is given back if it may begin now.
    pub(crate) fn admit(
        &mut self,
        now: Nanos,
        (volume, limits): (VolumeId, VolumeLimits),
        cost: Cost,
        request: T,
    ) -> Option<T> {
        let processes = self.processes;
        if limits.are_none() && !self.volumes.contains_key(&volume) {
            return Some(request);
        }
        let part = equal(processes);
        let there = self.volumes.entry(volume).or_insert_with(|| Throttled::new(now, limits, part));
        there.set(now, limits);
        if there.queue.is_empty() && (cost == Cost::default() || there.due() <= now) {
            there.begin(now, cost);
            return Some(request);
        }
        there.push(now, cost, request);
        None
    }

    /// The next request that waited and may begin now. Volumes that are gone have no limits.
    pub(crate) fn next(
        &mut self,
        now: Nanos,
        limits: impl Fn(VolumeId) -> VolumeLimits,
    ) -> Option<T> {
        for (id, volume) in &mut self.volumes {
            if volume.queue.is_empty() {
                continue;
            }
            volume.set(now, limits(*id));
            if volume.due() <= now {
                return volume.pop(now);
            }
        }
        None
    }

    /// Takes all that wait, whatever the limits.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.extract(|_| true)
    }

    /// Takes those that are such.
    pub(crate) fn extract(&mut self, is: impl Fn(&T) -> bool) -> Vec<T> {
        let mut out = Vec::new();
        for volume in self.volumes.values_mut().filter(|v| !v.queue.is_empty()) {
            for (cost, request) in std::mem::take(&mut volume.queue) {
                if is(&request) {
                    volume.queued.requests -= cost.requests;
                    volume.queued.bytes -= cost.bytes;
                    out.push(request);
                } else {
                    volume.queue.push_back((cost, request));
                }
            }
        }
        out
    }

    /// When the first of those that wait may begin, if any waits.
    pub(crate) fn due(&self) -> Option<Nanos> {
        let waiting = self.volumes.values().filter(|v| !v.queue.is_empty());
        waiting.map(Throttled::due).min()
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.volumes.values().map(|v| v.queue.len()).sum()
    }

    /// How many wait for the limits of a volume.
    pub(crate) fn waiting_for(&self, volume: VolumeId) -> usize {
        self.volumes.get(&volume).map_or(0, |v| v.queue.len())
    }

    /// What the other processes are told, if there are any, twice a second. Volumes without limits are forgotten.
    pub(crate) fn tell(
        &mut self,
        now: Nanos,
        limits: impl Fn(VolumeId) -> VolumeLimits,
    ) -> AllDemands {
        let elapsed = now.saturating_sub(std::mem::replace(&mut self.told, now));
        self.volumes.retain(|id, v| !v.queue.is_empty() || !limits(*id).are_none());
        let mut all = AllDemands::new();
        for (id, volume) in &mut self.volumes {
            volume.count(now);
            let [iops, bandwidth] = [0, 1].map(|n| volume.each[n].tell(elapsed));
            let demands = Demands { iops, bandwidth };
            if demands != Demands::default() {
                all.insert(id.0, demands);
            }
        }
        all
    }

    /// Divides the limits of these volumes again, by what each other process told last, if it was heard. Of what this process told
    /// last and before that the smaller part counts: the others may not have heard the last yet.
    pub(crate) fn divide(
        &mut self,
        now: Nanos,
        limited: impl Iterator<Item = (VolumeId, VolumeLimits)>,
        others: &[Option<AllDemands>],
    ) {
        let processes = others.len() + 1;
        let same = std::mem::replace(&mut self.processes, processes) == processes;
        for (id, limits) in limited {
            let there = self.volumes.entry(id);
            there.or_insert_with(|| Throttled::new(now, limits, equal(processes))).set(now, limits);
        }
        for (id, volume) in &mut self.volumes {
            for n in 0..LIMITS {
                let Some(rate) = volume.rate(n) else { continue };
                let of = |all: &AllDemands| all.get(&id.0).copied().unwrap_or_default().each()[n];
                let told: Vec<_> = others.iter().map(|o| o.as_ref().map(of)).collect();
                let part = |own: Demand| {
                    let all: Vec<_> = [Some(own)].into_iter().chain(told.clone()).collect();
                    shares(rate.limit, &all).map(|parts| parts[0])
                };
                let parts = volume.each[n].told.map(part);
                let kept = if same { rate.part } else { rate.part.min(equal(processes)) };
                let part = parts.into_iter().flatten().min().unwrap_or(kept);
                volume.change(now, n, part.clamp(1, WHOLE));
            }
        }
    }
}

#[cfg(test)]
mod tests;
