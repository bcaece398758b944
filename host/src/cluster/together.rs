//! The member of this process and its connections to the others, as the engine uses them.
//!
//! What comes out of it are [`Effect`]s; they take effect in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use mio::{Registry, Token};
use rustix::time::{ClockId, clock_gettime};
use weft_core::cluster::{Arrival, AuthorityInput, ClusterMap, NodeInfo};
use weft_core::node::{Envelope, MapMessage, MemberReport};
use weft_core::units::{MILLIS, Nanos, NodeId, Timestamp};
use weft_member::{Config, Input, MapCodec, Member, MemberId, Output, Refusal, Status};
use weft_net::transport;
use weft_net::wire::Message;

use super::home::{Home, Known};
use super::memory::Memory;
use super::post::{Mail, Post};
use crate::error::{Error, Result, fail};
use crate::log::Log;

/// How often the processes tell one another how things are.
const NEWS_EVERY: Nanos = 500 * MILLIS;

/// The member of the process of a node. Members count from 1.
pub(super) fn member_of(node: NodeId) -> MemberId {
    MemberId(u64::from(node.0) + 1)
}

fn node_of(member: MemberId) -> NodeId {
    NodeId((member.0 - 1) as u16)
}

/// Cluster maps as the processes write them to one another.
pub(super) struct Codec;

impl MapCodec for Codec {
    fn encode(&self, map: &ClusterMap) -> Vec<u8> {
        let enter = MapMessage::Enter { map: Arc::new(map.clone()), floor: Timestamp::ZERO };
        let mut bytes = BytesMut::new();
        Message::Map(enter).encode().into_iter().for_each(|chunk| bytes.put(chunk));
        bytes.to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<ClusterMap> {
        match Message::decode(&Bytes::copy_from_slice(bytes)).ok()? {
            Message::Map(MapMessage::Enter { map, .. }) => {
                map.check().is_ok().then(|| Arc::unwrap_or_clone(map))
            }
            _ => None,
        }
    }
}

/// Something for the engine to do.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Hand our node a word of the authority.
    Tell(NodeId, MapMessage),
    /// Hand our node a message.
    Letter(Envelope),
    /// A map is agreed on.
    Agreed(Arc<ClusterMap>),
    /// Tell the operator.
    Log(String),
    /// The process cannot go on.
    Fatal(Error),
}

/// The member, and its connections.
pub(crate) struct Together {
    home: Home,
    member: Member,
    memory: Memory,
    post: Post,
    wake: Nanos,
    next_news: Nanos,
    /// Nodes that there are connections to, or should be.
    peers: BTreeMap<NodeId, Known>,
    effects: Vec<Effect>,
    /// What is for the control sockets.
    mail: VecDeque<(NodeId, Mail)>,
    next_ticket: u64,
    /// Changes asked for, and what became of them.
    tickets: BTreeMap<u64, Option<std::result::Result<(), Refusal>>>,
}

impl Together {
    /// Starts the member of a node, and listens for others. Its sockets are in `registry`, under
    /// the tokens from `first` on.
    pub(crate) fn start(
        home: Home,
        registry: &Registry,
        first: Token,
        log: Log,
    ) -> Result<Together> {
        let (memory, stored) = Memory::open(home.dir())?;
        let config = Config { seed: home.cluster() as u64, ..Config::default() };
        let us = home.node;
        let member = Member::new(member_of(us), &[us], stored, config, Arc::new(Codec))
            .map_err(|e| Error(format!("{}: {e}", home.dir().display())))?;
        let listen = Some(home.config.address);
        let mut transport = transport::Config::new(home.identity.clone(), us, listen);
        transport.peers = home.peers.clone();
        let post = Post::start(transport, registry, first, log)?;
        let mut together = Together {
            home,
            member,
            memory,
            post,
            wake: 0,
            next_news: 0,
            peers: BTreeMap::new(),
            effects: Vec::new(),
            mail: VecDeque::new(),
            next_ticket: 1,
            tickets: BTreeMap::new(),
        };
        let map = together.member.map().clone();
        together.follow_homes(&map);
        together.input(Input::Tick);
        Ok(together)
    }

    /// The node of this process.
    pub(crate) fn us(&self) -> NodeId {
        self.home.node
    }

    /// Its directory.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// The map last agreed on, as far as is known here.
    pub(crate) fn map(&self) -> &ClusterMap {
        self.member.map()
    }

    /// The member's state.
    pub(crate) fn status(&self) -> Status {
        self.member.status()
    }

    /// The node whose process leads, if that is known.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.member.status().leader.map(node_of)
    }

    /// Whether there is a connection to a node's process.
    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        self.post.up().contains(&node)
    }

    /// The nodes whose processes there are connections to.
    pub(crate) fn connected(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.post.up().iter().copied()
    }

    /// Whether the node may serve at this moment.
    pub(crate) fn may_serve(&self) -> bool {
        self.member.may_serve(boot_time())
    }

    /// Whether there is something to be done at once.
    pub(crate) fn has_work(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Nanoseconds until something is due.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        let now = boot_time();
        let transport = self.post.patience().map(|p| p.as_nanos() as Nanos);
        let ours = self.wake.min(self.next_news).saturating_sub(now);
        transport.into_iter().chain([ours]).min()
    }

    /// Takes what there is to do.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Takes the next thing for the control sockets.
    pub(crate) fn take_mail(&mut self) -> Option<(NodeId, Mail)> {
        self.mail.pop_front()
    }

    /// Our node can take part.
    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        self.input(Input::NodeReady(arrival));
    }

    /// Our node has died.
    pub(crate) fn died(&mut self, node: NodeId) {
        self.input(Input::NodeDied(node));
    }

    /// Our node reports.
    pub(crate) fn report(&mut self, node: NodeId, report: MemberReport) {
        self.input(Input::Report(node, report));
    }

    /// Asks for a change of the map, which the leader alone can make.
    pub(crate) fn change(&mut self, change: AuthorityInput) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tickets.insert(ticket, None);
        self.input(Input::Change(ticket, change));
        ticket
    }

    /// What became of it, if that is known; it is told once.
    pub(crate) fn outcome(&mut self, ticket: u64) -> Option<Result<()>> {
        match self.tickets.get(&ticket) {
            Some(None) => None,
            Some(Some(_)) => {
                self.tickets.remove(&ticket)?.map(|r| r.map_err(|e| Error(e.to_string())))
            }
            None => Some(fail("nothing is known of this change")),
        }
    }

    /// Sends a message of our node.
    pub(crate) fn send(&mut self, letter: Envelope) {
        self.post.send(letter);
    }

    /// Hands another process a request to its control socket.
    pub(crate) fn ask(&self, to: NodeId, number: u64, request: &[u8]) -> Result<()> {
        self.post.ask(to, number, request)
    }

    /// Answers another process's request.
    pub(crate) fn answer(&self, to: NodeId, number: u64, answer: &[u8]) {
        self.post.answer(to, number, answer);
    }

    /// Whether it is time to tell the others how things are.
    pub(crate) fn wants_news(&self) -> bool {
        boot_time() >= self.next_news
    }

    /// Tells the others how things are.
    pub(crate) fn tell_news(&mut self, news: Vec<u8>) {
        self.next_news = boot_time() + NEWS_EVERY;
        // A change of the group that failed is tried again.
        let map = self.member.map().clone();
        for change in self.group_changes(&map) {
            self.input(change);
        }
        self.post.tell_news(&news.into());
    }

    /// There is something to read from another process, or room to write to it.
    pub(crate) fn peer_is_ready(&mut self, event: &mio::event::Event) {
        self.post.ready(event);
    }

    /// Takes what other processes have sent, and writes what there is room for.
    pub(crate) fn turn(&mut self) {
        if let Err(e) = self.try_turn() {
            self.effects.push(Effect::Fatal(e));
        }
    }

    fn try_turn(&mut self) -> Result<()> {
        self.post.turn();
        while let Some((peer, mail)) = self.post.next()? {
            match mail {
                Mail::Letter(letter) if letter.to == self.home.node => {
                    self.effects.push(Effect::Letter(letter));
                }
                Mail::Letter(_) => {}
                Mail::Member(bytes) => self.input(Input::Message(member_of(peer), bytes)),
                Mail::Up => {
                    self.input(Input::Connected(member_of(peer)));
                    self.next_news = 0;
                }
                Mail::Down => {
                    self.input(Input::Disconnected(member_of(peer)));
                    self.mail.push_back((peer, Mail::Down));
                }
                mail => self.mail.push_back((peer, mail)),
            }
        }
        Ok(())
    }

    /// Does what is due.
    pub(crate) fn follow(&mut self) {
        if boot_time() >= self.wake {
            self.input(Input::Tick);
        }
    }

    fn input(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut out = Vec::new();
            self.member.handle(boot_time(), input, &mut out);
            for output in out {
                match output {
                    Output::Send(to, bytes) => self.post.send_member(node_of(to), bytes),
                    Output::Persist(number, persist) => match self.memory.write(&persist) {
                        Ok(()) => inputs.push_back(Input::Persisted(number)),
                        Err(e) => self.effects.push(Effect::Fatal(e)),
                    },
                    Output::Tell(node, message) => self.effects.push(Effect::Tell(node, message)),
                    Output::Suspend => self.log("cut off from the others: serving nobody"),
                    Output::Resume => self.log("in touch with the others: serving"),
                    Output::Wake(at) => self.wake = at,
                    Output::Answer(ticket, result) => {
                        if let Some(outcome) = self.tickets.get_mut(&ticket) {
                            *outcome = Some(result);
                        }
                    }
                    Output::Agreed(map) => {
                        self.follow_homes(&map);
                        inputs.extend(self.group_changes(&map));
                        self.effects.push(Effect::Agreed(map));
                    }
                    Output::Log(line) => self.log(&line),
                }
            }
        }
    }

    fn log(&mut self, line: &str) {
        self.effects.push(Effect::Log(line.to_string()));
    }

    /// Whether a node takes part that there is no connection to. It is back, and to be dialled now:
    /// what is asked of it is lost until then, and hosts wait.
    fn is_missed(&self, map: &ClusterMap, node: NodeId) -> bool {
        map.is_up(node) && !self.is_connected(node)
    }

    /// Connects to the nodes of a map, and to those no more that have left.
    fn follow_homes(&mut self, map: &ClusterMap) {
        for (n, info) in map.nodes.iter().enumerate() {
            let node = NodeId(n as u16);
            let Some(home) = info.home.as_ref().filter(|_| node != self.home.node) else {
                continue;
            };
            let known =
                Known { node: node.0, name: home.name.clone(), address: home.address.clone() };
            if info.removed {
                if self.peers.remove(&node).is_some() {
                    self.post.remove_peer(node);
                }
                continue;
            }
            if !map.is_up(node) {
                self.post.give_up(node);
            }
            let missed = self.is_missed(map, node);
            if (missed || self.peers.get(&node) != Some(&known))
                && let Ok(peer) = known.peer()
            {
                match missed {
                    true => self.post.expect(peer),
                    false => self.post.add_peer(peer),
                }
                self.peers.insert(node, known);
            }
        }
    }

    /// If this process leads: the group is to be the nodes of the map.
    fn group_changes(&mut self, map: &ClusterMap) -> Vec<Input> {
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

/// Nanoseconds that go on while the process is stopped and while the machine sleeps.
fn boot_time() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}
