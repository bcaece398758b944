//! The kernel's NBD client, told by generic netlink what to do (`include/uapi/linux/nbd-netlink.h`).
//!
//! Devices that are made so outlive their connections: when one ends, requests wait for the next, for as long as was
//! said. No time is set for requests. The kernel then looks every 30 seconds at those that are not answered, and sends
//! those again that went to a connection before the present one: however long a request takes, it is not sent twice to one. Each device has a name of its own, by which a driver that is started again finds it.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, send, socket_with};

/// The kinds of messages that every family has.
const ERROR: u16 = 2;
const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;

/// The family that knows the others.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;

const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONNECTION_TIMEOUT: u16 = 8;
const BACKEND: u16 = 10;

const SOCKET_ITEM: u16 = 1;
const SOCKET_FD: u16 = 1;
const NESTED: u16 = 0x8000;

/// Bytes of the headers of a message.
const HEADERS: usize = 20;

/// Seconds for which requests wait for a new connection.
const CONNECTED_WITHIN: u64 = 600;

/// A device and its server.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    /// The name by which it is found again.
    pub backend: &'a str,
    /// Its bytes.
    pub size: u64,
    /// What its server can do, as NBD has it.
    pub flags: u16,
}

/// A conversation with the kernel's NBD client.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    family: u16,
}

impl Netlink {
    /// Begins one.
    ///
    /// # Errors
    /// If the kernel has no NBD client, or this is not root.
    pub fn open() -> io::Result<Netlink> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(GENERIC))?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let mut netlink = Netlink { socket, family: CONTROL };
        let asked = attribute(FAMILY_NAME, b"nbd\0");
        let answer = netlink.ask(GET_FAMILY, &asked).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                io::Error::other("the kernel has no NBD client; load it with `modprobe nbd`")
            }
            _ => e,
        })?;
        let id =
            find(&answer, FAMILY_ID).and_then(|id| Some(u16::from_ne_bytes(*id.first_chunk()?)));
        netlink.family =
            id.ok_or_else(|| io::Error::other("the kernel does not name its NBD client"))?;
        Ok(netlink)
    }

    /// Makes a device whose requests go to a socket; its number is the answer.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn connect(&self, export: Export<'_>, to: BorrowedFd<'_>) -> io::Result<u32> {
        let block: u64 = if export.size.is_multiple_of(4096) { 4096 } else { 512 };
        let asked = [
            attribute(SIZE_BYTES, &export.size.to_ne_bytes()),
            attribute(BLOCK_SIZE_BYTES, &block.to_ne_bytes()),
            attribute(DEAD_CONNECTION_TIMEOUT, &CONNECTED_WITHIN.to_ne_bytes()),
            attribute(SERVER_FLAGS, &u64::from(export.flags).to_ne_bytes()),
            backend(export.backend),
            sockets(to),
        ];
        let answer = self.ask(CONNECT, &asked.concat())?;
        let index = find(&answer, INDEX).and_then(|n| Some(u32::from_ne_bytes(*n.first_chunk()?)));
        index.ok_or_else(|| {
            io::Error::other("the kernel does not report which device it has created")
        })
    }

    /// Gives a device another socket, and the size that it has there.
    ///
    /// # Errors
    /// If its connection has not ended, or it is another.
    pub fn reconnect(&self, index: u32, export: Export<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
        let asked = [
            attribute(INDEX, &index.to_ne_bytes()),
            attribute(SIZE_BYTES, &export.size.to_ne_bytes()),
            backend(export.backend),
            sockets(to),
        ];
        self.ask(RECONFIGURE, &asked.concat()).map(drop)
    }

    /// Has a device show this size.
    ///
    /// # Errors
    /// If it has ended, or is another.
    pub fn resize(&self, index: u32, name: &str, size: u64) -> io::Result<()> {
        let asked = [
            attribute(INDEX, &index.to_ne_bytes()),
            attribute(SIZE_BYTES, &size.to_ne_bytes()),
            backend(name),
        ];
        self.ask(RECONFIGURE, &asked.concat()).map(drop)
    }

    /// Ends a device.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn disconnect(&self, index: u32) -> io::Result<()> {
        self.ask(DISCONNECT, &attribute(INDEX, &index.to_ne_bytes())).map(drop)
    }

    /// Sends a command, and waits until it is acknowledged; the attributes of the answer before that are returned.
    fn ask(&self, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
        let request = message(self.family, command, attributes);
        send(&self.socket, &request, SendFlags::empty())?;
        let mut said = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let (_, received) = recv(&self.socket, &mut *buffer, RecvFlags::empty())?;
            let mut rest = &buffer[..received];
            while let Some((kind, body, next)) = split(rest) {
                match (kind, body.first_chunk().map(|error| i32::from_ne_bytes(*error))) {
                    (ERROR, Some(0)) => return Ok(said),
                    (ERROR, Some(error)) => return Err(io::Error::from_raw_os_error(-error)),
                    _ => said = body.get(4..).unwrap_or_default().to_vec(),
                }
                rest = next;
            }
        }
    }
}

/// A whole request.
fn message(family: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let length = (HEADERS + attributes.len()) as u32;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    // The sequence and the port: there is one request at a time, and the kernel knows the socket.
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(attributes);
    bytes
}

/// The first message of several: its kind, what follows its header, and the others.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(16..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut bytes = Vec::with_capacity(length.next_multiple_of(4));
    bytes.extend((length as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

fn backend(name: &str) -> Vec<u8> {
    attribute(BACKEND, &[name.as_bytes(), b"\0"].concat())
}

fn sockets(one: BorrowedFd<'_>) -> Vec<u8> {
    let fd = attribute(SOCKET_FD, &(one.as_raw_fd() as u32).to_ne_bytes());
    attribute(SOCKETS | NESTED, &attribute(SOCKET_ITEM | NESTED, &fd))
}

/// The value of the first attribute of a kind.
fn find(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let is = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
        let value = bytes.get(4..length)?;
        if is == kind {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_found_again() {
        let all = [attribute(1, b"abc"), attribute(2, &7_u32.to_ne_bytes()), backend("x")].concat();
        assert_eq!(all.len() % 4, 0);
        assert_eq!(find(&all, 1), Some(&b"abc"[..]));
        assert_eq!(find(&all, 2), Some(&7_u32.to_ne_bytes()[..]));
        assert_eq!(find(&all, BACKEND), Some(&b"x\0"[..]));
        assert_eq!(find(&all, 9), None);
        assert_eq!(find(&[5, 0, 1], 1), None);
        assert_eq!(find(&[0; 4], 1), None);
    }

    #[test]
    fn messages_that_come_together_are_split() {
        let two = [message(7, CONNECT, &attribute(1, b"abcd")), message(ERROR, 0, &[])].concat();
        let (kind, body, rest) = split(&two).unwrap();
        assert_eq!((kind, find(&body[4..], 1)), (7, Some(&b"abcd"[..])));
        let (kind, _, rest) = split(rest).unwrap();
        assert_eq!((kind, rest.len()), (ERROR, 0));
        assert!(split(rest).is_none() && split(&[9, 0, 0, 0, 1, 0]).is_none());
    }
}
