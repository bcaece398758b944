//! One request over time: on which processors, links and disks it was, and when.
//!
//! A request is followed by its transaction's timestamp, which every message of it carries: what is
//! done for such a message, what that sends and what it asks of a disk belong to the request. A disk
//! operation that serves several requests at once counts as this one's.

use std::collections::BTreeSet;
use std::fmt::Write;

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
    /// What was done.
    pub what: String,
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
            self.add(Lane::Host, now, arrives, "driver: the request".to_string());
        }
    }

    /// The reply to a request is on its way to the host.
    pub(super) fn replied(&mut self, number: u32, now: Nanos, arrives: Nanos) {
        if self.number == Some(number) {
            self.add(Lane::Host, now, arrives, "driver: the reply".to_string());
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
            self.add(lane, from, to, format!("{kind}, {bytes} bytes"));
        }
    }

    /// A disk operation ended.
    pub(super) fn disk_ended(&mut self, node: u32, id: u64, what: &str, at: Nanos, times: &Times) {
        if self.disk_operations.contains(&(node, id)) {
            let ms = |n: Nanos| n as f64 / 1e6;
            let what = format!(
                "{what}: queue {:.2}, overhead {:.2}, seek {:.2}, switch {:.2}, rotation {:.2}, \
                 transfer {:.2}, bus {:.2} ms",
                ms(times.queued),
                ms(times.overhead),
                ms(times.seek),
                ms(times.head_switch),
                ms(times.rotation),
                ms(times.transfer),
                ms(times.bus)
            );
            self.add(Lane::Disk(node), at - times.total(), at, what);
        }
    }

    fn add(&mut self, lane: Lane, from: Nanos, to: Nanos, what: String) {
        self.spans.push(Span { lane, from, to, what });
    }

    /// A drawing in text: a line for each piece, with a bar along the request's time.
    pub fn draw(&self) -> String {
        let spans = self.spans();
        let (Some(begin), Some(end)) =
            (spans.iter().map(|s| s.from).min(), spans.iter().map(|s| s.to).max())
        else {
            return "this request was not asked before the run was over\n".to_string();
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
                span.what
            );
        }
        out
    }
}

fn ms(nanos: Nanos) -> f64 {
    nanos as f64 / 1e6
}
