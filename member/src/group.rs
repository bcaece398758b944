//! Who votes: a pure function from who is there to the next single step of the group.

use std::collections::BTreeMap;

use weft_core::units::NodeId;

use crate::MemberId;
use crate::consensus::GroupChange;
use crate::process::node_of;

/// The next step towards the right voters, if one is due. `ready` are the learners that are alive
/// and have all that is committed.
///
/// Voters come in pairs: with an even number, one more must stay alive and no more may fail. So
/// a single learner waits until there is a second, except where it makes an even number odd.
pub(crate) fn next_step(
    voters: &[MemberId],
    ready: &[MemberId],
    most: usize,
) -> Option<GroupChange> {
    let wanted = if voters.len() % 2 == 1 { 2 } else { 1 };
    let room = voters.len() + wanted <= most;
    (room && ready.len() >= wanted).then(|| GroupChange::Promote(ready[0]))
}

/// The next step towards a group in which members that have come anew are in the place of those of their
/// processes whose logs are lost. The new one comes first, so that a process is never without; it does not
/// vote before the old one has gone. Nobody comes in the place of the leader, which has its log: it may be the last
/// that votes, and such a one cannot go.
pub(crate) fn replacement(
    group: &[MemberId],
    leader: MemberId,
    anew: &BTreeMap<NodeId, MemberId>,
) -> Option<GroupChange> {
    let earlier = |old: &MemberId, new: &MemberId| {
        *old != leader && node_of(*old) == node_of(*new) && old < new
    };
    let gone = group.iter().find(|old| group.iter().any(|new| earlier(old, new)));
    let comes = |new: &&MemberId| group.iter().any(|old| earlier(old, new));
    gone.map(|old| GroupChange::Remove(*old))
        .or_else(|| anew.values().find(comes).map(|new| GroupChange::AddLearner(*new)))
}

/// How many make a majority.
pub(crate) fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Voters, learners that are ready, and whether one is promoted, with at most five voters.
    const STEPS: [(usize, usize, bool); 12] = [
        (1, 0, false),
        (1, 1, false),
        (1, 2, true),
        (2, 0, false),
        (2, 1, true),
        (3, 1, false),
        (3, 2, true),
        (4, 0, false),
        (4, 1, true),
        (5, 1, false),
        (5, 9, false),
        (6, 3, false),
    ];

    #[test]
    fn who_comes_anew_is_added_before_the_one_without_a_log_goes() {
        let new = 7 << 16 | 2;
        let anew = BTreeMap::from([(NodeId(1), MemberId(new))]);
        let step = |group: &[u64]| {
            let group: Vec<MemberId> = group.iter().copied().map(MemberId).collect();
            replacement(&group, MemberId(1), &anew)
        };
        assert_eq!(step(&[1, 2, 3]), Some(GroupChange::AddLearner(MemberId(new))));
        assert_eq!(step(&[1, 2, 3, new]), Some(GroupChange::Remove(MemberId(2))));
        assert_eq!(step(&[1, 3, new]), None);
        let later = 8 << 16 | 2;
        assert_eq!(step(&[1, 3, later]), None, "a later one has come");
        assert_eq!(step(&[1, new, later]), Some(GroupChange::Remove(MemberId(new))));
        assert_eq!(step(&[1, 3]), None, "its process has left");
        assert_eq!(step(&[1, 1 << 16 | 1]), None, "the leader has its log");
    }

    #[test]
    fn voters_come_in_pairs_up_to_the_most() {
        let ids = |from: u64, n: usize| (from..from + n as u64).map(MemberId).collect::<Vec<_>>();
        for (voters, ready, promoted) in STEPS {
            let step = next_step(&ids(1, voters), &ids(100, ready), 5);
            let expected = promoted.then_some(GroupChange::Promote(MemberId(100)));
            assert_eq!(step, expected, "{voters} voters, {ready} ready");
        }
        assert_eq!((1..6).map(majority).collect::<Vec<_>>(), [1, 2, 2, 3, 3]);
    }
}
