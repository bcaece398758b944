//! What work costs a node's processor, in instructions.
//!
//! TickerTAIP says that its simulator's path lengths were measured on the prototype and on HP-UX
//! workstations (4.2), and gives none. These are ours: round numbers of the order that such code
//! had then. The paper says that what changes with the processor's speed is parity above all (4.5), so they are short.
//! What Table VII has beyond the disk's own 23.6 ms (the row of 4 KB at 100 MB/s) is the host's driver's for the most
//! part: their sum was fitted on it once, and left alone since.

use std::ops::{AddAssign, Sub};

use serde::{Deserialize, Serialize};
use weft_core::node::{Body, HostData, HostOp, Input, Output};
use weft_core::store::DiskOp;

/// Instructions for each kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathLengths {
    /// A host's request: taken in, and its plan made.
    pub request: u64,
    /// A host's request: answered.
    pub reply: u64,
    /// A message: put together and handed to the link's DMA engine.
    pub send: u64,
    /// A message: the interrupt, and finding whom it is for.
    pub receive: u64,
    /// A message to a role of the same node.
    pub local: u64,
    /// A command to another node's worker, on top of `send`: sent, and its end taken in.
    pub command: u64,
    /// A command at the worker that gets it, on top of `receive`.
    pub execute: u64,
    /// A message with which a worker's own locks or timestamps are asked, or given back, on top of `receive`: looking
    /// them up, and an entry.
    pub lock: u64,
    /// A disk operation: set up.
    pub disk_start: u64,
    /// A disk operation: its interrupt.
    pub disk_end: u64,
    /// Each stripe unit that a message carries or a disk operation moves: its entry in the plan.
    pub unit: u64,
    /// Each byte that a processor copies: of a message, of a disk operation, and from and to
    /// a host. 0 where DMA engines do it, as in TickerTAIP (4.2).
    pub copy_byte: f64,
    /// Each byte of data of a message, at who sends it, on top of that: registering its buffers.
    pub send_byte: f64,
    /// Each byte from and to a host, on top of that.
    pub host_byte: f64,
    /// Each byte of a disk operation, on top of that: checksums, and keeping what is to be put in place.
    pub disk_byte: f64,
    /// Each byte of a disk operation that writes, on top of both.
    pub write_byte: f64,
    /// With [`rounds`](super::Nodes::rounds): each round.
    pub round: u64,
    /// With rounds: to go to sleep when nothing is left to do, and to wake up again.
    pub sleep: u64,
    /// A timer.
    pub timer: u64,
    /// Each byte added up for parity: words of four bytes, two loads, one exclusive or, one
    /// store, and a quarter of that for the loop.
    pub xor_byte: f64,
}

impl Default for PathLengths {
    fn default() -> Self {
        PathLengths {
            request: 1_500,
            reply: 500,
            send: 300,
            receive: 500,
            local: 250,
            command: 0,
            execute: 0,
            lock: 0,
            disk_start: 500,
            disk_end: 500,
            unit: 60,
            copy_byte: 0.0,
            send_byte: 0.0,
            host_byte: 0.0,
            disk_byte: 0.0,
            write_byte: 0.0,
            round: 0,
            sleep: 0,
            timer: 0,
            xor_byte: 1.25,
        }
    }
}

impl PathLengths {
    /// Nothing costs anything.
    pub const NONE: PathLengths = PathLengths {
        request: 0,
        reply: 0,
        send: 0,
        receive: 0,
        local: 0,
        command: 0,
        execute: 0,
        lock: 0,
        disk_start: 0,
        disk_end: 0,
        unit: 0,
        copy_byte: 0.0,
        send_byte: 0.0,
        host_byte: 0.0,
        disk_byte: 0.0,
        write_byte: 0.0,
        round: 0,
        sleep: 0,
        timer: 0,
        xor_byte: 0.0,
    };

    /// The instructions that work takes.
    pub fn instructions(&self, work: &Work) -> f64 {
        let mut sum = 0.0;
        // Of most kinds there is none, and to see that costs less than to count with it.
        let mut add = |count: u64, cost: f64| {
            if count > 0 {
                sum += count as f64 * cost;
            }
        };
        add(work.requests, self.request as f64);
        add(work.replies, self.reply as f64);
        add(work.sent, self.send as f64);
        add(work.received, self.receive as f64);
        add(work.local, self.local as f64);
        if (work.commands | work.executed | work.locks) > 0 {
            add(work.commands, self.command as f64);
            add(work.executed, self.execute as f64);
            add(work.locks, self.lock as f64);
        }
        add(work.disk_starts, self.disk_start as f64);
        add(work.disk_ends, self.disk_end as f64);
        add(work.units, self.unit as f64);
        let bytes = work.message_bytes + work.disk_bytes + work.host_bytes;
        if bytes > 0 {
            add(bytes, self.copy_byte);
            add(work.message_bytes, self.send_byte);
            add(work.host_bytes, self.host_byte);
            add(work.disk_bytes, self.disk_byte);
            add(work.written_bytes, self.write_byte);
        }
        if (work.rounds | work.sleeps | work.timers) > 0 {
            add(work.rounds, self.round as f64);
            add(work.sleeps, self.sleep as f64);
            add(work.timers, self.timer as f64);
        }
        add(work.xor_bytes, self.xor_byte);
        sum
    }
}

/// How much of each kind of work there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Hosts' requests taken in.
    pub requests: u64,
    /// Hosts' requests answered.
    pub replies: u64,
    /// Messages to other nodes.
    pub sent: u64,
    /// Messages from other nodes.
    pub received: u64,
    /// Messages of nodes to themselves.
    pub local: u64,
    /// Commands to other nodes' workers.
    pub commands: u64,
    /// Commands of other nodes.
    pub executed: u64,
    /// Messages with which a worker's locks or timestamps are asked or given back.
    pub locks: u64,
    /// Disk operations begun.
    pub disk_starts: u64,
    /// Disk operations ended.
    pub disk_ends: u64,
    /// Those of them that write.
    pub disk_writes: u64,
    /// Those of them that flush.
    pub flushes: u64,
    /// Stripe units that messages carried or disk operations moved.
    pub units: u64,
    /// Bytes of messages.
    pub message_bytes: u64,
    /// Bytes of disk operations.
    pub disk_bytes: u64,
    /// Those of them that were written.
    pub written_bytes: u64,
    /// Bytes from and to hosts.
    pub host_bytes: u64,
    /// Bytes added up.
    pub xor_bytes: u64,
    /// Timers.
    pub timers: u64,
    /// Rounds.
    pub rounds: u64,
    /// How often a processor that works in rounds had nothing left to do.
    pub sleeps: u64,
    /// How often a host's thread had.
    pub host_sleeps: u64,
}

impl Work {
    /// Before a node handles an input.
    pub(super) fn before(input: &Input) -> Work {
        let mut work = Work::default();
        match input {
            Input::Message(m) if m.from == m.to => work.local = 1,
            Input::Message(m) => {
                work.requests = matches!(m.body, Some(Body::Request(_))).into();
                work.received = 1;
            }
            Input::Disk(..) => work.disk_ends = 1,
            Input::Timer(_) => work.timers = 1,
            Input::Host(_, _, op) | Input::Ordered(.., op) | Input::Named(.., op) => {
                work.requests = 1;
                if let HostOp::Write(_, data) = op {
                    work.host_bytes = data.len() as u64;
                }
            }
            Input::HostGone(_) | Input::Map(_) | Input::Full(_) => {}
        }
        work
    }

    /// To carry out an output; `unit` is the bytes of a stripe unit.
    pub(super) fn after(output: &Output, unit: u64) -> Work {
        let mut work = Work::default();
        work.add(output, unit);
        work
    }

    /// Adds what it takes to carry out an output.
    pub(super) fn add(&mut self, output: &Output, unit: u64) {
        match output {
            Output::Send(m) => {
                let bytes = m.body.as_ref().map_or(0, |b| b.payload());
                self.sent += u64::from(m.from != m.to);
                self.replies += u64::from(matches!(m.body, Some(Body::Done { .. })));
                self.message_bytes += bytes;
                self.units += bytes.div_ceil(unit);
            }
            Output::Disk(request) => {
                let (read, written) = match &request.op {
                    DiskOp::Read { len, .. } | DiskOp::Discard { len, .. } => (*len, 0),
                    DiskOp::Write { data, .. } => (0, data.iter().map(|b| b.len() as u64).sum()),
                    DiskOp::Flush => (0, 0),
                };
                self.disk_starts += 1;
                self.disk_writes += u64::from(written > 0);
                self.flushes += u64::from(matches!(request.op, DiskOp::Flush));
                self.disk_bytes += read + written;
                self.written_bytes += written;
                self.units += (read + written).div_ceil(unit);
            }
            Output::Reply(_, result) => {
                self.replies += 1;
                if let Ok(HostData::Bytes(pieces)) = result {
                    self.host_bytes += pieces.iter().map(|b| b.len() as u64).sum::<u64>();
                }
            }
            _ => {}
        }
    }

    /// Leaves out what an endpoint has no part in: its hosts' requests are taken in and answered by the controller. Where links
    /// are one-sided no byte is its processor's work but those that it adds up.
    pub(super) fn leave_to_controller(&mut self, one_sided: bool) {
        (self.requests, self.replies) = (0, 0);
        if one_sided {
            (self.message_bytes, self.host_bytes, self.units) = (0, 0, 0);
        }
    }

    /// Has each kind go together with that of another.
    fn each(&mut self, other: &Work, put: impl Fn(&mut u64, u64)) {
        put(&mut self.requests, other.requests);
        put(&mut self.replies, other.replies);
        put(&mut self.sent, other.sent);
        put(&mut self.received, other.received);
        put(&mut self.local, other.local);
        put(&mut self.commands, other.commands);
        put(&mut self.executed, other.executed);
        put(&mut self.locks, other.locks);
        put(&mut self.disk_starts, other.disk_starts);
        put(&mut self.disk_ends, other.disk_ends);
        put(&mut self.disk_writes, other.disk_writes);
        put(&mut self.flushes, other.flushes);
        put(&mut self.units, other.units);
        put(&mut self.message_bytes, other.message_bytes);
        put(&mut self.disk_bytes, other.disk_bytes);
        put(&mut self.written_bytes, other.written_bytes);
        put(&mut self.host_bytes, other.host_bytes);
        put(&mut self.xor_bytes, other.xor_bytes);
        put(&mut self.timers, other.timers);
        put(&mut self.rounds, other.rounds);
        put(&mut self.sleeps, other.sleeps);
        put(&mut self.host_sleeps, other.host_sleeps);
    }
}

impl AddAssign<&Work> for Work {
    fn add_assign(&mut self, other: &Work) {
        self.each(other, |a, b| *a += b);
    }
}

impl Sub for Work {
    type Output = Work;

    fn sub(self, earlier: Work) -> Work {
        let mut since = self;
        since.each(&earlier, |a, b| *a -= b);
        since
    }
}
