//! What a process hears of each of the others. All ping all, so that the leader can tell a process
//! that is gone from one that only it does not hear.

use std::collections::BTreeMap;

use weft_core::units::Nanos;

use crate::{Config, MemberId};

/// What a process says of another that it has not heard in every round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unheard {
    pub member: MemberId,
    /// For how long it has not been heard.
    pub age: Nanos,
    /// In how many of the last 16 rounds it was not heard.
    pub late: u8,
}

/// Another process, as this one hears it.
struct Ear {
    last: Nanos,
    /// It was heard in the current round.
    heard: bool,
    /// The last rounds, the newest in the lowest bit: set where it was not heard.
    missed: u16,
}

/// All other processes, as this one hears them.
#[derive(Default)]
pub(crate) struct Hearing {
    ears: BTreeMap<MemberId, Ear>,
    next_round: Nanos,
}

impl Hearing {
    /// Anything has come from a process.
    pub fn heard(&mut self, now: Nanos, from: MemberId) {
        if let Some(ear) = self.ears.get_mut(&from) {
            (ear.last, ear.heard) = (now, true);
        }
    }

    /// Begins a round if it is time; returns whether it did: then the others are to be pinged. One
    /// round at most: a process that was paused has missed nothing meanwhile.
    pub fn tick(&mut self, now: Nanos, config: &Config, others: &[MemberId]) -> bool {
        if now < self.next_round {
            return false;
        }
        self.next_round = now + config.ping_every;
        self.ears.retain(|m, _| others.contains(m));
        for ear in self.ears.values_mut() {
            ear.missed = ear.missed << 1 | u16::from(!ear.heard);
            // After a pause it may have spoken all the time.
            let unheard_for = u64::from(ear.missed.trailing_ones() + 1) * config.ping_every;
            ear.last = ear.last.max(now.saturating_sub(unheard_for));
            ear.heard = false;
        }
        for m in others {
            self.ears.entry(*m).or_insert(Ear { last: now, heard: false, missed: 0 });
        }
        true
    }

    /// What there is to say of the others. Who is not named was heard less than a round ago.
    pub fn report(&self, now: Nanos, config: &Config) -> Vec<Unheard> {
        let long = |e: &Ear| now.saturating_sub(e.last) >= config.ping_every;
        let unheard = self.ears.iter().filter(|(_, e)| e.missed != 0 || long(e));
        let say = |(m, e): (&MemberId, &Ear)| {
            let (age, late) = (now.saturating_sub(e.last), e.missed.count_ones() as u8);
            Unheard { member: *m, age, late }
        };
        unheard.map(say).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);

    #[test]
    fn who_is_not_heard_is_reported_with_for_how_long_and_how_often() {
        let config = Config::default();
        let every = config.ping_every;
        let mut h = Hearing::default();
        for round in 0..20 {
            assert!(h.tick(round * every, &config, &[A, B]));
            assert!(!h.tick(round * every + 1, &config, &[A, B]), "not yet time");
            h.heard(round * every + 5, A);
            if round < 10 {
                h.heard(round * every + 7, B);
            }
        }
        let now = 19 * every + 9;
        let (age, late) = (now - 9 * every - 7, 9);
        assert_eq!(h.report(now, &config), [Unheard { member: B, age, late }]);
        h.heard(now, B);
        assert_eq!(h.report(now, &config), [Unheard { member: B, age: 0, late }]);
        assert!(h.tick(20 * every, &config, &[A]));
        assert_eq!(h.report(now, &config), [], "who does not belong any more is forgotten");
    }

    #[test]
    fn a_process_that_was_paused_takes_nobody_for_silent() {
        let config = Config::default();
        let every = config.ping_every;
        let mut h = Hearing::default();
        h.tick(0, &config, &[A]);
        h.heard(1, A);
        h.tick(every, &config, &[A]);
        h.tick(100 * every, &config, &[A]);
        let [unheard] = h.report(100 * every, &config)[..] else {
            panic!("one round went by unheard")
        };
        assert_eq!((unheard.late, unheard.age), (1, 2 * every));
    }
}
