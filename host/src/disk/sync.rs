//! Disk operations done at once, with plain system calls.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, ReadWriteFlags};
use weft_bytes::memory::Pool;
use weft_core::Buffer;
use weft_core::store::{DiskOp, DiskRequest, DiskResult};

use crate::disk::queue::Line;
use crate::disk::uring::Tag;
use crate::disk::{Disk, PUNCH};

/// Zeros to write from.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Reads of so many bytes go into pooled memory: fresh pages of that size cost more than the copy.
const POOLED: u64 = 16 << 10;

/// Pieces that one system call takes at most (IOV_MAX).
const PIECES: usize = 1024;

/// Operations that have come together and are done one after the other, those of a disk in
/// the order of its queue.
#[derive(Default)]
pub(crate) struct AtOnce {
    lines: BTreeMap<usize, Line<(Tag, Arc<Disk>, DiskRequest)>>,
}

impl AtOnce {
    /// Adds an operation.
    pub(crate) fn add(&mut self, tag: Tag, disk: &Arc<Disk>, request: DiskRequest) {
        let line = self.lines.entry(tag.node).or_insert_with(|| Line::new(disk.queue));
        let op = request.op.clone();
        line.push(&op, (tag, disk.clone(), request));
    }

    /// Does all.
    pub(crate) fn run(&mut self, ended: &mut Vec<(Tag, DiskResult)>) {
        for line in self.lines.values_mut() {
            while let Some((tag, disk, request)) = line.give() {
                ended.push((tag, disk.run(request.op)));
                line.ended();
            }
        }
    }
}

impl Disk {
    /// Does an operation.
    pub fn run(&self, op: DiskOp) -> DiskResult {
        match op {
            DiskOp::Read { offset, len } if len >= POOLED => self.read_pooled(offset, len as usize),
            DiskOp::Read { offset, len } => self.read(offset, len as usize).map(Buffer::from),
            DiskOp::Write { offset, data, durable } => {
                self.write(offset, &data, durable).map(|()| Buffer::Zero(0))
            }
            DiskOp::Flush => self.sync().map(|()| Buffer::Zero(0)),
            DiskOp::Discard { offset, len } => {
                // A file system that cannot give space back loses nothing but space.
                let _ = rustix::fs::fallocate(&self.file, PUNCH, offset, len);
                Ok(Buffer::Zero(0))
            }
        }
    }

    /// Does an operation of formatting. Zeros are not written to a file made just now: it
    /// reads as zeros, and stays sparse.
    pub(crate) fn format(&self, op: DiskOp) -> Result<(), String> {
        match op {
            DiskOp::Write { data, .. } if self.is_fresh() && data.iter().all(Buffer::is_zero) => {
                Ok(())
            }
            // The caller ends with one flush, which is cheaper than making each write safe.
            DiskOp::Write { offset, data, .. } => self.write(offset, &data, false),
            other => self.run(other).map(drop),
        }
    }

    /// Makes everything written safe from a power cut.
    pub(crate) fn sync(&self) -> Result<(), String> {
        if self.volatile {
            return Ok(());
        }
        self.file.sync_data().map_err(|e| self.error("flush", e))
    }

    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let from = offset + bytes.len() as u64;
            // The spare room may be more than was asked for; it is cut off below.
            match rustix::io::pread(&self.file, spare_capacity(&mut bytes), from) {
                Ok(0) => {
                    let end = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(self.error("read", end));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(self.error("read", e)),
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    fn read_pooled(&self, offset: u64, len: usize) -> Result<Buffer, String> {
        let mut buffer = Pool::of_process().get(len);
        let mut done = 0;
        while done < len {
            match rustix::io::pread(&self.file, &mut buffer.as_mut()[done..], offset + done as u64)
            {
                Ok(0) => {
                    let end = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(self.error("read", end));
                }
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.error("read", e)),
            }
        }
        Ok(Buffer::Bytes(Bytes::from_owner(buffer)))
    }

    fn write(&self, offset: u64, data: &[Buffer], durable: bool) -> Result<(), String> {
        let all = slices(data);
        let batches = all.len().div_ceil(PIECES);
        let mut at = offset;
        for (n, batch) in all.chunks(PIECES).enumerate() {
            // Several batches are made safe together, by one flush after the last.
            let flags = match durable && !self.volatile && batches == 1 {
                true => ReadWriteFlags::DSYNC,
                false => ReadWriteFlags::empty(),
            };
            at = self.write_batch(at, &mut batch.to_vec(), flags)?;
            if n + 1 == batches && batches > 1 && durable {
                self.sync()?;
            }
        }
        Ok(())
    }

    fn write_batch(
        &self,
        mut at: u64,
        mut rest: &mut [IoSlice<'_>],
        flags: ReadWriteFlags,
    ) -> Result<u64, String> {
        while !rest.is_empty() {
            match rustix::io::pwritev2(&self.file, rest, at, flags) {
                Ok(0) => {
                    return Err(self.error("write", io::Error::from(io::ErrorKind::WriteZero)));
                }
                Ok(n) => {
                    at += n as u64;
                    IoSlice::advance_slices(&mut rest, n);
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.error("write", e)),
            }
        }
        Ok(at)
    }
}

fn slices(data: &[Buffer]) -> Vec<IoSlice<'_>> {
    let mut slices = Vec::with_capacity(data.len());
    for piece in data.iter().filter(|p| !p.is_empty()) {
        match piece {
            Buffer::Bytes(bytes) => slices.push(IoSlice::new(bytes)),
            Buffer::Length(_) => unreachable!("only simulations have lengths"),
            Buffer::Zero(len) => {
                let mut left = *len;
                while left > 0 {
                    let n = left.min(ZEROS.len());
                    slices.push(IoSlice::new(&ZEROS[..n]));
                    left -= n;
                }
            }
        }
    }
    slices
}
