//! One request at a time, from sending to completion.

use std::io::{Read, Write};

use bytes::Bytes;

use super::{Client, ClientError, ClientRequest, Data, Exposure, Extent, Result};
use crate::nbd::wire::{command, flag};

/// Data up to this length are copied to go out with their header.
const COPIED: usize = 64 << 10;

impl<S: Read + Write> Client<S> {
    /// Reads a range.
    pub fn read_at(&mut self, offset: u64, length: u32) -> Result<Bytes> {
        match self.call(ClientRequest::Read { offset, length })? {
            Data::Read(bytes) => Ok(bytes),
            _ => Err(unexpected()),
        }
    }

    /// Writes bytes; with `fua`, returns only once they are durable.
    ///
    /// # Panics
    ///
    /// If the data are longer than the protocol can tell.
    pub fn write_at(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<()> {
        let length = u32::try_from(data.len()).expect("too much data for one write");
        let flags = if fua { flag::FUA } else { 0 };
        let cookie = self.enqueue(command::WRITE, flags, offset, length);
        if data.len() <= COPIED {
            self.link.put(data);
        } else {
            self.link.flush_with(data)?;
        }
        self.wait(cookie).map(drop)
    }

    /// Makes every write completed so far durable.
    pub fn flush(&mut self) -> Result<()> {
        self.call(ClientRequest::Flush).map(drop)
    }

    /// Forgets a range.
    pub fn trim(&mut self, offset: u64, length: u32) -> Result<()> {
        let fua = false;
        self.call(ClientRequest::Trim { offset, length, fua }).map(drop)
    }

    /// Zeroes a range.
    pub fn write_zeroes(&mut self, offset: u64, length: u32) -> Result<()> {
        self.call(ClientRequest::WriteZeroes {
            offset,
            length,
            no_hole: false,
            fast: false,
            fua: false,
        })
        .map(drop)
    }

    /// What is known of a range; may cover less than was asked for.
    pub fn block_status(&mut self, offset: u64, length: u32) -> Result<Vec<Extent>> {
        let one = false;
        match self.call(ClientRequest::BlockStatus { offset, length, one })? {
            Data::Extents(extents, _) => Ok(extents),
            _ => Err(unexpected()),
        }
    }

    /// What of a range parity that waits exposes; may cover less than was asked for.
    pub fn exposed(&mut self, offset: u64, length: u32) -> Result<Vec<Exposure>> {
        let one = false;
        match self.call(ClientRequest::BlockStatus { offset, length, one })? {
            Data::Extents(_, exposed) => Ok(exposed),
            _ => Err(unexpected()),
        }
    }

    /// Sends a request and waits for its completion. Others that complete
    /// meanwhile are kept for [`Client::receive`].
    pub fn call(&mut self, request: ClientRequest) -> Result<Data> {
        let cookie = self.send(request);
        self.wait(cookie)
    }

    fn wait(&mut self, cookie: u64) -> Result<Data> {
        loop {
            let completion = self.next_completion()?;
            if completion.cookie == cookie {
                return Ok(completion.result?);
            }
            self.finished.push_back(completion);
        }
    }
}

fn unexpected() -> ClientError {
    ClientError::Protocol("reply of another kind than the request")
}
