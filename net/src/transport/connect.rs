//! How connections begin: accepting and dialling.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Token};
use rustix::net::sockopt;
use rustls::{ClientConnection, Connection, ServerConnection};
use weft_core::units::NodeId;

use super::Lost;
use super::driver::Driver;
use super::link::Link;
use super::pipe::Wire;
use super::stream::Stream;
use crate::identity::{NodeName, server_name};

/// How long after accepting failed (for want of descriptors, say) it is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Driver {
    /// Takes all that have connected.
    pub(super) fn accept(&mut self, now: Instant) {
        self.accept_at = None;
        self.take_all(
            |driver| driver.listener.as_ref().map(TcpListener::accept),
            |driver, (socket, address)| driver.admit(socket, address, now),
            now,
        );
        self.take_all(
            |driver| driver.door.as_ref().map(|d| d.listener.accept()),
            |driver, (socket, _)| driver.admit_near(socket, now),
            now,
        );
    }

    fn take_all<S>(
        &mut self,
        accept: impl Fn(&Driver) -> Option<io::Result<S>>,
        admit: impl Fn(&mut Driver, S),
        now: Instant,
    ) {
        while let Some(accepted) = accept(self) {
            match accepted {
                Ok(socket) => admit(self, socket),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(_) => {
                    self.accept_at = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    /// Makes room for one more that has not said hello.
    pub(super) fn expect_stranger(&mut self, now: Instant) {
        let mut strange = self.links.iter().filter(|(_, l)| l.is_strange()).map(|(t, _)| *t);
        let oldest = strange.next();
        if strange.count() + 1 >= self.config.limits.strangers.max(1)
            && let Some(oldest) = oldest
        {
            self.lose(oldest, Lost::TooMany, now);
        }
    }

    fn admit(&mut self, socket: TcpStream, address: SocketAddr, now: Instant) {
        self.expect_stranger(now);
        let tls = match self.answering_tls() {
            Ok(tls) => tls,
            Err(why) => return self.notes.note(now, address, None, why),
        };
        let deadline = now + self.config.limits.handshake;
        self.add_link(
            Link::new(Stream::new(Wire::Socket(socket), tls), address.into(), None, deadline),
            now,
        );
    }

    /// TLS of who was dialled.
    pub(super) fn answering_tls(&self) -> Result<Option<Connection>, Lost> {
        let Some((_, config)) = &self.tls else { return Ok(None) };
        let tls = ServerConnection::new(config.clone()).map_err(|e| Lost::Tls(e.to_string()))?;
        Ok(Some(tls.into()))
    }

    /// TLS of who dials this node.
    pub(super) fn dialling_tls(&self, node: &NodeName) -> Result<Option<Connection>, Lost> {
        let Some((config, _)) = &self.tls else { return Ok(None) };
        let name = server_name(self.us.cluster, node);
        let tls = ClientConnection::new(config.clone(), name);
        Ok(Some(tls.map_err(|e| Lost::Tls(e.to_string()))?.into()))
    }

    pub(super) fn dial(&mut self, node: NodeId, now: Instant) {
        let Some(known) = self.peers.get_mut(&node) else { return };
        known.dial_at = None;
        let (Some(address), name) = (known.peer.address, known.peer.name.clone()) else { return };
        let stream = self.dialling_tls(&name).and_then(|tls| match TcpStream::connect(address) {
            Ok(socket) => Ok(Stream::new(Wire::Socket(socket), tls)),
            Err(e) => Err(Lost::Io(e.to_string())),
        });
        match stream {
            Ok(stream) => {
                let deadline = now + self.config.limits.handshake;
                let token =
                    self.add_link(Link::new(stream, address.into(), Some(node), deadline), now);
                if let Some(known) = self.peers.get_mut(&node) {
                    known.direct = token;
                }
            }
            Err(why) => {
                if let Some(known) = self.peers.get_mut(&node) {
                    known.dial_at = Some(now + known.pause.take());
                }
                self.notes.note(now, address, Some(node), why);
            }
        }
    }

    pub(super) fn next_token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token - 1)
    }

    pub(super) fn add_link(&mut self, mut link: Link, now: Instant) -> Option<Token> {
        let token = self.next_token();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = match &mut link.stream.wire {
            Wire::Socket(socket) => self.registry.register(socket, token, interest),
            Wire::Near(socket) => self.registry.register(socket, token, interest),
            Wire::Circuit(_) => return None,
        };
        if let Err(e) = registered {
            self.notes.note(now, link.place, link.dialled, Lost::Io(e.to_string()));
            if let Some(known) = link.dialled.and_then(|node| self.peers.get_mut(&node))
                && known.direct.is_none()
            {
                known.dial_at = Some(now + known.pause.take());
            }
            return None;
        }
        if let (Wire::Socket(socket), None) = (&link.stream.wire, link.dialled) {
            set_options(socket, self.config.limits.silence);
        }
        self.links.insert(token, link);
        Some(token)
    }
}

/// Whether a socket that was being connected is; an error if that failed.
pub(super) fn connected(socket: &TcpStream) -> io::Result<bool> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    match socket.peer_addr() {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotConnected => Ok(false),
        Err(e) => Err(e),
    }
}

/// Messages go at once, and a machine that is gone is noticed. A socket without these options
/// works too.
pub(super) fn set_options(socket: &TcpStream, silence: Duration) {
    let _ = socket.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, (silence / 3).max(Duration::from_secs(1)));
    let _ = sockopt::set_tcp_keepintvl(socket, (silence / 6).max(Duration::from_secs(1)));
    let _ = sockopt::set_tcp_keepcnt(socket, 4);
    let millis = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    let _ = sockopt::set_tcp_user_timeout(socket, millis);
}
