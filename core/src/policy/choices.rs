//! The table of the choices, by their keys. Commands, options, scenarios, files and status all go by it.

use std::collections::BTreeMap;
use std::fmt;

use super::time::{in_words, parse_seconds};
use super::values::{BLOCKS, JOURNAL};
use super::{
    CalculatedAt, Commands, Commit, Dispatch, Flush, Kind, Ordering, Policy, PolicyError,
    Preference, Refresh, Roles, Row, Schedule, SequencerForm, Start, Timing, Valued, examples,
    limits, redundancy,
};
use crate::units::{MILLIS, Nanos};

/// A value for a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Setting {
    /// Of [`Policy::strategy`].
    Strategy(Option<Preference>),
    /// Of [`Policy::calculated_at`].
    CalculatedAt(Option<CalculatedAt>),
    /// Of [`Policy::dispatch`].
    Dispatch(Dispatch),
    /// Of [`Policy::controller`] and [`Policy::dispatch`].
    Roles(Roles),
    /// Of [`Policy::commit`].
    Commit(Commit),
    /// Of [`Policy::ordering`].
    Ordering(Ordering),
    /// Of [`Policy::sequencer`].
    Sequencer(SequencerForm),
    /// Of [`Policy::journal`].
    Journal(bool),
    /// Of [`Policy::lost_wait`].
    LostWait(Nanos),
    /// Of [`Redundancy::timing`](super::Redundancy::timing).
    Redundancy(Timing),
    /// Of [`Redundancy::immediate_parities`](super::Redundancy::immediate_parities).
    ImmediateParities(u8),
    /// Of [`Redundancy::refresh`](super::Redundancy::refresh).
    Refresh(Refresh),
    /// Of [`Redundancy::idle`](super::Redundancy::idle).
    Idle(Nanos),
    /// Of [`Redundancy::exposed_stripes`](super::Redundancy::exposed_stripes).
    ExposedStripes(u64),
    /// Of [`Redundancy::exposed_bytes`](super::Redundancy::exposed_bytes).
    ExposedBytes(u64),
    /// Of [`Redundancy::exposed_for`](super::Redundancy::exposed_for).
    ExposedFor(Nanos),
    /// Of [`Redundancy::flush`](super::Redundancy::flush).
    Flush(Flush),
    /// Of [`Redundancy::mttdl`](super::Redundancy::mttdl).
    Mttdl(u64),
    /// Of [`Redundancy::start`](super::Redundancy::start).
    Start(Start),
    /// Of [`Redundancy::disk_mttf`](super::Redundancy::disk_mttf).
    DiskMttf(u64),
    /// Of [`Policy::inline`].
    Inline(u64),
    /// Of [`Policy::commands`].
    Commands(Commands),
    /// Of [`VolumeLimits::iops`](super::VolumeLimits::iops).
    Iops(u64),
    /// Of [`VolumeLimits::bandwidth`](super::VolumeLimits::bandwidth).
    Bandwidth(u64),
    /// Of [`VolumeLimits::burst`](super::VolumeLimits::burst).
    Burst(Nanos),
    /// Of [`Policy::p99`].
    P99(Nanos),
    /// Of [`Policy::snapshots`].
    Snapshots(Schedule),
    /// Of [`Policy::block`].
    Block(u64),
}

/// A choice, by its key.
#[derive(Debug)]
pub struct Choice {
    /// Its key in commands, options and files.
    pub key: &'static str,
    /// What is chosen, in half a sentence.
    pub help: &'static str,
    /// The key of a choice that its values settle, too: one of the two can be given.
    pub settles: Option<&'static str>,
    /// Whether it can be changed while the volume is in use.
    pub in_use: bool,
    /// Its values: words, what they mean, and whom they are for. If any length of time is one, some of them.
    values: fn() -> Vec<Value>,
    parse: fn(&str) -> Result<Setting, PolicyError>,
    of: fn(&Policy) -> Setting,
}

/// A value of a choice, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its word.
    pub word: &'static str,
    /// What it means; empty for an example.
    pub help: &'static str,
    /// Whom it is for.
    pub kind: Kind,
}

pub(super) const FOREVER: &str = "forever";

/// All choices.
pub static CHOICES: [Choice; 28] = [
    Choice {
        key: "strategy",
        help: "how to compute parity for a write to part of a stripe",
        settles: None,
        in_use: true,
        values: || listed(&Preference::CHOICES),
        parse: |word| Valued::named(word).map(Setting::Strategy),
        of: |policy| Setting::Strategy(policy.strategy),
    },
    Choice {
        key: "calculator",
        help: "where parity and lost data are computed",
        settles: None,
        in_use: true,
        values: || listed(&CalculatedAt::CHOICES),
        parse: |word| Valued::named(word).map(Setting::CalculatedAt),
        of: |policy| Setting::CalculatedAt(policy.calculated_at),
    },
    Choice {
        key: "dispatch",
        help: "who plans each node's part of a write",
        settles: None,
        in_use: true,
        values: || listed(&Dispatch::CHOICES),
        parse: |word| word.parse().map(Setting::Dispatch),
        of: |policy| Setting::Dispatch(policy.dispatch),
    },
    Choice {
        key: "roles",
        help: "who coordinates a request and drives the disks: the nodes, the requesting host, or a controller",
        settles: Some("dispatch"),
        in_use: true,
        values: || listed(&Roles::CHOICES),
        parse: |word| word.parse().map(Setting::Roles),
        of: |policy| Setting::Roles(policy.roles()),
    },
    Choice {
        key: "commit",
        help: "when a write commits",
        settles: None,
        in_use: true,
        values: || listed(&Commit::CHOICES),
        parse: |word| word.parse().map(Setting::Commit),
        of: |policy| Setting::Commit(policy.commit),
    },
    Choice {
        key: "ordering",
        help: "how overlapping requests are ordered",
        settles: None,
        in_use: true,
        values: || listed(&Ordering::CHOICES),
        parse: |word| word.parse().map(Setting::Ordering),
        of: |policy| Setting::Ordering(policy.ordering),
    },
    Choice {
        key: "sequencer",
        help: "with ordering=sequencer, who keeps the graph of requests; one setting for all such volumes",
        settles: None,
        in_use: true,
        values: || listed(&SequencerForm::CHOICES),
        parse: |word| word.parse().map(Setting::Sequencer),
        of: |policy| Setting::Sequencer(policy.sequencer),
    },
    Choice {
        key: "journal",
        help: "whether writes are journalled before the vote",
        settles: None,
        in_use: false,
        values: || listed(&JOURNAL),
        parse: |word| found("journal", &JOURNAL, word).map(Setting::Journal),
        of: |policy| Setting::Journal(policy.journal),
    },
    Choice {
        key: "lost-wait",
        help: "how long requests to a failed volume wait for its nodes before they fail, any duration or forever",
        settles: None,
        in_use: true,
        values: || examples::TIMES.to_vec(),
        parse: |word| lost_wait(word).map(Setting::LostWait),
        of: |policy| Setting::LostWait(policy.lost_wait),
    },
    Choice {
        key: "redundancy",
        help: "when parity is computed for a write to part of a stripe",
        settles: None,
        in_use: true,
        values: || listed(Timing::ROWS),
        parse: |word| word.parse().map(Setting::Redundancy),
        of: |policy| Setting::Redundancy(policy.redundancy.timing),
    },
    Choice {
        key: "immediate-parities",
        help: "number of parities updated with each write while the others are deferred",
        settles: None,
        in_use: true,
        values: || examples::COUNTS.to_vec(),
        parse: |word| redundancy::count("immediate-parities", word).map(Setting::ImmediateParities),
        of: |policy| Setting::ImmediateParities(policy.redundancy.immediate_parities),
    },
    Choice {
        key: "refresh",
        help: "when deferred parity is computed",
        settles: None,
        in_use: true,
        values: || listed(Refresh::ROWS),
        parse: |word| word.parse().map(Setting::Refresh),
        of: |policy| Setting::Refresh(policy.redundancy.refresh),
    },
    Choice {
        key: "idle",
        help: "idle time of a disk before its deferred parity is computed, and its copies are folded; any duration",
        settles: None,
        in_use: true,
        values: || examples::IDLE_TIMES.to_vec(),
        parse: |word| redundancy::bound_in_time("idle", word).map(Setting::Idle),
        of: |policy| Setting::Idle(policy.redundancy.idle),
    },
    Choice {
        key: "exposed-stripes",
        help: "exposed stripes before parity is computed under any load, a number; at twice as many, parity is not deferred",
        settles: None,
        in_use: true,
        values: || examples::STRIPES.to_vec(),
        parse: |word| redundancy::bound("exposed-stripes", word).map(Setting::ExposedStripes),
        of: |policy| Setting::ExposedStripes(policy.redundancy.exposed_stripes),
    },
    Choice {
        key: "exposed-bytes",
        help: "exposed data before parity is computed under any load, a size; at twice as much, parity is not deferred",
        settles: None,
        in_use: true,
        values: || examples::BOUNDS.to_vec(),
        parse: |word| redundancy::bound_in_bytes("exposed-bytes", word).map(Setting::ExposedBytes),
        of: |policy| Setting::ExposedBytes(policy.redundancy.exposed_bytes),
    },
    Choice {
        key: "exposed-for",
        help: "time data may be exposed before parity is computed under any load, any duration",
        settles: None,
        in_use: true,
        values: || examples::EXPOSED_TIMES.to_vec(),
        parse: |word| redundancy::bound_in_time("exposed-for", word).map(Setting::ExposedFor),
        of: |policy| Setting::ExposedFor(policy.redundancy.exposed_for),
    },
    Choice {
        key: "flush",
        help: "with deferred parity, when a host's flush is answered",
        settles: None,
        in_use: true,
        values: || listed(Flush::ROWS),
        parse: |word| word.parse().map(Setting::Flush),
        of: |policy| Setting::Flush(policy.redundancy.flush),
    },
    Choice {
        key: "mttdl",
        help: "target MTTDL in hours, a number; parity is deferred only while the measured MTTDL is above it",
        settles: None,
        in_use: true,
        values: || examples::TARGETS.to_vec(),
        parse: |word| redundancy::target("mttdl", word).map(Setting::Mttdl),
        of: |policy| Setting::Mttdl(policy.redundancy.mttdl),
    },
    Choice {
        key: "start",
        help: "when parity may first be deferred",
        settles: None,
        in_use: true,
        values: || listed(Start::ROWS),
        parse: |word| word.parse().map(Setting::Start),
        of: |policy| Setting::Start(policy.redundancy.start),
    },
    Choice {
        key: "disk-mttf",
        help: "mean hours between unpredicted failures of a disk, a number, from which the MTTDL is computed",
        settles: None,
        in_use: true,
        values: || examples::MTTFS.to_vec(),
        parse: |word| redundancy::hours("disk-mttf", word).map(Setting::DiskMttf),
        of: |policy| Setting::DiskMttf(policy.redundancy.disk_mttf),
    },
    Choice {
        key: "inline",
        help: "with roles=controller, the largest write sent to the controller with its request, a size",
        settles: None,
        in_use: true,
        values: || examples::INLINE.to_vec(),
        parse: |word| inline(word).map(Setting::Inline),
        of: |policy| Setting::Inline(policy.inline),
    },
    Choice {
        key: "commands",
        help: "with roles=controller, the scope of one command to a node",
        settles: None,
        in_use: true,
        values: || listed(&Commands::CHOICES),
        parse: |word| word.parse().map(Setting::Commands),
        of: |policy| Setting::Commands(policy.commands),
    },
    Choice {
        key: "iops",
        help: "most requests per second of all hosts together, a number",
        settles: None,
        in_use: true,
        values: || examples::IOPS.to_vec(),
        parse: |word| limits::iops(word).map(Setting::Iops),
        of: |policy| Setting::Iops(policy.limits.iops),
    },
    Choice {
        key: "bandwidth",
        help: "most bytes per second that all hosts together read and write, a size",
        settles: None,
        in_use: true,
        values: || examples::BANDWIDTHS.to_vec(),
        parse: |word| limits::bandwidth(word).map(Setting::Bandwidth),
        of: |policy| Setting::Bandwidth(policy.limits.bandwidth),
    },
    Choice {
        key: "burst",
        help: "with iops or bandwidth, the idle time whose unused part may be used later above the limit, a duration",
        settles: None,
        in_use: true,
        values: || examples::BURSTS.to_vec(),
        parse: |word| limits::burst(word).map(Setting::Burst),
        of: |policy| Setting::Burst(policy.limits.burst),
    },
    Choice {
        key: "p99",
        help: "time within which 99 of 100 reads and writes are to end; rebuilds, scrubs and refreshing give way, a duration",
        settles: None,
        in_use: true,
        values: || examples::PROMISES.to_vec(),
        parse: |word| limits::p99(word).map(Setting::P99),
        of: |policy| Setting::P99(policy.p99),
    },
    Choice {
        key: "snapshots",
        help: "snapshots to take every hour, day, week or month, with the number to keep of each, a list",
        settles: None,
        in_use: true,
        values: || examples::SCHEDULES.to_vec(),
        parse: |word| Schedule::parse(word).map(Setting::Snapshots),
        of: |policy| Setting::Snapshots(policy.snapshots),
    },
    Choice {
        key: "block",
        help: "bytes of a logical block, as iSCSI hosts see the volume",
        settles: None,
        in_use: false,
        values: || listed(&BLOCKS),
        parse: |word| found("block", &BLOCKS, word).map(Setting::Block),
        of: |policy| Setting::Block(policy.block),
    },
];

fn listed<T>(rows: &[Row<T>]) -> Vec<Value> {
    rows.iter().map(|r| Value { word: r.word, help: r.help, kind: r.kind }).collect()
}

fn found<T: Copy>(key: &str, rows: &[Row<T>], word: &str) -> Result<T, PolicyError> {
    let row = rows.iter().find(|r| r.word == word);
    row.map(|r| r.value).ok_or_else(|| PolicyError::word(key, word, rows.iter().map(|r| r.word)))
}

fn inline(word: &str) -> Result<u64, PolicyError> {
    let like = "a size such as 4K or 64K, at most 1M, or 0";
    let refused = || PolicyError::Amount { key: "inline", word: word.to_string(), like };
    let bytes = match word {
        "0" => Ok(0),
        _ => redundancy::bound_in_bytes("inline", word).map_err(|_| refused()),
    };
    bytes.ok().filter(|b| *b <= Policy::MOST_INLINE).ok_or_else(refused)
}

fn lost_wait(word: &str) -> Result<Nanos, PolicyError> {
    if word == FOREVER {
        return Ok(Policy::FOREVER);
    }
    let seconds = parse_seconds(word).map_err(PolicyError::Time)?;
    // So long is for ever.
    Ok(seconds.saturating_mul(1000 * MILLIS))
}

/// The choice of this key, or of what was its key once.
pub fn choice(key: &str) -> Option<&'static Choice> {
    let key = key.replace('_', "-");
    CHOICES.iter().find(|c| c.key == key || c.old_key() == Some(&key))
}

/// Choices that had another key once, which files may have and commands take.
const OLD_KEYS: [(&str, &str); 1] = [("parity-at", "calculator")];

/// The words by the keys of today. Files and JSON have `_` in them where commands have `-`, and either is taken.
fn by_key(set: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, PolicyError> {
    let mut out = BTreeMap::new();
    for (given, word) in set {
        let known = choice(given);
        let key = known.map_or(given.as_str(), |known| known.key);
        if let (Some(_), Some(known)) = (out.insert(key.to_string(), word.clone()), known) {
            return Err(PolicyError::Twice(known.old_key().unwrap_or(known.key), known.key));
        }
    }
    Ok(out)
}

/// What is to be otherwise, from keys and words, in the order of the table. `fits` says which choices can be set here.
pub fn settings(
    set: &BTreeMap<String, String>,
    fits: impl Fn(&Choice) -> bool,
) -> Result<Vec<Setting>, PolicyError> {
    let set = by_key(set)?;
    let keys = || CHOICES.iter().filter(|c| fits(c)).map(|c| c.key);
    if let Some(key) = set.keys().find(|k| !keys().any(|known| known == k.as_str())) {
        return Err(PolicyError::key(key, keys()));
    }
    let mut all = Vec::new();
    for choice in CHOICES.iter() {
        let Some(word) = set.get(choice.key) else { continue };
        if let Some(other) = choice.settles.filter(|other| set.contains_key(*other)) {
            return Err(PolicyError::Twice(choice.key, other));
        }
        all.push(choice.parse(word)?);
    }
    Ok(all)
}

impl Choice {
    /// Its values in words; some of them, if any length of time is one.
    pub fn values(&self) -> Vec<Value> {
        (self.values)()
    }

    /// What its key was once.
    pub fn old_key(&self) -> Option<&'static str> {
        OLD_KEYS.iter().find(|(_, key)| *key == self.key).map(|(old, _)| *old)
    }

    /// The words that a volume can be given.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.values().into_iter().filter(|v| v.kind != Kind::Measuring).map(|v| v.word)
    }

    /// The value of this word.
    pub fn parse(&self, word: &str) -> Result<Setting, PolicyError> {
        (self.parse)(word)
    }

    /// What a policy has chosen.
    pub fn of(&self, policy: &Policy) -> Setting {
        (self.of)(policy)
    }

    /// What a policy has chosen, in words.
    pub fn word_of(&self, policy: &Policy) -> String {
        self.of(policy).word()
    }
}

impl Setting {
    /// Makes it so.
    pub fn apply(self, policy: &mut Policy) {
        match self {
            Setting::Strategy(to) => policy.strategy = to,
            Setting::CalculatedAt(to) => policy.calculated_at = to,
            Setting::Dispatch(to) => policy.dispatch = to,
            Setting::Roles(to) => {
                (policy.controller, policy.dispatch) = to.parts();
                // There is nobody any more whom these are for.
                if !policy.sees_no_data() {
                    (policy.commands, policy.inline) = (Commands::Column, 0);
                }
            }
            Setting::Commit(to) => policy.commit = to,
            Setting::Ordering(to) => policy.ordering = to,
            Setting::Sequencer(to) => policy.sequencer = to,
            Setting::Journal(to) => policy.journal = to,
            Setting::LostWait(to) => policy.lost_wait = to,
            Setting::Redundancy(to) => policy.redundancy.timing = to,
            Setting::ImmediateParities(to) => policy.redundancy.immediate_parities = to,
            Setting::Refresh(to) => policy.redundancy.refresh = to,
            Setting::Idle(to) => policy.redundancy.idle = to,
            Setting::ExposedStripes(to) => policy.redundancy.exposed_stripes = to,
            Setting::ExposedBytes(to) => policy.redundancy.exposed_bytes = to,
            Setting::ExposedFor(to) => policy.redundancy.exposed_for = to,
            Setting::Flush(to) => policy.redundancy.flush = to,
            Setting::Mttdl(to) => policy.redundancy.mttdl = to,
            Setting::Start(to) => policy.redundancy.start = to,
            Setting::DiskMttf(to) => policy.redundancy.disk_mttf = to,
            Setting::Inline(to) => policy.inline = to,
            Setting::Commands(to) => policy.commands = to,
            Setting::Iops(to) => policy.limits.iops = to,
            Setting::Bandwidth(to) => policy.limits.bandwidth = to,
            Setting::Burst(to) => policy.limits.burst = to,
            Setting::P99(to) => policy.p99 = to,
            Setting::Snapshots(to) => policy.snapshots = to,
            Setting::Block(to) => policy.block = to,
        }
    }

    /// The key of its choice.
    pub fn key(self) -> &'static str {
        match self {
            Setting::Strategy(_) => Option::<Preference>::KEY,
            Setting::CalculatedAt(_) => Option::<CalculatedAt>::KEY,
            Setting::Dispatch(_) => Dispatch::KEY,
            Setting::Roles(_) => Roles::KEY,
            Setting::Commit(_) => Commit::KEY,
            Setting::Ordering(_) => Ordering::KEY,
            Setting::Sequencer(_) => SequencerForm::KEY,
            Setting::Journal(_) => "journal",
            Setting::LostWait(_) => "lost-wait",
            Setting::Redundancy(_) => Timing::KEY,
            Setting::ImmediateParities(_) => "immediate-parities",
            Setting::Refresh(_) => Refresh::KEY,
            Setting::Idle(_) => "idle",
            Setting::ExposedStripes(_) => "exposed-stripes",
            Setting::ExposedBytes(_) => "exposed-bytes",
            Setting::ExposedFor(_) => "exposed-for",
            Setting::Flush(_) => Flush::KEY,
            Setting::Mttdl(_) => "mttdl",
            Setting::Start(_) => Start::KEY,
            Setting::DiskMttf(_) => "disk-mttf",
            Setting::Inline(_) => "inline",
            Setting::Commands(_) => Commands::KEY,
            Setting::Iops(_) => "iops",
            Setting::Bandwidth(_) => "bandwidth",
            Setting::Burst(_) => "burst",
            Setting::P99(_) => "p99",
            Setting::Snapshots(_) => "snapshots",
            Setting::Block(_) => "block",
        }
    }

    /// Its word.
    pub fn word(self) -> String {
        match self {
            Setting::Strategy(v) => v.word().to_string(),
            Setting::CalculatedAt(v) => v.word().to_string(),
            Setting::Dispatch(v) => v.to_string(),
            Setting::Roles(v) => v.to_string(),
            Setting::Commit(v) => v.to_string(),
            Setting::Ordering(v) => v.to_string(),
            Setting::Sequencer(v) => v.to_string(),
            Setting::Journal(v) => if v { "on" } else { "off" }.to_string(),
            Setting::LostWait(Policy::FOREVER) => FOREVER.to_string(),
            Setting::LostWait(wait) => in_words(wait / (1000 * MILLIS)),
            Setting::Redundancy(v) => v.to_string(),
            Setting::ImmediateParities(v) => v.to_string(),
            Setting::Refresh(v) => v.to_string(),
            Setting::Flush(v) => v.to_string(),
            Setting::Idle(v) | Setting::ExposedFor(v) | Setting::P99(v) => {
                redundancy::time_in_words(v)
            }
            Setting::Start(v) => v.to_string(),
            Setting::ExposedStripes(v) | Setting::Mttdl(v) | Setting::Iops(v) => {
                redundancy::bound_in_words(v)
            }
            Setting::Burst(v) => limits::burst_in_words(v),
            Setting::DiskMttf(v) | Setting::Block(v) => v.to_string(),
            Setting::Snapshots(v) => v.to_string(),
            Setting::Commands(v) => v.to_string(),
            Setting::Inline(0) => "0".to_string(),
            Setting::ExposedBytes(v) | Setting::Inline(v) | Setting::Bandwidth(v) => {
                redundancy::bytes_in_words(v)
            }
        }
    }

    fn kind(self) -> Kind {
        let choice = choice(self.key()).expect("every setting has a choice");
        let word = self.word();
        choice.values().iter().find(|v| v.word == word).map_or(Kind::Usual, |v| v.kind)
    }

    /// What whoever chooses it must know.
    pub fn warning(self) -> Option<&'static str> {
        match self.kind() {
            Kind::Warned(warning) => Some(warning),
            Kind::Usual | Kind::Measuring => None,
        }
    }

    /// Whether it is for runs that measure, and not for volumes.
    pub fn is_for_measuring(self) -> bool {
        self.kind() == Kind::Measuring
    }
}

/// As in `key=word`.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key(), self.word())
    }
}
