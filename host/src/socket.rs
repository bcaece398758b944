//! A connected stream socket of either kind.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};

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
            "{} has {len} bytes, but the path of a socket can have {LONGEST_PATH}; choose a shorter one, absolute or relative to \
         the current directory",
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

/// How long a machine may be silent until its connections end: it has lost power, say, or its network. One that runs
/// answers by itself, whatever its programs do.
const SILENCE: Duration = Duration::from_secs(120);

/// Has the end of a machine at the other end of a connection noticed, also where nothing is to be sent to it. A socket
/// without these options works too.
pub(crate) fn notice_silence(socket: &TcpStream) {
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, SILENCE / 2);
    let _ = sockopt::set_tcp_keepintvl(socket, SILENCE / 8);
    let _ = sockopt::set_tcp_keepcnt(socket, 4);
    let _ = sockopt::set_tcp_user_timeout(socket, SILENCE.as_millis() as u32);
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
    /// Whether the other side has ended it by now, whatever the poll said last. What it sent before may still be unread.
    pub(crate) fn is_given_up(&self) -> bool {
        let fd = match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        };
        let mut look = [PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)];
        let looked = poll(&mut look, Some(&Timespec::default()));
        looked.is_ok_and(|n| n > 0)
    }

    /// The address in this machine that the other side connected to, over TCP.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(s) => s.local_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// Whether the other side begins with TLS; nothing if it has not said anything yet.
    pub(crate) fn begins_with_tls(&self) -> Option<bool> {
        /// The first byte of a TLS handshake.
        const HANDSHAKE: u8 = 22;
        let mut first = [0_u8];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let looked = match self {
            Stream::Tcp(s) => recv(s, &mut first[..], flags),
            Stream::Unix(s) => recv(s, &mut first[..], flags),
        };
        match looked {
            Err(Errno::AGAIN | Errno::INTR) => None,
            looked => Some(looked.is_ok_and(|(n, _)| n > 0) && first[0] == HANDSHAKE),
        }
    }

    /// The user at the other end, if that is in this machine.
    pub(crate) fn user(&self) -> Option<u32> {
        match self {
            Stream::Tcp(_) => None,
            Stream::Unix(s) => Some(sockopt::socket_peercred(s).ok()?.uid.as_raw()),
        }
    }

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

/// How a connection has more than its socket watched: the poll says of it what it says of the socket.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    registry: Arc<Registry>,
    token: Token,
}

impl Watch {
    /// For the connection with this token.
    pub(crate) fn new(registry: Arc<Registry>, token: Token) -> Watch {
        Watch { registry, token }
    }

    /// Watches a descriptor, until the returned value is dropped.
    pub(crate) fn add(&self, file: File) -> io::Result<Watched> {
        self.registry.register(&mut SourceFd(&file.as_raw_fd()), self.token, Interest::READABLE)?;
        Ok(Watched { file, registry: self.registry.clone() })
    }
}

/// A descriptor that is watched. Other processes may have it too, so that closing it does not end that.
#[derive(Debug)]
pub(crate) struct Watched {
    file: File,
    registry: Arc<Registry>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.registry.deregister(&mut SourceFd(&self.file.as_raw_fd()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_shows_although_what_was_sent_before_is_unread() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ours = Stream::Unix(ours);
        (&theirs).write_all(b"abc").unwrap();
        assert!(!ours.is_given_up());
        drop(theirs);
        assert!(ours.is_given_up());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ours = Stream::Tcp(TcpStream::from_std(listener.accept().unwrap().0));
        (&theirs).write_all(b"abc").unwrap();
        assert!(!ours.is_given_up());
        // The end of a connection within this machine has come when it has been sent.
        theirs.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(ours.is_given_up());
    }

    #[test]
    fn a_machine_that_is_silent_is_noticed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = TcpStream::from_std(socket);
        assert!(!sockopt::socket_keepalive(&socket).unwrap());
        notice_silence(&socket);
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        let idle = sockopt::tcp_keepidle(&socket).unwrap();
        let between = sockopt::tcp_keepintvl(&socket).unwrap();
        assert_eq!(idle + between * sockopt::tcp_keepcnt(&socket).unwrap(), SILENCE);
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), 120_000);
    }
}
