//! Requests as a client makes them.

use std::io::{Read, Write};

use bytes::Bytes;

use super::Client;
use super::receive::Pending;
use crate::nbd::wire::{self, command, flag};

/// Something to ask of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientRequest {
    /// Read a range.
    Read {
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u32,
    },
    /// Write bytes.
    Write {
        /// Where, in bytes.
        offset: u64,
        /// What; sent without being copied if it is long.
        data: Bytes,
        /// Complete only once durable.
        fua: bool,
    },
    /// Make every write completed so far durable.
    Flush,
    /// Forget a range.
    Trim {
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u32,
        /// Complete only once durable.
        fua: bool,
    },
    /// Zero a range.
    WriteZeroes {
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u32,
        /// Keep storage allocated.
        no_hole: bool,
        /// Fail rather than be slow.
        fast: bool,
        /// Complete only once durable.
        fua: bool,
    },
    /// Fetch a range into the server's cache.
    Cache {
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u32,
    },
    /// Ask what is known of a range.
    BlockStatus {
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u32,
        /// The first extent is enough.
        one: bool,
    },
}

impl ClientRequest {
    fn kind(&self) -> u16 {
        match self {
            ClientRequest::Read { .. } => command::READ,
            ClientRequest::Write { .. } => command::WRITE,
            ClientRequest::Flush => command::FLUSH,
            ClientRequest::Trim { .. } => command::TRIM,
            ClientRequest::WriteZeroes { .. } => command::WRITE_ZEROES,
            ClientRequest::Cache { .. } => command::CACHE,
            ClientRequest::BlockStatus { .. } => command::BLOCK_STATUS,
        }
    }

    fn flags(&self) -> u16 {
        let bit = |holds, bit| if holds { bit } else { 0 };
        match *self {
            ClientRequest::Write { fua, .. } | ClientRequest::Trim { fua, .. } => {
                bit(fua, flag::FUA)
            }
            ClientRequest::WriteZeroes { no_hole, fast, fua, .. } => {
                bit(no_hole, flag::NO_HOLE) | bit(fast, flag::FAST_ZERO) | bit(fua, flag::FUA)
            }
            ClientRequest::BlockStatus { one, .. } => bit(one, flag::REQ_ONE),
            ClientRequest::Read { .. } | ClientRequest::Flush | ClientRequest::Cache { .. } => 0,
        }
    }

    fn range(&self) -> (u64, u32) {
        match *self {
            ClientRequest::Flush => (0, 0),
            ClientRequest::Write { offset, ref data, .. } => (offset, data.len() as u32),
            ClientRequest::Read { offset, length }
            | ClientRequest::Trim { offset, length, .. }
            | ClientRequest::WriteZeroes { offset, length, .. }
            | ClientRequest::Cache { offset, length }
            | ClientRequest::BlockStatus { offset, length, .. } => (offset, length),
        }
    }
}

impl<S: Read + Write> Client<S> {
    /// Queues a request. It goes out with [`Client::push`], or when
    /// [`Client::receive`] has to wait.
    ///
    /// # Panics
    ///
    /// If the data of a write are longer than the protocol can tell.
    pub fn send(&mut self, request: ClientRequest) -> u64 {
        let (offset, length) = request.range();
        if let ClientRequest::Write { data, .. } = &request {
            assert_eq!(data.len(), length as usize, "too much data for one write");
        }
        let cookie = self.enqueue(request.kind(), request.flags(), offset, length);
        if let ClientRequest::Write { data, .. } = request {
            self.link.put_data(data);
        }
        cookie
    }

    /// Sends everything queued.
    pub fn push(&mut self) -> super::Result<()> {
        self.link.flush()
    }

    /// Queues a request's header.
    pub(super) fn enqueue(&mut self, kind: u16, flags: u16, offset: u64, length: u32) -> u64 {
        let cookie = self.next;
        self.next += 1;
        let request = wire::RequestHeader { flags, kind, cookie, offset, length };
        self.link.put(&request.encode());
        self.pending.insert(cookie, Pending::new(request));
        cookie
    }
}
