//! Hosts that are their own controllers (shared storage, section 2), and the lock servers: nodes
//! without disk, numbered after those with one.
//!
//! They differ from the array's own nodes in two things: each message that they send or take in
//! costs their processor a time of its own (4.2.3, "750 µsec per message sent or received"), and
//! their clocks are off by a little (4.1).

use weft_core::node::{Input, Output};
use weft_core::units::Nanos;
use weft_load::random::{self, Streams};

use super::system::{MessageTimes, System};

/// A piece of work: how long it takes, and what it brings about.
type Step = (Nanos, Vec<Output>);

/// What a processor does one after the other for an input. Mostly it is one step, which needs no
/// room of its own.
pub(super) struct Steps {
    first: Option<Step>,
    /// Those after it, the last one first.
    later: Vec<Step>,
}

impl Steps {
    pub fn new(first: Step) -> Steps {
        Steps { first: Some(first), later: Vec::new() }
    }

    /// How long all that is left takes.
    pub fn time(&self) -> Nanos {
        let first = self.first.as_ref().map_or(0, |step| step.0);
        first + self.later.iter().map(|step| step.0).sum::<Nanos>()
    }

    /// Nothing is brought about by what is left.
    pub fn forget(&mut self) {
        self.first.iter_mut().chain(&mut self.later).for_each(|step| step.1.clear());
    }

    /// How long the next takes, if there is one.
    pub fn next_time(&self) -> Option<Nanos> {
        let next = self.first.as_ref().or_else(|| self.later.last());
        next.map(|step| step.0)
    }
}

/// What each brings about.
impl Iterator for Steps {
    type Item = Vec<Output>;

    fn next(&mut self) -> Option<Vec<Output>> {
        let step = self.first.take().or_else(|| self.later.pop());
        step.map(|step| step.1)
    }
}

/// Nodes without disk that are not the array's.
pub(super) struct Diskless {
    /// The number of the first, which is a lock server's; hosts follow those.
    first: u32,
    /// How many lock servers there are.
    servers: u32,
    /// Mean nanoseconds of a message.
    message: f64,
    times: MessageTimes,
    /// Chance of each.
    chances: Vec<fastrand::Rng>,
    /// By how much each one's clock is ahead of the slowest that is possible.
    clocks: Vec<Nanos>,
    /// By how much the devices' clocks are.
    middle: Nanos,
}

impl Diskless {
    /// Those of a system: none if hosts go through the array's nodes.
    pub fn new(system: &System, streams: Streams) -> Diskless {
        let hosts = &system.hosts;
        let count = count(system);
        let middle = (hosts.clock_ms * 1e6).round() as Nanos;
        let clock = |n: usize| match n {
            // A lock server's is right: nobody's order hangs on it.
            n if n < system.nodes.lock_servers as usize => middle,
            n => streams.stream("clock", n as u64).u64(0..=2 * middle),
        };
        Diskless {
            first: u32::from(system.nodes.workers),
            servers: system.nodes.lock_servers,
            message: hosts.message_us * 1e3,
            times: hosts.message_times,
            chances: (0..count).map(|n| streams.stream("message", n as u64)).collect(),
            clocks: (0..count).map(clock).collect(),
            middle: if count == 0 { 0 } else { middle },
        }
    }

    /// The node of a host.
    pub fn of_host(&self, host: u32) -> u32 {
        self.first + self.servers + host
    }

    /// Whether a node is a host.
    pub fn is_host(&self, node: u32) -> bool {
        self.index(node).is_some_and(|n| n >= self.servers as usize)
    }

    fn index(&self, node: u32) -> Option<usize> {
        let index = node.checked_sub(self.first)? as usize;
        (index < self.chances.len()).then_some(index)
    }

    /// Whether a node is one of them.
    pub fn has(&self, node: u32) -> bool {
        self.index(node).is_some()
    }

    /// What a node's clock shows.
    pub fn clock(&self, node: u32, now: Nanos) -> Nanos {
        now + self.index(node).map_or(self.middle, |n| self.clocks[n])
    }

    /// What a node's processor does for an input that took it `time` besides messages. One of the
    /// array brings all about at the end. A host does first what is no message, its
    /// application's reply among it, and then sends one message after the other.
    #[inline]
    pub fn steps(&mut self, node: u32, took_in: bool, time: Nanos, outputs: Vec<Output>) -> Steps {
        match self.index(node) {
            None => Steps::new((time, outputs)),
            Some(index) => self.steps_of(index, took_in, time, outputs),
        }
    }

    fn steps_of(
        &mut self,
        index: usize,
        took_in: bool,
        time: Nanos,
        outputs: Vec<Output>,
    ) -> Steps {
        let received = if took_in { self.draw(index) } else { 0 };
        let (sends, others): (Vec<Output>, Vec<Output>) = outputs.into_iter().partition(goes_out);
        let mut steps = Steps::new((time + received, others));
        steps.later = sends.into_iter().map(|send| (self.draw(index), vec![send])).collect();
        steps.later.reverse();
        steps
    }

    fn draw(&mut self, index: usize) -> Nanos {
        match self.times {
            MessageTimes::Constant => self.message.round() as Nanos,
            MessageTimes::Exponential => {
                random::exponential(self.message, &mut self.chances[index])
            }
        }
    }
}

/// How many nodes there are that are not the array's.
pub(super) fn count(system: &System) -> usize {
    match system.nodes.roles.hosts_are_nodes() {
        false => 0,
        true => (system.nodes.lock_servers + system.workload.hosts) as usize,
    }
}

/// Whether an input has come over a link.
pub(super) fn came_in(input: &Input) -> bool {
    matches!(input, Input::Message(m) if m.from != m.to)
}

/// Whether an output goes over a link.
pub(super) fn goes_out(output: &Output) -> bool {
    matches!(output, Output::Send(m) if m.from != m.to)
}

#[cfg(test)]
mod tests;
