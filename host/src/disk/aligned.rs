//! Memory for direct I/O: buffers that begin at a page, pooled because fresh pages are dear.
//!
//! This is one of the two places with `unsafe` (the other is the ring): the standard
//! library has no safe way to ask for aligned memory. Memory is zeroed when it is made, so
//! that a buffer is always initialized, whatever stood in it last.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

const ALIGN: usize = 4096;

/// Bytes that a pool keeps for later at most.
const KEEP: usize = 32 << 20;

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
        Layout::from_size_align(capacity, ALIGN).expect("a capacity that an allocation can have")
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

#[derive(Debug, Default)]
struct Kept {
    free: Vec<Memory>,
    bytes: usize,
}

/// Where buffers come from and go back to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<Kept>>);

impl Pool {
    /// A buffer of `len` bytes, of any content.
    pub(crate) fn get(&self, len: usize) -> AlignedBuf {
        let capacity = len.next_power_of_two().max(ALIGN);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.free.iter().rposition(|m| m.capacity == capacity);
        let memory = match found {
            Some(n) => {
                kept.bytes -= capacity;
                kept.free.swap_remove(n)
            }
            None => Memory::new(capacity),
        };
        drop(kept);
        AlignedBuf { memory: Some(memory), len, pool: self.clone() }
    }
}

/// A buffer that begins at a page and goes back to its pool.
#[derive(Debug)]
pub(crate) struct AlignedBuf {
    /// Always there until the buffer is dropped.
    memory: Option<Memory>,
    len: usize,
    pool: Pool,
}

impl AlignedBuf {
    /// Where it begins.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.as_ref().map_or(std::ptr::null_mut(), |m| m.start.as_ptr())
    }

    /// Its bytes.
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialized bytes are there, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            // SAFETY: `len` initialized bytes are there for as long as `self` is borrowed.
            Some(m) => unsafe { std::slice::from_raw_parts(m.start.as_ptr(), self.len) },
            None => &[],
        }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        let mut kept = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + memory.capacity <= KEEP {
            kept.bytes += memory.capacity;
            kept.free.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let pool = Pool::default();
        let mut a = pool.get(5000);
        assert_eq!(a.as_mut_ptr() as usize % ALIGN, 0);
        assert_eq!(a.as_mut().len(), 5000);
        a.as_mut().fill(7);
        let place = a.as_mut_ptr();
        drop(a);
        assert_eq!(pool.get(8192).as_mut_ptr(), place);
        assert!(pool.get(100).as_ref().len() == 100);
    }

    #[test]
    fn a_buffer_lives_as_long_as_the_bytes_made_of_it() {
        let mut buffer = Pool::default().get(4096);
        buffer.as_mut().fill(9);
        let bytes = bytes::Bytes::from_owner(buffer).slice(10..20);
        assert_eq!(&bytes[..], [9; 10]);
    }
}
