//! Bytes on their way out, as a queue of segments.
//!
//! Headers gather in small buffers that are used again; data go out from
//! wherever they are, without being copied.

use std::collections::VecDeque;

use bytes::Bytes;
use weft_bytes::{Big, Writer};

/// A header buffer takes no more once it has this many bytes.
const HEADERS: usize = 4096;

/// Data up to this many bytes are copied: a segment of their own costs more.
const COPIED: usize = 512;

/// Header buffers kept for later.
const SPARES: usize = 4;

enum Segment {
    Headers(Vec<u8>),
    Data(Bytes),
}

impl Segment {
    fn bytes(&self) -> &[u8] {
        match self {
            Segment::Headers(bytes) => bytes,
            Segment::Data(bytes) => bytes,
        }
    }
}

/// The queue.
#[derive(Default)]
pub(crate) struct Outbox {
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that are gone already.
    gone: usize,
    len: usize,
    spares: Vec<Vec<u8>>,
}

impl Outbox {
    /// Queues a copy of `bytes`.
    pub(crate) fn header(&mut self, bytes: &[u8]) {
        self.fields(|w| w.raw(bytes));
    }

    /// Queues the fields that `write` writes.
    pub(crate) fn fields(&mut self, write: impl FnOnce(&mut Writer<Big>)) {
        let takes_more = |last: &mut Segment| match last {
            Segment::Headers(bytes) => bytes.len() < HEADERS,
            Segment::Data(_) => false,
        };
        let before = match self.segments.pop_back_if(takes_more) {
            Some(Segment::Headers(bytes)) => bytes,
            _ => self.spares.pop().unwrap_or_default(),
        };
        self.len -= before.len();
        let mut w = Writer::behind(before);
        write(&mut w);
        let bytes = w.finish();
        self.len += bytes.len();
        if !bytes.is_empty() {
            self.segments.push_back(Segment::Headers(bytes));
        }
    }

    /// Queues `bytes` themselves.
    pub(crate) fn data(&mut self, bytes: Bytes) {
        if bytes.len() <= COPIED {
            return self.header(&bytes);
        }
        self.len += bytes.len();
        self.segments.push_back(Segment::Data(bytes));
    }

    /// What is queued, first things first.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let skips = std::iter::once(self.gone).chain(std::iter::repeat(0));
        self.segments.iter().zip(skips).map(|(segment, skip)| &segment.bytes()[skip..])
    }

    /// Bytes queued.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Drops the first `n` bytes.
    pub(crate) fn sent(&mut self, n: usize) {
        assert!(n <= self.len, "more bytes sent than there were");
        self.len -= n;
        self.gone += n;
        while let Some(first) = self.segments.front() {
            let length = first.bytes().len();
            if self.gone < length {
                return;
            }
            self.gone -= length;
            if let Some(Segment::Headers(buffer)) = self.segments.pop_front() {
                self.keep(buffer);
            }
        }
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        // A buffer that one long text blew up is not worth keeping.
        if self.spares.len() < SPARES && buffer.capacity() <= 2 * HEADERS {
            buffer.clear();
            self.spares.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(outbox: &Outbox, n: usize) -> Vec<u8> {
        outbox.segments().flatten().copied().take(n).collect()
    }

    #[test]
    fn bytes_leave_in_order_whatever_the_steps() {
        for step in [1, 3, 700, 4096, 100_000] {
            let mut outbox = Outbox::default();
            let mut expected = Vec::new();
            for i in 0..40_u8 {
                let header = vec![i; 200];
                let data = Bytes::from(vec![!i; 40 * usize::from(i)]);
                outbox.header(&header);
                outbox.data(data.clone());
                expected.extend_from_slice(&header);
                expected.extend_from_slice(&data);
            }
            let mut left = Vec::new();
            while outbox.len() > 0 {
                assert_eq!(outbox.len(), expected.len() - left.len());
                let n = step.min(outbox.len());
                left.extend(first(&outbox, n));
                outbox.sent(n);
            }
            assert_eq!(left, expected);
            assert_eq!(outbox.segments().count(), 0);
        }
    }

    #[test]
    fn headers_gather_and_data_stay_where_they_are() {
        let mut outbox = Outbox::default();
        let data = Bytes::from(vec![7; 4096]);
        for _ in 0..100 {
            outbox.header(&[1; 16]);
        }
        outbox.data(data.clone());
        let segments: Vec<_> = outbox.segments().collect();
        assert_eq!(segments.len(), 2);
        assert_eq!(segments[1].as_ptr(), data.as_ptr());
    }
}
