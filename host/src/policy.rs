//! A volume's policy in words: in `weft.toml`, for what is not as in most volumes, and in commands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_core::cluster::PolicyChange;
use weft_core::order::sequencer::{SequencerForm, UnknownForm};
use weft_core::order::{Ordering, UnknownOrdering};
use weft_core::plan::{Commit, Dispatch, ParityAt, Policy, Strategy};
use weft_core::units::{MILLIS, Nanos};

use crate::error::{Error, Result, fail};
use crate::length_of_time::{self, parse_seconds};

const STRATEGIES: [(&str, Strategy); 2] = [("small", Strategy::Small), ("large", Strategy::Large)];
const PARITY_AT: [(&str, ParityAt); 3] = [
    ("originator", ParityAt::Originator),
    ("solely", ParityAt::Solely),
    ("parity", ParityAt::Parity),
];
const COMMITS: [(&str, Commit); 4] = [
    ("late", Commit::Late),
    ("early", Commit::Early),
    ("none", Commit::None),
    ("limited", Commit::Limited),
];

const DISPATCHES: [(&str, Dispatch); 2] =
    [("collaborative", Dispatch::Collaborative), ("commanded", Dispatch::Commanded)];

/// The same in the words of who drives the disks: the host that asks, or each node its own.
const ROLES: [(&str, Dispatch); 2] =
    [("node", Dispatch::Collaborative), ("host", Dispatch::Commanded)];

/// A wait for lost nodes that has no bound.
const FOREVER: &str = "forever";

/// A commit protocol that a volume can be given, by its name. (Without one, writes are not atomic:
/// that is for measuring, in an array that is made for it.)
pub(crate) fn commit(word: &str) -> Result<Commit> {
    chosen("commit", &COMMITS[..2], word)
}

/// A way to order requests, by its name.
pub(crate) fn ordering(word: &str) -> Result<Ordering> {
    word.parse().map_err(|e: UnknownOrdering| Error(e.to_string()))
}

/// A form of the sequencer, by its name.
pub(crate) fn sequencer(word: &str) -> Result<SequencerForm> {
    word.parse().map_err(|e: UnknownForm| Error(e.to_string()))
}

/// For how long requests wait for lost nodes, in words.
pub(crate) fn lost_wait(word: &str) -> Result<Nanos> {
    if word == FOREVER {
        return Ok(Policy::FOREVER);
    }
    let seconds = parse_seconds(word).map_err(|e| Error(format!("{e}; or {FOREVER}")))?;
    // So long is for ever.
    Ok(seconds.saturating_mul(1000 * MILLIS))
}

fn lost_wait_in_words(wait: Nanos) -> String {
    match wait {
        Policy::FOREVER => FOREVER.to_string(),
        wait => length_of_time::in_words(wait / (1000 * MILLIS)),
    }
}

/// The words for what a volume has.
pub(crate) fn words(policy: &Policy) -> Vec<(&'static str, String)> {
    let mut words = vec![
        ("ordering", policy.ordering.to_string()),
        ("commit", word(&COMMITS, policy.commit)),
        ("dispatch", word(&DISPATCHES, policy.dispatch)),
        ("roles", word(&ROLES, policy.dispatch)),
        ("lost_wait", lost_wait_in_words(policy.lost_wait)),
    ];
    if policy.ordering == Ordering::Sequencer {
        words.push(("sequencer", policy.sequencer.to_string()));
    }
    words
}

/// What is to be otherwise, from words.
pub(crate) fn change(set: &BTreeMap<String, String>, force: bool) -> Result<PolicyChange> {
    let mut change = PolicyChange { unordered_sharing: force, ..PolicyChange::default() };
    if set.is_empty() {
        return fail(
            "say what is to be set: ordering=..., sequencer=..., commit=..., dispatch=..., roles=... or \
             lost-wait=...",
        );
    }
    for (key, value) in set {
        match key.as_str() {
            "ordering" => change.ordering = Some(ordering(value)?),
            "sequencer" => change.sequencer = Some(sequencer(value)?),
            "commit" => change.commit = Some(commit(value)?),
            "dispatch" => change.dispatch = Some(chosen("dispatch", &DISPATCHES, value)?),
            "lost-wait" => change.lost_wait = Some(lost_wait(value)?),
            "roles" if set.contains_key("dispatch") => {
                return fail("roles and dispatch are one choice; set one of them");
            }
            "roles" => change.dispatch = Some(chosen("roles", &ROLES, value)?),
            other => {
                return fail(format!(
                    "'{other}' cannot be set; there are ordering, sequencer, commit, dispatch, roles \
                     and lost-wait"
                ));
            }
        }
    }
    Ok(change)
}

fn chosen<T: Copy>(key: &str, words: &[(&str, T)], word: &str) -> Result<T> {
    let found = words.iter().find(|(w, _)| *w == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
        Error(format!("'{word}' is no {key}; there are {}", known.join(" and ")))
    })
}

/// What of a policy is not the default.
#[derive(Serialize, Deserialize, Debug, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strategy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parity_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ordering: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequencer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost_wait: Option<String>,
}

impl PolicyEntry {
    /// What is to be written down of a policy, if anything.
    pub(crate) fn of(policy: &Policy) -> Option<PolicyEntry> {
        let default = Policy::default();
        let commit = Some(policy.commit).filter(|c| *c != default.commit);
        let ordering = Some(policy.ordering).filter(|o| *o != default.ordering);
        let sequencer = Some(policy.sequencer).filter(|s| *s != default.sequencer);
        let lost_wait = Some(policy.lost_wait).filter(|w| *w != default.lost_wait);
        let entry = PolicyEntry {
            strategy: policy.strategy.map(|s| word(&STRATEGIES, s)),
            parity_at: policy.parity_at.map(|p| word(&PARITY_AT, p)),
            commit: commit.map(|c| word(&COMMITS, c)),
            ordering: ordering.map(|o| o.to_string()),
            sequencer: sequencer.map(|s| s.to_string()),
            lost_wait: lost_wait.map(lost_wait_in_words),
        };
        (entry != PolicyEntry::default()).then_some(entry)
    }

    /// The policy, the rest of which stands elsewhere.
    pub(crate) fn policy(&self, journal: bool, commanded: bool) -> Result<Policy> {
        let commit = meant(&COMMITS, self.commit.as_deref())?;
        let ordering = self.ordering.as_deref().map(str::parse::<Ordering>).transpose();
        let ordering = ordering.map_err(|e| Error(e.to_string()))?;
        let sequencer = self.sequencer.as_deref().map(sequencer).transpose()?;
        let wait = self.lost_wait.as_deref().map(lost_wait).transpose()?;
        Ok(Policy {
            strategy: meant(&STRATEGIES, self.strategy.as_deref())?,
            parity_at: meant(&PARITY_AT, self.parity_at.as_deref())?,
            dispatch: if commanded { Dispatch::Commanded } else { Dispatch::Collaborative },
            commit: commit.unwrap_or(Policy::default().commit),
            ordering: ordering.unwrap_or_default(),
            sequencer: sequencer.unwrap_or_default(),
            journal,
            lost_wait: wait.unwrap_or(Policy::USUAL_LOST_WAIT),
        })
    }
}

fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> String {
    let found = words.iter().find(|(_, v)| *v == value);
    found.expect("volumes are made with values that have words").0.to_string()
}

fn meant<T: Copy>(words: &[(&'static str, T)], word: Option<&str>) -> Result<Option<T>> {
    let Some(word) = word else { return Ok(None) };
    match words.iter().find(|(w, _)| *w == word) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let known: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
            fail(format!("'{word}' is no policy; there are {}", known.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_read_back() {
        assert_eq!(PolicyEntry::of(&Policy::default()), None);
        let strategies = STRATEGIES.map(|(_, s)| Some(s)).into_iter().chain([None]);
        for strategy in strategies {
            for parity_at in PARITY_AT.map(|(_, p)| Some(p)).into_iter().chain([None]) {
                for (_, commit) in COMMITS {
                    let policy = Policy { strategy, parity_at, commit, ..Policy::default() };
                    let entry = PolicyEntry::of(&policy).unwrap_or_default();
                    assert_eq!(entry.policy(policy.journal, false).unwrap(), policy);
                }
            }
        }
        for ordering in Ordering::ALL {
            let policy = Policy { ordering, ..Policy::default() };
            let entry = PolicyEntry::of(&policy).unwrap_or_default();
            assert_eq!(entry.policy(policy.journal, false).unwrap(), policy);
        }
        for sequencer in SequencerForm::ALL {
            let policy = Policy { sequencer, ..Policy::default() };
            let entry = PolicyEntry::of(&policy).unwrap_or_default();
            assert_eq!(entry.policy(policy.journal, false).unwrap(), policy);
        }
        for (word, wait) in [("0s", 0), ("1m", 60_000 * MILLIS), ("forever", Policy::FOREVER)] {
            assert_eq!(lost_wait(word), Ok(wait));
            let policy = Policy { lost_wait: wait, ..Policy::default() };
            let entry = PolicyEntry::of(&policy).unwrap_or_default();
            assert_eq!(entry.policy(policy.journal, false).unwrap(), policy);
        }
        let set = |key: &str, value: &str| change(&[(key.into(), value.into())].into(), false);
        for ordering in Ordering::ALL {
            let to = PolicyChange { ordering: Some(ordering), ..PolicyChange::default() };
            assert_eq!(set("ordering", ordering.name()).unwrap(), to);
        }
        for (key, value, why) in [
            ("ordering", "locks", "there are none, sequencer"),
            ("sequencer", "central", "there are centralized"),
            ("commit", "none", "there are late and early"),
            ("dispatch", "", "there are collaborative and commanded"),
            (
                "order",
                "none",
                "there are ordering, sequencer, commit, dispatch, roles and lost-wait",
            ),
            ("lost-wait", "20", "30s, 15m, 12h or 7d; or forever"),
            ("roles", "disk", "there are node and host"),
        ] {
            assert!(set(key, value).unwrap_err().0.contains(why), "{key}={value}");
        }
        assert!(change(&BTreeMap::new(), true).unwrap_err().0.contains("say what"));
        let bad = PolicyEntry { commit: Some("never".into()), ..PolicyEntry::default() };
        assert!(bad.policy(true, false).unwrap_err().0.contains("late, early, none, limited"));
    }
}
