//! Files that must be whole after a crash, the lock on a directory, and numbers that nobody
//! else has.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use rustix::fs::{
    CWD, FallocateFlags, FlockOperation, RenameFlags, fallocate, flock, renameat_with,
};

use crate::error::{Result, at, fail};

/// Room that a file may grow by on a file system that is full otherwise.
const GROWTH: u64 = 16 << 10;

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

/// Replaces a file's content in the room that it has, as far as that goes, and keeps some
/// for more.
fn write_over(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    file.write_all(bytes)?;
    let len = bytes.len() as u64;
    if file.metadata()?.len() > len {
        file.set_len(len)?;
    }
    // A file system that cannot keep room does without.
    let _ = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, len + GROWTH);
    file.sync_all()
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
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Locks a directory against other processes, for as long as the file lives.
pub fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("weft.lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).map_err(at("open", &path))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        let _ = file.read_to_string(&mut holder);
        return fail(format!(
            "{} is in use by process {}; stop that one first",
            dir.display(),
            holder.trim()
        ));
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
    debug_assert_eq!(filled, Ok(bytes.len()), "16 bytes come whole");
    u128::from_le_bytes(bytes)
}
