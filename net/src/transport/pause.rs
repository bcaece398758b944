//! How long to wait before dialling again.

use std::time::Duration;

/// Pauses that double up to a bound, each shortened by chance by up to a half, so that nodes
/// that lost one another at the same moment do not all come back at the same moment.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    shortest: Duration,
    longest: Duration,
    next: Duration,
    chance: u64,
}

impl Pause {
    pub fn new(shortest: Duration, longest: Duration, seed: u64) -> Pause {
        Pause { shortest, longest, next: shortest, chance: seed | 1 }
    }

    /// The next pause.
    pub fn take(&mut self) -> Duration {
        let full = self.next.min(self.longest);
        self.next = full.saturating_mul(2).min(self.longest);
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let half = full / 2;
        half + half.mul_f64((self.chance >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Begins with the shortest again.
    pub fn reset(&mut self) {
        self.next = self.shortest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_differ() {
        let ms = Duration::from_millis;
        let mut pause = Pause::new(ms(50), ms(300), 7);
        for full in [50, 100, 200, 300, 300] {
            let got = pause.take();
            assert!(got >= ms(full) / 2 && got <= ms(full), "{got:?} of {full}");
        }
        assert_ne!(pause.take(), pause.take());
        pause.reset();
        assert!(pause.take() <= ms(50));
    }
}
