//! iSCSI: the target's side of one connection (RFC 7143). Its logical units are disks (SBC-3).
//!
//! [`Server`] takes received bytes, hands out [`Event`]s, takes the answers and yields bytes to send, like NBD's. An
//! initiator logs in to a target, which is a volume as logical unit 0, or to a discovery session, which lists the
//! targets. A session has one connection and ends with it (error recovery level 0).
//!
//! Malformed, out-of-bounds and forbidden requests are refused here, with sense data that point at the field. A driver
//! sees only valid reads, writes, zeros, flushes and queries for holes on its unit. A SCSI command may consist of
//! several of these, in sequence.
//!
//! | module | what is in it |
//! |---|---|
//! | `server` | incoming units, and the state of the connection |
//! | `pdu`, `digest`, `keys` | encoding of units and texts |
//! | `login`, `parameters` | negotiation before the first command |
//! | `chap` | authentication of the initiator, and of the target |
//! | `text` | the list of targets, and later negotiation |
//! | `commands`, `transfer` | commands and their data |
//! | `tasks` | commands in progress, and aborts |
//! | `parting` | the end of a session, when the target wants it |
//! | `replies` | outgoing data and status |
//! | `scsi` | the disk commands |
//! | `reservation` | reservations, in the driver's terms |

mod attention;
mod chap;
mod commands;
mod copies;
mod digest;
mod keys;
mod login;
mod parameters;
mod parting;
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
pub use parting::Parting;
pub use scsi::unit::{Designator, Unit};
pub use server::Server;

/// A question or task for the driver.
#[derive(Clone, Debug)]
pub enum Event {
    /// The initiator asks for the list of targets: call [`Server::targets`].
    List,
    /// The initiator claims to be a certain host: call [`Server::proved`] or [`Server::disproved`].
    Prove(Claim),
    /// The login has failed: the initiator was not authenticated.
    Unproved(Unproved),
    /// The initiator wants to use a target: call [`Server::admit`] or [`Server::turn_away`].
    Login(Nexus),
    /// The initiator has reset the target as if its power had been cut, and has been told so: end all connections to it.
    ColdReset,
    /// Something to carry out: call [`Server::reply`] when it is done.
    Request(Request),
}

/// Who wants to use which target. An existing session between the same two ends when this one is admitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nexus {
    /// The initiator's name.
    pub initiator: String,
    /// The initiator's identifier of the session (ISID).
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

/// A target as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its addresses, each with its portal group.
    pub portals: Vec<(String, u16)>,
}

/// A request on the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The tag to return with the answer. It may be reused only after that.
    pub number: u64,
    /// The operation.
    pub op: Op,
    /// Its offset in bytes; zero for operations without a range.
    pub offset: u64,
    /// Its length in bytes; zero for operations without a range, otherwise never zero.
    pub length: u64,
    /// Answer only when the effect is durable.
    pub durable: bool,
    /// The unit that it is about, if it is part of a copy: perhaps another than that of the session.
    pub unit: Option<Designator>,
    /// The driver's count when the command came that it is part of ([`Server::count`]).
    pub came: u64,
}

/// The operation of a request.
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
    /// Report the holes of the range; answered by [`Reply::Extents`].
    Holes,
    /// Register or reserve; answered by [`Reply::Reserved`].
    Reserve(reservation::Action),
    /// Report the registrants; answered by [`Reply::Reservations`].
    Reservations,
    /// Report the ports of the unit; answered by [`Reply::Ports`].
    Ports,
}

/// The answer to a request that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, without data.
    Done,
    /// The content read, in order; the lengths add up to the request's.
    Pieces(Vec<Piece>),
    /// Lengths in bytes from the request's offset on, each with whether it is a hole.
    Extents(Vec<(u64, bool)>),
    /// The outcome of a change of reservations.
    Reserved(reservation::Outcome),
    /// The registrants.
    Reservations(reservation::State),
    /// All ports, including this one.
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
    /// A later attempt may succeed.
    Busy,
    /// It exceeds the unit.
    OutOfRange,
    /// The unit does not exist any more.
    Gone,
    /// The initiator may only read.
    Protected,
    /// Another has reserved the unit.
    Reserved,
    /// The unit is thin, and what it takes space of is full.
    NoSpace,
    /// The content differs from the expected content at this byte of the range.
    Differs(u64),
    /// The unit has stopped offering the command.
    NotOffered,
    /// It cannot be done.
    Failed,
    /// It may have been done or not.
    Unknown,
}

/// Why an initiator may not use a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such target.
    NotFound,
    /// Not now.
    Unavailable,
    /// Not here, but at this address of another process.
    Moved(String),
    /// It is not for this initiator.
    Forbidden,
}

/// The initiator broke the protocol beyond repair; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Something else where a login was due.
    #[error("the connection begins with a unit of kind {0:#04x}, which is not a login")]
    NoLogin(u8),
    /// More data than the initiator was told that it may send.
    #[error("a unit announces {0} bytes of data, more than negotiated")]
    DataLength(usize),
    /// A header that is not what its digest says.
    #[error("a header does not match its checksum")]
    HeaderDigest,
    /// Additional header segments that do not fill their room.
    #[error("additional header segments do not have the length that the header gives")]
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
