//! A connected stream socket of either kind.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};

use crate::error::{Result, fail};

/// The name of the control socket in the directory of whoever serves it.
pub(crate) const CONTROL: &str = "control.sock";

/// The longest path of a Unix socket: what `sockaddr_un` has room for, and a zero behind it.
const LONGEST_PATH: usize = 107;

/// Refuses a path that is too long for a Unix socket.
pub(crate) fn require_short(path: &Path) -> Result<()> {
    match path.as_os_str().len() {
        0..=LONGEST_PATH => Ok(()),
        len => fail(format!(
            "{} has {len} bytes, and the path of a socket can have {LONGEST_PATH}; choose a shorter one, from the root or from \
             where this is started",
            path.display()
        )),
    }
}

/// What the poll says of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ready {
    /// There may be something to read.
    pub(crate) readable: bool,
    /// It may take something.
    pub(crate) writable: bool,
    /// The other side will send no more, which only reading to the end shows.
    pub(crate) ended: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// In this machine.
    Unix(UnixStream),
}

impl Stream {
    /// What the poll registers.
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(s) => s,
            Stream::Unix(s) => s,
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Stream::Tcp(s) => s.as_raw_fd(),
            Stream::Unix(s) => s.as_raw_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.read(buf),
            Stream::Unix(s) => s.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.write(buf),
            Stream::Unix(s) => s.write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.write_vectored(bufs),
            Stream::Unix(s) => s.write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
