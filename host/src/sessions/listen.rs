//! Where connections come in: Unix sockets and TCP.

use std::fmt;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdTcpListener};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use weft_bytes::escape::in_uri;
use weft_net::transport::give_room;

use super::{Arrival, FRONT_ENDS, FrontEnd, Session};
use crate::doors::{Doors, How, Tls, is_loopback};
use crate::error::{Error, Result, at, fail};
use crate::socket::{Stream, notice_silence, require_short};

/// What stands before an address for the native protocol.
const NATIVE: &str = "native:";

/// An address to serve hosts at, and the protocol that is spoken there.
#[derive(Clone)]
pub struct Listen {
    front_end: &'static FrontEnd,
    place: Place,
    /// The volume that is served there, if its name is part of the address.
    volume: Option<String>,
}

/// Where one listens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// At a Unix socket at this path.
    Unix(PathBuf),
    /// At a TCP address as `host:port`; port 0 lets the system choose.
    Tcp(String),
}

impl PartialEq for Listen {
    fn eq(&self, other: &Listen) -> bool {
        let of = |l: &Listen| (l.front_end.prefix, l.place.clone(), l.volume.clone());
        of(self) == of(other)
    }
}

impl Eq for Listen {}

impl fmt::Debug for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Listen {
    /// In a directory where nothing else is said: each protocol that has one at a socket of its own.
    pub fn usual(dir: &Path) -> Vec<Listen> {
        let place = |socket| Place::Unix(dir.join(socket));
        let at = |f, socket| Listen { front_end: f, place: place(socket), volume: None };
        FRONT_ENDS.iter().filter_map(|f| Some(at(f, f.socket?))).collect()
    }

    /// Reads an address where the protocol with this key is spoken, unless its prefix says another.
    pub fn spoken(key: &str, text: &str) -> Result<Listen> {
        let front_end = FRONT_ENDS.iter().find(|f| f.key == key).expect("a protocol");
        let place = text.strip_prefix(front_end.prefix).unwrap_or(text);
        format!("{}{place}", front_end.prefix).parse()
    }

    /// Reads an address that hosts are told instead of those at which the protocol with this key is spoken, as they reach
    /// it from elsewhere.
    pub fn announced(key: &str, text: &str) -> Result<Listen> {
        let listen = Listen::spoken(key, text)?;
        let is_usable = match &listen.place {
            Place::Unix(_) => false,
            Place::Tcp(address) => is_reachable(address),
        };
        match is_usable {
            true => Ok(listen),
            false => fail(format!(
                "'{text}' cannot be announced to hosts; give HOST:PORT as they reach this \
                 process, such as 203.0.113.7:3260 or \
                 [2001:db8::7]:3260"
            )),
        }
    }

    /// Refuses to announce addresses of a protocol that is spoken at none. `key` is by what they were given.
    pub fn check_announced(announced: &[Listen], listens: &[Listen], key: &str) -> Result<()> {
        let is_spoken = |of: &Listen| {
            listens.iter().any(|l| l.key() == of.key() && matches!(l.place, Place::Tcp(_)))
        };
        match announced.iter().find(|of| !is_spoken(of)) {
            Some(of) => fail(format!(
                "{key}: this process has no address for {}, so there is nothing to announce; give it one, or omit {key}",
                of.front_end.spoken_by
            )),
            None => Ok(()),
        }
    }

    /// Refuses an address that is given twice.
    pub fn check_distinct(listens: &[Listen], key: &str) -> Result<()> {
        let is_again = |n: &usize| listens[..*n].iter().any(|other| listens[*n].collides(other));
        match (0..listens.len()).find(is_again) {
            Some(n) => fail(format!("{key}: {} is given twice; omit one", listens[n])),
            None => Ok(()),
        }
    }

    /// NBD, at a Unix socket at this path.
    pub fn unix(path: impl Into<PathBuf>) -> Listen {
        Place::Unix(path.into()).for_protocol("")
    }

    /// NBD, at a TCP address as `host:port`; port 0 lets the system choose.
    pub fn tcp(address: impl Into<String>) -> Listen {
        Place::Tcp(address.into()).for_protocol("")
    }

    /// The native protocol, at a Unix socket at this path.
    pub fn native_unix(path: impl Into<PathBuf>) -> Listen {
        Place::Unix(path.into()).for_protocol(NATIVE)
    }

    /// The native protocol, at a TCP address.
    pub fn native_tcp(address: impl Into<String>) -> Listen {
        Place::Tcp(address.into()).for_protocol(NATIVE)
    }

    /// What a process's configuration has addresses of this protocol under.
    pub fn key(&self) -> &'static str {
        self.front_end.key
    }

    /// The path, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Unix(path) => Some(path),
            Place::Tcp(_) => None,
        }
    }

    /// The same with another path, if it has one.
    pub fn at_path(self, path: PathBuf) -> Listen {
        match self.place {
            Place::Unix(_) => Listen { place: Place::Unix(path), ..self },
            Place::Tcp(_) => self,
        }
    }

    /// Whether one cannot listen at this and at the other.
    pub(crate) fn collides(&self, other: &Listen) -> bool {
        match (&self.place, &other.place) {
            (Place::Unix(a), Place::Unix(b)) => a.components().eq(b.components()),
            (Place::Tcp(a), Place::Tcp(b)) => match (a.parse(), b.parse()) {
                (Ok(a), Ok(b)) => overlap(a, b),
                _ => a == b,
            },
            _ => false,
        }
    }

    /// The path or address, as it was given.
    pub(crate) fn place(&self) -> String {
        match (&self.place, &self.volume) {
            (Place::Unix(path), None) => path.display().to_string(),
            (Place::Unix(path), Some(volume)) => format!("{}={volume}", path.display()),
            (Place::Tcp(address), _) => address.clone(),
        }
    }

    /// Whether whoever comes in here must prove who it is, by TLS or by CHAP. Who may open a Unix socket its mode says.
    pub(crate) fn asks_for_proof(&self, doors: &Doors) -> bool {
        match &self.place {
            Place::Unix(_) => false,
            Place::Tcp(_) if doors.tls == Tls::Require => true,
            Place::Tcp(place) => self.front_end.has_chap && !doors.no_auth && !is_loopback(place),
        }
    }

    /// Refuses to serve strangers of other machines. `key` is by what the address was given.
    pub fn check_door(&self, doors: &Doors, key: &str, how: How) -> Result<()> {
        match &self.place {
            Place::Unix(_) => Ok(()),
            Place::Tcp(_) if self.asks_for_proof(doors) => Ok(()),
            Place::Tcp(address) => doors.check(key, address, how),
        }
    }

    /// The address of this machine, if it is one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match &self.place {
            Place::Unix(_) => None,
            Place::Tcp(address) => address.parse().ok().map(|a: SocketAddr| a.ip()),
        }
    }

    /// Refuses what cannot be listened at now.
    pub fn check(&self) -> Result<()> {
        match &self.place {
            Place::Unix(path) => require_short(path).and_then(|()| is_dead(path).map(drop)),
            Place::Tcp(address) => bind_tcp(address).map(drop),
        }
    }

    /// A session for a new connection.
    pub(crate) fn begin(&self, arrival: Arrival) -> Box<dyn Session> {
        (self.front_end.begin)(Arrival { volume: self.volume.clone(), ..arrival })
    }

    /// The TCP address, as a host that connected to `local` can use it.
    pub(crate) fn portal(&self, local: Option<SocketAddr>) -> Option<String> {
        let Place::Tcp(address) = &self.place else { return None };
        // An address that stands for all of the machine is no use to anybody.
        match (address.parse::<SocketAddr>(), local) {
            (Ok(any), Some(local)) if any.ip().is_unspecified() => {
                Some(SocketAddr::new(local.ip().to_canonical(), any.port()).to_string())
            }
            _ => Some(address.clone()),
        }
    }
}

impl fmt::Display for Listen {
    /// As a URI, without the volume's name unless the address has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.front_end.scheme;
        match &self.place {
            Place::Unix(path) => {
                let volume = self.volume.as_deref().unwrap_or_default();
                let path = in_uri(path.as_os_str().as_bytes());
                write!(f, "{scheme}+unix:///{volume}?socket={path}")
            }
            Place::Tcp(address) => write!(f, "{scheme}://{address}"),
        }
    }
}

impl FromStr for Listen {
    type Err = Error;

    /// Reads an address: a path (with a slash, or ending in `.sock`), or `HOST:PORT`; with a protocol's
    /// prefix before it (`native:`, `iscsi:` or `vhost-user:`), if it is not for NBD. Behind a path for the last stands
    /// `=VOLUME`, unless it is for the first volume.
    fn from_str(text: &str) -> Result<Listen> {
        let prefixed = FRONT_ENDS.iter().filter(|f| !f.prefix.is_empty());
        let mut others = prefixed.filter_map(|f| Some((f.prefix, text.strip_prefix(f.prefix)?)));
        let (prefix, place) = others.next().unwrap_or(("", text));
        // The prefix of NBD may be given, too. A machine may be called the same.
        let named = place.strip_prefix("nbd:").filter(|_| prefix.is_empty());
        let place = named.filter(|rest| rest.parse::<Place>().is_ok()).unwrap_or(place);
        let names_volume = FRONT_ENDS.iter().any(|f| f.prefix == prefix && f.names_volume);
        if !names_volume {
            return Ok(place.parse::<Place>()?.for_protocol(prefix));
        }
        let named = place.rsplit_once('=').filter(|(_, volume)| !volume.contains('/'));
        let (path, volume) = named.map_or((place, None), |(path, v)| (path, Some(v.to_string())));
        match path.parse() {
            Ok(path @ Place::Unix(_)) if volume.as_deref() != Some("") => {
                Ok(Listen { volume, ..path.for_protocol(prefix) })
            }
            _ => fail(format!(
                "'{place}' is not an address for {prefix} give the path of a socket (with a \
                 slash, or ending in .sock), \
                 and the volume behind it, such as ./vm.sock=vol0"
            )),
        }
    }
}

impl Place {
    /// A place where the protocol with this prefix is spoken.
    fn for_protocol(self, prefix: &str) -> Listen {
        let front_end = FRONT_ENDS.iter().find(|f| f.prefix == prefix).expect("a protocol");
        Listen { front_end, place: self, volume: None }
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Place> {
        if let Some((before, _)) = text.split_once('/')
            && before.contains(':')
        {
            return fail(format!(
                "'{text}' begins with an unknown protocol: paths need none for NBD, and 'native:', 'iscsi:' or \
                 'vhost-user:' for the others; a relative path with a colon begins with './'"
            ));
        }
        if text.contains('/') || text.ends_with(".sock") {
            return Ok(Place::Unix(PathBuf::from(text)));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Place::Tcp(text.to_string()))
            }
            _ => fail(format!(
                "'{text}' is neither HOST:PORT (such as 127.0.0.1:10809) nor the path of a socket \
                 (with a slash, or ending in .sock)"
            )),
        }
    }
}

/// One who has connected.
pub(crate) struct Caller {
    pub(crate) stream: Stream,
    /// A name for the other end.
    pub(crate) peer: String,
    /// Its address, unless it is in this machine.
    pub(crate) address: Option<IpAddr>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A socket that is listened at. A Unix socket's file goes away with it.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    pub(crate) at: Listen,
}

impl Listener {
    /// Begins to listen.
    pub(crate) fn bind(listen: &Listen) -> Result<Listener> {
        match &listen.place {
            Place::Unix(path) => {
                let socket = Socket::Unix(UnixListener::from_std(bind_unix(path)?));
                Ok(Listener { socket, at: listen.clone() })
            }
            Place::Tcp(address) => {
                let listener = bind_tcp(address)?;
                let place = listener.local_addr().map_or(address.clone(), |a| a.to_string());
                let socket = Socket::Tcp(TcpListener::from_std(listener));
                Ok(Listener { socket, at: Listen { place: Place::Tcp(place), ..listen.clone() } })
            }
        }
    }

    /// Lets the members of a group, or of the process's own, use a Unix socket, besides its user.
    pub(crate) fn share(&self, group: Option<u32>) -> Result<()> {
        if let (Some(group), Some(path)) = (group, self.at.path()) {
            chown(path, None, Some(group)).map_err(at("give a group the socket", path))?;
        }
        self.set_mode(0o660)
    }

    /// Sets who may use a Unix socket, whatever the umask is.
    pub(crate) fn set_mode(&self, mode: u32) -> Result<()> {
        let Some(path) = self.at.path() else { return Ok(()) };
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(at("set the mode of", path))
    }

    /// What the poll registers.
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match &mut self.socket {
            Socket::Tcp(s) => s,
            Socket::Unix(s) => s,
        }
    }

    /// The next connection.
    pub(crate) fn accept(&self) -> io::Result<Caller> {
        match &self.socket {
            Socket::Unix(s) => {
                let stream = s.accept()?.0;
                give_room(&stream);
                let (stream, peer) = (Stream::Unix(stream), "a local host".to_string());
                Ok(Caller { stream, peer, address: None })
            }
            Socket::Tcp(s) => {
                let (stream, peer): (_, SocketAddr) = s.accept()?;
                // Answers are written whole, so there is nothing to wait for.
                let _ = stream.set_nodelay(true);
                notice_silence(&stream);
                let address = Some(peer.ip());
                Ok(Caller { stream: Stream::Tcp(stream), peer: peer.to_string(), address })
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = self.at.path() {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether an address can be one that hosts reach: it has a port, and names one machine.
fn is_reachable(address: &str) -> bool {
    if let Ok(address) = address.parse::<SocketAddr>() {
        return !address.ip().is_unspecified() && address.port() != 0;
    }
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let is_known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    host.chars().all(is_known) && host.chars().any(|c| c.is_ascii_alphabetic()) && port != "0"
}

/// Whether two addresses are one, or one stands for all of the machine. Port 0 is any that is free.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let same = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    same && a.port() == b.port() && a.port() != 0
}

fn bind_tcp(address: &str) -> Result<StdTcpListener> {
    let why = |e: io::Error| {
        Error(format!(
            "cannot listen at {address}: {e}; choose another address, host:port (by --listen, or in the configuration), \
             or stop the program that uses it"
        ))
    };
    let listener = StdTcpListener::bind(address).map_err(why)?;
    listener.set_nonblocking(true).map_err(why)?;
    Ok(listener)
}

/// Binds a Unix socket; a file that a dead process left is removed, a living one's is not. A directory is made if need be, but
/// not what it should be in: a path may be mistyped. Who may connect is for the socket's own mode to say.
fn bind_unix(path: &Path) -> Result<StdUnixListener> {
    if is_dead(path)? {
        fs::remove_file(path).map_err(at("remove the stale socket", path))?;
    }
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.is_dir()) {
        // Another process may be making it.
        let made = DirBuilder::new().mode(0o755).create(dir);
        made.or_else(|e| if dir.is_dir() { Ok(()) } else { Err(e) }).map_err(|e| {
            Error(format!(
                "cannot create the directory {} for a socket: {e}; create it for the user of this process, or choose another path",
                dir.display()
            ))
        })?;
    }
    require_short(path)?;
    let listener = StdUnixListener::bind(path).map_err(at("listen at", path))?;
    listener.set_nonblocking(true).map_err(at("listen at", path))?;
    Ok(listener)
}

/// Whether a dead process left a socket at a path. That of a living one is refused, as is anything
/// else that is there.
fn is_dead(path: &Path) -> Result<bool> {
    let is_socket = path.symlink_metadata().map(|m| m.file_type().is_socket());
    match is_socket {
        Ok(true) if StdUnixStream::connect(path).is_ok() => fail(format!(
            "another process listens at {}; stop it, or choose another path",
            path.display()
        )),
        Ok(true) => Ok(true),
        Ok(false) => {
            fail(format!("{} exists and is not a socket; choose another path", path.display()))
        }
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests;
