//! Files that must be whole after a crash and that nobody else may read, the lock on a directory, and
//! numbers that nobody else has.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{
    CWD, FallocateFlags, FlockOperation, RenameFlags, fallocate, flock, renameat_with,
};
use rustix::io::Errno;

use crate::error::{Result, at, fail};

/// Least room that a file may grow by on a file system that is full otherwise.
const GROWTH: u64 = 16 << 10;

/// Room that is kept for a file of this many bytes to grow. A map says of each volume which nodes are away and what they
/// missed: when a node goes it may double.
fn growth(len: u64) -> u64 {
    GROWTH.max(4 * len)
}

/// The mode of files: they hold what hosts have stored, or what leads there.
const PRIVATE: u32 = 0o600;

/// The mode of directories for such files.
const PRIVATE_DIRECTORY: u32 = 0o700;

/// Options to make or open a file that only its owner may read and write, if it is made.
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(PRIVATE);
    options
}

/// Writes a file that only its owner may read and write, or replaces it: a crash or a full file system leaves the old one or
/// the new one. It belongs to whoever owns the directory, so that root can write it for the user of a service.
///
/// # Errors
/// If it cannot be written.
pub fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    let write = || {
        // Nothing that somebody else has put there is written to.
        match fs::remove_file(beside) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = private_file().write(true).create_new(true).open(beside)?;
        let (owner, own) = (directory_of(path).metadata()?, file.metadata()?);
        if (owner.uid(), owner.gid()) != (own.uid(), own.gid()) {
            // Whoever is not root leaves it as its own.
            let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(beside, path)?;
        sync_directory_of(path)
    };
    write().inspect_err(|_| drop(fs::remove_file(beside)))
}

/// Whether there is anything at a path. Where that cannot be seen, because a directory above may not be entered for
/// example, it is an error: nothing must be taken for absent that is only hidden.
///
/// # Errors
/// If it cannot be seen.
pub fn is_there(path: &Path) -> Result<bool> {
    match path.metadata() {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(at("look at", path)(e)),
    }
}

/// Makes a directory, and those above it that are missing, that only its owner may enter. One that is
/// there stays as it is.
///
/// # Errors
/// If it cannot be made.
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(path)
}

/// Replaces a file so that a crash leaves the old one or the new one. The file that was
/// replaced is kept as `spare` for the next time: writing over it needs no room, so that a disk
/// can still be found dead, and the map say so, when the file system is full.
pub(crate) fn replace(path: &Path, spare: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        write_over(spare, bytes)?;
        if renameat_with(CWD, spare, CWD, path, RenameFlags::EXCHANGE).is_err() {
            // There is nothing to exchange it with, or the file system cannot.
            fs::rename(spare, path)?;
        }
        sync_directory_of(path)
    };
    write().map_err(at("write", path))
}

/// Writes the spare of a file as [`replace`] does, and leaves the file itself as it is. There must be room for `next`
/// bytes, and for what that may have to grow by after that.
pub(crate) fn write_spare(spare: &Path, bytes: &[u8], next: u64) -> Result<()> {
    let written = write_over(spare, bytes);
    written.and_then(|file| keep_room(&file, next + growth(next) / 2)).map_err(at("write", spare))
}

/// Has room kept for a file with these bytes to grow, and for its spare, if there is any.
pub(crate) fn keep_ahead(path: &Path, spare: &Path, bytes: &[u8]) {
    let len = bytes.len() as u64;
    let file = OpenOptions::new().write(true).open(path);
    // The existing room must do if there is no more.
    let _ = file.and_then(|file| keep_room(&file, len + growth(len)));
    let _ = write_over(spare, bytes);
}

/// Has a file system keep room for this many bytes of a file. One that cannot keep any does without.
pub(crate) fn keep_room(file: &File, len: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
        Err(e @ (Errno::NOSPC | Errno::DQUOT)) if file.metadata()?.blocks() * 512 < len => {
            Err(e.into())
        }
        _ => Ok(()),
    }
}

/// Replaces a file's content in the room that it has, as far as that goes, and keeps some
/// for more.
fn write_over(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut file = private_file().write(true).create(true).truncate(false).open(path)?;
    // It may have been made by a program that let others read it.
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    file.write_all(bytes)?;
    let len = bytes.len() as u64;
    if file.metadata()?.len() > len {
        file.set_len(len)?;
    }
    // The existing room must do if there is no more.
    let _ = keep_room(&file, len + growth(len));
    file.sync_all()?;
    Ok(file)
}

/// Puts a file in the place of another, for good.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).and_then(|()| sync_directory_of(to)).map_err(at("replace", to))
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(at("remove", path)(e)),
        _ => Ok(()),
    }
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file in a directory that is locked.
pub const LOCK: &str = "weft.lock";

/// For so long a process that was killed may hold a lock: until its threads have ended, one of which may wait for a disk.
const DYING: Duration = Duration::from_secs(5);

/// Whether a process has ended but for what the kernel still does for it.
fn is_dying(pid: &str) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state follows the name, which may hold anything.
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| matches!(rest.trim_start().chars().next(), Some('Z' | 'X')))
}

/// Takes the lock, or says which process has it.
fn holder(file: &mut File) -> Option<String> {
    flock(&*file, FlockOperation::NonBlockingLockExclusive).err()?;
    let mut holder = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut holder));
    Some(holder.trim().to_string())
}

/// Whether a process has a directory locked, which is left as it is.
pub(crate) fn is_locked(dir: &Path) -> bool {
    let Ok(file) = File::open(dir.join(LOCK)) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// Locks a directory against other processes, for as long as the file lives. One that is dying is waited for.
pub fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let mut options = private_file();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).map_err(at("open", &path))?;
    let since = Instant::now();
    while let Some(holder) = holder(&mut file) {
        if !is_dying(&holder) || since.elapsed() >= DYING {
            return fail(format!(
                "{} is in use by process {holder}; stop that one first",
                dir.display()
            ));
        }
        thread::sleep(Duration::from_millis(5));
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(at("write", &path))?;
    Ok(file)
}

/// A random number, so that no two arrays or disks are taken for one another.
pub(crate) fn random() -> u128 {
    let mut bytes = [0; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    debug_assert_eq!(filled, Ok(bytes.len()), "16 bytes are written");
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs this as a user who may not enter what is another's.
    fn as_nobody(work: impl FnOnce() + Send) {
        let nobody = rustix::process::Uid::from_raw(65_534);
        let is_root = rustix::process::geteuid().is_root();
        let drop_rights = || {
            if is_root {
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
        };
        thread::scope(|s| s.spawn(move || (drop_rights(), work()).1).join().unwrap());
    }

    #[test]
    fn what_may_not_be_seen_is_not_taken_for_absent() {
        let dir = tempfile::tempdir().unwrap();
        let (closed, loops) = (dir.path().join("closed"), dir.path().join("loops"));
        make_private_directory(&closed).unwrap();
        replace_private(&closed.join("file"), b"x").unwrap();
        assert!(
            is_there(&closed.join("file")).unwrap() && !is_there(&closed.join("other")).unwrap()
        );
        std::os::unix::fs::symlink(&loops, &loops).unwrap();
        assert!(is_there(&loops).unwrap_err().0.contains("cannot look at"));
        let is_root = rustix::process::geteuid().is_root();
        let mode = if is_root { 0o700 } else { 0 };
        fs::set_permissions(&closed, Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        as_nobody(|| {
            for name in ["file", "other"] {
                let error = is_there(&closed.join(name)).unwrap_err().0;
                let why = if is_root {
                    "belongs to user 0, and this is user 65534"
                } else {
                    "The mode of"
                };
                assert!(error.contains("Permission denied") && error.contains(why), "{error}");
                assert!(error.contains(&format!("{} ", closed.display())), "{error}");
            }
        });
        fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        make_private_directory(&below).unwrap();
        make_private_directory(&below).unwrap();
        assert_eq!((mode(&below), mode(below.parent().unwrap())), (0o700, 0o700));
        let (path, spare) = (below.join("file"), below.join("spare"));
        // As a program left them that let others read them.
        for old in [&path, &spare] {
            fs::write(old, "something that was longer").unwrap();
            fs::set_permissions(old, Permissions::from_mode(0o644)).unwrap();
        }
        replace(&path, &spare, b"new").unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"new".to_vec()));
        replace(&path, &spare, b"newer").unwrap();
        assert_eq!((mode(&path), mode(&spare)), (0o600, 0o600));
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        replace_private(&path, b"x").unwrap();
        let names =
            || fs::read_dir(&below).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
        assert!(names().iter().all(|name| name == "file" || name == "spare"), "{:?}", names());
        // What somebody else has put there is neither followed nor written to.
        let (elsewhere, beside) = (below.join("elsewhere"), below.join("file.new"));
        fs::write(&elsewhere, "mine").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &beside).unwrap();
        replace_private(&path, b"y").unwrap();
        assert_eq!(
            (fs::read(&elsewhere).unwrap(), fs::read(&path).unwrap()),
            (b"mine".to_vec(), b"y".to_vec())
        );
        assert!(!beside.exists());
        assert_eq!(mode(&path), 0o600);
        drop(lock(&below).unwrap());
        assert_eq!(mode(&below.join(LOCK)), 0o600);
    }

    #[test]
    fn who_holds_a_lock_is_waited_for_if_it_is_dying() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        let own = std::process::id().to_string();
        assert!(lock(dir.path()).unwrap_err().0.contains(&format!("in use by process {own}")));
        assert!(!is_dying(&own) && is_locked(dir.path()));
        let mut file = File::open(dir.path().join(LOCK)).unwrap();
        assert_eq!(holder(&mut file), Some(own));
        drop(held);
        assert!(!is_locked(dir.path()));
        assert_eq!(holder(&mut file), None);
        // It is there until somebody has asked how it ended.
        let mut corpse = std::process::Command::new("true").spawn().unwrap();
        let pid = corpse.id().to_string();
        while !is_dying(&pid) {
            thread::yield_now();
        }
        assert!(Path::new("/proc").join(&pid).exists());
        corpse.wait().unwrap();
        assert!(is_dying(&pid), "and it is gone");
    }
}
