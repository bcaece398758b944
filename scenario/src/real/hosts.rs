//! The hosts of a workload on a real array: a thread and a connection each.
//!
//! Each host draws what it asks from the stream that it has in the simulator, so that the same
//! requests come in both worlds. It notes when each was asked and answered, and the notes of all are
//! put through the simulator's own statistics afterwards.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use weft_front::nbd::client::ClientRequest;
use weft_load::random::Streams;
use weft_load::stats::Run;
use weft_load::trace::Pace;
use weft_load::workload::{Arrivals, Asks, Generator, Requests};
use weft_load::{Ask, Kind, Nanos};
use weft_sim::perf::{Outcome, System};

use crate::traces;
use weft_trial::load::Host;

/// What a connection has in work at most; what is beyond waits at the host, and that counts. The
/// array takes no more from one connection either.
const MOST_REQUESTS: usize = 256;
const MOST_BYTES: u64 = 16 << 20;
/// After so long at the latest a host looks whether the run is over, in nanoseconds.
const LOOK_UP: Nanos = 20_000_000;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
struct Sample {
    kind: Kind,
    bytes: u64,
    asked: Nanos,
    replied: Nanos,
}

/// What all hosts of a run share.
struct Common {
    began: Instant,
    /// Requests that have been answered.
    finished: AtomicU64,
    /// At so many the run is over.
    enough: u64,
    /// A host could not go on.
    failed: AtomicBool,
}

impl Common {
    fn now(&self) -> Nanos {
        self.began.elapsed().as_nanos() as Nanos
    }

    fn is_over(&self) -> bool {
        self.finished.load(Ordering::Relaxed) >= self.enough || self.failed.load(Ordering::Relaxed)
    }
}

/// CPU time that so many requests took.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    pub requests: usize,
    /// Seconds of the hosts' threads.
    pub hosts: f64,
    /// Seconds of all else in this process: the nodes.
    pub nodes: f64,
}

/// Runs the `replication`-th run of the system's workload on these connections, one for each
/// host; says what it came to, and what CPU time it took.
///
/// # Errors
/// If the array fails a request, or does not answer.
pub fn run(
    system: &System,
    replication: u64,
    connections: &mut [Host],
) -> Result<(Outcome, Spent)> {
    let size = connections.first().context("a workload has hosts")?.size();
    let generator = Generator::new(&system.workload, size).map_err(|p| anyhow!("{p}"))?;
    let streams = Streams::new(system.measure.seed, replication);
    let common = Common {
        began: Instant::now(),
        finished: AtomicU64::new(0),
        enough: system.measure.warm_up.requests() + system.measured_requests(),
        failed: AtomicBool::new(false),
    };
    let content = content(system);
    let before = cpu_seconds(ClockId::ProcessCPUTime);
    let done: Vec<(Vec<Sample>, f64)> = thread::scope(|scope| {
        let host = |(host, connection)| {
            let (common, arrivals) = (&common, &system.workload.arrivals);
            let (generator, content) = (generator.clone(), content.clone());
            let drive = move || -> Result<(Vec<Sample>, f64)> {
                let mut driver = Driver {
                    connection,
                    common,
                    arrivals,
                    host,
                    generator,
                    replay: turns(system, host, size)?,
                    chance: streams.stream("host", host as u64),
                    content,
                    drawn: 0,
                    slept: false,
                    upcoming: BinaryHeap::new(),
                    due: VecDeque::new(),
                    in_flight: HashMap::new(),
                    bytes: 0,
                    samples: Vec::new(),
                };
                let before = cpu_seconds(ClockId::ThreadCPUTime);
                driver.run()?;
                Ok((driver.samples, cpu_seconds(ClockId::ThreadCPUTime) - before))
            };
            scope.spawn(move || {
                let result = drive();
                common.failed.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            })
        };
        let threads: Vec<_> = connections.iter_mut().enumerate().map(host).collect();
        let join = |t: thread::ScopedJoinHandle<'_, Result<(Vec<Sample>, f64)>>| {
            t.join().unwrap_or_else(|_| bail!("a host's thread panicked"))
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let all = cpu_seconds(ClockId::ProcessCPUTime) - before;
    let hosts: f64 = done.iter().map(|d| d.1).sum();
    let samples: Vec<Sample> = done.into_iter().flat_map(|d| d.0).collect();
    let spent = Spent { requests: samples.len(), hosts, nodes: all - hosts };
    Ok((outcome(system, &samples)?, spent))
}

/// What a clock of CPU time shows, in seconds.
pub fn cpu_seconds(clock: ClockId) -> f64 {
    let t = clock_gettime(clock);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Bytes of the longest request.
pub fn longest(requests: &Requests) -> u64 {
    match requests.trace() {
        Some(trace) => trace.surveyed.as_ref().map_or(0, |t| t.longest),
        None => requests.classes().iter().map(|c| c.bytes).max().unwrap_or(0),
    }
}

/// What of the system's trace this host asks, if it has one: every so many-th request as there are
/// hosts, with the time since the one before.
fn turns(system: &System, host: usize, size: u64) -> Result<Option<Asks>> {
    let workload = &system.workload;
    let (Some(trace), Some(speed)) = (workload.requests.trace(), workload.speed()) else {
        return Ok(None);
    };
    let path = trace.path.as_deref().unwrap_or(&trace.file);
    let mut asks = trace.replay(path, traces::open(path)?, size, Pace::AsTimed { speed })?;
    let (mut others, rest) = (host, workload.hosts as usize - 1);
    let next = move || {
        let mut wait = 0;
        for _ in 0..std::mem::replace(&mut others, rest) {
            match asks.next()? {
                Ok(ask) => wait += ask.wait,
                Err(e) => return Some(Err(e)),
            }
        }
        Some(asks.next()?.map(|ask| Ask { wait: wait + ask.wait, ..ask }))
    };
    Ok(Some(Box::new(std::iter::from_fn(next))))
}

/// What writes are cut from: twice the longest, so that the same place gets other content next time.
fn content(system: &System) -> Bytes {
    let mut content = vec![0; 2 * longest(&system.workload.requests) as usize];
    fastrand::Rng::with_seed(system.measure.seed).fill(&mut content);
    content.into()
}

/// Puts what was noted through the statistics in the order in which it happened.
fn outcome(system: &System, samples: &[Sample]) -> Result<Outcome> {
    let warm_up = system.measure.warm_up.requests();
    let enough = (warm_up + system.measured_requests()) as usize;
    let mut replies: Vec<&Sample> = samples.iter().collect();
    replies.sort_by_key(|s| s.replied);
    let end = replies.get(enough - 1).context("too few requests were answered")?.replied;
    let mut asked: Vec<Nanos> = samples.iter().map(|s| s.asked).filter(|a| *a <= end).collect();
    asked.sort_unstable();
    let (mut run, mut asks) = (Run::new(0, warm_up), asked.into_iter().peekable());
    for reply in &replies[..enough] {
        while let Some(at) = asks.next_if(|at| *at <= reply.replied) {
            run.ask(at);
        }
        run.reply(reply.replied, reply.kind, reply.bytes, reply.asked);
    }
    let inside = replies[enough..].iter().map(|s| s.asked).filter(|a| *a <= end);
    let measured = run.measured().context("the warm-up did not end")?;
    measured.check(end, inside).map_err(|e| anyhow!(e))?;
    Ok(Outcome { warm_up, ..Outcome::of_hosts(measured, end) })
}

/// A host.
struct Driver<'a> {
    connection: &'a mut Host,
    common: &'a Common,
    arrivals: &'a Arrivals,
    /// Its number.
    host: usize,
    generator: Generator,
    /// Its requests of a trace, if they are not drawn.
    replay: Option<Asks>,
    chance: fastrand::Rng,
    content: Bytes,
    /// Requests drawn so far.
    drawn: u64,
    /// Whether it slept until the next request was due. It always wakes a little late, and that
    /// is nothing that the array can help.
    slept: bool,
    /// What it will ask, by when it is due.
    upcoming: BinaryHeap<Reverse<Upcoming>>,
    /// What has been asked and not been sent, with the time at which it was asked.
    due: VecDeque<(Nanos, Ask)>,
    /// What has been sent, with the time at which it was asked, by its number.
    in_flight: HashMap<u64, (Nanos, Ask)>,
    /// Bytes of that.
    bytes: u64,
    samples: Vec<Sample>,
}

/// In the order of the time, then as it was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Upcoming {
    at: Nanos,
    order: u64,
    kind: Kind,
    offset: u64,
    len: u64,
}

impl Driver<'_> {
    fn run(&mut self) -> Result<()> {
        let population = match *self.arrivals {
            Arrivals::Closed { population, .. } => population,
            // Refused before.
            Arrivals::Open { .. } | Arrivals::Traced { .. } | Arrivals::Saturating => 1,
        };
        (0..population).try_for_each(|_| self.draw(0))?;
        while !self.common.is_over() {
            self.ask()?;
            if self.wait()? {
                self.take()?;
            }
        }
        // The connection is used again: nothing may be left on it.
        while !self.in_flight.is_empty() {
            self.take()?;
        }
        Ok(())
    }

    /// Draws what it asks next, or takes it from the trace if that has not ended; what it waits for
    /// was at `since`.
    fn draw(&mut self, since: Nanos) -> Result<()> {
        let ask = match &mut self.replay {
            Some(replay) => replay.next().transpose()?,
            None => Some(self.generator.next(self.host, &mut self.chance)),
        };
        let Some(Ask { kind, offset, len, wait }) = ask else { return Ok(()) };
        self.drawn += 1;
        let (at, order) = (since + wait, self.drawn);
        self.upcoming.push(Reverse(Upcoming { at, order, kind, offset, len }));
        Ok(())
    }

    /// Asks what is due, and sends of it what there is room for.
    fn ask(&mut self) -> Result<()> {
        let now = self.common.now();
        while let Some(Reverse(next)) = self.upcoming.peek().copied()
            && next.at <= now
        {
            self.upcoming.pop();
            let ask = Ask { kind: next.kind, offset: next.offset, len: next.len, wait: 0 };
            self.due.push_back((if self.slept { now } else { next.at }, ask));
            if let Arrivals::Open { .. } | Arrivals::Traced { .. } = self.arrivals {
                self.draw(next.at)?;
            }
        }
        while let Some((asked, ask)) = self.due.front().copied()
            && self.has_room(ask.len)
        {
            self.due.pop_front();
            let request = self.request(ask);
            let cookie = self.connection.send(request);
            self.bytes += ask.len;
            self.in_flight.insert(cookie, (asked, ask));
        }
        Ok(())
    }

    fn has_room(&self, len: u64) -> bool {
        self.in_flight.is_empty()
            || (self.in_flight.len() < MOST_REQUESTS && self.bytes + len <= MOST_BYTES)
    }

    fn request(&mut self, ask: Ask) -> ClientRequest {
        let (offset, length) = (ask.offset, ask.len as u32);
        match ask.kind {
            Kind::Read => ClientRequest::Read { offset, length },
            Kind::Write => {
                // Another place each time, so that what is written changes.
                let at = (self.samples.len() * 8) % (ask.len as usize + 1);
                let data = self.content.slice(at..at + ask.len as usize);
                ClientRequest::Write { offset, data, fua: false }
            }
            Kind::Flush => ClientRequest::Flush,
        }
    }

    /// Sends, and waits until an answer comes or the next request is due. Says whether an answer
    /// is coming.
    fn wait(&mut self) -> Result<bool> {
        self.connection.push()?;
        self.slept = false;
        if self.connection.has_buffered() {
            return Ok(true);
        }
        let until_due = self.upcoming.peek().map(|Reverse(u)| u.at);
        let until_due = until_due.map(|at| at.saturating_sub(self.common.now()));
        let longest = until_due.unwrap_or(LOOK_UP).min(LOOK_UP);
        let timeout = Timespec { tv_sec: 0, tv_nsec: longest as i64 };
        let stream = self.connection.stream();
        match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => {
                self.slept = ready == 0;
                Ok(ready > 0)
            }
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e).context("cannot wait for the array"),
        }
    }

    /// Takes an answer.
    fn take(&mut self) -> Result<()> {
        let completion = self.connection.receive().context("the array does not answer")?;
        let replied = self.common.now();
        let Some((asked, ask)) = self.in_flight.remove(&completion.cookie) else {
            bail!("the array answered a request that was not sent");
        };
        self.bytes -= ask.len;
        if let Err(e) = completion.result {
            bail!("the array failed a {} at byte {}: {e}", ask.kind.name(), ask.offset);
        }
        self.samples.push(Sample { kind: ask.kind, bytes: ask.len, asked, replied });
        self.common.finished.fetch_add(1, Ordering::Relaxed);
        if let Arrivals::Closed { .. } = self.arrivals {
            self.draw(replied)?;
        }
        Ok(())
    }
}
