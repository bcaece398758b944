//! A disk in memory that carries out commands.

use bytes::Bytes;
use weft_front::nbd::server::{Command, Context, Errno, Exposure, Extent, Op, Piece, Reply};

/// Granularity in which the disk knows what is allocated.
pub const BLOCK: usize = 4096;

pub struct Disk {
    pub data: Vec<u8>,
    allocated: Vec<bool>,
    /// Answer reads with pieces.
    pub pieces: bool,
    /// Commands carried out with FUA, and flushes.
    pub durable: usize,
}

impl Disk {
    pub fn new(size: usize) -> Disk {
        Disk {
            data: vec![0; size],
            allocated: vec![false; size.div_ceil(BLOCK)],
            pieces: false,
            durable: 0,
        }
    }

    pub fn carry_out(&mut self, command: &Command) -> Result<Reply, Errno> {
        let start = command.offset as usize;
        let end = start + command.length as usize;
        self.durable += usize::from(command.fua || command.op == Op::Flush);
        match &command.op {
            Op::Read if self.pieces => return Ok(Reply::Pieces(self.pieces(start, end))),
            Op::Read => return Ok(Reply::Data(self.segments(start, end))),
            Op::Write(payload) => {
                self.data[start..end].copy_from_slice(payload);
                self.allocated[start / BLOCK..end.div_ceil(BLOCK)].fill(true);
            }
            Op::WriteZeroes { fast: true, .. } => {
                return Err(Errno::ENOTSUP.with("zeroing is slow"));
            }
            Op::Trim | Op::WriteZeroes { .. } => {
                self.data[start..end].fill(0);
                let whole = start.div_ceil(BLOCK)..end / BLOCK;
                if whole.start < whole.end {
                    self.allocated[whole].fill(false);
                }
            }
            Op::BlockStatus { context: Context::Exposed, .. } => {
                return Ok(Reply::Exposure(self.exposed(start, end)));
            }
            Op::BlockStatus { .. } => return Ok(Reply::Extents(self.extents(start, end))),
            Op::Flush | Op::Cache => {}
        }
        Ok(Reply::Done)
    }

    /// The range cut at block boundaries, with whether each is allocated.
    fn blocks(&self, start: usize, end: usize) -> Vec<(usize, usize, bool)> {
        (start / BLOCK..end.div_ceil(BLOCK))
            .map(|block| {
                let from = start.max(block * BLOCK);
                let to = end.min((block + 1) * BLOCK);
                (from, to, self.allocated[block])
            })
            .collect()
    }

    fn segments(&self, start: usize, end: usize) -> Vec<Bytes> {
        let copy = |(from, to, _)| Bytes::copy_from_slice(&self.data[from..to]);
        self.blocks(start, end).into_iter().map(copy).collect()
    }

    fn pieces(&self, start: usize, end: usize) -> Vec<Piece> {
        let piece = |(from, to, allocated)| match allocated {
            true => Piece::Data(Bytes::copy_from_slice(&self.data[from..to])),
            false => Piece::Zeroes((to - from) as u32),
        };
        self.blocks(start, end).into_iter().map(piece).collect()
    }

    /// Every other block that has content is exposed.
    fn exposed(&self, start: usize, end: usize) -> Vec<Exposure> {
        let exposed = |(from, to, allocated): (usize, usize, bool)| Exposure {
            length: (to - from) as u32,
            exposed: allocated && from / BLOCK % 2 == 1,
        };
        self.blocks(start, end).into_iter().map(exposed).collect()
    }

    fn extents(&self, start: usize, end: usize) -> Vec<Extent> {
        let extent = |(from, to, allocated): (usize, usize, bool)| Extent {
            length: (to - from) as u32,
            hole: !allocated,
            zero: !allocated,
        };
        self.blocks(start, end).into_iter().map(extent).collect()
    }
}
