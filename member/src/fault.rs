//! Deliberate bugs: what a member does wrong if it is told to, so that tests can prove that the checker bites.
//!
//! All of them are here. Where one strikes there is a call with its name, and nothing else.

use std::borrow::Cow;

use weft_core::cluster::AuthorityBug;

use crate::{MemberId, Stored, Witness};

/// Deliberate bugs that the simulated worlds must find: that of this crate's tests the first two and the last,
/// and the simulation check, in which members have real nodes, all but the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Votes and acknowledgements leave before what they promise is safe.
    ActBeforePersisted,
    /// A process that missed one probe is declared dead, whatever lease it holds.
    NoLeaseWait,
    /// Nobody looks at the lease before nodes are handed messages and hosts answers.
    ServesWithoutLease,
    /// The authority is told that a map is stored when it has been proposed.
    EntersUncommitted,
    /// A member that starts again has forgotten its vote and its log since the last snapshot.
    ForgetsPromises,
    /// A node that the others went on without takes part again with all that it remembers.
    ComesBackAsItWas,
    /// A lease counts from when this process last said anything, and not from what a majority has heard.
    LeaseFromLastStamp,
    /// A word that was meant for an earlier life of a node is obeyed.
    ObeysForEarlierLife,
    /// A process without disks is as good a reason for another to go as one with disks, where the two do
    /// not hear each other.
    NeedsHosts,
    /// A log is taken up as far as it can be read, whatever its witness says.
    BelievesAnyLog,
    /// One of the authority, which the leader runs.
    Authority(AuthorityBug),
}

/// What the authority does wrong.
pub(crate) fn of_authority(bug: Option<Bug>) -> Option<AuthorityBug> {
    match bug {
        Some(Bug::Authority(bug)) => Some(bug),
        _ => None,
    }
}

/// Nodes may be handed messages, and hosts answers, whatever the lease says.
pub(crate) fn serves_without_lease(bug: Option<Bug>) -> bool {
    bug == Some(Bug::ServesWithoutLease)
}

/// From when a lease counts: `stamp` is what a majority has heard, `last` what was said last.
pub(crate) fn lease_counts_from<T>(bug: Option<Bug>, stamp: T, last: impl FnOnce() -> T) -> T {
    if bug == Some(Bug::LeaseFromLastStamp) { last() } else { stamp }
}

/// For which life of a node a word is: for `meant`, and not for the one that it lives now.
pub(crate) fn life_addressed<T>(bug: Option<Bug>, meant: T, now: impl FnOnce() -> Option<T>) -> T {
    let obeys = bug == Some(Bug::ObeysForEarlierLife);
    if obeys && let Some(life) = now() { life } else { meant }
}

/// A start takes up all that was promised.
pub(crate) fn forgets_promises(bug: Option<Bug>, stored: &mut Stored) {
    if bug == Some(Bug::ForgetsPromises) {
        let snapshot = stored.snapshot.get_metadata();
        (stored.hard.term, stored.hard.vote) = (snapshot.term, 0);
        stored.hard.commit = snapshot.index;
        stored.entries.clear();
    }
}

/// No log is taken up that its witness contradicts.
pub(crate) fn believes_any_log(bug: Option<Bug>) -> bool {
    bug == Some(Bug::BelievesAnyLog)
}

/// The witness that a start looks at.
pub(crate) fn witness_heeded(bug: Option<Bug>, member: MemberId, witness: &[u8]) -> Cow<'_, [u8]> {
    match believes_any_log(bug) {
        true => Witness::new(member, 0).bytes().into(),
        false => witness.into(),
    }
}

/// What waits for the disk waits for it.
pub(crate) fn acts_before_persisted(bug: Option<Bug>) -> bool {
    bug == Some(Bug::ActBeforePersisted)
}

/// A node that the others went on without starts anew.
pub(crate) fn comes_back_as_it_was(bug: Option<Bug>) -> bool {
    bug == Some(Bug::ComesBackAsItWas)
}

/// A process without disks is no reason for another to go.
pub(crate) fn needs_hosts(bug: Option<Bug>) -> bool {
    bug == Some(Bug::NeedsHosts)
}

/// A map is stored when it is agreed on.
pub(crate) fn enters_uncommitted(bug: Option<Bug>) -> bool {
    bug == Some(Bug::EntersUncommitted)
}

/// A process is dead when no lease of it can hold.
pub(crate) fn buries_after_one_probe(bug: Option<Bug>, missed: u32) -> bool {
    bug == Some(Bug::NoLeaseWait) && missed > 1
}
