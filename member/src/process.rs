//! A process of the cluster: its member, what is asked of it, and who belongs to the group.
//!
//! A process has a number, which is that of the first node that it had, and its member bears it too.
//! It serves one node or several. This is what such a process
//! decides beside what its member and its nodes do; it is the same on real disks and networks and
//! in the simulated world. What it wants done comes out as [`Effect`]s, which take effect in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use weft_core::cluster::{Absence, Change, ClusterMap};
use weft_core::node::MapMessage;
use weft_core::units::{Nanos, NodeId};

use crate::{
    Config, Input, LogError, MapCodec, Member, MemberId, Note, Output, Persist, Refusal,
    StartError, Status, Stored,
};

/// The part of a member's number that is the process's.
const PROCESS_BITS: u32 = 16;

/// The first member of the process of this number. Members count from 1.
pub fn member_of(process: NodeId) -> MemberId {
    MemberId(u64::from(process.0) + 1)
}

/// The member of the process of this number that comes after one whose log is lost. A later one has a higher
/// `incarnation`; the first one's is 0.
pub fn member_anew(process: NodeId, incarnation: u64) -> MemberId {
    assert!(incarnation >> 32 == 0, "a member's number has 32 bits of it");
    MemberId(incarnation << PROCESS_BITS | member_of(process).0)
}

/// Which of its process's members one is.
pub fn incarnation_of(member: MemberId) -> u64 {
    member.0 >> PROCESS_BITS
}

/// The number of a member's process.
pub fn node_of(member: MemberId) -> NodeId {
    NodeId((member.0 as u16).wrapping_sub(1))
}

/// Something to be done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send these bytes to another process's member. They may be lost, repeated or overtaken.
    Send(MemberId, Vec<u8>),
    /// Make this durable, then say [`Input::Persisted`] with the number. There is one at a time.
    Persist(u64, Persist),
    /// Hand a node this word of the authority.
    Tell(NodeId, MapMessage),
    /// Start a node anew, as if it had died.
    Restart(NodeId),
    /// This map is agreed on. The nodes enter it when they are told, not now.
    Agreed(Arc<ClusterMap>),
    /// The process stops: its member's log was not what it seemed to be.
    Stop(LogError),
    /// Tell the operator.
    Log(Note),
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
    /// The process of this number that serves these nodes, taking up what its member's log says. More
    /// nodes may come later. The first `handle` (a [`Input::Tick`] will do) sets it going.
    pub fn new(
        process: NodeId,
        nodes: &[NodeId],
        stored: Stored,
        config: Config,
        codec: Arc<dyn MapCodec>,
    ) -> Result<Process, StartError> {
        let id = stored.member.filter(|m| node_of(*m) == process).unwrap_or(member_of(process));
        let member = Member::new(id, nodes, stored, config, codec)?;
        Ok(Process {
            member,
            wake: 0,
            effects: VecDeque::new(),
            next_ticket: 1,
            tickets: BTreeMap::new(),
        })
    }

    /// Checks what must hold between the fields of its member when an input has been handled.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check(&self) {
        self.member.check();
    }

    /// The map last agreed on, as far as is known here.
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.member.map()
    }

    /// Its member's number.
    pub fn id(&self) -> MemberId {
        self.member.id()
    }

    /// Whether its member has lost its log, and waits for a majority to admit it anew.
    pub fn waits_for_admission(&self) -> bool {
        self.member.waits_for_admission()
    }

    /// Whether too many members have lost their logs for anything to be agreed on.
    pub fn is_stuck(&self) -> bool {
        self.member.is_stuck()
    }

    /// The member's state.
    pub fn status(&self) -> Status {
        self.member.status()
    }

    /// If it leads: the nodes that are down and not given up, and what is to become of each.
    pub fn absences(&self) -> Vec<Absence> {
        self.member.absences()
    }

    /// Whether the nodes may serve at this moment; `now` is to be read afresh.
    pub fn may_serve(&self, now: Nanos) -> bool {
        self.member.may_serve(now)
    }

    /// Until when they may, if they have ever been allowed to.
    pub fn lease_until(&self) -> Option<Nanos> {
        self.member.lease_until()
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
    pub fn change(&mut self, now: Nanos, change: Change) -> u64 {
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
                    Output::Stop(why) => Effect::Stop(why),
                    Output::Suspend => {
                        Effect::Log(Note::warning("not connected to a majority: serving no hosts"))
                    }
                    Output::Resume => {
                        Effect::Log(Note::info("connected to a majority: serving hosts"))
                    }
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
        let nodes = (0..map.nodes.len() as u16).map(NodeId);
        let processes: BTreeSet<NodeId> = nodes.map(|n| map.process_of(n)).collect();
        let change = |process: NodeId| {
            let mut members = group.iter().copied().filter(|m| node_of(*m) == process).peekable();
            match (map.served_by(process).next().is_some(), members.peek().is_some()) {
                (true, false) => vec![Input::AddMember(0, member_of(process))],
                (false, true) => members.map(|m| Input::RemoveMember(0, m)).collect(),
                _ => Vec::new(),
            }
        };
        processes.into_iter().flat_map(change).collect()
    }
}
