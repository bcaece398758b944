//! What is chosen for the cluster as a whole, and not for a volume: `weft cluster set KEY=VALUE`.

use crate::policy::time::{NoTime, in_words, parse_seconds};
use crate::units::{MILLIS, Nanos};

const SECOND: Nanos = 1000 * MILLIS;

/// The key of [`Settings::give_up_after`].
const GIVE_UP_AFTER: &str = "give-up-after";

/// The word for nobody being given up but by an operator.
const NEVER: &str = "never";

/// What is chosen for the cluster as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Settings {
    /// A node that has been down for so long is given up without an operator; so is one whose disk has failed, at
    /// once. Nobody is if it is open.
    pub give_up_after: Option<Nanos>,
}

/// One of them, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterSetting {
    /// [`Settings::give_up_after`].
    GiveUpAfter(Option<Nanos>),
}

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such key.
    #[error("there is no setting '{0}' of a cluster; there is {GIVE_UP_AFTER}=10m, or =never")]
    Key(String),
    /// The value is none.
    #[error("{GIVE_UP_AFTER}: {0}; or never")]
    Time(#[from] NoTime),
    /// A node that is only started again would be given up.
    #[error(
        "{GIVE_UP_AFTER}={0} is too short: a node that is only started again would be given up, and all that is on it \
         rebuilt; give {least} at least, and what a machine takes to start, such as 10m; or never",
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

    /// Makes one of them otherwise.
    pub fn set(&mut self, setting: ClusterSetting) {
        match setting {
            ClusterSetting::GiveUpAfter(after) => self.give_up_after = after,
        }
    }

    /// All of them: keys, and values as they are written.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let after = self.give_up_after.map(|after| in_words(after / SECOND));
        vec![(GIVE_UP_AFTER, after.unwrap_or(NEVER.to_string()))]
    }
}

impl ClusterSetting {
    /// Reads a setting that an operator asks for.
    ///
    /// # Errors
    ///
    /// If there is none of that key, or its value does not make sense.
    pub fn parse(key: &str, word: &str) -> Result<ClusterSetting, SettingError> {
        if key != GIVE_UP_AFTER {
            return Err(SettingError::Key(key.to_string()));
        }
        if word == NEVER {
            return Ok(ClusterSetting::GiveUpAfter(None));
        }
        match parse_seconds(word)?.saturating_mul(SECOND) {
            after if after < Settings::LEAST => Err(SettingError::TooShort(word.to_string())),
            after if after > Settings::MOST => Err(SettingError::TooLong(word.to_string())),
            after => Ok(ClusterSetting::GiveUpAfter(Some(after))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_said_again_in_the_same_words() {
        for word in ["10s", "10m", "2h", "365d", "never"] {
            let mut settings = Settings { give_up_after: Some(1) };
            settings.set(ClusterSetting::parse("give-up-after", word).unwrap());
            assert_eq!(settings.words(), [("give-up-after", word.to_string())]);
        }
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
        for word in ["366d", "99999999999d"] {
            assert!(refused("give-up-after", word).contains("365d at most"), "{word}");
        }
    }
}
