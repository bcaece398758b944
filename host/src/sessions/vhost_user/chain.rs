//! The descriptors of a request. The library walks only from a ring's next entry, and leaves out errors. Here any
//! head is walked from, and an error breaks the queue.

use std::fmt;

use virtio_bindings::virtio_ring::{VRING_DESC_F_INDIRECT, VRING_DESC_F_NEXT, VRING_DESC_F_WRITE};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address, Bytes, GuestAddress};

use super::config::SEGMENTS;
use super::memory::{Guest, Segment, holds};

/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;

/// The most descriptors of a request: its segments, a header and a status. It bounds what a turn walks over.
const MOST_DESCRIPTORS: u64 = SEGMENTS as u64 + 2;

/// A queue cannot go on: what its driver wrote makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) &'static str);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A request's memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    /// What the driver says.
    pub(super) to_read: Vec<Segment>,
    /// Where the answer goes.
    pub(super) to_fill: Vec<Segment>,
}

/// Descriptors, by number.
struct Table {
    at: GuestAddress,
    len: u64,
}

impl Table {
    fn get(&self, guest: &Guest, index: u16) -> Result<Descriptor, Broken> {
        if u64::from(index) >= self.len {
            return Err(Broken("a descriptor's number is beyond the table"));
        }
        let at = self.at.checked_add(u64::from(index) * DESCRIPTOR);
        let read = at.and_then(|at| guest.read_obj(at).ok());
        read.ok_or(Broken("a descriptor is outside the memory"))
    }
}

impl Chain {
    /// Reads the descriptors from `head` on, in a table of `len`.
    pub(super) fn walk(
        guest: &Guest,
        at: GuestAddress,
        len: u16,
        head: u16,
    ) -> Result<Chain, Broken> {
        let table = Table { at, len: len.into() };
        let mut chain = Chain::default();
        let first = table.get(guest, head)?;
        match first.flags() & VRING_DESC_F_INDIRECT as u16 {
            0 => chain.follow(guest, &table, first)?,
            _ => {
                let table = indirect(first)?;
                chain.follow(guest, &table, table.get(guest, 0)?)?;
            }
        }
        Ok(chain)
    }

    fn follow(&mut self, guest: &Guest, table: &Table, first: Descriptor) -> Result<(), Broken> {
        let mut descriptor = first;
        for _ in 0..table.len.min(MOST_DESCRIPTORS) {
            self.push(guest, descriptor)?;
            if descriptor.flags() & VRING_DESC_F_NEXT as u16 == 0 {
                return Ok(());
            }
            descriptor = table.get(guest, descriptor.next())?;
        }
        Err(Broken("a request has too many descriptors, or they form a loop"))
    }

    fn push(&mut self, guest: &Guest, descriptor: Descriptor) -> Result<(), Broken> {
        let segment = Segment { at: descriptor.addr(), len: descriptor.len() as usize };
        let is_filled = descriptor.flags() & VRING_DESC_F_WRITE as u16 != 0;
        if descriptor.flags() & VRING_DESC_F_INDIRECT as u16 != 0 {
            return Err(Broken("a table of descriptors is at an invalid place"));
        }
        if !is_filled && !self.to_fill.is_empty() {
            return Err(Broken("a request continues after the buffer for its answer"));
        }
        if segment.len == 0 {
            return Ok(());
        }
        if !holds(guest, segment) {
            return Err(Broken("a descriptor refers to bytes outside the memory"));
        }
        match is_filled {
            true => self.to_fill.push(segment),
            false => self.to_read.push(segment),
        }
        Ok(())
    }
}

/// The table that a descriptor refers to.
fn indirect(descriptor: Descriptor) -> Result<Table, Broken> {
    let len = u64::from(descriptor.len());
    let is_alone = descriptor.flags() & VRING_DESC_F_NEXT as u16 == 0;
    if !is_alone || !len.is_multiple_of(DESCRIPTOR) || len == 0 {
        return Err(Broken("a table of descriptors is malformed"));
    }
    if len / DESCRIPTOR > MOST_DESCRIPTORS {
        return Err(Broken("a table of descriptors is too long"));
    }
    Ok(Table { at: descriptor.addr(), len: len / DESCRIPTOR })
}
