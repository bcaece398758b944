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
use weft_net::letters;
use weft_net::transport::{Config, Driver, Event, Lost, Note, Peer, Reach, SendError, Transport};
use weft_net::wire::Message;

use crate::error::{Error, Result, fail};
use crate::log::{About, Log};

const LETTERS: u8 = weft_net::LETTERS;
const MEMBER: u8 = LETTERS + 1;
const ASK: u8 = LETTERS + 2;
const ANSWER: u8 = LETTERS + 3;
const STATUS: u8 = LETTERS + 4;
const LEFT: u8 = LETTERS + 5;
const HANG_UP: u8 = LETTERS + 6;
const RENEW: u8 = LETTERS + 16;
const RENEWED: u8 = LETTERS + 17;

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
    /// Those to whom something waits that could go.
    due: BTreeSet<NodeId>,
    /// What has come and has not been taken.
    came: VecDeque<(NodeId, PeerEvent)>,
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
            let process = note.dialled.map(|p| p.0);
            notes.on(About { process, ..About::default() }).info(&note.to_string());
        };
        let (transport, driver) = Transport::with_driver(config, registry, first, note)
            .map_err(|e| Error(e.to_string()))?;
        let (up, expected, waiting) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        let refusals = BTreeMap::new();
        let (due, came) = (BTreeSet::new(), VecDeque::new());
        Ok(PeerLinks {
            transport,
            driver,
            up,
            expected,
            waiting,
            due,
            came,
            refused,
            refusals,
            log,
        })
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
        std::mem::take(&mut self.due).into_iter().for_each(|peer| self.send_waiting(peer));
        self.driver.turn();
        self.refusals.extend(self.refused.try_iter());
    }

    /// The processes that would not have us when we dialled them, and why.
    pub(super) fn refusals(&self) -> &BTreeMap<NodeId, Lost> {
        &self.refusals
    }

    /// The next thing that has come, and from whom.
    pub(super) fn next(&mut self) -> Result<Option<(NodeId, PeerEvent)>> {
        loop {
            if let Some(next) = self.came.pop_front() {
                return Ok(Some(next));
            }
            let Some(event) = self.transport.next_event() else { return Ok(None) };
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
                        format!("the connection to the process of node {} is lost: {why}", peer.0);
                    self.log.on(About::process(peer)).warn(&gone);
                    (peer, PeerEvent::Down)
                }
                Event::Room { peer } => {
                    self.send_waiting(peer);
                    continue;
                }
                Event::Stopped { why } => {
                    return fail(format!("cannot communicate with other nodes: {why}"));
                }
                Event::Received { peer, frame } if frame.kind == LETTERS => {
                    self.open_letters(peer, &frame.payload);
                    continue;
                }
                Event::Received { peer, frame } => match read(frame.kind, &frame.payload) {
                    Ok(event) => (peer, event),
                    Err(why) => {
                        self.log
                            .on(About::process(peer))
                            .warn(&format!("the process of node {}: {why}; dropped", peer.0));
                        continue;
                    }
                },
            };
            return Ok(Some((peer, event)));
        }
    }

    /// Takes the letters of a round apart.
    fn open_letters(&mut self, peer: NodeId, payload: &Bytes) {
        let dropped = |why: String| format!("the process of node {}: {why}; dropped", peer.0);
        match letters::split(payload) {
            Ok(letters) => {
                for letter in letters {
                    match read_letter(&letter) {
                        Ok(event) => self.came.push_back((peer, event)),
                        Err(why) => self.log.on(About::process(peer)).warn(&dropped(why)),
                    }
                }
            }
            Err(why) => self.log.on(About::process(peer)).warn(&dropped(why.to_string())),
        }
    }

    /// Sends a node's message to the process of the node that it is for, with the next turn or when there is room.
    /// If there is no connection, nor one about to be, it is lost, as messages may be.
    pub(super) fn send(&mut self, to: NodeId, message: Envelope) {
        let up = self.up.contains(&to);
        let waiting = self.waiting.entry(to).or_default();
        if up || (self.expected.contains(&to) && waiting.len() < MOST_EXPECTED) {
            waiting.push_back(Message::Envelope(message).encode());
        }
        if up {
            self.due.insert(to);
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
        while !waiting.is_empty() {
            let round = next_frame(waiting);
            match self.transport.send(to, LETTERS, letters::join(round.clone())) {
                Ok(()) => {}
                Err(SendError::Full { .. }) => {
                    round.into_iter().rev().for_each(|letter| waiting.push_front(letter));
                    return;
                }
                Err(SendError::Down { .. }) => waiting.clear(),
                Err(e) => {
                    let text = format!("a message to the process of node {} is dropped: {e}", to.0);
                    self.log.on(About::process(to)).warn(&text);
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

    /// A peer has left: no other connection to it begins.
    pub(super) fn retire_peer(&self, node: NodeId) {
        self.transport.retire_peer(node);
    }

    /// Takes a peer off the list and ends its connection.
    pub(super) fn remove_peer(&self, node: NodeId) {
        self.transport.remove_peer(node);
    }
}

/// Takes the letters of the next frame off the front: the first, and more while they are not too long together.
fn next_frame(waiting: &mut VecDeque<Vec<Bytes>>) -> Vec<Vec<Bytes>> {
    let (mut frame, mut bytes) = (Vec::new(), 0);
    while let Some(letter) = waiting.front() {
        bytes += letter.iter().map(Bytes::len).sum::<usize>();
        if bytes > letters::JOINED && !frame.is_empty() {
            break;
        }
        frame.extend(waiting.pop_front());
    }
    frame
}

fn read_letter(letter: &Bytes) -> std::result::Result<PeerEvent, String> {
    match Message::decode(letter).map_err(|e| e.to_string())? {
        Message::Envelope(message) => Ok(PeerEvent::Message(message)),
        _ => Err("a message without a recipient".to_string()),
    }
}

fn read(kind: u8, payload: &Bytes) -> std::result::Result<PeerEvent, String> {
    let numbered = || {
        let mut r: Reader = Reader::new(payload);
        let number = r.u64().map_err(|_| "a frame is too short")?;
        Ok::<_, String>((number, r.rest().to_vec()))
    };
    match kind {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_a_round_go_together_up_to_a_length() {
        let letter = |len: usize| vec![vec![1; len / 2].into(), vec![2; len - len / 2].into()];
        let lens = [100, 4200, 4200, letters::JOINED, 100, 2 * letters::JOINED, 50, 60];
        let mut waiting: VecDeque<Vec<Bytes>> = lens.iter().map(|len| letter(*len)).collect();
        let frames =
            std::iter::from_fn(|| Some(next_frame(&mut waiting)).filter(|f| !f.is_empty()));
        let frames: Vec<usize> = frames.map(|frame| frame.len()).collect();
        assert_eq!(frames, [3, 1, 1, 1, 2]);
    }
}
