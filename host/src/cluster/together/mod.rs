//! The member of this process and its connections to the others, as the engine uses them.
//!
//! What comes out of it are [`Effect`]s; they take effect in order. Whom it connects to is in [`homes`], what its
//! operator should know in [`warnings`].

mod changes;
mod homes;
mod warnings;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use mio::{Registry, Token};
use weft_core::cluster::{Absence, Arrival, Change, ClusterMap};
use weft_core::node::{Envelope, MapMessage, MemberReport};
use weft_core::store::map_area::MapCopy;
use weft_core::units::{MILLIS, Nanos, NodeId};
use weft_member::{Config, Input, MapCodec, Note, Process, Status, member_of, node_of};
use weft_net::transport::{self, Local, Machine, Reach};

use self::changes::{Changes, Standing};
use crate::clock::boot_time;
use crate::cluster::codec::{AGREED, Codec};
use crate::cluster::dialled::LocalLinks;
use crate::cluster::home::checking::{refuse_elsewhere, refuse_unknown};
use crate::cluster::home::{Home, Known};
use crate::cluster::log_writer::LogWriter;
use crate::cluster::memory::{Memory, lost};
use crate::cluster::peer_links::{PeerEvent, PeerLinks};
use crate::cluster::renewal::Renewal;
use crate::error::{Error, Result, fail};
use crate::limits::Descriptors;
use crate::log::Log;

/// How often the processes tell one another how things are.
const STATUS_EVERY: Nanos = 500 * MILLIS;

/// How often the process looks whether a record of the log is durable, if nothing wakes it.
const LOG_LOOK: Nanos = 100 * MILLIS;

/// Something for the engine to do.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // a node says many messages
pub(crate) enum Effect {
    /// Hand a node of ours a word of the authority.
    Tell(NodeId, MapMessage),
    /// Start a node of ours anew.
    Restart(NodeId),
    /// Hand a node of ours a message.
    Message(Envelope),
    /// A map is agreed on.
    Agreed(Arc<ClusterMap>),
    /// Tell the operator.
    Log(Note),
    /// The process cannot go on.
    Fatal(Error),
}

/// The member, and its connections.
pub(crate) struct Together {
    home: Home,
    process: Process,
    log_writer: LogWriter,
    changes: Changes,
    links: PeerLinks,
    renewal: Renewal,
    next_status: Nanos,
    /// Processes that there are connections to, or should be.
    peers: BTreeMap<NodeId, Known>,
    /// Processes that there need be no connection to any more, and from when on there is none.
    parting: BTreeMap<NodeId, Nanos>,
    /// What the operator has been told of the labels in the configuration.
    warned: Option<String>,
    effects: Vec<Effect>,
    /// What is for the control sockets.
    peer_events: VecDeque<(NodeId, PeerEvent)>,
}

impl Together {
    /// Starts the member of a process, and listens for others. Its sockets are in `registry`, under
    /// the tokens from `first` on.
    pub(crate) fn start(
        home: Home,
        registry: &Registry,
        first: Token,
        log: Log,
    ) -> Result<Together> {
        let (memory, stored) = Memory::open(home.dir()).map_err(Error::from)?;
        // This keeps room; whether there is any shows when a change is made.
        let _ = memory.try_to_write();
        let usual = Config { seed: home.cluster() as u64, ..Config::default() };
        let config = home.config.patience.of(usual);
        let (us, nodes) = (home.process, home.nodes());
        let listen = Some(home.config.address);
        let mut transport = transport::Config::new(home.identity.clone(), us, listen);
        // Those who have not said who they are leave descriptors for those who have.
        let strangers = transport.limits.strangers.min(Descriptors::of_process().share());
        transport.limits.strangers = strangers;
        (transport.only, transport.relays) = (home.config.only.clone(), !home.config.is_host());
        if home.config.local == LocalLinks::Unix {
            let directory = home.dir().to_path_buf();
            match Machine::this() {
                Ok(machine) => transport.local = Some(Local { directory, machine }),
                Err(e) => log.warn(&format!(
                    "the kernel does not identify this machine ({e}); its processes connect by TLS"
                )),
            }
        }
        let pause = transport.limits.longest_pause.as_nanos() as Nanos;
        assert!(
            2 * pause < config.dead_after,
            "a returned process is heard before it is declared dead"
        );
        let process = Process::new(us, &nodes, stored, config, Arc::new(Codec))
            .map_err(|e| Error(format!("{}: {e}", home.dir().display())))?;
        transport.peers = home.peers.iter().map(Known::peer).collect::<Result<_>>()?;
        let peers = home.peers.iter().map(|k| (NodeId(k.node), k.clone())).collect();
        for path in &home.unused {
            log.info(&format!(
                "the disk {} is in the configuration but not in use; `weft disk add --path {} --dir {}` adds it",
                path.display(),
                path.display(),
                home.dir().display()
            ));
        }
        let links = PeerLinks::start(transport, registry, first, log)?;
        let renewal = Renewal::new(home.dir().to_path_buf(), home.identity.clone());
        let mut together = Together {
            home,
            process,
            log_writer: LogWriter::start(memory)?,
            changes: Changes::default(),
            links,
            renewal,
            next_status: 0,
            peers,
            parting: BTreeMap::new(),
            warned: None,
            effects: Vec::new(),
            peer_events: VecDeque::new(),
        };
        let map = together.process.map().clone();
        refuse_elsewhere(&map, us, &together.home.config)?;
        refuse_unknown(&map, together.peers.values(), &together.home.config)?;
        together.follow_map(&map);
        together.input(Input::Tick);
        Ok(together)
    }

    /// Has `wake` called from now on when there is something to take up that another thread has done.
    pub(crate) fn wakes(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.log_writer.wakes(Box::new(wake));
    }

    /// The number of this process.
    pub(crate) fn us(&self) -> NodeId {
        self.home.process
    }

    /// The nodes of this process.
    pub(crate) fn ours(&self) -> Vec<NodeId> {
        self.home.nodes()
    }

    /// Whether a node is of this process.
    pub(crate) fn is_ours(&self, node: NodeId) -> bool {
        self.home.has(node)
    }

    /// The number of the process that serves a node.
    pub(crate) fn process_of(&self, node: NodeId) -> NodeId {
        if self.is_ours(node) { self.us() } else { self.map().process_of(node) }
    }

    /// The other processes of which nodes take part.
    pub(crate) fn others(&self) -> BTreeSet<NodeId> {
        let processes = self.map().up().map(|n| self.process_of(n));
        processes.filter(|p| *p != self.us()).collect()
    }

    /// Its directory.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Takes note that a node is on a disk: see [`Home::take_disk`].
    pub(crate) fn take_disk(&mut self, node: NodeId, path: PathBuf) -> Result<()> {
        self.home.take_disk(node, path)
    }

    /// A node that the map holds for this process and that has no disk yet.
    pub(crate) fn without_disk(&self) -> Option<NodeId> {
        let map = self.map();
        let new = |n: &NodeId| {
            let info = &map.nodes[usize::from(n.0)];
            info.disk == 0 && !info.given_up && !self.is_ours(*n)
        };
        map.served_by(self.us()).find(new)
    }

    /// The map last agreed on, as far as is known here.
    pub(crate) fn map(&self) -> &ClusterMap {
        self.process.map()
    }

    /// What the disks are to keep a copy of, if a map has been agreed on.
    pub(crate) fn copy(&self) -> Option<MapCopy> {
        let (map, cluster) = (self.map(), self.home.cluster());
        let payload = || [&[AGREED], &Codec.encode(map)[..]].concat();
        (map.epoch > 0).then(|| MapCopy { cluster, version: map.epoch, payload: payload() })
    }

    /// The member's state.
    pub(crate) fn status(&self) -> Status {
        self.process.status()
    }

    /// The process that leads, if that is known.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.process.status().leader.map(node_of)
    }

    /// Whether this process leads and makes changes that it is asked for at once.
    pub(crate) fn leads(&self) -> bool {
        self.process.status().settled
    }

    /// Whether this process leads, knows which nodes run, and may act on it. One that reaches no majority any
    /// more may have been succeeded by another and not know.
    pub(crate) fn is_in_charge(&self) -> bool {
        self.leader() == Some(self.us()) && self.leads() && self.may_serve()
    }

    /// Whether there is a connection to a process.
    pub(crate) fn is_connected(&self, process: NodeId) -> bool {
        self.links.up().contains(&process)
    }

    /// Whether most of the processes that this one dials say that this one is none of the cluster: it has
    /// been removed, or they have not heard yet that it has joined.
    pub(crate) fn is_disowned(&self) -> bool {
        // The one with the higher number dials, and hears it.
        let dialled = self.peers.keys().filter(|p| **p < self.us());
        let disowning = dialled.clone().filter(|p| self.links.disowns_us(**p)).count();
        self.links.up().is_empty() && 2 * disowning > dialled.count()
    }

    /// The processes that there are connections to.
    pub(crate) fn connected(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.links.up().iter().copied()
    }

    /// How the processes are reached that are up.
    pub(crate) fn reach(&self) -> Vec<Reach> {
        self.links.reach()
    }

    /// Whether the nodes may serve at this moment.
    pub(crate) fn may_serve(&self) -> bool {
        self.process.may_serve(boot_time())
    }

    /// Until when nodes may serve, by the time since boot; 0 if they have never been allowed to.
    pub(crate) fn lease_until(&self) -> Nanos {
        self.process.lease_until().unwrap_or(0)
    }

    /// Whether there is something to be done at once.
    pub(crate) fn has_work(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Nanoseconds until something is due.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        let now = boot_time();
        let transport = self.links.patience().map(|p| p.as_nanos() as Nanos);
        let parting = self.parting.values().copied().min().unwrap_or(Nanos::MAX);
        let ours = self.process.wake().min(self.next_status).min(parting);
        let log = if self.log_writer.is_busy() { now + LOG_LOOK } else { Nanos::MAX };
        let ours =
            ours.min(self.renewal.due()).min(log).min(self.changes.due().unwrap_or(Nanos::MAX));
        let ours = ours.saturating_sub(now);
        transport.into_iter().chain([ours]).min()
    }

    /// Takes what there is to do.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Takes the next thing for the control sockets.
    pub(crate) fn take_peer_event(&mut self) -> Option<(NodeId, PeerEvent)> {
        self.peer_events.pop_front()
    }

    /// A node of ours can take part.
    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        self.input(Input::NodeReady(arrival));
    }

    /// A node of ours has died.
    pub(crate) fn died(&mut self, node: NodeId) {
        self.input(Input::NodeDied(node));
    }

    /// The disk of a node of ours has failed.
    pub(crate) fn disk_failed(&mut self, node: NodeId) {
        self.input(Input::DiskFailed(node));
    }

    /// If this process leads: the nodes that are down and not given up, and what is to become of each.
    pub(crate) fn absences(&self) -> Vec<Absence> {
        self.process.absences()
    }

    /// A node of ours reports.
    pub(crate) fn report(&mut self, node: NodeId, report: MemberReport) {
        self.input(Input::Report(node, report));
    }

    /// Asks for a change of the map, which the leader alone can make.
    pub(crate) fn change(&mut self, change: Change) -> u64 {
        self.log_writer.look();
        self.changes.add(change, boot_time())
    }

    /// Begins the changes that waited for the log.
    fn begin_changes(&mut self, now: Nanos) {
        if let Some(looked) = self.log_writer.looked() {
            let process = &mut self.process;
            self.changes.judge(&looked, |change| process.change(now, change));
            self.take_over();
        }
        self.changes.give_up(now);
        self.log_writer.look_sometimes(now);
    }

    /// What became of it, if that is known; it is told once.
    pub(crate) fn outcome(&mut self, ticket: u64) -> Option<Result<()>> {
        let begun = match self.changes.standing(ticket) {
            Standing::Begun(begun) => begun,
            Standing::Waits => return None,
            Standing::Refused(error) => return Some(Err(error)),
            Standing::Unknown => return Some(fail("nothing is known of this change")),
        };
        let outcome = match self.process.outcome(begun) {
            Some(outcome) => outcome.map(|r| r.map_err(|e| Error(e.to_string()))),
            None => Some(fail("nothing is known of this change")),
        };
        if outcome.is_some() {
            self.changes.forget(ticket);
        }
        outcome
    }

    /// Sends a message of a node of ours.
    pub(crate) fn send(&mut self, message: Envelope) {
        self.links.send(self.process_of(message.to), message);
    }

    /// Hands another process a request to its control socket.
    pub(crate) fn ask(&self, to: NodeId, number: u64, request: &[u8]) -> Result<()> {
        self.links.ask(to, number, request)
    }

    /// Answers another process's request.
    pub(crate) fn answer(&self, to: NodeId, number: u64, answer: &[u8]) {
        self.links.answer(to, number, answer);
    }

    /// Tells a process that nobody waits any more for the answer to what it was asked.
    pub(crate) fn hang_up(&self, to: NodeId, number: u64) {
        self.links.hang_up(to, number);
    }

    /// Whether it is time to tell the others how things are.
    pub(crate) fn wants_status(&self) -> bool {
        boot_time() >= self.next_status
    }

    /// Tells the others how things are.
    pub(crate) fn tell_status(&mut self, status: Vec<u8>) {
        self.next_status = boot_time() + STATUS_EVERY;
        self.process.follow_group(boot_time());
        self.take_over();
        self.links.tell_status(&status.into());
    }

    /// There is something to read from another process, or room to write to it.
    pub(crate) fn peer_is_ready(&mut self, event: &mio::event::Event) {
        self.links.ready(event);
    }

    /// Takes what other processes have sent, and writes what there is room for.
    pub(crate) fn turn(&mut self) {
        if let Err(e) = self.try_turn() {
            self.effects.push(Effect::Fatal(e));
        }
    }

    fn try_turn(&mut self) -> Result<()> {
        self.links.turn();
        while let Some((peer, event)) = self.links.next()? {
            if self.parting.contains_key(&peer) && !self.home.has_left() && !is_farewell(&event) {
                continue;
            }
            match event {
                PeerEvent::Message(message) if self.process_of(message.from) != peer => {
                    // Nobody speaks for another.
                    let from = message.from;
                    let text = format!("the process of {peer} sent a message of {from}; dropped");
                    self.effects.push(Effect::Log(Note::warning(text).of(peer)));
                }
                PeerEvent::Message(message) if self.is_ours(message.to) => {
                    self.effects.push(Effect::Message(message));
                }
                PeerEvent::Message(_) => {}
                PeerEvent::Member(bytes) => self.input(Input::Message(member_of(peer), bytes)),
                PeerEvent::Left => self.leave(),
                PeerEvent::Renew(certificate) => self.renew_for(peer, &certificate),
                PeerEvent::Renewed(answer) => {
                    self.effects
                        .extend(self.renewal.take(&answer).map(Note::info).map(Effect::Log));
                }
                PeerEvent::Up => {
                    self.input(Input::Connected(member_of(peer)));
                    self.next_status = 0;
                    if let Some(certificate) = self.renewal.question() {
                        self.links.ask_renewal(peer, certificate);
                    }
                }
                PeerEvent::Down => {
                    self.input(Input::Disconnected(member_of(peer)));
                    self.peer_events.push_back((peer, PeerEvent::Down));
                }
                event => self.peer_events.push_back((peer, event)),
            }
        }
        Ok(())
    }

    /// Does what is due.
    pub(crate) fn follow(&mut self) {
        let now = boot_time();
        let (durable, note) = self.log_writer.take(now);
        self.begin_changes(now);
        self.effects.extend(note.map(Effect::Log));
        if let Some(number) = durable {
            self.input(Input::Persisted(number));
        }
        if now >= self.process.wake() {
            self.input(Input::Tick);
        }
        if now >= self.renewal.due() {
            let (question, line) = self.renewal.turn(now);
            self.effects.extend(line.map(Note::warning).map(Effect::Log));
            if let Some(certificate) = question {
                self.connected().for_each(|p| self.links.ask_renewal(p, certificate.clone()));
            }
        }
        for gone in self.parting.extract_if(.., |_, at| *at <= now) {
            self.links.remove_peer(gone.0);
        }
    }

    /// A process wants its certificate renewed: who has the authority's key does that.
    fn renew_for(&mut self, peer: NodeId, certificate: &[u8]) {
        let Some(known) = self.peers.get(&peer) else { return };
        if let Some((answer, line)) = self.renewal.answer((&known.name, known.ip()), certificate) {
            self.links.answer_renewal(peer, answer);
            self.effects.push(Effect::Log(Note::info(line).of(peer)));
        }
    }

    fn input(&mut self, input: Input) {
        self.process.handle(boot_time(), input);
        self.take_over();
    }

    /// Sees to what the member wants done.
    fn take_over(&mut self) {
        while let Some(effect) = self.process.next_effect() {
            match effect {
                weft_member::Effect::Send(to, bytes) => self.links.send_member(node_of(to), bytes),
                weft_member::Effect::Persist(number, persist) => {
                    self.log_writer.write(number, persist, boot_time());
                }
                weft_member::Effect::Tell(node, message) => {
                    self.effects.push(Effect::Tell(node, message));
                }
                weft_member::Effect::Restart(node) => self.effects.push(Effect::Restart(node)),
                weft_member::Effect::Agreed(map) => {
                    if let Err(e) = refuse_elsewhere(&map, self.us(), &self.home.config) {
                        self.effects.push(Effect::Fatal(e));
                    }
                    self.follow_map(&map);
                    self.effects.push(Effect::Agreed(map));
                }
                weft_member::Effect::Stop(why) => {
                    self.effects.push(Effect::Fatal(lost(self.home.dir(), &why)));
                }
                weft_member::Effect::Log(line) => self.effects.push(Effect::Log(line)),
            }
        }
    }
}

/// Whether it is heard of a process that has left: answers to what it was asked, and its member, whom the others may
/// need to let it go.
fn is_farewell(event: &PeerEvent) -> bool {
    matches!(event, PeerEvent::Down | PeerEvent::Answer(..) | PeerEvent::Member(_))
}
