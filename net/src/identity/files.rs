//! Reading and writing identity files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::IdentityError;

pub(super) fn file<'a>(path: &'a Path) -> impl Fn(io::Error) -> IdentityError + 'a {
    move |error| IdentityError::File { path: path.to_path_buf(), error }
}

/// Reads a file that anybody may read.
pub(super) fn read(path: &Path) -> Result<String, IdentityError> {
    fs::read_to_string(path).map_err(file(path))
}

/// Reads a file that only its owner may read.
pub(super) fn read_private(path: &Path) -> Result<String, IdentityError> {
    let mode = fs::metadata(path).map_err(file(path))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(IdentityError::Exposed(path.to_path_buf()));
    }
    read(path)
}

fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Writes a private file that must not be there yet: a lost key cannot be made again.
pub(super) fn create_private(path: &Path, text: &str) -> Result<(), IdentityError> {
    write_new(path, text, 0o600).map_err(file(path))?;
    sync_directory(path)
}

/// Writes a file that anybody may read, or puts a new one in its place.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), IdentityError> {
    replace_with_mode(path, text, 0o644)
}

/// As [`replace`], for a file that only its owner may read.
pub(super) fn replace_private(path: &Path, text: &str) -> Result<(), IdentityError> {
    replace_with_mode(path, text, 0o600)
}

fn replace_with_mode(path: &Path, text: &str, mode: u32) -> Result<(), IdentityError> {
    let beside = path.with_extension("new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(file(&beside)(error)),
        _ => {}
    }
    write_new(&beside, text, mode).map_err(file(&beside))?;
    fs::rename(&beside, path).map_err(file(path))?;
    sync_directory(path)
}

fn sync_directory(path: &Path) -> Result<(), IdentityError> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    fs::File::open(dir).and_then(|d| d.sync_all()).map_err(file(dir))
}
