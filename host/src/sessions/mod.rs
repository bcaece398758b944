//! What serves hosts: a [`Session`] for each connection, whichever protocol it speaks. Asks come out of it, answers go
//! in.
//!
//! A protocol is a module that says what its machine does ([`Protocol`]), and a line in [`FRONT_ENDS`]. Nothing
//! else names one: the reactor knows sessions, and addresses and configurations know the list.
//!
//! | module | what is in it |
//! |---|---|
//! | `nbd`, `native`, `iscsi` | the protocols |
//! | `vhost_user` | disks of virtual machines, whose memory is shared: a session without a machine of bytes |
//! | `connection` | a session, made of a protocol's machine and a socket |
//! | `connections` | all of them, and what they share |
//! | `link` | the socket, and how much a host may have in work |
//! | `door`, `tls` | authentication of a host, and TLS over its socket |
//! | `protocols` | their names, for flags |
//! | `listen`, `callers` | where connections come in, and how many there may be |
//! | `numbered` | hosts that number their requests, and come back |
//! | `room`, `receive_timeout` | how much of a request, and for how long, is kept until it is whole |

pub(crate) mod budget;
pub(crate) mod callers;
mod connection;
pub(crate) mod connections;
pub(crate) mod door;
mod iscsi;
pub(crate) mod link;
pub(crate) mod listen;
mod native;
mod nbd;
pub(crate) mod numbered;
pub(crate) mod protocols;
pub(crate) mod receive_timeout;
pub(crate) mod room;
mod tls;
mod untaken;
mod vhost_user;

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_core::cluster::{Access, Registrant, ReservationAction, ReservationOutcome, Volume};
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::order::{HostId, RequestId};
use weft_core::units::{Epoch, NodeId, VolumeId};
use weft_front::iscsi::Claim;

use budget::Use;
use connection::{Connection, Protocol};
use door::Door;
use link::End;
use numbered::Failure;
use receive_timeout::ReceiveTimeout;
use room::Room;

use crate::doors::who::Who;
use crate::socket::{Ready, Stream, Watch};
use crate::volumes::{Exports, Served};

/// The protocols that hosts can speak. A new one is a module and its line here.
pub(crate) static FRONT_ENDS: [FrontEnd; 4] = [
    FrontEnd::of::<nbd::Nbd>(),
    FrontEnd::of::<native::Native>(),
    FrontEnd::of::<iscsi::Iscsi>(),
    vhost_user::FRONT_END,
];

/// A protocol, as addresses and configurations name it.
pub(crate) struct FrontEnd {
    /// What a process's configuration has its addresses under.
    pub(crate) key: &'static str,
    /// What stands before an address where it is spoken.
    pub(crate) prefix: &'static str,
    /// What its hosts are called, for people.
    pub(crate) spoken_by: &'static str,
    /// The name of its socket in a directory where nothing else is said, if it is spoken there then.
    pub(crate) socket: Option<&'static str>,
    /// What its URIs begin with.
    pub(crate) scheme: &'static str,
    /// Whether its hosts prove by CHAP who they are, where nothing else is asked of them.
    pub(crate) has_chap: bool,
    /// Whether an address is the path of a socket, and may name the volume that is served there: its hosts cannot.
    pub(crate) names_volume: bool,
    /// What a process's configuration has the addresses under that hosts are told, if they are told any.
    pub(crate) announced: Option<&'static str>,
    /// Begins a session at a connection.
    pub(crate) begin: fn(Arrival) -> Box<dyn Session>,
}

/// A connection that has just come in.
pub(crate) struct Arrival {
    pub(crate) stream: Stream,
    /// What its other end is called.
    pub(crate) peer: String,
    /// The node that serves it.
    pub(crate) node: usize,
    /// What it uses of the memory of all connections.
    pub(crate) memory: Use,
    /// Where hosts of its protocol can connect over TCP to this process, beginning with where it has.
    pub(crate) portals: Vec<String>,
    /// Addresses at which other processes serve hosts, as URIs, with the nodes that those are known by.
    pub(crate) elsewhere: Vec<(NodeId, String)>,
    /// How its other end proves who it is.
    pub(crate) door: Door,
    /// The volume that the address names where it has come in, if it names one.
    pub(crate) volume: Option<String>,
    /// How it has more watched than its socket.
    pub(crate) watch: Option<Watch>,
}

impl FrontEnd {
    const fn of<P: Protocol + 'static>() -> FrontEnd {
        let begin = |arrival| -> Box<dyn Session> { Box::new(Connection::<P>::new(arrival)) };
        FrontEnd {
            key: P::KEY,
            prefix: P::PREFIX,
            spoken_by: P::SPOKEN_BY,
            socket: P::SOCKET,
            scheme: P::SCHEME,
            has_chap: P::HAS_CHAP,
            names_volume: false,
            announced: P::ANNOUNCED,
            begin,
        }
    }
}

/// The name of a volume's target, for iSCSI.
pub(crate) fn iscsi_target(volume: &Volume, at: Served) -> String {
    iscsi::target(volume, at)
}

/// What serves one connection of a host.
pub(crate) trait Session: Send {
    /// Takes note of what the poll says.
    fn ready(&mut self, ready: Ready);

    /// Whether there may be something to receive and room for it.
    fn wants_to_receive(&self) -> bool;

    /// Whether a request that has come whole waits for memory, and if so, whether nothing else stands in its way.
    fn waits_for_memory(&self) -> Option<bool>;

    /// What it uses of the memory of all connections.
    fn memory(&self) -> &Use;

    /// Reads what has come and appends what the host says. Stops when there is no more, or when enough is in work:
    /// the rest waits in the socket, and the host with it. So it does when there is no room for a request that is
    /// coming, or if the host waits to be let in.
    fn receive(
        &mut self,
        exports: Exports<'_>,
        said: &mut Vec<Said>,
        turn: Turn<'_>,
    ) -> Result<(), End>;

    /// Whether the host has ended the connection. If this process may have been `away`, the socket is asked.
    fn is_given_up(&self, away: bool) -> bool;

    /// The host may use a volume. It is known from before, or not.
    fn let_in(&mut self, volume: &Volume, remembered: bool, access: Access);

    /// The host may not use the volume that it wants. Says whether that is for the log.
    fn turn_away(&mut self, why: Refused, text: String) -> bool;

    /// The host is who it claims to be. By this digest the target proves itself, if it was asked.
    fn proved(&mut self, who: Who, proof: Option<Vec<u8>>);

    /// The host is not believed, or not judged now.
    fn disproved(&mut self, was_judged: bool);

    /// Answers a request. Says what to log, if anything that was not said just before.
    fn answer(&mut self, number: u64, result: Result<HostData, Failure>) -> Option<String>;

    /// Says what became of a reservation that was asked for.
    fn reserved(&mut self, number: u64, result: Result<ReservationOutcome, HostError>);

    /// Reports the registrants of its volume, or that they are not known now.
    fn registrants(&mut self, number: u64, volume: Result<&Volume, HostError>);

    /// The map has changed: the host may have to be told of it.
    fn look_at(&mut self, volume: &Volume);

    /// Writes what there is to say, as much as the socket takes.
    fn send(&mut self) -> Result<(), End>;

    /// The process wants to end the session: its host is told, if its protocol has words for that. Returns whether it has
    /// been asked to leave and has not left.
    fn part(&mut self, how: Parting) -> bool;

    /// Whether its host is still heard while the process stops: it is asked to leave, or sent elsewhere.
    fn is_heard_out(&self) -> bool;

    /// Whether its host has been sent to another process.
    fn has_moved(&self) -> bool;

    /// Whether nothing that it asked for is still to be answered.
    fn is_idle(&self) -> bool;

    /// The volume that it uses, once it has settled on one.
    fn volume(&self) -> Option<VolumeId>;

    /// The host, if it numbers its requests and has been let in.
    fn host(&self) -> Option<HostId>;

    /// What the host calls it, if a new one by that name takes its place.
    fn name(&self) -> Option<&str>;

    /// By what name its host can register with a volume, if its protocol has that.
    fn registrant(&self) -> Option<Arc<Registrant>>;

    /// Whether its hosts number their requests, and repeat them where they come back.
    fn is_numbered(&self) -> bool;

    /// The node that serves it.
    fn node(&self) -> usize;

    /// What it speaks, as a configuration names it.
    fn protocol(&self) -> &'static str;

    /// What its other end is called.
    fn peer(&self) -> &str;

    /// Who its host is, as far as that has been seen.
    fn who(&self) -> &Arc<Who>;

    /// Whether it goes by TLS.
    fn is_secured(&self) -> bool;

    /// The user at its other end, if that is in this machine.
    fn user(&self) -> Option<u32>;

    /// What its host may do with the volume that it uses, as it was told.
    fn access(&self) -> Option<Access>;

    /// The volume that it has begun to use, said once.
    fn take_login(&mut self) -> Option<VolumeId>;

    /// A line for the log, said once.
    fn take_complaint(&mut self) -> Option<String> {
        None
    }

    /// Whether its host has yet to log in.
    fn is_new(&self) -> bool;

    /// The host is not heard for a while, or again. Says whether it is so now.
    fn hold_back(&mut self, _holds: bool) -> bool {
        false
    }

    /// Why it should end while others wait for memory, if it should: its host has not taken its answers for this time.
    fn keeps_memory(&self, _limit: Duration, _now: Instant) -> Option<String> {
        None
    }

    /// Takes note of what it keeps us waiting for, and says how patient we are with it.
    fn check_receive_timeout(&mut self, now: Instant) -> &ReceiveTimeout;

    /// It is over, and with it what it had of the room for requests.
    fn leave_room(&mut self, conn: usize, room: &mut Room);
}

/// A session's turn to be heard.
pub(crate) struct Turn<'a> {
    /// Its connection.
    pub(crate) conn: usize,
    /// Room for requests that have not come whole.
    pub(crate) room: &'a mut Room,
    /// How much it may say at most.
    pub(crate) most: usize,
}

/// How the process ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    /// The process stops, and the host is to leave within this time. A new one is sent to another process.
    Asked(Duration),
    /// The connection is closed now.
    Now,
}

/// What a host says.
pub(crate) enum Said {
    /// It wants to use a volume.
    Attach(Attach),
    /// It takes the place of the session that has this name, if there is one.
    Supersede(String),
    /// It claims to be a host, and waits until it is believed or not.
    Prove(Box<Claim>),
    /// It has not proved who it is, and is turned away.
    Unproved(String),
    /// It asks for something.
    Ask(Asked),
    /// It registers with its volume or reserves it, in a request of this number.
    Reserve(u64, ReservationAction),
    /// It asks for the registrants of its volume, in a request of this number.
    Registrants(u64),
    /// It has reset its target: the connections of all hosts that use its volume by the same protocol end.
    ColdReset,
    /// It will not come back.
    Bye,
}

/// A wish to use a volume. The session waits until it is let in or turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attach {
    /// The volume's name.
    pub(crate) volume: String,
    /// Who it is, if it numbers its requests.
    pub(crate) host: Option<HostId>,
    /// It may have been at another process.
    pub(crate) resumes: bool,
}

/// A request.
pub(crate) struct Asked {
    /// What the session calls it.
    pub(crate) number: u64,
    pub(crate) op: HostOp,
    /// The volume that it is about, if it is not the session's.
    pub(crate) elsewhere: Option<VolumeId>,
    /// Bytes that it has in work.
    pub(crate) bytes: u64,
    /// Its effect must be safe before it is answered.
    pub(crate) durable: bool,
    /// The epoch of the map in force when it came, if a reset of the volume concerns it.
    pub(crate) came: Option<Epoch>,
    /// What its host says of its place among the others.
    pub(crate) order: Option<Order>,
}

/// What a host says of the place of a request among its own.
pub(crate) struct Order {
    /// The oldest that it has not heard the end of.
    pub(crate) oldest: u64,
    /// Those that must come first.
    pub(crate) after: Vec<RequestId>,
    /// All that are complete must come first.
    pub(crate) after_completed: bool,
    /// It was sent before, over a connection that broke.
    pub(crate) again: bool,
}

/// Why a host may not use a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is none of that name.
    NoVolume,
    /// This process cannot serve it now.
    NotServing,
    /// Another host uses it, and nothing orders their requests.
    SecondWriter,
    /// The host's number is for another.
    OtherVolume,
    /// It has no right to, or has not proved who it is.
    NotAllowed,
}
