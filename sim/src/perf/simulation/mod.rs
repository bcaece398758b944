//! The events: nodes' inputs and outputs, with the time that everything takes.

use accepting::Acceptance;
use asking::AskedRequest;
use devices::{Device, SharedBus};
use driver::Driver;
use failing::Failing;
use std::ops::Range;
use std::sync::Arc;
use weft_core::Buffer;

use weft_core::cluster::{AuthorityInput, Volume};
use weft_core::node::{Envelope, Input, MapMessage, Node, Output, Timer, drive};
use weft_core::units::{Nanos, NodeId, SECTOR};
use weft_load::stats::Run;
use weft_load::stats::warmup::Batches;
use weft_load::workload::{Asks, Generator};
use weft_model::disk::Completed;

use super::costs::Work;
use super::delays::Delays;
use super::diskless::{self, Diskless};
use super::exposure::Seen;
use super::host_thread::{Job, Thread};
use super::lines::{Coming, LineEvent, Lines};
use super::links::{HostLinks, LinkUse, Network};
use super::outcome::{Outcome, Resource, Used};
use super::pace::Pace;
use super::processor::Processor;
use super::recovered::Recovered;
use super::setup::VOLUME;
use super::system::{Store, System};
use super::timeline::{Lane, Timeline};
use crate::engine::Queue;

/// What happens.
pub(super) enum Event {
    /// A host asks.
    Ask { request: u32 },
    /// A request leaves its host.
    Request { request: u32 },
    /// One that took a link arrives at its originator.
    Arrival { request: u32 },
    /// A reply that took a link is back at its host.
    Return { request: u32 },
    /// A message arrives.
    Message(Box<Envelope>),
    /// A device's access is complete.
    Disk { device: u32 },
    /// A processor is done with what it has in hand.
    Processor { processor: u32 },
    /// Of a processor that works in rounds: something of a round takes effect.
    Output { node: u32, life: u32, output: Box<Output> },
    /// A host's thread is done with what it has in hand.
    Host { host: u32 },
    /// A timer.
    Timer { node: u32, life: u32, timer: Timer },
    /// Something happens at lines that have queues.
    Line(LineEvent),
    /// Something fails, or comes back.
    Fault { fault: u32 },
    /// A node that died for the so-manieth time is missed.
    Missed { node: u32, deaths: u32 },
    /// The authority is told.
    Authority(Box<AuthorityInput>),
    /// The authority tells a node.
    Tell { node: u32, life: u32, message: Box<MapMessage> },
    /// A host has its reply.
    Reply { request: u32 },
}

/// A node, and where it works.
struct Place {
    node: Node,
    processor: u32,
    /// How often it has begun anew.
    life: u32,
    /// The device that its disk is a part of, and the part's first byte.
    disk: Option<(u32, u64)>,
    /// The bytes of that disk that are in NVRAM instead.
    nvram: Range<u64>,
    /// What it has put off, and until when, if its processor works in rounds.
    soon: Option<Nanos>,
}

/// What a node made of an input.
struct Handled {
    outputs: Vec<Output>,
    /// Of the bytes that were added up for it, those that only a disk's write waits for.
    summed: u64,
    /// The input in words, if it is of the request that is followed.
    followed: Option<String>,
}

/// One run.
pub struct Simulation {
    pub(super) system: System,
    pub(super) queue: Queue<Event>,
    places: Vec<Place>,
    processors: Vec<Processor>,
    /// The hosts' threads, if they are such.
    pub(super) threads: Vec<Thread>,
    devices: Vec<Device>,
    /// The buses that devices share, if they do.
    buses: Vec<SharedBus>,
    network: Network,
    /// The links or buses between nodes, if they have queues.
    lines: Option<Lines>,
    /// What is to happen there, while that is found.
    coming: Coming,
    /// Whether parity may wait.
    defers: bool,
    /// Who has accepted how much, if that is bounded.
    acceptance: Option<Acceptance>,
    /// The volume as it was made.
    volume: Arc<Volume>,
    /// The links between hosts and nodes, if they take time.
    host_links: Option<HostLinks>,
    /// Hosts that are nodes, and the lock server.
    diskless: Diskless,
    /// Messages that went over a link since measuring began.
    messages: u64,
    delays: Delays,
    /// The drivers of hosts that do not let all requests into the array at once.
    drivers: Vec<Driver>,
    /// What parity that waits exposes.
    exposure: Seen,
    /// What fails, if anything does.
    failing: Option<Box<Failing>>,
    /// Requests with their reply since measuring began that others delayed.
    delayed: u64,
    sector_bytes: u64,
    generator: Generator,
    /// The requests of a trace, if they are not drawn.
    replay: Option<Asks>,
    chances: Vec<fastrand::Rng>,
    /// Requests that have been drawn and not answered, by number.
    pub(super) requests: Vec<Option<AskedRequest>>,
    free: Vec<u32>,
    /// Empty lists of outputs, to be filled again.
    used_lists: Vec<Vec<Output>>,
    run: Run,
    /// What the nodes did since measuring began.
    pub(super) work: Work,
    pace: Pace,
    completed: Vec<Completed>,
    volume_bytes: u64,
    /// How many requests have been asked.
    asked: u64,
    /// A request that is followed.
    timeline: Option<Timeline>,
    /// Of a pilot: how long requests took.
    pilot: Option<Batches>,
}

impl Simulation {
    /// Runs until the `request`-th request that is asked, from 0, has its reply; and says where
    /// its time went.
    ///
    /// # Errors
    /// If a request fails, or no events are left.
    pub fn trace(mut self, request: u64) -> Result<Timeline, String> {
        self.timeline = Some(Timeline::new(request));
        let mut followed = false;
        loop {
            self.step()?;
            // It is answered once it is followed no more.
            let follows = self.timeline.as_ref().is_some_and(Timeline::follows);
            if followed && !follows {
                return Ok(self.timeline.take().unwrap_or_default());
            }
            followed = follows;
        }
    }

    /// Bytes of the volume.
    pub fn volume_bytes(&self) -> u64 {
        self.volume_bytes
    }

    /// Runs until enough requests are done, and says how it went.
    ///
    /// # Errors
    /// If a request fails, or no events are left.
    pub fn run(mut self) -> Result<Outcome, String> {
        self.run_to_end()?;
        self.outcome()
    }

    /// Runs, and says how much each resource was used: all disks, buses and processors, and the links that
    /// were used at all.
    ///
    /// # Errors
    /// If a request fails, or no events are left.
    pub fn resources(mut self) -> Result<Vec<Used>, String> {
        self.run_to_end()?;
        let kinds = [
            self.disks_used(),
            self.buses_used(),
            self.processors_used(),
            self.links_used(),
            self.memories_used(),
            self.host_links_used(),
        ];
        Ok(kinds.concat())
    }

    fn run_to_end(&mut self) -> Result<(), String> {
        let mut warm = self.run.is_warm();
        while !self.has_enough() {
            self.step()?;
            if !warm && self.run.is_warm() {
                warm = true;
                self.restart();
            }
        }
        Ok(())
    }

    /// Has the next event happen.
    fn step(&mut self) -> Result<(), String> {
        let event = self.queue.pop().ok_or("no events are left, and requests are not done")?;
        self.pace.happens(self.queue.now())?;
        self.happens(event)
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let now = self.queue.now();
        let inside: Vec<Nanos> =
            self.requests.iter().flatten().filter(|r| r.asked > 0).map(|r| r.asked).collect();
        let measured = self.run.measured().expect("the warm-up is over");
        measured.check(now, inside)?;
        Ok(Outcome {
            disks: Resource::of(&self.disks_used()),
            buses: (!self.buses.is_empty()).then(|| Resource::of(&self.buses_used())),
            processors: Resource::of(&self.processors_used()),
            links: Resource::of(&self.links_used()),
            host_links: self.host_links.is_some().then(|| Resource::of(&self.host_links_used())),
            machines: self.machines(),
            messages: self.messages as f64 / measured.all().latency.count().max(1) as f64,
            delayed: self.delayed as f64 / measured.all().latency.count().max(1) as f64,
            recovered: self.recovered(),
            exposure: self.exposure.until(now, self.volume.geometry.stripe_bytes()),
            processor_ns: self.processors.iter().map(|p| p.busy as f64).sum::<f64>()
                / measured.all().latency.count().max(1) as f64,
            work: self.work,
            warm_up: self.system.measure.warm_up.requests(),
            events: self.pace.events(),
            ..Outcome::of_hosts(measured, now)
        })
    }

    /// Runs as a pilot: from the beginning for as many requests, or as long, as are to be measured;
    /// and says how long requests took, in the order of their replies.
    ///
    /// # Errors
    /// If a request fails, or no events are left.
    pub fn pilot(mut self) -> Result<Batches, String> {
        self.pilot = Some(Batches::default());
        while !self.has_enough() {
            self.step()?;
        }
        Ok(self.pilot.take().unwrap_or_default())
    }

    /// Whether enough was measured: requests, or time.
    fn has_enough(&self) -> bool {
        let measure = &self.system.measure;
        let all = self.system.workload.requests.trace().and_then(|t| t.surveyed.as_ref());
        if all.is_some_and(|trace| self.run.finished() >= trace.requests) {
            return true;
        }
        if measure.until_whole {
            return self.run.is_warm() && self.is_whole();
        }
        match (measure.seconds, self.run.measured()) {
            (None, _) => self.run.finished() >= measure.warm_up.requests() + measure.requests,
            (Some(_), None) => false,
            (Some(seconds), Some(m)) => {
                self.queue.now() - m.began >= (seconds * 1e9).round() as Nanos
            }
        }
    }

    /// For how long has been measured.
    fn measured_time(&self) -> Nanos {
        (self.queue.now() - self.run.measured().map_or(0, |m| m.began)).max(1)
    }

    /// How much these were used: busy time and queue of each.
    fn used<T>(&self, kind: &'static str, all: &[T], of: impl Fn(&T) -> (Nanos, f64)) -> Vec<Used> {
        let time = self.measured_time() as f64;
        let one = |(n, it)| {
            let (busy, queue) = of(it);
            Used { kind, name: usize::to_string(&n), utilisation: busy as f64 / time, queue }
        };
        all.iter().enumerate().map(one).collect()
    }

    fn disks_used(&self) -> Vec<Used> {
        let now = self.queue.now();
        self.used("disk", &self.devices, |d| (d.disk.busy(now) - d.busy_before, d.queue.mean(now)))
    }

    fn processors_used(&self) -> Vec<Used> {
        let now = self.queue.now();
        self.used("processor", &self.processors, |p| (p.busy, p.load.mean(now)))
    }

    fn buses_used(&self) -> Vec<Used> {
        let (now, time) = (self.queue.now(), self.measured_time() as f64);
        self.used("bus", &self.buses, |b| {
            let queue = (b.bus.queue_until(now) - b.queue_before) as f64 / time;
            (b.bus.busy_until(now) - b.busy_before, queue)
        })
    }

    fn links_used(&self) -> Vec<Used> {
        let time = self.measured_time();
        if let Some(lines) = &self.lines {
            let name = |line| lines.name(line);
            return lines.used(time).map(|line| link_used("link", name, time, line)).collect();
        }
        let name = |link| self.network.name(link);
        self.network.used(time).map(|link| link_used("link", name, time, link)).collect()
    }

    fn memories_used(&self) -> Vec<Used> {
        let time = self.measured_time();
        let used = self.network.memories_used(time);
        used.map(|memory| link_used("memory", |n| n.to_string(), time, memory)).collect()
    }

    fn host_links_used(&self) -> Vec<Used> {
        let (Some(links), time) = (&self.host_links, self.measured_time()) else {
            return Vec::new();
        };
        let name = |link| links.name(link);
        links.used(time).map(|link| link_used("host link", name, time, link)).collect()
    }

    /// The warm-up is over.
    fn restart(&mut self) {
        let now = self.queue.now();
        (self.messages, self.delayed, self.work) = (0, 0, Work::default());
        self.restart_phases();
        self.exposure.restart(now);
        self.network.restart();
        self.lines.iter_mut().for_each(Lines::restart);
        self.host_links.iter_mut().for_each(HostLinks::restart);
        for device in &mut self.devices {
            device.queue.restart(now);
            device.busy_before = device.disk.busy(now);
        }
        for shared in &mut self.buses {
            shared.busy_before = shared.bus.busy_until(now);
            shared.queue_before = shared.bus.queue_until(now);
        }
        for processor in &mut self.processors {
            processor.load.restart(now);
            processor.busy = 0;
        }
    }

    pub(super) fn happens(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Ask { request } => self.asks_if_room(request),
            Event::Request { request } => self.is_to_leave(request),
            Event::Return { request } => {
                self.is_back(request);
                Ok(())
            }
            Event::Arrival { request } => self.arrives(request),
            // What a dead node would get is lost.
            Event::Message(envelope) if self.is_lost(&envelope) => Ok(()),
            Event::Message(envelope) => {
                self.input(u32::from(envelope.to.0), Input::Message(envelope))
            }
            Event::Timer { node, life, .. } | Event::Output { node, life, .. }
                if self.places[node as usize].life != life =>
            {
                Ok(())
            }
            Event::Line(event) => self.at_line(event),
            Event::Fault { fault } => self.fails(fault),
            Event::Missed { node, deaths } => self.missed(node, deaths),
            Event::Authority(input) => self.authority_hears(*input),
            Event::Tell { node, life, message } => self.told(node, life, *message),
            Event::Timer { node, timer, .. } => {
                if timer == Timer::Soon && self.has_rounds() && !self.is_due(node) {
                    return Ok(());
                }
                self.input(node, Input::Timer(timer))
            }
            Event::Output { node, output, .. } => self.apply(node, vec![*output]),
            Event::Host { host } => self.host_is_done(host),
            Event::Disk { device } => self.disk_is_due(device),
            Event::Processor { processor } if self.has_rounds() => self.round(processor),
            Event::Processor { processor } => {
                let now = self.queue.now();
                let there = &mut self.processors[processor as usize];
                let (node, mut steps) = there.in_hand.take().expect("work in hand");
                let outputs = steps.next().expect("a step in hand");
                if let Some(time) = steps.next_time() {
                    self.queue.push(time, Event::Processor { processor });
                    there.in_hand = Some((node, steps));
                    return self.apply(node, outputs);
                }
                there.load.down(now);
                self.apply(node, outputs)?;
                self.work(processor)
            }
            Event::Reply { request } => self.reply(request),
        }
    }

    /// Something for a node's processor to do.
    fn input(&mut self, node: u32, input: Input) -> Result<(), String> {
        if self.is_passive(node, &input) {
            return self.is_done_by_its_adapter(node, input);
        }
        let now = self.queue.now();
        let number = self.places[node as usize].processor;
        let processor = &mut self.processors[number as usize];
        processor.load.up(now);
        if self.system.nodes.rounds {
            processor.waiting.push_back((node, input));
            self.wake(number);
            return Ok(());
        }
        if processor.in_hand.is_some() || !processor.waiting.is_empty() {
            processor.waiting.push_back((node, input));
            return Ok(());
        }
        self.takes_in_hand(number, node, input)?;
        // Mostly it takes time, and what waits has to wait for that.
        match self.processors[number as usize].in_hand {
            Some(_) => Ok(()),
            None => self.work(number),
        }
    }

    /// Takes what waits in hand, until something takes time.
    fn work(&mut self, number: u32) -> Result<(), String> {
        while self.processors[number as usize].in_hand.is_none() {
            let Some((node, input)) = self.processors[number as usize].waiting.pop_front() else {
                self.adds_up_what_is_owed(number);
                return Ok(());
            };
            self.takes_in_hand(number, node, input)?;
        }
        Ok(())
    }

    /// Takes something in hand. The node decides at once; what it decides takes effect when
    /// the work is done, step by step if it has several. What takes no time is done at once.
    fn takes_in_hand(&mut self, number: u32, node: u32, input: Input) -> Result<(), String> {
        let now = self.queue.now();
        let unit = self.system.volume.unit;
        let came_in = diskless::came_in(&input);
        let mut work = Work::before(&input);
        let Handled { outputs, summed, followed } = self.handle(node, now, input, &mut work);
        work.xor_bytes = self.puts_off_sums(number, work.xor_bytes, summed, &outputs);
        outputs.iter().for_each(|output| work.add(output, unit));
        work.commands = outputs.iter().map(|o| self.commands_sent(o)).sum();
        if self.is_endpoint(node) {
            work.leave_to_controller(self.system.links.one_sided);
        }
        self.work += &work;
        let processor = &mut self.processors[number as usize];
        let time = processor.time(self.system.nodes.path.instructions(&work));
        let steps = self.diskless.steps(node, came_in, time, outputs);
        let time = steps.time();
        if let (Some(timeline), Some(what)) = (&mut self.timeline, followed) {
            timeline.worked(node, now, now + time, what);
        }
        if time > 0 {
            processor.busy += time;
            let first = steps.next_time().unwrap_or(0);
            self.queue.push(first, Event::Processor { processor: number });
            processor.in_hand = Some((node, steps));
            return Ok(());
        }
        processor.load.down(now);
        for outputs in steps {
            self.apply(node, outputs)?;
        }
        Ok(())
    }

    /// Has a node handle an input at a time. What that took, but for the outputs, is added to the work.
    fn handle(&mut self, node: u32, at: Nanos, input: Input, work: &mut Work) -> Handled {
        (work.executed, work.locks) = (self.commands_in(&input), self.locks_in(node, &input));
        let place = &mut self.places[node as usize];
        let xor_before = place.node.xor_bytes();
        let summed_before = place.node.summed_to_write();
        let request = self.delays.handed(&input);
        let followed = self.timeline.as_ref().filter(|t| t.has(node, &input));
        let followed = followed.map(|_| described(&input));
        let mut outputs = self.used_lists.pop().unwrap_or_default();
        place.node.handle(self.diskless.clock(node, at), input, &mut outputs);
        if self.defers {
            // A controller's account has the exposure of all disks, at once.
            let exposed = match self.volume.has_one_account() {
                true => place.node.exposed_by_account(VOLUME).unwrap_or_default(),
                false => place.node.exposed_now(VOLUME),
            };
            self.exposure.is(node as usize, exposed.0, at);
        }
        if let Some(request) = request {
            self.delays.answered(request, &outputs);
        }
        work.xor_bytes = place.node.xor_bytes() - xor_before;
        let summed = place.node.summed_to_write() - summed_before;
        if let (Some(timeline), Some(_)) = (&mut self.timeline, &followed) {
            timeline.begins(node, &outputs);
        }
        Handled { outputs, summed, followed }
    }

    fn apply(&mut self, node: u32, mut outputs: Vec<Output>) -> Result<(), String> {
        let driven = drive(self, NodeId(node as u16), outputs.drain(..));
        self.used_lists.push(outputs);
        driven
    }
}

/// How much a link was used.
fn link_used(
    kind: &'static str,
    name: impl Fn(usize) -> String,
    time: Nanos,
    (link, busy, queue): LinkUse,
) -> Used {
    Used { kind, name: name(link), utilisation: busy as f64 / time as f64, queue }
}

pub(super) fn micros(us: f64) -> Nanos {
    (us * 1e3).round() as Nanos
}

/// What a node is handed, in words.
fn described(input: &Input) -> String {
    match input {
        Input::Message(m) => match &m.body {
            Some(body) => format!("{} from node {}", body.name(), m.from.0),
            None => format!("notices from node {}", m.from.0),
        },
        Input::Disk(..) => "the disk is done".to_string(),
        Input::Host(..) | Input::Ordered(..) | Input::Named(..) => "the host's request".to_string(),
        Input::Timer(_) | Input::HostGone(_) | Input::Map(_) | Input::Full(_) => {
            "housekeeping".to_string()
        }
    }
}

mod accepting;
mod asking;
mod beginning;
mod commanding;
mod devices;
mod driver;
mod environment;
#[cfg(test)]
mod fabric_tests;
mod failing;
#[cfg(test)]
mod failing_tests;
mod locking;
mod machines;
mod one_sided;
#[cfg(test)]
mod real_nodes_tests;
mod rounds;
mod sums;
#[cfg(test)]
mod switch_tests;
#[cfg(test)]
mod tests;
mod travelling;
