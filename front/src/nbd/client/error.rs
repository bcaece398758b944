//! What can go wrong for a client.

use std::io;

use super::Errno;

/// A client's failure.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The stream failed or ended.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server refused an option.
    #[error("server refused option {option} ({kind:#x}): {message}")]
    Refused {
        /// The option's number.
        option: u32,
        /// The kind of refusal, out of [`answer`](crate::nbd::wire::answer).
        kind: u32,
        /// The server's message; may be empty.
        message: String,
    },
    /// A command failed.
    #[error("command failed: {0}")]
    Failed(#[from] Errno),
    /// The server broke the protocol.
    #[error("server broke the protocol: {0}")]
    Protocol(&'static str),
    /// Nothing is in flight that could complete.
    #[error("no request is in flight")]
    Idle,
}

/// A result of a client.
pub type Result<T, E = ClientError> = std::result::Result<T, E>;
