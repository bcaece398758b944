//! Requests in work, noted in memory that outlives this process: the virtual machine's process keeps it, and gives it to
//! the next that serves the disk. So a request that was not answered is carried out again, and none is lost.
//!
//! The layout is that of the specification for split queues, with regions of queues at multiples of 64 bytes.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use vhost::vhost_user::message::VhostUserInflight;
use vhost::vhost_user::{Error, Result};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

use super::config::{MOST_ENTRIES, MOST_QUEUES};
use super::memory::check_file;

/// Bytes of a queue's header, and of each entry.
const HEADER: usize = 16;
const ENTRY: usize = 16;

/// Where fields are in the header.
const VERSION_AT: usize = 8;
const ENTRIES_AT: usize = 10;
const LAST_AT: usize = 12;
const USED_AT: usize = 14;

/// Where an entry says since when it is in work.
const COUNTER_AT: usize = 8;

/// The memory, for all queues.
#[derive(Clone)]
pub(super) struct Inflight {
    memory: Arc<MmapRegion>,
    queues: usize,
    entries: u16,
}

fn queue_bytes(entries: u16) -> usize {
    (HEADER + ENTRY * usize::from(entries)).next_multiple_of(64)
}

fn check(queues: u16, entries: u16) -> Result<()> {
    let fits =
        (1..=MOST_QUEUES).contains(&usize::from(queues)) && (1..=MOST_ENTRIES).contains(&entries);
    if fits { Ok(()) } else { Err(Error::InvalidParam) }
}

/// New memory, without anything in work.
pub(super) fn create(wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
    check(wanted.num_queues, wanted.queue_size)?;
    let len = queue_bytes(wanted.queue_size) * usize::from(wanted.num_queues);
    let made = || -> io::Result<File> {
        let fd = memfd_create("weft-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, len as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(File::from(fd))
    };
    let file = made().map_err(Error::ReqHandlerError)?;
    let told = VhostUserInflight::new(len as u64, 0, wanted.num_queues, wanted.queue_size);
    Ok((told, file))
}

impl Inflight {
    /// The memory that a virtual machine's process has kept.
    pub(super) fn open(said: &VhostUserInflight, file: File) -> Result<Inflight> {
        check(said.num_queues, said.queue_size)?;
        let needed = queue_bytes(said.queue_size) * usize::from(said.num_queues);
        if said.mmap_size < needed as u64 {
            return Err(Error::InvalidParam);
        }
        check_file(&file, said.mmap_offset, needed as u64)?;
        let memory = MmapRegion::from_file(FileOffset::new(file, said.mmap_offset), needed);
        let memory = memory.map_err(|e| Error::ReqHandlerError(io::Error::other(e)))?;
        let queues = said.num_queues.into();
        Ok(Inflight { memory: Arc::new(memory), queues, entries: said.queue_size })
    }

    /// What it says of one queue of this many entries, if it covers that.
    pub(super) fn queue(&self, index: usize, entries: u16) -> Option<QueueInflight> {
        let is_covered = index < self.queues && entries <= self.entries;
        let at = queue_bytes(self.entries) * index;
        is_covered.then(|| QueueInflight { memory: self.memory.clone(), at, entries, counter: 0 })
    }
}

/// The same for one queue.
pub(super) struct QueueInflight {
    memory: Arc<MmapRegion>,
    at: usize,
    entries: u16,
    counter: u64,
}

impl QueueInflight {
    fn slice(&self) -> VolatileSlice<'_> {
        let len = queue_bytes(self.entries);
        self.memory.get_slice(self.at, len).expect("the memory covers all queues")
    }

    fn get<T: vm_memory::ByteValued>(&self, at: usize) -> T {
        self.slice().read_obj(at).expect("a field is within")
    }

    fn put<T: vm_memory::ByteValued>(&self, at: usize, value: T) {
        self.slice().write_obj(value, at).expect("a field is within");
    }

    fn entry(head: u16) -> usize {
        HEADER + ENTRY * usize::from(head)
    }

    /// The heads of requests that were in work when the process before this one ended, first things first. `used` is how far the
    /// queue's answers have come.
    pub(super) fn recover(&mut self, used: u16) -> Vec<u16> {
        if self.get::<u16>(VERSION_AT) == 0 {
            self.put(VERSION_AT, 1_u16);
            self.put(ENTRIES_AT, self.entries);
        }
        // The latest answer was given, and not noted.
        let last: u16 = self.get(LAST_AT);
        if self.get::<u16>(USED_AT) != used && last < self.entries {
            self.put(Self::entry(last), 0_u8);
        }
        self.put(USED_AT, used);
        let is_in_work = |head: &u16| self.get::<u8>(Self::entry(*head)) == 1;
        let since = |head: u16| self.get::<u64>(Self::entry(head) + COUNTER_AT);
        let mut all: Vec<(u64, u16)> =
            (0..self.entries).filter(is_in_work).map(|head| (since(head), head)).collect();
        all.sort_unstable();
        self.counter = all.last().map_or(0, |(since, _)| since.wrapping_add(1));
        all.into_iter().map(|(_, head)| head).collect()
    }

    /// A request is in work from now on. One with a wrong head never is.
    pub(super) fn begin(&mut self, head: u16) {
        if head >= self.entries {
            return;
        }
        self.put(Self::entry(head) + COUNTER_AT, self.counter);
        self.counter = self.counter.wrapping_add(1);
        fence(Ordering::Release);
        self.put(Self::entry(head), 1_u8);
    }

    /// A request is about to be answered.
    pub(super) fn answers(&mut self, head: u16) {
        self.put(LAST_AT, head);
        fence(Ordering::Release);
    }

    /// It has been answered, and the answers have come this far.
    pub(super) fn answered(&mut self, head: u16, used: u16) {
        fence(Ordering::Release);
        if head < self.entries {
            self.put(Self::entry(head), 0_u8);
        }
        fence(Ordering::Release);
        self.put(USED_AT, used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> (VhostUserInflight, File) {
        create(&VhostUserInflight::new(0, 0, 2, 128)).unwrap()
    }

    fn queue((said, file): &(VhostUserInflight, File), index: usize) -> QueueInflight {
        let all = Inflight::open(said, file.try_clone().unwrap()).unwrap();
        assert!(all.queue(2, 128).is_none() && all.queue(0, 256).is_none());
        all.queue(index, 128).unwrap()
    }

    #[test]
    fn what_was_not_answered_is_found_in_the_order_in_which_it_came() {
        let memory = memory();
        let mut before = queue(&memory, 1);
        assert!(before.recover(0).is_empty());
        for head in [9, 3, 127, 5] {
            before.begin(head);
        }
        before.answers(3);
        before.answered(3, 1);
        assert_eq!(queue(&memory, 1).recover(1), [9, 127, 5]);
        assert!(queue(&memory, 0).recover(0).is_empty(), "the other queue has its own");
        let mut later = queue(&memory, 1);
        later.recover(1);
        later.begin(3);
        assert_eq!(queue(&memory, 1).recover(1), [9, 127, 5, 3]);
    }

    #[test]
    fn an_answer_that_was_given_and_not_noted_counts() {
        let memory = memory();
        let mut before = queue(&memory, 0);
        before.recover(0);
        before.begin(7);
        before.begin(8);
        before.answers(8);
        assert_eq!(queue(&memory, 0).recover(0), [7, 8], "it was not given");
        before.answers(8);
        assert_eq!(queue(&memory, 0).recover(1), [7]);
    }

    #[test]
    fn memory_that_is_too_short_or_of_a_wrong_form_is_refused() {
        let (said, file) = memory();
        for (size, queues, entries) in [
            (said.mmap_size - 1, 2, 128),
            (said.mmap_size, 3, 128),
            (u64::MAX, 2, 1024),
            (said.mmap_size, 0, 128),
            (said.mmap_size, 17, 1),
            (said.mmap_size, 1, 0),
        ] {
            let wrong = VhostUserInflight::new(size, 0, queues, entries);
            assert!(Inflight::open(&wrong, file.try_clone().unwrap()).is_err(), "{size} {queues}");
        }
        assert!(create(&VhostUserInflight::new(0, 0, 17, 1)).is_err());
    }
}
