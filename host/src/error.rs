//! What goes wrong, said so that a person can act on it.

use std::io;
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

/// Turns an I/O error into one that names the path and what was being done to it.
pub(crate) fn at<E: Into<io::Error>>(doing: &str, path: &Path) -> impl FnOnce(E) -> Error {
    move |e| Error(format!("cannot {doing} {}: {}", path.display(), e.into()))
}
