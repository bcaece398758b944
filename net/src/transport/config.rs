//! What a transport is told when it starts.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_core::units::NodeId;

use super::local::Local;
use crate::frame::MAX_PAYLOAD;
use crate::identity::{ClusterId, Identity, NodeName};

/// Who we are, whom we know, and how much we keep.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster.
    pub cluster: ClusterId,
    /// Our number.
    pub node: NodeId,
    /// Our name.
    pub name: NodeName,
    /// Where to listen for nodes with higher numbers.
    pub listen: Option<SocketAddr>,
    /// The other nodes.
    pub peers: Vec<Peer>,
    /// If only some of them are to be dialled: these.
    pub only: Option<BTreeSet<NodeName>>,
    /// If processes of this machine are to connect by Unix sockets: where ours is.
    pub local: Option<Local>,
    /// Whether others' circuits may go through here.
    pub relays: bool,
    /// Whether connections are encrypted and nodes prove who they are.
    pub security: Security,
    /// How much and how long.
    pub limits: Limits,
}

impl Config {
    /// The configuration of a node with its identity: TLS, no peers yet, usual limits.
    pub fn new(identity: Arc<Identity>, node: NodeId, listen: Option<SocketAddr>) -> Config {
        Config {
            cluster: identity.cluster(),
            node,
            name: identity.name().clone(),
            listen,
            peers: Vec::new(),
            only: None,
            local: None,
            relays: true,
            security: Security::Tls(identity),
            limits: Limits::default(),
        }
    }
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub node: NodeId,
    /// Its name, which its certificate must show.
    pub name: NodeName,
    /// Where it listens. Needed if its number is lower than ours.
    pub address: Option<SocketAddr>,
    /// The digest of its public key ([`crate::identity::PublicKey::digest`]), which the key in its certificate must
    /// have. If it is not known any key of a certificate with its name will do.
    pub key: Option<u128>,
}

/// Whether connections are encrypted and nodes prove who they are.
#[derive(Clone, Debug)]
pub enum Security {
    /// Mutual TLS.
    Tls(Arc<Identity>),
    /// Nothing of the kind: whoever knows the cluster's id is believed. For tests and measuring.
    Plain,
}

/// How much is kept, and how long is waited.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that wait to be sent to one peer. A frame that is longer goes if nothing waits.
    pub queue_bytes: usize,
    /// Bytes that have come and that the owner has not taken; with more, nothing is read.
    pub undelivered_bytes: usize,
    /// How long a connection may take until both sides have said hello.
    pub handshake: Duration,
    /// The first pause before dialling again.
    pub shortest_pause: Duration,
    /// The longest pause before dialling again: what a process that is up again waits at most for
    /// those that dial it, beyond the time that connecting takes.
    pub longest_pause: Duration,
    /// How long a peer may leave what was sent to it unacknowledged, or a full window closed.
    pub silence: Duration,
    /// The most connections that have not said hello yet.
    pub strangers: usize,
    /// The shortest time between two lines of the log about one address.
    pub log_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            queue_bytes: 2 * MAX_PAYLOAD,
            undelivered_bytes: 2 * MAX_PAYLOAD,
            handshake: Duration::from_secs(5),
            shortest_pause: Duration::from_millis(50),
            longest_pause: Duration::from_millis(400),
            silence: Duration::from_secs(15),
            strangers: 64,
            log_pause: Duration::from_secs(10),
        }
    }
}
