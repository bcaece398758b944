//! A bus between disks and their host: one transfer at a time.

use std::collections::VecDeque;

use weft_core::units::Nanos;

use super::nanos;
use crate::spec;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the host.
    Read,
    /// From the host.
    Write,
}

/// A bus. A disk has one to itself unless it is handed one that several share.
///
/// An access knows when its pieces will want the bus as soon as it begins, so it books them
/// then: each takes the first time free from when it is ready. Among pieces that want the same
/// time the access that began first is first served. (A real bus would serve the piece that
/// was ready first; the bus is busy for as long in either case.)
#[derive(Clone, Debug, Default)]
pub struct Bus {
    spec: spec::Bus,
    setup: Nanos,
    /// Times that are taken, in order, none touching the next.
    taken: VecDeque<(Nanos, Nanos)>,
    busy: Nanos,
    /// Of a shared bus: how long its pieces wait and cross.
    queue: Option<Waits>,
}

/// How long pieces of data are at a bus, from when they are ready until they are across.
#[derive(Clone, Debug, Default)]
struct Waits {
    /// Of those that were across at the last booking: the sum of their times.
    over: u128,
    /// When the others are ready, and when across.
    ahead: Vec<(Nanos, Nanos)>,
}

impl Waits {
    fn add(&mut self, now: Nanos, ready: Nanos, across: Nanos) {
        let over = &mut self.over;
        self.ahead.retain(|&(from, to)| {
            if to <= now {
                *over += u128::from(to - from);
            }
            to > now
        });
        self.ahead.push((ready, across));
    }

    fn until(&self, now: Nanos) -> u128 {
        let part = |&(from, to): &(Nanos, Nanos)| u128::from(to.min(now).saturating_sub(from));
        self.over + self.ahead.iter().map(part).sum::<u128>()
    }
}

impl Bus {
    /// A free bus.
    pub fn new(spec: &spec::Bus) -> Self {
        Bus {
            spec: spec.clone(),
            setup: nanos(spec.setup_ms),
            taken: VecDeque::with_capacity(4),
            busy: 0,
            queue: None,
        }
    }

    /// A free bus that several disks share, so that it has a queue to be looked at.
    pub fn shared(spec: &spec::Bus) -> Self {
        Bus { queue: Some(Waits::default()), ..Bus::new(spec) }
    }

    /// For how long it was, or is booked to be, in use.
    pub fn busy(&self) -> Nanos {
        self.busy
    }

    /// For how long it was in use up to `now`, which is not before the last booking.
    pub fn busy_until(&self, now: Nanos) -> Nanos {
        let part = |&(from, to): &(Nanos, Nanos)| to.saturating_sub(from.max(now));
        self.busy - self.taken.iter().map(part).sum::<Nanos>()
    }

    /// Of a shared bus: the number of pieces that were waiting for it or crossing it, as an
    /// integral over the time up to `now`, in nanoseconds. `now` is not before the last booking.
    pub fn queue_until(&self, now: Nanos) -> u128 {
        self.queue.as_ref().map_or(0, |queue| queue.until(now))
    }

    /// Books `bytes`, at most 2^30, from `ready` on; answers when they are across. `now` is the
    /// time of the booking.
    pub fn transfer(&mut self, now: Nanos, ready: Nanos, way: Direction, bytes: u64) -> Nanos {
        debug_assert!(bytes <= 1 << 30);
        let rate = match way {
            Direction::Read => self.spec.read_bytes_per_s,
            Direction::Write => self.spec.write_bytes_per_s,
        };
        let time = self.setup + (bytes * 1_000_000_000).checked_div(rate).unwrap_or(0);
        if time == 0 {
            return ready;
        }
        self.busy += time;
        let across = self.book(now, ready, time);
        if let Some(queue) = &mut self.queue {
            queue.add(now, ready, across);
        }
        across
    }

    /// Books so much time from `ready` on; answers when it is over.
    fn book(&mut self, now: Nanos, ready: Nanos, time: Nanos) -> Nanos {
        while self.taken.front().is_some_and(|taken| taken.1 < now) {
            self.taken.pop_front();
        }
        // Mostly it is after all the others.
        match self.taken.back_mut() {
            Some(last) if ready > last.1 => self.taken.push_back((ready, ready + time)),
            Some(last) if ready >= last.0 => last.1 += time,
            Some(_) => return self.fit_in(ready, time),
            None => self.taken.push_back((ready, ready + time)),
        }
        self.taken.back().expect("just booked").1
    }

    /// Books the first gap from `ready` on that is `time` long.
    fn fit_in(&mut self, ready: Nanos, time: Nanos) -> Nanos {
        let mut at = self.taken.partition_point(|taken| taken.1 < ready);
        let mut begin = ready;
        while let Some(&(from, to)) = self.taken.get(at) {
            if begin + time <= from {
                break;
            }
            begin = begin.max(to);
            at += 1;
        }
        let end = begin + time;
        // Neighbours that touch become one.
        let joins_before = at > 0 && self.taken[at - 1].1 == begin;
        let joins_after = self.taken.get(at).is_some_and(|next| next.0 == end);
        match (joins_before, joins_after) {
            (true, true) => {
                self.taken[at - 1].1 = self.taken[at].1;
                self.taken.remove(at);
            }
            (true, false) => self.taken[at - 1].1 = end,
            (false, true) => self.taken[at].0 = begin,
            (false, false) => self.taken.insert(at, (begin, end)),
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus() -> Bus {
        Bus::new(&spec::Bus {
            read_bytes_per_s: 1_000_000_000,
            write_bytes_per_s: 500_000_000,
            setup_ms: 0.00001,
            ..spec::Bus::default()
        })
    }

    #[test]
    fn one_at_a_time_with_set_up() {
        let mut bus = bus();
        assert_eq!(bus.transfer(0, 100, Direction::Read, 50), 160);
        assert_eq!(bus.transfer(0, 120, Direction::Write, 50), 270);
        assert_eq!(bus.transfer(0, 300, Direction::Read, 50), 360);
        assert_eq!(bus.busy(), 230);
    }

    #[test]
    fn gaps_are_used() {
        let mut bus = bus();
        assert_eq!(bus.transfer(0, 1000, Direction::Read, 90), 1100);
        assert_eq!(bus.transfer(0, 100, Direction::Read, 90), 200);
        // Too long for what is left before 1000.
        assert_eq!(bus.transfer(0, 150, Direction::Read, 890), 2000);
        assert_eq!(bus.transfer(0, 150, Direction::Read, 790), 1000);
        // All of it is taken now, as one stretch.
        assert_eq!(bus.taken, [(100, 2000)]);
        assert_eq!(bus.transfer(0, 0, Direction::Read, 90), 100);
    }

    #[test]
    fn what_is_booked_is_told_apart_from_what_is_over() {
        let mut bus = Bus { queue: Some(Waits::default()), ..bus() };
        // In use from 100 to 200, to 300 and from 1000 to 1100; the second waits for 80.
        assert_eq!(bus.transfer(0, 100, Direction::Read, 90), 200);
        assert_eq!(bus.transfer(0, 120, Direction::Read, 90), 300);
        assert_eq!(bus.transfer(0, 1000, Direction::Read, 90), 1100);
        let at = |bus: &Bus, now| (bus.busy_until(now), bus.queue_until(now));
        assert_eq!(at(&bus, 100), (0, 0));
        assert_eq!(at(&bus, 150), (50, 50 + 30));
        assert_eq!(at(&bus, 250), (150, 100 + 130));
        assert_eq!(at(&bus, 500), (200, 100 + 180));
        // A booking forgets what is over, and counts it all the same.
        assert_eq!(bus.transfer(500, 1050, Direction::Read, 90), 1200);
        assert_eq!(bus.queue.as_ref().unwrap().ahead.len(), 2);
        assert_eq!(at(&bus, 1100), (300, 280 + 100 + 50));
        assert_eq!(at(&bus, 9999), (400, 280 + 100 + 150));
        assert_eq!(bus.busy(), 400);
    }

    #[test]
    fn a_shared_bus_saturates_at_its_rate() {
        // Ten disks that want 20 % each: a piece of 100 every 500, for a long time.
        let mut bus = bus();
        let mut last = 0;
        for round in 0..1000 {
            for _ in 0..10 {
                last = bus.transfer(round * 500, round * 500, Direction::Read, 90);
            }
        }
        assert_eq!(last, 1000 * 10 * 100);
        assert_eq!(bus.busy(), last);
        assert!(bus.taken.len() <= 2);
    }
}
