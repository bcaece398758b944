//! What goes over lines that have queues.

use super::super::lines::{Cargo, Coming, LineEvent};
use super::*;

impl Simulation {
    /// Whether messages between nodes go over lines that have queues.
    pub(super) fn has_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// The end of the lines that a host is at, if hosts are at any.
    pub(super) fn host_end(&self, host: u32) -> Option<u32> {
        let nodes = self.places.len() as u32;
        self.lines.as_ref().filter(|lines| lines.has_hosts()).map(|_| nodes + host)
    }

    /// Sends something over the lines.
    pub(super) fn travels(&mut self, ends: (u32, u32), data: u64, cargo: Cargo) {
        self.at_lines(|lines, now, out| lines.send(now, ends, data, cargo, out));
    }

    /// A link or a node dies, or is back; there may be no lines.
    pub(super) fn lines_change(&mut self, change: impl FnOnce(&mut Lines, Nanos, &mut Coming)) {
        if self.has_lines() {
            self.at_lines(change);
        }
    }

    fn at_lines<T>(&mut self, does: impl FnOnce(&mut Lines, Nanos, &mut Coming) -> T) -> T {
        let mut coming = std::mem::take(&mut self.coming);
        let lines = self.lines.as_mut().expect("there are lines");
        let answer = does(lines, self.queue.now(), &mut coming);
        coming.drain(..).for_each(|(after, event)| self.queue.push(after, Event::Line(event)));
        self.coming = coming;
        answer
    }

    /// Something has happened at the lines.
    pub(super) fn at_line(&mut self, event: LineEvent) -> Result<(), String> {
        let arrived = self.at_lines(|lines, now, out| lines.happens(now, event, out));
        self.ask_on_where_left()?;
        let Some(trip) = arrived else { return Ok(()) };
        let now = self.queue.now();
        match trip.cargo {
            Cargo::Message(envelope) => {
                if let Some(timeline) = &mut self.timeline {
                    timeline.sent(&envelope, trip.sent, now);
                }
                self.happens(Event::Message(envelope))
            }
            Cargo::Request(request) => self.crossed(request, trip.sent, true),
            Cargo::Reply(request) => self.crossed(request, trip.sent, false),
        }
    }

    /// A host's request is at its controller, or a reply at its host.
    fn crossed(&mut self, request: u32, sent: Nanos, is_request: bool) -> Result<(), String> {
        let now = self.queue.now();
        if let (Some(timeline), Some(r)) = (&mut self.timeline, &self.requests[request as usize]) {
            let data =
                if (r.ask.kind == weft_load::Kind::Write) == is_request { r.ask.len } else { 0 };
            let lane = if is_request { Lane::ToArray(r.host) } else { Lane::FromArray(r.host) };
            timeline.crossed(request, lane, sent, now, data);
        }
        match is_request {
            true => self.happens(Event::Arrival { request }),
            false => self.happens(Event::Return { request }),
        }
    }
}
