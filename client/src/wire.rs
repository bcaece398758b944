//! A connection to a node: its socket, with TLS or without.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use weft_front::Machine;
use weft_front::native::client::Client;

use crate::tls::Certificates;

/// Slices that one system call sends at most.
const SLICES: usize = 64;

/// Encrypted bytes that are received at once.
const RECEIVED: usize = 64 << 10;

/// What rustls may hold of encrypted bytes that are not sent.
const UNSENT: usize = 256 << 10;

/// A connection.
pub(crate) struct Wire {
    pub(crate) socket: Arc<OwnedFd>,
    tls: Option<Box<Secured>>,
}

/// TLS over it.
struct Secured {
    tls: ClientConnection,
    received: Box<[u8]>,
}

/// Why a connection is over.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The system says so.
    System(Errno),
    /// TLS failed.
    Tls(String),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::System(errno) => errno.fmt(f),
            Lost::Tls(why) => write!(f, "TLS: {why}"),
        }
    }
}

impl From<Errno> for Lost {
    fn from(errno: Errno) -> Lost {
        Lost::System(errno)
    }
}

fn lost(error: &io::Error) -> Lost {
    Lost::Tls(error.to_string())
}

/// The socket as rustls wants it.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let slices = &slices[..slices.len().min(SLICES)];
        Ok(sendmsg(self.0, slices, &mut SendAncillaryBuffer::default(), flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire {
    /// Over a socket that has just connected.
    pub(crate) fn new(socket: OwnedFd, certificates: Option<&Certificates>) -> Result<Wire, Lost> {
        let begin = |certificates: &Certificates| -> Result<Box<Secured>, Lost> {
            // A node is known by its authority and not by a name.
            let name = ServerName::try_from("node.weft").expect("a name");
            let tls = ClientConnection::new(certificates.config(), name);
            let mut tls = tls.map_err(|e| Lost::Tls(e.to_string()))?;
            tls.set_buffer_limit(Some(UNSENT));
            Ok(Box::new(Secured { tls, received: vec![0; RECEIVED].into() }))
        };
        let tls = certificates.map(begin).transpose()?;
        Ok(Wire { socket: Arc::new(socket), tls })
    }

    /// Sends what there is to say, as much as the socket takes now. Says whether something is left.
    pub(crate) fn send(&mut self, machine: &mut Client) -> Result<bool, Lost> {
        loop {
            if let Some(secured) = &mut self.tls
                && !secured.push(&self.socket)?
            {
                return Ok(true);
            }
            if machine.output_len() == 0 {
                return Ok(false);
            }
            let slices: Vec<IoSlice<'_>> =
                machine.output().take(SLICES).map(IoSlice::new).collect();
            let sent = match &mut self.tls {
                Some(secured) => secured.tls.writer().write_vectored(&slices),
                None => Socket(&self.socket).write_vectored(&slices),
            };
            match sent {
                // Before the handshake is done, only so much is held.
                Ok(0) => return Ok(true),
                Ok(n) => machine.sent(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(e) => {
                    return Err(Errno::from_io_error(&e).map_or_else(|| lost(&e), Lost::System));
                }
            }
        }
    }

    /// Receives once, without waiting.
    pub(crate) fn receive(&mut self, machine: &mut Client) -> Result<(), Lost> {
        let Some(secured) = &mut self.tls else {
            if let Some(n) = try_receive(&self.socket, machine.space())? {
                machine.filled(n);
            }
            return Ok(());
        };
        match try_receive(&self.socket, &mut secured.received)? {
            Some(n) => {
                secured.take(n, machine).inspect_err(|_| {
                    // The node is told why, if it listens.
                    let _ = secured.push(&self.socket);
                })?;
                secured.push(&self.socket).map(drop)
            }
            None => Ok(()),
        }
    }
}

impl Secured {
    /// Sends what is encrypted, as much as the socket takes. Says whether that was all.
    fn push(&mut self, socket: &OwnedFd) -> Result<bool, Lost> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(socket)) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => {
                    return Err(Errno::from_io_error(&e).map_or_else(|| lost(&e), Lost::System));
                }
            }
        }
        Ok(true)
    }

    /// Takes the first `n` bytes that were received.
    fn take(&mut self, n: usize, machine: &mut Client) -> Result<(), Lost> {
        let mut rest = &self.received[..n];
        while !rest.is_empty() {
            self.tls.read_tls(&mut rest).map_err(|e| lost(&e))?;
            self.tls.process_new_packets().map_err(|e| Lost::Tls(e.to_string()))?;
            loop {
                match self.tls.reader().read(machine.space()) {
                    // It has said good-bye.
                    Ok(0) => return Err(Errno::CONNRESET.into()),
                    Ok(n) => machine.filled(n),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) => return Err(lost(&e)),
                }
            }
        }
        Ok(())
    }
}

/// Receives once, without waiting; nothing if nothing has come.
fn try_receive(socket: &OwnedFd, space: &mut [u8]) -> Result<Option<usize>, Errno> {
    loop {
        match recv(socket, &mut *space, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(Errno::CONNRESET),
            Ok((_, n)) => return Ok(Some(n)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(e) => return Err(e),
        }
    }
}
