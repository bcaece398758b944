//! Agreement: a thin shell around the Raft library (`raft`, TiKV's), which knows nothing of maps,
//! nodes or leases. Everything that names the library is in this directory and in the log's
//! records; another one could take its place behind the same few methods.
//!
//! The rule of Raft that matters here: nothing is said that rests on state which is not durable.
//! [`Effects::messages`] may leave at once. What has to wait is held here until the write that it
//! waits for is reported by [`Consensus::written`]. One write is outstanding at a time; what
//! comes up meanwhile goes into the next.

mod check;
mod log;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use raft::eraftpb::{ConfChange, ConfChangeType, Entry, EntryType, Message, MessageType};
use raft::{ProgressState, RawNode, SnapshotStatus, StateRole};

use crate::fault::{self, Bug};
use crate::frame::LogSpan;
use crate::record::{Frame, Stored};
use crate::{Config, MemberId, Persist, wire};
use log::Log;

/// What the library wants done, and what it has decided.
#[derive(Default)]
pub(crate) struct Effects {
    pub messages: Vec<(MemberId, Vec<u8>)>,
    pub committed: Vec<Committed>,
    pub persist: Option<Persist>,
    pub log: Vec<String>,
}

/// What a majority has made durable, in order.
pub(crate) enum Committed {
    /// The leader of this term has committed something: whatever earlier leaders committed is
    /// known to it now.
    Begun(u64),
    /// What a leader proposed.
    Decision(Vec<u8>),
}

/// Why a message was not taken up.
#[derive(Debug)]
pub(crate) enum Misstep {
    /// There is something wrong with it.
    Refused(String),
    /// It counts on entries that this member had, and has not any more.
    Forgotten,
}

/// A step of one member in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupChange {
    AddLearner(MemberId),
    Promote(MemberId),
    Remove(MemberId),
}

/// One member's part in the agreement.
pub(crate) struct Consensus {
    raft: RawNode<Log>,
    id: MemberId,
    starts: u64,
    election_ticks: usize,
    ticks: u64,
    snapshot_every: u64,
    seed: u64,
    bug: Option<Bug>,
    /// The last decision, as it was proposed.
    latest: Vec<u8>,
    /// The number of the last frame written.
    frame: u64,
    /// What the log holds with it.
    span: LogSpan,
    /// The entries that the next write will hold, and whether one is due at all.
    gathered: Frame,
    gathers: bool,
    /// The next write holds everything, instead of the log so far.
    replace: bool,
    /// While a write is outstanding: what it covers.
    writing: Option<u64>,
    /// The leader's snapshot that is not durable yet came with this `Ready`; until it is, the
    /// library must not be told that it is applied, and this member does not stand for election: the
    /// library would look for the entries that the snapshot took the place of.
    restoring: Option<u64>,
    /// The group has changed since the last snapshot.
    regrouped: bool,
    /// Messages that wait until what came with them is durable.
    held: VecDeque<(u64, Vec<Message>)>,
}

impl Consensus {
    /// Takes up what was stored. The first write begins the log anew, with the number of this
    /// start.
    pub fn new(id: MemberId, stored: Stored, config: &Config) -> Result<Consensus, String> {
        let (starts, frame) = (stored.starts + 1, stored.frame);
        let mut stored = stored;
        fault::forgets_promises(config.bug, &mut stored);
        let latest = stored.snapshot.data.to_vec();
        let log = Log::new(stored);
        let settings = raft::Config {
            id: id.0,
            election_tick: config.election_ticks as usize,
            heartbeat_tick: (config.election_ticks as usize / 4).max(1),
            applied: log.base(),
            max_size_per_msg: 1 << 20,
            check_quorum: true,
            pre_vote: true,
            ..raft::Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raft = RawNode::new(&settings, log, &logger).map_err(|e| e.to_string())?;
        let mut consensus = Consensus {
            raft,
            id,
            starts,
            election_ticks: config.election_ticks as usize,
            ticks: 0,
            snapshot_every: config.snapshot_every,
            seed: config.seed,
            bug: config.bug,
            latest,
            frame,
            span: LogSpan::default(),
            gathered: Frame::default(),
            gathers: false,
            replace: true,
            writing: None,
            restoring: None,
            regrouped: false,
            held: VecDeque::new(),
        };
        consensus.draw_timeout();
        Ok(consensus)
    }

    /// Which start of this member this is.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// The decision that is known to be committed, as it was proposed.
    pub fn latest(&self) -> &[u8] {
        &self.latest
    }

    pub fn term(&self) -> u64 {
        self.raft.raft.term
    }

    pub fn leads(&self) -> bool {
        self.raft.raft.state == StateRole::Leader
    }

    pub fn leader(&self) -> Option<MemberId> {
        Some(MemberId(self.raft.raft.leader_id)).filter(|m| m.0 != 0)
    }

    /// Voters and learners, each in order.
    pub fn group(&self) -> (Vec<MemberId>, Vec<MemberId>) {
        let conf = self.raft.raft.prs().conf().to_conf_state();
        let sorted = |ids: &[u64]| {
            let mut ids: Vec<MemberId> = ids.iter().copied().map(MemberId).collect();
            ids.sort_unstable();
            ids
        };
        (sorted(&conf.voters), sorted(&conf.learners))
    }

    /// Whether a member has, as far as the leader knows, all that is committed.
    pub fn has_all(&self, member: MemberId) -> bool {
        let committed = self.raft.raft.raft_log.committed;
        self.raft.raft.prs().get(member.0).is_some_and(|p| p.matched >= committed)
    }

    /// One tick of the election's time has passed.
    pub fn tick(&mut self) {
        self.ticks += 1;
        if self.restoring.is_none() {
            self.raft.tick();
        }
        if self.leads() && self.ticks.is_multiple_of(self.election_ticks as u64) {
            // A snapshot may have been lost on its way; if it was not, this does no harm.
            let stuck =
                self.raft.raft.prs().iter().filter(|p| p.1.state == ProgressState::Snapshot);
            let mut stuck: Vec<u64> = stuck.map(|p| *p.0).collect();
            stuck.sort_unstable();
            stuck.into_iter().for_each(|m| self.raft.report_snapshot(m, SnapshotStatus::Failure));
        }
        self.draw_timeout();
    }

    /// A message from another member. An error says what was wrong with it.
    pub fn step(&mut self, from: MemberId, bytes: &[u8]) -> Result<(), Misstep> {
        let unreadable = |e| Misstep::Refused(format!("a message that cannot be read ({e})"));
        let message = wire::decode(bytes).map_err(unreadable)?;
        if message.from != from.0 || message.to != self.id.0 {
            let text = format!("a message of {} to {}", message.from, message.to);
            return Err(Misstep::Refused(text));
        }
        // The leader names no more than what this member has said that it has.
        let beats = message.get_msg_type() == MessageType::MsgHeartbeat;
        if beats && message.commit > self.raft.raft.raft_log.last_index() {
            return Err(Misstep::Forgotten);
        }
        if message.get_msg_type() == MessageType::MsgTimeoutNow && self.restoring.is_some() {
            return Ok(());
        }
        // What the library does not expect now it refuses; that is no news.
        let _ = self.raft.step(message);
        self.draw_timeout();
        Ok(())
    }

    /// Proposes a decision, if this member leads.
    pub fn propose(&mut self, decision: Vec<u8>) -> bool {
        self.raft.propose(Vec::new(), decision).is_ok()
    }

    /// Proposes a change of the group, if this member leads and none is under way.
    pub fn propose_change(&mut self, change: GroupChange) -> bool {
        if self.raft.raft.has_pending_conf() {
            return false;
        }
        let (kind, member) = match change {
            GroupChange::AddLearner(m) => (ConfChangeType::AddLearnerNode, m),
            GroupChange::Promote(m) => (ConfChangeType::AddNode, m),
            GroupChange::Remove(m) => (ConfChangeType::RemoveNode, m),
        };
        let mut change = ConfChange::default();
        change.set_change_type(kind);
        change.node_id = member.0;
        self.raft.propose_conf_change(Vec::new(), change).is_ok()
    }

    /// Asks another member to lead.
    pub fn hand_over(&mut self, to: MemberId) {
        self.raft.transfer_leader(to.0);
        self.draw_timeout();
    }

    /// A connection is lost. If it was to the leader, that counts as one election time-out without
    /// a word of it: this member stands no longer in the way of another leader, and stands itself
    /// after what its own time-out is longer (up to as long again). Where the leader lives, a
    /// majority that has not lost it does not elect another.
    pub fn unreachable(&mut self, member: MemberId) {
        self.raft.report_unreachable(member.0);
        let raft = &mut self.raft.raft;
        if raft.state == StateRole::Follower && raft.leader_id == member.0 {
            raft.election_elapsed = raft.election_elapsed.max(self.election_ticks);
        }
    }

    /// The outstanding write is durable.
    pub fn written(&mut self, effects: &mut Effects) {
        if let Some(number) = self.writing.take() {
            self.durable(number, effects);
        }
    }

    /// Everything up to this `Ready` is durable.
    fn durable(&mut self, number: u64, effects: &mut Effects) {
        self.raft.on_persist_ready(number);
        if self.restoring.is_some_and(|r| r <= number) {
            self.restoring = None;
            self.raft.advance_apply();
        }
        while self.held.front().is_some_and(|h| h.0 <= number) {
            let (_, messages) = self.held.pop_front().expect("looked");
            self.send(messages, effects);
        }
    }

    fn send(&self, messages: Vec<Message>, effects: &mut Effects) {
        let encoded = messages.iter().filter_map(|m| Some((MemberId(m.to), wire::encode(m)?)));
        effects.messages.extend(encoded);
    }

    /// Works off what the library has come up with.
    pub fn pump(&mut self, effects: &mut Effects) {
        while self.raft.has_ready() {
            self.ready(effects);
            self.draw_timeout();
        }
        let full = self.raft.store().base() + self.snapshot_every;
        // A member takes up no snapshot of a group that it is not in.
        if self.regrouped || self.raft.raft.raft_log.applied >= full {
            self.regrouped = false;
            self.compact();
        }
        if self.writing.is_some() {
            return;
        }
        if self.replace || self.gathers {
            self.write(effects);
        } else if let Some((last, _)) = self.held.back() {
            // They waited for the write before them only.
            self.durable(*last, effects);
        }
    }

    fn ready(&mut self, effects: &mut Effects) {
        let mut ready = self.raft.ready();
        let number = ready.number();
        if !ready.snapshot().is_empty() {
            self.latest = ready.snapshot().data.to_vec();
            effects.committed.push(Committed::Decision(self.latest.clone()));
            self.raft.mut_store().restore(ready.snapshot().clone());
            self.replace = true;
            self.restoring = Some(number);
        }
        self.raft.mut_store().append(ready.entries());
        self.gathered.entries(ready.entries());
        self.gathers |= !ready.entries().is_empty();
        if let Some(hard) = ready.hs() {
            self.raft.mut_store().set_hard(hard.clone());
            self.gathers |= ready.must_sync();
        }
        let at_once = ready.take_messages();
        self.send(at_once, effects);
        self.held.push_back((number, ready.take_persisted_messages()));
        for entry in ready.take_committed_entries() {
            self.apply(&entry, effects);
        }
        self.raft.advance_append_async(ready);
        if self.restoring.is_none() {
            self.raft.advance_apply();
        }
        let nothing_to_write = self.writing.is_none() && !self.replace && !self.gathers;
        if nothing_to_write || fault::acts_before_persisted(self.bug) {
            self.durable(number, effects);
        }
    }

    fn apply(&mut self, entry: &Entry, effects: &mut Effects) {
        if entry.get_entry_type() != EntryType::EntryNormal {
            match wire::conf_change(entry).map(|c| self.raft.apply_conf_change(&c)) {
                Some(Ok(_)) => {}
                other => effects.log.push(format!("a change of the group was refused: {other:?}")),
            }
            self.regrouped = true;
        } else if entry.data.is_empty() {
            effects.committed.push(Committed::Begun(entry.term));
        } else {
            self.latest = entry.data.to_vec();
            effects.committed.push(Committed::Decision(self.latest.clone()));
        }
    }

    /// Begins the log again with what is applied.
    fn compact(&mut self) {
        let mut conf = self.raft.raft.prs().conf().to_conf_state();
        conf.voters.sort_unstable();
        conf.learners.sort_unstable();
        let (applied, data) = (self.raft.raft.raft_log.applied, self.latest.clone());
        self.raft.mut_store().compact(applied, conf, data);
        self.replace = true;
    }

    /// Every frame says how far is committed. A change of the group takes effect when it is known
    /// to be committed, so a member that forgot that would come back with an old group; were it
    /// two changes old, it might elect itself beside the true leader. The leader proposes a change
    /// only when the one before is committed. So whoever has a change in its log has the one
    /// before in force, and groups one change apart have no two majorities that do not meet.
    fn write(&mut self, effects: &mut Effects) {
        self.frame += 1;
        self.gathers = false;
        let mut frame = std::mem::take(&mut self.gathered);
        let replace = std::mem::take(&mut self.replace);
        let log = self.raft.store();
        if replace {
            (frame, self.span) = (Frame::default(), LogSpan::default());
            frame.started(self.id, self.starts);
            frame.snapshot(log.snapshot_ref());
            frame.entries(log.all_entries());
        }
        frame.hard_state(log.hard());
        let bytes = frame.finish(self.frame, &mut self.span);
        effects.persist =
            Some(if replace { Persist::Replace(bytes) } else { Persist::Append(bytes) });
        self.writing = Some(self.held.back().map_or(0, |h| h.0));
    }

    /// The library draws its election time-outs from the system's randomness. This puts one in
    /// place that follows from the seed, the member and the term, so that a run can be repeated.
    fn draw_timeout(&mut self) {
        let mut x = self.seed ^ self.id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= self.term().wrapping_mul(0xd1b5_4a32_d192_ed03);
        // splitmix64
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        let ticks = self.election_ticks + (x % self.election_ticks as u64) as usize;
        self.raft.raft.set_randomized_election_timeout(ticks);
    }
}
