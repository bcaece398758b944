//! A disk: a file or a block device.
//!
//! There are two ways to work it. [`Backend::Sync`] does each operation at once with plain
//! system calls: right for files in memory (tmpfs), where nothing is ever waited for and
//! asynchronous I/O would only add hand-overs, and for systems without `io_uring`.
//! [`Backend::Uring`] starts operations on a ring and learns of their ends later, without
//! the page cache where the file system can do without.

mod allocation;
pub(crate) mod claim;
pub(crate) mod emulated;
pub(crate) mod format;
pub(crate) mod handle;
pub(crate) mod map_copies;
pub(crate) mod options;
pub(crate) mod queue;
pub(crate) mod space;
pub(crate) mod sync;
pub(crate) mod threads;
pub(crate) mod uring;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{
    Advice, AtFlags, FallocateFlags, FlockOperation, OFlags, SeekFrom, StatxFlags, flock,
};
use rustix::io::Errno;

use crate::disk::allocation::Discards;
use crate::disk::format::has_volatile_cache;
use crate::disk::handle::Handle;
use crate::disk::queue::DiskQueue;
use crate::disk::space::{Passed, Space};
use crate::durable::private_file;
use crate::error::{Error, Result, at, fail};
use crate::size::exactly;

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

/// File systems of which io_uring starts operations without waiting, by the same number: ext, XFS, Btrfs, F2FS, bcachefs and
/// ZFS. Others (FUSE and those of networks) may make it wait for an operation that hangs.
const STARTS_AT_ONCE: [u64; 6] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1];

/// The number of the next disk to be opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// How long a process that was killed may keep a disk in use.
const DYING: Duration = Duration::from_millis(500);

/// A cache that a durable write flushes, and with it what earlier writes left there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    /// The page cache.
    Pages,
    /// The device's own.
    Device,
    None,
}

/// An open disk. Nobody else can open it as one.
#[derive(Debug)]
pub struct Disk {
    pub(crate) file: Handle,
    pub(crate) path: PathBuf,
    /// Which of all disks that this process has opened it is.
    pub(crate) number: u64,
    pub(crate) backend: Backend,
    /// Whether it is a block device; otherwise it is a file.
    pub(crate) block: bool,
    /// Whether it is in memory, so that nothing makes it any safer.
    pub(crate) volatile: bool,
    /// What a durable write flushes.
    cache: Cache,
    /// Whether starting an operation may take as long as the operation.
    pub(crate) starts_slowly: bool,
    /// In which order it is given its operations, and how many at a time.
    pub(crate) queue: DiskQueue,
    /// Whether what is not written reads as zeros: a file made just now.
    fresh: bool,
    /// What it does about discards.
    discards: Discards,
    /// The file system that its file is on.
    on: u64,
    /// Whether its file system is full.
    pub(crate) space: Space,
    /// Its errors that have passed.
    pub(crate) passed: Passed,
}

impl Disk {
    /// Makes a disk of `size` bytes: a sparse file, which only its owner may read.
    pub fn create(path: &Path, size: u64) -> Result<Disk> {
        refuse_among_devices(path)?;
        let mut options = private_file();
        options.read(true).write(true).create_new(true);
        let file = match options.open(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return fail(format!(
                    "{} already exists; if it is the disk of an array whose weft.toml is lost, `weft recover` tells more; otherwise \
                     move it away, or choose another directory",
                    path.display()
                ));
            }
            opened => opened.map_err(at("make", path))?,
        };
        let sized = lock(&file).and_then(|()| file.set_len(size));
        if let Err(e) = sized {
            // The first error is the one to tell.
            let _ = std::fs::remove_file(path);
            return Err(at("size", path)(e));
        }
        Ok(Disk { fresh: true, ..Disk::of(file, path, Kind::File)? })
    }

    /// Opens a disk of `size` bytes. Without a `backend` the fitting one is chosen.
    pub fn open(path: &Path, size: u64, backend: Option<Backend>) -> Result<Disk> {
        let disk = Disk::patiently(path, OFlags::empty())?;
        disk.check_size(size)?;
        let fitting = if disk.volatile { Backend::Sync } else { Backend::Uring };
        let disk = match backend.unwrap_or(fitting) {
            Backend::Sync => disk,
            Backend::Uring => {
                // A device can be opened exclusively once, so the first handle must go.
                drop(disk);
                let direct = Disk::patiently(path, OFlags::DIRECT);
                let direct = direct.map(|disk| Disk { cache: disk.cache_under(), ..disk });
                let disk = direct.or_else(|_| Disk::patiently(path, OFlags::empty()))?;
                Disk { backend: Backend::Uring, ..disk }
            }
        };
        disk.drop_cache()?;
        Ok(disk)
    }

    /// The cache of one that was opened for direct operations, which some file systems do through the page cache.
    fn cache_under(&self) -> Cache {
        let said = rustix::fs::statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        // If neither kernel nor file system knows, operations are direct.
        let is_cached = said.is_ok_and(|said| {
            StatxFlags::from_bits_retain(said.stx_mask).contains(StatxFlags::DIOALIGN)
                && said.stx_dio_offset_align == 0
        });
        match (is_cached, has_volatile_cache(&self.file)) {
            (true, _) => Cache::Pages,
            (false, true) => Cache::Device,
            (false, false) => Cache::None,
        }
    }

    /// Drops its pages from the page cache. Pages whose write failed stay there as if they had been written, and only a
    /// process that had the disk open is told of the failure.
    fn drop_cache(&self) -> Result<()> {
        if self.is_direct() {
            return Ok(());
        }
        self.file.sync_data().map_err(at("flush", &self.path))?;
        let all = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        all.map_err(at("drop the page cache of", &self.path))
    }

    /// Opens what is at a path, of whatever size, for plain system calls. Nobody else may have it
    /// open meanwhile.
    pub(crate) fn alone(path: &Path) -> Result<Disk> {
        let kind = kind(path)?;
        let file = open_alone(path, kind, OFlags::empty()).map_err(|e| cannot_open(path, e))?;
        Disk::of(file, path, kind)
    }

    /// As [`Disk::alone`], for a node's own disk, which a process that was killed may keep in use for
    /// a moment: until the operations end that it had begun.
    fn patiently(path: &Path, flags: OFlags) -> Result<Disk> {
        let (kind, since) = (kind(path)?, Instant::now());
        loop {
            match open_alone(path, kind, flags) {
                Err(e) if is_in_use(&e) && since.elapsed() < DYING => {
                    thread::sleep(Duration::from_millis(5));
                }
                opened => {
                    let file = opened.map_err(|e| cannot_open(path, e))?;
                    return Disk::of(file, path, kind);
                }
            }
        }
    }

    fn of(file: File, path: &Path, kind: Kind) -> Result<Disk> {
        let block = kind == Kind::Block;
        let kind = file_system(&file, path)?;
        let on = rustix::fs::fstat(&file).map_err(at("look at", path))?.st_dev;
        let volatile = !block && IN_MEMORY.contains(&kind);
        let starts_slowly = !block && !volatile && !STARTS_AT_ONCE.contains(&kind);
        let (path, queue) = (path.to_path_buf(), DiskQueue::default());
        Ok(Disk {
            file: Handle::new(file),
            path,
            number: OPENED.fetch_add(1, Ordering::Relaxed),
            backend: Backend::Sync,
            block,
            volatile,
            cache: Cache::Pages,
            starts_slowly,
            queue,
            fresh: false,
            discards: Discards::default(),
            on,
            space: Space::default(),
            passed: Passed::default(),
        })
    }

    /// Whether its file lacks room where another's does.
    pub(crate) fn shares_room_with(&self, other: &Disk) -> bool {
        !self.block && !other.block && self.on == other.on
    }

    /// Whether it is a file that has no name any more: its content goes when it is closed.
    pub(crate) fn is_removed(&self) -> bool {
        !self.block && rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// How long its file is, if it is a file that can be cut.
    pub(crate) fn file_length(&self) -> Option<u64> {
        if self.block { None } else { self.len().ok() }
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> Result<u64> {
        length(&self.file, &self.path)
    }

    fn check_size(&self, size: u64) -> Result<()> {
        let there = self.len()?;
        if there == size || (self.block && there > size) {
            return Ok(());
        }
        let path = self.path.display();
        let cut = match !self.block && there < size {
            true => format!(
                "; if this is the right file and has been cut, `truncate -s {size} {path}` restores its length, and \
                 `weft scrub` its content"
            ),
            false => String::new(),
        };
        fail(format!(
            "{path} has {} and this array's disks have {}; replace it by the right disk{cut}",
            exactly(there),
            exactly(size)
        ))
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

    /// Whether a write that failed may be retried. A durable one that flushes a cache may report the loss of earlier writes,
    /// once: a second try would succeed.
    pub(crate) fn may_retry(&self, durable: bool) -> bool {
        !durable || self.volatile || self.cache == Cache::None
    }

    /// Whether a write that found no free space may be retried. Through the page cache a durable one may report that an
    /// earlier one found none.
    pub(crate) fn may_await_space(&self, durable: bool) -> bool {
        !durable || self.is_direct()
    }

    /// Whether reads bypass the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.volatile || self.cache != Cache::Pages
    }

    /// Says what went wrong so that it names the disk.
    pub(crate) fn error(&self, doing: &str, error: impl Into<io::Error>) -> String {
        format!("cannot {doing} {}: {}", self.path.display(), error.into())
    }
}

/// What [`weft_core::store::DiskOp::Discard`] asks of the file system.
pub(crate) const PUNCH: FallocateFlags =
    FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// What can be a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Block,
}

fn kind(path: &Path) -> Result<Kind> {
    let metadata = path.metadata().map_err(at("open", path))?;
    let what = match metadata.file_type() {
        kind if kind.is_block_device() => return Ok(Kind::Block),
        kind if kind.is_file() => return Ok(Kind::File),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a character device",
    };
    fail(format!(
        "{} is {what}, neither a file nor a block device; choose another disk",
        path.display()
    ))
}

/// Refuses what can be no disk: what is neither a file nor a block device.
pub(crate) fn check_kind(path: &Path) -> Result<()> {
    kind(path).map(drop)
}

/// Refuses a disk that is not there, can be none, or that this user may not write to.
pub(crate) fn check_usable(path: &Path) -> Result<()> {
    check_kind(path)?;
    File::options().read(true).write(true).open(path).map(drop).map_err(at("open", path))
}

/// Opens a disk to look at it, without waiting: what can be no disk is refused.
pub(crate) fn open_to_read(path: &Path) -> Result<File> {
    check_kind(path)?;
    let mut options = OpenOptions::new();
    // It may have become a FIFO just now.
    options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    options.open(path).map_err(at("open", path))
}

/// Where devices are.
const DEVICES: &str = "/dev";

/// Below that, a file system in memory that anybody may use.
const SHARED_MEMORY: &str = "/dev/shm";

/// Refuses to make anything among the devices: a path there that leads to none has a mistake in it.
pub(crate) fn refuse_among_devices(path: &Path) -> Result<()> {
    let above = path.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    let above = above.unwrap_or_default();
    match above.starts_with(DEVICES) && !above.starts_with(SHARED_MEMORY) {
        true => fail(format!(
            "there is no device {}, and no files are created below {DEVICES}; `lsblk --paths` lists the devices",
            path.display()
        )),
        false => Ok(()),
    }
}

/// Whether there is a block device at a path.
pub(crate) fn is_block(path: &Path) -> bool {
    kind(path) == Ok(Kind::Block)
}

/// Opens a disk that nobody else may have open meanwhile. The system sees to that for devices, also if
/// they are mounted; files are locked, which whoever uses them as disks does.
fn open_alone(path: &Path, kind: Kind, flags: OFlags) -> io::Result<File> {
    let flags = if kind == Kind::Block { flags | OFlags::EXCL } else { flags };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(flags.bits() as i32).open(path)?;
    if kind == Kind::File {
        lock(&file)?;
    }
    Ok(file)
}

fn lock(file: &File) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Errno::BUSY.into()),
        // A file system that has no locks does without.
        _ => Ok(()),
    }
}

fn is_in_use(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

fn cannot_open(path: &Path, error: io::Error) -> Error {
    match is_in_use(&error) {
        true => Error(format!(
            "{} is in use: another process has it open, or it is mounted; stop that first, or choose \
             another disk",
            path.display()
        )),
        false => at("open", path)(error),
    }
}

/// The bytes of a disk that is there.
pub(crate) fn size(path: &Path) -> Result<u64> {
    length(&open_to_read(path)?, path)
}

fn length(file: &File, path: &Path) -> Result<u64> {
    // The end's position is the size of files and of block devices alike.
    rustix::fs::seek(file, SeekFrom::End(0)).map_err(at("measure", path))
}

fn file_system(file: &File, path: &Path) -> Result<u64> {
    let kind = rustix::fs::fstatfs(file).map_err(at("look at", path))?.f_type as u64;
    Ok(kind & 0xffff_ffff)
}

/// Whether the files of a directory are in memory: nodes then do their disk operations themselves.
///
/// # Errors
/// If it cannot be looked at.
pub fn is_in_memory(dir: &Path) -> Result<bool> {
    let kind = file_system(&File::open(dir).map_err(at("open", dir))?, dir)?;
    Ok(IN_MEMORY.contains(&kind))
}
