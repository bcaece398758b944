//! The devices that disks are, or are parts of: what is asked of them, and when it is done.

use weft_core::store::{DiskOp, DiskRequest};
use weft_load::stats::Level;
use weft_model::disk::bus::Bus;
use weft_model::disk::{Access, Completed, Disk, is_flushed_after};

use super::*;

/// A bus that devices share.
pub(super) struct SharedBus {
    pub(super) bus: Bus,
    /// For how long it had been busy when measuring began.
    pub(super) busy_before: Nanos,
    /// How many pieces had been at it until then, over time.
    pub(super) queue_before: u128,
}

/// A device, all of which is one disk, or each part another.
pub(super) struct Device {
    pub(super) disk: Disk,
    /// Disk operations that wait or are being served.
    pub(super) queue: Level,
    /// When it was last due.
    pub(super) due: Option<Nanos>,
    /// For how long it had been busy when measuring began.
    pub(super) busy_before: Nanos,
    /// The bus that it shares with others, if it has none to itself.
    pub(super) bus: Option<u32>,
}

impl Device {
    fn submit(&mut self, buses: &mut [SharedBus], now: Nanos, id: u64, access: Access) {
        match self.bus {
            None => self.disk.submit(now, id, access),
            Some(n) => self.disk.submit_on(&mut buses[n as usize].bus, now, id, access),
        }
    }

    fn advance(&mut self, buses: &mut [SharedBus], now: Nanos, done: &mut Vec<Completed>) {
        match self.bus {
            None => self.disk.advance(now, done),
            Some(n) => self.disk.advance_on(&mut buses[n as usize].bus, now, done),
        }
    }
}

impl Place {
    /// Whether what an operation reads or writes is in NVRAM, where it needs no flush either.
    fn has_in_nvram(&self, op: &DiskOp) -> bool {
        match op {
            DiskOp::Read { offset, .. } | DiskOp::Write { offset, .. } => {
                self.nvram.contains(offset)
            }
            DiskOp::Flush | DiskOp::Discard { .. } => false,
        }
    }
}

/// Numbers of disk operations are told apart by their nodes, above this bit.
const NODE_BIT: u32 = 48;
/// Tells a write of a journalled store that is done when a flush after it is.
const FLUSH_AFTER: u64 = 1 << (NODE_BIT - 1);
/// How often the node has begun anew, as far as it fits, is between this bit and that one.
const LIFE_BIT: u32 = NODE_BIT - 7;
const MOST_LIVES: u32 = 1 << 6;

impl Simulation {
    pub(super) fn disk_begins(&mut self, node: u32, request: DiskRequest) {
        let now = self.queue.now();
        let place = &self.places[node as usize];
        let in_memory = self.system.disks.in_memory || place.has_in_nvram(&request.op);
        let Some((device, first)) = place.disk.filter(|_| !in_memory) else {
            // Nothing is on a node without disk: only a flush can come. Memory answers at once.
            let data = match request.op {
                DiskOp::Read { len, .. } => Buffer::Length(len as usize),
                _ => Buffer::Zero(0),
            };
            let processor = &mut self.processors[place.processor as usize];
            processor.waiting.push_back((node, Input::Disk(request.id, Ok(data))));
            processor.load.up(now);
            return;
        };
        let access = Access::of(&request.op, first, self.sector_bytes);
        let many = "a node has more disk operations than have numbers";
        assert!(request.id >> LIFE_BIT == 0, "{many}");
        let life = u64::from(place.life % MOST_LIVES) << LIFE_BIT;
        // The papers' disks write through; real ones have a cache that has to be flushed.
        let flushed = self.system.nodes.store == Store::Journalled && is_flushed_after(&request.op);
        let number = request.id | life | if flushed { FLUSH_AFTER } else { 0 };
        let there = &mut self.devices[device as usize];
        there.queue.up(now);
        there.submit(&mut self.buses, now, u64::from(node) << NODE_BIT | number, access);
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

    pub(super) fn disk_is_due(&mut self, device: u32) -> Result<(), String> {
        let now = self.queue.now();
        let there = &mut self.devices[device as usize];
        if there.due == Some(now) {
            there.due = None;
        }
        let mut completed = std::mem::take(&mut self.completed);
        there.advance(&mut self.buses, now, &mut completed);
        for done in completed.drain(..) {
            if done.id & FLUSH_AFTER != 0 {
                let there = &mut self.devices[device as usize];
                there.submit(&mut self.buses, now, done.id & !FLUSH_AFTER, Access::flush());
                continue;
            }
            self.devices[device as usize].queue.down(now);
            let (node, id) = ((done.id >> NODE_BIT) as u32, done.id & ((1 << LIFE_BIT) - 1));
            let life = (done.id >> LIFE_BIT) as u32 % MOST_LIVES;
            if self.places[node as usize].life % MOST_LIVES != life {
                continue;
            }
            if let Some(timeline) = &mut self.timeline {
                let kind = match done.access.kind {
                    weft_model::disk::Kind::Read => "read",
                    weft_model::disk::Kind::Write => "write",
                    weft_model::disk::Kind::Flush => "flush",
                    weft_model::disk::Kind::Discard => "discard",
                };
                let bytes = done.access.sectors * self.sector_bytes;
                timeline.disk_ended(node, id, (kind, bytes), now, &done.times);
            }
            let bytes = match done.access.kind {
                weft_model::disk::Kind::Read => done.access.sectors * self.sector_bytes,
                _ => 0,
            };
            self.input(node, Input::Disk(id, Ok(Buffer::Length(bytes as usize))))?;
        }
        self.completed = completed;
        self.watch_disk(device);
        Ok(())
    }
}
