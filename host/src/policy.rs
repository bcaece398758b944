//! A volume's policy in words, by the core's table of choices: in `weft.toml`, for what is not as in most volumes,
//! in commands, and in status.

use std::collections::BTreeMap;

use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use weft_core::cluster::PolicyChange;
use weft_core::policy::{
    self, CHOICES, Choice, Dispatch, IN_RANGES, Ordering, Policy, PolicyError, Roles,
    SequencerForm, Setting,
};

use weft_core::units::Range;

use crate::error::{Error, Result, fail};

/// What the core refuses, in its words.
pub(crate) fn refused(why: PolicyError) -> Error {
    Error(why.to_string())
}

/// The words for what a volume has, by their keys in JSON.
pub(crate) fn words(policy: &Policy) -> Vec<(String, String)> {
    let says = |c: &&Choice| match c.of(policy) {
        // Status has it as yes or no, and of snapshots it says more.
        Setting::Journal(_) | Setting::Snapshots(_) => false,
        Setting::Sequencer(_) => policy.ordering == Ordering::Sequencer,
        _ => true,
    };
    CHOICES.iter().filter(says).map(|c| (in_files(c), c.word_of(policy))).collect()
}

/// The words for what a range of a volume can have for itself, by their keys in JSON.
pub(crate) fn words_of_range(policy: &Policy) -> BTreeMap<String, String> {
    let says = |c: &&Choice| IN_RANGES.contains(&c.key);
    CHOICES.iter().filter(says).map(|c| (in_files(c), c.word_of(policy))).collect()
}

/// A choice's key in files and JSON.
fn in_files(choice: &Choice) -> String {
    choice.key.replace('-', "_")
}

/// What is to be otherwise, from words.
pub(crate) fn change(
    set: &BTreeMap<String, String>,
    force: bool,
    range: Option<(u64, u64)>,
) -> Result<PolicyChange> {
    let settable = |c: &Choice| c.in_use && (range.is_none() || IN_RANGES.contains(&c.key));
    if set.is_empty() {
        let keys: Vec<String> =
            CHOICES.iter().filter(|c| settable(c)).map(|c| format!("{}=...", c.key)).collect();
        return fail(format!("give a setting: {}", keys.join(", ")));
    }
    let chosen = set.keys().filter_map(|key| policy::choice(key)).find(|choice| !choice.in_use);
    if let Some(choice) = chosen {
        return fail(format!(
            "{} is chosen at creation; copy the volume to a new one with another value (`weft volume create`, `weft volume \
             copy`)",
            choice.key
        ));
    }
    let settings = policy::settings(set, |c| c.in_use).map_err(refused)?;
    let range = range.map(|(offset, len)| Range { offset, len });
    Ok(PolicyChange { settings, unordered_sharing: force, range })
}

/// What a new volume is given, from words.
pub(crate) fn given(set: &BTreeMap<String, String>) -> Result<Vec<Setting>> {
    policy::settings(set, |_| true).map_err(refused)
}

/// The form of the sequencer among what is given.
pub(crate) fn form(given: &[Setting]) -> Option<SequencerForm> {
    given.iter().find_map(|s| match s {
        Setting::Sequencer(form) => Some(*form),
        _ => None,
    })
}

/// What of a policy is not the default, but for journal and commanded dispatch, which stand elsewhere: keys and
/// words, in the order of the table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyEntry(Vec<(String, String)>);

impl Serialize for PolicyEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, word)| (key, word)))
    }
}

impl<'de> Deserialize<'de> for PolicyEntry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<PolicyEntry, D::Error> {
        let words = BTreeMap::<String, String>::deserialize(from)?;
        Ok(PolicyEntry(words.into_iter().collect()))
    }
}

impl PolicyEntry {
    /// What is to be written down of a policy, if anything.
    pub(crate) fn of(policy: &Policy) -> Option<PolicyEntry> {
        let elsewhere = |s: Setting| {
            matches!(
                s,
                Setting::Journal(_)
                    | Setting::Dispatch(_)
                    | Setting::Roles(Roles::Node | Roles::Host)
            )
        };
        let usual = Policy::default();
        let said = |c: &&Choice| c.of(policy) != c.of(&usual) && !elsewhere(c.of(policy));
        let words = CHOICES.iter().filter(said).map(|c| (in_files(c), c.word_of(policy)));
        Some(PolicyEntry(words.collect())).filter(|entry| *entry != PolicyEntry::default())
    }

    /// The policy, the rest of which stands elsewhere.
    pub(crate) fn policy(&self, journal: bool, commanded: bool) -> Result<Policy> {
        let dispatch = if commanded { Dispatch::Commanded } else { Dispatch::Collaborative };
        let words = self.0.iter().map(|(key, word)| (key.replace('_', "-"), word.clone()));
        let settings = policy::settings(&words.collect(), |_| true).map_err(refused)?;
        let elsewhere = [Setting::Journal(journal), Setting::Dispatch(dispatch)];
        Ok(Policy::default().with(elsewhere).with(settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy for each value of each choice.
    fn policies() -> Vec<Policy> {
        let of = |c: &'static Choice| c.values().into_iter().map(move |v| c.parse(v.word).unwrap());
        CHOICES.iter().flat_map(of).map(|setting| Policy::default().with([setting])).collect()
    }

    #[test]
    fn what_is_chosen_at_creation_says_so() {
        let set = |key: &str| change(&[(key.to_string(), "off".to_string())].into(), false, None);
        let refused = set("journal").unwrap_err().0;
        assert!(refused.starts_with("journal is chosen at creation; copy the volume"), "{refused}");
        assert!(set("journals").unwrap_err().0.contains("cannot be set; choose from"));
    }

    #[test]
    fn what_is_written_down_is_read_back() {
        assert_eq!(PolicyEntry::of(&Policy::default()), None);
        for policy in policies() {
            let text = toml::to_string(&PolicyEntry::of(&policy).unwrap_or_default()).unwrap();
            let entry: PolicyEntry = toml::from_str(&text).unwrap();
            let commanded = policy.dispatch == Dispatch::Commanded;
            assert_eq!(entry.policy(policy.journal, commanded).unwrap(), policy, "{text}");
        }
        let bad: PolicyEntry = toml::from_str("commit = \"never\"").unwrap();
        assert!(bad.policy(true, false).unwrap_err().0.contains("late or limited"));
        let bad: PolicyEntry = toml::from_str("committed = \"late\"").unwrap();
        assert!(bad.policy(true, false).unwrap_err().0.contains("commit"));
    }

    /// As files had it before there was a table.
    #[test]
    fn files_say_it_as_they_always_did() {
        let all = [
            ("lost-wait", "5m"),
            ("sequencer", "worker-driven"),
            ("ordering", "sequencer"),
            ("commit", "none"),
            ("parity-at", "solely"),
            ("strategy", "small"),
            ("journal", "off"),
            ("dispatch", "commanded"),
        ];
        let set = all.into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let policy = Policy::default().with(given(&set).unwrap());
        let entry = toml::to_string(&PolicyEntry::of(&policy).unwrap()).unwrap();
        // But for one that has another key.
        assert_eq!(
            entry,
            "strategy = \"small\"\ncalculator = \"solely\"\ncommit = \"none\"\nordering = \"sequencer\"\n\
             sequencer = \"worker-driven\"\nlost_wait = \"5m\"\n"
        );
    }

    #[test]
    fn a_change_names_what_can_be_changed() {
        let set =
            |key: &str, value: &str| change(&[(key.into(), value.into())].into(), false, None);
        for choice in CHOICES.iter().filter(|c| c.in_use) {
            for word in choice.words() {
                let to = PolicyChange::to([choice.parse(word).unwrap()]);
                assert_eq!(set(choice.key, word).unwrap(), to);
            }
        }
        assert!(set("layout", "raid6").unwrap_err().0.contains("choose from strategy"));
        let nothing = change(&BTreeMap::new(), true, None).unwrap_err().0;
        assert!(
            nothing.contains("give a setting") && nothing.contains("calculator=..."),
            "{nothing}"
        );
    }
}
