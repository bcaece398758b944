//! Requests that nodes work on, kept until they are answered so that they can be given to
//! another node when theirs stops. That is safe: the host has not been answered, so doing
//! a request twice is the same as doing it once.

use std::collections::HashMap;

use weft_core::node::{HostData, HostError, HostOp};
use weft_core::units::VolumeId;
use weft_front::nbd::server::Cookie;

use crate::engine::{Answer, Engine};

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An NBD connection, and its name for the command.
    Nbd {
        /// The connection.
        conn: usize,
        /// Its name for the command.
        cookie: Cookie,
    },
    /// A control connection.
    Control {
        /// The connection.
        conn: usize,
    },
}

impl Owner {
    fn conn(self) -> usize {
        match self {
            Owner::Nbd { conn, .. } | Owner::Control { conn } => conn,
        }
    }
}

struct Pending {
    owner: Owner,
    node: usize,
    volume: VolumeId,
    op: HostOp,
    then_flush: bool,
}

/// What a request came to.
pub(crate) struct Finished {
    pub(crate) owner: Owner,
    pub(crate) result: Result<HostData, HostError>,
}

/// The requests in work.
#[derive(Default)]
pub(crate) struct Requests {
    next: u64,
    pending: HashMap<u64, Pending>,
}

impl Requests {
    /// Gives a request to `node` if it takes requests, or to another that does. With
    /// `then_flush` the answer waits until what was written is safe.
    pub(crate) fn submit(
        &mut self,
        engine: &mut Engine,
        owner: Owner,
        node: usize,
        volume: VolumeId,
        op: HostOp,
        then_flush: bool,
    ) {
        let pending = Pending { owner, node, volume, op, then_flush };
        self.issue(engine, pending);
    }

    fn issue(&mut self, engine: &mut Engine, mut pending: Pending) {
        let number = self.next;
        self.next += 1;
        let node = engine.originator(pending.node);
        let (volume, op) = (pending.volume, pending.op.clone());
        pending.node = node.unwrap_or(pending.node);
        self.pending.insert(number, pending);
        match node {
            Some(node) => engine.submit(node, number, volume, op),
            None => engine.answers.push((number, Err(HostError::NotServing))),
        }
    }

    /// Takes an answer; `None` if nobody waits for it, or if something is still to be done.
    pub(crate) fn finish(&mut self, engine: &mut Engine, answer: Answer) -> Option<Finished> {
        let (number, result) = answer;
        let mut pending = self.pending.remove(&number)?;
        if pending.then_flush && result.is_ok() {
            pending.then_flush = false;
            pending.op = HostOp::Flush;
            self.issue(engine, pending);
            return None;
        }
        Some(Finished { owner: pending.owner, result })
    }

    /// Gives what a node that stopped had in work to others.
    pub(crate) fn move_from(&mut self, engine: &mut Engine, node: usize) {
        let mut numbers: Vec<u64> =
            self.pending.iter().filter(|(_, p)| p.node == node).map(|(n, _)| *n).collect();
        // In the order in which they came, which readers of the log will expect.
        numbers.sort_unstable();
        for number in numbers {
            if let Some(pending) = self.pending.remove(&number) {
                self.issue(engine, pending);
            }
        }
    }

    /// Nobody waits any more for the answers to a connection that is gone.
    pub(crate) fn forget(&mut self, conn: usize) {
        self.pending.retain(|_, p| p.owner.conn() != conn);
    }

    /// How many hosts' requests are in work.
    pub(crate) fn of_hosts(&self) -> usize {
        self.pending.values().filter(|p| matches!(p.owner, Owner::Nbd { .. })).count()
    }
}
