//! Control connections: handing on what they ask, and them what it answers.

use std::time::Instant;

use serde_json::{Value, json};
use weft_core::units::NodeId;

use super::Reactor;
use crate::cluster::PeerEvent;
use crate::control::commands::{Commands, Outcome, Wait};
use crate::control::connection::{ControlConnection, Line};
use crate::control::connections::{Awaited, Due};
use crate::control::offers::{self, Asked, OFFER};
use crate::control::status;
use crate::control_protocol::{change_asked, error};
use crate::hosts::Commanded;
use crate::hosts::reserving::Question;
use crate::socket::Stream;

impl Reactor {
    pub(super) fn with_commands<T>(&mut self, f: impl FnOnce(&mut Commands<'_>) -> T) -> T {
        let sizing = self.controls.sizing();
        f(&mut Commands {
            engine: &mut self.engine,
            hosts: &mut self.hosts,
            sizing: &sizing,
            peer_status: &self.peer_status,
            admission: self.admission.as_ref(),
            listens: self.acceptor.addresses(),
            uptime: self.housekeeping.uptime().as_secs_f64(),
            keeper: &self.keeper,
            vault: &self.vault,
            book: &self.book,
            witnessed: self.housekeeping.witnessed(),
        })
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
                    self.audit_answer(peer, number as usize, &answer);
                    self.hosts.answered(peer, number, &answer, &self.engine.log);
                    self.controls.answered(peer, number, &answer);
                }
                PeerEvent::HungUp(number) => self.controls.hung_up(peer, number),
                PeerEvent::Status(status) => {
                    self.peer_status.take(peer, &status);
                    self.divide_limits();
                    self.hear_of_slow_nodes();
                    self.hear_of_promises();
                }
                PeerEvent::Down => {
                    self.hosts.lose_process(peer);
                    let over = self.controls.lose_process(peer);
                    over.into_iter().for_each(|id| self.end_control(id));
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
        match self.controls.asked_by(peer, number, &question, Instant::now()) {
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
        match self.controls.is_awaited(peer, id) {
            Awaited::Yes(question) => {
                let asked = self.engine.rule.together().map(|t| t.ask(peer, number, &question));
                if let Some(Err(e)) = asked {
                    self.controls.give_up(id, e);
                }
            }
            Awaited::Left => self.end_control(id),
            Awaited::No => {}
        }
    }

    /// Asks for what hosts want of reservations.
    pub(super) fn ask_for_reservations(&mut self) {
        for Question { question, answer, peer } in self.hosts.take_questions() {
            self.ask(Line::Host(answer, peer), question);
        }
    }

    fn ask(&mut self, line: Line, question: Vec<u8>) {
        self.controls.ask(self.poller.number(), line, question);
    }

    /// Tells other processes how the nodes of this one are, if it is time.
    pub(super) fn tell_status(&mut self) {
        if !self.engine.rule.together().is_some_and(|t| t.wants_status()) {
            return;
        }
        let (stopped, in_hand) = (self.is_stopped(), self.controls.volumes_in_hand());
        let demands = self.hosts.demands(&self.engine);
        let status = status::for_peers(&self.engine, &self.hosts, demands);
        if let (Some(mut status), Some(together)) = (status, self.engine.rule.together_mut()) {
            status["stopped"] = json!(stopped);
            status["promises"] = json!(self.hosts.promises_told());
            status["listens"] = json!(self.acceptor.announced());
            status["in_hand"] = in_hand.iter().map(|v| v.0).collect();
            together.tell_status(status.to_string().into_bytes());
        }
        self.divide_limits();
        // One that is gone says nothing any more.
        self.hear_of_promises();
    }

    /// Hears which nodes other processes find slow.
    fn hear_of_slow_nodes(&mut self) {
        let Some(together) = self.engine.rule.together() else { return };
        let said = together.connected().flat_map(|p| self.peer_status.slow_nodes(p)).collect();
        let rotating = together.connected().flat_map(|p| self.peer_status.rotating(p)).collect();
        self.engine.hear_of_slow_nodes(said, rotating);
    }

    /// Hears how promises are kept to hosts of other processes.
    fn hear_of_promises(&mut self) {
        let Some(together) = self.engine.rule.together() else { return };
        let said = together.connected().filter_map(|p| self.peer_status.promises(p));
        self.hosts.hear_of_promises(said);
    }

    /// Divides the limits of volumes among the processes that may serve hosts.
    fn divide_limits(&mut self) {
        let Some(together) = self.engine.rule.together() else { return };
        let others = together.others().into_iter();
        let others: Vec<_> = others.map(|p| self.peer_status.demands(p)).collect();
        self.hosts.divide_limits(&self.engine, &others);
    }

    /// Goes on with what control connections ask. Says whether there was any progress.
    pub(super) fn step_controls(&mut self) -> bool {
        let mut progress = false;
        for id in self.controls.ids() {
            progress |= self.step_control(id);
            self.tell_what_is_waited_for(id);
            if !self.controls.send(id, self.engine.rule.together()) {
                self.end_control(id);
            }
        }
        progress
    }

    /// A control connection is over, and with it what it alone wanted.
    fn end_control(&mut self, id: usize) {
        let control = self.controls.remove(id);
        if let Some(Wait::Elsewhere(node)) = control.and_then(|c| c.wait)
            && let Some(together) = self.engine.rule.together()
        {
            together.hang_up(node, id as u64);
        }
        self.hosts.forget(&mut self.engine, id);
    }

    fn tell_what_is_waited_for(&mut self, id: usize) {
        // Aside, so that it can be asked about.
        let Some(mut control) = self.controls.remove(id) else { return };
        control.tell(|wait| self.with_commands(|commands| commands.waits_for(wait)));
        self.controls.put_back(id, control);
    }

    fn step_control(&mut self, id: usize) -> bool {
        let mut progress = false;
        while let Some(due) = self.controls.next(id) {
            let outcome = match due {
                Due::Check(wait) => {
                    let before = std::mem::discriminant(&*wait);
                    let outcome = self.with_commands(|commands| commands.check(id, *wait));
                    // What is waited for next may have come about already.
                    let after = |wait: &Wait| std::mem::discriminant(wait) != before;
                    progress |= matches!(&outcome, Outcome::Wait(wait) if after(wait));
                    outcome
                }
                Due::TakeUp(question, handed_on) => {
                    progress = true;
                    self.with_commands(|commands| commands.handle(id, &question, handed_on))
                }
            };
            let outcome = match outcome {
                Outcome::Native => match self.serve_operator(id) {
                    Ok(()) => return true,
                    Err(why) => Outcome::Answer(error(why)),
                },
                outcome => outcome,
            };
            let outcome = self.hand_on(id, outcome);
            self.log_failure_for_nobody(id, &outcome);
            self.audit(id, &outcome);
            if matches!(outcome, Outcome::Wait(Wait::Shutdown)) {
                self.ending.stopper().stop();
            }
            let waits = matches!(outcome, Outcome::Wait(_));
            self.controls.settle(id, outcome);
            if waits {
                return progress;
            }
            progress = true;
        }
        progress
    }

    /// A control connection goes on in the native protocol.
    fn serve_operator(&mut self, id: usize) -> Result<(), &'static str> {
        if !self.controls.is_socket(id) {
            return Err("only a connection to the control socket can do this");
        }
        let Some(node) = self.hosts.next_node(&self.engine) else {
            return Err("no node of this process serves hosts now; ask another process");
        };
        // Otherwise the other end is gone, or does not wait for the answer: the connection is closed.
        if let Some(stream) = self.controls.remove(id).and_then(ControlConnection::into_stream) {
            let peer = "the control socket".to_string();
            let session = self.acceptor.begin_operator(Stream::Unix(stream), peer, node);
            self.hosts.add(id, session);
        }
        Ok(())
    }

    /// Writes to the log what came of a request that changes the map.
    fn audit(&self, id: usize, outcome: &Outcome) {
        let Outcome::Answer(answer) = outcome else { return };
        let Some((question, from)) = self.controls.asked(id) else { return };
        if let Some(what) = change_asked(question) {
            let refused = answer["error"].as_str().map(|why| format!("refused: {why}"));
            self.book.change(
                &from,
                (&what.words, what.is_by_host),
                refused.as_deref().unwrap_or("done"),
            );
        }
    }

    /// The same for a request that another process has answered: here it is known who made it.
    fn audit_answer(&self, peer: NodeId, id: usize, answer: &[u8]) {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        // An answer may only name the awaited condition, or ask for another try.
        let is_last = !answer["waits_for"].is_string() && answer["again"] != true;
        if is_last && self.controls.waits_for(peer, id) {
            self.audit(id, &Outcome::Answer(answer));
        }
    }

    /// Hands a question to the process that must answer it: offers it first (see [`offers`]).
    fn hand_on(&mut self, id: usize, outcome: Outcome) -> Outcome {
        let Outcome::HandOn(node) = &outcome else { return outcome };
        if !self.controls.has(id) {
            return outcome;
        }
        let offered = self.engine.rule.together().map(|t| t.ask(*node, id as u64, OFFER));
        match offered {
            Some(Err(e)) => Outcome::Answer(error(e)),
            _ => Outcome::Wait(Wait::Elsewhere(*node)),
        }
    }

    /// Nodes have done what a control connection asked for, or cannot.
    pub(super) fn commanded(&mut self, Commanded { conn, result }: Commanded) {
        if let Some(wait) = self.controls.take_wait(conn) {
            let outcome = self.with_commands(|commands| commands.answered(wait, result));
            self.audit(conn, &outcome);
            self.controls.settle(conn, outcome);
        }
    }
}
