//! Requests of virtio-blk: what a driver asks for, and where its answer goes.

use std::io;

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_ID_BYTES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP,
    VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN,
    VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_WRITE_ZEROES, VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP,
};
use vm_memory::{Address, Bytes, GuestAddress};
use weft_bytes::memory::Pool;
use weft_core::Buffer;
use weft_core::node::{HostData, HostOp};
use weft_core::plan::Range;

use super::chain::{Broken, Chain};
use super::config::{LONGEST, MOST_SECTORS, SECTOR};
use super::memory::{Cursor, Guest, Segment, gather, length};

/// Bytes that a request begins with.
const HEADER: usize = 16;

/// Bytes that describe one range of a discard.
const RANGE: usize = 16;

/// A write that is shorter needs no page-aligned buffer.
const PAGE: usize = 4096;

/// What stands for a hole.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// How a request ended, for its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Done,
    Failed,
    Unsupported,
}

impl Status {
    fn byte(self) -> u8 {
        let word = match self {
            Status::Done => VIRTIO_BLK_S_OK,
            Status::Failed => VIRTIO_BLK_S_IOERR,
            Status::Unsupported => VIRTIO_BLK_S_UNSUPP,
        };
        word as u8
    }
}

/// What a driver asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Read(Range),
    Write(Range),
    Flush,
    Name,
    Trim(Range),
    WriteZeroes(Range),
}

impl Wish {
    /// Bytes of data that it has in work.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Wish::Read(range) | Wish::Write(range) => range.len,
            Wish::Flush | Wish::Name | Wish::Trim(_) | Wish::WriteZeroes(_) => 0,
        }
    }

    /// Whether it changes the volume.
    pub(super) fn changes(&self) -> bool {
        matches!(self, Wish::Write(_) | Wish::Trim(_) | Wish::WriteZeroes(_))
    }
}

/// A request's memory: what it says behind its header, where its data go, and where its status goes.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) payload: Vec<Segment>,
    pub(super) to_fill: Vec<Segment>,
    status: GuestAddress,
}

impl Parts {
    /// The parts of a chain, and its header. One that has no room for a status cannot be answered.
    pub(super) fn of(guest: &Guest, chain: Chain) -> Result<(Parts, Option<[u8; HEADER]>), Broken> {
        let Chain { mut to_read, mut to_fill } = chain;
        let last = to_fill.last_mut().ok_or(Broken("a request has no buffer for its status"))?;
        last.len -= 1;
        let status = last.at.unchecked_add(last.len as u64);
        to_fill.pop_if(|segment| segment.len == 0);
        let mut header = [0; HEADER];
        let has_header =
            length(&to_read) >= HEADER as u64 && gather(guest, &to_read, &mut header).is_ok();
        drop_first(&mut to_read, HEADER);
        let parts = Parts { payload: to_read, to_fill, status };
        Ok((parts, has_header.then_some(header)))
    }

    /// The wish of the driver, if it can be met.
    pub(super) fn wish(&self, guest: &Guest, header: &[u8; HEADER]) -> Result<Wish, Status> {
        let kind = u32::from_le_bytes(*header.first_chunk().expect("4 of 16 bytes"));
        let sector = u64::from_le_bytes(*header.last_chunk().expect("8 of 16 bytes"));
        match kind {
            VIRTIO_BLK_T_IN => data(sector, length(&self.to_fill)).map(Wish::Read),
            VIRTIO_BLK_T_OUT => data(sector, length(&self.payload)).map(Wish::Write),
            VIRTIO_BLK_T_FLUSH => Ok(Wish::Flush),
            VIRTIO_BLK_T_GET_ID => Ok(Wish::Name),
            VIRTIO_BLK_T_DISCARD => self.range(guest, 0).map(Wish::Trim),
            VIRTIO_BLK_T_WRITE_ZEROES => {
                let may = VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP;
                self.range(guest, may).map(Wish::WriteZeroes)
            }
            _ => Err(Status::Unsupported),
        }
    }

    /// The one range that a discard is about, with no flags but these.
    fn range(&self, guest: &Guest, flags: u32) -> Result<Range, Status> {
        let mut bytes = [0; RANGE];
        if length(&self.payload) != RANGE as u64 {
            return Err(Status::Unsupported);
        }
        gather(guest, &self.payload, &mut bytes).map_err(|_| Status::Failed)?;
        let sector = u64::from_le_bytes(*bytes.first_chunk().expect("8 of 16 bytes"));
        let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("4 bytes"));
        if word(12) & !flags != 0 {
            return Err(Status::Unsupported);
        }
        match word(8) {
            0 => Err(Status::Failed),
            sectors if sectors > MOST_SECTORS => Err(Status::Failed),
            sectors => range(sector, u64::from(sectors) * SECTOR),
        }
    }

    /// What a node is asked. Data are copied out of the driver's memory, once.
    pub(super) fn op(&self, guest: &Guest, wish: Wish) -> io::Result<HostOp> {
        Ok(match wish {
            Wish::Read(range) => HostOp::Read(range),
            Wish::Write(range) => HostOp::Write(range.offset, self.copied(guest, range.len)?),
            Wish::Flush | Wish::Name => HostOp::Flush,
            Wish::Trim(range) => HostOp::Trim(range),
            Wish::WriteZeroes(range) => HostOp::WriteZeroes(range),
        })
    }

    fn copied(&self, guest: &Guest, len: u64) -> io::Result<Buffer> {
        let len = len as usize;
        if len < PAGE {
            let mut bytes = vec![0; len];
            gather(guest, &self.payload, &mut bytes)?;
            return Ok(Buffer::Bytes(bytes.into()));
        }
        let mut buffer = Pool::of_process().get(len);
        gather(guest, &self.payload, buffer.as_mut())?;
        Ok(Buffer::Bytes(bytes::Bytes::from_owner(buffer)))
    }

    /// Writes an answer's data. Says how many bytes they are.
    pub(super) fn fill(&self, guest: &Guest, data: &HostData) -> io::Result<u32> {
        let HostData::Bytes(pieces) = data else { return Ok(0) };
        let mut cursor = Cursor::new(guest, &self.to_fill);
        let mut filled = 0;
        for piece in pieces {
            match piece {
                Buffer::Bytes(bytes) => cursor.put(bytes)?,
                Buffer::Zero(len) => {
                    for at in (0..*len).step_by(ZEROES.len()) {
                        cursor.put(&ZEROES[..(len - at).min(ZEROES.len())])?;
                    }
                }
                Buffer::Length(_) => unreachable!("only simulations have lengths"),
            }
            filled += piece.len() as u32;
        }
        Ok(filled)
    }

    /// Writes the name of the disk. Says how many bytes that is.
    pub(super) fn name(&self, guest: &Guest, name: &str) -> io::Result<u32> {
        let mut bytes = [0; VIRTIO_BLK_ID_BYTES as usize];
        let len = name.len().min(bytes.len());
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        let room = length(&self.to_fill).min(bytes.len() as u64) as usize;
        Cursor::new(guest, &self.to_fill).put(&bytes[..room])?;
        Ok(room as u32)
    }

    /// Writes how it ended.
    pub(super) fn end(&self, guest: &Guest, status: Status) -> Result<(), Broken> {
        let written = guest.write_obj(status.byte(), self.status);
        written.map_err(|_| Broken("the buffer for a status no longer exists"))
    }
}

/// Leaves out the first `n` bytes.
fn drop_first(segments: &mut Vec<Segment>, mut n: usize) {
    segments.retain_mut(|segment| {
        let dropped = n.min(segment.len);
        (segment.at, segment.len) =
            (segment.at.unchecked_add(dropped as u64), segment.len - dropped);
        n -= dropped;
        segment.len > 0
    });
}

/// The range of a read or write.
fn data(sector: u64, len: u64) -> Result<Range, Status> {
    match len {
        0 => Err(Status::Failed),
        len if len > LONGEST || !len.is_multiple_of(SECTOR) => Err(Status::Failed),
        len => range(sector, len),
    }
}

fn range(sector: u64, len: u64) -> Result<Range, Status> {
    let offset = sector.checked_mul(SECTOR).ok_or(Status::Failed)?;
    offset.checked_add(len).ok_or(Status::Failed)?;
    Ok(Range { offset, len })
}
