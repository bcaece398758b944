//! Which ends of requests are known once their host has heard of them: failures for a while, and no others.

use std::time::{Duration, Instant};

use super::{AHEAD, Failure, NumberedHost, State};

/// How long a failure is known after its host has heard of it: requests that name it may be on
/// their way (3.4.3 keeps aborted ones as long).
pub(super) const ABORTED_KEPT: Duration = Duration::from_secs(10);

impl NumberedHost {
    /// The host has heard the end of all before `oldest`.
    pub(super) fn hear(&mut self, oldest: u64, now: Instant) {
        if oldest <= self.oldest {
            return;
        }
        let newly = self.oldest..oldest;
        self.oldest = oldest;
        self.names.hear(oldest);
        let over = |(number, state): (&u64, &State)| match state {
            State::Done => Some((*number, None)),
            State::Failed(_, at) => Some((*number, Some(*at))),
            State::Held { .. } | State::InWork { .. } => None,
        };
        let over: Vec<_> = self.requests.range(newly).filter_map(over).collect();
        for (number, failed) in over {
            match failed {
                Some(at) => drop(self.heard_failures.insert((at, number))),
                None => drop(self.requests.remove(&number)),
            }
        }
        self.forget_failures(now);
    }

    /// Failures that the host has heard of are forgotten when they are old, or when there are many.
    fn forget_failures(&mut self, now: Instant) {
        let is_old = |at: Instant| now.duration_since(at) >= ABORTED_KEPT;
        while let Some((at, number)) = self.heard_failures.first().copied()
            && (is_old(at) || self.heard_failures.len() > AHEAD as usize)
        {
            self.heard_failures.pop_first();
            if matches!(self.requests.get(&number), Some(State::Failed(_, since)) if *since == at) {
                self.requests.remove(&number);
            }
        }
    }

    /// A request has failed, and is known for a while.
    pub(super) fn note_failure(&mut self, number: u64, why: Failure, now: Instant) {
        self.requests.insert(number, State::Failed(why, now));
        if number < self.oldest {
            self.heard_failures.insert((now, number));
            self.forget_failures(now);
        }
    }
}
