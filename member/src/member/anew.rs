//! Members that take the place of one whose log is lost.
//!
//! Such a member has a number of its own, so it has promised nothing and nothing that its predecessor promised is
//! asked of it. The others learn of it by its messages: it answers whoever takes it for its predecessor. The
//! leader adds it as a learner, removes the predecessor, and promotes it like any other; each of that takes a
//! majority of the group with the predecessor in it, so of members that remember.

use weft_core::units::Nanos;

use super::{Member, incarnation_of, node_of};
use crate::group::majority;
use crate::hearing::Unheard;
use crate::message::Message;
use crate::{MemberId, Note, Output};

/// What a member that waits to be admitted, or waits for a majority, has said.
#[derive(Default)]
pub(super) struct Waiting {
    since: Option<Nanos>,
    said: bool,
    /// How many voters were known to have forgotten when that was said last.
    forgotten: usize,
}

impl Member {
    /// Whether this member has taken the place of one whose log is lost, and no majority has admitted it yet.
    pub fn waits_for_admission(&self) -> bool {
        incarnation_of(self.id) > 0 && !self.group().contains(&self.id)
    }

    /// Of the voters, those that a new member of their process has taken the place of.
    fn forgotten(&self) -> Vec<MemberId> {
        let group = self.group();
        let newer = |m: &MemberId, new: &MemberId| node_of(*m) == node_of(*new) && m < new;
        let gone = |m: &MemberId| self.anew.values().chain(&group).any(|new| newer(m, new));
        self.consensus.group().0.into_iter().filter(gone).collect()
    }

    /// Whether so many of the voters have lost their logs that the others are no majority: then nothing can be
    /// agreed on any more.
    pub fn is_stuck(&self) -> bool {
        let voters = self.consensus.group().0.len();
        voters > 0 && voters - self.forgotten().len() < majority(voters)
    }

    /// A message has come for another member of this process: whoever sent it does not know this one.
    pub(super) fn misaddressed(&mut self, from: MemberId, to: MemberId, out: &mut Vec<Output>) {
        if node_of(to) == node_of(self.id) && to < self.id {
            self.send(from, Message::Ping(Vec::<Unheard>::new()), out);
        }
    }

    /// Takes note of a member whose process has an earlier one in the group.
    pub(super) fn notice(&mut self, from: MemberId, out: &mut Vec<Output>) {
        let (process, group) = (node_of(from), self.group());
        let older = group.iter().find(|m| node_of(**m) == process && **m < from);
        let known = self.anew.get(&process).is_some_and(|m| *m >= from);
        let Some(older) = older.filter(|_| !known && !group.contains(&from)) else { return };
        out.push(Output::Log(
            Note::warning(format!("the log of {older} is lost; {from} replaces it")).of(process),
        ));
        self.anew.insert(process, from);
        let (forgotten, voters) = (self.forgotten().len(), self.consensus.group().0.len());
        if self.is_stuck() && forgotten > self.waiting.forgotten {
            self.waiting.forgotten = forgotten;
            out.push(Output::Log(Note::warning(format!(
                "{forgotten} of {voters} voting members have lost their logs: the others are not \
                 a majority, and cannot agree on changes"
            ))));
        }
    }

    /// Says so if nobody has admitted this member for long.
    pub(super) fn wait_for_admission(&mut self, now: Nanos, out: &mut Vec<Output>) {
        if !self.waits_for_admission() {
            self.waiting.since = None;
            return;
        }
        let since = *self.waiting.since.get_or_insert(now);
        if !self.waiting.said && now.saturating_sub(since) >= self.config.open_patience {
            self.waiting.said = true;
            let text =
                "not readmitted yet: this needs a majority of the voting members, with their logs";
            out.push(Output::Log(Note::warning(text)));
        }
    }
}
