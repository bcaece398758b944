//! What work costs a node's processor, in instructions.
//!
//! TickerTAIP says that its simulator's path lengths were measured on the prototype and on HP-UX
//! workstations (4.2), and gives none. These are ours: round numbers of the order that such code
//! had then, with their sum fitted once on Table VII's latencies (the row of 4 KB at 100 MB/s:
//! what is beyond the disk's own 23.6 ms), and left alone since.

use serde::{Deserialize, Serialize};
use weft_core::node::{HostData, HostOp, Input, Output};
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
    /// A disk operation: set up.
    pub disk_start: u64,
    /// A disk operation: its interrupt.
    pub disk_end: u64,
    /// Each stripe unit that a message carries or a disk operation moves: its entry in the plan.
    pub unit: u64,
    /// Each byte that a processor copies: of a message, of a disk operation, and from and to
    /// a host. 0 where DMA engines do it, as in TickerTAIP (4.2).
    pub copy_byte: f64,
    /// A timer.
    pub timer: u64,
    /// Each byte added up for parity: words of four bytes, two loads, one exclusive or, one
    /// store, and a quarter of that for the loop.
    pub xor_byte: f64,
}

impl Default for PathLengths {
    fn default() -> Self {
        PathLengths {
            request: 10_000,
            reply: 4_000,
            send: 600,
            receive: 1_000,
            local: 500,
            disk_start: 2_000,
            disk_end: 2_000,
            unit: 60,
            copy_byte: 0.0,
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
        disk_start: 0,
        disk_end: 0,
        unit: 0,
        copy_byte: 0.0,
        timer: 0,
        xor_byte: 0.0,
    };

    /// Work before a node handles an input.
    pub(super) fn before(&self, input: &Input) -> u64 {
        let bytes = |n: usize| (n as f64 * self.copy_byte).round() as u64;
        match input {
            Input::Host(_, _, HostOp::Write(_, data))
            | Input::Ordered(_, _, _, HostOp::Write(_, data)) => self.request + bytes(data.len()),
            Input::Message(m) if m.from == m.to => self.local,
            Input::Message(_) => self.receive,
            Input::Disk(..) => self.disk_end,
            Input::Timer(_) => self.timer,
            Input::Host(..) | Input::Ordered(..) => self.request,
            Input::HostGone(_) | Input::Map(_) => 0,
        }
    }

    /// Work to carry out an output; `unit` is the bytes of a stripe unit.
    pub(super) fn after(&self, output: &Output, unit: u64) -> u64 {
        let copied = |bytes: u64| (bytes as f64 * self.copy_byte).round() as u64;
        let units = |bytes: u64| bytes.div_ceil(unit) * self.unit + copied(bytes);
        match output {
            Output::Send(m) => {
                let bytes = m.body.as_ref().map_or(0, |b| b.payload());
                let send = if m.from == m.to { 0 } else { self.send };
                send + units(bytes)
            }
            Output::Disk(request) => {
                self.disk_start
                    + match &request.op {
                        DiskOp::Read { len, .. } | DiskOp::Discard { len, .. } => units(*len),
                        DiskOp::Write { data, .. } => {
                            units(data.iter().map(|b| b.len() as u64).sum())
                        }
                        DiskOp::Flush => 0,
                    }
            }
            Output::Reply(_, Ok(HostData::Bytes(pieces))) => {
                self.reply + copied(pieces.iter().map(|b| b.len() as u64).sum())
            }
            Output::Reply(..) => self.reply,
            _ => 0,
        }
    }
}
