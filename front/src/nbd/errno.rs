//! Errors as the protocol carries them: a number and perhaps a sentence.

use std::borrow::Cow;
use std::fmt;

use super::wire::error;

/// Why a command failed, as told to the client.
///
/// The message is sent where structured replies were negotiated and dropped
/// otherwise. Two errors are equal if both number and message are; compare
/// [`Errno::code`] to look at the number alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errno {
    code: u32,
    message: Cow<'static, str>,
}

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Errno = Errno::new(error::EPERM);
    /// Input or output error.
    pub const EIO: Errno = Errno::new(error::EIO);
    /// Out of memory.
    pub const ENOMEM: Errno = Errno::new(error::ENOMEM);
    /// Invalid argument.
    pub const EINVAL: Errno = Errno::new(error::EINVAL);
    /// No space left.
    pub const ENOSPC: Errno = Errno::new(error::ENOSPC);
    /// Value too large.
    pub const EOVERFLOW: Errno = Errno::new(error::EOVERFLOW);
    /// Not supported; for a fast zeroing, "not fast here".
    pub const ENOTSUP: Errno = Errno::new(error::ENOTSUP);
    /// The server is shutting down.
    pub const ESHUTDOWN: Errno = Errno::new(error::ESHUTDOWN);

    const fn new(code: u32) -> Errno {
        Errno { code, message: Cow::Borrowed("") }
    }

    /// An error by its number on the wire. Zero would mean success there, so
    /// it becomes `EIO`.
    pub fn from_code(code: u32) -> Errno {
        Errno::new(if code == 0 { error::EIO } else { code })
    }

    /// The same error with a message for a human reader.
    pub fn with(mut self, message: impl Into<Cow<'static, str>>) -> Errno {
        self.message = message.into();
        self
    }

    /// The number on the wire.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The message, empty if there is none.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn name(&self) -> Option<&'static str> {
        Some(match self.code {
            error::EPERM => "EPERM",
            error::EIO => "EIO",
            error::ENOMEM => "ENOMEM",
            error::EINVAL => "EINVAL",
            error::ENOSPC => "ENOSPC",
            error::EOVERFLOW => "EOVERFLOW",
            error::ENOTSUP => "ENOTSUP",
            error::ESHUTDOWN => "ESHUTDOWN",
            _ => return None,
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "error {}", self.code)?,
        }
        if self.message.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Errno {}
