//! What only the leader does: it runs the authority, on facts that it recounts from what the
//! processes say of themselves.
//!
//! A new leader *gathers* first: every process has shown itself or is declared dead, and the nodes
//! are open. Then it begins an authority with the last map agreed on. Nodes that have run on since
//! that map are told of first, and when they stand in a new epoch, those that have died and
//! started again meanwhile: as if their deaths had been noticed at the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_core::cluster::{
    Absence, Authority, AuthorityInput, AuthorityOutput, Change, ClusterMap, NodeInfo,
};
use weft_core::units::{Nanos, NodeId};

use crate::consensus::{Consensus, GroupChange};
use crate::decision::{Decision, Life, epoch_floor};
use crate::group;
use crate::hearing::Unheard;
use crate::liveness::{Circle, Liveness};
use crate::message::{Alive, Message, NodeState, Word};
use crate::note::listed;
use crate::process::node_of;
use crate::{Config, MapCodec, MemberId, Note, Refusal, fault};

/// What the leader wants done.
pub(crate) enum Act {
    Send(MemberId, Message),
    Propose(Vec<u8>),
    Change(GroupChange),
    HandOver(MemberId),
    Answer(u64, Result<(), Refusal>),
    Log(Note),
}

/// What a node has heard that was never told anything in its life.
const FRESH: (u64, u64) = (0, 0);

/// Whether a process is a host that is its own controller. Its number says so, also while it has no node
/// that runs.
fn is_host(map: &ClusterMap, member: MemberId) -> bool {
    map.nodes.get(usize::from(node_of(member).0)).is_some_and(NodeInfo::is_host)
}

/// A process with its name, and with its nodes if they have other numbers: `process 3 (box1, with nodes 3 and 4)`.
fn in_words(map: &ClusterMap, member: MemberId) -> String {
    let process = node_of(member);
    let nodes: Vec<u16> = map.served_by(process).map(|n| n.0).collect();
    let home = map.nodes.get(usize::from(process.0)).and_then(|i| i.home.as_ref());
    let with = (!nodes.is_empty() && nodes != [process.0]).then(|| {
        format!("with node{} {}", if nodes.len() == 1 { "" } else { "s" }, listed(&nodes))
    });
    let known: Vec<String> = home.map(|h| h.name.clone()).into_iter().chain(with).collect();
    match known.is_empty() {
        true => member.to_string(),
        false => format!("{member} ({})", known.join(", ")),
    }
}

/// The log line of a process that leads from now on, with the number of nodes that continue their work.
fn leads(ran_on: usize) -> String {
    let nodes = match ran_on {
        0 => "all nodes have restarted".to_string(),
        1 => "one node continues its work".to_string(),
        n => format!("{n} nodes continue their work"),
    };
    format!("this process leads the cluster from now on; {nodes}")
}

/// How far the reign has come.
#[derive(PartialEq)]
enum Reign {
    /// Its first entry is not committed, or not every process is known.
    Gathering,
    /// The nodes that ran on are being taken over.
    TakingOver,
    /// It goes by what happens.
    Settled,
}

pub(crate) struct Leader {
    pub term: u64,
    since: Nanos,
    reign: Reign,
    liveness: Liveness,
    authority: Authority,
    /// The nodes that the authority believes to run.
    told: BTreeMap<NodeId, Life>,
    /// The last word to each node.
    words: BTreeMap<NodeId, Word>,
    number: u64,
    /// Of each process that was declared dead and came back: the number of the last word before.
    returned: BTreeMap<MemberId, u64>,
    /// Changes asked for: those that the authority has, and those that it is yet to be given.
    given: Vec<u64>,
    asked: Vec<(u64, Change)>,
    group: Vec<(u64, GroupChange)>,
}

/// Whether a life of a node takes part in the map agreed on.
fn ran_on(agreed: &Decision, node: NodeId, life: Life) -> bool {
    agreed.map.is_up(node) && agreed.lives.get(&node) == Some(&life)
}

/// What a leader works with.
pub(crate) struct Context<'a> {
    pub now: Nanos,
    pub id: MemberId,
    pub config: &'a Config,
    pub codec: &'a dyn MapCodec,
    pub consensus: &'a Consensus,
    /// The agreed state that this member knows.
    pub agreed: &'a Decision,
    /// The leader's first entry is committed, so it knows all that is agreed on.
    pub begun: bool,
    /// Members that are to take the place of one whose log is lost, by process.
    pub anew: &'a BTreeMap<NodeId, MemberId>,
    pub acts: &'a mut Vec<Act>,
}

impl Leader {
    pub fn new(now: Nanos, term: u64) -> Leader {
        Leader {
            term,
            since: now,
            reign: Reign::Gathering,
            liveness: Liveness::new(term, now),
            authority: Authority::new(Default::default()),
            told: BTreeMap::new(),
            words: BTreeMap::new(),
            number: 0,
            returned: BTreeMap::new(),
            given: Vec::new(),
            asked: Vec::new(),
            group: Vec::new(),
        }
    }

    /// Checks what must hold when an input has been handled.
    pub fn check(&self) {
        self.liveness.check(self.term);
        for (node, word) in &self.words {
            assert_eq!((word.term, word.node), (self.term, *node), "a word is this reign's");
            assert!(word.number <= self.number, "words are numbered up to the last");
        }
        let returned = self.returned.values().all(|number| *number <= self.number);
        assert!(returned, "who came back did so after a word that has been said");
    }

    pub fn dead(&self) -> Vec<MemberId> {
        self.liveness.dead()
    }

    /// The nodes that are down and not given up, and the future of each.
    pub fn absences(&self) -> Vec<Absence> {
        if self.is_settled() { self.authority.absences() } else { Vec::new() }
    }

    /// Whether it makes changes that it is asked for at once.
    pub fn is_settled(&self) -> bool {
        self.reign == Reign::Settled
    }

    /// A process shows itself.
    pub fn alive(&mut self, from: MemberId, alive: Alive, context: &mut Context) {
        let nodes = alive.nodes.clone();
        let runs_on = |s: &NodeState| ran_on(context.agreed, s.arrival.node, s.life);
        let anew = !nodes.is_empty() && !nodes.iter().any(runs_on);
        let Some(was_dead) = self.liveness.heard(context.now, from, alive, anew) else { return };
        if was_dead {
            self.returned.insert(from, self.number);
            context.acts.push(Act::Log(
                Note::info(format!("{} answers again", in_words(&context.agreed.map, from)))
                    .of(node_of(from)),
            ));
        }
        self.recount(context);
        for state in nodes {
            let NodeState { arrival, life, heard, frozen, caught_up, wakes, parity_done } = state;
            let node = arrival.node;
            if self.told.get(&node) != Some(&life) {
                let may_stay = fault::comes_back_as_it_was(context.config.bug);
                // A map without it that nobody has agreed on yet may come to nothing, if this leader is cut
                // off: the next one takes the node over as it is. But where no other node runs there is nobody
                // to make such a map with, and nobody goes on without it.
                let gone_on_without = match self.reign {
                    Reign::Gathering => context.begun && !ran_on(context.agreed, node, life),
                    Reign::TakingOver => false,
                    Reign::Settled => self.told.is_empty() || !ran_on(context.agreed, node, life),
                };
                if gone_on_without && heard != FRESH && !may_stay {
                    let outlived = Message::Outlived { term: self.term, node, life };
                    context.acts.push(Act::Send(from, outlived));
                }
                continue;
            }
            if self.words.get(&node).is_some_and(|w| heard >= (w.term, w.number)) {
                self.words.remove(&node);
            }
            for report in [frozen, caught_up, wakes, parity_done].into_iter().flatten() {
                self.tell(AuthorityInput::Report(node, report), context);
            }
        }
    }

    /// A process says whom it did not always hear.
    pub fn reported(&mut self, from: MemberId, unheard: Vec<Unheard>, context: &Context) {
        self.liveness.reported(context.now, from, unheard);
    }

    /// A decision is committed.
    pub fn decided(&mut self, decision: &Decision, context: &mut Context) {
        let epoch = decision.map.epoch;
        if self.reign == Reign::Gathering || epoch <= epoch_floor(self.term) {
            return;
        }
        self.tell(AuthorityInput::Stored(epoch), context);
        if self.authority.map().epoch == epoch {
            let done = std::mem::take(&mut self.given);
            context.acts.extend(done.into_iter().map(|id| Act::Answer(id, Ok(()))));
            self.reign = Reign::Settled;
        }
    }

    /// A change of the map is asked for.
    pub fn change(&mut self, id: u64, change: Change) {
        self.asked.push((id, change));
    }

    /// A change of the group is asked for.
    pub fn change_group(&mut self, id: u64, change: GroupChange, context: &mut Context) {
        if let GroupChange::Remove(member) = change
            && let Err(refusal) = self.may_remove(member, context)
        {
            context.acts.push(Act::Answer(id, Err(refusal)));
            return;
        }
        self.group.push((id, change));
    }

    fn may_remove(&self, member: MemberId, context: &mut Context) -> Result<(), Refusal> {
        let (voters, _) = context.consensus.group();
        if voters == [member] {
            return Err(Refusal::LastVoter(member));
        }
        // One that nobody has heard of yet may hold a lease of the leader before.
        if self.reign == Reign::Gathering && member != context.id {
            return Err(Refusal::Gathering);
        }
        let has_nodes = |(m, a): (MemberId, &Alive)| m == member && !a.nodes.is_empty();
        if self.liveness.alive().any(has_nodes) {
            return Err(Refusal::HasNodes(member));
        }
        if member == context.id {
            let heirs = self.liveness.alive().map(|(m, _)| m);
            let heir = heirs.filter(|m| *m != context.id && voters.contains(m));
            if let Some(heir) = heir.max_by_key(|m| context.consensus.has_all(*m)) {
                context.acts.push(Act::HandOver(heir));
            }
            return Err(Refusal::HandsOver(member));
        }
        Ok(())
    }

    /// Whether no node of a process can serve in an epoch that others have left without it, so
    /// that the process may have a lease. A node is safe if it has never been told anything; if
    /// it takes part in the map agreed on, and its process was never declared dead since; or if
    /// it has obeyed this leader since its process came back, which it does by freezing.
    fn trusts(&self, process: MemberId, alive: &Alive, agreed: &Decision) -> bool {
        let returned = self.returned.get(&process);
        alive.nodes.iter().all(|s| {
            let fresh = s.heard == FRESH;
            let obeyed = s.heard.0 == self.term && returned.is_none_or(|r| s.heard.1 > *r);
            let takes_part = ran_on(agreed, s.arrival.node, s.life);
            fresh || obeyed || (takes_part && returned.is_none())
        })
    }

    /// Looks after everything; called after each input.
    pub fn work(&mut self, context: &mut Context) {
        let (voters, learners) = context.consensus.group();
        let all: Vec<MemberId> = voters.iter().chain(&learners).copied().collect();
        self.liveness.set_group(context.now, &all);
        self.look_after_group(&voters, &learners, context);
        self.begin_if_gathered(context);
        self.recount(context);
        // One that the map being stored lacks would be answered with it.
        if self.reign == Reign::Settled && !self.authority.is_storing() {
            for (id, change) in std::mem::take(&mut self.asked) {
                self.given.push(id);
                self.tell(AuthorityInput::Change(change), context);
            }
        }
        let trusted: Vec<MemberId> = if context.begun {
            let alive = self.liveness.alive();
            alive.filter(|(m, a)| self.trusts(*m, a, context.agreed)).map(|(m, _)| m).collect()
        } else {
            Vec::new()
        };
        let mut sends = Vec::new();
        self.liveness.confirm(&voters, &trusted, &mut sends);
        context.acts.extend(sends.into_iter().map(|(to, m)| Act::Send(to, m)));
    }

    /// Time passes.
    pub fn tick(&mut self, context: &mut Context) {
        let mut sends = Vec::new();
        let (voters, _) = context.consensus.group();
        let hosts = self.hosts(context);
        let circle = Circle { us: context.id, voters: &voters, hosts: &hosts };
        let fates = self.liveness.tick(context.now, context.config, &circle, &mut sends);
        for dead in fates.dead {
            let who = in_words(&context.agreed.map, dead);
            let text = format!("{who} does not answer and is considered failed");
            context.acts.push(Act::Log(Note::warning(text).of(node_of(dead))));
        }
        for other in fates.shut_out {
            let who = in_words(&context.agreed.map, other);
            let text =
                format!("{who} and others cannot reach each other: it is evicted until they can");
            context.acts.push(Act::Log(Note::warning(text).of(node_of(other))));
        }
        if let Some(heirs) = fates.heirs {
            let heir = heirs.into_iter().max_by_key(|m| context.consensus.has_all(*m));
            let text = "others can reach processes that this one cannot: handing over the lead";
            context.acts.push(Act::Log(Note::warning(text)));
            context.acts.extend(heir.map(Act::HandOver));
        }
        if self.reign == Reign::Settled {
            self.tell(AuthorityInput::Tick(context.now), context);
        }
        let probes = !sends.is_empty();
        context.acts.extend(sends.into_iter().map(|(to, m)| Act::Send(to, m)));
        if probes {
            // Unacknowledged messages may have been lost.
            let unheard: Vec<NodeId> = self.words.keys().copied().collect();
            unheard.into_iter().for_each(|n| self.send_word(n, context));
        }
    }

    /// Processes that are hosts.
    fn hosts(&self, context: &Context) -> BTreeSet<MemberId> {
        if fault::needs_hosts(context.config.bug) {
            return BTreeSet::new();
        }
        let alive = self.liveness.alive().map(|(m, _)| m);
        alive.filter(|m| is_host(&context.agreed.map, *m)).collect()
    }

    fn look_after_group(
        &mut self,
        voters: &[MemberId],
        learners: &[MemberId],
        context: &mut Context,
    ) {
        if !context.begun {
            return;
        }
        let present = |m: &MemberId| voters.contains(m) || learners.contains(m);
        self.group.retain(|(id, change)| {
            let done = match change {
                GroupChange::AddLearner(m) => present(m),
                GroupChange::Promote(m) => voters.contains(m),
                GroupChange::Remove(m) => !present(m),
            };
            if done {
                context.acts.push(Act::Answer(*id, Ok(())));
            }
            !done
        });
        // Hosts that are their own controllers come and go: they have no vote.
        let votes = |m, a: &Alive| !a.opening && !is_host(&context.agreed.map, m);
        let alive = self.liveness.alive().filter(|(m, a)| votes(*m, a));
        let alive: Vec<MemberId> = alive.map(|(m, _)| m).collect();
        let ready = |m: &&MemberId| alive.contains(m) && context.consensus.has_all(**m);
        let ready: Vec<MemberId> = learners.iter().filter(ready).copied().collect();
        let promotion = || group::next_step(voters, &ready, context.config.voters);
        let replacement =
            || group::replacement(&[voters, learners].concat(), context.id, context.anew);
        if let Some(step) = self.group.first().map(|g| g.1).or_else(replacement).or_else(promotion)
        {
            context.acts.push(Act::Change(step));
        }
    }

    /// The nodes that are ready, of processes that are alive. Of two processes that claim one
    /// node, the first counts.
    fn ready(&self) -> BTreeMap<NodeId, NodeState> {
        let mut nodes = BTreeMap::new();
        for (_, alive) in self.liveness.alive() {
            for state in &alive.nodes {
                nodes.entry(state.arrival.node).or_insert_with(|| state.clone());
            }
        }
        nodes
    }

    fn begin_if_gathered(&mut self, context: &mut Context) {
        if self.reign != Reign::Gathering || !context.begun || !self.liveness.all_known() {
            return;
        }
        let (ready, agreed) = (self.ready(), context.agreed);
        let runs_on = |n: &NodeId, s: &NodeState| ran_on(agreed, *n, s.life);
        // Where most have run on, hosts wait for them; a node that opens its disk, or must restart, comes up when it
        // has.
        let running = ready.iter().filter(|(n, s)| runs_on(n, s)).count();
        let hosts_wait = 2 * running > agreed.map.up().count();
        let anew = |n: &NodeId, s: &NodeState| !runs_on(n, s) && s.heard != FRESH;
        let opening =
            self.liveness.alive().any(|(_, a)| a.opening) || ready.iter().any(|(n, s)| anew(n, s));
        let there = |n| ready.get(&n).is_some_and(|s| !anew(&n, s));
        let all_there = agreed.map.up().all(there);
        let patient = context.now.saturating_sub(self.since) < context.config.open_patience;
        if ready.is_empty() || (!all_there && opening && patient && !hosts_wait) {
            return;
        }
        let mut map = (*agreed.map).clone();
        map.epoch = map.epoch.max(epoch_floor(self.term));
        self.authority = Authority::new(map).with_bug(fault::of_authority(context.config.bug));
        let (mut told, mut arrivals) = (BTreeMap::new(), Vec::new());
        for (node, NodeState { life, arrival, .. }) in ready {
            if ran_on(agreed, node, life) {
                told.insert(node, life);
                arrivals.push(arrival);
            }
        }
        self.told = told;
        context.acts.push(Act::Log(Note::info(leads(self.told.len()))));
        if self.told.is_empty() {
            // All have restarted: nobody went on without anybody.
            self.reign = Reign::Settled;
        } else {
            self.reign = Reign::TakingOver;
            self.tell(AuthorityInput::Start(arrivals), context);
        }
    }

    /// Tells the authority which nodes are up and down, where it does not know.
    fn recount(&mut self, context: &mut Context) {
        if self.reign == Reign::Gathering {
            return;
        }
        let ready = self.ready();
        // While nodes are taken over, one that restarts is dead first, and up after.
        let taking_over = self.reign == Reign::TakingOver;
        let lives =
            |n: &NodeId, l: &Life| ready.get(n).is_some_and(|r| r.life == *l || !taking_over);
        let gone = self.told.iter().filter(|(n, l)| !lives(n, l)).map(|(n, _)| *n);
        for node in gone.collect::<Vec<_>>() {
            self.told.remove(&node);
            self.words.remove(&node);
            self.tell(AuthorityInput::NodeDown(node), context);
        }
        if self.reign == Reign::TakingOver && self.told.is_empty() {
            self.reign = Reign::Settled;
        }
        let failed: Vec<NodeId> =
            self.liveness.alive().flat_map(|(_, a)| a.failed.iter().copied()).collect();
        for node in failed {
            self.tell(AuthorityInput::DiskFailed(node), context);
        }
        if self.reign == Reign::Settled {
            for (node, NodeState { life, arrival, heard, .. }) in ready {
                // Nobody comes back with what it remembers: writes that it had in work were
                // settled without it and forgotten. It restarts first.
                let back_as_it_was = fault::comes_back_as_it_was(context.config.bug);
                if self.told.get(&node) != Some(&life) && (heard == FRESH || back_as_it_was) {
                    self.told.insert(node, life);
                    self.words.remove(&node);
                    self.tell(AuthorityInput::NodeUp(arrival), context);
                }
            }
        }
    }

    fn tell(&mut self, input: AuthorityInput, context: &mut Context) {
        if self.reign == Reign::Gathering {
            return;
        }
        let mut out = Vec::new();
        self.authority.handle(input, &mut out);
        for output in out {
            match output {
                AuthorityOutput::Tell(node, message) => {
                    let Some(life) = self.told.get(&node).copied() else { continue };
                    self.number += 1;
                    let (term, number) = (self.term, self.number);
                    self.words.insert(node, Word { term, number, node, life, message });
                    self.send_word(node, context);
                }
                AuthorityOutput::Store(map) => {
                    let decision = Decision { map: Arc::clone(&map), lives: self.told.clone() };
                    context.acts.push(Act::Propose(decision.encode(context.codec)));
                    if fault::enters_uncommitted(context.config.bug) {
                        self.tell(AuthorityInput::Stored(map.epoch), context);
                    }
                }
            }
        }
    }

    /// Sends a node the last word to it, by its process.
    fn send_word(&mut self, node: NodeId, context: &mut Context) {
        let Some(word) = self.words.get(&node) else { return };
        let lives = |s: &NodeState| s.arrival.node == node && s.life == word.life;
        let home = self.liveness.alive().find(|(_, a)| a.nodes.iter().any(lives));
        if let Some((home, _)) = home {
            context.acts.push(Act::Send(home, Message::Word(word.clone())));
        }
    }

    /// The reign is over: the request has no answer.
    pub fn end(self) -> Vec<(u64, Refusal)> {
        let given = self.given.into_iter();
        let group = self.group.into_iter().map(|g| g.0);
        let asked = self.asked.into_iter().map(|a| a.0);
        let lost = given.chain(group).map(|id| (id, Refusal::LostLead));
        lost.chain(asked.map(|id| (id, Refusal::NotLeader { leader: None }))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_leader_says_in_a_sentence_what_becomes_of_the_nodes() {
        assert!(leads(0).ends_with("from now on; all nodes have restarted"));
        assert!(leads(1).ends_with("from now on; one node continues its work"));
        assert!(leads(3).ends_with("from now on; 3 nodes continue their work"));
    }
}
