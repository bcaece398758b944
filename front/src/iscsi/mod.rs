//! iSCSI, spoken to hosts: the target's side of one connection (RFC 7143), whose logical units are disks (SBC-3).
//!
//! [`Server`] is told of received bytes, hands out [`Event`]s, is told the answers and has bytes to send, like NBD's. An
//! initiator logs in to a target, which is a volume as logical unit 0, or to a discovery session, which lists the
//! targets. A session has one connection, and nothing of it outlives that (error recovery level 0).
//!
//! Malformed, out-of-bounds and forbidden requests are refused here, with sense data that point at the field. A driver
//! sees only reads, writes, zeros, flushes and questions for holes that make sense on the unit it gave. A SCSI command may
//! be several of those, one after the other.
//!
//! | module | what is in it |
//! |---|---|
//! | `server` | units come in, and where the connection stands |
//! | `pdu`, `digest`, `keys` | how units and texts are written |
//! | `login`, `parameters` | what both sides agree on before the first command |
//! | `chap` | how an initiator proves who it is, and the target |
//! | `text` | the list of targets, and later negotiation |
//! | `commands`, `transfer` | commands and the data that they bring along |
//! | `tasks` | commands in work, and how they are aborted |
//! | `replies` | data and status on their way out |
//! | `scsi` | what commands of disks mean |
//! | `reservation` | reservations, in the driver's words |

mod attention;
mod chap;
mod commands;
mod copies;
mod digest;
mod keys;
mod login;
mod parameters;
mod pdu;
mod replies;
pub mod reservation;
mod scsi;
mod server;
mod tasks;
#[cfg(test)]
mod tests;
mod text;
mod transfer;

use bytes::Bytes;

pub use attention::Attention;
pub use chap::{Algorithm, Challenge, Chap, Claim, Unproved};
pub use login::Gate;
pub use scsi::unit::{Designator, Unit};
pub use server::Server;

/// Something the driver is asked to do.
#[derive(Clone, Debug)]
pub enum Event {
    /// The initiator wants to know which targets there are: call [`Server::targets`].
    List,
    /// The initiator claims to be somebody: call [`Server::proved`] or [`Server::disproved`].
    Prove(Claim),
    /// The login has failed: the initiator has not proved who it is.
    Unproved(Unproved),
    /// The initiator wants to use a target: call [`Server::admit`] or [`Server::turn_away`].
    Login(Nexus),
    /// Something to carry out: call [`Server::reply`] when it is done.
    Request(Request),
}

/// Who wants to use what. A session between the same two that is there already ends when this one is admitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nexus {
    /// The initiator's name.
    pub initiator: String,
    /// What the initiator tells its sessions apart by.
    pub isid: [u8; 6],
    /// The target's name.
    pub target: String,
}

impl Nexus {
    /// The initiator and its session, as the name of a port.
    pub fn transport_id(&self) -> String {
        let isid: String = self.isid.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{},i,0x{isid}", self.initiator)
    }
}

/// A target, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Addresses that it is served at, and the portal group of each.
    pub portals: Vec<(String, u16)>,
}

/// A request on the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// To be handed back with the answer. It may come again, but not before that.
    pub number: u64,
    /// What to do.
    pub op: Op,
    /// Where, in bytes; zero for what is not about bytes.
    pub offset: u64,
    /// How much, in bytes; zero for these, and never zero otherwise.
    pub length: u64,
    /// Answer only once the effect is durable.
    pub durable: bool,
    /// The unit that it is about, if it is part of a copy: perhaps another than that of the session.
    pub unit: Option<Designator>,
}

/// What a request does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read; answered by [`Reply::Pieces`].
    Read,
    /// Write these bytes, as many as the request's length says.
    Write(Bytes),
    /// Write data if the content equals `expected`, as one transaction; [`Failure::Differs`] if not.
    CompareAndWrite {
        /// The expected content, with the length of the data.
        expected: Bytes,
        /// What is written.
        data: Bytes,
    },
    /// Write the bitwise OR of the content and these bytes.
    OrWrite(Bytes),
    /// Zero the range.
    WriteZeroes,
    /// Make every write answered so far durable.
    Flush,
    /// Tell which parts of the range are holes; answered by [`Reply::Extents`].
    Holes,
    /// Register or reserve; answered by [`Reply::Reserved`].
    Reserve(reservation::Action),
    /// Tell who has registered; answered by [`Reply::Reservations`].
    Reservations,
    /// Tell through which ports the unit can be had; answered by [`Reply::Ports`].
    Ports,
}

/// How a request that succeeded is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done; nothing to return.
    Done,
    /// What was read, in order, adding up to the request's length.
    Pieces(Vec<Piece>),
    /// Lengths in bytes from the request's offset on, and whether each is a hole.
    Extents(Vec<(u64, bool)>),
    /// What became of a reservation.
    Reserved(reservation::Outcome),
    /// Who has registered.
    Reservations(reservation::State),
    /// All ports, also this one.
    Ports(Vec<Port>),
}

/// A port of the target, which is a port group of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub group: u16,
    /// Whether the unit can be used through it now.
    pub is_available: bool,
}

/// Part of what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes.
    Data(Bytes),
    /// This many zeros.
    Zeroes(u64),
}

/// Why a request was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It may be done later: the initiator tries again.
    Busy,
    /// It lies past the end.
    OutOfRange,
    /// The unit is not there any more.
    Gone,
    /// The initiator may only read.
    Protected,
    /// Another has reserved the unit.
    Reserved,
    /// The content differs from the expected content at this byte of the range.
    Differs(u64),
    /// It cannot be done.
    Failed,
    /// It may have been done or not.
    Unknown,
}

/// Why an initiator may not use a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such target.
    NotFound,
    /// Not now.
    Unavailable,
    /// It is not for this initiator.
    Forbidden,
}

/// The initiator broke the protocol beyond repair; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Something else where a login was due.
    #[error("the connection begins with a unit of kind {0:#04x}, which is no login")]
    NoLogin(u8),
    /// More data than the initiator was told that it may send.
    #[error("a unit announces {0} bytes of data, which is more than was agreed on")]
    DataLength(usize),
    /// A header that is not what its digest says.
    #[error("a header does not have the checksum that it should have")]
    HeaderDigest,
    /// Additional header segments that do not fill their room.
    #[error("additional header segments are not as long as is said")]
    AdditionalHeaders,
    /// A command is missing, and there is no way that it could still come.
    #[error("command {came} came where {due} was due")]
    OutOfOrder {
        /// The number that was due.
        due: u32,
        /// The number that came.
        came: u32,
    },
}
