//! Frames between the nodes of a cluster, over TCP, and within a machine over Unix sockets.
//!
//! A [`Transport`] is the owner's end; a [`Driver`] does the work, usually on a thread of its own
//! ([`Transport::start`]). For each pair of nodes there is one connection. **The node with the
//! higher number dials**: one that joins knows the addresses of those that were there before
//! it, who need not know its.
//!
//! What it promises:
//!
//! - Frames to one life of a peer arrive in order, whole and once. If a connection changes, those
//!   that may not have come are sent again. Those for a life that has ended are lost: who needs an
//!   answer asks again.
//! - Between [`Event::Up`] and [`Event::Down`] all that is received is of one life of the
//!   peer: nothing of an earlier life comes after the `Up` of the next. And nothing that was
//!   sent before the owner has taken an `Up` goes to that life.
//! - [`Transport::send`] never waits. A peer's queue is bounded; when it is full, `send` says so,
//!   and [`Event::Room`] tells when to try again. No peer's queue is in the way of another's.
//! - If the owner does not take what has come, nothing more is read, and the senders' queues
//!   fill up in their turn.
//!
//! If one node runs twice, its two processes take the connection from one another: the latest
//! to dial has it.
//!
//! Of the files here, `driver` does the work, `thread` turns it, `connect` and `greet` are how a
//! connection begins, `local` the one within a machine, `link` and `stream` one connection, `session` what goes on when connections change,
//! `routes` and `pipe` circuits through others, `queues` what is between the owner and the driver.

mod config;
mod connect;
mod driver;
mod greet;
mod hello;
mod link;
mod local;
mod notes;
mod pause;
mod pipe;
mod queues;
mod reach;
mod routes;
mod session;
mod stream;
mod thread;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use mio::{Poll, Registry, Token, Waker};
use weft_core::units::NodeId;

pub use config::{Config, Limits, Peer, Security};
pub use driver::Driver;
pub use hello::HelloError;
#[doc(hidden)]
pub use hello::{hello_again, word_again};
pub use local::{Local, Machine, SOCKET, give_room};
pub use notes::{Note, Place};
pub use reach::{Over, Reach, Reached};

use crate::frame::{FIRST_KIND, Frame, FrameError, HEADER, MAX_PAYLOAD};
use crate::identity::IdentityError;
use queues::{Outbox, PeerOrder, Rouse, Shared};

/// What happens to the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer can be sent to.
    Up {
        /// Which.
        peer: NodeId,
        /// A random number of this run of its process.
        life: u64,
    },
    /// It cannot any more; what was on its way to it may be lost.
    Down {
        /// Which.
        peer: NodeId,
        /// Why.
        why: Lost,
    },
    /// A frame came.
    Received {
        /// From whom.
        peer: NodeId,
        /// What.
        frame: Frame,
    },
    /// There is room again for what [`Transport::send`] refused.
    Room {
        /// For whom.
        peer: NodeId,
    },
    /// The transport can not go on. Nothing comes after this.
    Stopped {
        /// Why.
        why: String,
    },
}

impl Event {
    fn bytes(&self) -> usize {
        match self {
            Event::Received { frame, .. } => HEADER + frame.payload.len(),
            _ => 0,
        }
    }
}

/// Why there is no connection, or not any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// It ended it.
    #[error("the other side closed the connection")]
    Closed,
    /// It went away.
    #[error("the connection was reset")]
    Reset,
    /// The system says so.
    #[error("{0}")]
    Io(String),
    /// What came was no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// TLS or certificates.
    #[error("{0}")]
    Tls(String),
    /// Not who it should be.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// It refuses us.
    #[error("the other side refused: {0}")]
    Refused(String),
    /// A kind of frame that has no place there.
    #[error("a frame of kind {0} arrived at an invalid time")]
    Kind(u8),
    /// It took too long to say who it is.
    #[error("it did not send its hello in time")]
    Silent,
    /// More came in than are kept.
    #[error("too many connections without a hello")]
    TooMany,
    /// It dialled again.
    #[error("the node has reconnected")]
    Replaced,
    /// The other end of a Unix socket.
    #[error("it is of user {0}; processes of one user connect within a machine")]
    OtherUser(u32),
    /// There is no Unix socket.
    #[error("{0}; processes of this machine connect by TLS")]
    NoSocket(String),
    /// It carries nothing, and there is a circuit that does.
    #[error("nothing arrives over the connection")]
    Mute,
    /// The circuit under it ended.
    #[error("the circuit has ended: {0}")]
    Circuit(&'static str),
    /// Counts of frames do not fit.
    #[error("it acknowledges frames that were not sent")]
    Count,
    /// Another way is better.
    #[error("there is a better path")]
    Spare,
    /// The owner has taken it off the list.
    #[error("the node was removed from the list of peers")]
    Removed,
}

impl Lost {
    /// Whether the other side says that we are no node of its cluster.
    pub fn disowns(&self) -> bool {
        let says_so =
            |why: &str| [hello::NOT_LISTED, hello::OTHER_KEY].iter().any(|s| why.ends_with(s));
        matches!(self, Lost::Refused(why) if says_so(why))
    }
}

impl Lost {
    /// Whether the other side may still be there to be told.
    fn can_be_told(&self) -> bool {
        !matches!(self, Lost::Closed | Lost::Reset | Lost::Io(_) | Lost::TooMany | Lost::Circuit(_))
    }
}

/// Why a frame is not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no connection.
    #[error("there is no connection to {peer}")]
    Down {
        /// To whom.
        peer: NodeId,
    },
    /// Too much waits already. [`Event::Room`] will say when there is room.
    #[error("{waiting} bytes wait to be sent to {peer}")]
    Full {
        /// To whom.
        peer: NodeId,
        /// How much waits.
        waiting: usize,
    },
    /// It is longer than any frame.
    #[error("a frame of {0} bytes exceeds the maximum, {MAX_PAYLOAD}")]
    TooLong(usize),
    /// The kind is one of the transport's own.
    #[error("frames of kind {0} are the transport's own; kinds from {FIRST_KIND} on are free")]
    Kind(u8),
}

/// Why a transport does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {error}; choose another address, or stop the program that uses it"
    )]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Keys or certificates.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The identity is of another node or cluster than the configuration.
    #[error("the certificate is for node {shown}, and the configuration for node {configured}")]
    OtherIdentity {
        /// In the certificate.
        shown: String,
        /// In the configuration.
        configured: String,
    },
    /// The system refuses something.
    #[error("cannot start the transport: {0}")]
    Io(#[from] io::Error),
}

/// The owner's end of a transport. Dropping it ends all connections.
pub struct Transport {
    shared: Arc<Shared>,
    /// Of the peers whose `Up` the owner has taken.
    up: BTreeMap<NodeId, Arc<Outbox>>,
    address: Option<SocketAddr>,
    life: u64,
    thread: Option<JoinHandle<()>>,
}

impl Transport {
    /// Starts a transport on a thread of its own.
    ///
    /// `notify` is called, on that thread, when events have come and none waited before: the
    /// owner then takes events until there is none. `log` gets who was refused and why.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on, or keys and certificates do not fit.
    pub fn start(
        config: Config,
        notify: impl Fn() + Send + Sync + 'static,
        log: impl Fn(&Note) + Send + 'static,
    ) -> Result<Transport, StartError> {
        let poll = Poll::new()?;
        let driver = Waker::new(poll.registry(), thread::WAKER)?;
        let rouse = Some(Rouse { driver, owner: Box::new(notify) });
        let registry = poll.registry().try_clone()?;
        let (mut transport, driver) =
            Transport::new(config, registry, thread::FIRST, rouse, Box::new(log))?;
        let name = "weft-net".to_string();
        let turn = || thread::run(driver, poll);
        transport.thread = Some(std::thread::Builder::new().name(name).spawn(turn)?);
        Ok(transport)
    }

    /// A transport whose driver the caller turns itself, on the thread that uses the transport.
    /// Its sockets are put into `registry` under `first` and the tokens after it, of which none
    /// is used twice: all of them must be free. When the registry's poll says that one of them
    /// is ready the caller tells [`Driver::ready`]; it calls [`Driver::turn`] after that, after
    /// sending, and when [`Driver::patience`] is over.
    ///
    /// # Errors
    ///
    /// As [`Transport::start`].
    pub fn with_driver(
        config: Config,
        registry: &Registry,
        first: Token,
        log: impl Fn(&Note) + Send + 'static,
    ) -> Result<(Transport, Driver), StartError> {
        Transport::new(config, registry.try_clone()?, first, None, Box::new(log))
    }

    fn new(
        config: Config,
        registry: Registry,
        first: Token,
        rouse: Option<Rouse>,
        log: Box<dyn Fn(&Note) + Send>,
    ) -> Result<(Transport, Driver), StartError> {
        let driver = Driver::new(config, registry, first, rouse, log)?;
        let transport = Transport {
            shared: driver.shared(),
            up: BTreeMap::new(),
            address: driver.local_address(),
            life: driver.life(),
            thread: None,
        };
        Ok((transport, driver))
    }

    /// Where it listens.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The random number of this run of the process.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Puts a frame into a peer's queue. The chunks are not copied.
    ///
    /// # Errors
    ///
    /// If the peer is not up, or too much waits already.
    pub fn send(&self, peer: NodeId, kind: u8, payload: Vec<Bytes>) -> Result<(), SendError> {
        if kind < FIRST_KIND {
            return Err(SendError::Kind(kind));
        }
        let len = payload.iter().map(Bytes::len).sum();
        if len > MAX_PAYLOAD {
            return Err(SendError::TooLong(len));
        }
        let outbox = self.up.get(&peer).ok_or(SendError::Down { peer })?;
        if outbox.push(peer, (kind, payload))? {
            self.shared.order(|orders| orders.told.push(outbox.peer));
        }
        Ok(())
    }

    /// The next event, if one has come.
    pub fn next_event(&mut self) -> Option<Event> {
        self.wait_event(Duration::ZERO)
    }

    /// The next event, if one comes within `patience`.
    pub fn wait_event(&mut self, patience: Duration) -> Option<Event> {
        let (event, outbox) = self.shared.next(patience)?;
        match &event {
            Event::Up { peer, .. } => self.up.extend(outbox.map(|o| (*peer, o))),
            Event::Down { peer, .. } => drop(self.up.remove(peer)),
            _ => {}
        }
        Some(event)
    }

    /// Adds a peer, or changes what is known of it.
    pub fn add_peer(&self, peer: Peer) {
        self.shared.order(|orders| orders.peers.push(PeerOrder::Add(peer)));
    }

    /// A peer has left: its connection ends with [`Transport::remove_peer`] at the latest, and no other one begins.
    pub fn retire_peer(&self, node: NodeId) {
        self.shared.order(|orders| orders.peers.push(PeerOrder::Retire(node)));
    }

    /// Takes a peer off the list and ends its connection.
    pub fn remove_peer(&self, node: NodeId) {
        self.shared.order(|orders| orders.peers.push(PeerOrder::Remove(node)));
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.shared.order(|orders| orders.stop = true);
        if let Some(thread) = self.thread.take() {
            // If it has panicked, the message is on standard error already.
            let _ = thread.join();
        }
    }
}
