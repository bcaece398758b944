//! Where a request of a host spends its time on its way through this process: so that a slow one can be explained.

use std::fmt;
use std::time::{Duration, Instant};

use weft_core::node::{HostOp, Spent};

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for the limits of its volume.
    Limited,
    /// It waits for others that touch the same bytes.
    Behind,
    /// No node takes requests, and one is waited for.
    Parked,
    /// What was written before it, or by it, is made safe.
    Flush,
    /// A node works on it.
    Node,
}

/// All stages, and what is said of the time in each.
const STAGES: [(Stage, &str); 5] = [
    (Stage::Limited, "waiting for the volume's limits"),
    (Stage::Behind, "waiting for overlapping I/O"),
    (Stage::Parked, "without a node to serve it"),
    (Stage::Flush, "in a flush"),
    (Stage::Node, "at"),
];

/// Of shorter times nothing is said, in nanoseconds: they would be 0.000 s.
const TOLD: u64 = 500_000;

/// What kind of request it is, as far as its latency is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Verb {
    /// A read.
    Read,
    /// A write of bytes or zeros, or a trim.
    Write,
    /// A flush.
    Flush,
}

impl Verb {
    /// That of an operation, and how many bytes it is of from where; none if it is an operator's.
    pub(crate) fn of(op: &HostOp) -> Option<What> {
        Some(match op {
            HostOp::Read(range) => (Verb::Read, Some((range.offset, range.len))),
            HostOp::Write(offset, data) | HostOp::Modify { offset, data, .. } => {
                (Verb::Write, Some((*offset, data.len() as u64)))
            }
            HostOp::WriteZeroes(range) | HostOp::Trim(range) => {
                (Verb::Write, Some((range.offset, range.len)))
            }
            HostOp::Flush => (Verb::Flush, None),
            _ => return None,
        })
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::Flush => "flush",
        })
    }
}

/// A kind of request, and the bytes that it is of, if it is of some: from where, and how many.
type What = (Verb, Option<(u64, u64)>);

/// The way of one request.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    verb: Option<What>,
    came: Instant,
    /// Where it is, and since when.
    stage: Stage,
    since: Instant,
    spent: [Duration; STAGES.len()],
    /// Nodes that it was given to.
    attempts: u32,
    /// Where its time in the last of them went, if that was long.
    in_node: Option<Spent>,
}

impl Course {
    /// One that comes in now.
    pub(crate) fn new(op: &HostOp, now: Instant) -> Course {
        let spent = [Duration::ZERO; STAGES.len()];
        Course {
            verb: Verb::of(op),
            came: now,
            stage: Stage::Limited,
            since: now,
            spent,
            attempts: 0,
            in_node: None,
        }
    }

    /// Whether it is a write.
    pub(crate) fn is_of_write(&self) -> bool {
        self.verb.is_some_and(|(verb, _)| verb == Verb::Write)
    }

    /// It goes on to a stage.
    pub(crate) fn enter(&mut self, stage: Stage, now: Instant) {
        self.attempts += u32::from(stage == Stage::Node);
        let place = STAGES.iter().position(|s| s.0 == self.stage).expect("all are listed");
        self.spent[place] += now.saturating_duration_since(self.since);
        (self.stage, self.since) = (stage, now);
    }

    /// The limits of its volume allow it.
    pub(crate) fn is_within_limits(&mut self, now: Instant) {
        self.enter(Stage::Behind, now);
    }

    /// How long it waited for the limits of its volume: as its operator wants it, and not because anything is slow.
    pub(crate) fn waited_for_limits(&self) -> Duration {
        self.spent[0]
    }

    /// How long a read or a write has taken until now, without its wait for the limits of its volume.
    pub(crate) fn so_far(&self, now: Instant) -> Option<Duration> {
        self.verb.filter(|(verb, _)| *verb != Verb::Flush)?;
        Some(now.saturating_duration_since(self.came).saturating_sub(self.waited_for_limits()))
    }

    /// A node has answered, and says where its time went if that was long.
    pub(crate) fn answered(&mut self, spent: Option<Spent>) {
        self.in_node = spent.or(self.in_node);
    }

    /// What kind of request it is, and how long it took, now that it is over; none if it is an operator's.
    pub(crate) fn over(&mut self, now: Instant) -> Option<(Verb, Duration)> {
        self.enter(self.stage, now);
        Some((self.verb?.0, now.saturating_duration_since(self.came)))
    }

    /// What it was, how long it took, and where that time went.
    pub(crate) fn explained(&self, volume: &str, host: &str, node: usize) -> String {
        let (verb, bytes) = self.verb.unwrap_or((Verb::Flush, None));
        let bytes = bytes.map_or(String::new(), |(at, n)| format!(" of {n} bytes at {at}"));
        let all: Duration = self.spent.iter().sum();
        let part = |(stage, spent): (&(Stage, &str), &Duration)| {
            let at = match stage.0 {
                Stage::Node => {
                    format!(" node {node}{}", self.in_node.map_or(String::new(), within))
                }
                _ => String::new(),
            };
            (!spent.is_zero()).then(|| format!("{} {}{at}", seconds(*spent), stage.1))
        };
        let parts: Vec<String> = STAGES.iter().zip(&self.spent).filter_map(part).collect();
        let again = match self.attempts {
            0..=2 => String::new(),
            n => format!("; passed to nodes {} times", n - 1),
        };
        format!(
            "slow: a {verb}{bytes} of volume '{volume}' by {host} took {}: {}{again}",
            seconds(all),
            parts.join(", ")
        )
    }
}

/// Where a request's time in a node went, in words.
fn within(spent: Spent) -> String {
    let time = |nanos| seconds(Duration::from_nanos(nanos));
    let parts = [
        (spent.held, "before it began there"),
        (spent.own, "waiting for its own disk"),
        (spent.others, "waiting for other nodes"),
    ];
    let part = |(nanos, what): &(u64, &str)| format!("{} {what}", time(*nanos));
    let parts: Vec<String> = parts.iter().filter(|p| p.0 >= TOLD).map(part).collect();
    let longest = spent.longest.filter(|(_, nanos)| *nanos >= TOLD);
    let longest =
        longest.map(|(node, nanos)| format!(", at most {} for node {}", time(nanos), node.0));
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({}{})", parts.join(", "), longest.unwrap_or_default()),
    }
}

/// A time in words.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use weft_core::plan::Range;
    use weft_core::units::NodeId;

    use super::*;

    #[test]
    fn a_slow_request_says_where_its_time_went() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let read = HostOp::Read(Range { offset: 4096, len: 512 });
        let mut course = Course::new(&read, at(0));
        course.is_within_limits(at(0));
        course.enter(Stage::Node, at(1500));
        let (held, others) = (3_000_000, 480_000_000);
        let longest = Some((NodeId(1), 470_000_000));
        course.answered(Some(Spent { held, own: 400_000, others, longest }));
        assert_eq!(course.over(at(2000)), Some((Verb::Read, Duration::from_millis(2000))));
        assert_eq!(
            course.explained("v", "10.0.0.5:4711", 3),
            "slow: a read of 512 bytes at 4096 of volume 'v' by 10.0.0.5:4711 took 2.000 s: 1.500 s waiting for overlapping I/O, 0.500 s at node 3 (0.003 s before it began there, 0.480 s waiting for other nodes, at most 0.470 s for node 1)"
        );
        let mut course = Course::new(&HostOp::Flush, at(0));
        for (stage, ms) in
            [(Stage::Node, 0), (Stage::Parked, 10), (Stage::Node, 1010), (Stage::Node, 1510)]
        {
            course.enter(stage, at(ms));
        }
        course.over(at(1600));
        assert_eq!(course.waited_for_limits(), Duration::ZERO);
        assert_eq!(
            course.explained("v", "a local host", 0),
            "slow: a flush of volume 'v' by a local host took 1.600 s: 1.000 s without a node to \
             serve it, 0.600 s at node 0; passed to nodes 3 times"
        );
        let mut course = Course::new(&HostOp::Flush, at(0));
        course.is_within_limits(at(2000));
        course.enter(Stage::Node, at(2000));
        course.over(at(3500));
        assert_eq!(course.waited_for_limits(), Duration::from_secs(2));
        assert_eq!(
            course.explained("v", "a local host", 0),
            "slow: a flush of volume 'v' by a local host took 3.500 s: 2.000 s waiting for the volume's limits, 1.500 s at node 0"
        );
    }
}
