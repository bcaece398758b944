//! Where connections come in: who waits there, who may come in, and how many there are.
//!
//! The poll says once that somebody waits at a listener. It is remembered until nobody does, so that
//! those who cannot be let in now, for want of descriptors say, are let in later. Hosts are refused
//! while descriptors are still to be had, for the sake of control connections and of other processes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Interest, Registry, Token};

use super::events::LISTENERS;
use weft_core::units::NodeId;

use crate::doors::keeper::Keeper;
use crate::doors::{Doors, Tls};
use crate::error::Result;
use crate::limits::{Descriptors, Limits};
use crate::sessions::budget::{Budget, Use};
use crate::sessions::callers::{Callers, Place};
use crate::sessions::door::Door;
use crate::sessions::listen::{Caller, Listen, Listener};
use crate::sessions::{Arrival, Session};
use crate::socket::{Stream, Watch};

/// How long after somebody could not be let in it is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// The listener of the control socket.
pub(super) const CONTROL_SOCKET: usize = 0;

/// The sockets that are listened at.
pub(super) struct Acceptor {
    /// The control socket's first, then those for hosts.
    listeners: Vec<Listener>,
    /// Where hosts can connect, as URIs.
    addresses: Vec<String>,
    /// What hosts are told instead, for some protocols.
    announced: Vec<Listen>,
    /// Hosts are let in.
    open: bool,
    /// Listeners where somebody may wait, and when to look.
    ready: BTreeMap<usize, Instant>,
    callers: Callers,
    descriptors: Descriptors,
    limits: Limits,
    /// What all hosts together may have in work.
    memory: Arc<Budget>,
    /// Certificates for hosts, and how the doors are kept.
    keeper: Arc<Keeper>,
    doors: Doors,
    /// The host that callers are taken for, where this process is a host's own controller.
    own: Option<String>,
}

impl Acceptor {
    /// Listens; those who come wait.
    pub(super) fn bind(
        control: &Listen,
        hosts: &[Listen],
        keeper: Arc<Keeper>,
    ) -> Result<Acceptor> {
        let all = std::iter::once(control).chain(hosts);
        let listeners = all.map(Listener::bind).collect::<Result<Vec<Listener>>>()?;
        listeners[CONTROL_SOCKET].set_mode(0o600)?;
        Ok(Acceptor {
            addresses: listeners[1..].iter().map(|l| l.at.to_string()).collect(),
            listeners,
            announced: Vec::new(),
            open: false,
            ready: BTreeMap::new(),
            callers: Callers::default(),
            descriptors: Descriptors::of_process(),
            limits: Limits::default(),
            memory: Budget::new(Limits::default().memory),
            keeper,
            doors: Doors::default(),
            own: None,
        })
    }

    /// Lets hosts take so much.
    pub(super) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        self.memory = Budget::new(limits.memory);
    }

    /// Keeps the doors for hosts like this.
    pub(super) fn keep_doors(&mut self, doors: &Doors, own: Option<String>) -> Result<()> {
        let group = doors.group()?;
        self.listeners[1..].iter().try_for_each(|listener| listener.share(group))?;
        (self.doors, self.own) = (doors.clone(), own);
        self.addresses = self.listeners[1..].iter().map(|l| self.uri(&l.at)).collect();
        Ok(())
    }

    /// An address as hosts need it: a port that requires TLS of NBD's clients is told so by the scheme.
    fn uri(&self, at: &Listen) -> String {
        let uri = at.to_string();
        match uri.strip_prefix("nbd://") {
            Some(place) if self.doors.tls == Tls::Require => format!("nbds://{place}"),
            _ => uri,
        }
    }

    /// The addresses of this machine at which it listens.
    pub(super) fn ips(&self) -> Vec<IpAddr> {
        self.listeners.iter().filter_map(|listener| listener.at.ip()).collect()
    }

    /// The protocol of a listener for hosts.
    pub(super) fn protocol(&self, listener: usize) -> Option<&'static str> {
        (listener != CONTROL_SOCKET).then(|| self.listeners[listener].at.key())
    }

    /// Where hosts can connect, as URIs.
    pub(super) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Has hosts told these addresses, instead of those at which their protocols are spoken.
    pub(super) fn announce(&mut self, addresses: Vec<Listen>) {
        self.announced = addresses;
    }

    /// The addresses that hosts of other processes are told: those that are announced, or at which other machines may find
    /// this one. It is not known which address a wildcard stands for.
    pub(super) fn announced(&self) -> Vec<String> {
        let is_wildcard = |uri: &String| uri.contains("://0.0.0.0:") || uri.contains("://[::]:");
        let is_local = |uri: &String| uri.contains("socket=");
        let is_told = |l: &&Listener| self.announced.iter().all(|a| a.key() != l.at.key());
        let own = self.listeners[1..].iter().filter(is_told).map(|l| self.uri(&l.at));
        let own = own.filter(|uri| !is_wildcard(uri) && !is_local(uri));
        own.chain(self.announced.iter().map(|at| self.uri(at))).collect()
    }

    /// The addresses that a host is told that has come in at a listener over this connection.
    fn portals(&self, at: &Listen, local: Option<SocketAddr>) -> Vec<String> {
        let of_protocol = |l: &&Listen| l.key() == at.key();
        let announced: Vec<String> =
            self.announced.iter().filter(of_protocol).map(Listen::place).collect();
        if !announced.is_empty() {
            return announced;
        }
        let others = self.listeners[1..].iter().map(|l| &l.at).filter(of_protocol);
        let mut portals: Vec<String> =
            std::iter::once(at).chain(others).filter_map(|l| l.portal(local)).collect();
        let mut seen = BTreeSet::new();
        portals.retain(|portal| seen.insert(portal.clone()));
        portals
    }

    /// Whether hosts are let in.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// From now on the poll says who waits at the control socket.
    pub(super) fn watch_control(&mut self, registry: &Registry) -> io::Result<()> {
        self.watch(CONTROL_SOCKET, registry)
    }

    /// From now on hosts are let in.
    pub(super) fn open(&mut self, registry: &Registry) -> io::Result<()> {
        self.open = true;
        (1..self.listeners.len()).try_for_each(|n| self.watch(n, registry))
    }

    fn watch(&mut self, n: usize, registry: &Registry) -> io::Result<()> {
        registry.register(self.listeners[n].source(), Token(LISTENERS + n), Interest::READABLE)
    }

    /// Somebody waits at a listener.
    pub(super) fn somebody_waits(&mut self, listener: usize) {
        self.ready.insert(listener, Instant::now());
    }

    /// How long until listeners are to be looked at again.
    pub(super) fn due(&self) -> Option<Duration> {
        let now = Instant::now();
        self.ready.values().map(|at| at.saturating_duration_since(now)).min()
    }

    /// Whether somebody may wait at a listener.
    pub(super) fn has_waiting(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The listeners that are to be looked at now.
    pub(super) fn to_look_at(&self, now: Instant) -> Vec<usize> {
        self.ready.iter().filter(|(_, at)| **at <= now).map(|(n, _)| *n).collect()
    }

    /// The next who waits at a listener, if there is one.
    pub(super) fn next(&mut self, listener: usize) -> io::Result<Option<Caller>> {
        loop {
            match self.listeners[listener].accept() {
                Ok(caller) => return Ok(Some(caller)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.ready.remove(&listener);
                    return Ok(None);
                }
                // It is the caller who has gone, or a signal that came.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Somebody at a listener could not be let in for now.
    pub(super) fn try_again(&mut self, listener: usize, now: Instant) {
        self.ready.insert(listener, now + AGAIN);
    }

    /// Finds a place for a caller, or says why there is none; so many control connections there are.
    pub(super) fn enter(
        &mut self,
        id: usize,
        listener: usize,
        caller: &Caller,
        controls: usize,
    ) -> std::result::Result<(), String> {
        if listener == CONTROL_SOCKET {
            return match controls < self.descriptors.share() {
                true => Ok(()),
                false => Err("there are too many control connections".to_string()),
            };
        }
        if self.descriptors.are_scarce(caller.stream.as_raw_fd()) {
            return Err(format!(
                "too few file descriptors are left, and they are reserved for disks, other processes and commands; raise the \
             process's limit above {} (`ulimit -n`)",
                self.descriptors.limit()
            ));
        }
        self.callers.enter(id, listener, caller.address, &self.limits)
    }

    /// Whether there is a place at a listener for another whose host has yet to log in, as these have.
    pub(super) fn place(&self, listener: usize, new: &[usize], now: Instant) -> Place {
        match listener {
            CONTROL_SOCKET => Place::Free,
            _ => self.callers.place(new, now),
        }
    }

    /// Somebody is gone, and the place free.
    pub(super) fn leave(&mut self, id: usize) {
        self.callers.leave(id);
    }

    /// The session of an operator on a control connection, served by a node.
    pub(super) fn begin_operator(
        &self,
        stream: Stream,
        peer: String,
        node: usize,
    ) -> Box<dyn Session> {
        let door = Door { operator: true, ..Door::default() };
        let memory = Use::new(&self.memory);
        let (portals, elsewhere) = (Vec::new(), Vec::new());
        let (volume, watch) = (None, None);
        let arrival =
            Arrival { stream, peer, node, memory, portals, elsewhere, door, volume, watch };
        Listen::native_unix("").begin(arrival)
    }

    /// The session of a host that came in at a listener, served by a node; and where other processes serve hosts.
    pub(super) fn begin(
        &self,
        (listener, stream, watch): (usize, Stream, Watch),
        peer: String,
        node: usize,
        elsewhere: Vec<(NodeId, String)>,
    ) -> Result<Box<dyn Session>> {
        let at = &self.listeners[listener].at;
        let portals = self.portals(at, stream.local_address());
        let door = Door {
            tls: self.keeper.config()?,
            required: at.asks_for_proof(&self.doors),
            own: self.own.clone(),
            in_front: false,
            operator: false,
        };
        let memory = Use::new(&self.memory);
        let (volume, watch) = (None, Some(watch));
        let arrival =
            Arrival { stream, peer, node, memory, portals, elsewhere, door, volume, watch };
        Ok(at.begin(arrival))
    }
}
