//! What moves the bytes: it listens, dials, reads, writes and watches the time.
//!
//! It polls nothing itself: whoever turns it, the transport's thread or the owner, polls the
//! registry that its sockets are in, and says which are ready. An owner with a loop of its own
//! thus finds out with one system call what has come from peers and from elsewhere, and what
//! it sends is written without waking anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event as Readiness;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use rustls::{ClientConfig, ServerConfig};
use weft_core::units::NodeId;
use weft_route::{Circuit, Router};

use super::connect::{connected, set_options};
use super::hello::Hello;
use super::link::{Link, State};
use super::local::{Door, Near};
use super::notes::Notes;
use super::pause::Pause;
use super::pipe::Wire;
use super::queues::{PeerOrder, Rouse, Shared};
use super::routes::words;
use super::session::Session;
use super::{Config, Event, Lost, Note, Peer, Security, StartError};
use crate::identity::random;

/// How long one that is refused may take to hear why.
const LEAVING: Duration = Duration::from_secs(1);

/// How often connections that got something to do meanwhile are served in one turn.
const ROUNDS: usize = 3;

/// What is read at once.
const SCRATCH: usize = 256 << 10;

/// What we know of a peer.
pub(super) struct Known {
    pub peer: Peer,
    /// Its connection of its own, dialling or up.
    pub direct: Option<Token>,
    /// Its connection through others, beginning or up.
    pub circuit: Option<Token>,
    /// The way to it within this machine.
    pub near: Near,
    /// When a circuit may be begun again.
    pub circuit_at: Option<Instant>,
    /// What the owner sends and gets, if it is up.
    pub session: Option<Session>,
    /// When to dial it.
    pub dial_at: Option<Instant>,
    pub pause: Pause,
    /// It has left: what goes on may end, and nothing begins.
    pub retired: bool,
}

/// The working end of a transport.
pub struct Driver {
    pub(super) registry: Registry,
    /// The tokens of the listener and of the door.
    listens: [Token; 2],
    pub(super) shared: Arc<Shared>,
    pub(super) config: Config,
    pub(super) tls: Option<(Arc<ClientConfig>, Arc<ServerConfig>)>,
    pub(super) us: Hello,
    pub(super) listener: Option<TcpListener>,
    /// Where processes of this machine connect.
    pub(super) door: Option<Door>,
    pub(super) accept_at: Option<Instant>,
    pub(super) peers: BTreeMap<NodeId, Known>,
    /// By token; tokens are not used again.
    pub(super) links: BTreeMap<Token, Link>,
    /// Ways round broken links.
    pub(super) router: Router,
    /// The connections that are circuits.
    pub(super) circuits: BTreeMap<Circuit, Token>,
    /// Sessions that have begun here.
    pub(super) sessions: u64,
    pub(super) started: Instant,
    /// Those that have something to do now.
    pub(super) work: BTreeSet<Token>,
    pub(super) next_token: usize,
    pub(super) notes: Notes,
    scratch: Vec<u8>,
}

impl Driver {
    /// Its sockets are registered under `first` and the tokens after it.
    pub(super) fn new(
        config: Config,
        registry: Registry,
        first: Token,
        rouse: Option<Rouse>,
        log: Box<dyn Fn(&Note) + Send>,
    ) -> Result<Driver, StartError> {
        let tls = match &config.security {
            Security::Plain => None,
            Security::Tls(id) => {
                if (id.cluster(), id.name()) != (config.cluster, &config.name) {
                    return Err(StartError::OtherIdentity {
                        shown: format!("{} of cluster {}", id.name(), id.cluster()),
                        configured: format!("{} of cluster {}", config.name, config.cluster),
                    });
                }
                Some((id.client_config()?, id.server_config()?))
            }
        };
        let listener = match config.listen {
            Some(address) => Some(
                TcpListener::bind(address)
                    .and_then(|mut l| {
                        registry.register(&mut l, first, Interest::READABLE)?;
                        Ok(l)
                    })
                    .map_err(|error| StartError::Listen { address, error })?,
            ),
            None => None,
        };
        let life = u64::from_le_bytes(random()?);
        let us = Hello {
            cluster: config.cluster,
            life,
            session: 0,
            node: config.node,
            name: config.name.clone(),
        };
        let mut notes = Notes::new(log, config.limits.log_pause);
        let listens = [first, Token(first.0 + 1)];
        let door = Door::of(config.local.as_ref(), &registry, listens[1], &mut notes);
        let mut driver = Driver {
            registry,
            listens,
            shared: Arc::new(Shared::new(config.limits.undelivered_bytes, rouse)),
            notes,
            tls,
            us,
            listener,
            door,
            accept_at: None,
            peers: BTreeMap::new(),
            links: BTreeMap::new(),
            router: Router::new(config.node, life, config.relays, None),
            circuits: BTreeMap::new(),
            sessions: 0,
            started: Instant::now(),
            work: BTreeSet::new(),
            next_token: first.0 + 2,
            scratch: vec![0; SCRATCH],
            config,
        };
        for peer in std::mem::take(&mut driver.config.peers) {
            driver.add_peer(peer, Instant::now());
        }
        Ok(driver)
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().and_then(|l| l.local_addr().ok())
    }

    pub(super) fn life(&self) -> u64 {
        self.us.life
    }

    /// One of the sockets is ready, or something else is that is none of ours.
    pub fn ready(&mut self, event: &Readiness) {
        let now = Instant::now();
        if self.listens.contains(&event.token()) {
            self.accept(now);
        } else {
            self.note_readiness(event.token(), event, now);
        }
    }

    /// Does what there is to do, without waiting. Returns false when the transport has been
    /// dropped.
    pub fn turn(&mut self) -> bool {
        let now = Instant::now();
        if !self.obey(now) {
            return false;
        }
        // What comes for others goes on at once.
        for _ in 0..ROUNDS {
            for token in std::mem::take(&mut self.work) {
                self.serve(token, now);
            }
        }
        self.keep_time(now);
        true
    }

    /// Hands the owner the news that the transport cannot go on.
    pub(super) fn stopped(&self, why: &io::Error) {
        self.shared.deliver(Event::Stopped { why: why.to_string() }, None);
    }

    /// How long [`Driver::turn`] need not be called if no socket becomes ready and nothing is
    /// sent.
    pub fn patience(&self) -> Option<Duration> {
        self.wait(Instant::now())
    }

    /// How long nothing is to be done if nothing happens.
    fn wait(&self, now: Instant) -> Option<Duration> {
        if !self.work.is_empty() {
            return Some(Duration::ZERO);
        }
        let links = self.links.values().filter(|l| !l.is_up()).map(|l| l.deadline);
        let dials = self.peers.values().filter_map(|k| k.dial_at);
        let tick = self.started + Duration::from_nanos(self.router.due());
        let tick = (!self.peers.is_empty()).then_some(tick);
        let first = links.chain(dials).chain(self.accept_at).chain(tick).min()?;
        // Polling counts in milliseconds and may come early by the fraction of one.
        Some(first.saturating_duration_since(now) + Duration::from_millis(1))
    }

    fn keep_time(&mut self, now: Instant) {
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept(now);
        }
        let late = |l: &Link| !l.is_up() && l.deadline <= now;
        let late: Vec<Token> =
            self.links.iter().filter(|(_, l)| late(l)).map(|(token, _)| *token).collect();
        for token in late {
            self.lose(token, Lost::Silent, now);
        }
        let due = |k: &Known| k.dial_at.is_some_and(|at| at <= now);
        let due: Vec<NodeId> =
            self.peers.iter().filter(|(_, k)| due(k)).map(|(node, _)| *node).collect();
        for node in due {
            self.dial(node, now);
        }
        self.steer(now);
    }

    /// Does what the owner has ordered. Returns false if that is to stop.
    fn obey(&mut self, now: Instant) -> bool {
        let orders = self.shared.take_orders();
        let carrier = |p: &NodeId| self.peers.get(p)?.session.as_ref().map(|s| s.carrier);
        self.work.extend(orders.told.iter().filter_map(carrier));
        if orders.resume {
            self.work.extend(self.links.iter().filter(|(_, l)| l.readable).map(|(t, _)| *t));
        }
        for order in orders.peers {
            match order {
                PeerOrder::Add(peer) => {
                    // What goes on with one that is replaced does not go on with the other.
                    let key = self.peers.get(&peer.node).and_then(|k| k.peer.key);
                    if key.is_some() && key != peer.key {
                        self.remove_peer(peer.node, now);
                    }
                    self.add_peer(peer, now);
                }
                PeerOrder::Retire(node) => {
                    if let Some(known) = self.peers.get_mut(&node) {
                        (known.retired, known.dial_at) = (true, None);
                    }
                }
                PeerOrder::Remove(node) => self.remove_peer(node, now),
            }
        }
        !orders.stop
    }

    fn remove_peer(&mut self, node: NodeId, now: Instant) {
        self.end_session(node, Lost::Removed, now);
        let links = self.peers.get(&node).map(|k| [k.direct, k.circuit]);
        for token in links.into_iter().flatten().flatten() {
            self.lose(token, Lost::Removed, now);
        }
        self.peers.remove(&node);
        let mut out = Vec::new();
        self.router.unlist(node, &mut out);
        self.route(now, out);
    }

    /// Whether there should be a connection that this one dials.
    pub(super) fn is_to_dial(&self, peer: &Peer) -> bool {
        let may = self.config.only.as_ref().is_none_or(|only| only.contains(&peer.name));
        may && self.us.node > peer.node && peer.address.is_some()
    }

    fn add_peer(&mut self, peer: Peer, now: Instant) {
        let we_dial = self.is_to_dial(&peer);
        self.router.list(peer.node);
        if let Some(known) = self.peers.get_mut(&peer.node) {
            known.dial_at = (we_dial && known.direct.is_none()).then_some(now);
            known.retired = false;
            known.peer = peer;
            return;
        }
        let limits = &self.config.limits;
        let seed = self.us.life ^ u64::from(peer.node.0) << 32;
        let known = Known {
            direct: None,
            circuit: None,
            near: Near::default(),
            circuit_at: None,
            session: None,
            dial_at: we_dial.then_some(now),
            pause: Pause::new(limits.shortest_pause, limits.longest_pause, seed),
            retired: false,
            peer,
        };
        self.peers.insert(known.peer.node, known);
    }

    fn note_readiness(&mut self, token: Token, event: &Readiness, now: Instant) {
        let Some(link) = self.links.get_mut(&token) else { return };
        link.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        link.ending |= event.is_read_closed();
        link.writable |= event.is_writable();
        if matches!(link.state, State::Connecting) {
            let Wire::Socket(socket) = &link.stream.wire else { return };
            match connected(socket) {
                Ok(false) => return,
                Ok(true) => {
                    set_options(socket, self.config.limits.silence);
                    self.greet(token);
                }
                Err(e) => return self.lose(token, Lost::Io(e.to_string()), now),
            }
        }
        self.work.insert(token);
    }

    /// Reads and writes one connection for a turn.
    fn serve(&mut self, token: Token, now: Instant) {
        let Some(link) = self.links.get_mut(&token) else { return };
        match link.state {
            State::Connecting => return,
            State::Leaving => {
                // The reason goes its way, over a circuit.
                self.pump(token, now);
                let Some(link) = self.links.get_mut(&token) else { return };
                if !link.stream.drain(&mut self.scratch) {
                    self.forget(token, now);
                }
                return;
            }
            State::Greeting | State::Up { .. } => {}
        }
        let mut frames = Vec::new();
        let paused = link.is_up() && self.shared.is_paused();
        let read = if paused { Ok(()) } else { link.read(&mut self.scratch, &mut frames) };
        if std::mem::take(&mut link.heard) {
            link.missed = 0;
            if let (State::Up { peer, .. }, false) = (&link.state, link.is_circuit()) {
                self.router.heard(*peer);
            }
        }
        for frame in frames {
            if let Err(why) = self.handle(token, frame, now) {
                return self.lose(token, why, now);
            }
        }
        if let Err(why) = read {
            return self.lose(token, why, now);
        }
        let Some(link) = self.links.get_mut(&token) else { return };
        let session = match &link.state {
            State::Up { peer, .. } => self.peers.get_mut(peer).and_then(|k| k.session.as_mut()),
            _ => None,
        };
        let wrote = match link.write(session.filter(|s| s.carrier == token)) {
            Ok(wrote) => wrote,
            Err(why) => return self.lose(token, why, now),
        };
        self.pump(token, now);
        let Some(link) = self.links.get_mut(&token) else { return };
        let reads = link.readable && !(link.is_up() && self.shared.is_paused());
        if reads || wrote.more {
            self.work.insert(token);
        }
    }

    /// A connection is over, or does not come about.
    pub(super) fn lose(&mut self, token: Token, why: Lost, now: Instant) {
        let Some(link) = self.links.get_mut(&token) else { return };
        let (place, dialled) = (link.place.clone(), link.dialled);
        let near = link.is_near();
        let through =
            link.path.iter().find(|p| **p != self.us.node && Some(**p) != dialled).copied();
        let why = match (link.ended, why) {
            (Some(ended), Lost::Closed) => Lost::Circuit(words(ended)),
            (_, why) => why,
        };
        let mut keep = false;
        let mut lived = None;
        match &link.state {
            State::Up { peer, since, session } => {
                lived = Some(now.saturating_duration_since(*since));
                let (peer, session) = (*peer, *session);
                self.part(token, peer, session, why, now);
            }
            State::Connecting => self.notes.note(now, place, dialled, why),
            State::Greeting => {
                keep = why.can_be_told();
                if keep {
                    link.refuse(&why, now + LEAVING);
                    self.work.insert(token);
                }
                match dialled.filter(|_| near) {
                    Some(peer) => self.note_near(peer, place, why, now),
                    None => self.notes.note_through(now, place, dialled, through, why),
                }
            }
            State::Leaving => {}
        }
        let lived_long = lived.is_some_and(|l| l >= self.config.limits.longest_pause);
        self.leave_peer(token, dialled, lived_long, now);
        if !keep {
            self.forget(token, now);
        }
    }

    /// A connection is no peer's any more; one that we dialled is dialled again.
    fn leave_peer(
        &mut self,
        token: Token,
        dialled: Option<NodeId>,
        lived_long: bool,
        now: Instant,
    ) {
        for known in self.peers.values_mut() {
            known.circuit.take_if(|t| *t == token);
            known.direct.take_if(|t| *t == token);
            known.near.dialled.take_if(|t| *t == token);
            known.near.before.take_if(|t| *t == token);
        }
        let is_circuit = self.links.get(&token).is_some_and(Link::is_circuit);
        let Some(known) = dialled.and_then(|d| self.peers.get_mut(&d)) else { return };
        if is_circuit || known.direct.is_some() {
            return;
        }
        if lived_long {
            known.pause.reset();
        }
        known.dial_at = (!known.retired).then(|| now + known.pause.take());
    }

    fn forget(&mut self, token: Token, now: Instant) {
        let Some(mut link) = self.links.remove(&token) else { return };
        match &mut link.stream.wire {
            // Closing the socket takes it out of the poll anyway.
            Wire::Socket(socket) => drop(self.registry.deregister(socket)),
            Wire::Near(socket) => drop(self.registry.deregister(socket)),
            Wire::Circuit(pipe) => {
                let circuit = pipe.circuit;
                self.end_circuit(circuit, now);
            }
        }
    }
}
