//! Bytes on their way in.
//!
//! Headers and small payloads are received many at a time into a staging
//! buffer. A payload that is not all there yet gets a buffer of its own, and
//! as long as much of it is missing it is received straight into that.

use bytes::Bytes;

/// Size of the staging buffer.
const STAGING: usize = 64 << 10;

/// A payload that misses less than this goes through the staging buffer, so
/// that the commands behind it come with the same read.
const DIRECT: usize = 16 << 10;

/// A payload that is longer gets its memory when it is received into for the first time: whoever
/// receives may put that off.
const AT_ONCE: usize = 256 << 10;

/// A payload's buffer is made ready in steps of this many bytes: zeroing it
/// just before it is received into keeps it in the processor's cache, and
/// memory is taken only for what the client really sends.
const WINDOW: usize = 256 << 10;

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
        let bytes = Vec::with_capacity(if length <= AT_ONCE { length } else { 0 });
        self.payload = Some(Payload { bytes, filled: 0, length });
        self.settle();
    }

    /// The length of the payload expected.
    pub(crate) fn expected(&self) -> Option<usize> {
        self.payload.as_ref().map(|payload| payload.length)
    }

    /// The payload expected, if all of it is there.
    pub(crate) fn payload(&mut self) -> Option<Bytes> {
        self.payload
            .take_if(|payload| payload.missing() == 0)
            .map(|payload| Bytes::from(payload.bytes))
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

struct Payload {
    /// Received bytes, then perhaps zeroes to be received over.
    bytes: Vec<u8>,
    filled: usize,
    length: usize,
}

impl Payload {
    fn missing(&self) -> usize {
        self.length - self.filled
    }

    fn space(&mut self) -> &mut [u8] {
        if self.bytes.len() == self.filled {
            self.bytes.reserve_exact(self.missing());
            self.bytes.resize(self.filled + self.missing().min(WINDOW), 0);
        }
        &mut self.bytes[self.filled..]
    }

    fn filled(&mut self, n: usize) {
        assert!(n <= self.bytes.len() - self.filled, "more filled than given");
        self.filled += n;
    }

    fn absorb(&mut self, staged: &[u8]) {
        self.bytes.truncate(self.filled);
        self.bytes.extend_from_slice(staged);
        self.filled += staged.len();
    }
}
