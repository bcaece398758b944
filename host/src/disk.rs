//! A disk: a file or a block device.
//!
//! There are two ways to work it. [`Backend::Sync`] does each operation at once with plain
//! system calls: right for files in memory (tmpfs), where nothing is ever waited for and
//! asynchronous I/O would only add hand-overs, and for systems without `io_uring`.
//! [`Backend::Uring`] starts operations on a ring and learns of their ends later, without
//! the page cache where the file system can do without.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom};

use crate::disk_queue::DiskQueue;
use crate::error::{Result, at, fail};
use crate::size::Size;

/// How a disk is worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Each operation at once, with plain system calls.
    Sync,
    /// Started on a ring.
    Uring,
}

/// File systems that live in memory, by the number that `statfs` gives.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// An open disk.
#[derive(Debug)]
pub struct Disk {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) backend: Backend,
    /// Whether it is in memory, so that nothing makes it any safer.
    pub(crate) volatile: bool,
    /// In which order it is given its operations, and how many at a time.
    pub(crate) queue: DiskQueue,
    /// Whether what is not written reads as zeros: a file made just now.
    fresh: bool,
}

impl Disk {
    /// Makes a disk of `size` bytes: a sparse file, or a block device that is there.
    pub fn create(path: &Path, size: u64) -> Result<Disk> {
        if path.exists() && is_block(path)? {
            return Disk::open(path, size, Some(Backend::Sync));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = match options.open(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return fail(format!(
                    "{} is there already; move it away, or choose another directory",
                    path.display()
                ));
            }
            opened => opened.map_err(at("make", path))?,
        };
        file.set_len(size).map_err(at("size", path))?;
        let volatile = in_memory(&file, path)?;
        let path = path.to_path_buf();
        let queue = DiskQueue::default();
        Ok(Disk { file, path, backend: Backend::Sync, volatile, queue, fresh: true })
    }

    /// Opens a disk of `size` bytes. Without a `backend` the fitting one is chosen.
    pub fn open(path: &Path, size: u64, backend: Option<Backend>) -> Result<Disk> {
        let block = is_block(path)?;
        let exclusive = if block { OFlags::EXCL } else { OFlags::empty() };
        let file = open_with(path, exclusive).map_err(at("open", path))?;
        check_size(&file, path, size, block)?;
        let volatile = in_memory(&file, path)?;
        let fitting = if volatile { Backend::Sync } else { Backend::Uring };
        let backend = backend.unwrap_or(fitting);
        let file = match backend {
            Backend::Sync => file,
            Backend::Uring => {
                // A device can be opened exclusively once, so the first handle must go.
                drop(file);
                open_with(path, exclusive | OFlags::DIRECT)
                    .or_else(|_| open_with(path, exclusive))
                    .map_err(at("open", path))?
            }
        };
        let (path, queue) = (path.to_path_buf(), DiskQueue::default());
        Ok(Disk { file, path, backend, volatile, queue, fresh: false })
    }

    /// With its queue served like this.
    pub fn queued(self, queue: DiskQueue) -> Disk {
        Disk { queue, ..self }
    }

    /// How it is worked.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Whether zeros need not be written to it, because it was made just now.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Says what went wrong so that it names the disk.
    pub(crate) fn error(&self, doing: &str, error: impl Into<io::Error>) -> String {
        format!("cannot {doing} {}: {}", self.path.display(), error.into())
    }
}

/// What [`weft_core::store::DiskOp::Discard`] asks of the file system.
pub(crate) const PUNCH: FallocateFlags =
    FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(path)
}

pub(crate) fn is_block(path: &Path) -> Result<bool> {
    let metadata = path.metadata().map_err(at("open", path))?;
    Ok(metadata.file_type().is_block_device())
}

/// The bytes of a disk that is there.
pub(crate) fn size(path: &Path) -> Result<u64> {
    let file = File::open(path).map_err(at("open", path))?;
    // The end's position is the size of files and of block devices alike.
    rustix::fs::seek(file, SeekFrom::End(0)).map_err(at("measure", path))
}

fn check_size(file: &File, path: &Path, size: u64, block: bool) -> Result<()> {
    // The end's position is the size of files and of block devices alike.
    let there = rustix::fs::seek(file, SeekFrom::End(0)).map_err(at("measure", path))?;
    if there == size || (block && there > size) {
        return Ok(());
    }
    fail(format!(
        "{} has {} bytes and this array's disks have {size} ({}); put the right disk in its place",
        path.display(),
        there,
        Size(size)
    ))
}

fn in_memory(file: &File, path: &Path) -> Result<bool> {
    let kind = rustix::fs::fstatfs(file).map_err(at("look at", path))?.f_type as u64;
    Ok(IN_MEMORY.contains(&(kind & 0xffff_ffff)) && !is_block(path)?)
}
