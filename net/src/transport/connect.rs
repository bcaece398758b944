//! How connections begin: accepting and dialling.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Token};
use rustix::net::sockopt;
use rustls::{ClientConnection, Connection, ServerConnection};
use weft_core::units::NodeId;

use super::Lost;
use super::driver::Driver;
use super::link::Link;
use super::stream::Stream;
use crate::identity::server_name;

/// How long after accepting failed (for want of descriptors, say) it is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Driver {
    pub(super) fn accept(&mut self, now: Instant) {
        self.accept_at = None;
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((socket, address)) => self.admit(socket, address, now),
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

    fn admit(&mut self, socket: TcpStream, address: SocketAddr, now: Instant) {
        let mut strange = self.links.iter().filter(|(_, l)| l.is_strange()).map(|(t, _)| *t);
        let oldest = strange.next();
        if strange.count() + 1 >= self.config.limits.strangers.max(1)
            && let Some(oldest) = oldest
        {
            self.lose(oldest, Lost::TooMany, now);
        }
        let tls = match &self.tls {
            None => None,
            Some((_, config)) => match ServerConnection::new(config.clone()) {
                Ok(tls) => Some(Connection::from(tls)),
                Err(e) => return self.notes.note(now, address, None, Lost::Tls(e.to_string())),
            },
        };
        let deadline = now + self.config.limits.handshake;
        self.add_link(Link::new(Stream::new(socket, tls), address, None, deadline), now);
    }

    pub(super) fn dial(&mut self, node: NodeId, now: Instant) {
        let Some(known) = self.peers.get_mut(&node) else { return };
        known.dial_at = None;
        let Some(address) = known.peer.address else { return };
        let tls = match &self.tls {
            None => Ok(None),
            Some((config, _)) => {
                let name = server_name(self.us.cluster, &known.peer.name);
                ClientConnection::new(config.clone(), name).map(|tls| Some(tls.into()))
            }
        };
        let stream = tls.map_err(|e| Lost::Tls(e.to_string())).and_then(|tls| {
            match TcpStream::connect(address) {
                Ok(socket) => Ok(Stream::new(socket, tls)),
                Err(e) => Err(Lost::Io(e.to_string())),
            }
        });
        match stream {
            Ok(stream) => {
                let deadline = now + self.config.limits.handshake;
                let token = self.add_link(Link::new(stream, address, Some(node), deadline), now);
                if let Some(known) = self.peers.get_mut(&node) {
                    known.link = token;
                }
            }
            Err(why) => {
                known.dial_at = Some(now + known.pause.take());
                self.notes.note(now, address, Some(node), why);
            }
        }
    }

    fn add_link(&mut self, mut link: Link, now: Instant) -> Option<Token> {
        let token = Token(self.next_token);
        self.next_token += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(e) = self.registry.register(&mut link.stream.socket, token, interest) {
            self.notes.note(now, link.address, link.dialled, Lost::Io(e.to_string()));
            if let Some(known) = link.dialled.and_then(|node| self.peers.get_mut(&node)) {
                known.dial_at = Some(now + known.pause.take());
            }
            return None;
        }
        if link.dialled.is_none() {
            set_options(&link.stream.socket, self.config.limits.silence);
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
