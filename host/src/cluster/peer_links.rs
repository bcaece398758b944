//! Frames between this process and the others.
//!
//! A message of a node that its peer's queue has no room for waits here until there is: nodes
//! bound what they have in work themselves. What members say, and how nodes are, may be lost; they are
//! said again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bytes::Bytes;
use mio::{Registry, Token};
use weft_bytes::{Reader, Writer};
use weft_core::node::Envelope;
use weft_core::units::NodeId;
use weft_net::transport::{Config, Driver, Event, Lost, Note, Peer, Reach, SendError, Transport};
use weft_net::wire::Message;

use crate::error::{Error, Result, fail};
use crate::log::Log;

const MESSAGE: u8 = weft_net::MESSAGE;
const MEMBER: u8 = MESSAGE + 1;
const ASK: u8 = MESSAGE + 2;
const ANSWER: u8 = MESSAGE + 3;
const STATUS: u8 = MESSAGE + 4;
const LEFT: u8 = MESSAGE + 5;
const HANG_UP: u8 = MESSAGE + 6;
const RENEW: u8 = MESSAGE + 16;
const RENEWED: u8 = MESSAGE + 17;

/// Messages that wait for a node that is about to be connected; more are lost.
const MOST_EXPECTED: usize = 1024;

/// What has come from another process.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all events are messages")]
pub(crate) enum PeerEvent {
    /// There is a connection.
    Up,
    /// It is gone.
    Down,
    /// A node's message to ours.
    Message(Envelope),
    /// From its member.
    Member(Vec<u8>),
    /// A request to the control socket, under a number of the sender's.
    Ask(u64, Vec<u8>),
    /// The answer to one.
    Answer(u64, Vec<u8>),
    /// Nobody waits any more for the answer to what was asked under this number.
    HungUp(u64),
    /// How its nodes are.
    Status(Vec<u8>),
    /// That our last node has left the cluster.
    Left,
    /// Its certificate, which it wants renewed.
    Renew(Vec<u8>),
    /// What became of ours.
    Renewed(Vec<u8>),
}

/// The connections to the other processes.
pub(super) struct PeerLinks {
    transport: Transport,
    driver: Driver,
    /// By the numbers of processes, as all that follows.
    up: BTreeSet<NodeId>,
    /// Those that are back, and are about to be connected.
    expected: BTreeSet<NodeId>,
    waiting: BTreeMap<NodeId, VecDeque<Vec<Bytes>>>,
    /// Those that we dialled and that would not have us, and why, as it happens.
    refused: Receiver<(NodeId, Lost)>,
    /// Those that would not have us the last time.
    refusals: BTreeMap<NodeId, Lost>,
    log: Log,
}

impl PeerLinks {
    /// Listens, and dials whom it must.
    pub(super) fn start(
        config: Config,
        registry: &Registry,
        first: Token,
        log: Log,
    ) -> Result<PeerLinks> {
        let (notes, (refuse, refused)) = (log.clone(), channel());
        let note = move |note: &Note| {
            if let (Some(peer), why @ Lost::Refused(_)) = (note.dialled, &note.why) {
                // While the process ends nobody listens.
                let _ = refuse.send((peer, why.clone()));
            }
            notes.info(&note.to_string());
        };
        let (transport, driver) = Transport::with_driver(config, registry, first, note)
            .map_err(|e| Error(e.to_string()))?;
        let (up, expected, waiting) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        let refusals = BTreeMap::new();
        Ok(PeerLinks { transport, driver, up, expected, waiting, refused, refusals, log })
    }

    /// A socket is ready.
    pub(super) fn ready(&mut self, event: &mio::event::Event) {
        self.driver.ready(event);
    }

    /// The processes that there is a connection to.
    pub(super) fn up(&self) -> &BTreeSet<NodeId> {
        &self.up
    }

    /// How the others are reached.
    pub(super) fn reach(&self) -> Vec<Reach> {
        self.driver.reach()
    }

    /// Whether a process said last that we are none of the cluster.
    pub(super) fn disowns_us(&self, process: NodeId) -> bool {
        self.refusals.get(&process).is_some_and(Lost::disowns)
    }

    /// How long nothing is to be done if nothing comes.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.driver.patience()
    }

    /// Moves bytes as far as that goes without waiting.
    pub(super) fn turn(&mut self) {
        self.driver.turn();
        self.refusals.extend(self.refused.try_iter());
    }

    /// The processes that would not have us when we dialled them, and why.
    pub(super) fn refusals(&self) -> &BTreeMap<NodeId, Lost> {
        &self.refusals
    }

    /// The next thing that has come, and from whom.
    pub(super) fn next(&mut self) -> Result<Option<(NodeId, PeerEvent)>> {
        while let Some(event) = self.transport.next_event() {
            let (peer, event) = match event {
                Event::Up { peer, .. } => {
                    self.up.insert(peer);
                    self.expected.remove(&peer);
                    self.refusals.remove(&peer);
                    self.send_waiting(peer);
                    (peer, PeerEvent::Up)
                }
                Event::Down { peer, why } => {
                    self.up.remove(&peer);
                    self.expected.remove(&peer);
                    self.waiting.remove(&peer);
                    let gone =
                        format!("no connection to the process of node {} any more: {why}", peer.0);
                    self.log.warn(&gone);
                    (peer, PeerEvent::Down)
                }
                Event::Room { peer } => {
                    self.send_waiting(peer);
                    continue;
                }
                Event::Stopped { why } => {
                    return fail(format!("cannot talk to other nodes: {why}"));
                }
                Event::Received { peer, frame } => match read(frame.kind, &frame.payload) {
                    Ok(event) => (peer, event),
                    Err(why) => {
                        self.log.warn(&format!("the process of node {}: {why}; dropped", peer.0));
                        continue;
                    }
                },
            };
            return Ok(Some((peer, event)));
        }
        Ok(None)
    }

    /// Sends a node's message to the process of the node that it is for, now or when there is room.
    /// If there is no connection, nor one about to be, it is lost, as messages may be.
    pub(super) fn send(&mut self, to: NodeId, message: Envelope) {
        let up = self.up.contains(&to);
        let waiting = self.waiting.entry(to).or_default();
        if up || (self.expected.contains(&to) && waiting.len() < MOST_EXPECTED) {
            waiting.push_back(Message::Envelope(message).encode());
        }
        if up {
            self.send_waiting(to);
        }
    }

    /// A process is back, and to be dialled now. What is sent to it waits until it is connected:
    /// it would be missed only after the patience of whoever sent it.
    pub(super) fn expect(&mut self, peer: Peer) {
        self.expected.insert(peer.node);
        self.transport.add_peer(peer);
    }

    /// A process is not expected any more.
    pub(super) fn give_up(&mut self, node: NodeId) {
        if self.expected.remove(&node) {
            self.waiting.remove(&node);
        }
    }

    fn send_waiting(&mut self, to: NodeId) {
        let Some(waiting) = self.waiting.get_mut(&to) else { return };
        while let Some(payload) = waiting.pop_front() {
            match self.transport.send(to, MESSAGE, payload.clone()) {
                Ok(()) => {}
                Err(SendError::Full { .. }) => {
                    waiting.push_front(payload);
                    return;
                }
                Err(SendError::Down { .. }) => waiting.clear(),
                Err(e) => {
                    let text = format!("a message to the process of node {} is dropped: {e}", to.0);
                    self.log.warn(&text);
                }
            }
        }
    }

    /// Sends what a member says; it may be lost.
    pub(super) fn send_member(&self, to: NodeId, bytes: Vec<u8>) {
        let _ = self.transport.send(to, MEMBER, vec![bytes.into()]);
    }

    /// Hands a process a request to its control socket.
    pub(super) fn ask(&self, to: NodeId, number: u64, request: &[u8]) -> Result<()> {
        self.send_numbered(to, ASK, number, request)
    }

    /// Answers one.
    pub(super) fn answer(&self, to: NodeId, number: u64, answer: &[u8]) {
        // Who is gone waits for nothing.
        let _ = self.send_numbered(to, ANSWER, number, answer);
    }

    /// Says that nobody waits for the answer to one any more.
    pub(super) fn hang_up(&self, to: NodeId, number: u64) {
        // Who is gone answers nothing.
        let _ = self.send_numbered(to, HANG_UP, number, &[]);
    }

    fn send_numbered(&self, to: NodeId, kind: u8, number: u64, text: &[u8]) -> Result<()> {
        let mut payload: Writer = Writer::default();
        payload.u64(number);
        payload.raw(text);
        self.transport
            .send(to, kind, vec![payload.finish().into()])
            .map_err(|e| Error(e.to_string()))
    }

    /// Tells every process how things are here; it may be lost.
    pub(super) fn tell_status(&self, status: &Bytes) {
        for peer in &self.up {
            let _ = self.transport.send(*peer, STATUS, vec![status.clone()]);
        }
    }

    /// Tells a process that its last node has left; it hears no more maps.
    pub(super) fn tell_left(&self, to: NodeId) {
        // One that does not run is refused when it comes back.
        let _ = self.transport.send(to, LEFT, Vec::new());
    }

    /// Shows a process our certificate, to have it renewed; it may be lost.
    pub(super) fn ask_renewal(&self, to: NodeId, certificate: Vec<u8>) {
        let _ = self.transport.send(to, RENEW, vec![certificate.into()]);
    }

    /// Tells a process what became of its certificate; it may be lost.
    pub(super) fn answer_renewal(&self, to: NodeId, answer: Vec<u8>) {
        let _ = self.transport.send(to, RENEWED, vec![answer.into()]);
    }

    /// Adds a peer, or changes what is known of it.
    pub(super) fn add_peer(&self, peer: Peer) {
        self.transport.add_peer(peer);
    }

    /// Takes a peer off the list and ends its connection.
    pub(super) fn remove_peer(&self, node: NodeId) {
        self.transport.remove_peer(node);
    }
}

fn read(kind: u8, payload: &Bytes) -> std::result::Result<PeerEvent, String> {
    let numbered = || {
        let mut r: Reader = Reader::new(payload);
        let number = r.u64().map_err(|_| "a frame is too short")?;
        Ok::<_, String>((number, r.rest().to_vec()))
    };
    match kind {
        MESSAGE => match Message::decode(payload).map_err(|e| e.to_string())? {
            Message::Envelope(message) => Ok(PeerEvent::Message(message)),
            _ => Err("a message that is for nobody".to_string()),
        },
        MEMBER => Ok(PeerEvent::Member(payload.to_vec())),
        ASK => numbered().map(|(number, text)| PeerEvent::Ask(number, text)),
        ANSWER => numbered().map(|(number, text)| PeerEvent::Answer(number, text)),
        HANG_UP => numbered().map(|(number, _)| PeerEvent::HungUp(number)),
        STATUS => Ok(PeerEvent::Status(payload.to_vec())),
        LEFT => Ok(PeerEvent::Left),
        RENEW => Ok(PeerEvent::Renew(payload.to_vec())),
        RENEWED => Ok(PeerEvent::Renewed(payload.to_vec())),
        kind => Err(format!("a frame of unknown kind {kind}; run the same version on all nodes")),
    }
}
