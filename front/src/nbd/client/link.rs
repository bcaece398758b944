//! The stream with a buffer for each direction.

use std::io::{ErrorKind, IoSlice, Read, Write};

use bytes::Bytes;
use weft_bytes::{Big, Reader, Writer};

use super::Result;
use crate::nbd::wire::whole;
use crate::outbox::Outbox;

/// Size of the buffer small reads go through.
const BUFFER: usize = 64 << 10;

/// What misses at least this much is read without the buffer.
const DIRECT: usize = 16 << 10;

/// Segments in one vectored write.
const SEGMENTS: usize = 64;

pub(super) struct Link<S> {
    stream: S,
    outbox: Outbox,
    buffer: Vec<u8>,
    /// Buffered bytes are those from `start` to `end`.
    start: usize,
    end: usize,
}

impl<S: Read + Write> Link<S> {
    pub(super) fn new(stream: S) -> Link<S> {
        Link { stream, outbox: Outbox::default(), buffer: vec![0; BUFFER], start: 0, end: 0 }
    }

    pub(super) fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    pub(super) fn into_stream(self) -> S {
        self.stream
    }

    /// Whether there are bytes that came and were not asked for yet.
    pub(super) fn has_buffered(&self) -> bool {
        self.start < self.end
    }

    /// Queues a copy of `bytes`.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.outbox.header(bytes);
    }

    /// Queues the fields that `write` writes.
    pub(super) fn fields(&mut self, write: impl FnOnce(&mut Writer<Big>)) {
        self.outbox.fields(write);
    }

    /// Queues `bytes` themselves.
    pub(super) fn put_data(&mut self, bytes: Bytes) {
        self.outbox.data(bytes);
    }

    /// Sends everything queued.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.outbox.len() == 0 {
            return Ok(());
        }
        while self.outbox.len() > 0 {
            let segments: Vec<_> =
                self.outbox.segments().take(SEGMENTS).map(IoSlice::new).collect();
            match self.stream.write_vectored(&segments) {
                Ok(0) => return Err(std::io::Error::from(ErrorKind::WriteZero).into()),
                Ok(n) => self.outbox.sent(n),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.stream.flush()?)
    }

    /// Sends everything queued, then `bytes`.
    pub(super) fn flush_with(&mut self, bytes: &[u8]) -> Result<()> {
        self.flush()?;
        self.stream.write_all(bytes)?;
        Ok(self.stream.flush()?)
    }

    /// Fills `out`.
    pub(super) fn read(&mut self, mut out: &mut [u8]) -> Result<()> {
        while !out.is_empty() {
            let n = match self.end - self.start {
                0 if out.len() >= DIRECT => {
                    self.flush()?;
                    receive(&mut self.stream, out)?
                }
                0 => {
                    self.flush()?;
                    self.start = 0;
                    self.end = 0;
                    self.end = receive(&mut self.stream, &mut self.buffer)?;
                    continue;
                }
                buffered => self.take(buffered.min(out.len()), out),
            };
            out = &mut out[n..];
        }
        Ok(())
    }

    fn take(&mut self, n: usize, out: &mut [u8]) -> usize {
        out[..n].copy_from_slice(&self.buffer[self.start..self.start + n]);
        self.start += n;
        n
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// The next `n` bytes.
    pub(super) fn bytes(&mut self, n: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; n];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(whole(&self.array::<2>()?, Reader::u16))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(whole(&self.array::<4>()?, Reader::u32))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(whole(&self.array::<8>()?, Reader::u64))
    }
}

/// Reads something; that the stream ended is an error.
fn receive(stream: &mut impl Read, out: &mut [u8]) -> Result<usize> {
    loop {
        match stream.read(out) {
            Ok(0) => return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(n) => return Ok(n),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
