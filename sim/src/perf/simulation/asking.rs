//! What hosts ask, and when.

use weft_core::node::HostOp;
use weft_core::plan::Range;
use weft_load::workload::Arrivals;
use weft_load::{Ask, Kind};

use super::super::lines::Cargo;
use super::super::system::Fabric;
use super::*;

/// A request that has been asked.
pub(in crate::perf) struct AskedRequest {
    pub(super) host: u32,
    pub(in crate::perf) ask: Ask,
    pub(super) asked: Nanos,
    pub(super) originator: u32,
    /// The host's driver has let it into the array.
    pub(super) is_admitted: bool,
}

impl Simulation {
    /// What a host asks next, and when: drawn, or the next of the trace; `None` after its end.
    fn draw(&mut self, host: usize) -> Result<Option<Ask>, String> {
        let chance = &mut self.chances[host];
        let Some(replay) = &mut self.replay else {
            return Ok(Some(self.generator.next(host, chance)));
        };
        let Some(ask) = replay.next().transpose().map_err(|e| e.to_string())? else {
            return Ok(None);
        };
        // As timed, the trace says how long; else it says nothing.
        let wait = ask.wait + self.generator.wait(host, chance);
        Ok(Some(Ask { wait, ..ask }))
    }

    /// The node that a host asks for this place of the volume.
    fn originator_of(&self, host: u32, offset: u64) -> u32 {
        let (first, diskless) =
            (u32::from(self.system.first_diskless()), self.system.nodes.diskless() as u32);
        let originators = u32::from(self.system.nodes.originators);
        match (self.system.nodes.roles, originators) {
            (roles, _) if roles.hosts_are_nodes() => self.diskless.of_host(host),
            // A controller is asked for what its own disks have.
            (_, 0) if self.system.links.fabric == Fabric::Hierarchy => {
                first + self.system.controller_of(self.disk_at(offset) as u16)
            }
            (_, 0) => first + host % diskless,
            (_, n) => self.living(host % n, n),
        }
    }

    /// Has a host ask what it asks next, if there is anything.
    pub(super) fn next_ask(&mut self, host: u32) -> Result<(), String> {
        let Some(ask) = self.draw(host as usize)? else { return Ok(()) };
        let originator = self.originator_of(host, ask.offset);
        let request = AskedRequest { host, ask, asked: 0, originator, is_admitted: false };
        let number = match self.free.pop() {
            Some(number) => {
                self.requests[number as usize] = Some(request);
                number
            }
            None => {
                self.requests.push(Some(request));
                (self.requests.len() - 1) as u32
            }
        };
        self.queue.push(ask.wait, Event::Ask { request: number });
        Ok(())
    }

    pub(super) fn ask(&mut self, request: u32) -> Result<(), String> {
        let now = self.queue.now();
        let r = self.requests[request as usize].as_mut().expect("a request in work");
        r.asked = now.max(1);
        let host = r.host;
        self.run.ask(r.asked);
        let arrives = micros(self.system.hosts.ask_us);
        if let Some(timeline) = &mut self.timeline {
            timeline.asked(self.asked, request, now, now + arrives);
        }
        self.asked += 1;
        match self.system.hosts.threads {
            true => self.host_works(host, Job::Ask(request)),
            false => self.queue.push(arrives, Event::Request { request }),
        }
        match self.system.workload.arrivals {
            Arrivals::Closed { .. } | Arrivals::Saturating => Ok(()),
            Arrivals::Open { .. } => self.next_ask(host),
            Arrivals::Traced { .. } => self.next_ask((host + 1) % self.system.workload.hosts),
        }
    }

    /// A request leaves its host, and takes its link, if there are any.
    pub(super) fn leaves(&mut self, request: u32) -> Result<(), String> {
        // One whose node has died meanwhile has another number.
        let Some(r) = self.requests[request as usize].as_ref() else { return Ok(()) };
        let (host, ask) = (r.host, r.ask);
        let originator = self.originator_of(host, ask.offset);
        let r = self.requests[request as usize].as_mut().expect("just seen");
        r.originator = originator;
        if let Some(end) = self.host_end(host) {
            let data = if ask.kind == Kind::Write { ask.len } else { 0 };
            self.travels((end, originator), data, Cargo::Request(request));
            return Ok(());
        }
        let data = if ask.kind == Kind::Write { ask.len } else { 0 };
        let now = self.queue.now();
        let Some(there) = self.crosses(host, originator, data, true) else {
            return self.happens(Event::Arrival { request });
        };
        if let Some(timeline) = &mut self.timeline {
            timeline.crossed(request, Lane::ToArray(host), now, there, data);
        }
        self.queue.push(there - now, Event::Arrival { request });
        Ok(())
    }

    /// Sends so many bytes from a host to its node, or back, over what is between them; says when they are there.
    fn crosses(&mut self, host: u32, node: u32, data: u64, is_request: bool) -> Option<Nanos> {
        let (now, nodes) = (self.queue.now(), self.places.len());
        if let Some(end) = self.network.host_end(nodes, host) {
            let ends = if is_request { (end, node as usize) } else { (node as usize, end) };
            return Some(self.network.send(now, ends.0, ends.1, data));
        }
        let links = self.host_links.as_mut()?;
        let (host, node) = (host as usize, node as usize);
        Some(match is_request {
            true => links.ask(now, host, node, data),
            false => links.reply(now, host, node, data),
        })
    }

    /// A request is at its node.
    pub(super) fn arrives(&mut self, request: u32) -> Result<(), String> {
        let Some(r) = &self.requests[request as usize] else { return Ok(()) };
        let (node, Ask { kind, len, offset, .. }) = (r.originator, r.ask);
        if self.is_dead(node) {
            return self.finds_dead(request, node);
        }
        let op = match kind {
            Kind::Read => HostOp::Read(Range { offset, len }),
            Kind::Write => HostOp::Write(offset, Buffer::Length(len as usize)),
            Kind::Flush => HostOp::Flush,
        };
        let host = r.host;
        self.input(node, Input::Host(request.into(), VOLUME, op))?;
        self.is_taken_in(host, node)
    }

    /// A node answers a request, and the reply takes its link, if there are any.
    pub(super) fn returns(&mut self, request: u32) {
        if let Some(r) = &self.requests[request as usize]
            && let Some(end) = self.host_end(r.host)
        {
            let data = if r.ask.kind == Kind::Read { r.ask.len } else { 0 };
            return self.travels((r.originator, end), data, Cargo::Reply(request));
        }
        let (now, r) = (self.queue.now(), self.requests[request as usize].as_ref());
        let Some(AskedRequest { host, ask, originator, .. }) = r else { return };
        let (host, originator) = (*host, *originator);
        let data = if ask.kind == Kind::Read { ask.len } else { 0 };
        let Some(there) = self.crosses(host, originator, data, false) else {
            return self.is_back(request);
        };
        if let Some(timeline) = &mut self.timeline {
            timeline.crossed(request, Lane::FromArray(host), now, there, data);
        }
        self.queue.push(there - now, Event::Return { request });
    }

    /// A reply is at its host, whose driver takes it.
    pub(super) fn is_back(&mut self, request: u32) {
        let (now, driver) = (self.queue.now(), micros(self.system.hosts.reply_us));
        let Some(host) = self.requests[request as usize].as_ref().map(|r| r.host) else { return };
        self.admits_another(host);
        if let Some(timeline) = &mut self.timeline {
            timeline.replied(request, now, now + driver);
        }
        match self.system.hosts.threads {
            true => {
                self.host_works(host, Job::Reply(request));
            }
            false => self.queue.push(driver, Event::Reply { request }),
        }
    }

    pub(in crate::perf) fn reply(&mut self, request: u32) -> Result<(), String> {
        let now = self.queue.now();
        let Some(r) = self.requests[request as usize].take() else { return Ok(()) };
        self.free.push(request);
        self.run.reply(now, r.ask.kind, r.ask.len, r.asked);
        if let Some(failing) = self.failing.as_mut().filter(|_| self.run.is_warm()) {
            failing.phases.answered(now - r.asked);
        }
        if let Some(times) = &mut self.pilot {
            times.add((now - r.asked) as f64);
        }
        self.delayed += u64::from(self.delays.done(request));
        match self.system.workload.arrivals {
            Arrivals::Closed { .. } => self.next_ask(r.host),
            Arrivals::Saturating => self.makes_room(r.ask.offset, r.originator),
            Arrivals::Open { .. } | Arrivals::Traced { .. } => Ok(()),
        }
    }
}
