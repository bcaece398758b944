//! Hosts: what they ask and are told, their requests while nodes work on them, and who is let in.
//!
//! Which protocol a host speaks is not known here: that is for [`sessions`](crate::sessions).
//!
//! | module | what is in it |
//! |---|---|
//! | this file | all that is known of hosts, and what the loop has done with it |
//! | [`attach`] | which hosts are let in |
//! | [`rights`] | what they may do while they are in |
//! | [`exchange`] | what hosts ask, and what they are told |
//! | [`arrivals`] | hosts that wait until other processes agree |
//! | [`proofs`] | hosts that prove by CHAP who they are |
//! | [`course`], [`latency`] | how long requests take, and where their time goes |
//! | [`held`] | requests that wait for the limits of their volumes |
//! | [`reserving`], [`pace`] | changes of reservations that hosts ask for, and how often they are made |
//! | [`resets`] | which requests came before their volume was reset |
//! | [`requests`], [`overlap`], [`queue`] | requests that nodes work on, and which must wait for others |

pub(crate) mod arrivals;
mod attach;
mod course;
mod exchange;
mod held;
mod latency;
mod overlap;
mod pace;
pub(crate) mod promises;
mod proofs;
mod queue;
pub(crate) mod requests;
pub(crate) mod reserving;
mod resets;
mod rights;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_core::node::{HostData, HostError};
use weft_core::order::HostId;
use weft_core::units::{Epoch, NodeId, VolumeId};

use arrivals::Arrivals;
use held::AllHeld;
use latency::Latencies;
use promises::Promises;
use proofs::Proofs;
use requests::{Job, Owner, Requests};
use reserving::Reservings;

use crate::doors::book::Book;
use crate::engine::Engine;
use crate::holder::Holder;
use crate::limits::Limits;
use crate::log::{Log, Sparing};
use crate::sessions::connections::Connections;
use crate::sessions::link::End;
use crate::sessions::numbered::{Departure, NumberedHosts};
use crate::sessions::{Parting, Said, Session};
use crate::socket::Ready;
use crate::status::VolumeLatency;

/// All hosts of this process.
pub(crate) struct Hosts {
    connections: Connections,
    numbered: NumberedHosts,
    arrivals: Arrivals,
    /// Claims of hosts that prove by CHAP who they are.
    proofs: Proofs,
    requests: Requests,
    /// Requests that wait for the limits of their volumes.
    held: AllHeld,
    reservings: Reservings,
    /// The names of the volumes that hosts can use here, if not all.
    serves: Option<BTreeSet<String>>,
    /// Hosts wait for the node of this process to take part again.
    away: bool,
    /// The node that serves the next host, if it takes requests.
    next_node: usize,
    /// Connections that have ended, until their places are free.
    ended: Vec<usize>,
    /// Room for what a host says.
    said: Vec<Said>,
    /// The process stops: only hosts are heard that are asked to leave within this time, and those that are sent elsewhere.
    stops: Option<Duration>,
    /// How many have been asked, and how many have been sent elsewhere.
    asked: usize,
    moved: usize,
    /// When the poll was looked at last.
    looked: Instant,
    /// How long their requests took lately.
    latencies: Latencies,
    /// Volumes that are promised how long requests take.
    promises: Promises,
    /// From when on a request is slow, if any is.
    slow: Option<Duration>,
    slow_ones: Sparing,
    slow_disks: Sparing,
    /// The log for what hosts may cause as often as they like.
    complaints: Arc<Sparing>,
    /// Who came in, and who was refused.
    book: Arc<Book>,
    /// The epoch of the map by which hosts' rights were looked at last.
    rights_of: Epoch,
}

/// What became of what a control connection had nodes do.
pub(crate) struct Commanded {
    pub(crate) conn: usize,
    pub(crate) result: Result<HostData, HostError>,
}

impl Hosts {
    /// None yet.
    pub(crate) fn new(complaints: Arc<Sparing>, book: Arc<Book>, log: Log) -> Hosts {
        Hosts {
            connections: Connections::new(Limits::default()),
            numbered: NumberedHosts::default(),
            arrivals: Arrivals::default(),
            proofs: Proofs::default(),
            requests: Requests::default(),
            held: AllHeld::new(),
            reservings: Reservings::default(),
            serves: None,
            away: false,
            next_node: 0,
            ended: Vec::new(),
            said: Vec::new(),
            stops: None,
            asked: 0,
            moved: 0,
            looked: Instant::now(),
            latencies: Latencies::default(),
            promises: Promises::default(),
            slow: Limits::default().slow,
            slow_ones: Sparing::new(log.clone(), "slow requests"),
            slow_disks: Sparing::new(log, "slow disk operations"),
            complaints,
            book,
            rights_of: 0,
        }
    }

    /// Lets them take so much; before the first comes.
    pub(crate) fn limit(&mut self, limits: Limits) {
        self.connections = Connections::new(limits);
        self.slow = limits.slow;
    }

    /// Those that are connected, each with the volume that it uses, if it has chosen one.
    pub(crate) fn connected(&self) -> impl Iterator<Item = &dyn Session> {
        self.connections.all().into_iter()
    }

    /// The connections whose hosts have yet to log in.
    pub(crate) fn new_ones(&self) -> Vec<usize> {
        self.connections.such(|session| session.is_new())
    }

    /// A connection whose host has not logged in ends, since others wait for its place.
    pub(crate) fn give_way(&mut self, engine: &mut Engine, id: usize) {
        let Some(peer) = self.connections.get(id).map(|s| s.peer().to_string()) else { return };
        let why =
            format!("connection of {peer}: it has not logged in, and others wait for its place");
        self.hang_up(engine, id, End::Failed(why));
    }

    /// How long requests to a volume took lately, if there were any.
    pub(crate) fn latency(&mut self, volume: VolumeId) -> Option<VolumeLatency> {
        self.latencies.of(volume, Instant::now())
    }

    /// Has these volumes for them and no others.
    pub(crate) fn serve_only(&mut self, volumes: BTreeSet<String>) {
        self.serves = Some(volumes);
    }

    /// The node that serves one who comes in now. If there is none, another process can serve it.
    pub(crate) fn next_node(&mut self, engine: &Engine) -> Option<usize> {
        let originator = engine.originator(self.next_node);
        if originator.is_none() && engine.rule.together().is_some() {
            return None;
        }
        let node = originator.unwrap_or(0);
        self.next_node = (node + 1) % engine.instances.len();
        Some(node)
    }

    /// A connection has come in.
    pub(crate) fn add(&mut self, id: usize, mut session: Box<dyn Session>) {
        if let Some(within) = self.stops {
            session.part(Parting::Asked(within));
        }
        self.connections.add(id, session);
    }

    /// The poll is looked at now.
    pub(crate) fn look(&mut self) {
        self.looked = Instant::now();
    }

    /// Takes note of what the poll says. Says whether there is such a connection.
    pub(crate) fn ready(&mut self, id: usize, ready: Ready) -> bool {
        self.connections.ready(id, ready)
    }

    /// Whether any may have something to say.
    pub(crate) fn has_to_receive(&self) -> bool {
        self.connections.has_to_receive()
    }

    /// The process stops: hosts are asked to leave within a time, and others that come are sent elsewhere, if their
    /// protocols have words for that. Returns whether any has yet to leave.
    pub(crate) fn ask_to_leave(&mut self, within: Duration) -> bool {
        self.stops = Some(within);
        let stay = self.connections.ask_to_leave(within);
        self.asked = self.asked.max(stay);
        stay > 0
    }

    /// Whether as many have been sent elsewhere as were asked to leave.
    pub(crate) fn have_moved(&self) -> bool {
        self.moved >= self.asked
    }

    /// The process stops, and its hosts have left or had time enough. Those that have not are told that they are
    /// dropped, and are not heard any more.
    pub(crate) fn part(&mut self) {
        for id in self.connections.such(|_| true) {
            self.connections.part(id);
        }
    }

    /// How many use a volume.
    pub(crate) fn users_of(&self, volume: VolumeId) -> usize {
        self.connections.users_of(volume)
    }

    /// How many of their requests are not answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.requests.of_hosts().count() + self.held.count()
    }

    /// Takes the connections that have ended.
    pub(crate) fn take_ended(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.ended)
    }

    /// How long until something is to be done though nothing happens.
    pub(crate) fn due(&self) -> Option<Duration> {
        let numbered = self.numbered.next_due();
        let numbered = numbered.map(|at| at.saturating_duration_since(Instant::now()));
        let slow = self.slow_ones.due();
        let slow = slow.map(|at| at.saturating_duration_since(Instant::now()));
        let disks = self.slow_disks.due();
        let disks = disks.map(|at| at.saturating_duration_since(Instant::now()));
        let (arrivals, patience) = (self.arrivals.look_again(), self.connections.patience_due());
        let proofs = self.proofs.due(Instant::now());
        let reservings = self.reservings.due();
        let others = [arrivals, patience, slow, disks, self.held.due(), proofs, reservings];
        numbered.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// What a node had in work goes to another of this process. If there is none, hosts must
    /// look for another process: their connections end, so that nothing is refused that
    /// another node would do. Those of a host that is its own controller wait for its node.
    pub(crate) fn node_stopped(&mut self, engine: &mut Engine, node: usize) {
        if engine.rule.together().is_none() || engine.originator(0).is_some() {
            return self.requests.move_from(engine, node);
        }
        self.away = engine.hosts_wait();
        // What is still to be read of a host that names its requests it may have asked elsewhere by now. It
        // comes again, and is told.
        let away = self.away;
        self.hang_up_all(engine, |s| !away || s.is_numbered());
        self.requests.move_from(engine, node);
    }

    /// The node that hosts waited for takes part again, or will not, if it is so. A volume that takes one
    /// writer may have got another in the meantime.
    pub(crate) fn look_for_node(&mut self, engine: &mut Engine) {
        if !self.away || engine.hosts_wait() {
            return;
        }
        self.away = false;
        let (map, gone) = (engine.map().clone(), engine.originator(0).is_none());
        let alone = |s: &dyn Session| {
            s.volume().is_some_and(|v| map.volumes.get(&v).is_none_or(|v| v.takes_one_writer()))
        };
        self.hang_up_all(engine, |s| gone || alone(s));
        self.requests.resume(engine);
    }

    /// An operator ends the connections of such hosts. Returns how many there were.
    pub(crate) fn disconnect(
        &mut self,
        engine: &mut Engine,
        which: impl Fn(&dyn Session) -> bool,
    ) -> usize {
        let ids = self.connections.such(which);
        for id in &ids {
            let peer = self.connections.get(*id).map_or("", |s| s.peer());
            engine
                .log
                .info(&format!("the connection of {peer} is closed at an operator's request"));
            self.let_go(engine, *id);
        }
        ids.len()
    }

    fn hang_up_all(&mut self, engine: &mut Engine, which: impl Fn(&dyn Session) -> bool) {
        for id in self.connections.such(which) {
            self.let_go(engine, id);
        }
    }

    /// This process closes a connection, and its host is told so.
    pub(super) fn let_go(&mut self, engine: &mut Engine, id: usize) {
        self.connections.part(id);
        self.hang_up(engine, id, End::Closed);
    }

    /// Another process has answered a question; perhaps one about a host that waits to be let in.
    pub(crate) fn answered(&mut self, process: NodeId, number: u64, answer: &[u8], log: &Log) {
        self.arrivals.answered(process, number, answer);
        self.proofs.answered(process, number, answer, log);
    }

    /// The connection to a process broke: what it was asked about hosts is to be asked again.
    pub(crate) fn lose_process(&mut self, process: NodeId) {
        self.arrivals.lose(process);
    }

    /// Whether a host's number is another's here.
    pub(crate) fn is_anothers(&mut self, host: HostId, holder: &Holder) -> bool {
        self.numbered.is_anothers(host, holder, Instant::now())
    }

    /// A host that numbers its requests is to leave: it is at another process now, or does not keep to the rules.
    pub(crate) fn send_away(&mut self, engine: &mut Engine, host: HostId) {
        if let Some(conn) = self.numbered.conn(host) {
            self.hang_up(engine, conn, End::Closed);
        }
    }

    /// Which stay of a host at this process is the latest.
    pub(crate) fn stay(&self, host: HostId) -> u64 {
        self.numbered.stay(host)
    }

    /// What became of a host that was sent away during this stay.
    pub(crate) fn take_leave(&mut self, host: HostId, stay: u64) -> Departure {
        self.numbered.take_leave(host, stay)
    }

    /// How many stand in the way of one that wants a volume for itself at the process `asker`; this is `us`.
    pub(crate) fn writers(&mut self, volume: VolumeId, asker: NodeId, us: NodeId) -> usize {
        match self.users_of(volume) {
            0 => self.arrivals.writers(volume, asker, us),
            n => n,
        }
    }

    /// Has nodes do what a control connection asks for, in its turn among what hosts ask.
    pub(crate) fn command(&mut self, engine: &mut Engine, conn: usize, job: Job) {
        self.requests.submit(engine, Owner::Control { conn }, 0, job);
    }

    /// A control connection is over, and with it what it had nodes do.
    pub(crate) fn forget(&mut self, engine: &mut Engine, conn: usize) {
        self.requests.forget(engine, conn);
    }
}
