//! Who votes: a pure function from who is there to the next single step of the group.

use crate::MemberId;
use crate::consensus::GroupChange;

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
