//! Taking a disk for a node. Everything that speaks against it is found before anything of it is
//! changed: nobody else has it open, nothing foreign is on it, its size will do. And what has been
//! made of it is taken back unless it is kept.

use std::path::{Path, PathBuf};
use std::thread;

use weft_core::units::{NodeId, SECTOR};

use crate::disk::format::{Own, blank_disk, data_sectors, format_disk, refuse_used};
use crate::disk::{Disk, refuse_among_devices};
use crate::durable;
use crate::error::{Error, Result, at, fail};
use crate::size::{require_multiple, rounded};

/// How a disk is claimed, by whoever may wait for it.
pub(crate) type Claimer = Box<dyn Fn() -> Result<Claim> + Send + Sync>;

/// A disk that may be made the empty one of a node. Nobody else can take it as long as this lives.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    size: u64,
    /// What is at the path.
    there: Option<Disk>,
    /// The file that is to come there. A block device is used as it is.
    new: Option<(PathBuf, Disk)>,
    made: bool,
}

impl Claim {
    /// Claims what is at `path`, or will be: a block device, which is used whole, or a file of this
    /// size. Refused if it is in use, also with `force`; without that, if it holds something other
    /// than what the node left there itself whose `own` it is.
    pub(crate) fn new(
        path: &Path,
        size: Option<u64>,
        own: Option<Own>,
        force: bool,
    ) -> Result<Claim> {
        let (there, size) = Claim::look(path, size, own, force)?;
        let block = there.as_ref().is_some_and(|disk| disk.block);
        let new = if block { None } else { Some(new_file(path, size)?) };
        Ok(Claim { path: path.to_path_buf(), size, there, new, made: false })
    }

    /// With the new file allocated, if `preallocate` says so.
    pub(crate) fn allocated(self, preallocate: bool) -> Result<Claim> {
        let disk = self.new.as_ref().map(|(_, disk)| disk).or(self.there.as_ref());
        if let Some(disk) = disk.filter(|_| preallocate) {
            disk.allocate_all()?;
        }
        Ok(self)
    }

    /// Refuses what [`Claim::new`] would refuse, and changes nothing.
    pub(crate) fn check(path: &Path, size: Option<u64>, own: Option<Own>) -> Result<()> {
        Claim::look(path, size, own, false).map(drop)
    }

    /// What is at a path, and the size of the disk that is to be there.
    fn look(
        path: &Path,
        size: Option<u64>,
        own: Option<Own>,
        force: bool,
    ) -> Result<(Option<Disk>, u64)> {
        let there = match durable::is_there(path)? {
            true => Some(Disk::alone(path)?),
            false => None,
        };
        if let Some(disk) = there.as_ref().filter(|_| !force) {
            refuse_used(disk, own)?;
        }
        let block = there.as_ref().is_some_and(|disk| disk.block);
        if !block {
            refuse_among_devices(path)?;
        }
        let size = size_to_be(path, there.as_ref(), size)?;
        data_sectors(size)?;
        if !block {
            fits(path, size)?;
        }
        Ok((there, size))
    }

    /// Where the disk is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Makes it the empty disk of a node, of whose data sectors so many are `needed`. Whatever was on it is lost.
    pub(crate) fn make(&mut self, cluster: u128, node: NodeId, needed: u64) -> Result<()> {
        let whose = (cluster, node);
        match (&self.new, &self.there) {
            (Some((new, disk)), _) => {
                format_disk(disk, self.size, whose, needed)?;
                durable::rename(new, &self.path)?;
                self.made = true;
            }
            (None, Some(device)) => {
                self.made = true;
                format_disk(device, self.size, whose, needed)?;
            }
            (None, None) => return fail(format!("there is no {}", self.path.display())),
        }
        Ok(())
    }

    /// Leaves there what has been made, if anything has.
    pub(crate) fn keep(mut self) {
        if !self.made {
            return;
        }
        self.made = false;
        if self.new.take().is_some()
            && let Some(replaced) = self.there.take()
        {
            // Nothing names it any more, so closing it frees all that it held. A large file takes
            // its file system a while, which no node need wait for.
            let close = move || drop(replaced);
            // Where there is no thread to be had it is closed here and now.
            let _ = thread::Builder::new().name("weft-close".to_string()).spawn(close);
        }
    }

    fn take_back(&self) -> Result<()> {
        match (&self.new, &self.there) {
            (Some((new, _)), _) if !self.made => durable::remove(new),
            (Some(_), None) => durable::remove(&self.path),
            (Some((_, disk)), Some(_)) | (None, Some(disk)) if self.made => blank_disk(disk),
            _ => Ok(()),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // What went wrong first is what is told.
        let _ = self.take_back();
    }
}

/// How large the disk at a path is to be, of which this is said and where this is.
fn size_to_be(path: &Path, there: Option<&Disk>, said: Option<u64>) -> Result<u64> {
    let what = match (there, said) {
        (Some(disk), None) if disk.block => return disk.len(),
        (Some(disk), Some(_)) if disk.block => {
            return fail(format!(
                "{} is a block device and is used whole; omit disk_size",
                path.display()
            ));
        }
        (_, Some(size)) => return require_multiple("a disk size", size, SECTOR).map(|()| size),
        (Some(_), None) => "is not a block device",
        (None, None) => "is not there",
    };
    fail(format!(
        "{} {what}; give disk_size (or --size) to make a file of that size",
        path.display()
    ))
}

/// A file beside the path, to be put in its place when it is whole.
fn new_file(path: &Path, size: u64) -> Result<(PathBuf, Disk)> {
    let Some(name) = path.file_name() else {
        return fail(format!("{} is not the path of a file", path.display()));
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".weft-new");
    let new = path.with_file_name(hidden);
    if durable::is_there(&new)? {
        // One that was killed has left it, unless it is still at it.
        drop(Disk::alone(&new)?);
        durable::remove(&new)?;
    }
    let disk = Disk::create(&new, size).map_err(|e| Error(format!("{}: {e}", path.display())))?;
    Ok((new, disk))
}

/// Refuses a file that its file system can never hold: it would be found out when it is full.
fn fits(path: &Path, size: u64) -> Result<()> {
    let above = path.parent().unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(above).map_err(at("look at", above))?;
    let room = stat.f_blocks.saturating_mul(stat.f_frsize);
    // Some do not say how large they are.
    if room == 0 || size <= room {
        return Ok(());
    }
    fail(format!(
        "{} cannot have {}: its file system has {} in all; give a smaller disk_size (or --size)",
        path.display(),
        rounded(size),
        rounded(room)
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::disk::format::holder;

    const SIZE: u64 = 16 << 20;
    const CLUSTER: u128 = 7;

    fn refused(path: &Path, own: Option<Own>, force: bool, why: &str) {
        let before = fs::read(path).ok();
        let err = Claim::new(path, Some(SIZE), own, force).unwrap_err();
        assert!(err.0.contains(why), "{err}");
        assert_eq!(fs::read(path).ok(), before, "it is as it was");
        let beside = fs::read_dir(path.parent().unwrap()).unwrap();
        let names: Vec<String> =
            beside.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        assert!(!names.iter().any(|n| n.contains("weft-new")), "{names:?}");
    }

    fn take(path: &Path, own: Option<Own>, force: bool, node: u16) {
        let mut claim = Claim::new(path, Some(SIZE), own, force).unwrap();
        claim.make(CLUSTER, NodeId(node), 0).unwrap();
        claim.keep();
        assert_eq!(holder(path, CLUSTER), Some(node));
        assert_eq!(fs::metadata(path).unwrap().len(), SIZE);
    }

    #[test]
    fn only_what_is_empty_or_the_nodes_own_is_taken_without_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let own = |node| Some(Own { cluster: CLUSTER, node: NodeId(node) });
        take(&path, own(3), false, 3);
        take(&path, own(3), false, 3);
        refused(&path, own(4), false, "a disk of Weft");
        refused(&path, None, false, "a disk of Weft");
        refused(&path, Some(Own { cluster: 8, node: NodeId(3) }), false, "a disk of Weft");
        // One superblock is enough to know it by.
        let mut bytes = fs::read(&path).unwrap();
        bytes[..4096].fill(9);
        fs::write(&path, &bytes).unwrap();
        take(&path, own(3), false, 3);
        fs::write(&path, "something").unwrap();
        refused(&path, own(3), false, "holds something");
        take(&path, own(3), true, 3);
        fs::write(&path, [0; 5000]).unwrap();
        take(&path, None, false, 5);
    }

    #[test]
    fn what_another_has_open_is_not_taken_with_force_either() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        take(&path, None, false, 1);
        let own = Some(Own { cluster: CLUSTER, node: NodeId(1) });
        let open = Disk::open(&path, SIZE, None).unwrap();
        refused(&path, own, false, "in use");
        refused(&path, own, true, "in use");
        drop(open);
        let claim = Claim::new(&path, Some(SIZE), own, false).unwrap();
        assert!(Claim::new(&path, Some(SIZE), own, true).unwrap_err().0.contains("in use"));
        drop(claim);
        assert_eq!(holder(&path, CLUSTER), Some(1), "a claim alone changes nothing");
    }

    #[test]
    fn what_is_not_kept_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let make = || {
            let mut claim = Claim::new(&path, Some(SIZE), None, false).unwrap();
            claim.make(CLUSTER, NodeId(2), 0).unwrap();
            assert_eq!(holder(&path, CLUSTER), Some(2));
        };
        make();
        assert!(!path.exists(), "it was not there before");
        fs::write(&path, [0; 8192]).unwrap();
        make();
        take(&path, None, false, 2);
    }

    #[test]
    fn a_disk_is_no_larger_than_its_file_system_nor_too_small() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        for size in [900 << 50, 1 << 50, 4096] {
            Claim::new(&path, Some(size), None, false).unwrap_err();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
        let nowhere = Claim::new(&dir.path().join("nowhere/disk"), Some(SIZE), None, false);
        assert!(nowhere.unwrap_err().0.contains("No such file"));
        let none = Claim::new(&path, None, None, false).unwrap_err();
        assert!(none.0.contains("give disk_size"), "{none}");
        assert!(Claim::new(dir.path(), Some(SIZE), None, true).is_err());
        assert!(Claim::new(Path::new("/dev/null"), Some(SIZE), None, true).is_err());
    }

    #[test]
    fn nothing_is_made_among_the_devices() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("devices");
        std::os::unix::fs::symlink("/dev", &link).unwrap();
        for path in ["/dev/weft-typo", "/dev/disk/weft-none/typo", "/dev/../dev/weft-typo"] {
            for said in [Some(SIZE), None] {
                let none = Claim::new(Path::new(path), said, None, true).unwrap_err();
                assert!(none.0.contains(&format!("there is no device {path}")), "{none}");
            }
            assert!(Disk::create(Path::new(path), SIZE).is_err());
            assert!(!Path::new(path).exists());
        }
        assert!(Claim::new(&link.join("weft-typo"), Some(SIZE), None, true).is_err());
        let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
        take(&memory.path().join("disk"), None, false, 1);
    }
}
