//! Whether a host takes what it is told. One that does not keeps the memory of its answers from others.

use std::time::{Duration, Instant};

/// How long a host has been taking what there was to be told at some time.
#[derive(Debug, Default)]
pub(crate) struct Untaken {
    /// Bytes that it has taken.
    taken: u64,
    /// From this time on, until it has taken all of this.
    since: Option<(Instant, u64)>,
}

impl Untaken {
    /// It has taken some bytes.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.taken += bytes as u64;
    }

    /// Takes note of how many bytes it has yet to take.
    pub(crate) fn look(&mut self, left: usize) {
        let takes = self.since.is_some_and(|(_, end)| self.taken < end);
        if left == 0 {
            self.since = None;
        } else if !takes {
            self.since = Some((Instant::now(), self.taken + left as u64));
        }
    }

    /// Whether it has been at that for too long.
    pub(crate) fn is_over(&self, limit: Duration, now: Instant) -> bool {
        self.since.is_some_and(|(since, _)| now.saturating_duration_since(since) >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_at_some_time_is_to_be_taken_and_not_what_comes_later() {
        let limit = Duration::from_secs(60);
        let mut untaken = Untaken::default();
        untaken.look(100);
        let late = Instant::now() + limit;
        assert!(untaken.is_over(limit, late) && !untaken.is_over(limit, late - limit / 2));
        // A part of it is not enough.
        untaken.took(99);
        untaken.look(50);
        assert!(untaken.is_over(limit, late));
        untaken.took(1);
        untaken.look(50);
        assert!(!untaken.is_over(limit + Duration::from_secs(1), late), "it begins again");
        assert!(untaken.since.is_some_and(|(_, end)| end == 150));
        untaken.took(50);
        untaken.look(0);
        assert!(!untaken.is_over(limit, late + limit), "it may be silent");
    }
}
