//! Where connections come in: Unix sockets and TCP.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdTcpListener};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};

use crate::error::{Error, Result, at, fail};
use crate::socket::Stream;

/// An address to serve hosts at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// NBD, at a Unix socket at this path.
    Unix(PathBuf),
    /// NBD, at a TCP address as `host:port`; port 0 lets the system choose.
    Tcp(String),
    /// The native protocol, at a Unix socket at this path.
    NativeUnix(PathBuf),
    /// The native protocol, at a TCP address.
    NativeTcp(String),
}

/// What stands before an address for the native protocol.
const NATIVE: &str = "native:";

impl Listen {
    /// Whether the native protocol is spoken there; otherwise it is NBD.
    pub fn is_native(&self) -> bool {
        matches!(self, Listen::NativeUnix(_) | Listen::NativeTcp(_))
    }

    /// The path, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Listen::Unix(path) | Listen::NativeUnix(path) => Some(path),
            Listen::Tcp(_) | Listen::NativeTcp(_) => None,
        }
    }

    /// The same with another path, if it has one.
    pub fn at_path(self, path: PathBuf) -> Listen {
        match self {
            Listen::Unix(_) => Listen::Unix(path),
            Listen::NativeUnix(_) => Listen::NativeUnix(path),
            tcp => tcp,
        }
    }

    /// Whether one cannot listen at this and at the other.
    pub(crate) fn collides(&self, other: &Listen) -> bool {
        match (self.path(), other.path()) {
            (Some(a), Some(b)) => a.components().eq(b.components()),
            (None, None) => match (self.place().parse(), other.place().parse()) {
                (Ok(a), Ok(b)) => overlap(a, b),
                _ => self.place() == other.place(),
            },
            _ => false,
        }
    }

    /// The path or address, as it was given.
    pub(crate) fn place(&self) -> String {
        match self {
            Listen::Unix(path) | Listen::NativeUnix(path) => path.display().to_string(),
            Listen::Tcp(address) | Listen::NativeTcp(address) => address.clone(),
        }
    }

    /// Refuses what cannot be listened at now.
    pub fn check(&self) -> Result<()> {
        match self {
            Listen::Unix(path) | Listen::NativeUnix(path) => is_dead(path).map(drop),
            Listen::Tcp(address) | Listen::NativeTcp(address) => bind_tcp(address).map(drop),
        }
    }
}

impl fmt::Display for Listen {
    /// As a URI, without the volume's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::NativeUnix(path) => write!(f, "weft+unix:///?socket={}", path.display()),
            Listen::NativeTcp(address) => write!(f, "weft://{address}"),
            Listen::Unix(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
            Listen::Tcp(address) => write!(f, "nbd://{address}"),
        }
    }
}

impl FromStr for Listen {
    type Err = Error;

    /// Reads an address: a path (with a slash, or ending in `.sock`), or `HOST:PORT`; with
    /// `native:` before it, for the native protocol.
    fn from_str(text: &str) -> Result<Listen> {
        if let Some(rest) = text.strip_prefix(NATIVE) {
            return Ok(match rest.parse()? {
                Listen::Unix(path) => Listen::NativeUnix(path),
                Listen::Tcp(address) => Listen::NativeTcp(address),
                native => native,
            });
        }
        if text.contains('/') || text.ends_with(".sock") {
            return Ok(Listen::Unix(PathBuf::from(text)));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Listen::Tcp(text.to_string()))
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
        match listen {
            Listen::Unix(path) | Listen::NativeUnix(path) => {
                let socket = Socket::Unix(UnixListener::from_std(bind_unix(path)?));
                Ok(Listener { socket, at: listen.clone() })
            }
            Listen::Tcp(address) | Listen::NativeTcp(address) => {
                let listener = bind_tcp(address)?;
                let at = listener.local_addr().map_or(address.clone(), |a| a.to_string());
                let socket = Socket::Tcp(TcpListener::from_std(listener));
                let native = listen.is_native();
                let at = if native { Listen::NativeTcp(at) } else { Listen::Tcp(at) };
                Ok(Listener { socket, at })
            }
        }
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
                let (stream, peer) = (Stream::Unix(s.accept()?.0), "a local host".to_string());
                Ok(Caller { stream, peer, address: None })
            }
            Socket::Tcp(s) => {
                let (stream, peer): (_, SocketAddr) = s.accept()?;
                // Answers are written whole, so there is nothing to wait for.
                let _ = stream.set_nodelay(true);
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

/// Whether two addresses are one, or one stands for all of the machine. Port 0 is any that is free.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let same = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    same && a.port() == b.port() && a.port() != 0
}

fn bind_tcp(address: &str) -> Result<StdTcpListener> {
    let why = |e: io::Error| {
        Error(format!("cannot listen at {address}: {e}; choose another address (host:port)"))
    };
    let listener = StdTcpListener::bind(address).map_err(why)?;
    listener.set_nonblocking(true).map_err(why)?;
    Ok(listener)
}

/// Binds a Unix socket; a file that a dead process left is removed, a living one's is not. The
/// directory is made if need be: who may connect is for the socket's own mode to say.
fn bind_unix(path: &Path) -> Result<StdUnixListener> {
    if is_dead(path)? {
        fs::remove_file(path).map_err(at("remove the dead socket", path))?;
    }
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(|e| {
            Error(format!(
                "cannot make the directory {} for a socket: {e}; make it for the user that this runs \
                 as, or choose another path",
                dir.display()
            ))
        })?;
    }
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
            fail(format!("{} is there and is not a socket; choose another path", path.display()))
        }
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_sockets_are_replaced_and_living_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(StdUnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a dead process leaves its socket");
        let listener = Listener::bind(&Listen::Unix(path.clone())).unwrap();
        let err = Listener::bind(&Listen::Unix(path.clone())).unwrap_err();
        assert!(err.0.contains("another process listens"), "{err}");
        drop(listener);
        assert!(!path.exists());
        fs::write(&path, "x").unwrap();
        let err = Listener::bind(&Listen::Unix(path.clone())).unwrap_err();
        assert!(err.0.contains("not a socket"), "{err}");
        let err = Listener::bind(&Listen::Unix(path.join("below.sock"))).unwrap_err();
        assert!(err.0.contains("for a socket") && err.0.contains("another path"), "{err}");
    }

    #[test]
    fn the_directory_of_a_socket_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/weft/s");
        let listener = Listener::bind(&Listen::Unix(path.clone())).unwrap();
        assert!(Listen::Unix(path.clone()).check().is_err(), "it is in use");
        drop(listener);
        assert!(!path.exists() && path.parent().unwrap().is_dir());
        assert_eq!(Listen::NativeUnix(dir.path().join("none/s")).check(), Ok(()));
        assert!(!dir.path().join("none").exists(), "a look changes nothing");
    }

    #[test]
    fn addresses_are_paths_or_ports() {
        assert_eq!("x.sock".parse(), Ok(Listen::Unix("x.sock".into())));
        assert_eq!("/run/weft".parse(), Ok(Listen::Unix("/run/weft".into())));
        assert_eq!("[::1]:9".parse(), Ok(Listen::Tcp("[::1]:9".into())));
        assert_eq!("native:/x".parse(), Ok(Listen::NativeUnix("/x".into())));
        assert_eq!("native:[::1]:9".parse(), Ok(Listen::NativeTcp("[::1]:9".into())));
        for bad in ["", "host", "host:", ":9", "host:99999", "native:", "native:native:a:1x"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad}");
        }
    }

    #[test]
    fn tcp_ports_are_told_and_bad_addresses_refused() {
        let listener = Listener::bind(&Listen::Tcp("127.0.0.1:0".into())).unwrap();
        let uri = listener.at.to_string();
        assert!(uri.starts_with("nbd://127.0.0.1:") && !uri.ends_with(":0"), "{uri}");
        let err = Listener::bind(&Listen::Tcp("nonsense".into())).unwrap_err();
        assert!(err.0.contains("host:port"), "{err}");
    }
}
