//! Refusals: words that there are none, and values that do not go together.

use super::redundancy::bytes_in_words;
use super::time::NoTime;
use super::{
    CalculatedAt, Commands, Commit, Dispatch, Ordering, Policy, SequencerForm, Setting, choice,
};

/// Why a policy is refused: the given value, the conflict, and an alternative.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// There is no such value.
    #[error("'{word}' is not a value of {key}; choose {known}")]
    Word {
        /// The choice's key.
        key: String,
        /// The given value.
        word: String,
        /// What there is.
        known: String,
    },
    /// There is no such choice, or not here.
    #[error("'{key}' cannot be set; choose from {known}")]
    Key {
        /// The given value.
        key: String,
        /// What there is.
        known: String,
    },
    /// No length of time.
    #[error("{0}, or forever")]
    Time(NoTime),
    /// No such amount.
    #[error("'{word}' is not a value of {key}; give {like}")]
    Amount {
        /// The choice's key.
        key: &'static str,
        /// The given value.
        word: String,
        /// What it is like.
        like: &'static str,
    },
    /// This many parities cannot be immediate while others are deferred.
    #[error(
        "{given} leaves no parity of {layout} to defer: it has {parities}, so at most {most} can be immediate; choose \
         redundancy=immediate for all"
    )]
    NoneWaits {
        /// The given value.
        given: Setting,
        /// The volume's layout.
        layout: String,
        /// How many parities it has.
        parities: usize,
        /// How many of them may be immediate.
        most: usize,
    },
    /// A range of bytes that does not begin and end where stripes do.
    #[error(
        "{}..{} is not a range of whole stripes: a stripe has {}, and the volume {}; give {}..{}",
        at(*from), at(*to), at(*stripe), at(*size), at(*near_from), at(*near_to)
    )]
    NoStripes {
        /// Where it begins.
        from: u64,
        /// Where it ends.
        to: u64,
        /// The bytes of a stripe.
        stripe: u64,
        /// The bytes of the volume.
        size: u64,
        /// Where one begins that is near.
        near_from: u64,
        /// Where that ends.
        near_to: u64,
    },
    /// A choice that is not about stripes.
    #[error("{given} applies to the whole volume; a range can have its own {known}")]
    NotInRanges {
        /// The given value.
        given: Setting,
        /// What a range can have.
        known: String,
    },
    /// More ranges than a volume can have.
    #[error(
        "the volume would have {would} ranges with their own redundancy, and can have {most}; give adjacent ranges the \
         same values"
    )]
    TooManyRanges {
        /// How many there would be.
        would: usize,
        /// How many there can be.
        most: usize,
    },
    /// Disks do not do so well, even if no parity ever waits.
    #[error(
        "{given} is more than {layout} achieves with immediate parity on these disks: {most} hours; give less, or none"
    )]
    BeyondReach {
        /// The given value.
        given: Setting,
        /// The volume's layout.
        layout: String,
        /// The most that can be asked for.
        most: u64,
    },
    /// One choice was made twice.
    #[error("{0} also sets {1}: they are one choice; give only one of them")]
    Twice(&'static str, &'static str),
    /// Two values do not go together.
    #[error("{given} conflicts with {with}: {why}")]
    Clash {
        /// The given value.
        given: Setting,
        /// What it does not go with.
        with: Setting,
        /// Why, and what would do.
        why: &'static str,
    },
    /// Nobody can be the controller.
    #[error(
        "{0} needs a process that can be the controller, and no node is eligible: join one with `controller = true` in \
         its configuration, or choose roles=node"
    )]
    NoController(Setting),
    /// A volume with an address space of its own cannot have it: a thin one, or one that has had snapshots.
    #[error(
        "a volume that is thin or has had snapshots cannot have {0}: its writes are refused by a full disk before they begin, \
         which needs the journal and votes"
    )]
    Thin(Setting),
    /// It has snapshots, or is a clone, and parity would not be written at once.
    #[error(
        "a volume with snapshots, and a clone, cannot have {0}; omit it, or copy the volume to a new one"
    )]
    Snapshots(Setting),
    /// There is no parity to say something of.
    #[error("{given} needs a layout with parity, and {layout} has none; omit it")]
    NoParity {
        /// The given value.
        given: Setting,
        /// The volume's layout.
        layout: String,
    },
    /// Another form of the sequencer than the other volumes have.
    #[error(
        "the sequencer of this array is {now}, for all volumes with ordering=sequencer; omit the form, or change it for \
         all with `weft volume set VOLUME sequencer={given}`"
    )]
    OtherForm {
        /// The given value.
        given: SequencerForm,
        /// What the others have.
        now: SequencerForm,
    },
    /// A value is not for volumes.
    #[error("{given} is for measurements only; choose {instead}")]
    Measuring {
        /// The given value.
        given: Setting,
        /// What would do.
        instead: String,
    },
}

/// A place in a volume, or a length of it, as people write it.
fn at(bytes: u64) -> String {
    match bytes {
        0 => "0".to_string(),
        _ => bytes_in_words(bytes),
    }
}

/// Words as in a sentence, with this before the last.
fn listed(words: impl Iterator<Item = &'static str>, and: &str) -> String {
    let words: Vec<&str> = words.collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} {and} {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

impl PolicyError {
    pub(super) fn word(
        key: &str,
        word: &str,
        known: impl Iterator<Item = &'static str>,
    ) -> PolicyError {
        PolicyError::Word {
            key: key.to_string(),
            word: word.to_string(),
            known: listed(known, "or"),
        }
    }

    pub(super) fn key(key: &str, known: impl Iterator<Item = &'static str>) -> PolicyError {
        PolicyError::Key { key: key.to_string(), known: listed(known, "or") }
    }
}

/// Two values that do not go together.
struct Clash {
    /// The first, if a policy has it.
    one: fn(&Policy) -> Option<Setting>,
    /// The second, if a policy has it.
    other: fn(&Policy) -> Option<Setting>,
    /// Whether it matters only if the first is asked for: else it means nothing, and does no harm.
    if_said: bool,
    /// Why, and what would do.
    why: &'static str,
}

impl Clash {
    /// The two, if a policy has both.
    fn holds(&self, policy: &Policy) -> Option<(Setting, Setting)> {
        Some(((self.one)(policy)?, (self.other)(policy)?))
    }
}

const CLASHES: [Clash; 20] = [
    Clash {
        one: |p| p.redundancy.defers().then_some(Setting::Redundancy(p.redundancy.timing)),
        other: |p| (!p.commit.is_voted()).then_some(Setting::Commit(p.commit)),
        if_said: false,
        why: "without votes no node knows whether parity was marked out of date; choose commit=late",
    },
    Clash {
        one: |p| p.redundancy.defers().then_some(Setting::Redundancy(p.redundancy.timing)),
        other: |p| (!p.journal).then_some(Setting::Journal(p.journal)),
        if_said: false,
        why: "without a journal such a write is only in one process's memory until it reaches the disk, and a crash \
              would lose it after others have read it; leave the journal on",
    },
    Clash {
        one: |p| (p.commit == Commit::Limited).then_some(Setting::Commit(p.commit)),
        other: |p| (p.dispatch != Dispatch::Commanded).then_some(Setting::Dispatch(p.dispatch)),
        if_said: false,
        why: "the originator must ask every participant first; also set dispatch=commanded, or another commit",
    },
    Clash {
        one: |p| {
            let there = !matches!(p.calculated_at, None | Some(CalculatedAt::Originator));
            there.then_some(Setting::CalculatedAt(p.calculated_at))
        },
        other: |p| (p.dispatch == Dispatch::Commanded).then_some(Setting::Dispatch(p.dispatch)),
        if_said: false,
        why: "the commanding node computes parity; also set calculator=auto or calculator=originator, or \
              dispatch=collaborative",
    },
    Clash {
        one: |p| Some(Setting::Sequencer(p.sequencer)),
        other: |p| (p.ordering != Ordering::Sequencer).then_some(Setting::Ordering(p.ordering)),
        if_said: true,
        why: "only a volume with ordering=sequencer has a sequencer; also set ordering=sequencer",
    },
    Clash {
        one: |p| p.journal.then_some(Setting::Journal(true)),
        other: |p| (!p.commit.is_voted()).then_some(Setting::Commit(p.commit)),
        if_said: true,
        why: "without votes nothing is journalled; omit the journal, or choose commit=late",
    },
    Clash {
        one: |p| p.controller.map(|_| Setting::Roles(p.roles())),
        other: |p| (p.commit == Commit::Limited).then_some(Setting::Commit(p.commit)),
        if_said: false,
        why: "without votes the next controller could not tell whether a write was applied; choose commit=late",
    },
    Clash {
        one: |p| p.sees_no_data().then_some(Setting::Roles(p.roles())),
        other: |p| {
            (p.calculated_at == Some(CalculatedAt::Originator))
                .then_some(Setting::CalculatedAt(p.calculated_at))
        },
        if_said: false,
        why: "the controller sees no data, so it cannot compute parity; also set calculator=auto, parity, balanced or tree",
    },
    Clash {
        one: |p| p.sees_no_data().then_some(Setting::Roles(p.roles())),
        other: |p| (p.dispatch == Dispatch::Commanded).then_some(Setting::Dispatch(p.dispatch)),
        if_said: false,
        why: "the controller sees no data, so it cannot command each step; also set dispatch=collaborative, or \
              roles=central",
    },
    Clash {
        one: |p| (p.commands == Commands::Block).then_some(Setting::Commands(p.commands)),
        other: |p| (!p.sees_no_data()).then_some(Setting::Roles(p.roles())),
        if_said: true,
        why: "only roles=controller commands nodes block by block; also set roles=controller",
    },
    Clash {
        one: |p| (p.commands == Commands::Block).then_some(Setting::Commands(p.commands)),
        other: |p| (p.inline > 0).then_some(Setting::Inline(p.inline)),
        if_said: false,
        why: "inline data is sent with the commands for whole columns; also set inline=0, or commands=column",
    },
    Clash {
        one: |p| (p.inline > 0).then_some(Setting::Inline(p.inline)),
        other: |p| (!p.sees_no_data()).then_some(Setting::Roles(p.roles())),
        if_said: true,
        why: "only roles=controller keeps data away from the controller; also set roles=controller",
    },
    Clash {
        one: |p| (p.limits.burst > 0).then_some(Setting::Burst(p.limits.burst)),
        other: |p| p.limits.are_none().then_some(Setting::Iops(p.limits.iops)),
        if_said: true,
        why: "without a limit there is nothing to exceed; also set iops or bandwidth",
    },
    Clash {
        one: scheduled,
        other: |p| (!p.journal).then_some(Setting::Journal(p.journal)),
        if_said: false,
        why: "snapshots need the journal; omit the schedule, or create the volume with a journal",
    },
    Clash {
        one: scheduled,
        other: |p| (!p.commit.is_voted()).then_some(Setting::Commit(p.commit)),
        if_said: false,
        why: "snapshots need votes; also set commit=late, or snapshots=none",
    },
    Clash {
        one: scheduled,
        other: |p| p.redundancy.defers().then_some(Setting::Redundancy(p.redundancy.timing)),
        if_said: false,
        why: "a volume with snapshots cannot have deferred parity; also set redundancy=immediate, or snapshots=none",
    },
    Clash {
        one: scheduled,
        other: copied,
        if_said: false,
        why: "a snapshot does not show copies; also set redundancy=immediate, or snapshots=none",
    },
    Clash {
        one: copied,
        other: |p| {
            (!p.is_journaled()).then_some(match p.journal {
                true => Setting::Commit(p.commit),
                false => Setting::Journal(false),
            })
        },
        if_said: false,
        why: "copies are in the journal; leave it on, with commit=late",
    },
    Clash {
        one: copied,
        other: |p| (p.ordering != Ordering::Timestamps).then_some(Setting::Ordering(p.ordering)),
        if_said: false,
        why: "copies are put into parity at timestamps; choose ordering=timestamps",
    },
    Clash {
        one: copied,
        other: |p| {
            (p.controller.is_some() || p.dispatch == Dispatch::Commanded)
                .then_some(Setting::Roles(p.roles()))
        },
        if_said: false,
        why: "the node that a host uses sends the copies; choose roles=node",
    },
];

/// That small writes are copied, if they are.
fn copied(policy: &Policy) -> Option<Setting> {
    let redundancy = &policy.redundancy;
    redundancy.copies().then_some(Setting::Redundancy(redundancy.timing))
}

/// The schedule of snapshots, if there is one.
fn scheduled(policy: &Policy) -> Option<Setting> {
    (!policy.snapshots.is_none()).then_some(Setting::Snapshots(policy.snapshots))
}

/// What settings say besides what they name.
fn is_said_by(said: &Setting, setting: Setting) -> bool {
    let both = matches!((said, setting), (Setting::Roles(_), Setting::Dispatch(_)));
    said.key() == setting.key() || both
}

impl Policy {
    /// Refuses what does not go together. Only what has to do with the settings that somebody asks for is looked at.
    pub fn check(&self, said: &[Setting]) -> Result<(), PolicyError> {
        let is_said = |setting: Setting| said.iter().any(|s| is_said_by(s, setting));
        for clash in &CLASHES {
            let Some((one, other)) = clash.holds(self) else { continue };
            let (given, with) = if is_said(one) { (one, other) } else { (other, one) };
            if is_said(one) || (is_said(other) && !clash.if_said) {
                return Err(PolicyError::Clash { given, with, why: clash.why });
            }
        }
        Ok(())
    }

    /// Refuses what does not go together, whoever has asked for what.
    pub fn check_whole(&self) -> Result<(), PolicyError> {
        let mut held = CLASHES.iter().filter(|c| !c.if_said);
        match held.find_map(|c| Some((c.holds(self)?, c.why))) {
            Some(((given, with), why)) => Err(PolicyError::Clash { given, with, why }),
            None => Ok(()),
        }
    }

    /// Refuses what a volume cannot be given, too.
    pub fn check_for_volume(&self, said: &[Setting]) -> Result<(), PolicyError> {
        if let Some(given) = said.iter().copied().find(|s| s.is_for_measuring()) {
            let choice = choice(given.key()).expect("every setting has a choice");
            return Err(PolicyError::Measuring { given, instead: listed(choice.words(), "or") });
        }
        self.check(said)
    }
}
