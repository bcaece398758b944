//! One request over time: on which processors, links and disks it was, and when.
//!
//! A request is followed by its transaction's timestamp, which every message of it carries: what is
//! done for such a message, what that sends and what it asks of a disk belong to the request. A disk
//! operation that serves several requests at once counts as this one's.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;
use weft_core::node::{Envelope, Input, Output};
use weft_core::units::{Nanos, Timestamp};
use weft_model::disk::Times;

/// Columns of a bar.
const WIDTH: usize = 60;

/// What a request was on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// The host's driver.
    Host,
    /// The link from a host to the array.
    ToArray(u32),
    /// The link from the array to a host.
    FromArray(u32),
    /// A node's processor.
    Processor(u32),
    /// The link from one node to another.
    Link(u32, u32),
    /// A node's disk.
    Disk(u32),
}

/// A piece of a request's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where.
    pub lane: Lane,
    /// From when; of a disk operation, when it was handed over.
    pub from: Nanos,
    /// Until when.
    pub to: Nanos,
    /// What was done, in a word or a few.
    pub kind: String,
    /// With how many bytes, of a link or a disk.
    pub bytes: Option<u64>,
    /// Of a disk operation, what its time was made of.
    pub parts: Option<Times>,
}

impl Span {
    /// What was done, for people.
    fn what(&self) -> String {
        let mut what = self.kind.clone();
        // Writing to a string cannot fail.
        if let Some(bytes) = self.bytes {
            let _ = write!(what, ", {bytes} bytes");
        }
        if let Some(t) = &self.parts {
            let _ = write!(
                what,
                ": queue {:.2}, overhead {:.2}, seek {:.2}, switch {:.2}, rotation {:.2}, transfer \
                 {:.2}, bus {:.2} ms",
                ms(t.queued),
                ms(t.overhead),
                ms(t.seek),
                ms(t.head_switch),
                ms(t.rotation),
                ms(t.transfer),
                ms(t.bus)
            );
        }
        what
    }
}

/// A request's time for programs, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Traced {
    /// Which request, in the order of asking, from 0.
    pub request: u64,
    /// When it was asked, from the beginning of the simulation.
    pub asked_ns: Nanos,
    /// From then to the end of the last piece.
    pub time_ns: Nanos,
    /// The pieces, in the order of their beginning.
    pub spans: Vec<Piece>,
}

/// A [`Span`] for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// `host`, `host link`, `processor`, `link` or `disk`.
    pub resource: &'static str,
    /// Whose, or of a link whose message; no node's of the host and its link.
    pub node: Option<u32>,
    /// Of a link: to which node.
    pub to: Option<u32>,
    /// What was done.
    pub kind: String,
    /// With how many bytes, of a link or a disk.
    pub bytes: Option<u64>,
    /// From when, since the request was asked.
    pub begin_ns: Nanos,
    /// Until when.
    pub end_ns: Nanos,
    /// Of a disk operation, what its time was made of.
    pub parts: Option<Parts>,
}

/// What a disk operation's time is made of: [`Times`] for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// [`Times::queued`].
    pub queue_ns: Nanos,
    /// [`Times::overhead`].
    pub overhead_ns: Nanos,
    /// [`Times::seek`].
    pub seek_ns: Nanos,
    /// [`Times::head_switch`].
    pub switch_ns: Nanos,
    /// [`Times::rotation`].
    pub rotation_ns: Nanos,
    /// [`Times::transfer`].
    pub transfer_ns: Nanos,
    /// [`Times::bus`].
    pub bus_ns: Nanos,
}

impl From<&Times> for Parts {
    fn from(times: &Times) -> Parts {
        Parts {
            queue_ns: times.queued,
            overhead_ns: times.overhead,
            seek_ns: times.seek,
            switch_ns: times.head_switch,
            rotation_ns: times.rotation,
            transfer_ns: times.transfer,
            bus_ns: times.bus,
        }
    }
}

/// A request, followed.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    request: u64,
    /// The request's number in the simulation, once it has been asked.
    number: Option<u32>,
    transactions: BTreeSet<Timestamp>,
    disk_operations: BTreeSet<(u32, u64)>,
    spans: Vec<Span>,
}

impl Timeline {
    /// Follows the `request`-th that is asked, from 0.
    pub(super) fn new(request: u64) -> Timeline {
        Timeline { request, ..Timeline::default() }
    }

    /// Whether the request has been asked and not answered.
    pub(super) fn follows(&self) -> bool {
        self.number.is_some()
    }

    /// The pieces, in the order of their beginning.
    pub fn spans(&self) -> Vec<Span> {
        let mut spans = self.spans.clone();
        spans.sort_by_key(|s| (s.from, s.lane, s.to));
        spans
    }

    /// A request has been asked; `order` tells which.
    pub(super) fn asked(&mut self, order: u64, number: u32, now: Nanos, arrives: Nanos) {
        if order == self.request {
            self.number = Some(number);
            self.add(Lane::Host, now, arrives, "driver: the request");
        }
    }

    /// A request, or its reply, goes over the link between its host and the array.
    pub(super) fn crossed(&mut self, number: u32, lane: Lane, from: Nanos, to: Nanos, bytes: u64) {
        if self.number == Some(number) {
            let kind = match lane {
                Lane::ToArray(_) => "the request",
                _ => "the reply",
            };
            let kind = kind.to_string();
            self.spans.push(Span { lane, from, to, kind, bytes: Some(bytes), parts: None });
        }
    }

    /// The reply to a request is at its host.
    pub(super) fn replied(&mut self, number: u32, now: Nanos, arrives: Nanos) {
        if self.number == Some(number) {
            self.add(Lane::Host, now, arrives, "driver: the reply");
            self.number = None;
        }
    }

    /// Whether a node's input is part of it.
    pub(super) fn has(&self, node: u32, input: &Input) -> bool {
        match input {
            Input::Host(number, ..) => self.number.is_some_and(|n| u64::from(n) == *number),
            Input::Message(m) => self.carries(m),
            Input::Disk(id, _) => self.disk_operations.contains(&(node, *id)),
            _ => false,
        }
    }

    /// Whether a message, or a notice that rides on it, is of the request's transaction.
    fn carries(&self, message: &Envelope) -> bool {
        let body = message.body.as_ref().and_then(|b| b.ts());
        let notices = message.notices.iter().map(|n| n.ts());
        body.into_iter().chain(notices).any(|ts| self.transactions.contains(&ts))
    }

    /// These are a node's outputs for an input of it.
    pub(super) fn begins(&mut self, node: u32, outputs: &[Output]) {
        for output in outputs {
            match output {
                Output::Send(m) => {
                    self.transactions.extend(m.body.as_ref().and_then(|b| b.ts()));
                }
                Output::Disk(request) => {
                    self.disk_operations.insert((node, request.id));
                }
                _ => {}
            }
        }
    }

    /// A processor works on an input of it.
    pub(super) fn worked(&mut self, node: u32, from: Nanos, to: Nanos, input: String) {
        self.add(Lane::Processor(node), from, to, input);
    }

    /// A message goes over a link.
    pub(super) fn sent(&mut self, output: &Envelope, from: Nanos, to: Nanos) {
        let body = output.body.as_ref();
        if self.carries(output) {
            let lane = Lane::Link(output.from.0.into(), output.to.0.into());
            let bytes = body.map_or(0, |b| b.payload());
            let kind = body.map_or("notices", |b| b.name());
            let kind = kind.to_string();
            self.spans.push(Span { lane, from, to, kind, bytes: Some(bytes), parts: None });
        }
    }

    /// A disk operation ended.
    pub(super) fn disk_ended(
        &mut self,
        node: u32,
        id: u64,
        (kind, bytes): (&str, u64),
        at: Nanos,
        times: &Times,
    ) {
        if self.disk_operations.contains(&(node, id)) {
            self.spans.push(Span {
                lane: Lane::Disk(node),
                from: at - times.total(),
                to: at,
                kind: kind.to_string(),
                bytes: Some(bytes),
                parts: Some(*times),
            });
        }
    }

    fn add(&mut self, lane: Lane, from: Nanos, to: Nanos, kind: impl Into<String>) {
        self.spans.push(Span { lane, from, to, kind: kind.into(), bytes: None, parts: None });
    }

    /// The same for programs; `None` if the request was not asked before the run was over.
    pub fn traced(&self) -> Option<Traced> {
        let spans = self.spans();
        let begin = spans.iter().map(|s| s.from).min()?;
        let piece = |span: &Span| {
            let (resource, node, to) = match span.lane {
                Lane::Host => ("host", None, None),
                Lane::ToArray(_) | Lane::FromArray(_) => ("host link", None, None),
                Lane::Processor(n) => ("processor", Some(n), None),
                Lane::Link(a, b) => ("link", Some(a), Some(b)),
                Lane::Disk(n) => ("disk", Some(n), None),
            };
            Piece {
                resource,
                node,
                to,
                kind: span.kind.clone(),
                bytes: span.bytes,
                begin_ns: span.from - begin,
                end_ns: span.to - begin,
                parts: span.parts.as_ref().map(Parts::from),
            }
        };
        let pieces: Vec<Piece> = spans.iter().map(piece).collect();
        let time_ns = pieces.iter().map(|p| p.end_ns).max()?;
        Some(Traced { request: self.request, asked_ns: begin, time_ns, spans: pieces })
    }

    /// A drawing in text: a line for each piece, with a bar along the request's time.
    pub fn draw(&self) -> String {
        let spans = self.spans();
        let (Some(begin), Some(end)) =
            (spans.iter().map(|s| s.from).min(), spans.iter().map(|s| s.to).max())
        else {
            return "the run ended before this request was issued\n".to_string();
        };
        let column = |t: Nanos| ((t - begin) as usize * WIDTH) / (end - begin).max(1) as usize;
        let mut out = format!("request {}: {:.3} ms\n", self.request, ms(end - begin));
        for span in &spans {
            let (from, to) = (column(span.from), column(span.to).min(WIDTH));
            let bar = match to - from {
                0 => "|".to_string(),
                n => "=".repeat(n),
            };
            let lane = match span.lane {
                Lane::Host => "host".to_string(),
                Lane::ToArray(n) => format!("host {n} -> array"),
                Lane::FromArray(n) => format!("array -> host {n}"),
                Lane::Processor(n) => format!("processor {n}"),
                Lane::Link(a, b) => format!("link {a} -> {b}"),
                Lane::Disk(n) => format!("disk {n}"),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{:>9.3} {:>9.3}  {lane:<14} {:<WIDTH$} {}",
                ms(span.from - begin),
                ms(span.to - begin),
                format!("{}{bar}", " ".repeat(from)),
                span.what()
            );
        }
        out
    }
}

fn ms(nanos: Nanos) -> f64 {
    nanos as f64 / 1e6
}
