//! Copies of the map on a disk: the two latest, in an area of their own.
//!
//! The map says where everything is; so it must not be lost with the one file that holds it. What a copy holds is
//! not looked at here: it is what whoever keeps the map can make that file anew from. Of two copies the one with
//! the higher version is the newer; a write goes over the older one, or over one that is broken, so that
//! a torn write costs the copy that it was to replace and nothing else. docs/internals/disk-format.md has the bytes.

use std::ops::Range;

use weft_bytes::checksum;
use weft_bytes::{Read, Reader, Writer, at_most};

use crate::units::{SECTOR, SECTOR_BYTES};

/// Sectors of one copy.
pub const MAP_SECTORS: u64 = 64;
/// Copies on a disk.
pub const MAP_COPIES: usize = 2;
/// Disks with fewer sectors keep no copies.
pub const LEAST_DISK: u64 = 16_384;
/// The longest map that is kept.
pub const MOST_PAYLOAD: usize = MAP_SECTORS as usize * SECTOR_BYTES - FIXED;

const MAGIC: &[u8; 8] = b"WEFTMAPS";
const VERSION: u32 = 1;
const FIXED: usize = 48;
/// Bytes before the checksum, which is of everything else, and up to its end.
const BEFORE: usize = 12;
const BEHIND: usize = 16;

/// Sectors of the area on a disk of so many sectors.
pub fn map_area_sectors(sectors: u64) -> u64 {
    if sectors < LEAST_DISK { 0 } else { MAP_SECTORS * MAP_COPIES as u64 }
}

/// Where in an area a copy is.
pub fn copy_at(area: &Range<u64>, copy: usize) -> Range<u64> {
    assert!(copy < MAP_COPIES && area.end - area.start == MAP_SECTORS * MAP_COPIES as u64);
    let start = area.start + copy as u64 * MAP_SECTORS;
    start..start + MAP_SECTORS
}

/// A copy of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapCopy {
    /// The cluster whose map it is.
    pub cluster: u128,
    /// Grows with every change of the map.
    pub version: u64,
    /// The map, as whoever keeps it writes it.
    pub payload: Vec<u8>,
}

impl MapCopy {
    /// The copy in whole sectors; nothing if it is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        if self.payload.len() > MOST_PAYLOAD {
            return None;
        }
        let mut rest: Writer = Writer::default();
        rest.u128(self.cluster);
        rest.u64(self.version);
        rest.u64(self.payload.len() as u64);
        rest.raw(&self.payload);
        let mut w: Writer = Writer::behind(MAGIC);
        w.u32(VERSION);
        w.u32(checksum(w.written(), rest.written()));
        debug_assert_eq!(w.written().len(), BEHIND);
        w.raw(rest.written());
        w.pad(w.written().len().next_multiple_of(SECTOR_BYTES));
        Some(w.finish())
    }

    /// The copy that these bytes begin with, if there is a whole one.
    pub fn decode(bytes: &[u8]) -> Option<MapCopy> {
        MapCopy::read(bytes).ok().filter(|(_, good)| *good).map(|(copy, _)| copy)
    }

    /// The copy, and whether it has its checksum.
    fn read(bytes: &[u8]) -> Read<(MapCopy, bool)> {
        let mut r: Reader = Reader::new(bytes);
        r.magic(MAGIC, "a copy of the map")?;
        at_most("the version of a copy of the map", r.u32()?.abs_diff(VERSION).into(), 0)?;
        let crc = r.u32()?;
        let (cluster, version, len) = (r.u128()?, r.u64()?, r.u64()?);
        at_most("the length of a map", len, MOST_PAYLOAD as u64)?;
        let payload = r.raw(len as usize)?.to_vec();
        let good = crc == checksum(&bytes[..BEFORE], &bytes[BEHIND..FIXED + payload.len()]);
        Ok((MapCopy { cluster, version, payload }, good))
    }
}

fn checksum(before: &[u8], behind: &[u8]) -> u32 {
    checksum::crc32c_append(checksum::crc32c(before), behind)
}

/// The copies in an area, given all its bytes; nothing where one is broken or was never written.
pub fn copies_in(area: &[u8]) -> [Option<MapCopy>; MAP_COPIES] {
    let bytes = (MAP_SECTORS * SECTOR) as usize;
    [0, 1].map(|n| MapCopy::decode(area.get(n * bytes..(n + 1) * bytes)?))
}

/// Which copy the next one goes over, given the versions of those that are there.
pub fn next_copy(versions: [Option<u64>; MAP_COPIES]) -> usize {
    usize::from(versions[1] < versions[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(version: u64, len: usize) -> MapCopy {
        MapCopy { cluster: 7, version, payload: (0..len).map(|n| n as u8).collect() }
    }

    #[test]
    fn copies_round_trip_and_any_flipped_bit_of_one_is_seen() {
        for len in [0, 1, SECTOR_BYTES - FIXED, SECTOR_BYTES, MOST_PAYLOAD] {
            let copy = copy(9, len);
            let mut bytes = copy.encode().unwrap();
            assert_eq!(bytes.len() % SECTOR_BYTES, 0);
            assert_eq!(MapCopy::decode(&bytes), Some(copy));
            for at in (0..FIXED).chain((FIXED..FIXED + len).step_by(997)) {
                bytes[at] ^= 2;
                assert_eq!(MapCopy::decode(&bytes), None, "byte {at} of {len}");
                bytes[at] ^= 2;
            }
        }
        assert_eq!(copy(9, MOST_PAYLOAD + 1).encode(), None);
        assert_eq!(MapCopy::decode(&[0; SECTOR_BYTES]), None);
        assert_eq!(MapCopy::decode(&copy(9, 5000).encode().unwrap()[..SECTOR_BYTES]), None);
    }

    /// Whatever is written is torn anywhere: the latest copy before it stays, or it is there itself.
    #[test]
    fn a_torn_write_costs_the_older_copy_at_most() {
        let range = 100..100 + map_area_sectors(LEAST_DISK);
        let mut area = vec![0xee; ((range.end - range.start) * SECTOR) as usize];
        let versions = |area: &[u8]| copies_in(area).map(|c| c.map(|c| c.version));
        for version in 1..20 {
            let latest = versions(&area).into_iter().flatten().max();
            let at = ((copy_at(&range, next_copy(versions(&area))).start - range.start) * SECTOR)
                as usize;
            let bytes = copy(version, 3000 * version as usize).encode().unwrap();
            for cut in (0..bytes.len()).step_by(512) {
                let mut torn = area.clone();
                torn[at..at + cut].copy_from_slice(&bytes[..cut]);
                torn[at + cut] ^= 0x40;
                let kept = versions(&torn).into_iter().flatten().max();
                assert!(kept == latest || kept == Some(version), "{version} torn at {cut}");
            }
            area[at..at + bytes.len()].copy_from_slice(&bytes);
            assert_eq!(versions(&area).into_iter().flatten().max(), Some(version));
        }
        assert!(versions(&area).iter().all(|v| v.is_some_and(|v| v >= 18)), "the two latest");
        assert_eq!(map_area_sectors(LEAST_DISK - 1), 0);
    }

    /// Copies of this version must stay readable: these bytes are what it wrote.
    #[test]
    fn a_copy_of_version_1() {
        let mut bytes = b"WEFTMAPS\x01\0\0\0".to_vec();
        bytes.extend(0x0000_0000_u32.to_le_bytes());
        bytes.extend(
            b"\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\x01\x02",
        );
        let crc = checksum(&bytes[..BEFORE], &bytes[BEHIND..]).to_le_bytes();
        bytes[BEFORE..BEHIND].copy_from_slice(&crc);
        assert_eq!(copy(9, 3).encode().unwrap()[..bytes.len()], bytes);
        assert_eq!(MapCopy::decode(&bytes), Some(copy(9, 3)));
    }
}
