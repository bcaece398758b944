//! Where a node is reached.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};

use crate::error::{Error, ErrorKind};

/// Bytes that a socket within the machine may hold for its reader, as far as the system allows that: a long write, which the
/// usual 208 KiB are less than.
const ROOM: usize = 1 << 20;
/// Bytes of an answer of the control socket that are read.
const LONGEST_LINE: usize = 1024;
/// How long a connection may take to come about.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a node is reached by the native protocol.
///
/// ```
/// use weft_client::Address;
///
/// let socket: Address = "/srv/weft/weft.sock".parse()?;
/// assert_eq!("weft+unix:///vol0?socket=/srv/weft/weft.sock".parse(), Ok(socket));
/// let tcp: Address = "127.0.0.1:10812".parse()?;
/// assert_eq!("weft://127.0.0.1:10812/vol0".parse(), Ok(tcp));
/// # Ok::<(), weft_client::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
    /// The control socket of a process, for an operator: any volume may be used, whatever its list of hosts.
    Control(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) | Address::Control(path) => write!(f, "{}", path.display()),
            Address::Tcp(address) => f.write_str(address),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    /// Reads a path (with a slash, or ending in `.sock`), `HOST:PORT`, or a URI as `weft status`
    /// prints it; a volume's name in it is not looked at.
    fn from_str(text: &str) -> Result<Address, Error> {
        let socket = |rest: &str| {
            let (_, path) = rest.split_once("?socket=")?;
            Some(PathBuf::from(unescape(path)?))
        };
        if let Some(rest) = text.strip_prefix("weft+unix://") {
            return socket(rest).map(Address::Unix).ok_or_else(|| bad(text));
        }
        if let Some(rest) = text.strip_prefix("weft+control://") {
            return socket(rest).map(Address::Control).ok_or_else(|| bad(text));
        }
        if let Some(rest) = text.strip_prefix("weft://") {
            let host = rest.split('/').next().unwrap_or_default();
            return tcp(host).ok_or_else(|| bad(text));
        }
        if text.contains('/') || text.ends_with(".sock") {
            return Ok(Address::Unix(text.into()));
        }
        tcp(text).ok_or_else(|| bad(text))
    }
}

fn tcp(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let good = !host.is_empty() && port.parse::<u16>().is_ok();
    good.then(|| Address::Tcp(text.to_string()))
}

fn bad(text: &str) -> Error {
    Error::new(
        ErrorKind::Address,
        format!(
            "'{text}' is not an address of a node; give HOST:PORT, the path of a socket, or the part after weft:// or \
             weft+unix:// in `weft status`"
        ),
    )
}

/// Has a process speak the native protocol on a connection to its control socket.
fn switch(mut stream: UnixStream) -> io::Result<UnixStream> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"{\"cmd\":\"native\"}\n")?;
    // Byte by byte: what follows the line is not ours.
    let (mut line, mut byte) = (Vec::new(), [0]);
    while byte != *b"\n" && line.len() < LONGEST_LINE {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    stream.set_read_timeout(None)?;
    match line.as_slice() {
        b"{\"ok\":true}\n" => Ok(stream),
        line => Err(io::Error::other(String::from_utf8_lossy(line).trim().to_string())),
    }
}

/// A path with `%XX` for some bytes.
fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut out = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at_checked(2)?;
        out.push(u8::from_str_radix(hex, 16).ok()?);
        out.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(out).ok()
}

impl Address {
    /// Connects.
    pub(crate) fn connect(&self) -> io::Result<OwnedFd> {
        match self {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                // The kernel counts its own part, and says twice what was asked for. It works with less, too.
                if socket_send_buffer_size(&stream).is_ok_and(|room| room < 2 * ROOM) {
                    let _ = set_socket_send_buffer_size(&stream, ROOM);
                }
                Ok(stream.into())
            }
            Address::Control(path) => Ok(switch(UnixStream::connect(path)?)?.into()),
            Address::Tcp(address) => {
                let mut last = io::Error::other("the name has no address");
                for address in address.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, PATIENCE) {
                        Ok(stream) => {
                            // Requests are written whole, so there is nothing to wait for.
                            stream.set_nodelay(true)?;
                            return Ok(stream.into());
                        }
                        Err(e) => last = e,
                    }
                }
                Err(last)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in
            ["", "host", ":1", "h:99999", "weft://", "weft+unix:///v", "weft+unix:///?socket=%g"]
        {
            let error = bad.parse::<Address>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Address, "{bad}");
        }
        let spaced = "weft+unix:///v?socket=/a%20b".parse();
        assert_eq!(spaced, Ok(Address::Unix("/a b".into())));
    }
}
