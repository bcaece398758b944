//! Bytes on their way in.
//!
//! Headers and small payloads are received many at a time into a staging
//! buffer. A payload that is not all there yet gets a buffer of its own, and
//! as long as much of it is missing it is received straight into that.

use bytes::Bytes;
use weft_bytes::memory::{PageBuffer, Pool};

/// Size of the staging buffer.
const STAGING: usize = 64 << 10;

/// A payload that misses no more than this goes through the staging buffer, so
/// that the commands behind it come with the same read. One that is longer lies in a page-aligned buffer
/// of the process's pool, from which direct I/O can write it.
const DIRECT: usize = 16 << 10;

/// A payload that is longer gets its memory when it is received into for the first time: whoever
/// receives may put that off.
const AT_ONCE: usize = 256 << 10;

pub(crate) struct Intake {
    staging: Vec<u8>,
    /// Staged bytes are those from `start` to `end`.
    start: usize,
    end: usize,
    /// Bytes to be thrown away before anything else.
    skip: u64,
    payload: Option<Payload>,
    /// The latest space was the payload's.
    direct: bool,
}

impl Default for Intake {
    fn default() -> Intake {
        Intake {
            staging: vec![0; STAGING],
            start: 0,
            end: 0,
            skip: 0,
            payload: None,
            direct: false,
        }
    }
}

impl Intake {
    /// Where to receive to; never empty.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let staged = self.end > self.start;
        let large = |payload: &&mut Payload| !staged && payload.missing() > DIRECT;
        match self.payload.as_mut().filter(large) {
            Some(payload) => {
                self.direct = true;
                payload.space()
            }
            None => {
                self.direct = false;
                make_room(&mut self.staging, &mut self.start, &mut self.end);
                &mut self.staging[self.end..]
            }
        }
    }

    /// `n` bytes of the latest space were received.
    pub(crate) fn filled(&mut self, n: usize) {
        if let Some(payload) = self.payload.as_mut().filter(|_| self.direct) {
            payload.filled(n);
            return;
        }
        assert!(n <= self.staging.len() - self.end, "more filled than given");
        self.end += n;
        self.settle();
    }

    /// Passes staged bytes on to what waits for them.
    fn settle(&mut self) {
        let skipped = self.skip.min((self.end - self.start) as u64);
        self.skip -= skipped;
        self.start += skipped as usize;
        if let Some(payload) = &mut self.payload {
            let taken = payload.missing().min(self.end - self.start);
            payload.absorb(&self.staging[self.start..self.start + taken]);
            self.start += taken;
        }
    }

    /// The next `N` bytes, left where they are.
    pub(crate) fn peek<const N: usize>(&self) -> Option<&[u8; N]> {
        self.staging[self.start..self.end].first_chunk()
    }

    /// The next `n` bytes after `offset` others, left where they are.
    pub(crate) fn peek_at(&self, offset: usize, n: usize) -> Option<&[u8]> {
        self.staging[self.start..self.end].get(offset..offset + n)
    }

    /// Drops `n` bytes that were seen.
    pub(crate) fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.start += n;
    }

    /// Throws the next `n` bytes away, come when they may.
    pub(crate) fn skip(&mut self, n: u64) {
        self.skip += n;
        self.settle();
    }

    /// Throws everything away.
    pub(crate) fn discard(&mut self) {
        self.start = self.end;
        self.skip = 0;
        self.payload = None;
    }

    /// The next `length` bytes are a payload.
    pub(crate) fn expect(&mut self, length: usize) {
        self.payload = Some(Payload::new(length));
        self.settle();
    }

    /// The length of the payload expected.
    pub(crate) fn expected(&self) -> Option<usize> {
        self.payload.as_ref().map(|payload| payload.length)
    }

    /// The payload expected, if all of it is there.
    pub(crate) fn payload(&mut self) -> Option<Bytes> {
        self.payload.take_if(|payload| payload.missing() == 0).map(Payload::into_bytes)
    }

    /// Nothing is staged, and nothing is waited for.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end && self.skip == 0 && self.payload.is_none()
    }
}

/// Moves staged bytes to the front, and takes more memory if that is full.
fn make_room(staging: &mut Vec<u8>, start: &mut usize, end: &mut usize) {
    if *start > 0 {
        staging.copy_within(*start..*end, 0);
        *end -= *start;
        *start = 0;
    }
    if *end == staging.len() {
        staging.resize(*end + STAGING, 0);
    }
}

/// A payload, of which the beginning has been received.
struct Payload {
    memory: Memory,
    filled: usize,
    length: usize,
}

enum Memory {
    /// Of a short one, which comes through the staging buffer.
    Own(Vec<u8>),
    /// Of a long one, if it has any yet.
    Pooled(Option<PageBuffer>),
}

impl Payload {
    fn new(length: usize) -> Payload {
        let pooled = || Pool::of_process().get(length);
        let memory = match length > DIRECT {
            true => Memory::Pooled((length <= AT_ONCE).then(pooled)),
            false => Memory::Own(Vec::with_capacity(length)),
        };
        Payload { memory, filled: 0, length }
    }

    fn missing(&self) -> usize {
        self.length - self.filled
    }

    /// Where to receive what is missing of a long one. What stood in the pooled buffer before is received over: a
    /// payload is given to nobody before all of it is there.
    fn space(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Own(_) => unreachable!("it comes through the staging buffer"),
            Memory::Pooled(buffer) => {
                let buffer = buffer.get_or_insert_with(|| Pool::of_process().get(self.length));
                &mut buffer.as_mut()[self.filled..]
            }
        }
    }

    fn filled(&mut self, n: usize) {
        assert!(n <= self.missing(), "more filled than given");
        self.filled += n;
    }

    fn absorb(&mut self, staged: &[u8]) {
        match &mut self.memory {
            Memory::Own(bytes) => bytes.extend_from_slice(staged),
            Memory::Pooled(_) if staged.is_empty() => {}
            Memory::Pooled(_) => self.space()[..staged.len()].copy_from_slice(staged),
        }
        self.filled += staged.len();
    }

    fn into_bytes(self) -> Bytes {
        assert_eq!(self.missing(), 0, "all of it is there");
        match self.memory {
            Memory::Own(bytes) => Bytes::from(bytes),
            Memory::Pooled(buffer) => buffer.map_or_else(Bytes::new, Bytes::from_owner),
        }
    }
}
