//! Settling: finding out what became of a write when the messages that would have said so
//! did not come, because a node failed or a message was lost.
//!
//! Whoever needs to know asks every voter (the participants that had a say in the write and
//! take part now), and decides by one table. All who ask decide alike: a voter that knows
//! nothing of the write never will (it fences itself against it), and one that is prepared
//! stays so until somebody decides (docs/internals/architecture.md, commit and settling; TickerTAIP, Table IV). Where parity
//! waits, [`waiting`] has more of that table.

pub(crate) mod waiting;

use std::collections::BTreeMap;

use super::Standing;
use crate::units::{Nanos, NodeId};

/// What the answers so far mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not all have answered.
    Wait,
    /// The write happened.
    Commit,
    /// It did not.
    Abort,
}

/// A question to every voter.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Inquiry {
    answers: BTreeMap<NodeId, Standing>,
    /// When it was last asked.
    pub asked: Nanos,
    /// The write's originator does not ask after it any more.
    pub is_left_to_voters: bool,
}

impl Inquiry {
    /// Takes an answer.
    pub fn answer(&mut self, from: NodeId, standing: Standing) {
        self.answers.insert(from, standing);
    }

    /// The voters to ask (again).
    pub fn unanswered(&self, voters: &[NodeId]) -> Vec<NodeId> {
        let open = |n: &&NodeId| {
            let answer = self.answers.get(n);
            !matches!(answer, Some(Standing::Unknown | Standing::Committed { safe: true }))
        };
        voters.iter().filter(open).copied().collect()
    }

    /// The verdict of these voters.
    pub fn verdict(&self, voters: &[NodeId]) -> Verdict {
        verdict(voters.iter().map(|n| self.answers.get(n).copied()))
    }

    /// The verdict on a write without votes: each of these voters wrote its part or not, whatever the
    /// others did. It is done when all have, and not when one never will.
    pub fn verdict_without_votes(&self, voters: &[NodeId]) -> Verdict {
        let answers = || voters.iter().map(|n| self.answers.get(n));
        if answers().any(|a| a == Some(&Standing::Unknown)) {
            return Verdict::Abort;
        }
        let wrote = |a: Option<&Standing>| matches!(a, Some(Standing::Committed { .. }));
        match !voters.is_empty() && answers().all(wrote) {
            true => Verdict::Commit,
            false => Verdict::Wait,
        }
    }

    /// Whether anyone said that the write committed.
    pub fn any_committed(&self) -> bool {
        self.answers.values().any(|s| matches!(s, Standing::Committed { .. }))
    }

    /// Whether every voter knows the outcome for good.
    pub fn all_know(&self, voters: &[NodeId]) -> bool {
        self.unanswered(voters).is_empty()
    }

    /// Whether a node has said that it has committed for good.
    pub fn is_safe_at(&self, node: NodeId) -> bool {
        self.answers.get(&node) == Some(&Standing::Committed { safe: true })
    }

    /// The voters that are prepared and have not heard.
    pub fn unheard<'a>(&'a self, voters: &'a [NodeId]) -> impl Iterator<Item = NodeId> + 'a {
        let prepared = |n: &&NodeId| self.answers.get(n) == Some(&Standing::Prepared);
        voters.iter().filter(prepared).copied()
    }
}

/// The table. One voter that committed decides. One that knows nothing aborts the write, which
/// is right because the host was never answered; and it does so at once, since those who have
/// not answered yet may be gone tomorrow, and who is left must not decide otherwise. With
/// neither, all must have answered.
pub(crate) fn verdict(answers: impl Iterator<Item = Option<Standing>>) -> Verdict {
    let (mut missing, mut unknown, mut any) = (false, false, false);
    for answer in answers {
        any = true;
        match answer {
            Some(Standing::Committed { .. }) => return Verdict::Commit,
            None | Some(Standing::Busy) => missing = true,
            Some(Standing::Unknown) => unknown = true,
            Some(Standing::Prepared) => {}
        }
    }
    match (any, missing, unknown) {
        (_, _, true) => Verdict::Abort,
        (false, ..) | (_, true, _) => Verdict::Wait,
        _ => Verdict::Commit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination of what three voters may answer has exactly one outcome, and it is
    /// the one of docs/internals/architecture.md, commit and settling.
    #[test]
    fn the_table_over_all_inputs() {
        let standings = [
            None,
            Some(Standing::Unknown),
            Some(Standing::Busy),
            Some(Standing::Prepared),
            Some(Standing::Committed { safe: false }),
        ];
        for a in standings {
            for b in standings {
                for c in standings {
                    let all = [a, b, c];
                    let has = |s: Option<Standing>| all.contains(&s);
                    let expected = if has(standings[4]) {
                        Verdict::Commit
                    } else if has(standings[1]) {
                        Verdict::Abort
                    } else if has(None) || has(standings[2]) {
                        Verdict::Wait
                    } else {
                        Verdict::Commit
                    };
                    assert_eq!(verdict(all.into_iter()), expected, "{all:?}");
                }
            }
        }
        assert_eq!(verdict(std::iter::empty()), Verdict::Wait, "nobody to ask decides nothing");
    }

    /// Without votes one that has written says nothing of the others.
    #[test]
    fn a_write_without_votes_is_done_when_all_have_written() {
        let (wrote, nothing) = (Standing::Committed { safe: true }, Standing::Unknown);
        let voters = [NodeId(1), NodeId(2)];
        let verdict = |answers: &[Standing]| {
            let mut inquiry = Inquiry::default();
            voters.iter().zip(answers).for_each(|(node, answer)| inquiry.answer(*node, *answer));
            inquiry.verdict_without_votes(&voters)
        };
        assert_eq!(verdict(&[wrote]), Verdict::Wait);
        assert_eq!(verdict(&[wrote, Standing::Prepared]), Verdict::Wait);
        assert_eq!(verdict(&[wrote, wrote]), Verdict::Commit);
        assert_eq!(verdict(&[wrote, nothing]), Verdict::Abort);
        assert_eq!(Inquiry::default().verdict_without_votes(&[]), Verdict::Wait);
    }
}
