//! Who asks through the control socket: a connection to it, another process that was asked, or
//! the thread that lets nodes in.

use std::io::{self, Read, Write};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use mio::net::UnixStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use weft_core::units::NodeId;

use crate::cluster::Together;
use crate::control::commands::{ELECTION, Outcome, Wait};
use crate::control_protocol::error;

/// The most that is kept of what a connection sends ahead.
const MOST_INPUT: usize = 64 << 10;

/// How long a question waits before whoever asked is told for what.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Where questions come from and answers go.
pub(crate) enum Line {
    /// A connection to the control socket.
    Socket(UnixStream),
    /// Another process, which knows the question by this number.
    Process(NodeId, u64),
    /// A thread of this process.
    Thread(Sender<Vec<u8>>),
    /// A session of a host, which is called so.
    Host(Sender<Vec<u8>>, String),
    /// This process itself, which has it done and waits for no answer.
    Nobody,
}

/// One who asks.
pub(crate) struct ControlConnection {
    pub(crate) line: Line,
    pub(crate) wait: Option<Wait>,
    /// The question that is being answered.
    pub(crate) question: Vec<u8>,
    /// When it was taken up.
    since: Instant,
    /// What whoever asked was told that it waits for.
    told: String,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Nothing more will be asked.
    closed: bool,
    /// Nobody waits for the answer.
    gone: bool,
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

    /// Nobody, who has something done and waits for no answer.
    pub(crate) fn for_nobody(wait: Wait) -> ControlConnection {
        let nobody = ControlConnection::on(Line::Nobody, Vec::new());
        ControlConnection { wait: Some(wait), closed: true, gone: true, ..nobody }
    }

    /// Whether nobody outside waits for the answer.
    pub(crate) fn is_for_nobody(&self) -> bool {
        matches!(self.line, Line::Nobody)
    }

    fn on(line: Line, input: Vec<u8>) -> ControlConnection {
        ControlConnection {
            line,
            wait: None,
            question: Vec::new(),
            since: Instant::now(),
            told: String::new(),
            input,
            output: Vec::new(),
            closed: false,
            gone: false,
        }
    }

    /// Reads what has come.
    pub(crate) fn receive(&mut self) {
        let Line::Socket(stream) = &mut self.line else { return };
        // Looked at first: what was sent before the end is read below all the same.
        self.gone |= has_hung_up(stream);
        let mut buffer = [0; 4096];
        while !self.closed && self.input.len() <= MOST_INPUT {
            match stream.read(&mut buffer) {
                Ok(0) => self.closed = true,
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => (self.closed, self.gone) = (true, true),
            }
        }
        // So much at once is not a request: whoever sends it does not speak this language.
        self.closed |= self.input.len() > MOST_INPUT;
    }

    /// Takes up the next question, unless one is being answered. Says whether there is one. What nobody
    /// waits for any more is not taken up: whoever asked may have given up long ago, while this process
    /// was held up.
    pub(crate) fn next_question(&mut self) -> bool {
        if self.has_been_left() {
            self.input.clear();
        }
        if self.wait.is_some() {
            return false;
        }
        let Some(end) = self.input.iter().position(|b| *b == b'\n') else { return false };
        self.question = self.input.drain(..=end).collect();
        self.question.pop();
        self.since = Instant::now();
        self.told.clear();
        true
    }

    /// The process that asked has nobody any more who waits for the answer.
    pub(crate) fn hang_up(&mut self) {
        self.gone = true;
    }

    /// Whether whoever asked has gone meanwhile.
    pub(crate) fn has_been_left(&mut self) -> bool {
        if let Line::Socket(stream) = &self.line {
            self.gone |= has_hung_up(stream);
        }
        self.gone
    }

    /// Whether nobody waits for the answer, and without that nothing need be done.
    pub(crate) fn is_given_up(&self) -> bool {
        self.gone && self.wait.as_ref().is_some_and(Wait::ends_with_its_asker)
    }

    /// When whoever asked is to be told what is waited for, if that has not been.
    pub(crate) fn tells_at(&self) -> Option<Instant> {
        let waits = self.wait.is_some() && self.told.is_empty();
        waits.then_some(self.since + TELL_AFTER)
    }

    /// Tells whoever asked what is waited for, if it has been for a while.
    pub(crate) fn tell(&mut self, waits_for: impl FnOnce(&Wait) -> Option<String>) {
        let Some(wait) = &self.wait else { return };
        if self.since.elapsed() < TELL_AFTER
            || matches!(self.line, Line::Thread(_) | Line::Host(..) | Line::Nobody)
        {
            return;
        }
        if let Some(text) = waits_for(wait).filter(|text| *text != self.told) {
            self.answer(json!({ "waits_for": text }).to_string().as_bytes());
            self.told = text;
        }
    }

    /// Takes note of what became of a question.
    pub(crate) fn settle(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Wait(wait) => self.wait = Some(wait),
            Outcome::Answer(value) => self.answer(value.to_string().as_bytes()),
            Outcome::HandOn(_) | Outcome::Native => {
                self.answer(error("it was passed on").to_string().as_bytes())
            }
        }
    }

    /// A process that was asked has answered.
    pub(crate) fn answered(&mut self, process: NodeId, answer: &[u8]) {
        let said: Value = serde_json::from_slice(answer).unwrap_or_default();
        let waits = said["waits_for"].is_string();
        let asked = matches!(self.wait, Some(Wait::Elsewhere(asked)) if asked == process);
        if asked && said["again"] == true && self.asks_again() {
            return;
        }
        let passes_on = match &self.wait {
            Some(Wait::Elsewhere(asked)) => *asked == process,
            // That it was done, the map says.
            Some(Wait::DiskAdmitted(..)) => !waits && said["ok"] != true,
            _ => false,
        };
        if passes_on {
            if !waits {
                self.wait = None;
            }
            self.answer(answer);
        }
    }

    /// Goes and looks for the leader again, unless it has done so for long enough.
    fn asks_again(&mut self) -> bool {
        let Ok(request) = serde_json::from_slice(&self.question) else { return false };
        let asks = self.since.elapsed() < ELECTION;
        if asks {
            self.wait = Some(Wait::Leader(Box::new(request), false, self.since));
        }
        asks
    }

    /// Its socket, if it is one and nothing else was asked: it is answered, and speaks another protocol from now on.
    pub(crate) fn into_stream(mut self) -> Option<UnixStream> {
        let Line::Socket(mut stream) = self.line else { return None };
        self.output.extend_from_slice(b"{\"ok\":true}\n");
        let is_sent = self.input.is_empty() && stream.write_all(&self.output).is_ok();
        is_sent.then_some(stream)
    }

    /// Gives the answer, a line.
    pub(crate) fn answer(&mut self, line: &[u8]) {
        self.output.extend_from_slice(line);
        self.output.push(b'\n');
    }

    /// Sends what there is to say. Says whether the connection goes on.
    pub(crate) fn send(&mut self, together: Option<&Together>) -> bool {
        if self.is_given_up() {
            return false;
        }
        if let Line::Socket(_) = self.line {
            return self.write();
        }
        while let Some(end) = self.output.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.output.drain(..=end).take(end).collect();
            match (&self.line, together) {
                (Line::Process(node, number), Some(together)) => {
                    together.answer(*node, *number, &line);
                }
                // If it does not wait any more, nobody does.
                (Line::Thread(sender) | Line::Host(sender, _), _) => drop(sender.send(line)),
                (Line::Socket(_) | Line::Nobody, _) | (Line::Process(..), None) => {}
            }
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

/// Whether nobody is at the other end any more. One that will only say nothing more still listens.
fn has_hung_up(stream: &UnixStream) -> bool {
    let mut looked = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let found = poll(&mut looked, Some(&now));
    found.is_ok() && looked[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use weft_core::order::HostId;
    use weft_core::units::VolumeId;

    use super::*;
    use crate::control_protocol::{ControlRequest, ask_again};
    use crate::engine::Ticket;

    fn waits_for_a_leader() -> Option<Wait> {
        Some(Wait::Leader(Box::new(ControlRequest::Status), false, Instant::now()))
    }

    #[test]
    fn what_has_not_begun_ends_with_its_asker() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut control = ControlConnection::new(ours);
        control.wait = waits_for_a_leader();
        control.receive();
        assert!(control.send(None));
        drop(theirs);
        control.receive();
        assert!(!control.send(None));
        control.wait = Some(Wait::VolumeGone(VolumeId(1), Ticket::MADE));
        assert!(control.send(None), "what has begun goes on");
    }

    #[test]
    fn what_was_asked_by_one_who_is_gone_is_not_taken_up() {
        let asks = |theirs: &mut UnixStream| theirs.write_all(b"{\"cmd\":\"quiesce\"}\n").unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        asks(&mut theirs);
        drop(theirs);
        let mut control = ControlConnection::new(ours);
        control.receive();
        assert!(!control.next_question() && !control.send(None));
        // It goes after its question has been read.
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        asks(&mut theirs);
        let mut control = ControlConnection::new(ours);
        control.receive();
        drop(theirs);
        assert!(!control.next_question());
        // One that only says no more waits for its answer.
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        asks(&mut theirs);
        theirs.shutdown(Shutdown::Write).unwrap();
        let mut control = ControlConnection::new(ours);
        control.receive();
        assert!(control.next_question() && control.question == b"{\"cmd\":\"quiesce\"}");
        control.answer(b"{}");
        let mut answer = [0; 3];
        control.send(None);
        theirs.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"{}\n");
        // Of a process that was asked, and told at once that nobody waits any more.
        let mut control = ControlConnection::asking(Line::Process(NodeId(1), 7), b"{}".to_vec());
        control.hang_up();
        assert!(!control.next_question() && !control.send(None));
    }

    #[test]
    fn what_was_handed_on_ends_when_the_process_hangs_up() {
        let mut control = ControlConnection::asking(Line::Process(NodeId(1), 7), b"{}".to_vec());
        assert!(control.next_question());
        control.wait = waits_for_a_leader();
        assert!(control.send(None));
        control.hang_up();
        assert!(!control.send(None));
    }

    #[test]
    fn a_host_that_nobody_waits_for_any_more_is_not_waited_for() {
        let mut control = ControlConnection::asking(Line::Process(NodeId(1), 7), b"{}".to_vec());
        control.wait = Some(Wait::HostLeft(HostId(7), 1));
        assert!(control.send(None));
        control.hang_up();
        assert!(!control.send(None), "it would end a later stay of the host");
    }

    #[test]
    fn what_another_process_waits_for_is_passed_on_and_is_no_answer() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut control = ControlConnection::new(ours);
        control.wait = Some(Wait::Elsewhere(NodeId(2)));
        let lines = [r#"{"waits_for":"a leader"}"#, r#"{"ok":true}"#];
        control.answered(NodeId(2), lines[0].as_bytes());
        assert!(control.wait.is_some());
        control.answered(NodeId(2), lines[1].as_bytes());
        assert!(control.wait.is_none() && control.send(None));
        let mut buffer = [0; 100];
        let got = (&theirs).read(&mut buffer).unwrap();
        assert_eq!(buffer[..got], *format!("{}\n{}\n", lines[0], lines[1]).as_bytes());
    }

    #[test]
    fn what_a_process_that_leads_no_more_has_not_begun_is_asked_again_for_a_while() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut control = ControlConnection::new(ours);
        control.question = serde_json::to_vec(&ControlRequest::Status).unwrap();
        control.wait = Some(Wait::Elsewhere(NodeId(2)));
        let again = ask_again().to_string();
        control.answered(NodeId(2), again.as_bytes());
        assert!(matches!(control.wait, Some(Wait::Leader(..))) && control.output.is_empty());
        control.wait = Some(Wait::Elsewhere(NodeId(1)));
        control.answered(NodeId(1), br#"{"ok":false,"error":"no such volume"}"#);
        assert!(control.wait.is_none(), "an answer is an answer");
        control.output.clear();
        control.wait = Some(Wait::Elsewhere(NodeId(1)));
        control.since = Instant::now().checked_sub(ELECTION).unwrap();
        control.answered(NodeId(1), again.as_bytes());
        assert!(control.wait.is_none() && !control.output.is_empty(), "not for ever");
    }

    #[test]
    fn who_waits_is_told_for_what_once() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut control = ControlConnection::new(ours);
        control.wait = waits_for_a_leader();
        control.tell(|_| Some("a leader".into()));
        assert!(control.output.is_empty() && control.tells_at().is_some(), "it is too early");
        control.since = Instant::now().checked_sub(TELL_AFTER).unwrap();
        for _ in 0..2 {
            control.tell(|_| Some("a leader".into()));
        }
        assert_eq!(control.output, b"{\"waits_for\":\"a leader\"}\n");
        assert_eq!(control.tells_at(), None);
    }
}
