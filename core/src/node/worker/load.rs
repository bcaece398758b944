//! The load of a disk: whether hosts use it, and whether it is time for a checkpoint.

use crate::units::{MILLIS, Nanos};

/// Counts since the last tick.
#[derive(Clone, Default, Hash)]
pub(in crate::node) struct Load {
    commits: u64,
    commits_at_tick: u64,
    /// Ticks since the last checkpoint.
    ticks_busy: u32,
    /// Parts of hosts' requests since the last tick, and whether there were any before it.
    host_parts: u64,
    hosts_are_busy: bool,
    /// When the last came.
    last_part: Nanos,
    /// When the present burst of parts began: there was no pause of [`LULL`] since.
    burst_began: Nanos,
    /// The longest of the bursts before; each that is shorter takes an eighth of it off.
    longest_burst: Nanos,
    /// Since when idle time is counted.
    began: Option<Nanos>,
    /// The sum of the pauses between parts of at least [`LULL`].
    lulls: Nanos,
}

/// A pause that counts as idle time: AFRAID's default (4.1).
const LULL: Nanos = 100 * MILLIS;

/// After this many ticks of writes without pause, a checkpoint is made anyway.
const MOST_TICKS: u32 = 10;

impl Load {
    /// Idle time counts from now on, if it does not already: the time before the node's life is unknown.
    pub fn begins(&mut self, now: Nanos) {
        self.began.get_or_insert(now);
    }

    /// A part of a host's request has come.
    pub fn host_part(&mut self, now: Nanos) {
        self.host_parts += 1;
        self.lulls = self.idle(now);
        if now.saturating_sub(self.last_part) >= LULL {
            // A clock may have been set back within it.
            let length = self.last_part.saturating_sub(self.burst_began);
            self.longest_burst = length.max(self.longest_burst - self.longest_burst / 8);
            self.burst_began = now;
        }
        self.last_part = now;
    }

    /// A write has happened.
    pub fn committed(&mut self) {
        self.commits += 1;
    }

    /// Whether hosts used the disk between the last two ticks.
    pub fn hosts_are_busy(&self) -> bool {
        self.hosts_are_busy
    }

    /// The length of bursts of parts lately.
    pub fn burst(&self, now: Nanos) -> Nanos {
        let is_over = now.saturating_sub(self.last_part) >= LULL;
        let end = if is_over { self.last_part } else { now };
        let present = end.saturating_sub(self.burst_began);
        self.longest_burst.max(present)
    }

    /// When the last part of a host's request came.
    pub fn last_part(&self) -> Nanos {
        self.last_part
    }

    /// The idle time so far: the sum of long pauses.
    pub fn idle(&self, now: Nanos) -> Nanos {
        let pause = now.saturating_sub(self.last_part.max(self.began.unwrap_or(now)));
        self.lulls + if pause >= LULL { pause } else { 0 }
    }

    /// Since when idle time counts.
    pub fn began(&self) -> Option<Nanos> {
        self.began
    }

    /// For how long no part of a host's request has come.
    pub fn quiet_since(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.last_part)
    }

    /// A tick.
    pub fn tick(&mut self) {
        self.hosts_are_busy = std::mem::take(&mut self.host_parts) > 0;
    }

    /// Whether a checkpoint is due: no new changes come, or there was none for long. Called once a tick.
    pub fn is_time_to_place(&mut self) -> bool {
        self.ticks_busy += 1;
        let quiet = self.commits == self.commits_at_tick;
        self.commits_at_tick = self.commits;
        let now = quiet || self.ticks_busy >= MOST_TICKS;
        if now {
            self.ticks_busy = 0;
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_bursts_is_that_of_the_longest_lately() {
        let ms = |n: u64| n * MILLIS;
        let mut load = Load::default();
        let mut burst = |from: u64, to: u64| {
            (from..=to).step_by(50).for_each(|at| load.host_part(ms(at)));
            load.burst(ms(to) + 1)
        };
        assert_eq!(burst(1_000, 1_800), ms(800) + 1);
        assert_eq!(burst(3_000, 3_100), ms(800), "the last one was longer");
        assert_eq!(burst(5_000, 5_100), ms(700));
        assert_eq!(burst(7_000, 8_000), ms(1_000) + 1);
        assert_eq!(load.burst(ms(20_000)), ms(1_000), "a pause is none");
    }

    #[test]
    fn idle_time_is_pauses_of_some_length_in_this_life() {
        let ms = |n: u64| n * MILLIS;
        let mut load = Load::default();
        assert_eq!(load.idle(ms(5_000)), 0, "nobody has looked yet");
        load.begins(ms(5_000));
        load.begins(ms(5_500));
        assert_eq!(load.idle(ms(6_000)), ms(1_000));
        load.host_part(ms(6_000));
        load.host_part(ms(6_050));
        assert_eq!(load.idle(ms(6_100)), ms(1_000), "short pauses do not count");
        assert_eq!(load.idle(ms(6_150)), ms(1_100));
    }
}
