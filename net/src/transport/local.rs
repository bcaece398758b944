//! Connections within a machine: a Unix socket in the directory of the process that is dialled.
//!
//! Two processes connect over TCP first, with TLS, as those of different machines do. The one that was dialled then says
//! which machine it is on, and where its socket is (`local`). If the other is on the same machine it connects there too, and the
//! session goes on over that connection. A Unix socket begins no session: who says hello there names the one that goes on.
//!
//! If that does not work (in containers the path may be another's, or nobody's) the session stays where it is, and it is tried again
//! later. If a Unix socket's connection breaks, TCP is dialled as if there had been no other.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
use rustix::process::{Uid, geteuid};
use weft_bytes::{Read, Reader, Writer};
use weft_core::units::NodeId;
use weft_route::TICK;

use super::Lost;
use super::driver::Driver;
use super::link::Link;
use super::notes::{Notes, Place};
use super::pipe::Wire;
use super::queues::Outgoing;
use super::stream::Stream;

/// The kind of a frame that says where one's Unix socket is.
pub(super) const LOCAL: u8 = 11;

/// The name of the socket in its process's directory.
pub const SOCKET: &str = "peers.sock";

/// The longest path that the address of a Unix socket has room for.
const LONGEST: usize = 107;

/// How long after it did not work it is tried again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Which machine this is, and since when it runs: the kernel's boot id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine(pub u128);

impl Machine {
    /// This one.
    ///
    /// # Errors
    ///
    /// If the kernel does not say.
    pub fn this() -> io::Result<Machine> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let id = u128::from_str_radix(&digits, 16);
        id.map(Machine).map_err(|e| io::Error::new(ErrorKind::InvalidData, e))
    }
}

/// What connections within the machine need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The directory of this process, which is its alone.
    pub directory: PathBuf,
    /// The machine.
    pub machine: Machine,
}

/// The socket that others of this machine connect to.
pub(super) struct Door {
    pub listener: UnixListener,
    /// As others find it.
    path: PathBuf,
}

impl Door {
    /// Listens. What an earlier run left there goes.
    fn open(directory: &Path) -> io::Result<Door> {
        let directory = fs::canonicalize(directory)?;
        let path = directory.join(SOCKET);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let (short, _held) = short(&path)?;
        let listener = UnixListener::bind(short)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(Door { listener, path })
    }

    /// Listens, if others of this machine are to connect here. If that does not work they do without.
    pub fn of(
        local: Option<&Local>,
        registry: &Registry,
        token: Token,
        notes: &mut Notes,
    ) -> Option<Door> {
        let directory = &local?.directory;
        let open = || {
            let mut door = Door::open(directory)?;
            registry.register(&mut door.listener, token, Interest::READABLE)?;
            Ok(door)
        };
        let noted = |e: io::Error| {
            let place = Place::Socket(directory.join(SOCKET));
            notes.note(Instant::now(), place, None, Lost::NoSocket(e.to_string()));
        };
        open().map_err(noted).ok()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // One that stays is in nobody's way.
        let _ = fs::remove_file(&self.path);
    }
}

/// A path for the address of a socket, and what must be open while it is used: too long a path begins with the
/// directory's descriptor.
fn short(path: &Path) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    let parts = path.parent().zip(path.file_name());
    let Some((directory, name)) = parts.filter(|_| path.as_os_str().len() > LONGEST) else {
        return Ok((path.to_path_buf(), None));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = rustix::fs::open(directory, flags, Mode::empty())?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd())).join(name);
    Ok((short, Some(held)))
}

/// Refuses one whose other end is not of this user.
fn check_user(socket: impl AsFd, ours: Uid) -> Result<(), Lost> {
    let other =
        rustix::net::sockopt::socket_peercred(socket).map_err(|e| Lost::Io(e.to_string()))?;
    match other.uid == ours {
        true => Ok(()),
        false => Err(Lost::OtherUser(other.uid.as_raw())),
    }
}

/// Bytes that a socket within the machine may hold for its reader. The usual 208 KiB are less than the answer to a long
/// request, so that reader and writer would wake each other again and again for one.
const ROOM: usize = 1 << 20;

/// Has a socket within the machine hold long requests, as far as the system allows that (`net.core.wmem_max`).
pub fn give_room(socket: impl AsFd) {
    // The kernel counts its own part, and says twice what was asked for. It works with less, too.
    if socket_send_buffer_size(&socket).is_ok_and(|room| room < 2 * ROOM) {
        let _ = set_socket_send_buffer_size(&socket, ROOM);
    }
}

fn connect(path: &Path) -> Result<UnixStream, Lost> {
    let connected = short(path).and_then(|(short, _held)| UnixStream::connect(short));
    let socket = connected.map_err(|e| Lost::Io(e.to_string()))?;
    check_user(&socket, geteuid())?;
    give_room(&socket);
    Ok(socket)
}

/// What is known of the way to a peer within this machine.
#[derive(Default)]
pub(super) struct Near {
    /// Where its socket is, if it is on this machine.
    path: Option<PathBuf>,
    /// The connection there that has not said hello.
    pub dialled: Option<Token>,
    /// The connection that it took the place of, until the other side ends that.
    pub before: Option<Token>,
    again: Option<Instant>,
    pause: Duration,
    /// The log says that it does not work.
    noted: bool,
}

/// Which machine somebody is on and where its socket is.
fn parse(payload: &[u8]) -> Read<(Machine, PathBuf)> {
    let mut r: Reader = Reader::new(payload);
    let machine = Machine(r.u128()?);
    Ok((machine, std::ffi::OsString::from_vec(r.rest().to_vec()).into()))
}

impl Driver {
    /// What one that dialled us is told.
    pub(super) fn place(&self) -> Option<Outgoing> {
        let (door, local) = self.door.as_ref().zip(self.config.local.as_ref())?;
        let mut w: Writer = Writer::with_room(128);
        w.u128(local.machine.0);
        w.raw(door.path.as_os_str().as_bytes());
        Some((LOCAL, vec![w.finish().into()]))
    }

    /// One that we dialled says where its socket is.
    pub(super) fn told_place(
        &mut self,
        token: Token,
        peer: NodeId,
        payload: &Bytes,
        now: Instant,
    ) -> Result<(), Lost> {
        let (machine, path) = parse(payload).map_err(|_| Lost::Kind(LOCAL))?;
        let same = self.config.local.as_ref().is_some_and(|l| l.machine == machine);
        let ours = self.links.get(&token).is_some_and(|l| l.dialled == Some(peer));
        let known = self.peers.get_mut(&peer).filter(|k| k.direct == Some(token));
        if let Some(known) = known.filter(|_| same && ours) {
            let pause = AGAIN.0;
            known.near = Near { path: Some(path), again: Some(now), pause, ..Near::default() };
            self.dial_near(peer, now);
        }
        Ok(())
    }

    /// Connects within the machine, if there is a way that is not used.
    pub(super) fn dial_near(&mut self, peer: NodeId, now: Instant) {
        let is_far = |t: &Token| self.links.get(t).is_some_and(|l| l.is_up() && !l.is_near());
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let near = &mut known.near;
        let due = near.again.is_some_and(|at| at <= now) && near.dialled.is_none();
        let Some(path) =
            near.path.clone().filter(|_| due && known.direct.is_some_and(|t| is_far(&t)))
        else {
            return;
        };
        near.again = Some(now + near.pause);
        near.pause = (2 * near.pause).min(AGAIN.1);
        match connect(&path) {
            Ok(socket) => {
                let stream = Stream::new(Wire::Near(socket), None);
                let deadline = now + self.config.limits.handshake;
                let link = Link::new(stream, Place::Socket(path), Some(peer), deadline);
                let Some(token) = self.add_link(link, now) else { return };
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.near.dialled = Some(token);
                }
                self.greet(token);
            }
            Err(why) => self.note_near(peer, Place::Socket(path), why, now),
        }
    }

    /// Gives up a connection within the machine over which nothing comes, and that takes nothing: its other end is stopped.
    /// Over TCP the kernel does that.
    pub(super) fn look_after_near(&mut self, peer: NodeId, now: Instant) {
        let Some(token) = self.peers.get(&peer).and_then(|k| k.direct) else { return };
        let Some(link) = self.links.get_mut(&token).filter(|l| l.is_near()) else { return };
        link.missed += 1;
        let silent = Duration::from_nanos(TICK) * link.missed;
        if link.is_stuck() && silent > self.config.limits.silence {
            self.lose(token, Lost::Mute, now);
        }
    }

    /// Says once that a way within the machine does not work.
    pub(super) fn note_near(&mut self, peer: NodeId, place: Place, why: Lost, now: Instant) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        if !std::mem::replace(&mut known.near.noted, true) {
            self.notes.note(now, place, Some(peer), why);
        }
    }

    /// Somebody of this machine has connected.
    pub(super) fn admit_near(&mut self, socket: UnixStream, now: Instant) {
        let Some(place) = self.door.as_ref().map(|d| Place::Socket(d.path.clone())) else { return };
        if let Err(why) = check_user(&socket, geteuid()) {
            return self.notes.note(now, place, None, why);
        }
        give_room(&socket);
        self.expect_stranger(now);
        let deadline = now + self.config.limits.handshake;
        let stream = Stream::new(Wire::Near(socket), None);
        self.add_link(Link::new(stream, place, None, deadline), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_with_too_long_a_path_is_reached_and_a_stale_one_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("d".repeat(LONGEST)).join("e".repeat(LONGEST));
        fs::create_dir_all(&long).unwrap();
        // What a process leaves that was killed.
        std::mem::forget(Door::open(&long).unwrap());
        let door = Door::open(&long).unwrap();
        assert_eq!(fs::metadata(&door.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(door.path.as_os_str().len() > LONGEST);
        connect(&door.path).unwrap();
        door.listener.accept().unwrap();
        let path = door.path.clone();
        drop(door);
        assert!(!path.exists() && connect(&path).is_err());
    }

    #[test]
    fn who_is_of_another_user_is_refused() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let us = geteuid();
        assert_eq!(check_user(&socket, us), Ok(()));
        let another = Uid::from_raw(us.as_raw() ^ 1);
        assert_eq!(check_user(&socket, another), Err(Lost::OtherUser(us.as_raw())));
    }

    #[test]
    fn there_is_one_machine() {
        assert_eq!(Machine::this().unwrap(), Machine::this().unwrap());
        assert!(parse(&[1; 15]).is_err());
        let said = [&7u128.to_le_bytes()[..], b"/x"].concat();
        assert_eq!(parse(&said).unwrap(), (Machine(7), "/x".into()));
    }
}
