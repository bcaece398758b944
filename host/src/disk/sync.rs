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
use crate::disk::space::may_pass;
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
    /// Does an operation. An error is the end of it, except one that may pass: then it is tried a second time.
    pub fn run(&self, op: DiskOp) -> DiskResult {
        self.run_twice(&op).map_err(|e| self.failed(&op, e))
    }

    /// Why an operation has failed, in words that name the disk.
    pub(crate) fn failed(&self, op: &DiskOp, error: io::Error) -> String {
        self.error(verb(op), error)
    }

    /// As [`Disk::run`], with the error as the system has it.
    pub(crate) fn run_twice(&self, op: &DiskOp) -> io::Result<Buffer> {
        match self.run_once(op) {
            Err(e) if may_pass(&e) && self.may_run_twice(op) => {
                self.run_once(op).inspect(|_| self.passed.count())
            }
            result => result,
        }
    }

    fn may_run_twice(&self, op: &DiskOp) -> bool {
        match op {
            DiskOp::Read { .. } => true,
            DiskOp::Write { durable, .. } => self.may_retry(*durable),
            DiskOp::Flush | DiskOp::Discard { .. } => false,
        }
    }

    fn run_once(&self, op: &DiskOp) -> io::Result<Buffer> {
        match op {
            DiskOp::Read { offset, len } if *len >= POOLED => {
                self.read_pooled(*offset, *len as usize)
            }
            DiskOp::Read { offset, len } => self.read(*offset, *len as usize).map(Buffer::from),
            DiskOp::Write { offset, data, durable } => {
                self.write(*offset, data, *durable).map(|()| Buffer::Zero(0))
            }
            DiskOp::Flush => self.flush().map(|()| Buffer::Zero(0)),
            op if self.ignores(op) => Ok(Buffer::Zero(0)),
            DiskOp::Discard { offset, len } => {
                // A file system that cannot give space back loses nothing but space.
                let _ = rustix::fs::fallocate(&self.file, PUNCH, *offset, *len);
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
            DiskOp::Write { offset, data, .. } => {
                self.write(offset, &data, false).map_err(|e| self.error("write", e))
            }
            other => self.run(other).map(drop),
        }
    }

    /// Makes everything written safe from a power cut.
    pub(crate) fn sync(&self) -> Result<(), String> {
        self.flush().map_err(|e| self.error("flush", e))
    }

    fn flush(&self) -> io::Result<()> {
        if self.volatile { Ok(()) } else { self.file.sync_data() }
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let from = offset + bytes.len() as u64;
            // The spare room may be more than was asked for; it is cut off below.
            match rustix::io::pread(&self.file, spare_capacity(&mut bytes), from) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    fn read_pooled(&self, offset: u64, len: usize) -> io::Result<Buffer> {
        let mut buffer = Pool::of_process().get(len);
        let mut done = 0;
        while done < len {
            match rustix::io::pread(&self.file, &mut buffer.as_mut()[done..], offset + done as u64)
            {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Buffer::Bytes(Bytes::from_owner(buffer)))
    }

    fn write(&self, offset: u64, data: &[Buffer], durable: bool) -> io::Result<()> {
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
                self.flush()?;
            }
        }
        Ok(())
    }

    fn write_batch(
        &self,
        mut at: u64,
        mut rest: &mut [IoSlice<'_>],
        flags: ReadWriteFlags,
    ) -> io::Result<u64> {
        while !rest.is_empty() {
            match rustix::io::pwritev2(&self.file, rest, at, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    at += n as u64;
                    IoSlice::advance_slices(&mut rest, n);
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(at)
    }
}

fn verb(op: &DiskOp) -> &'static str {
    match op {
        DiskOp::Read { .. } => "read",
        DiskOp::Write { .. } => "write",
        DiskOp::Flush => "flush",
        DiskOp::Discard { .. } => "discard from",
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
