//! What goes in and out of the nodes of a process, and what has to wait while the process may not
//! serve.
//!
//! Words of the authority always go through: only they bring a node into a later epoch. Messages
//! between nodes, here and to other processes, and answers to hosts wait until the lease holds.
//! What has waited through a change of the epoch does no harm: messages carry the epoch that they
//! are of, and an answer was right while its host waited for it.

use std::collections::VecDeque;

use weft_core::node::{Envelope, Input, MapMessage};
use weft_core::units::NodeId;

/// The queues in front of the nodes of a process and behind them; `A` is an answer to a host.
///
/// Each question takes a function that says whether the process may serve *now*. It is asked
/// only if something depends on it, as late as possible, and has to read the clock afresh.
#[derive(Debug)]
pub struct Gate<A> {
    words: VecDeque<(NodeId, MapMessage)>,
    letters: VecDeque<Box<Envelope>>,
    outgoing: VecDeque<Box<Envelope>>,
    answers: Vec<A>,
}

impl<A> Default for Gate<A> {
    fn default() -> Self {
        Gate {
            words: VecDeque::new(),
            letters: VecDeque::new(),
            outgoing: VecDeque::new(),
            answers: Vec::new(),
        }
    }
}

impl<A> Gate<A> {
    /// A word of the authority to a node of this process.
    pub fn word(&mut self, node: NodeId, message: MapMessage) {
        self.words.push_back((node, message));
    }

    /// A message to a node of this process.
    pub fn letter(&mut self, letter: Box<Envelope>) {
        self.letters.push_back(letter);
    }

    /// A message to a node of another process.
    pub fn letter_out(&mut self, letter: Box<Envelope>) {
        self.outgoing.push_back(letter);
    }

    /// An answer to a host.
    pub fn answer(&mut self, answer: A) {
        self.answers.push(answer);
    }

    /// What to hand which node next, if anything may be handed to one now.
    pub fn next(&mut self, may_serve: impl FnOnce() -> bool) -> Option<(NodeId, Input)> {
        if let Some((node, message)) = self.words.pop_front() {
            return Some((node, Input::Map(message)));
        }
        if self.letters.is_empty() || !may_serve() {
            return None;
        }
        let letter = self.letters.pop_front()?;
        Some((letter.to, Input::Message(letter)))
    }

    /// The messages that may leave for other processes now.
    pub fn take_outgoing(&mut self, may_serve: impl FnOnce() -> bool) -> VecDeque<Box<Envelope>> {
        match self.outgoing.is_empty() || !may_serve() {
            true => VecDeque::new(),
            false => std::mem::take(&mut self.outgoing),
        }
    }

    /// The answers that hosts may be given now.
    pub fn take_answers(&mut self, may_serve: impl FnOnce() -> bool) -> Vec<A> {
        match self.has_answers(may_serve) {
            true => std::mem::take(&mut self.answers),
            false => Vec::new(),
        }
    }

    /// Whether there are answers that hosts may be given now.
    pub fn has_answers(&self, may_serve: impl FnOnce() -> bool) -> bool {
        !self.answers.is_empty() && may_serve()
    }

    /// Whether there is something that may be handed to a node, or leave for another process, now.
    pub fn has_work(&self, may_serve: impl FnOnce() -> bool) -> bool {
        let letters = !(self.letters.is_empty() && self.outgoing.is_empty());
        !self.words.is_empty() || (letters && may_serve())
    }

    /// How many messages wait for nodes of this process.
    pub fn letters(&self) -> usize {
        self.letters.len()
    }

    /// Nothing that was said to the nodes so far is to reach them.
    pub fn forget(&mut self) {
        self.words.clear();
        self.letters.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(to: u16) -> Box<Envelope> {
        Box::new(Envelope {
            from: NodeId(9),
            to: NodeId(to),
            epoch: 1,
            notices: Vec::new(),
            hops: 0,
            reached: Default::default(),
            heard: Vec::new(),
            body: None,
        })
    }

    #[test]
    fn only_words_go_through_without_a_lease() {
        let mut gate = Gate::default();
        gate.letter(letter(1));
        gate.letter_out(letter(2));
        gate.answer("done");
        gate.word(NodeId(1), MapMessage::Freeze { epoch: 2 });
        assert!(gate.has_work(|| false) && !gate.has_answers(|| false));
        assert!(matches!(gate.next(|| false), Some((NodeId(1), Input::Map(_)))));
        assert!(gate.next(|| false).is_none() && !gate.has_work(|| false));
        assert!(gate.take_outgoing(|| false).is_empty() && gate.take_answers(|| false).is_empty());
        assert!(matches!(gate.next(|| true), Some((NodeId(1), Input::Message(_)))));
        assert_eq!(gate.take_outgoing(|| true)[0].to, NodeId(2));
        assert_eq!(gate.take_answers(|| true), ["done"]);
        assert!(!gate.has_work(|| true) && !gate.has_answers(|| true));
    }
}
