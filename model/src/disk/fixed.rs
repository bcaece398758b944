//! A disk on which every access takes the same time to position (DR-net, shared storage).

use weft_core::units::Nanos;

use super::bus::{Bus, Direction};
use super::{Access, Kind, Times, nanos};
use crate::spec;

#[derive(Clone, Debug)]
pub(super) struct Fixed {
    /// The address after the last access.
    pub here: u64,
    positioning: Nanos,
    flush: Nanos,
    sector_bytes: u64,
    bytes_per_s: u64,
    piece_bytes: u64,
}

impl Fixed {
    pub fn new(spec: &spec::Fixed, bus: &spec::Bus) -> Self {
        Fixed {
            here: 0,
            positioning: nanos(spec.positioning_ms),
            flush: nanos(spec.flush_ms),
            sector_bytes: spec.sector_bytes.into(),
            bytes_per_s: spec.bytes_per_s,
            piece_bytes: bus.piece_bytes,
        }
    }

    /// The access's times, if it begins at `now`.
    pub fn serve(&mut self, now: Nanos, access: &Access, bus: &mut Bus) -> Times {
        if access.kind == Kind::Flush {
            return Times { overhead: self.flush, ..Times::default() };
        }
        self.here = access.end();
        let begin = now + self.positioning;
        let end = begin + self.moving(access.sectors * self.sector_bytes);
        let across = match access.kind {
            Kind::Write => self.fetch(now, access, bus).max(end),
            _ => self.send(now, begin, access, bus).max(end),
        };
        Times {
            seek: self.positioning,
            transfer: end - begin,
            bus: across - end,
            ..Times::default()
        }
    }

    fn moving(&self, bytes: u64) -> Nanos {
        (u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s)) as Nanos
    }

    /// A read's pieces cross the bus as they come off the disk; answers when all are across.
    fn send(&self, now: Nanos, begin: Nanos, access: &Access, bus: &mut Bus) -> Nanos {
        let bytes = access.sectors * self.sector_bytes;
        let (mut off, mut across) = (0, begin);
        while off < bytes {
            let piece = self.piece_bytes.min(bytes - off);
            off += piece;
            let ready = begin + self.moving(off);
            across = bus.transfer(now, ready.max(across), Direction::Read, piece);
        }
        across
    }

    /// A write's pieces cross the bus from the beginning; answers when the last, which arrives
    /// when the disk has caught up with all before it, is on the disk.
    fn fetch(&self, now: Nanos, access: &Access, bus: &mut Bus) -> Nanos {
        let bytes = access.sectors * self.sector_bytes;
        let (mut off, mut across, mut on_disk) = (0, now, now + self.positioning);
        while off < bytes {
            let piece = self.piece_bytes.min(bytes - off);
            off += piece;
            across = bus.transfer(now, across, Direction::Write, piece);
            on_disk = on_disk.max(across) + self.moving(piece);
        }
        on_disk
    }
}
