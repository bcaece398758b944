//! Nodes over loopback, for the tests.
#![allow(dead_code)] // not every test uses everything

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_core::units::NodeId;
use weft_net::identity::{
    CertificateAuthority, Clock, ClusterId, Identity, LIFE, NodeKey, NodeName,
};
use weft_net::transport::{Config, Event, Limits, Peer, Security, SendError, Transport};

/// So long nothing takes; only a guard against hanging.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const KIND: u8 = 16;

pub fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

pub fn identity(ca: &CertificateAuthority, who: &str) -> Arc<Identity> {
    identity_of(ca, who, &NodeKey::generate().unwrap())
}

pub fn identity_of(ca: &CertificateAuthority, who: &str, key: &NodeKey) -> Arc<Identity> {
    let certificate = ca.admit(&name(who), &key.public(), Clock::system().now(), LIFE).unwrap();
    Arc::new(Identity::new(ca.pem(), &certificate, key).unwrap())
}

pub fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Pauses as short as tests like them.
pub fn limits() -> Limits {
    Limits {
        shortest_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(50),
        handshake: Duration::from_secs(30),
        log_pause: Duration::ZERO,
        ..Limits::default()
    }
}

/// A cluster of nodes named n0, n1 and so on.
pub struct Cluster {
    pub ca: CertificateAuthority,
    pub tls: bool,
    pub count: u16,
    pub limits: Limits,
}

impl Cluster {
    pub fn new(tls: bool, count: u16) -> Cluster {
        let ca = CertificateAuthority::create(ClusterId(42)).unwrap();
        Cluster { ca, tls, count, limits: limits() }
    }

    pub fn config(&self, node: u16, addresses: &[SocketAddr]) -> Config {
        let identity = identity(&self.ca, &format!("n{node}"));
        let mut config = Config::new(identity, NodeId(node), Some(local()));
        config.limits = self.limits;
        if !self.tls {
            config.security = Security::Plain;
        }
        config.peers = (0..self.count)
            .filter(|n| *n != node)
            .map(|n| Peer {
                node: NodeId(n),
                name: name(&format!("n{n}")),
                address: addresses.get(usize::from(n)).copied(),
                key: None,
            })
            .collect();
        config
    }

    /// All nodes, and every two of them connected.
    pub fn start(&self) -> (Vec<Node>, Vec<SocketAddr>) {
        let mut addresses = Vec::new();
        let mut nodes = Vec::new();
        for n in 0..self.count {
            let node = Node::start(self.config(n, &addresses));
            addresses.push(node.address());
            nodes.push(node);
        }
        for node in &mut nodes {
            node.take_ups(usize::from(self.count) - 1);
        }
        (nodes, addresses)
    }
}

pub struct Node {
    pub transport: Transport,
    pub log: Receiver<String>,
}

impl Node {
    pub fn start(config: Config) -> Node {
        let (said, log) = channel();
        let note = move |n: &weft_net::transport::Note| {
            let _ = said.send(n.to_string());
        };
        let transport = Transport::start(config, || (), note).unwrap();
        Node { transport, log }
    }

    pub fn address(&self) -> SocketAddr {
        self.transport.local_address().unwrap()
    }

    pub fn event(&mut self) -> Event {
        self.transport.wait_event(PATIENCE).expect("an event in good time")
    }

    /// Takes events until so many peers have come up; nothing else may come.
    pub fn take_ups(&mut self, count: usize) {
        for _ in 0..count {
            let event = self.event();
            assert!(matches!(event, Event::Up { .. }), "{event:?}");
        }
    }

    pub fn up(&mut self, from: u16) -> u64 {
        match self.event() {
            Event::Up { peer, life } if peer == NodeId(from) => life,
            other => panic!("{other:?}"),
        }
    }

    pub fn down(&mut self, from: u16) -> String {
        match self.event() {
            Event::Down { peer, why } if peer == NodeId(from) => why.to_string(),
            other => panic!("{other:?}"),
        }
    }

    pub fn frame(&mut self) -> (u16, Bytes) {
        match self.event() {
            Event::Received { peer, frame } => (peer.0, frame.payload),
            other => panic!("{other:?}"),
        }
    }

    pub fn send(&self, to: u16, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.transport.send(NodeId(to), KIND, vec![payload.into()])
    }

    /// Waits for a line of the log with this text.
    pub fn logged(&self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while let Ok(line) = self.log.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("'{text}' was not logged, but {seen:#?}");
    }
}
