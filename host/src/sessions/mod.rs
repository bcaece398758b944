//! A host's connection, whichever protocol it speaks.

pub(crate) mod callers;
pub(crate) mod link;
pub(crate) mod listen;
pub(crate) mod native;
pub(crate) mod nbd;
pub(crate) mod nbd_words;
pub(crate) mod numbered;
pub(crate) mod patience;
pub(crate) mod room;

use std::time::Instant;

use weft_core::units::VolumeId;

use crate::sessions::link::End;
use crate::sessions::patience::Patience;
use crate::sessions::room::Room;

/// A host's connection.
pub(crate) enum Host {
    /// It speaks NBD.
    Nbd(Box<nbd::Connection>),
    /// It speaks the native protocol.
    Native(Box<native::Connection>),
}

impl Host {
    /// Takes note of what the poll says.
    pub(crate) fn ready(&mut self, readable: bool, writable: bool) {
        match self {
            Host::Nbd(c) => c.link.ready(readable, writable),
            Host::Native(c) => c.link.ready(readable, writable),
        }
    }

    /// Whether nothing that it asked for is still to be answered.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Host::Nbd(c) => c.link.is_idle(),
            Host::Native(c) => c.link.is_idle(),
        }
    }

    /// Whether there may be something to receive and room for it.
    pub(crate) fn wants_to_receive(&self) -> bool {
        match self {
            Host::Nbd(c) => c.wants_to_receive(),
            Host::Native(c) => c.link.wants_to_receive(),
        }
    }

    /// The volume that it uses, once it has settled on one.
    pub(crate) fn volume(&self) -> Option<VolumeId> {
        match self {
            Host::Nbd(c) => c.volume,
            Host::Native(c) => c.volume,
        }
    }

    /// Takes note of what it keeps us waiting for, and says how patient we are with it.
    pub(crate) fn look_at_patience(&mut self, now: Instant) -> &Patience {
        match self {
            Host::Nbd(c) => {
                c.link.look_at_patience(now);
                &c.link.patience
            }
            Host::Native(c) => {
                c.link.look_at_patience(now);
                &c.link.patience
            }
        }
    }

    /// It is over, and with it what it had of the room for requests.
    pub(crate) fn leave_room(&mut self, conn: usize, room: &mut Room) {
        match self {
            Host::Nbd(c) => c.link.leave_room(conn, room),
            Host::Native(c) => c.link.leave_room(conn, room),
        }
    }

    /// What its other end is called.
    pub(crate) fn peer(&self) -> &str {
        match self {
            Host::Nbd(c) => &c.link.peer,
            Host::Native(c) => &c.link.peer,
        }
    }

    /// Writes what there is to say, as much as the socket takes.
    pub(crate) fn send(&mut self) -> Result<(), End> {
        match self {
            Host::Nbd(c) => c.link.send(),
            Host::Native(c) => c.link.send(),
        }
    }
}
