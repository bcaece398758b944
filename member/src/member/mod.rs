//! A member: what a process holds of the replicated authority.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weft_core::cluster::{Absence, ClusterMap};
use weft_core::units::{Nanos, NodeId};

use crate::consensus::{Committed, Consensus, Effects, GroupChange, Misstep};
use crate::decision::Decision;
use crate::fault;
use crate::hearing::Hearing;
use crate::holder::Holder;
use crate::leader::{Act, Context, Leader};
use crate::message::Message;
use crate::process::{incarnation_of, node_of};
use crate::{
    Config, ConfigError, Input, LogError, MapCodec, MemberId, Note, Output, Refusal, Status, Stored,
};

/// Why a member cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Its settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log holds a map that this version cannot read.
    #[error("the cluster map in the log cannot be read; start the version that wrote it")]
    Map,
    /// What the log says does not fit together.
    #[error("the log contradicts itself: {0}")]
    State(String),
}

mod anew;
mod check;
use anew::Waiting;

/// A member of the group that keeps the cluster map.
pub struct Member {
    id: MemberId,
    config: Config,
    codec: Arc<dyn MapCodec>,
    consensus: Consensus,
    holder: Holder,
    hearing: Hearing,
    leader: Option<Leader>,
    agreed: Decision,
    /// The highest term whose leader has committed something.
    begun: u64,
    /// This start is on record; nothing is said before.
    on_record: bool,
    writes: u64,
    next_tick: Nanos,
    /// Messages to itself.
    own: VecDeque<Message>,
    /// A decision that could not be proposed because the lead was being handed over.
    unproposed: Option<Vec<u8>>,
    /// Members that take the place of one whose log is lost, by process.
    anew: BTreeMap<NodeId, MemberId>,
    waiting: Waiting,
}

impl Member {
    /// A member with the nodes of its process, taking up what its log says. The first `handle`
    /// (a [`Input::Tick`] will do) sets it going.
    pub fn new(
        id: MemberId,
        nodes: &[NodeId],
        stored: Stored,
        config: Config,
        codec: Arc<dyn MapCodec>,
    ) -> Result<Member, StartError> {
        config.check()?;
        if id.0 == 0 {
            return Err(ConfigError::NoNumber.into());
        }
        if let Some(found) = stored.member.filter(|m| *m != id) {
            return Err(LogError::OtherMember { found: found.0, wanted: id.0 }.into());
        }
        let consensus = Consensus::new(id, stored, &config).map_err(StartError::State)?;
        let agreed = match consensus.latest() {
            [] => Decision::default(),
            bytes => Decision::decode(bytes, &*codec).map_err(|_| StartError::Map)?,
        };
        let holder = Holder::new(consensus.starts(), nodes);
        Ok(Member {
            id,
            config,
            codec,
            consensus,
            holder,
            hearing: Hearing::default(),
            leader: None,
            agreed,
            begun: 0,
            on_record: false,
            writes: 0,
            next_tick: 0,
            own: VecDeque::new(),
            unproposed: None,
            anew: BTreeMap::new(),
            waiting: Waiting::default(),
        })
    }

    /// Its number.
    pub fn id(&self) -> MemberId {
        self.id
    }

    /// Whether local nodes may serve at this moment. To be asked, with the clock read afresh,
    /// before a host is answered and before anything is read for anyone: a process that was
    /// paused wakes before anything can tell it so.
    pub fn may_serve(&self, now: Nanos) -> bool {
        self.holder.may_serve(now) || fault::serves_without_lease(self.config.bug)
    }

    /// Until when they may, if they have ever been allowed to.
    pub fn lease_until(&self) -> Option<Nanos> {
        self.holder.lease_until()
    }

    /// The map last agreed on, as far as this member knows.
    pub fn map(&self) -> &Arc<ClusterMap> {
        &self.agreed.map
    }

    /// Its state at a glance.
    pub fn status(&self) -> Status {
        let (voters, learners) = self.consensus.group();
        Status {
            term: self.consensus.term(),
            leader: self.consensus.leader(),
            voters,
            learners,
            map: self.agreed.map.clone(),
            lease_until: self.holder.lease_until(),
            settled: self.leader.as_ref().is_some_and(Leader::is_settled),
            dead: self.leader.as_ref().map_or(Vec::new(), Leader::dead),
        }
    }

    /// If it leads: the nodes that are down and not given up, and what is to become of each.
    pub fn absences(&self) -> Vec<Absence> {
        self.leader.as_ref().map_or(Vec::new(), Leader::absences)
    }

    fn group(&self) -> Vec<MemberId> {
        let (voters, learners) = self.consensus.group();
        voters.into_iter().chain(learners).collect()
    }

    /// Handles one input, and appends what is to be done to `out`. `now` is the process's clock,
    /// read after the input came; it never goes back and goes on while the process is stopped or
    /// the machine sleeps (CLOCK_BOOTTIME).
    pub fn handle(&mut self, now: Nanos, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Tick => {}
            Input::Message(from, bytes) => self.receive(now, from, &bytes, out),
            Input::Persisted(number) => self.persisted(number, out),
            Input::NodeReady(node) => {
                self.holder.ready(node);
                self.show(now);
            }
            Input::NodeDied(node) => {
                self.holder.died(node);
                self.show(now);
            }
            Input::DiskFailed(node) => {
                self.holder.disk_failed(node);
                self.show(now);
            }
            Input::Report(node, report) => {
                self.holder.report(node, report);
                self.show(now);
            }
            Input::Change(id, change) => {
                self.as_leader(now, id, out, |l, _| l.change(id, change));
            }
            Input::AddMember(id, member) => {
                let change = GroupChange::AddLearner(member);
                self.as_leader(now, id, out, |l, context| l.change_group(id, change, context));
            }
            Input::RemoveMember(id, member) => {
                let change = GroupChange::Remove(member);
                self.as_leader(now, id, out, |l, context| l.change_group(id, change, context));
            }
            Input::Connected(_) => self.show(now),
            Input::Disconnected(member) => {
                let lost = self.group().into_iter().filter(|m| node_of(*m) == node_of(member));
                lost.for_each(|m| self.consensus.unreachable(m));
            }
        }
        self.tick(now, out);
        self.settle(now, out);
        if let Some(serve) = self.holder.change(now) {
            out.push(if serve { Output::Resume } else { Output::Suspend });
        }
        let lease_end = self.holder.lease_until().filter(|until| *until > now);
        out.push(Output::Wake(lease_end.map_or(self.next_tick, |end| end.min(self.next_tick))));
    }

    /// One tick at most: after a pause, what has arrived meanwhile is read before the next.
    fn tick(&mut self, now: Nanos, out: &mut Vec<Output>) {
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + self.config.tick;
        if !self.on_record {
            return;
        }
        self.consensus.tick();
        self.ping(now, out);
        self.wait_for_admission(now, out);
        if let Some(decision) = self.unproposed.take() {
            self.propose(decision);
        }
        self.lead(now, out, Leader::tick);
    }

    /// Lets all others know that this process is here, if it is time.
    fn ping(&mut self, now: Nanos, out: &mut Vec<Output>) {
        let mut others = self.group();
        others.retain(|m| *m != self.id);
        if self.hearing.tick(now, &self.config, &others) {
            let unheard = self.hearing.report(now, &self.config);
            others.into_iter().for_each(|m| self.send(m, Message::Ping(unheard.clone()), out));
        }
    }

    fn receive(&mut self, now: Nanos, peer: MemberId, bytes: &[u8], out: &mut Vec<Output>) {
        if !self.on_record {
            return;
        }
        match Message::decode(bytes, &*self.codec) {
            Ok((from, ..)) if node_of(from) != node_of(peer) => {
                out.push(Output::Log(
                    Note::warning(format!("{peer} sent a message as {from}; dropped"))
                        .of(node_of(peer)),
                ));
            }
            Ok((from, to, _)) if to != self.id => self.misaddressed(from, to, out),
            Ok((from, _, message)) => {
                self.notice(from, out);
                self.hearing.heard(now, from);
                self.message(now, from, message, out);
            }
            Err(why) => {
                let text = format!("{peer} sent an unreadable message ({why}); dropped");
                out.push(Output::Log(Note::warning(text).of(node_of(peer))));
            }
        }
    }

    fn message(&mut self, now: Nanos, from: MemberId, message: Message, out: &mut Vec<Output>) {
        let term = self.consensus.term();
        match message {
            Message::Raft(bytes) => match self.consensus.step(from, &bytes) {
                Ok(()) => {}
                Err(Misstep::Refused(what)) => {
                    out.push(Output::Log(
                        Note::warning(format!("{from}: {what}; dropped")).of(node_of(from)),
                    ));
                }
                Err(Misstep::Forgotten) => out.push(Output::Stop(LogError::Older)),
            },
            Message::Probe { term: theirs, round } => {
                // A deposed leader gets no answer: it must not be confirmed.
                if theirs >= term {
                    self.holder.probed(theirs, round);
                    let alive =
                        self.holder.alive(now, theirs, self.hearing.report(now, &self.config));
                    self.send(from, Message::Alive(alive), out);
                }
            }
            Message::Alive(alive) => {
                // One that has not seen this term might still obey the leader before.
                if alive.term == term {
                    self.lead(now, out, |l, context| l.alive(from, alive, context));
                }
            }
            Message::Grant { start, stamp } => {
                let last = || self.holder.last_stamp();
                let stamp = fault::lease_counts_from(self.config.bug, stamp, last);
                self.holder.granted(start, stamp, self.config.lease);
            }
            Message::Word(mut word) => {
                let now_lives = || self.holder.life_of(word.node);
                word.life = fault::life_addressed(self.config.bug, word.life, now_lives);
                if let Some((node, message)) = self.holder.word(word, term) {
                    out.push(Output::Tell(node, message));
                    self.show(now);
                }
            }
            Message::Outlived { term: of, node, life } => {
                if let Some(node) = self.holder.outlived(of, node, life, term) {
                    out.push(Output::Log(
                        Note::warning(format!("the others continued without {node}")).of_node(node),
                    ));
                    out.push(Output::Restart(node));
                }
                self.show(now);
            }
            Message::Ping(unheard) => {
                self.lead(now, out, |l, context| l.reported(from, unheard, context));
            }
        }
    }

    /// Tells the leader how things stand here, unasked.
    fn show(&mut self, now: Nanos) {
        let unheard = self.hearing.report(now, &self.config);
        let alive = self.holder.alive(now, self.consensus.term(), unheard);
        self.own.push_back(Message::Alive(alive));
    }

    fn persisted(&mut self, number: u64, out: &mut Vec<Output>) {
        if number != self.writes {
            return;
        }
        self.on_record = true;
        let mut effects = Effects::default();
        self.consensus.written(&mut effects);
        self.take_effects(effects, out);
    }

    /// Of several decisions only the last matters.
    fn propose(&mut self, decision: Vec<u8>) -> bool {
        let proposed = self.consensus.propose(decision.clone());
        self.unproposed = (!proposed).then_some(decision);
        proposed
    }

    fn send(&mut self, to: MemberId, message: Message, out: &mut Vec<Output>) {
        if to == self.id {
            self.own.push_back(message);
        } else {
            out.push(Output::Send(to, message.encode(self.id, to, &*self.codec)));
        }
    }

    fn take_effects(&mut self, effects: Effects, out: &mut Vec<Output>) {
        for (to, bytes) in effects.messages {
            self.send(to, Message::Raft(bytes), out);
        }
        out.extend(effects.log.into_iter().map(|line| Output::Log(Note::warning(line))));
        if let Some(persist) = effects.persist {
            self.writes += 1;
            out.push(Output::Persist(self.writes, persist));
        }
    }

    /// Follows up on everything the input set in motion, until there is nothing left.
    fn settle(&mut self, now: Nanos, out: &mut Vec<Output>) {
        loop {
            let mut effects = Effects::default();
            self.consensus.pump(&mut effects);
            self.change_reign(now, out);
            let committed = std::mem::take(&mut effects.committed);
            let mut busy = !committed.is_empty();
            self.take_effects(effects, out);
            for committed in committed {
                self.committed(now, committed, out);
            }
            busy |= self.lead(now, out, Leader::work);
            while let Some(message) = self.own.pop_front() {
                busy = true;
                match (message, self.consensus.leader()) {
                    // Unasked news go to whoever leads.
                    (Message::Alive(alive), Some(leader)) if leader != self.id => {
                        self.send(leader, Message::Alive(alive), out);
                    }
                    (message, _) => self.message(now, self.id, message, out),
                }
            }
            if !busy {
                return;
            }
        }
    }

    fn change_reign(&mut self, now: Nanos, out: &mut Vec<Output>) {
        let leads = self.consensus.leads().then(|| self.consensus.term());
        if self.leader.as_ref().map(|l| l.term) == leads {
            return;
        }
        if let Some(leader) = self.leader.take() {
            out.push(Output::Log(Note::info("this process no longer leads the cluster")));
            let lost = leader.end();
            out.extend(lost.into_iter().map(|(id, why)| Output::Answer(id, Err(why))));
        }
        self.unproposed = None;
        self.leader = leads.map(|term| Leader::new(now, term));
    }

    fn committed(&mut self, now: Nanos, committed: Committed, out: &mut Vec<Output>) {
        match committed {
            Committed::Begun(term) => self.begun = self.begun.max(term),
            Committed::Decision(bytes) => {
                let Ok(decision) = Decision::decode(&bytes, &*self.codec) else {
                    let text = "a map was agreed on that this version cannot read; upgrade it";
                    out.push(Output::Log(Note::warning(text)));
                    return;
                };
                self.agreed = decision.clone();
                out.push(Output::Agreed(decision.map.clone()));
                self.lead(now, out, |l, context| l.decided(&decision, context));
            }
        }
    }

    /// A request: for the leader, if this is it.
    fn as_leader(
        &mut self,
        now: Nanos,
        id: u64,
        out: &mut Vec<Output>,
        ask: impl FnOnce(&mut Leader, &mut Context),
    ) {
        if self.leader.is_none() {
            let leader = self.consensus.leader().filter(|m| *m != self.id);
            out.push(Output::Answer(id, Err(Refusal::NotLeader { leader })));
        }
        self.lead(now, out, ask);
    }

    /// Lets the leader do something, if this is it. Returns whether anything came of it.
    fn lead(
        &mut self,
        now: Nanos,
        out: &mut Vec<Output>,
        work: impl FnOnce(&mut Leader, &mut Context),
    ) -> bool {
        let Some(leader) = &mut self.leader else { return false };
        let mut acts = Vec::new();
        let mut context = Context {
            now,
            id: self.id,
            config: &self.config,
            codec: &*self.codec,
            consensus: &self.consensus,
            agreed: &self.agreed,
            begun: self.begun == leader.term,
            anew: &self.anew,
            acts: &mut acts,
        };
        work(leader, &mut context);
        let mut busy = false;
        for act in acts {
            match act {
                Act::Send(to, message) => {
                    busy = true;
                    self.send(to, message, out);
                }
                Act::Propose(decision) => busy |= self.propose(decision),
                Act::Change(change) => busy |= self.consensus.propose_change(change),
                Act::HandOver(heir) => self.consensus.hand_over(heir),
                Act::Answer(id, answer) => out.push(Output::Answer(id, answer)),
                Act::Log(line) => out.push(Output::Log(line)),
            }
        }
        busy
    }
}
