//! The memory of a virtual machine, shared with this process.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vhost::vhost_user::{Error, Result};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};
use vm_memory::{GuestMemoryRegion, GuestRegionMmap, MmapRegion};

/// The memory by the machine's own addresses.
pub(super) type Guest = GuestMemoryMmap;

/// The most regions that a machine's memory can have.
pub(super) const MOST_REGIONS: usize = 256;

/// A run of bytes in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) at: GuestAddress,
    pub(super) len: usize,
}

/// Length of several segments.
pub(super) fn length(segments: &[Segment]) -> u64 {
    segments.iter().map(|s| s.len as u64).sum()
}

/// Whether a segment lies in the memory.
pub(super) fn holds(guest: &Guest, segment: Segment) -> bool {
    guest.check_range(segment.at, segment.len, Permissions::ReadWrite)
}

/// Refuses a file that ends before bytes that are mapped of it: whoever looks at them dies.
pub(super) fn check_file(file: &File, offset: u64, len: u64) -> Result<()> {
    let there = file.metadata().map_err(Error::ReqHandlerError)?.len();
    let is_long = offset.checked_add(len).is_some_and(|end| end <= there);
    if is_long { Ok(()) } else { Err(Error::InvalidParam) }
}

/// Copies segments to `out`, until one of them ends.
pub(super) fn gather(guest: &Guest, segments: &[Segment], out: &mut [u8]) -> io::Result<()> {
    let mut rest = out;
    for segment in segments {
        let (now, later) = rest.split_at_mut(segment.len.min(rest.len()));
        guest.read_slice(now, segment.at).map_err(io::Error::other)?;
        rest = later;
    }
    Ok(())
}

/// Where the next bytes go in segments.
pub(super) struct Cursor<'a> {
    guest: &'a Guest,
    segments: &'a [Segment],
    /// Bytes of the first segment that are filled.
    filled: usize,
}

impl<'a> Cursor<'a> {
    /// The beginning.
    pub(super) fn new(guest: &'a Guest, segments: &'a [Segment]) -> Cursor<'a> {
        Cursor { guest, segments, filled: 0 }
    }

    /// Copies bytes, which must fit.
    pub(super) fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Some((first, others)) = self.segments.split_first() else {
                return Err(io::Error::other("more bytes than the request's buffers hold"));
            };
            let (now, later) = bytes.split_at(bytes.len().min(first.len - self.filled));
            let at = first.at.unchecked_add(self.filled as u64);
            self.guest.write_slice(now, at).map_err(io::Error::other)?;
            (bytes, self.filled) = (later, self.filled + now.len());
            if self.filled == first.len {
                (self.segments, self.filled) = (others, 0);
            }
        }
        Ok(())
    }
}

/// The memory, and where the virtual machine's process has it.
#[derive(Default)]
pub(super) struct Memory {
    guest: Arc<Guest>,
    regions: Vec<Region>,
}

struct Region {
    /// In the address space of the virtual machine's process.
    user: u64,
    /// In the virtual machine.
    at: u64,
    len: u64,
}

impl Memory {
    /// By the machine's own addresses.
    pub(super) fn guest(&self) -> &Arc<Guest> {
        &self.guest
    }

    /// These regions take the place of all others.
    pub(super) fn set(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
    ) -> Result<()> {
        let mut new = Memory::default();
        for (region, file) in regions.iter().zip(files) {
            new.add(region, file)?;
        }
        *self = new;
        Ok(())
    }

    /// One more region.
    pub(super) fn add(&mut self, region: &VhostUserMemoryRegion, file: File) -> Result<()> {
        if self.regions.len() == MOST_REGIONS
            || region.user_addr.checked_add(region.memory_size).is_none()
        {
            return Err(Error::InvalidParam);
        }
        check_file(&file, region.mmap_offset, region.memory_size)?;
        let mapped: MmapRegion = region.mmap_region(file)?;
        let at = GuestAddress(region.guest_phys_addr);
        let mapped = GuestRegionMmap::new(mapped, at).ok_or(Error::InvalidParam)?;
        let len = mapped.len();
        let guest = self.guest.insert_region(Arc::new(mapped));
        self.guest = Arc::new(guest.map_err(|e| Error::ReqHandlerError(io::Error::other(e)))?);
        self.regions.push(Region { user: region.user_addr, at: at.0, len });
        Ok(())
    }

    /// One region less. Requests in work keep it until they are over.
    pub(super) fn remove(&mut self, region: &VhostUserMemoryRegion) -> Result<()> {
        let is_it = |r: &Region| r.user == region.user_addr && r.at == region.guest_phys_addr;
        let index = self.regions.iter().position(is_it).ok_or(Error::InvalidParam)?;
        let Region { at, len, .. } = self.regions.swap_remove(index);
        self.guest = match self.regions.is_empty() {
            true => Arc::default(),
            false => {
                let rest = self.guest.remove_region(GuestAddress(at), len);
                Arc::new(rest.map_err(|e| Error::ReqHandlerError(io::Error::other(e)))?.0)
            }
        };
        Ok(())
    }

    /// An address of the virtual machine's process, as the machine has it.
    pub(super) fn address(&self, user: u64) -> Option<GuestAddress> {
        let region = self.regions.iter().find(|r| user >= r.user && user - r.user < r.len)?;
        Some(GuestAddress(region.at + (user - region.user)))
    }
}
