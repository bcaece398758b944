//! What is chosen for the cluster as a whole, and not for a volume: `weft cluster set KEY=VALUE`.

use crate::policy::PolicyError;
use crate::policy::redundancy::{bound_in_bytes, bytes_in_words};
use crate::policy::time::{NoTime, in_words, parse_seconds};
use crate::units::{MILLIS, Nanos};

const SECOND: Nanos = 1000 * MILLIS;

/// The key of [`Settings::give_up_after`].
const GIVE_UP_AFTER: &str = "give-up-after";

/// The keys of [`Settings::rebuild_floor`] and [`Settings::rebuild_ceiling`].
const REBUILD_FLOOR: &str = "rebuild-floor";
const REBUILD_CEILING: &str = "rebuild-ceiling";

/// The word for nobody being given up but by an operator.
const NEVER: &str = "never";

/// The word for a rate that each process takes from its own configuration.
const CONFIGURED: &str = "configured";

/// What is chosen for the cluster as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Settings {
    /// A node that has been down for so long is given up without an operator; so is one whose disk has failed, at
    /// once. Nobody is if it is open.
    pub give_up_after: Option<Nanos>,
    /// Bytes a second at which every disk is filled while hosts use it; as its process is configured if it is open.
    pub rebuild_floor: Option<u64>,
    /// The same while no host uses it.
    pub rebuild_ceiling: Option<u64>,
}

/// One of them, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterSetting {
    /// [`Settings::give_up_after`].
    GiveUpAfter(Option<Nanos>),
    /// [`Settings::rebuild_floor`].
    RebuildFloor(Option<u64>),
    /// [`Settings::rebuild_ceiling`].
    RebuildCeiling(Option<u64>),
}

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such key.
    #[error(
        "there is no setting '{0}' of a cluster; there are {GIVE_UP_AFTER}=10m, {REBUILD_FLOOR}=64M and \
         {REBUILD_CEILING}=200M"
    )]
    Key(String),
    /// The value is none.
    #[error("{GIVE_UP_AFTER}: {0}; or never")]
    Time(#[from] NoTime),
    /// The value is no rate.
    #[error("{0}; or {CONFIGURED}, for the value in each process's configuration")]
    Rate(#[from] PolicyError),
    /// A disk that was lost would take months to be rebuilt.
    #[error(
        "{key}={word} is too slow to rebuild a disk; give {least} a second at least",
        least = bytes_in_words(Settings::LEAST_FLOOR)
    )]
    TooSlow {
        /// Which rate.
        key: &'static str,
        /// What it was to be.
        word: String,
    },
    /// They contradict one another.
    #[error(
        "{REBUILD_CEILING}={} would be below {REBUILD_FLOOR}={}; set the other one first",
        bytes_in_words(*ceiling),
        bytes_in_words(*floor)
    )]
    Below {
        /// The rate while hosts use a disk.
        floor: u64,
        /// The rate while none does.
        ceiling: u64,
    },
    /// A node that is only started again would be given up.
    #[error(
        "{GIVE_UP_AFTER}={0} is too short: a node that merely restarts would be given up, and all \
         its content rebuilt; give {least} at least, and the time that a machine takes to start, such as 10m; or never",
        least = in_words(Settings::LEAST / SECOND)
    )]
    TooShort(String),
    /// It would be a word for never.
    #[error("{GIVE_UP_AFTER}={0} is too long; give {most} at most, or never", most = in_words(Settings::MOST / SECOND))]
    TooLong(String),
}

impl Settings {
    /// The shortest time after which a node may be given up: a process that is started again is back by then.
    pub const LEAST: Nanos = 10 * SECOND;

    /// The longest: whoever wants more means never.
    pub const MOST: Nanos = 365 * 86_400 * SECOND;

    /// The slowest rate at which disks may be filled while hosts use them, in bytes a second.
    pub const LEAST_FLOOR: u64 = 1 << 20;

    /// Makes one of them otherwise.
    pub fn set(&mut self, setting: ClusterSetting) {
        match setting {
            ClusterSetting::GiveUpAfter(after) => self.give_up_after = after,
            ClusterSetting::RebuildFloor(rate) => self.rebuild_floor = rate,
            ClusterSetting::RebuildCeiling(rate) => self.rebuild_ceiling = rate,
        }
    }

    /// Refuses what contradicts itself.
    ///
    /// # Errors
    ///
    /// If disks would be filled faster while hosts use them than while none does.
    pub fn check(&self) -> Result<(), SettingError> {
        match (self.rebuild_floor, self.rebuild_ceiling) {
            (Some(floor), Some(ceiling)) if ceiling < floor => {
                Err(SettingError::Below { floor, ceiling })
            }
            _ => Ok(()),
        }
    }

    /// All of them: keys, and values as they are written.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let after = self.give_up_after.map(|after| in_words(after / SECOND));
        let mut all = vec![(GIVE_UP_AFTER, after.unwrap_or(NEVER.to_string()))];
        let word = |rate: Option<u64>| rate.map_or(CONFIGURED.to_string(), bytes_in_words);
        all.extend(self.rates().map(|(key, rate)| (key, word(rate))));
        all
    }

    /// The rates that are chosen, as they are written.
    pub fn chosen_rates(&self) -> impl Iterator<Item = (&'static str, String)> {
        let chosen = |(key, rate): (_, Option<u64>)| rate.map(|rate| (key, bytes_in_words(rate)));
        self.rates().into_iter().filter_map(chosen)
    }

    fn rates(&self) -> [(&'static str, Option<u64>); 2] {
        [(REBUILD_FLOOR, self.rebuild_floor), (REBUILD_CEILING, self.rebuild_ceiling)]
    }
}

impl ClusterSetting {
    /// Reads a setting that an operator asks for.
    ///
    /// # Errors
    ///
    /// If there is none of that key, or its value does not make sense.
    pub fn parse(key: &str, word: &str) -> Result<ClusterSetting, SettingError> {
        match key {
            GIVE_UP_AFTER => Ok(ClusterSetting::GiveUpAfter(limit(word)?)),
            REBUILD_FLOOR => Ok(ClusterSetting::RebuildFloor(rate(REBUILD_FLOOR, word)?)),
            REBUILD_CEILING => Ok(ClusterSetting::RebuildCeiling(rate(REBUILD_CEILING, word)?)),
            _ => Err(SettingError::Key(key.to_string())),
        }
    }
}

/// Reads how long a node may be down.
fn limit(word: &str) -> Result<Option<Nanos>, SettingError> {
    if word == NEVER {
        return Ok(None);
    }
    match parse_seconds(word)?.saturating_mul(SECOND) {
        after if after < Settings::LEAST => Err(SettingError::TooShort(word.to_string())),
        after if after > Settings::MOST => Err(SettingError::TooLong(word.to_string())),
        after => Ok(Some(after)),
    }
}

/// Reads a rate in bytes a second.
fn rate(key: &'static str, word: &str) -> Result<Option<u64>, SettingError> {
    if word == CONFIGURED {
        return Ok(None);
    }
    match bound_in_bytes(key, word)? {
        rate if rate < Settings::LEAST_FLOOR => {
            Err(SettingError::TooSlow { key, word: word.to_string() })
        }
        rate => Ok(Some(rate)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_said_again_in_the_same_words() {
        for word in ["10s", "10m", "2h", "365d", "never"] {
            let mut settings = Settings { give_up_after: Some(1), ..Settings::default() };
            settings.set(ClusterSetting::parse("give-up-after", word).unwrap());
            assert_eq!(settings.words()[0], ("give-up-after", word.to_string()));
        }
        for (at, key) in [(1, "rebuild-floor"), (2, "rebuild-ceiling")] {
            for word in ["1M", "64M", "3G", "none", "configured"] {
                let mut settings = Settings::default();
                settings.set(ClusterSetting::parse(key, word).unwrap());
                assert_eq!(settings.words()[at], (key, word.to_string()));
            }
        }
    }

    #[test]
    fn rates_that_contradict_one_another_are_refused() {
        let mut settings = Settings::default();
        settings.set(ClusterSetting::parse("rebuild-floor", "64M").unwrap());
        settings.set(ClusterSetting::parse("rebuild-ceiling", "none").unwrap());
        assert_eq!(settings.check(), Ok(()));
        settings.set(ClusterSetting::parse("rebuild-ceiling", "8M").unwrap());
        let refused = settings.check().unwrap_err().to_string();
        assert!(refused.contains("=8M") && refused.contains("=64M"), "{refused}");
    }

    #[test]
    fn bad_settings_are_refused_with_what_would_do() {
        let refused = |key, word| ClusterSetting::parse(key, word).unwrap_err().to_string();
        assert!(refused("give-up", "10m").contains("no setting 'give-up'"));
        assert!(refused("give-up", "10m").contains("give-up-after=10m"));
        for word in ["0s", "9s"] {
            let text = refused("give-up-after", word);
            assert!(text.contains("too short") && text.contains("10s at least"), "{text}");
        }
        for word in ["", "10", "soon", "-1m", "1.5h"] {
            let text = refused("give-up-after", word);
            assert!(text.contains("15m") && text.contains("never"), "{text}");
        }
        for word in ["0", "1023K"] {
            let text = refused("rebuild-floor", word);
            assert!(text.contains("rebuild-floor"), "{text}");
        }
        assert!(refused("rebuild-ceiling", "1023K").contains("1M a second at least"));
        assert!(refused("rebuild-ceiling", "fast").contains("or configured"));
        for word in ["366d", "99999999999d"] {
            assert!(refused("give-up-after", word).contains("365d at most"), "{word}");
        }
    }
}
