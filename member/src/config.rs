//! How a member is run, and which settings are refused because they would not be safe.

use weft_core::units::{MILLIS, Nanos};

use crate::fault::Bug;

/// How a member is run. All members of a cluster must be given the same `lease`, `dead_after`
/// and `drift_ppm`: the safety of the lease rests on them.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The unit of the election's time: how often a member looks after what time brings.
    pub tick: Nanos,
    /// A member that has not heard of a leader for this many ticks (up to twice as many, so
    /// that not all stand at once) proposes an election.
    pub election_ticks: u32,
    /// How often the leader asks every process whether it is alive. A lease is renewed as often, from an
    /// answer to the round before: one whose answer or grant is lost gets it two rounds later.
    pub probe_every: Nanos,
    /// How often all processes ping all others: often enough that of two processes each learns of
    /// the other several times while a third one's silence turns into its death.
    pub ping_every: Nanos,
    /// How long a node may serve after its process last showed itself to a leader that was then
    /// confirmed by a majority.
    pub lease: Nanos,
    /// How long a process may be silent before the leader declares it dead.
    pub dead_after: Nanos,
    /// At least so many probes in a row must be unanswered, too, in rounds that a majority has answered. A
    /// leader that was paused itself, or heard nobody, has to ask again before it declares anyone
    /// dead.
    pub missed_probes: u32,
    /// No clock gains or loses more than this, in parts of a million.
    pub drift_ppm: u32,
    /// How long a new leader waits for nodes whose process answers but is still opening disks.
    pub open_patience: Nanos,
    /// Most voters; further processes are learners. Odd.
    pub voters: usize,
    /// Entries of the log after which it begins again with a snapshot.
    pub snapshot_every: u64,
    /// What elections are drawn from. It need not be secret, nor different between members.
    pub seed: u64,
    /// A deliberate bug, for tests that prove that the checker bites.
    pub bug: Option<Bug>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            tick: 50 * MILLIS,
            election_ticks: 10,
            probe_every: 200 * MILLIS,
            ping_every: 250 * MILLIS,
            lease: 1_050 * MILLIS,
            dead_after: 1_100 * MILLIS,
            missed_probes: 4,
            drift_ppm: 10_000,
            open_patience: 10_000 * MILLIS,
            voters: 5,
            snapshot_every: 64,
            seed: 0,
            bug: None,
        }
    }
}

/// Settings that a member refuses to run with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The leader would declare a process dead while its nodes may still serve.
    #[error(
        "dead_after ({dead_after} ns) must be longer than lease ({lease} ns) even if one clock runs \
         {drift_ppm} ppm fast and another equally slow; use at least {least} ns"
    )]
    LeaseOutlivesDeath {
        /// The setting.
        dead_after: Nanos,
        /// The setting.
        lease: Nanos,
        /// The setting.
        drift_ppm: u32,
        /// The smallest `dead_after` that would do.
        least: Nanos,
    },
    /// One that must not be zero is.
    #[error("{0} must be greater than zero")]
    Zero(&'static str),
    /// An election needs several ticks.
    #[error("election_ticks is {0}; use 4 or more")]
    ElectionTooShort(u32),
    /// With an even number of voters one more must stay alive for nothing.
    #[error("voters is {0}; use an odd number")]
    EvenVoters(usize),
    /// Member numbers start at 1.
    #[error("a member's number must not be 0; number the members from 1")]
    NoNumber,
}

impl Config {
    /// Refuses what would not be safe or could not work.
    pub fn check(&self) -> Result<(), ConfigError> {
        let positive = [
            ("tick", self.tick),
            ("probe_every", self.probe_every),
            ("ping_every", self.ping_every),
            ("lease", self.lease),
            ("missed_probes", u64::from(self.missed_probes)),
            ("snapshot_every", self.snapshot_every),
        ];
        if let Some((name, _)) = positive.iter().find(|p| p.1 == 0) {
            return Err(ConfigError::Zero(name));
        }
        if self.election_ticks < 4 {
            return Err(ConfigError::ElectionTooShort(self.election_ticks));
        }
        if self.voters.is_multiple_of(2) {
            return Err(ConfigError::EvenVoters(self.voters));
        }
        let (lease, dead_after, drift_ppm) = (self.lease, self.dead_after, self.drift_ppm);
        let drift = u128::from(drift_ppm.min(999_999));
        let longest = u128::from(lease) * (1_000_000 + drift);
        if u128::from(dead_after) * (1_000_000 - drift) <= longest {
            let least = (longest / (1_000_000 - drift) + 1) as Nanos;
            return Err(ConfigError::LeaseOutlivesDeath { dead_after, lease, drift_ppm, least });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_safe_and_what_is_not_is_refused_with_what_would_do() {
        assert_eq!(Config::default().check(), Ok(()));
        let bad = Config { lease: 1_490 * MILLIS, ..Config::default() };
        let Err(ConfigError::LeaseOutlivesDeath { least, .. }) = bad.check() else { panic!() };
        assert_eq!(Config { dead_after: least, ..bad }.check(), Ok(()));
        assert!(Config { dead_after: least - 1, ..bad }.check().is_err());
        assert_eq!(
            Config { voters: 4, ..Config::default() }.check(),
            Err(ConfigError::EvenVoters(4))
        );
        assert!(Config { tick: 0, ..Config::default() }.check().is_err());
    }
}
