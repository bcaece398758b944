//! How long a node stays away that was taken out because its disk is slow.
//!
//! Whether a disk is still slow shows when it works. So its node comes back after a while and is watched. Each time that
//! it has to go again it stays away for twice as long. When it has done well for long enough, the next time is a first one.

use crate::units::Nanos;

/// When the node of a slow disk went, and when it came back.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    shortest: Nanos,
    longest: Nanos,
    /// How long it stays away, this time or the last.
    stays: Nanos,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Never,
    OutSince(Nanos),
    BackSince(Nanos),
}

impl BackOff {
    /// Of a node that stays away for `shortest` at first, and for `longest` at most. It must do well for the same time.
    pub fn new(shortest: Nanos, longest: Nanos) -> BackOff {
        BackOff { shortest, longest, stays: 0, state: State::Never }
    }

    /// It goes. Returns how long it stays away.
    pub fn goes(&mut self, now: Nanos) -> Nanos {
        let again = match self.state {
            State::BackSince(at) => now.saturating_sub(at) < self.longest,
            State::Never | State::OutSince(_) => false,
        };
        self.stays = if again { (2 * self.stays).min(self.longest) } else { self.shortest };
        self.state = State::OutSince(now);
        self.stays
    }

    /// Whether it is away.
    pub fn is_away(&self) -> bool {
        matches!(self.state, State::OutSince(_))
    }

    /// For how long it still stays away; none if it may come back.
    pub fn left(&self, now: Nanos) -> Option<Nanos> {
        let State::OutSince(at) = self.state else { return None };
        (at + self.stays).checked_sub(now).filter(|left| *left > 0)
    }

    /// It is back.
    pub fn is_back(&mut self, now: Nanos) {
        if self.is_away() {
            self.state = State::BackSince(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stays_away_for_twice_as_long_each_time_until_it_does_well() {
        let mut off = BackOff::new(60, 3600);
        off.is_back(5);
        assert!(!off.is_away() && off.left(5).is_none());
        let (mut now, mut stays) = (1000, Vec::new());
        for _ in 0..8 {
            stays.push(off.goes(now));
            let left = *stays.last().unwrap();
            assert_eq!((off.left(now), off.left(now + left - 1)), (Some(left), Some(1)));
            assert!(off.left(now + left).is_none() && off.is_away());
            off.is_back(now + left);
            assert!(!off.is_away());
            now += left + 300;
        }
        assert_eq!(stays, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        now += 3600;
        assert_eq!(off.goes(now), 60, "it has done well for an hour");
    }
}
