//! Requests of hosts that wait for the limits of their volumes; [`throttle`](crate::throttle) decides.
//!
//! A request waits here before anything else is done for it: it has touched no bytes, and no other request waits for
//! it. Hosts see a slower volume, and no error. What waits counts as in progress for its connection, so that a host is
//! not read from when it has too much.

use std::time::{Duration, Instant};

use weft_core::node::HostOp;
use weft_core::order::HostId;
use weft_core::policy::VolumeLimits;
use weft_core::units::{Nanos, VolumeId};

use super::Hosts;
use super::course::Course;
use super::requests::{Job, Owner};
use crate::engine::Engine;
use crate::throttle::{AllDemands, Cost, Throttle};

/// How long until what waits is looked at again in any case: a change of the limits wakes nobody.
const LOOKS: Duration = Duration::from_millis(100);

/// A request that waits.
struct Held {
    owner: Owner,
    node: usize,
    job: Job,
    course: Course,
}

/// All that wait.
pub(super) struct AllHeld {
    throttle: Throttle<Held>,
    began: Instant,
}

impl AllHeld {
    pub(super) fn new() -> AllHeld {
        AllHeld { throttle: Throttle::default(), began: Instant::now() }
    }

    fn now(&self) -> Nanos {
        Nanos::try_from(self.began.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.throttle.waiting()
    }

    /// How long until the next may begin, if any waits.
    pub(super) fn due(&self) -> Option<Duration> {
        let due = self.throttle.due()?;
        Some(Duration::from_nanos(due.saturating_sub(self.now())).min(LOOKS))
    }

    /// A connection is gone, and nobody waits for what it asked.
    pub(super) fn forget(&mut self, conn: usize) {
        let is_of = |h: &Held| matches!(h.owner, Owner::Session { conn: c, .. } if c == conn);
        self.throttle.extract(is_of);
    }

    /// A host that names its requests is not connected any more. Returns the numbers of those that are dropped.
    pub(super) fn leave(&mut self, host: HostId) -> Vec<u64> {
        let number = |owner: Owner| match owner {
            Owner::Host { host: h, number } if h == host => Some(number),
            _ => None,
        };
        let dropped = self.throttle.extract(|h| number(h.owner).is_some());
        dropped.into_iter().filter_map(|h| number(h.owner)).collect()
    }
}

impl Hosts {
    /// Gives a request of a host to a node as soon as the limits of its volume allow it.
    pub(super) fn submit(&mut self, engine: &mut Engine, owner: Owner, node: usize, job: Job) {
        let limits = limits_of(engine, job.volume);
        let course = Course::new(&job.op, Instant::now());
        let (volume, cost) = ((job.volume, limits), cost(&job.op));
        let held = Held { owner, node, job, course };
        let now = self.held.now();
        if let Some(held) = self.held.throttle.admit(now, volume, cost, held) {
            self.begin_held(engine, held);
        }
    }

    fn begin_held(&mut self, engine: &mut Engine, held: Held) {
        let Held { owner, node, job, mut course } = held;
        course.is_within_limits(Instant::now());
        self.requests.submit_since(engine, (owner, course), node, job);
    }

    /// Begins what waited for limits and waits no more. When this process stops or hands over, that is everything.
    pub(crate) fn begin_what_waited(&mut self, engine: &mut Engine, stops: bool) {
        if self.held.throttle.waiting() == 0 {
            return;
        }
        if stops || engine.is_leaving() {
            let all = self.held.throttle.take_all();
            return all.into_iter().for_each(|held| self.begin_held(engine, held));
        }
        let now = self.held.now();
        while let Some(held) = self.held.throttle.next(now, |volume| limits_of(engine, volume)) {
            self.begin_held(engine, held);
        }
    }

    /// What hosts of this process need of the limits of volumes, for the other processes.
    pub(crate) fn demands(&mut self, engine: &Engine) -> AllDemands {
        self.held.throttle.tell(self.held.now(), |volume| limits_of(engine, volume))
    }

    /// Divides the limits of volumes among the processes, by what hosts of each of the others need, if it was heard.
    pub(crate) fn divide_limits(&mut self, engine: &Engine, others: &[Option<AllDemands>]) {
        let volumes = engine.map().volumes.values().map(|v| (v.id, v.policy.limits));
        let limited = volumes.filter(|(_, limits)| !limits.are_none());
        self.held.throttle.divide(self.held.now(), limited, others);
    }

    /// How many requests of hosts of this process wait for the limits of a volume.
    pub(crate) fn waiting_for_limits(&self, volume: VolumeId) -> usize {
        self.held.throttle.waiting_for(volume)
    }
}

fn limits_of(engine: &Engine, volume: VolumeId) -> VolumeLimits {
    engine.map().volumes.get(&volume).map(|v| v.policy.limits).unwrap_or_default()
}

/// What a request counts: a read or write its bytes, a trim or zeroes none; flushes and questions nothing at all.
fn cost(op: &HostOp) -> Cost {
    match op {
        HostOp::Read(range) => Cost { requests: 1, bytes: range.len },
        HostOp::Write(_, data) | HostOp::Modify { data, .. } => {
            Cost { requests: 1, bytes: data.len() as u64 }
        }
        HostOp::WriteZeroes(_) | HostOp::Trim(_) => Cost { requests: 1, bytes: 0 },
        _ => Cost::default(),
    }
}
