//! The socket of a front end: which message comes next, and whether handling it can wait for nothing.
//!
//! The library reads a message as if all of it were there, and writes a reply as if there were room for it. So it is
//! called only when both are so: no front end can make this process wait.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send,
};
use vhost::vhost_user::BackendReqHandler;
use vhost::vhost_user::message::{BackendReq, FrontendReq, MAX_MSG_SIZE};

use super::device::Device;

/// Bytes of a message's header, and of the header with a number behind it.
const HEADER: usize = 12;
const WITH_NUMBER: usize = HEADER + 4;

/// The version of the protocol, in a header's flags.
const VERSION: u32 = 1;

/// A message that has come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    kind: u32,
    /// What it begins with.
    number: u32,
}

/// Why a socket is of no more use.
#[derive(Debug)]
pub(super) enum Over {
    Closed,
    Failed(String),
}

/// Which rings must have nothing in work before a message is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quiet {
    Nothing,
    Ring(usize),
    All,
}

impl Quiet {
    /// Whether a ring is among them.
    pub(super) fn covers(self, ring: usize) -> bool {
        match self {
            Quiet::Nothing => false,
            Quiet::Ring(stops) => stops == ring,
            Quiet::All => true,
        }
    }
}

impl Message {
    /// What must be quiet first. The driver may use its memory for something else once a queue has been stopped.
    pub(super) fn needs(self) -> Quiet {
        match self.kind {
            kind if kind == FrontendReq::GET_VRING_BASE as u32 => Quiet::Ring(self.number as usize),
            kind if kind == FrontendReq::RESET_OWNER as u32 => Quiet::All,
            kind if kind == FrontendReq::RESET_DEVICE as u32 => Quiet::All,
            _ => Quiet::Nothing,
        }
    }
}

/// The socket, and who handles its messages.
pub(super) struct Channel {
    socket: OwnedFd,
    handler: BackendReqHandler<Mutex<Device>>,
    /// A socket on which the front end can be told something.
    back: Option<OwnedFd>,
}

impl Channel {
    /// The socket of a front end that sets up `device`.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        device: Arc<Mutex<Device>>,
    ) -> std::io::Result<Channel> {
        let stream = UnixStream::from(socket.try_clone_to_owned()?);
        let handler = BackendReqHandler::from_stream(stream, device);
        Ok(Channel { socket: socket.try_clone_to_owned()?, handler, back: None })
    }

    /// The next message, if it has come whole.
    pub(super) fn next(&self) -> Result<Option<Message>, Over> {
        let mut start = [0; WITH_NUMBER];
        let n = match recv(&self.socket, &mut start[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(Over::Closed),
            Ok((n, _)) => n,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(Over::Closed),
            Err(e) => return Err(Over::Failed(e.to_string())),
        };
        if n < HEADER {
            return Ok(None);
        }
        let word = |at: usize| u32::from_ne_bytes(*start[at..].first_chunk().expect("4 bytes"));
        let size = word(8) as usize;
        if size > MAX_MSG_SIZE {
            return Err(Over::Failed(format!("a message of {size} bytes is too long")));
        }
        if size >= WITH_NUMBER - HEADER && n < WITH_NUMBER {
            return Ok(None);
        }
        let there = ioctl_fionread(&self.socket).map_err(|e| Over::Failed(e.to_string()))?;
        let is_whole = there >= (HEADER + size) as u64;
        Ok(is_whole.then(|| Message { kind: word(0), number: word(HEADER) }))
    }

    /// Whether there is room for any reply.
    pub(super) fn has_room(&self) -> bool {
        let mut look = [PollFd::new(&self.socket, PollFlags::OUT)];
        poll(&mut look, Some(&Timespec::default())).is_ok_and(|n| n > 0)
    }

    /// Handles the next message, which has come whole.
    pub(super) fn handle(&mut self, message: Message) -> Result<(), Over> {
        let back = match message.kind == FrontendReq::SET_BACKEND_REQ_FD as u32 {
            true => self.attached(),
            false => None,
        };
        self.handler.handle_request().map_err(|e| Over::Failed(e.to_string()))?;
        self.back = back.or(self.back.take());
        Ok(())
    }

    /// The descriptor that comes with the next message. The library keeps to itself what it makes of it.
    fn attached(&self) -> Option<OwnedFd> {
        let mut bytes = [0; HEADER];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags).ok()?;
        control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        })
    }

    /// Tells the front end that the configuration has changed, if it has said where.
    pub(super) fn tell_change(&self) {
        let Some(back) = &self.back else { return };
        let mut message = [0; HEADER];
        message[..4].copy_from_slice(&(BackendReq::CONFIG_CHANGE_MSG as u32).to_ne_bytes());
        message[4..8].copy_from_slice(&VERSION.to_ne_bytes());
        // One that does not listen is not told.
        let _ = send(back, &message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}
