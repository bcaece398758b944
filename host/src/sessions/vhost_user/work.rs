//! Requests of one disk that nodes have in work, and how much there may be of them.

use std::collections::HashMap;
use std::sync::Arc;

use super::memory::Guest;
use super::request::Parts;
use crate::sessions::budget::Use;
use crate::sessions::link::Bounds;

/// What a disk may have in work before its queues are not looked at.
const BOUNDS: Bounds = Bounds { bytes: 32 << 20, requests: 1024 };

/// A request without an answer.
pub(super) struct Begun {
    /// Its queue, and which life of that.
    pub(super) ring: usize,
    pub(super) life: u64,
    pub(super) head: u16,
    /// The memory as it was when the request came.
    pub(super) guest: Arc<Guest>,
    pub(super) parts: Parts,
    pub(super) bytes: u64,
}

/// All of them.
pub(super) struct Work {
    begun: HashMap<u64, Begun>,
    bytes: u64,
    latest: u64,
    memory: Use,
}

impl Work {
    /// None yet.
    pub(super) fn new(memory: Use) -> Work {
        Work { begun: HashMap::new(), bytes: 0, latest: 0, memory }
    }

    /// A request is in work from now on. Its number.
    pub(super) fn begin(&mut self, begun: Begun) -> u64 {
        self.latest += 1;
        self.bytes += begun.bytes;
        self.memory.is(self.bytes);
        self.begun.insert(self.latest, begun);
        self.latest
    }

    /// A request is over.
    pub(super) fn end(&mut self, number: u64) -> Option<Begun> {
        let begun = self.begun.remove(&number)?;
        self.bytes -= begun.bytes;
        self.memory.is(self.bytes);
        Some(begun)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// The queues of those that have been begun, each in one of its lives.
    pub(super) fn rings(&self) -> impl Iterator<Item = (usize, u64)> {
        self.begun.values().map(|begun| (begun.ring, begun.life))
    }

    /// Whether enough is in work, so that the rest has to wait.
    pub(super) fn is_full(&self) -> bool {
        let is_much = self.bytes >= BOUNDS.bytes || self.begun.len() >= BOUNDS.requests;
        is_much || self.memory.is_used_up()
    }

    /// What they use of the memory of all hosts.
    pub(super) fn memory(&self) -> &Use {
        &self.memory
    }

    /// Whether the memory of all hosts has room for this many bytes more.
    pub(super) fn has_room_for(&self, bytes: u64) -> bool {
        self.memory.has_room_for(bytes)
    }
}
