//! A connection with TLS, for who reads and writes without waiting.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};
use weft_net::identity::{ShownHost, describe, shown_host};

use crate::socket::Stream;

/// What rustls may hold of encrypted bytes that are not sent.
const UNSENT: usize = 256 << 10;

/// Encrypted bytes that are read at once.
const READ: usize = 64 << 10;

/// The server's side of TLS over a connection.
#[derive(Debug)]
pub(crate) struct Secured {
    tls: ServerConnection,
    /// Encrypted bytes that were read: those from `start` to `end` have not been looked at.
    read: Box<[u8]>,
    start: usize,
    end: usize,
    /// The other side sends no more.
    ended: bool,
}

impl Secured {
    /// TLS begins.
    pub(super) fn new(config: Arc<ServerConfig>) -> io::Result<Secured> {
        let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
        tls.set_buffer_limit(Some(UNSENT));
        let read = vec![0; READ].into_boxed_slice();
        Ok(Secured { tls, read, start: 0, end: 0, ended: false })
    }

    /// Whether something is encrypted that the socket has not taken.
    pub(super) fn is_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Whether there is something to read that the poll does not say.
    pub(super) fn is_pending(&self) -> bool {
        self.ended || self.start < self.end
    }

    /// The host that has shown its certificate, once the handshake is done.
    pub(super) fn shown(&self) -> Option<ShownHost> {
        match self.tls.is_handshaking() {
            true => None,
            false => shown_host(&self.tls),
        }
    }

    /// Sends what is encrypted, as much as the socket takes. Says whether that was all.
    pub(super) fn push(&mut self, socket: &mut Stream) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(socket) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Has rustls decrypt some of what was read, or reads more. Says whether there was any.
    fn take(&mut self, socket: &mut Stream) -> io::Result<bool> {
        if self.start == self.end {
            if self.ended {
                return Ok(false);
            }
            (self.start, self.end) = (0, socket.read(&mut self.read)?);
            if self.end == 0 {
                self.ended = true;
                return Ok(false);
            }
        }
        let mut rest = &self.read[self.start..self.end];
        let before = rest.len();
        self.tls.read_tls(&mut rest)?;
        self.start += before - rest.len();
        if let Err(e) = self.tls.process_new_packets() {
            // The other side is told why, if it still listens.
            let _ = self.push(socket);
            return Err(io::Error::new(ErrorKind::InvalidData, describe(&e)));
        }
        self.push(socket)?;
        Ok(true)
    }

    /// Reads until there is no more or `buf` is full.
    pub(super) fn read(&mut self, socket: &mut Stream, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.tls.reader().read(&mut buf[filled..]) {
                // It has said good-bye.
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(n) => {
                    filled += n;
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
            match self.take(socket) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock && filled > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }

    /// Encrypts as much as may be held, and sends what the socket takes. It would block only while nothing can be held.
    pub(super) fn write(&mut self, socket: &mut Stream, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.push(socket)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = self.tls.writer().write_vectored(bufs)?;
        self.push(socket)?;
        match n {
            // Before the handshake is done, only so much is held.
            0 => Err(ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use rustls::{ClientConfig, ClientConnection};
    use weft_net::identity::{CertificateAuthority, Clock, ClusterId, Identity, LIFE, NodeKey};

    use super::*;

    fn identity(authority: &CertificateAuthority, name: &str) -> Identity {
        let (key, now) = (NodeKey::generate().unwrap(), Clock::system().now());
        let certificate =
            authority.admit(&name.parse().unwrap(), &key.public(), now, LIFE).unwrap();
        Identity::new(authority.pem(), &certificate, &key).unwrap()
    }

    /// Both sides of a connection whose client shows what `config` has.
    fn pair(
        server: &Identity,
        config: Arc<ClientConfig>,
    ) -> (Secured, Stream, ClientConnection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let stream = Stream::Unix(mio::net::UnixStream::from_std(ours));
        let secured = Secured::new(server.serving_config().unwrap()).unwrap();
        let name = "n0.00000000000000000000000000000007.weft".try_into().unwrap();
        (secured, stream, ClientConnection::new(config, name).unwrap(), theirs)
    }

    #[test]
    fn a_process_does_not_come_in_as_a_host() {
        let authority = CertificateAuthority::create(ClusterId(7)).unwrap();
        let (server, process) = (identity(&authority, "n0"), identity(&authority, "n1"));
        let (mut ours, mut stream, mut theirs, mut wire) =
            pair(&server, process.client_config().unwrap());
        let mut buf = [0; 16];
        let refused = loop {
            let _ = theirs.write_tls(&mut wire);
            match ours.read(&mut stream, &mut buf) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => break e,
                Ok(n) => panic!("{n} bytes of a process"),
            }
            let _ = theirs.read_tls(&mut wire);
            theirs.process_new_packets().unwrap();
        };
        assert!(refused.to_string().contains("is for the process of node n1"), "{refused}");
        assert_eq!(ours.shown(), None);
    }
}
