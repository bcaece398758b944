//! Control connections: handing the desk what they ask, and them what it answers.

use weft_core::units::{NodeId, VolumeId};

use super::Reactor;
use crate::cluster::Mail;
use crate::control::error;
use crate::control_connection::{ControlConnection, Line};
use crate::desk::{Desk, Outcome, Wait};
use crate::link::End;
use crate::status;

impl Reactor {
    pub(super) fn at_desk<T>(&mut self, f: impl FnOnce(&mut Desk<'_>) -> T) -> T {
        let hosts = &self.hosts;
        let clients = |v: VolumeId| hosts.values().filter(|c| c.volume() == Some(v)).count();
        let mut leaving = Vec::new();
        let sizes = |c: &ControlConnection| c.wait.as_ref().and_then(Wait::sizes);
        let sizing: Vec<VolumeId> = self.controls.values().filter_map(sizes).collect();
        let answer = f(&mut Desk {
            engine: &mut self.engine,
            requests: &mut self.requests,
            sessions: &mut self.sessions,
            arrivals: &mut self.arrivals,
            leaving: &mut leaving,
            clients: &clients,
            sizing: &sizing,
            news: &self.news,
            admission: self.admission.as_ref(),
            listens: &self.listens,
            uptime: self.started.elapsed().as_secs_f64(),
        });
        for conn in leaving {
            self.hang_up(conn, End::Closed);
        }
        answer
    }

    /// Takes what other processes ask, answer and tell, and what those ask who want to join.
    pub(super) fn take_mail(&mut self) {
        while let Some((question, sender)) = self.admission.as_ref().and_then(|a| a.next()) {
            self.ask(Line::Thread(sender), question);
        }
        while let Some((peer, mail)) = self.engine.rule.together_mut().and_then(|t| t.take_mail()) {
            match mail {
                Mail::Ask(number, question) => self.ask(Line::Process(peer, number), question),
                Mail::Answer(number, answer) => {
                    self.arrivals.answered(peer, number, &answer);
                    if let Some(control) = self.controls.get_mut(&(number as usize)) {
                        control.answered(peer, &answer);
                    }
                }
                Mail::News(news) => self.news.take(peer, &news),
                Mail::Down => {
                    self.arrivals.lose(peer);
                    self.lose_process(peer);
                }
                Mail::Up | Mail::Letter(_) | Mail::Member(_) => {}
            }
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
        for id in gone {
            self.controls.remove(&id);
            self.requests.forget(&mut self.engine, id);
        }
    }

    /// Tells other processes how the nodes of this one are, if it is time.
    pub(super) fn tell_news(&mut self) {
        let hosts = &self.hosts;
        let clients = |v: VolumeId| hosts.values().filter(|c| c.volume() == Some(v)).count();
        if !self.engine.rule.together().is_some_and(|t| t.wants_news()) {
            return;
        }
        let news = status::news(&self.engine, &clients);
        if let (Some(news), Some(together)) = (news, self.engine.rule.together_mut()) {
            together.tell_news(news.to_string().into_bytes());
        }
    }

    /// Goes on with what control connections ask. Says whether there was any progress.
    pub(super) fn step_controls(&mut self) -> bool {
        let ids: Vec<usize> = self.controls.keys().copied().collect();
        let mut progress = false;
        for id in ids {
            progress |= self.step_control(id);
            if self.controls.get_mut(&id).is_some_and(|c| !c.send(self.engine.rule.together())) {
                self.controls.remove(&id);
                self.requests.forget(&mut self.engine, id);
            }
        }
        progress
    }

    fn step_control(&mut self, id: usize) -> bool {
        let mut progress = false;
        loop {
            let Some(control) = self.controls.get_mut(&id) else { return progress };
            let outcome = if let Some(wait) = control.wait.take() {
                let before = std::mem::discriminant(&wait);
                let outcome = self.at_desk(|desk| desk.check(id, wait));
                // What is waited for next may have come about already.
                let after = |wait: &Wait| std::mem::discriminant(wait) != before;
                progress |= matches!(&outcome, Outcome::Wait(wait) if after(wait));
                outcome
            } else if control.next_question() {
                progress = true;
                let question = control.question.clone();
                let handed_on = matches!(control.line, Line::Process(..));
                self.at_desk(|desk| desk.handle(id, &question, handed_on))
            } else {
                return progress;
            };
            let outcome = self.hand_on(id, outcome);
            if matches!(outcome, Outcome::Wait(Wait::Shutdown)) {
                self.stopper.stop();
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

    /// Hands a question to the process that must answer it.
    fn hand_on(&mut self, id: usize, outcome: Outcome) -> Outcome {
        let (Outcome::HandOn(node), Some(control)) = (&outcome, self.controls.get(&id)) else {
            return outcome;
        };
        let asked = self.engine.rule.together().map(|t| t.ask(*node, id as u64, &control.question));
        match asked {
            Some(Err(e)) => Outcome::Answer(error(e)),
            _ => Outcome::Wait(Wait::Elsewhere(*node)),
        }
    }
}
