//! Copies of the map on disks.
//!
//! [`OnDisk`] is what a disk has that no node is on, read at once: for whoever makes the map's file anew.
//! [`Keeper`] keeps the disk of a node up to date: it says which operation comes next, and is told how it ended.
//! Nobody waits for it. So after a crash the copies may be older than the map that was in force; a map's
//! file that is damaged then says so, if its version can still be read.
//!
//! A map that is longer than there is room for is packed by gzip: it says much again and again.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use weft_core::store::map_area::{
    MAP_COPIES, MOST_PAYLOAD, MapCopy, copies_in, copy_at, next_copy,
};
use weft_core::store::{DiskOp, DiskResult};
use weft_core::{Buffer, SECTOR};

use crate::disk::format::{SUPERBLOCKS, read_from, superblock_in};
use crate::disk::open_to_read;
use crate::error::{Result, at};

/// A disk, and the copies on it.
#[derive(Clone, Debug)]
pub(crate) struct OnDisk {
    pub(crate) path: PathBuf,
    /// The cluster and the number of the disk, if it is one of Weft.
    pub(crate) of: Option<(u128, u16)>,
    /// Those of the disk's cluster, the newest first.
    pub(crate) copies: Vec<MapCopy>,
    /// It has room for copies.
    pub(crate) keeps: bool,
}

impl OnDisk {
    /// Looks at the disk at a path.
    pub(crate) fn read(path: &Path) -> Result<OnDisk> {
        let file = open_to_read(path)?;
        let head =
            read_from(&file, 0, (SUPERBLOCKS * SECTOR) as usize).map_err(at("read", path))?;
        let superblock = superblock_in(&head);
        let of = superblock.as_ref().map(|s| (s.cluster, s.disk));
        let area = superblock.and_then(|s| s.map_area());
        let mut copies = Vec::new();
        if let Some(area) = &area {
            let len = ((area.end - area.start) * SECTOR) as usize;
            let bytes = read_from(&file, area.start * SECTOR, len).map_err(at("read", path))?;
            let own = |copy: &MapCopy| of.is_some_and(|of| of.0 == copy.cluster);
            let read = copies_in(&bytes).into_iter().flatten().filter(own);
            copies.extend(read.filter_map(unpacked));
        }
        copies.sort_by_key(|copy| std::cmp::Reverse(copy.version));
        Ok(OnDisk { path: path.to_path_buf(), of, copies, keeps: area.is_some() })
    }

    /// What is at a path and cannot be read as a disk.
    pub(crate) fn unreadable(path: &Path) -> OnDisk {
        OnDisk { path: path.to_path_buf(), of: None, copies: Vec::new(), keeps: false }
    }
}

/// The newest of all copies, and the disks that have it.
pub(crate) struct Newest<'a> {
    pub(crate) copy: &'a MapCopy,
    pub(crate) on: Vec<&'a Path>,
    /// Disks with another map under the same version.
    pub(crate) against: Vec<&'a Path>,
}

/// The newest of the copies on disks.
pub(crate) fn newest(disks: &[OnDisk]) -> Option<Newest<'_>> {
    let all = || disks.iter().flat_map(|d| d.copies.iter().map(move |c| (&*d.path, c)));
    let copy = all().map(|(_, copy)| copy).max_by_key(|copy| copy.version)?;
    let same = |other: &MapCopy| other.version == copy.version;
    let (on, against): (Vec<_>, Vec<_>) =
        all().filter(|(_, c)| same(c)).partition(|(_, c)| *c == copy);
    Some(Newest { copy, on: paths(on), against: paths(against) })
}

fn paths<'a>(of: Vec<(&'a Path, &'a MapCopy)>) -> Vec<&'a Path> {
    of.into_iter().map(|(path, _)| path).collect()
}

/// The copy that all disks are to have.
#[derive(Debug)]
pub(crate) struct Wanted {
    version: u64,
    sectors: Vec<u8>,
}

impl Wanted {
    /// # Errors
    ///
    /// If the map is too long to be kept.
    pub(crate) fn new(copy: &MapCopy) -> std::result::Result<Wanted, String> {
        let packed = packed(copy);
        let sectors = packed.encode().ok_or_else(|| {
            format!(
                "the map is too large for the disks to keep copies of it ({} bytes, compressed \
                 {}; at most {MOST_PAYLOAD}): only its own file has it; back up that file regularly",
                copy.payload.len(),
                packed.payload.len()
            )
        })?;
        Ok(Wanted { version: copy.version, sectors })
    }
}

/// What a packed payload begins with (RFC 1952, 2.3.1): no map does, be it text or what processes write to one another.
const PACKED: [u8; 3] = [0x1f, 0x8b, 8];

/// The longest map that is unpacked.
const MOST_UNPACKED: u64 = 256 << 20;

/// The copy as disks keep it: packed, if it is too long otherwise. One that fits can be read by earlier releases.
fn packed(copy: &MapCopy) -> Cow<'_, MapCopy> {
    if copy.payload.len() <= MOST_PAYLOAD {
        return Cow::Borrowed(copy);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let payload = packed.write_all(&copy.payload).and_then(|()| packed.finish());
    Cow::Owned(MapCopy { payload: payload.expect("memory takes all"), ..*copy })
}

/// The copy as it was before it was packed; nothing if it cannot be unpacked.
fn unpacked(copy: MapCopy) -> Option<MapCopy> {
    if !copy.payload.starts_with(&PACKED) {
        return Some(copy);
    }
    let mut payload = Vec::new();
    let mut packed = GzDecoder::new(&copy.payload[..]).take(MOST_UNPACKED);
    let whole: io::Result<usize> = packed.read_to_end(&mut payload);
    whole.is_ok().then_some(MapCopy { payload, ..copy })
}

/// How far a disk is looked at, and what is being done to it.
#[derive(Debug, Default)]
enum Stage {
    /// It keeps no copies, or does so no more.
    #[default]
    Without,
    /// It has not been looked at.
    New,
    /// The superblock is being read.
    Superblock,
    /// There is an area, which has not been read.
    Found(Range<u64>),
    /// The area is being read.
    Area(Range<u64>),
    Idle(Range<u64>, Versions),
    /// The versions are those after the write.
    Writing(Range<u64>, Versions),
}

type Versions = [Option<u64>; MAP_COPIES];

/// Keeps the copies on a node's disk up to date.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    stage: Stage,
}

impl Keeper {
    /// Of a disk that was just opened.
    pub(crate) fn new() -> Keeper {
        Keeper { stage: Stage::New }
    }

    /// One that writes its first copy.
    #[cfg(test)]
    pub(crate) fn writing() -> Keeper {
        Keeper { stage: Stage::Writing(0..128, [Some(1), None]) }
    }

    /// What is to be done next, if anything.
    pub(crate) fn next(&mut self, wanted: &Wanted) -> Option<DiskOp> {
        let (stage, op) = match std::mem::take(&mut self.stage) {
            Stage::New => (Stage::Superblock, Some(read(0..SUPERBLOCKS))),
            Stage::Found(area) => (Stage::Area(area.clone()), Some(read(area))),
            Stage::Idle(area, versions)
                if versions.into_iter().flatten().all(|v| v < wanted.version) =>
            {
                let copy = next_copy(versions);
                let offset = copy_at(&area, copy).start * SECTOR;
                let data = vec![Buffer::from(wanted.sectors.clone())];
                let mut versions = versions;
                versions[copy] = Some(wanted.version);
                (
                    Stage::Writing(area, versions),
                    Some(DiskOp::Write { offset, data, durable: true }),
                )
            }
            stage => (stage, None),
        };
        self.stage = stage;
        op
    }

    /// Whether a copy is being written.
    pub(crate) fn is_writing(&self) -> bool {
        matches!(self.stage, Stage::Writing(..))
    }

    /// The operation has ended. If it failed, the disk keeps no copies any more until its node is started again.
    pub(crate) fn ended(&mut self, result: DiskResult) -> std::result::Result<(), String> {
        let stage = std::mem::take(&mut self.stage);
        let bytes = result?.to_bytes();
        self.stage = match stage {
            Stage::Superblock => match superblock_in(&bytes).and_then(|s| s.map_area()) {
                Some(area) => Stage::Found(area),
                None => Stage::Without,
            },
            Stage::Area(area) => {
                Stage::Idle(area, copies_in(&bytes).map(|copy| copy.map(|copy| copy.version)))
            }
            Stage::Writing(area, versions) => Stage::Idle(area, versions),
            stage => stage,
        };
        Ok(())
    }

    /// Whether there is nothing to be done.
    pub(crate) fn is_done(&self, wanted: &Wanted) -> bool {
        match &self.stage {
            Stage::Without => true,
            Stage::Idle(_, versions) => versions.iter().flatten().any(|v| *v >= wanted.version),
            _ => false,
        }
    }
}

fn read(sectors: Range<u64>) -> DiskOp {
    DiskOp::Read { offset: sectors.start * SECTOR, len: (sectors.end - sectors.start) * SECTOR }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Range<u64> = 10..138;

    fn wanted(version: u64) -> Wanted {
        Wanted::new(&MapCopy { cluster: 5, version, payload: vec![version as u8; 6000] }).unwrap()
    }

    /// Does what comes next until nothing does, on a disk of these bytes; returns how many writes there were.
    fn settle(keeper: &mut Keeper, wanted: &Wanted, disk: &mut [u8]) -> usize {
        let mut writes = 0;
        while let Some(op) = keeper.next(wanted) {
            assert!(!keeper.is_done(wanted), "it is not done while something is being done");
            assert!(keeper.next(wanted).is_none(), "one at a time");
            let result = match op {
                DiskOp::Read { offset, len } => disk[offset as usize..][..len as usize].to_vec(),
                DiskOp::Write { offset, data, durable: true } => {
                    let bytes = data[0].to_bytes();
                    disk[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                    writes += 1;
                    Vec::new()
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(keeper.is_writing(), result.is_empty());
            keeper.ended(Ok(result.into())).unwrap();
        }
        assert!(keeper.is_done(wanted));
        writes
    }

    fn versions(disk: &[u8]) -> Vec<u64> {
        let area = &disk[(AREA.start * SECTOR) as usize..];
        let mut found: Vec<u64> =
            copies_in(area).into_iter().flatten().map(|c| c.version).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_disk_keeps_the_two_latest_whenever_it_is_opened() {
        let mut disk = vec![0xee; (AREA.end * SECTOR) as usize];
        let found = || Keeper { stage: Stage::Found(AREA) };
        let mut keeper = found();
        for version in 1..5 {
            assert_eq!(settle(&mut keeper, &wanted(version), &mut disk), 1);
            assert_eq!(settle(&mut keeper, &wanted(version), &mut disk), 0, "it has it");
        }
        assert_eq!(versions(&disk), [3, 4]);
        // Another life, and a torn write of the next copy before it.
        disk[(copy_at(&AREA, 0).start * SECTOR) as usize + 5000] ^= 1;
        assert_eq!(versions(&disk), [4]);
        keeper = found();
        assert_eq!(settle(&mut keeper, &wanted(6), &mut disk), 1);
        assert_eq!(versions(&disk), [4, 6]);
        // What is newer is never written over.
        assert_eq!(settle(&mut found(), &wanted(5), &mut disk), 0);
        assert_eq!(versions(&disk), [4, 6]);
    }

    #[test]
    fn a_disk_without_area_or_with_errors_keeps_none_and_is_not_waited_for() {
        let mut keeper = Keeper::new();
        assert!(!keeper.is_done(&wanted(1)));
        assert_eq!(settle(&mut keeper, &wanted(1), &mut [0; 8192]), 0, "no disk of Weft");
        let mut keeper = Keeper { stage: Stage::Idle(AREA, [None; 2]) };
        assert!(keeper.next(&wanted(1)).is_some());
        assert!(keeper.ended(Err("gone".into())).is_err());
        assert!(keeper.is_done(&wanted(1)) && keeper.next(&wanted(1)).is_none());
        assert!(Keeper::default().is_done(&wanted(1)), "a node without disk");
        let mut random = fastrand::Rng::with_seed(1);
        let payload = (0..=MOST_PAYLOAD).map(|_| random.u8(..)).collect();
        let long = MapCopy { cluster: 5, version: 1, payload };
        assert!(Wanted::new(&long).unwrap_err().contains("too large"));
    }

    #[test]
    fn what_is_too_long_is_packed() {
        let payload: Vec<u8> =
            (0..MOST_PAYLOAD as u32).flat_map(|n| (n / 64).to_le_bytes()).collect();
        let copy = MapCopy { cluster: 5, version: 7, payload };
        let sectors = Wanted::new(&copy).unwrap().sectors;
        let kept = MapCopy::decode(&sectors).unwrap();
        assert_eq!(unpacked(kept.clone()), Some(copy));
        let half = kept.payload[..kept.payload.len() / 2].to_vec();
        assert_eq!(unpacked(MapCopy { payload: half, ..kept }), None);
        let short = MapCopy { cluster: 5, version: 8, payload: b"format = 3".to_vec() };
        assert_eq!(packed(&short).as_ref(), &short);
        assert_eq!(unpacked(short.clone()), Some(short));
    }
}
