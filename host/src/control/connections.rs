//! All who ask: connections to the control socket, other processes, threads of this one; and what other
//! processes have offered to ask.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use mio::net::UnixStream;
use rustix::net::sockopt;
use serde_json::Value;
use weft_core::units::{NodeId, VolumeId};

use super::commands::{Outcome, Wait};
use super::connection::{ControlConnection, Line};
use super::offers::{Asked, Offers};
use crate::cluster::Together;
use crate::control_protocol::{error, ok};

/// How often one looks at questions that wait for time to pass.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How often one looks for what other threads may have brought about.
const LOOK_SOON: Duration = Duration::from_millis(20);

/// Those who ask, by number.
#[derive(Default)]
pub(crate) struct Controls {
    connections: HashMap<usize, ControlConnection>,
    offers: Offers,
}

/// What is to be done about a question.
pub(crate) enum Due {
    /// To look whether what it waits for has come about.
    Check(Box<Wait>),
    /// To take it up; it was handed on by another process, or not.
    TakeUp(Vec<u8>, bool),
}

/// Whether a question is still to be asked of a process that is ready for it.
pub(crate) enum Awaited {
    /// The question.
    Yes(Vec<u8>),
    /// Whoever asked it has gone.
    Left,
    /// It does not wait for that process.
    No,
}

impl Controls {
    /// A connection to the control socket has come in.
    pub(crate) fn accept(&mut self, id: usize, stream: UnixStream) {
        self.connections.insert(id, ControlConnection::new(stream));
    }

    /// A single question has come.
    pub(crate) fn ask(&mut self, id: usize, line: Line, question: Vec<u8>) {
        self.connections.insert(id, ControlConnection::asking(line, question));
    }

    /// Something is to be done that nobody outside waits for.
    pub(crate) fn have_done(&mut self, id: usize, wait: Wait) {
        self.connections.insert(id, ControlConnection::for_nobody(wait));
    }

    /// The process `peer` asks, or offers to, and may be told so.
    pub(crate) fn asked_by(
        &mut self,
        peer: NodeId,
        number: u64,
        question: &[u8],
        now: Instant,
    ) -> Asked {
        self.offers.ask(peer, number, question, now)
    }

    /// One is over, and out of the list.
    pub(crate) fn remove(&mut self, id: usize) -> Option<ControlConnection> {
        self.connections.remove(&id)
    }

    /// Puts one back that was taken out to be asked about.
    pub(crate) fn put_back(&mut self, id: usize, control: ControlConnection) {
        self.connections.insert(id, control);
    }

    /// Their numbers.
    pub(crate) fn ids(&self) -> Vec<usize> {
        self.connections.keys().copied().collect()
    }

    /// Whether there is one of this number.
    pub(crate) fn has(&self, id: usize) -> bool {
        self.connections.contains_key(&id)
    }

    /// Whether there is one of this number that nobody outside waits for.
    pub(crate) fn is_for_nobody(&self, id: usize) -> bool {
        self.connections.get(&id).is_some_and(ControlConnection::is_for_nobody)
    }

    /// What one of them has asked, and from where, unless that is this process itself.
    pub(crate) fn asked(&self, id: usize) -> Option<(&[u8], String)> {
        let control = self.connections.get(&id)?;
        let from = match &control.line {
            Line::Socket(stream) => match sockopt::socket_peercred(stream) {
                Ok(peer) => format!("user {} of this machine", peer.uid.as_raw()),
                Err(_) => "this machine".to_string(),
            },
            Line::Process(node, _) => format!("the process of node {}", node.0),
            Line::Thread(_) => "a process that joins".to_string(),
            Line::Host(_, peer) => peer.clone(),
            Line::Nobody => return None,
        };
        Some((&control.question, from))
    }

    /// Whether one is a connection to the control socket.
    pub(crate) fn is_socket(&self, id: usize) -> bool {
        self.connections.get(&id).is_some_and(|c| matches!(c.line, Line::Socket(_)))
    }

    /// How many connections to the control socket there are.
    pub(crate) fn sockets(&self) -> usize {
        let is_socket = |c: &&ControlConnection| matches!(c.line, Line::Socket(_));
        self.connections.values().filter(is_socket).count()
    }

    fn waits(&self) -> impl Iterator<Item = &Wait> {
        self.connections.values().filter_map(|c| c.wait.as_ref())
    }

    /// The volumes whose size is being changed.
    pub(crate) fn sizing(&self) -> Vec<VolumeId> {
        self.waits().filter_map(Wait::sizes).collect()
    }

    /// The volumes that are being made, changed or deleted.
    pub(crate) fn volumes_in_hand(&self) -> Vec<VolumeId> {
        self.waits().filter_map(Wait::volume).collect()
    }

    /// How long until they are to be looked at again though nothing else happens. What is waited for may come about on other
    /// `threads`, which do not say so.
    pub(crate) fn due(&self, threads: bool) -> Option<Duration> {
        let now = Instant::now();
        let timed = self.waits().any(Wait::is_timed).then_some(LOOK_AGAIN);
        let elsewhere = (threads && self.waits().next().is_some()).then_some(LOOK_SOON);
        let look = elsewhere.or(timed);
        let told = self.connections.values().filter_map(ControlConnection::tells_at);
        let told = told.map(|at| at.saturating_duration_since(now)).filter(|d| !d.is_zero());
        told.chain(look).min()
    }

    /// Reads what one has sent.
    pub(crate) fn receive(&mut self, id: usize) {
        if let Some(control) = self.connections.get_mut(&id) {
            control.receive();
        }
    }

    /// What is to be done about the question of one, if anything.
    pub(crate) fn next(&mut self, id: usize) -> Option<Due> {
        let control = self.connections.get_mut(&id)?;
        if let Some(wait) = control.wait.take() {
            return Some(Due::Check(Box::new(wait)));
        }
        let handed_on = matches!(control.line, Line::Process(..));
        control.next_question().then(|| Due::TakeUp(control.question.clone(), handed_on))
    }

    /// Takes what the question of one waits for.
    pub(crate) fn take_wait(&mut self, id: usize) -> Option<Wait> {
        self.connections.get_mut(&id)?.wait.take()
    }

    /// Takes note of what became of the question of one.
    pub(crate) fn settle(&mut self, id: usize, outcome: Outcome) {
        if let Some(control) = self.connections.get_mut(&id) {
            control.settle(outcome);
        }
    }

    /// A process has answered a question.
    pub(crate) fn answered(&mut self, peer: NodeId, number: u64, answer: &[u8]) {
        if let Some(control) = self.connections.get_mut(&(number as usize)) {
            control.answered(peer, answer);
        }
    }

    /// Whether a question waits for the answer of this process.
    pub(crate) fn waits_for(&self, peer: NodeId, id: usize) -> bool {
        let wait = self.connections.get(&id).and_then(|control| control.wait.as_ref());
        matches!(wait, Some(Wait::Elsewhere(node)) if *node == peer)
    }

    /// A process is ready for a question that is to be handed on to it.
    pub(crate) fn is_awaited(&mut self, peer: NodeId, id: usize) -> Awaited {
        let waits = self.waits_for(peer, id);
        let Some(control) = self.connections.get_mut(&id).filter(|_| waits) else {
            return Awaited::No;
        };
        match control.has_been_left() {
            true => Awaited::Left,
            false => Awaited::Yes(control.question.clone()),
        }
    }

    /// Answers a question with an error, whatever it waits for.
    pub(crate) fn give_up(&mut self, id: usize, why: impl fmt::Display) {
        if let Some(control) = self.connections.get_mut(&id) {
            control.wait = None;
            control.settle(Outcome::Answer(error(why)));
        }
    }

    /// A process has nobody any more who waits for the answer to its question.
    pub(crate) fn hung_up(&mut self, peer: NodeId, number: u64) {
        self.offers.hung_up(peer, number);
        let asked = |c: &&mut ControlConnection| matches!(c.line, Line::Process(node, n) if (node, n) == (peer, number));
        if let Some(control) = self.connections.values_mut().find(asked) {
            control.hang_up();
        }
    }

    /// A process is gone: it answers nothing any more, and waits for nothing. Returns its questions, which are
    /// over.
    pub(crate) fn lose_process(&mut self, peer: NodeId) -> Vec<usize> {
        self.offers.lose(peer);
        let (mut gone, mut unanswered) = (Vec::new(), Vec::new());
        for (id, control) in &self.connections {
            if matches!(control.wait, Some(Wait::Elsewhere(node)) if node == peer) {
                unanswered.push(*id);
            } else if matches!(control.line, Line::Process(node, _) if node == peer) {
                gone.push(*id);
            }
        }
        for id in unanswered {
            let why = format!(
                "the connection to the process of node {} broke: the request may or may not have been done; check, and try again",
                peer.0
            );
            self.give_up(id, why);
        }
        gone
    }

    /// Sends one what there is to say. Says whether it goes on.
    pub(crate) fn send(&mut self, id: usize, together: Option<&Together>) -> bool {
        self.connections.get_mut(&id).is_none_or(|control| control.send(together))
    }

    /// Everything has stopped: those who waited for that are told how it went, and all hear what there is to say.
    pub(crate) fn part(&mut self, farewell: &Value, together: Option<&Together>) {
        for control in self.connections.values_mut() {
            if matches!(control.wait.take(), Some(Wait::Shutdown)) {
                control.settle(Outcome::Answer(ok(farewell.clone())));
            }
            control.send(together);
        }
    }
}
