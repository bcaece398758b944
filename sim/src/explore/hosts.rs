//! Hosts: what they ask, and what they see.

use std::hash::{Hash, Hasher};
use std::ops::Range as Blocks;

use weft_core::cluster::Volume;
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::plan::Range;
use weft_core::units::{Nanos, NodeId};

use super::setup::{Ask, Host, Setup, UNIT_BLOCKS};
use crate::check::{BLOCK, Did, Op, check_history, content, numbers};

/// The number of a request to scrub.
pub(super) const SCRUB: u64 = 0;

/// The hosts, and the history of what they asked and saw. Its times count what they did, so that
/// nothing that they did not see makes a difference.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    hosts: Vec<Host>,
    /// How far each is, and whether it waits for an answer.
    at: Vec<(usize, Option<u32>)>,
    ops: Vec<Op>,
    /// The node at which each operation was asked for has died meanwhile.
    bereft: Vec<u32>,
    clock: Nanos,
}

impl Hash for Hosts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.at, &self.bereft, self.clock).hash(state);
        for op in &self.ops {
            (op.id, &op.blocks, op.start, op.end).hash(state);
            if let Did::Read(values) = &op.did {
                values.hash(state);
            }
        }
    }
}

impl Hosts {
    /// Lets in the hosts; before there are none.
    pub fn let_in(&mut self, setup: &Setup) {
        self.hosts = setup.hosts.clone();
        self.at = vec![(0, None); self.hosts.len()];
    }

    /// The hosts ask nothing more.
    pub fn send_home(&mut self) {
        self.at.iter_mut().zip(&self.hosts).for_each(|(at, host)| at.0 = host.asks.len());
    }

    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// The node of a host that has something to ask.
    pub fn asks(&self, host: usize) -> Option<NodeId> {
        let (next, waits) = self.at[host];
        let more = waits.is_none() && next < self.hosts[host].asks.len();
        more.then(|| self.hosts[host].node)
    }

    /// A host asks: the node, the number, the request.
    pub fn ask(&mut self, host: usize, volume: &Volume) -> (NodeId, u64, HostOp) {
        let ask = self.hosts[host].asks[self.at[host].0].clone();
        let node = self.hosts[host].node;
        let blocks = |units: &Blocks<u64>| units.start * UNIT_BLOCKS..units.end * UNIT_BLOCKS;
        let (id, op) = match ask {
            Ask::Write(units) => self.begin(blocks(&units), true),
            Ask::Read(units) => self.begin(blocks(&units), false),
        };
        debug_assert!(self.ops.iter().all(|op| op.blocks.end * BLOCK <= volume.size));
        self.at[host].0 += 1;
        self.at[host].1 = Some(id as u32);
        (node, id, op)
    }

    /// The write that fills the volume before anything else happens.
    pub fn fill(&mut self, volume: &Volume) -> (u64, HostOp) {
        self.begin(0..volume.size / BLOCK, true)
    }

    /// A read of these blocks, by someone else.
    pub fn read(&mut self, blocks: Blocks<u64>) -> (u64, HostOp) {
        self.begin(blocks, false)
    }

    fn begin(&mut self, blocks: Blocks<u64>, writes: bool) -> (u64, HostOp) {
        self.clock += 1;
        let id = self.ops.len() as u32 + 1;
        let offset = blocks.start * BLOCK;
        let len = (blocks.end - blocks.start) * BLOCK;
        let (did, op) = if writes {
            let data = content(id, blocks.clone());
            (Did::Wrote { zeros: false }, HostOp::Write(offset, data.into()))
        } else {
            (Did::Read(Vec::new()), HostOp::Read(Range { offset, len }))
        };
        self.ops.push(Op { id, did, blocks, start: self.clock, end: None, by: None });
        (id.into(), op)
    }

    /// A request is answered.
    /// If something `may_be_lost`, it may fail for that: then nobody knows what became of it.
    pub fn answered(
        &mut self,
        id: u64,
        result: Result<HostData, HostError>,
        may_be_lost: bool,
    ) -> Result<(), String> {
        if id == SCRUB {
            return match result {
                Ok(HostData::Scrubbed(p, _)) if p.is_true() => Ok(()),
                other => Err(format!("parity is not true at rest: {other:?}")),
            };
        }
        self.clock += 1;
        let op = &mut self.ops[id as usize - 1];
        if op.end.is_some() {
            return Err(format!("request {id} is answered twice"));
        }
        match result {
            Ok(HostData::Bytes(parts)) => {
                let bytes: Vec<u8> = parts.iter().flat_map(|p| p.to_bytes()).collect();
                let values = numbers(op.blocks.start, &bytes)
                    .map_err(|block| format!("block {block} holds what nobody wrote"))?;
                op.did = Did::Read(values);
            }
            Ok(_) => {}
            // It was asked of a node that has not come back into the cluster: nothing was done.
            Err(HostError::NotServing) => op.blocks = 0..0,
            Err(HostError::TooManyLost) if may_be_lost && matches!(op.did, Did::Read(_)) => {
                op.blocks = 0..0;
            }
            Err(HostError::TooManyLost) if may_be_lost => {
                self.bereft.push(op.id);
                self.free(id);
                return Ok(());
            }
            Err(error) => return Err(format!("request {id} failed: {error}")),
        }
        op.end = Some(self.clock);
        self.free(id);
        Ok(())
    }

    /// A host does not wait for a request any more.
    fn free(&mut self, id: u64) {
        for (_, waits) in &mut self.at {
            *waits = waits.filter(|w| u64::from(*w) != id);
        }
    }

    /// A node dies: its hosts are not answered.
    pub fn died(&mut self, node: NodeId) {
        for (host, (next, waits)) in self.hosts.iter().zip(&mut self.at) {
            if host.node == node
                && let Some(id) = waits.take()
            {
                self.bereft.push(id);
                *next = host.asks.len();
            }
        }
    }

    /// A request that should have been answered.
    pub fn unanswered(&self) -> Option<u32> {
        let waits = |op: &&Op| op.end.is_none() && !self.bereft.contains(&op.id);
        self.ops.iter().find(waits).map(|op| op.id)
    }

    /// What the last read saw, for each block; nothing if it failed.
    pub fn last_seen(&self) -> Vec<u32> {
        match self.ops.last().map(|op| &op.did) {
            Some(Did::Read(values)) => values.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether what the hosts saw could have been so.
    pub fn judge(&self) -> Result<(), String> {
        // A read that was never answered saw nothing.
        let counts = |op: &&Op| op.end.is_some() || matches!(op.did, Did::Wrote { .. });
        check_history(&self.ops.iter().filter(counts).cloned().collect::<Vec<_>>())
    }
}
