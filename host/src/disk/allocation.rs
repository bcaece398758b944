//! Space that a file system allocates for a disk's file before anything is written there.
//!
//! Files are sparse, but for their beginning: superblocks, copies of the map and the journal are allocated when the disk is
//! made. So a node can store the map and start again on a full file system. The tables are not: they grow with the
//! disk's size, and a sparse file may be very large. With `preallocate` the whole file is allocated, and discards return
//! nothing.

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use weft_core::store::DiskOp;

use crate::disk::Disk;
use crate::error::{Error, Result, fail};
use crate::size::rounded;

/// What a disk does about discards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Discards {
    /// Their space goes back to the file system.
    #[default]
    Returned,
    /// Its file keeps the space.
    Ignored,
}

impl Disk {
    /// Allocates its first bytes, of a disk that has just been made. A file system that cannot does without.
    pub(super) fn allocate_head(&self, len: u64) -> Result<()> {
        if self.block || self.volatile {
            return Ok(());
        }
        match self.allocate(len) {
            Err(e @ (Errno::NOSPC | Errno::DQUOT)) => Err(Error(self.error("allocate", e))),
            _ => Ok(()),
        }
    }

    /// Allocates the whole file.
    ///
    /// # Errors
    /// If it is a block device, or its file system cannot allocate it.
    pub(crate) fn allocate_all(&self) -> Result<()> {
        let (path, len) = (self.path.display(), self.len()?);
        if self.block {
            return fail(format!("{path} is a block device; omit preallocate"));
        }
        self.allocate(len).map_err(|e| match e {
            Errno::NOSPC | Errno::DQUOT => Error(format!(
                "the file system of {path} has no {} to preallocate; free some space, give a smaller disk_size, or \
                 omit preallocate",
                rounded(len)
            )),
            e => Error(format!("{}; omit preallocate", self.error("preallocate", e))),
        })
    }

    /// Whether it does nothing for an operation.
    pub(crate) fn ignores(&self, op: &DiskOp) -> bool {
        self.discards == Discards::Ignored && matches!(op, DiskOp::Discard { .. })
    }

    fn allocate(&self, len: u64) -> rustix::io::Result<()> {
        let flags = FallocateFlags::KEEP_SIZE;
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, 0, len))
    }

    /// With its whole file allocated. If that fails, unchanged, and why.
    pub(crate) fn preallocated(self) -> (Disk, Option<Error>) {
        match self.allocate_all() {
            Ok(()) => (Disk { discards: Discards::Ignored, ..self }, None),
            Err(why) => (self, Some(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use super::*;
    use crate::disk::Backend;

    const SIZE: u64 = 16 << 20;

    fn allocated(path: &Path) -> u64 {
        path.metadata().unwrap().blocks() * 512
    }

    #[test]
    fn a_preallocated_disk_keeps_what_is_discarded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        drop(Disk::create(&path, SIZE).unwrap());
        assert_eq!(allocated(&path), 0);
        let open = || Disk::open(&path, SIZE, Some(Backend::Sync)).unwrap();
        let (disk, why) = open().preallocated();
        assert_eq!((why, allocated(&path), disk.len().unwrap()), (None, SIZE, SIZE));
        let discard = DiskOp::Discard { offset: 1 << 20, len: 1 << 20 };
        disk.run(discard.clone()).unwrap();
        assert_eq!(allocated(&path), SIZE);
        drop(disk);
        open().run(discard).unwrap();
        assert_eq!(allocated(&path), SIZE - (1 << 20));
    }

    #[test]
    fn what_cannot_be_allocated_is_said() {
        let file = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let disk = Disk::of(file, Path::new("/dev/null"), crate::disk::Kind::File).unwrap();
        let (_, why) = disk.preallocated();
        assert!(why.unwrap().0.contains("omit preallocate"));
    }
}
