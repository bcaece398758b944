//! The events: nodes' inputs and outputs, with the time that everything takes.

use std::io::Read;
use std::sync::Arc;

use weft_core::Buffer;
use weft_core::cluster::{ClusterMap, Extent, NodeInfo, Volume};
use weft_core::layout::Geometry;
use weft_core::node::{Envelope, HostOp, Input, MapMessage, Node, NodeConfig, Output, Timer};
use weft_core::plan::{self, Policy, Range, Strategy};
use weft_core::store::{DiskOp, DiskRequest, StoreConfig};
use weft_core::units::{MILLIS, Nanos, NodeId, Timestamp, VolumeId};
use weft_load::random::Streams;
use weft_load::stats::{Level, Run};
use weft_load::trace::Pace;
use weft_load::workload::{Arrivals, Asks, Generator, Requests};
use weft_load::{Ask, Kind};
use weft_model::disk::{Access, Completed, Disk, Model};

use super::delays::Delays;
use super::diskless::{self, Diskless};
use super::links::Wires;
use super::outcome::{Outcome, Resource};
use super::processor::Processor;
use super::system::{Commit, Dispatch, ParityAt, Problem, Roles, Stripes, System};
use super::timeline::Timeline;
use crate::engine::Queue;

const VOLUME: VolumeId = VolumeId(1);

/// No request takes so long: nodes ask after nothing, and nobody is late.
const FOREVER: Nanos = 3_600_000 * MILLIS;

/// What happens.
enum Event {
    /// A host asks.
    Ask { request: u32 },
    /// A request arrives at its originator.
    Request { request: u32 },
    /// A message arrives.
    Message(Box<Envelope>),
    /// A device's access is complete.
    Disk { device: u32 },
    /// A processor is done with what it has in hand.
    Processor { processor: u32 },
    /// A timer.
    Timer { node: u32, timer: Timer },
    /// A host has its reply.
    Reply { request: u32 },
}

/// A node, and where it works.
struct Place {
    node: Node,
    processor: u32,
    /// The device that its disk is a part of, and the part's first byte.
    disk: Option<(u32, u64)>,
}

/// A device, all of which is one disk, or each part another.
struct Device {
    disk: Disk,
    /// Disk operations that wait or are being served.
    queue: Level,
    /// When it was last due.
    due: Option<Nanos>,
    /// For how long it had been busy when measuring began.
    busy_before: Nanos,
}

/// Numbers of disk operations are told apart by their nodes, above this bit.
const NODE_BIT: u32 = 48;

/// A request that has been asked.
struct Request {
    host: u32,
    ask: Ask,
    asked: Nanos,
    originator: u32,
}

/// One run.
pub struct Simulation {
    system: System,
    queue: Queue<Event>,
    places: Vec<Place>,
    processors: Vec<Processor>,
    devices: Vec<Device>,
    wires: Wires,
    /// Hosts that are nodes, and the lock server.
    diskless: Diskless,
    /// Messages that went over a wire since measuring began.
    messages: u64,
    delays: Delays,
    /// Requests with their reply since measuring began that others delayed.
    delayed: u64,
    sector_bytes: u64,
    generator: Generator,
    /// The requests of a trace, if they are not drawn.
    replay: Option<Asks>,
    chances: Vec<fastrand::Rng>,
    /// Requests that have been drawn and not answered, by number.
    requests: Vec<Option<Request>>,
    free: Vec<u32>,
    run: Run,
    events: u64,
    completed: Vec<Completed>,
    volume_bytes: u64,
    /// How many requests have been asked.
    asked: u64,
    /// A request that is followed.
    timeline: Option<Timeline>,
}

impl Simulation {
    /// The `replication`-th run of a system whose requests are drawn.
    ///
    /// # Errors
    /// What is wrong with the description.
    pub fn new(system: &System, replication: u64) -> Result<Simulation, Problem> {
        Simulation::reading(system, replication, std::io::empty())
    }

    /// The `replication`-th run of a system. If its requests are a trace's, they are read from
    /// `input` as they are made; else nothing is.
    ///
    /// # Errors
    /// What is wrong with the description, or with the beginning of the trace.
    pub fn reading(
        system: &System,
        replication: u64,
        input: impl Read + 'static,
    ) -> Result<Simulation, Problem> {
        system.check()?;
        let streams = Streams::new(system.measure.seed, replication);
        let model = Model::new(&system.disks.spec()?);
        let disk_bytes = system.disk_bytes()?;
        let volume = Arc::new(volume(system, disk_bytes)?);
        let volume_bytes = volume.size;
        let workload = &system.workload;
        let generator = Generator::new(workload, volume_bytes).map_err(|p| Problem {
            key: format!("workload.{}", p.key),
            value: p.value,
            expected: p.expected,
        })?;
        let workers = usize::from(system.nodes.workers);
        let controller = match (system.nodes.roles, system.nodes.originators) {
            (Roles::Array, 0) => 1,
            _ => 0,
        };
        let count = workers + controller + diskless::count(system);
        let gap = match volume.geometry.layout.parity {
            0 => 0,
            // Reads go on through parity.
            parity => parity as u64 * volume.unit_sectors(),
        };
        let phase = |n: usize| match (system.disks.synchronized, model.revolution()) {
            (false, Some(turn)) => streams.stream("phase", n as u64).u64(0..turn),
            _ => 0,
        };
        let processors = system.nodes.processors.map_or(count, usize::from);
        let devices = system.disks.devices.map_or(workers, usize::from);
        let diskless = Diskless::new(system, streams);
        // A controller is another with room and nothing on it; a host has no room.
        let sectors = |n: usize| if diskless.has(n as u32) { 0 } else { disk_bytes / 4096 };
        let place = |n: usize| Place {
            node: Node::new(NodeId(n as u16), 1, sectors(n), config(system, gap)),
            processor: (n % processors) as u32,
            disk: (n < workers).then(|| ((n % devices) as u32, (n / devices) as u64 * disk_bytes)),
        };
        let device = |n: usize| {
            let chance = streams.stream("disk", n as u64);
            let disk = Disk::new(&model, system.disks.scheduler, phase(n), chance);
            Device { disk, queue: Level::new(0), due: None, busy_before: 0 }
        };
        let mut simulation = Simulation {
            system: system.clone(),
            queue: Queue::default(),
            places: (0..count).map(place).collect(),
            processors: (0..processors).map(|_| Processor::new(system.nodes.mips)).collect(),
            devices: (0..devices).map(device).collect(),
            wires: Wires::new(&system.links, count, streams.stream("links", 0)),
            messages: 0,
            delays: Delays::default(),
            delayed: 0,
            sector_bytes: model.sector_bytes(),
            generator,
            replay: replay(system, volume_bytes, input)?,
            chances: (0..workload.hosts).map(|h| streams.stream("host", h.into())).collect(),
            requests: Vec::new(),
            free: Vec::new(),
            run: Run::new(0, system.measure.warm_up),
            events: 0,
            completed: Vec::new(),
            volume_bytes,
            asked: 0,
            timeline: None,
            diskless,
        };
        simulation.begin(volume).map_err(|e| of_trace(system, e))?;
        Ok(simulation)
    }

    /// Runs until the `request`-th request that is asked, from 0, has its reply; and says where
    /// its time went.
    ///
    /// # Errors
    /// If a request fails, or nothing happens any more.
    pub fn trace(mut self, request: u64) -> Result<Timeline, String> {
        self.timeline = Some(Timeline::new(request));
        let mut followed = false;
        loop {
            let event = self.queue.pop().ok_or("nothing happens any more")?;
            self.happens(event)?;
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

    /// The nodes enter their map, and hosts begin to ask.
    fn begin(&mut self, volume: Arc<Volume>) -> Result<(), String> {
        let info = |(n, p): (usize, &Place)| NodeInfo {
            is_host: self.diskless.is_host(n as u32),
            ..NodeInfo::new(1, p.node.data_sectors())
        };
        let nodes = self.places.iter().enumerate().map(info).collect();
        let volumes = [(VOLUME, volume)].into();
        let map = Arc::new(ClusterMap { nodes, volumes, epoch: 1, ..ClusterMap::default() });
        for (node, place) in self.places.iter_mut().enumerate() {
            let mut out = Vec::new();
            place.node.start(&mut out);
            let map = MapMessage::Enter { map: map.clone(), floor: Timestamp::ZERO };
            place.node.handle(0, Input::Map(map), &mut out);
            for output in out {
                let node = node as u32;
                match output {
                    // The lock server hears from everyone what he holds.
                    Output::Send(m) => self.queue.push(0, Event::Message(Box::new(m))),
                    Output::Timer(timer @ Timer::LockServer, delay) => {
                        self.queue.push(delay, Event::Timer { node, timer });
                    }
                    Output::Ready | Output::Report(_) | Output::Timer(..) => {}
                    other => panic!("node {node} begins with {other:?}"),
                }
            }
        }
        let population = match self.system.workload.arrivals {
            Arrivals::Closed { population, .. } => population,
            Arrivals::Open { .. } => 1,
            // Hosts take turns.
            Arrivals::Traced { .. } => return self.next_ask(0),
        };
        for host in 0..self.system.workload.hosts {
            for _ in 0..population {
                self.next_ask(host)?;
            }
        }
        Ok(())
    }

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

    /// Has a host ask what it asks next, if there is anything.
    fn next_ask(&mut self, host: u32) -> Result<(), String> {
        let Some(ask) = self.draw(host as usize)? else { return Ok(()) };
        let originators = u32::from(self.system.nodes.originators);
        let originator = match (self.system.nodes.roles, originators) {
            (Roles::Host, _) => self.diskless.of_host(host),
            (Roles::Array, 0) => u32::from(self.system.nodes.workers),
            (Roles::Array, n) => host % n,
        };
        let request = Request { host, ask, asked: 0, originator };
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

    /// Runs until enough requests are done, and says how it went.
    ///
    /// # Errors
    /// If a request fails, or nothing happens any more.
    pub fn run(mut self) -> Result<Outcome, String> {
        let mut warm = self.run.is_warm();
        while !self.has_enough() {
            let Some(event) = self.queue.pop() else {
                return Err("nothing happens any more, and requests are not done".to_string());
            };
            self.events += 1;
            self.happens(event)?;
            if !warm && self.run.is_warm() {
                warm = true;
                self.restart();
            }
        }
        let now = self.queue.now();
        let inside: Vec<Nanos> =
            self.requests.iter().flatten().filter(|r| r.asked > 0).map(|r| r.asked).collect();
        let measured = self.run.measured().expect("the warm-up is over");
        measured.check(now, inside)?;
        Ok(Outcome {
            disks: self.resource(now, &self.devices, |d| {
                ((d.disk.busy(now) - d.busy_before) as f64, d.queue.mean(now))
            }),
            processors: self.resource(now, &self.processors, |p| (p.busy as f64, p.load.mean(now))),
            links: {
                let (mean, highest) = self.wires.utilisation(now - measured.began);
                Resource { mean, highest, queue: 0.0 }
            },
            messages: self.messages as f64 / measured.all().latency.count().max(1) as f64,
            delayed: self.delayed as f64 / measured.all().latency.count().max(1) as f64,
            events: self.events,
            ..Outcome::of_hosts(measured, now)
        })
    }

    /// Whether enough was measured: requests, or time.
    fn has_enough(&self) -> bool {
        let measure = &self.system.measure;
        let all = self.system.workload.requests.trace().and_then(|t| t.surveyed.as_ref());
        if all.is_some_and(|trace| self.run.finished() >= trace.requests) {
            return true;
        }
        match (measure.seconds, self.run.measured()) {
            (None, _) => self.run.finished() >= measure.warm_up + measure.requests,
            (Some(_), None) => false,
            (Some(seconds), Some(m)) => {
                self.queue.now() - m.began >= (seconds * 1e9).round() as Nanos
            }
        }
    }

    /// How much these were used: busy time and queue of each.
    fn resource<T>(&self, now: Nanos, all: &[T], of: impl Fn(&T) -> (f64, f64)) -> Resource {
        let began = self.run.measured().map_or(0, |m| m.began);
        let time = (now - began).max(1) as f64;
        let all: Vec<(f64, f64)> = all.iter().map(of).collect();
        let share = |busy: f64| busy / time;
        Resource {
            mean: all.iter().map(|a| share(a.0)).sum::<f64>() / all.len().max(1) as f64,
            highest: all.iter().map(|a| share(a.0)).fold(0.0, f64::max),
            queue: all.iter().map(|a| a.1).sum::<f64>() / all.len().max(1) as f64,
        }
    }

    /// The warm-up is over.
    fn restart(&mut self) {
        let now = self.queue.now();
        (self.messages, self.delayed) = (0, 0);
        self.wires.restart();
        for device in &mut self.devices {
            device.queue.restart(now);
            device.busy_before = device.disk.busy(now);
        }
        for processor in &mut self.processors {
            processor.load.restart(now);
            processor.busy = 0;
        }
    }

    fn happens(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Ask { request } => self.ask(request),
            Event::Request { request } => {
                let r = self.requests[request as usize].as_ref().expect("a request in work");
                let (len, offset) = (r.ask.len, r.ask.offset);
                let op = match r.ask.kind {
                    Kind::Read => HostOp::Read(Range { offset, len }),
                    Kind::Write => HostOp::Write(offset, Buffer::Zero(len as usize)),
                    Kind::Flush => HostOp::Flush,
                };
                let node = r.originator;
                self.input(node, Input::Host(request.into(), VOLUME, op))
            }
            Event::Message(envelope) => {
                self.input(u32::from(envelope.to.0), Input::Message(*envelope))
            }
            Event::Timer { node, timer } => self.input(node, Input::Timer(timer)),
            Event::Disk { device } => self.disk_is_due(device),
            Event::Processor { processor } => {
                let now = self.queue.now();
                let there = &mut self.processors[processor as usize];
                let (node, mut steps) = there.in_hand.take().expect("work in hand");
                let (_, outputs) = steps.pop_front().expect("a step in hand");
                if let Some((time, _)) = steps.front() {
                    self.queue.push(*time, Event::Processor { processor });
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

    fn ask(&mut self, request: u32) -> Result<(), String> {
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
        self.queue.push(arrives, Event::Request { request });
        match self.system.workload.arrivals {
            Arrivals::Closed { .. } => Ok(()),
            Arrivals::Open { .. } => self.next_ask(host),
            Arrivals::Traced { .. } => self.next_ask((host + 1) % self.system.workload.hosts),
        }
    }

    fn reply(&mut self, request: u32) -> Result<(), String> {
        let now = self.queue.now();
        let r = self.requests[request as usize].take().expect("a request in work");
        self.free.push(request);
        self.run.reply(now, r.ask.kind, r.ask.len, r.asked);
        self.delayed += u64::from(self.delays.done(request));
        match self.system.workload.arrivals {
            Arrivals::Closed { .. } => self.next_ask(r.host),
            Arrivals::Open { .. } | Arrivals::Traced { .. } => Ok(()),
        }
    }

    /// Something for a node's processor to do.
    fn input(&mut self, node: u32, input: Input) -> Result<(), String> {
        let now = self.queue.now();
        let number = self.places[node as usize].processor;
        let processor = &mut self.processors[number as usize];
        processor.waiting.push_back((node, input));
        processor.load.up(now);
        if processor.in_hand.is_some() {
            return Ok(());
        }
        self.work(number)
    }

    /// Takes the next thing in hand. The node decides at once; what it decides takes effect when
    /// the work is done, step by step if it has several.
    fn work(&mut self, number: u32) -> Result<(), String> {
        let now = self.queue.now();
        let unit = self.system.volume.unit;
        while let Some((node, input)) = self.processors[number as usize].waiting.pop_front() {
            let processor = &mut self.processors[number as usize];
            let (path, place) = (&self.system.nodes.path, &mut self.places[node as usize]);
            let xor_before = place.node.xor_bytes();
            let before = path.before(&input);
            let came_in = diskless::came_in(&input);
            let request = self.delays.handed(&input);
            let followed = self.timeline.as_ref().filter(|t| t.has(node, &input));
            let followed = followed.map(|_| described(&input));
            let mut outputs = Vec::new();
            place.node.handle(self.diskless.clock(node, now), input, &mut outputs);
            if let Some(request) = request {
                self.delays.answered(request, &outputs);
            }
            let after: u64 = outputs.iter().map(|o| path.after(o, unit)).sum();
            let xored = (place.node.xor_bytes() - xor_before) as f64 * path.xor_byte;
            let time = processor.time((before + after) as f64 + xored);
            if let (Some(timeline), Some(_)) = (&mut self.timeline, &followed) {
                timeline.begins(node, &outputs);
            }
            let steps = self.diskless.steps(node, came_in, time, outputs);
            let time: Nanos = steps.iter().map(|s| s.0).sum();
            if let (Some(timeline), Some(what)) = (&mut self.timeline, followed) {
                timeline.worked(node, now, now + time, what);
            }
            if time > 0 {
                processor.busy += time;
                self.queue.push(steps[0].0, Event::Processor { processor: number });
                processor.in_hand = Some((node, steps));
                return Ok(());
            }
            processor.load.down(now);
            for (_, outputs) in steps {
                self.apply(node, outputs)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, node: u32, outputs: Vec<Output>) -> Result<(), String> {
        let now = self.queue.now();
        for output in outputs {
            match output {
                Output::Send(envelope) => {
                    let (from, to) = (usize::from(envelope.from.0), usize::from(envelope.to.0));
                    let bytes = envelope.body.as_ref().map_or(0, |b| b.payload());
                    let there = match from == to {
                        true => now,
                        false => {
                            self.messages += 1;
                            self.wires.send(now, from, to, bytes)
                        }
                    };
                    if let Some(timeline) = self.timeline.as_mut().filter(|_| from != to) {
                        timeline.sent(&envelope, now, there);
                    }
                    self.queue.push(there - now, Event::Message(Box::new(envelope)));
                }
                Output::Disk(request) => self.disk_begins(node, request),
                Output::Timer(timer, delay) => {
                    self.queue.push(delay, Event::Timer { node, timer });
                }
                Output::Reply(request, Ok(_)) => {
                    let request = request as u32;
                    let arrives = micros(self.system.hosts.reply_us);
                    if let Some(timeline) = &mut self.timeline {
                        timeline.replied(request, now, now + arrives);
                    }
                    self.queue.push(arrives, Event::Reply { request });
                }
                Output::Reply(_, Err(error)) => return Err(format!("a request failed: {error}")),
                Output::DiskFailed(why) => return Err(why),
                Output::Refused(why) => return Err(why.to_string()),
                Output::Report(_) | Output::Ready | Output::Log(_) | Output::Delayed(_) => {}
            }
        }
        Ok(())
    }

    fn disk_begins(&mut self, node: u32, request: DiskRequest) {
        let now = self.queue.now();
        let place = &self.places[node as usize];
        let Some((device, first)) = place.disk else {
            // Nothing is on a node without disk: only a flush can come.
            let done = Input::Disk(request.id, Ok(Buffer::Zero(0)));
            let processor = &mut self.processors[place.processor as usize];
            processor.waiting.push_back((node, done));
            processor.load.up(now);
            return;
        };
        let sector = self.sector_bytes;
        let access = match &request.op {
            DiskOp::Read { offset, len } => Access::read((first + offset) / sector, len / sector),
            DiskOp::Write { offset, data, .. } => {
                let len: u64 = data.iter().map(|b| b.len() as u64).sum();
                Access::write((first + offset) / sector, len / sector)
            }
            DiskOp::Flush | DiskOp::Discard { .. } => Access::flush(),
        };
        assert!(request.id >> NODE_BIT == 0, "a node has more disk operations than have numbers");
        let there = &mut self.devices[device as usize];
        there.queue.up(now);
        there.disk.submit(now, u64::from(node) << NODE_BIT | request.id, access);
        self.watch_disk(device);
    }

    /// Has the device looked at when it is next due.
    fn watch_disk(&mut self, device: u32) {
        let now = self.queue.now();
        let there = &mut self.devices[device as usize];
        let next = there.disk.next();
        if next != there.due {
            there.due = next;
            if let Some(at) = next {
                self.queue.push(at - now, Event::Disk { device });
            }
        }
    }

    fn disk_is_due(&mut self, device: u32) -> Result<(), String> {
        let now = self.queue.now();
        let there = &mut self.devices[device as usize];
        if there.due == Some(now) {
            there.due = None;
        }
        let mut completed = std::mem::take(&mut self.completed);
        there.disk.advance(now, &mut completed);
        for done in completed.drain(..) {
            self.devices[device as usize].queue.down(now);
            let (node, id) = ((done.id >> NODE_BIT) as u32, done.id & ((1 << NODE_BIT) - 1));
            if let Some(timeline) = &mut self.timeline {
                let kind = match done.access.kind {
                    weft_model::disk::Kind::Read => "read",
                    weft_model::disk::Kind::Write => "write",
                    weft_model::disk::Kind::Flush => "flush",
                };
                let what = format!("{kind} {} sectors", done.access.sectors);
                timeline.disk_ended(node, id, &what, now, &done.times);
            }
            let bytes = match done.access.kind {
                weft_model::disk::Kind::Read => done.access.sectors * self.sector_bytes,
                _ => 0,
            };
            self.input(node, Input::Disk(id, Ok(Buffer::Zero(bytes as usize))))?;
        }
        self.completed = completed;
        self.watch_disk(device);
        Ok(())
    }
}

/// The requests of the system's trace, if they are a trace's, from its bytes.
fn replay(
    system: &System,
    volume_bytes: u64,
    input: impl Read + 'static,
) -> Result<Option<Asks>, Problem> {
    let Requests::Trace(trace) = &system.workload.requests else { return Ok(None) };
    let pace = match system.workload.speed() {
        Some(speed) => Pace::AsTimed { speed },
        None => Pace::AsFast,
    };
    let asks = trace.replay(&trace.file, input, volume_bytes, pace);
    asks.map(Some).map_err(|e| of_trace(system, e))
}

fn of_trace(system: &System, error: impl ToString) -> Problem {
    let file = system.workload.requests.trace().map_or("", |t| &t.file);
    Problem::new("workload.requests.trace.file", file, error)
}

fn micros(us: f64) -> Nanos {
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
        Input::Host(..) | Input::Ordered(..) => "the host's request".to_string(),
        Input::Timer(_) | Input::HostGone(_) | Input::Map(_) => "housekeeping".to_string(),
    }
}

/// How nodes are run here: no request is cut, nobody loses patience.
fn config(system: &System, gap: u64) -> NodeConfig {
    let nanos = |ms: f64| (ms * 1e6).round() as Nanos;
    NodeConfig {
        store: StoreConfig { plain: Some(gap), ..StoreConfig::default() },
        max_chunk: u64::MAX / 4,
        max_in_flight: u64::MAX / 4,
        // Hosts' messages cost time: what nobody waits for rides on others.
        notice_delay: match system.nodes.roles {
            Roles::Array => 500 * MILLIS,
            Roles::Host => 60_000 * MILLIS,
        },
        lock_timeout: nanos(system.volume.lock_timeout_ms),
        lease: nanos(system.volume.lease_ms),
        patience: FOREVER,
        timestamp_window: 60_000 * MILLIS,
        place_after: 10_000 * MILLIS,
        ..NodeConfig::default()
    }
}

/// All of all disks as one volume: as many disks as a stripe is wide, then as many again.
fn volume(system: &System, disk_bytes: u64) -> Result<Volume, Problem> {
    let (spec, layout) = system.layout()?;
    let geometry = Geometry::new(layout, system.volume.unit);
    let width = layout.width();
    let groups = usize::from(system.nodes.workers) / width;
    let stripes = disk_bytes / geometry.unit;
    let extent = |g: usize| {
        let columns = (0..width).map(|c| (NodeId((g * width + c) as u16), 0)).collect();
        Extent::new(g as u64 * stripes, columns)
    };
    let size = system.volume_bytes()?;
    // Groups that hold nothing of it are left out.
    let used = size.div_ceil(geometry.stripe_bytes()).div_ceil(stripes) as usize;
    let extents: Vec<Extent> = (0..groups.min(used)).map(extent).collect();
    let policy = Policy {
        strategy: match system.volume.stripes {
            Stripes::Small => Some(Strategy::Small),
            Stripes::Large => None,
        },
        parity_at: match system.volume.parity_at {
            ParityAt::Auto => None,
            ParityAt::Originator => Some(plan::ParityAt::Originator),
            ParityAt::Solely => Some(plan::ParityAt::Solely),
            ParityAt::Parity => Some(plan::ParityAt::Parity),
        },
        dispatch: match system.volume.dispatch {
            Dispatch::Collaborative => plan::Dispatch::Collaborative,
            Dispatch::Commanded => plan::Dispatch::Commanded,
        },
        commit: match system.volume.commit {
            Commit::None => plan::Commit::None,
            Commit::Early => plan::Commit::Early,
            Commit::Late => plan::Commit::Late,
            Commit::Limited => plan::Commit::Limited,
        },
        ordering: system.volume.ordering.into(),
        sequencer: system.volume.sequencer.into(),
        journal: false,
    };
    Ok(Volume { policy, ..Volume::new(VOLUME, "v", size, &spec, geometry, extents) })
}

#[cfg(test)]
#[path = "simulation_tests.rs"]
mod tests;
