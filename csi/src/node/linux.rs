//! A real machine.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
use tonic::Status;

use super::devices::Devices;
use super::machine::{Machine, Mount};
use super::programs::{output, run, said};

/// How many volumes one machine may have.
const MOST_VOLUMES: usize = 256;

/// What `blkid` says if nothing is on a device.
const NOTHING: i32 = 2;

/// Bytes at the begin of a device, where signatures are. They must be readable before nothing is believed to be there.
const SIGNATURES: usize = 1 << 20;

/// A Linux machine.
pub struct Linux(pub Devices);

impl Machine for Linux {
    fn attached(&self, volume: &str) -> Result<Option<PathBuf>, Status> {
        Ok(self.0.of(volume))
    }

    fn serves(&self, volume: &str, grant: Option<&str>) -> Result<bool, Status> {
        Ok(self.0.serves(volume, grant))
    }

    fn attach(&self, volume: &str, grant: Option<&str>) -> Result<PathBuf, Status> {
        self.0.attach(volume, grant)
    }

    fn abandon(&self, volume: &str) -> Result<(), Status> {
        self.0.abandon(volume)
    }

    fn detach(&self, volume: &str, device: &Path) -> Result<(), Status> {
        self.0.detach(volume, device)
    }

    fn set_size(&self, volume: &str, device: &Path, bytes: u64) -> Result<(), Status> {
        self.0.resize(volume, device, bytes)
    }

    fn size(&self, device: &Path) -> Result<u64, Status> {
        let end = File::open(device).and_then(|mut file| file.seek(SeekFrom::End(0)));
        end.map_err(|e| cannot("read the size of", device, &e))
    }

    fn most_volumes(&self) -> usize {
        MOST_VOLUMES
    }

    fn file_system(&self, device: &Path) -> Result<Option<String>, Status> {
        read_begin(device)?;
        let arguments = ["-p", "-u", "filesystem", "-o", "value", "-s", "TYPE"].map(OsStr::new);
        let found = output("blkid", &[&arguments[..], &[device.as_os_str()]].concat())?;
        match found.status.code() {
            Some(0) => Ok(Some(String::from_utf8_lossy(&found.stdout).trim().to_string())),
            Some(NOTHING) => no_partitions(device).map(|()| None),
            _ => Err(Status::internal(format!("blkid {}: {}", device.display(), said(&found)))),
        }
    }

    fn format(&self, device: &Path, file_system: &str) -> Result<(), Status> {
        let device = device.as_os_str();
        let arguments: &[&str] = match file_system {
            "ext4" => &["-q", "-F", "-m", "0", "-E", "nodiscard"],
            _ => &["-q", "-f", "-K"],
        };
        let arguments: Vec<_> = arguments.iter().map(OsStr::new).chain([device]).collect();
        run(&format!("mkfs.{file_system}"), &arguments).map(drop)
    }

    fn grow(&self, device: &Path, mounted_at: &Path, file_system: &str) -> Result<(), Status> {
        match file_system {
            "ext4" => run("resize2fs", &[device]).map(drop),
            "xfs" => run("xfs_growfs", &[mounted_at]).map(drop),
            _ => Ok(()),
        }
    }

    fn mounted(&self, at: &Path) -> Result<Option<Mount>, Status> {
        let at = match at.canonicalize() {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            // The file system there may not answer any more.
            Err(_) => at.to_path_buf(),
            Ok(at) => at,
        };
        Ok(find(&table()?, &at.to_string_lossy()))
    }

    fn shown_at(&self, device: &Path) -> Result<Vec<PathBuf>, Status> {
        let number = fs::metadata(device).map_err(|e| cannot("find", device, &e))?.rdev();
        let number = format!("{}:{}", major(number), minor(number));
        Ok(shown(&table()?, &number, &device.to_string_lossy()))
    }

    fn mount(
        &self,
        device: &Path,
        at: &Path,
        file_system: &str,
        options: &[String],
    ) -> Result<(), Status> {
        fs::create_dir_all(at).map_err(|e| cannot("make", at, &e))?;
        let options = options.join(",");
        let options = [OsStr::new("-o"), OsStr::new(&options)];
        let options = if options[1].is_empty() { &[][..] } else { &options[..] };
        let kind = [OsStr::new("-t"), OsStr::new(file_system)];
        let arguments = [&kind[..], options, &[device.as_os_str(), at.as_os_str()]].concat();
        run("mount", &arguments).map(drop)
    }

    fn bind(&self, from: &Path, at: &Path, reads_only: bool) -> Result<(), Status> {
        mount_bind(from, at).map_err(|e| cannot("mount", at, &e.into()))?;
        if reads_only {
            let flags = MountFlags::BIND | MountFlags::RDONLY;
            let made = mount_remount(at, flags, c"");
            made.map_err(|e| cannot("mount read-only", at, &e.into())).inspect_err(|_| {
                // It is not to be found there with the right to write.
                let _ = unmount(at, UnmountFlags::DETACH);
            })?;
        }
        Ok(())
    }

    fn unmount(&self, at: &Path) -> Result<(), Status> {
        unmount(at, UnmountFlags::empty()).map_err(|e| cannot("unmount", at, &e.into()))
    }
}

/// Whether a device is there, and can be read.
fn read_begin(device: &Path) -> Result<(), Status> {
    let metadata = fs::metadata(device).map_err(|e| cannot("find", device, &e))?;
    if !metadata.file_type().is_block_device() {
        return Err(Status::internal(format!(
            "{} is not a block device (mode {:o})",
            device.display(),
            metadata.mode()
        )));
    }
    let mut begin = Vec::new();
    let read =
        File::open(device).and_then(|file| file.take(SIGNATURES as u64).read_to_end(&mut begin));
    match read {
        Ok(0) => Err(Status::internal(format!("{} was abandoned", device.display()))),
        Ok(_) => Ok(()),
        Err(e) => Err(cannot("read", device, &e)),
    }
}

/// Refuses a device with partitions or another signature: that is somebody's content.
fn no_partitions(device: &Path) -> Result<(), Status> {
    let arguments = [OsStr::new("-p"), device.as_os_str()];
    let found = output("blkid", &arguments)?;
    match found.status.code() {
        Some(NOTHING) => Ok(()),
        _ => Err(Status::failed_precondition(format!(
            "{} has content other than a file system, and was not changed: {}",
            device.display(),
            said(&found)
        ))),
    }
}

/// The kernel's table of mounts.
fn table() -> Result<String, Status> {
    let table = Path::new("/proc/self/mountinfo");
    fs::read_to_string(table).map_err(|e| cannot("read", table, &e))
}

/// What a line of the table says: the device, which part of it, where, and how.
struct Line<'a> {
    device: &'a str,
    root: &'a str,
    at: String,
    options: &'a str,
}

fn lines(table: &str) -> impl DoubleEndedIterator<Item = Line<'_>> {
    table.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(2);
        let (device, root) = (words.next()?, words.next()?);
        let (at, options) = (unescaped(words.next()?), words.next()?);
        Some(Line { device, root, at, options })
    })
}

/// The last mount at a path.
fn find(table: &str, at: &str) -> Option<Mount> {
    let last = lines(table).rfind(|line| line.at == at)?;
    Some(Mount { reads_only: last.options.split(',').any(|option| option == "ro") })
}

/// Where a device's file system is mounted, or its file is shown.
fn shown(table: &str, number: &str, device: &str) -> Vec<PathBuf> {
    let file = device.strip_prefix("/dev").unwrap_or(device);
    let its = |line: &Line<'_>| line.device == number || line.root == file;
    lines(table).filter(its).map(|line| PathBuf::from(line.at)).collect()
}

/// A path as it is: blanks, tabs, newlines and backslashes are octal numbers there.
fn unescaped(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_string(), |path, (from, to)| path.replace(from, to))
}

fn cannot(what: &str, path: &Path, why: &std::io::Error) -> Status {
    Status::internal(format!("cannot {what} {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_of_a_path_counts() {
        let table = "22 1 0:21 / /sys rw,nosuid - sysfs sysfs rw\n\
                     40 1 43:0 / /a\\040b rw,relatime shared:1 - ext4 /dev/nbd0 rw\n\
                     41 1 43:1 / /a\\040b ro,relatime - ext4 /dev/nbd1 ro\n\
                     42 1 0:6 /nbd0 /c rw - devtmpfs d rw\n";
        assert_eq!(find(table, "/a b"), Some(Mount { reads_only: true }));
        assert_eq!(find(table, "/a"), None);
        assert!(!find(table, "/sys").unwrap().reads_only);
        assert_eq!(shown(table, "43:0", "/dev/nbd0"), ["/a b", "/c"].map(PathBuf::from));
        assert!(shown(table, "43:2", "/dev/nbd2").is_empty());
    }
}
