//! A process of the cluster: its member, what is asked of it, and who belongs to the group.
//!
//! A process has one node, and its member bears the node's number. This is what such a process
//! decides beside what its member and its node do; it is the same on real disks and networks and
//! in the simulated world. What it wants done comes out as [`Effect`]s, which take effect in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use weft_core::cluster::{AuthorityInput, ClusterMap, NodeInfo};
use weft_core::node::MapMessage;
use weft_core::units::{Nanos, NodeId};

use crate::{
    Config, Input, MapCodec, Member, MemberId, Output, Persist, Refusal, StartError, Status, Stored,
};

/// The member of the process of a node. Members count from 1.
pub fn member_of(node: NodeId) -> MemberId {
    MemberId(u64::from(node.0) + 1)
}

/// The node of a member's process.
pub fn node_of(member: MemberId) -> NodeId {
    NodeId((member.0 - 1) as u16)
}

/// Something to be done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send these bytes to another process's member. They may be lost, repeated or overtaken.
    Send(MemberId, Vec<u8>),
    /// Make this durable, then say [`Input::Persisted`] with the number. There is one at a time.
    Persist(u64, Persist),
    /// Hand the node this word of the authority.
    Tell(NodeId, MapMessage),
    /// Start the node anew, as if it had died.
    Restart(NodeId),
    /// This map is agreed on. The node enters it when it is told, not now.
    Agreed(Arc<ClusterMap>),
    /// Tell the operator.
    Log(String),
}

/// A member, and what its process decides around it.
pub struct Process {
    member: Member,
    wake: Nanos,
    effects: VecDeque<Effect>,
    next_ticket: u64,
    /// Changes asked for, and what became of them.
    tickets: BTreeMap<u64, Option<Result<(), Refusal>>>,
}

impl Process {
    /// The process of a node, taking up what its member's log says. The first `handle` (a
    /// [`Input::Tick`] will do) sets it going.
    pub fn new(
        node: NodeId,
        stored: Stored,
        config: Config,
        codec: Arc<dyn MapCodec>,
    ) -> Result<Process, StartError> {
        let member = Member::new(member_of(node), &[node], stored, config, codec)?;
        Ok(Process {
            member,
            wake: 0,
            effects: VecDeque::new(),
            next_ticket: 1,
            tickets: BTreeMap::new(),
        })
    }

    /// The map last agreed on, as far as is known here.
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.member.map()
    }

    /// The member's state.
    pub fn status(&self) -> Status {
        self.member.status()
    }

    /// Whether the node may serve at this moment; `now` is to be read afresh.
    pub fn may_serve(&self, now: Nanos) -> bool {
        self.member.may_serve(now)
    }

    /// When [`Input::Tick`] is due, by the clock given to `handle`.
    pub fn wake(&self) -> Nanos {
        self.wake
    }

    /// Whether there is something to be done at once.
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// The next thing to be done.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Asks for a change of the map, which the leader alone can make; returns what to ask
    /// [`Process::outcome`] for.
    pub fn change(&mut self, now: Nanos, change: AuthorityInput) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tickets.insert(ticket, None);
        self.handle(now, Input::Change(ticket, change));
        ticket
    }

    /// What became of a change: `None` if nothing is known of it (it is told once), `Some(None)`
    /// if that is not known yet.
    pub fn outcome(&mut self, ticket: u64) -> Option<Option<Result<(), Refusal>>> {
        match self.tickets.get(&ticket)? {
            None => Some(None),
            Some(_) => self.tickets.remove(&ticket),
        }
    }

    /// To be called now and then: a change of the group that failed is tried again.
    pub fn follow_group(&mut self, now: Nanos) {
        let map = self.member.map().clone();
        for change in self.group_changes(&map) {
            self.handle(now, change);
        }
    }

    /// Handles one input; what is to be done is told by [`Process::next_effect`]. For `now` see
    /// [`Member::handle`].
    pub fn handle(&mut self, now: Nanos, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut out = Vec::new();
            self.member.handle(now, input, &mut out);
            for output in out {
                let effect = match output {
                    Output::Send(to, bytes) => Effect::Send(to, bytes),
                    Output::Persist(number, persist) => Effect::Persist(number, persist),
                    Output::Tell(node, message) => Effect::Tell(node, message),
                    Output::Restart(node) => Effect::Restart(node),
                    Output::Suspend => log("cut off from the others: serving nobody"),
                    Output::Resume => log("in touch with the others: serving"),
                    Output::Log(line) => Effect::Log(line),
                    Output::Agreed(map) => {
                        inputs.extend(self.group_changes(&map));
                        Effect::Agreed(map)
                    }
                    Output::Wake(at) => {
                        self.wake = at;
                        continue;
                    }
                    Output::Answer(ticket, result) => {
                        if let Some(outcome) = self.tickets.get_mut(&ticket) {
                            *outcome = Some(result);
                        }
                        continue;
                    }
                };
                self.effects.push_back(effect);
            }
        }
    }

    /// If this process leads: the group is to be the processes of the nodes of the map.
    fn group_changes(&self, map: &ClusterMap) -> Vec<Input> {
        let status = self.member.status();
        if status.leader != Some(self.member.id()) {
            return Vec::new();
        }
        let group: BTreeSet<MemberId> =
            status.voters.iter().chain(&status.learners).copied().collect();
        let change = |(n, info): (usize, &NodeInfo)| {
            let member = member_of(NodeId(n as u16));
            match (info.removed, group.contains(&member)) {
                (false, false) => Some(Input::AddMember(0, member)),
                (true, true) => Some(Input::RemoveMember(0, member)),
                _ => None,
            }
        };
        map.nodes.iter().enumerate().filter_map(change).collect()
    }
}

fn log(line: &str) -> Effect {
    Effect::Log(line.to_string())
}
