//! Who asks through the control socket: a connection to it, another process that was asked, or
//! the thread that lets nodes in.

use std::io::{self, Read, Write};
use std::sync::mpsc::Sender;

use mio::net::UnixStream;
use serde_json::Value;
use weft_core::units::NodeId;

use crate::cluster::Together;
use crate::control::error;
use crate::desk::{Outcome, Wait};

/// The most that is kept of what a connection sends ahead.
const MOST_INPUT: usize = 64 << 10;

/// Where questions come from and answers go.
pub(crate) enum Line {
    /// A connection to the control socket.
    Socket(UnixStream),
    /// Another process, which knows the question by this number.
    Process(NodeId, u64),
    /// A thread of this process.
    Thread(Sender<Vec<u8>>),
}

/// One who asks.
pub(crate) struct ControlConnection {
    pub(crate) line: Line,
    pub(crate) wait: Option<Wait>,
    /// The question that is being answered.
    pub(crate) question: Vec<u8>,
    input: Vec<u8>,
    output: Vec<u8>,
    closed: bool,
}

impl ControlConnection {
    /// A connection that has just come in.
    pub(crate) fn new(stream: UnixStream) -> ControlConnection {
        ControlConnection::on(Line::Socket(stream), Vec::new())
    }

    /// One who asks a single question.
    pub(crate) fn asking(line: Line, mut question: Vec<u8>) -> ControlConnection {
        question.push(b'\n');
        ControlConnection { closed: true, ..ControlConnection::on(line, question) }
    }

    fn on(line: Line, input: Vec<u8>) -> ControlConnection {
        let (question, output) = (Vec::new(), Vec::new());
        ControlConnection { line, wait: None, question, input, output, closed: false }
    }

    /// Reads what has come.
    pub(crate) fn receive(&mut self) {
        let Line::Socket(stream) = &mut self.line else { return };
        let mut buffer = [0; 4096];
        while !self.closed && self.input.len() <= MOST_INPUT {
            match stream.read(&mut buffer) {
                Ok(0) => self.closed = true,
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
        // So much at once is not a request: whoever sends it does not speak this language.
        self.closed |= self.input.len() > MOST_INPUT;
    }

    /// Takes up the next question, unless one is being answered. Says whether there is one.
    pub(crate) fn next_question(&mut self) -> bool {
        if self.wait.is_some() {
            return false;
        }
        let Some(end) = self.input.iter().position(|b| *b == b'\n') else { return false };
        self.question = self.input.drain(..=end).collect();
        self.question.pop();
        true
    }

    /// Takes note of what became of a question.
    pub(crate) fn settle(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Wait(wait) => self.wait = Some(wait),
            Outcome::Answer(value) => self.answer(value.to_string().as_bytes()),
            Outcome::HandOn(_) => self.answer(error("it was handed on").to_string().as_bytes()),
        }
    }

    /// A process that was asked has answered.
    pub(crate) fn answered(&mut self, process: NodeId, answer: &[u8]) {
        let ends = match &self.wait {
            Some(Wait::Elsewhere(asked)) => *asked == process,
            // That it was done, the map says.
            Some(Wait::DiskAdmitted(..)) => {
                let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
                answer["ok"] != true
            }
            _ => false,
        };
        if ends {
            self.wait = None;
            self.answer(answer);
        }
    }

    /// Gives the answer, a line.
    pub(crate) fn answer(&mut self, line: &[u8]) {
        self.output.extend_from_slice(line);
        self.output.push(b'\n');
    }

    /// Sends what there is to say. Says whether the connection goes on.
    pub(crate) fn send(&mut self, together: Option<&Together>) -> bool {
        if let Some(end) = self.output.iter().position(|b| *b == b'\n') {
            match (&self.line, together) {
                (Line::Socket(_), _) => return self.write(),
                (Line::Process(node, number), Some(together)) => {
                    together.answer(*node, *number, &self.output[..end]);
                }
                (Line::Process(..), None) => {}
                // If it does not wait any more, nobody does.
                (Line::Thread(sender), _) => drop(sender.send(self.output[..end].to_vec())),
            }
            self.output.clear();
        }
        !self.closed || self.wait.is_some() || !self.input.is_empty()
    }

    fn write(&mut self) -> bool {
        let Line::Socket(stream) = &mut self.line else { return false };
        while !self.output.is_empty() {
            match stream.write(&self.output) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        !self.closed || self.wait.is_some()
    }
}
