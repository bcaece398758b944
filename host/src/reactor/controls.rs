//! Control connections: handing on what they ask, and them what it answers.

use std::time::{Duration, Instant};

use serde_json::json;
use weft_core::units::{NodeId, VolumeId};

use super::Reactor;
use crate::cluster::PeerEvent;
use crate::control::commands::{Commands, Outcome, Wait};
use crate::control::connection::{ControlConnection, Line};
use crate::control::offers::{self, Asked, OFFER};
use crate::control::status;
use crate::control_protocol::error;
use crate::sessions::link::End;

/// How often one looks at questions that wait for time to pass.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Reactor {
    pub(super) fn with_commands<T>(&mut self, f: impl FnOnce(&mut Commands<'_>) -> T) -> T {
        let hosts = &self.hosts;
        let clients = |v: VolumeId| hosts.users_of(v);
        let mut leaving = Vec::new();
        let sizes = |c: &ControlConnection| c.wait.as_ref().and_then(Wait::sizes);
        let sizing: Vec<VolumeId> = self.controls.values().filter_map(sizes).collect();
        let answer = f(&mut Commands {
            engine: &mut self.engine,
            requests: &mut self.requests,
            numbered: &mut self.numbered,
            arrivals: &mut self.arrivals,
            leaving: &mut leaving,
            clients: &clients,
            sizing: &sizing,
            peer_status: &self.peer_status,
            admission: self.admission.as_ref(),
            listens: self.acceptor.addresses(),
            uptime: self.started.elapsed().as_secs_f64(),
        });
        for conn in leaving {
            self.hang_up(conn, End::Closed);
        }
        answer
    }

    /// Takes what other processes ask, answer and tell, and what those ask who want to join.
    pub(super) fn take_peer_events(&mut self) {
        while let Some(asked) = self.admission.as_ref().and_then(|a| a.next()) {
            self.ask(Line::Thread(asked.answer), asked.question);
        }
        while let Some((peer, event)) =
            self.engine.rule.together_mut().and_then(|t| t.take_peer_event())
        {
            match event {
                PeerEvent::Ask(number, question) => self.asked_by(peer, number, question),
                PeerEvent::Answer(number, answer) if offers::is_ready(&answer) => {
                    self.ask_if_awaited(peer, number);
                }
                PeerEvent::Answer(number, answer) => {
                    self.arrivals.answered(peer, number, &answer);
                    if let Some(control) = self.controls.get_mut(&(number as usize)) {
                        control.answered(peer, &answer);
                    }
                }
                PeerEvent::HungUp(number) => {
                    self.offers.hung_up(peer, number);
                    let asked = |c: &&mut ControlConnection| matches!(c.line, Line::Process(node, n) if (node, n) == (peer, number));
                    if let Some(control) = self.controls.values_mut().find(asked) {
                        control.hang_up();
                    }
                }
                PeerEvent::Status(status) => self.peer_status.take(peer, &status),
                PeerEvent::Down => {
                    self.offers.lose(peer);
                    self.arrivals.lose(peer);
                    self.lose_process(peer);
                }
                PeerEvent::Up
                | PeerEvent::Left
                | PeerEvent::Message(_)
                | PeerEvent::Member(_)
                | PeerEvent::Renew(_)
                | PeerEvent::Renewed(_) => {}
            }
        }
    }

    /// Another process asks, or offers to.
    fn asked_by(&mut self, peer: NodeId, number: u64, question: Vec<u8>) {
        match self.offers.ask(peer, number, &question, Instant::now()) {
            Asked::Now => self.ask(Line::Process(peer, number), question),
            Asked::Offered => {
                if let Some(together) = self.engine.rule.together() {
                    together.answer(peer, number, &offers::ready());
                }
            }
        }
    }

    /// Another process is ready for a question that is handed on to it: it is asked, if somebody still waits.
    fn ask_if_awaited(&mut self, peer: NodeId, number: u64) {
        let id = number as usize;
        let Some(control) = self.controls.get_mut(&id) else { return };
        if !matches!(control.wait, Some(Wait::Elsewhere(node)) if node == peer) {
            return;
        }
        if control.has_been_left() {
            return self.end_control(id);
        }
        let asked = self.engine.rule.together().map(|t| t.ask(peer, number, &control.question));
        if let Some(Err(e)) = asked {
            control.wait = None;
            control.settle(Outcome::Answer(error(e)));
        }
    }

    fn ask(&mut self, line: Line, question: Vec<u8>) {
        let id = self.next_connection;
        self.next_connection += 1;
        self.controls.insert(id, ControlConnection::asking(line, question));
    }

    /// A process is gone: it answers nothing any more, and waits for nothing.
    fn lose_process(&mut self, peer: NodeId) {
        let mut gone = Vec::new();
        for (id, control) in &mut self.controls {
            if matches!(control.wait, Some(Wait::Elsewhere(node)) if node == peer) {
                let why = format!(
                    "the connection to the process of node {}, which was asked, broke: it may or may \
                     not have been done; look, and ask again",
                    peer.0
                );
                control.wait = None;
                control.settle(Outcome::Answer(error(why)));
            } else if matches!(control.line, Line::Process(node, _) if node == peer) {
                gone.push(*id);
            }
        }
        gone.into_iter().for_each(|id| self.end_control(id));
    }

    /// Tells other processes how the nodes of this one are, if it is time.
    pub(super) fn tell_status(&mut self) {
        let hosts = &self.hosts;
        let clients = |v: VolumeId| hosts.users_of(v);
        if !self.engine.rule.together().is_some_and(|t| t.wants_status()) {
            return;
        }
        let (stopped, in_hand) = (self.is_stopped(), self.volumes_in_hand());
        let status = status::for_peers(&self.engine, &clients);
        if let (Some(mut status), Some(together)) = (status, self.engine.rule.together_mut()) {
            status["stopped"] = json!(stopped);
            status["in_hand"] = in_hand.iter().map(|v| v.0).collect();
            together.tell_status(status.to_string().into_bytes());
        }
    }

    /// Goes on with what control connections ask. Says whether there was any progress.
    pub(super) fn step_controls(&mut self) -> bool {
        let ids: Vec<usize> = self.controls.keys().copied().collect();
        let mut progress = false;
        for id in ids {
            progress |= self.step_control(id);
            self.tell_what_is_waited_for(id);
            if self.controls.get_mut(&id).is_some_and(|c| !c.send(self.engine.rule.together())) {
                self.end_control(id);
            }
        }
        progress
    }

    /// A control connection is over, and with it what it alone wanted.
    fn end_control(&mut self, id: usize) {
        let control = self.controls.remove(&id);
        if let Some(Wait::Elsewhere(node)) = control.and_then(|c| c.wait)
            && let Some(together) = self.engine.rule.together()
        {
            together.hang_up(node, id as u64);
        }
        self.requests.forget(&mut self.engine, id);
    }

    fn tell_what_is_waited_for(&mut self, id: usize) {
        // Aside, so that it can be asked about.
        let Some(mut control) = self.controls.remove(&id) else { return };
        control.tell(|wait| self.with_commands(|commands| commands.waits_for(wait)));
        self.controls.insert(id, control);
    }

    /// When control connections are to be looked at again though nothing else happens.
    pub(super) fn controls_due(&self) -> Option<Duration> {
        let now = Instant::now();
        let timed = |c: &ControlConnection| c.wait.as_ref().is_some_and(Wait::is_timed);
        let look = self.controls.values().any(timed).then_some(LOOK_AGAIN);
        let told = self.controls.values().filter_map(ControlConnection::tells_at);
        let told = told.map(|at| at.saturating_duration_since(now)).filter(|d| !d.is_zero());
        told.chain(look).min()
    }

    fn step_control(&mut self, id: usize) -> bool {
        let mut progress = false;
        loop {
            let Some(control) = self.controls.get_mut(&id) else { return progress };
            let outcome = if let Some(wait) = control.wait.take() {
                let before = std::mem::discriminant(&wait);
                let outcome = self.with_commands(|commands| commands.check(id, wait));
                // What is waited for next may have come about already.
                let after = |wait: &Wait| std::mem::discriminant(wait) != before;
                progress |= matches!(&outcome, Outcome::Wait(wait) if after(wait));
                outcome
            } else if control.next_question() {
                progress = true;
                let question = control.question.clone();
                let handed_on = matches!(control.line, Line::Process(..));
                self.with_commands(|commands| commands.handle(id, &question, handed_on))
            } else {
                return progress;
            };
            let outcome = self.hand_on(id, outcome);
            self.log_failure_for_nobody(id, &outcome);
            if matches!(outcome, Outcome::Wait(Wait::Shutdown)) {
                self.ending.stopper().stop();
            }
            let waits = matches!(outcome, Outcome::Wait(_));
            if let Some(control) = self.controls.get_mut(&id) {
                control.settle(outcome);
            }
            if waits {
                return progress;
            }
            progress = true;
        }
    }

    /// Hands a question to the process that must answer it: offers it first (see [`offers`]).
    fn hand_on(&mut self, id: usize, outcome: Outcome) -> Outcome {
        let Outcome::HandOn(node) = &outcome else { return outcome };
        if !self.controls.contains_key(&id) {
            return outcome;
        }
        let offered = self.engine.rule.together().map(|t| t.ask(*node, id as u64, OFFER));
        match offered {
            Some(Err(e)) => Outcome::Answer(error(e)),
            _ => Outcome::Wait(Wait::Elsewhere(*node)),
        }
    }
}
