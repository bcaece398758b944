//! Memory for bulk data: buffers that begin at a page, pooled because fresh pages are dear.
//!
//! What hosts send is received into such a buffer, and direct I/O writes it from there: it takes no other
//! memory. The buffer that came back last is given out first, since it may still be in the processor's cache.
//!
//! This is one of the two places with `unsafe` (the other is the ring of disk operations): the standard library has
//! no safe way to ask for aligned memory. Memory is zeroed when it is made, and not when it is used again: a buffer is
//! always initialized, and holds what stood in it last.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Buffers begin at multiples of this.
pub const PAGE: usize = 4096;

/// Bytes that a pool keeps for later at most.
const KEEP: usize = 32 << 20;

/// From as many freed bytes on pages are given back: that takes some milliseconds.
const MUCH: usize = 4 << 20;

#[cfg(feature = "mimalloc")]
unsafe extern "C" {
    /// mimalloc gives pages back when the thread that had them frees more, which may be never; this has it do so now.
    fn mi_collect(force: bool);
}

/// Has the allocator give pages of the calling thread back to the system in which nothing is used. That takes some
/// milliseconds if they are many.
#[cfg(feature = "mimalloc")]
pub fn give_pages_back() {
    // So that it is linked.
    use libmimalloc_sys as _;
    // SAFETY: it may be called at any time, and changes nothing that is in use.
    unsafe { mi_collect(true) }
}

/// Has the allocator give pages back to the system: those other than mimalloc do so by themselves.
#[cfg(not(feature = "mimalloc"))]
pub fn give_pages_back() {}

/// One allocation.
#[derive(Debug)]
struct Memory {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the memory is owned by this value alone, like a `Box<[u8]>`'s.
unsafe impl Send for Memory {}
// SAFETY: a shared reference only reads, as with a `Box<[u8]>`.
unsafe impl Sync for Memory {}

impl Memory {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, PAGE).expect("a capacity that an allocation can have")
    }

    fn new(capacity: usize) -> Memory {
        let layout = Memory::layout(capacity);
        // SAFETY: the layout's size is not zero: a capacity is at least a page.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Memory { start, capacity }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nothing else refers to it.
        unsafe { dealloc(self.start.as_ptr(), Memory::layout(self.capacity)) }
    }
}

/// Buffers of one capacity.
#[derive(Debug, Default)]
struct Shelf {
    /// The last came back last.
    free: Vec<Memory>,
    /// The lowest count since unused buffers were last freed: that number was not needed.
    fewest: usize,
}

impl Shelf {
    fn take(&mut self) -> Option<Memory> {
        let memory = self.free.pop();
        self.fewest = self.fewest.min(self.free.len());
        memory
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// By capacity.
    shelves: BTreeMap<usize, Shelf>,
    bytes: usize,
    /// Bytes freed as unused, whose pages the allocator may still keep.
    freed: usize,
}

impl Kept {
    fn take(&mut self, capacity: usize) -> Option<Memory> {
        let memory = self.shelves.get_mut(&capacity)?.take()?;
        self.bytes -= capacity;
        Some(memory)
    }

    /// Takes out half of those that were not needed since this was called last, the longest unused first.
    fn unused(&mut self) -> Vec<Memory> {
        let mut out = Vec::new();
        for shelf in self.shelves.values_mut() {
            out.extend(shelf.free.drain(..shelf.fewest.div_ceil(2)));
            shelf.fewest = shelf.free.len();
        }
        let bytes = out.iter().map(|memory| memory.capacity).sum::<usize>();
        self.bytes -= bytes;
        self.freed += bytes;
        out
    }

    /// Whether it is time to give pages back: much was freed, and no more is.
    fn gives_back(&mut self) -> bool {
        let gives_back = self.freed >= MUCH;
        if gives_back {
            self.freed = 0;
        }
        gives_back
    }

    /// What there is most of makes room.
    fn put(&mut self, memory: Memory) {
        let capacity = memory.capacity;
        if capacity > KEEP {
            return;
        }
        while self.bytes + capacity > KEEP {
            let all = self.shelves.iter();
            let most = all.max_by_key(|(capacity, shelf)| *capacity * shelf.free.len());
            let Some((&of, _)) = most.filter(|(_, shelf)| !shelf.free.is_empty()) else { return };
            drop(self.take(of));
        }
        self.bytes += capacity;
        self.shelves.entry(capacity).or_default().free.push(memory);
    }
}

/// Where buffers come from and go back to.
#[derive(Clone, Debug, Default)]
pub struct Pool(Arc<Mutex<Kept>>);

/// What all of a process share.
static OF_PROCESS: LazyLock<Pool> = LazyLock::new(Pool::default);

impl Pool {
    /// The one that all of this process share.
    pub fn of_process() -> Pool {
        OF_PROCESS.clone()
    }

    /// A buffer of `len` bytes, of any content.
    pub fn get(&self, len: usize) -> PageBuffer {
        let capacity = len.next_power_of_two().max(PAGE);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.take(capacity);
        drop(kept);
        let memory = found.unwrap_or_else(|| Memory::new(capacity));
        PageBuffer { memory: Some(memory), len, pool: self.clone() }
    }

    /// Frees half of the buffers that were not needed since this was called last. Called now and then, it leaves a pool
    /// under load alone, and empties an idle one. A few buffers that are kept may hold up much memory, since
    /// allocators give back whole runs of pages only.
    pub fn give_back_unused(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = kept.unused();
        let gives_back = unused.is_empty() && kept.gives_back();
        drop(kept);
        drop(unused);
        if gives_back {
            give_pages_back();
        }
    }

    /// Whether there may be something to give back.
    pub fn keeps_any(&self) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes > 0 || kept.freed >= MUCH
    }
}

/// A buffer that begins at a page and goes back to its pool.
#[derive(Debug)]
pub struct PageBuffer {
    /// Always there until the buffer is dropped.
    memory: Option<Memory>,
    len: usize,
    pool: Pool,
}

impl AsMut<[u8]> for PageBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        match &self.memory {
            // SAFETY: `len` initialized bytes are there, and `self` is borrowed mutably.
            Some(m) => unsafe { std::slice::from_raw_parts_mut(m.start.as_ptr(), self.len) },
            None => &mut [],
        }
    }
}

impl AsRef<[u8]> for PageBuffer {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            // SAFETY: `len` initialized bytes are there for as long as `self` is borrowed.
            Some(m) => unsafe { std::slice::from_raw_parts(m.start.as_ptr(), self.len) },
            None => &[],
        }
    }
}

impl Drop for PageBuffer {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        self.pool.0.lock().unwrap_or_else(PoisonError::into_inner).put(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let pool = Pool::default();
        let place = |buffer: &PageBuffer| buffer.as_ref().as_ptr() as usize;
        let (mut a, b) = (pool.get(5000), pool.get(8192));
        assert_eq!((a.as_mut().len(), place(&a) % PAGE), (5000, 0));
        a.as_mut().fill(7);
        let (first, last) = (place(&a), place(&b));
        drop(a);
        drop(b);
        let again = pool.get(8192);
        assert_eq!(place(&again), last, "the one that came back last");
        assert_eq!(place(&pool.get(4097)), first);
        assert_eq!(pool.get(100).as_ref().len(), 100);
    }

    #[test]
    fn what_is_not_needed_is_given_back_and_the_rest_is_kept() {
        let pool = Pool::default();
        let kept = || pool.0.lock().unwrap().bytes / PAGE;
        let many: Vec<_> = (0..16).map(|_| pool.get(PAGE)).collect();
        drop(many);
        pool.give_back_unused();
        assert_eq!(kept(), 16, "all were in use just before");
        let few: Vec<_> = (0..6).map(|_| pool.get(PAGE)).collect();
        drop(few);
        pool.give_back_unused();
        assert_eq!(kept(), 11, "ten were not needed");
        for left in [5, 2, 1, 0] {
            assert!(pool.keeps_any());
            pool.give_back_unused();
            assert_eq!(kept(), left);
        }
        assert!(!pool.keeps_any());
    }

    #[test]
    fn so_much_is_kept_and_what_there_is_most_of_makes_room() {
        let pool = Pool::default();
        let kept = || pool.0.lock().unwrap().bytes;
        let many: Vec<_> = (0..KEEP / PAGE + 5).map(|_| pool.get(PAGE)).collect();
        drop(many);
        assert_eq!(kept(), KEEP);
        drop(pool.get(1 << 20));
        assert_eq!(kept(), KEEP);
        assert!(pool.0.lock().unwrap().take(1 << 20).is_some(), "it is kept in place of others");
        let before = kept();
        drop(pool.get(2 * KEEP));
        assert_eq!(kept(), before, "what is larger than all is not kept");
    }
}
