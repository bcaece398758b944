//! What goes wrong, said so that a person can act on it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A failure: what was wrong with what was given, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// The result of whatever can fail with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error with this message.
pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Error(message.into()))
}

/// Turns an I/O error into one that names the path and what was being done to it. Where permission is denied it
/// names the owner too.
pub(crate) fn at<E: Into<io::Error>>(doing: &str, path: &Path) -> impl FnOnce(E) -> Error {
    move |e| {
        let error = e.into();
        let owner = match error.kind() {
            io::ErrorKind::PermissionDenied => whose(path),
            _ => None,
        };
        Error(format!("cannot {doing} {}: {error}{}", path.display(), owner.unwrap_or_default()))
    }
}

/// Why this user may not read a file: whose it is, to be added to an error.
pub(crate) fn denied_to(path: &Path) -> Option<String> {
    let error = std::fs::File::open(path).err()?;
    (error.kind() == io::ErrorKind::PermissionDenied).then(|| whose(path)).flatten()
}

/// Why this user may not use a path: whose it is, or the directory that stops it.
fn whose(path: &Path) -> Option<String> {
    let us = rustix::process::geteuid().as_raw();
    let visible = path.ancestors().filter_map(|p| Some((p, p.metadata().ok()?)));
    // A file of this user's may be in a directory of another's.
    let nearest: Vec<_> = visible.take(2).collect();
    let (of, metadata) = nearest.iter().find(|(_, m)| m.uid() != us).or(nearest.first())?;
    Some(match metadata.uid() == us {
        true => {
            format!(". The mode of {} is {:o}; change it", of.display(), metadata.mode() & 0o777)
        }
        false => format!(
            ". {} belongs to user {}, and this is user {us}: run this command as its owner, or give it to \
             this user (chown -R)",
            of.display(),
            metadata.uid()
        ),
    })
}
