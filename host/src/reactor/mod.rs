//! The loop that everything runs in, on one thread.
//!
//! All nodes of the process, the authority, every connection and every disk are served by
//! one thread. To wake another core costs more than a node takes to handle a message, and
//! a small write passes through four nodes: fewer hand-overs beat more threads. It also
//! means that there are no locks, and that the nodes see what the simulation shows them,
//! one input after the other.
//!
//! A round goes: read what has come from hosts; turn the nodes' crank until nothing is left
//! ([`Engine::run`]); write the answers; and only then what can wait. In particular the
//! nodes' [`Timer::Soon`](weft_core::node::Timer::Soon) fires when there is nothing better
//! to do, rather than a millisecond later: the hosts have their answers by then, so that
//! the housekeeping is on nobody's path.
//!
//! - this file: the round
//! - [`events`]: waiting for something to happen
//! - [`accept`]: connections coming in; [`acceptor`] has the sockets that are listened at
//! - [`attach`]: which hosts are let in
//! - [`hosts`]: what hosts ask and are told
//! - [`controls`]: control connections
//! - [`leftovers`]: volumes that nobody finishes making or deleting
//! - [`stop`]: the end

mod accept;
mod acceptor;
mod attach;
mod controls;
mod events;
mod hosts;
mod leftovers;
mod stop;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::cluster::Admission;
use crate::control::connection::ControlConnection;
use crate::control::offers::Offers;
use crate::control::peer_status::PeerStatus;
use crate::control_client::control_path;
use crate::disk::emulated::Emulation;
use crate::engine::{Engine, Rule};
use crate::error::{Error, Result};
use crate::hosts::arrivals::Arrivals;
use crate::hosts::requests::Requests;
use crate::limits::Limits;
use crate::log::{Log, Sparing};
use crate::sessions::connections::Connections;
use crate::sessions::link::End;
use crate::sessions::listen::Listen;
use crate::sessions::numbered::NumberedHosts;
use crate::sessions::{Said, Session};

use leftovers::LeftOver;

pub use stop::Stopped;
pub(crate) use stop::Stopper;

use acceptor::Acceptor;
use stop::Ending;

/// How long hosts wait for a cluster whose nodes have not all come.
const GATHERING: Duration = Duration::from_secs(30);

/// How often one looks around: how fast nodes catch up, and what is left over.
const LOOKS: Duration = Duration::from_millis(200);

const WAKER: Token = Token(0);
const RING: Token = Token(1);
const SIGNALS: Token = Token(2);
const EMULATED: Token = Token(3);
const CONTROL: usize = 4;
const CONNECTIONS: usize = 1 << 16;

/// The first of the tokens of connections to other processes; there are never so many hosts.
pub(crate) const PEERS: Token = Token(1 << 48);

/// Everything that runs.
pub(crate) struct Reactor {
    poll: Poll,
    events: Events,
    engine: Engine,
    requests: Requests,
    numbered: NumberedHosts,
    arrivals: Arrivals,
    offers: Offers,
    peer_status: PeerStatus,
    admission: Option<Admission>,
    /// The names of the volumes that hosts can use here, if not all.
    serves: Option<BTreeSet<String>>,
    /// Hosts wait for the node of this process to take part again.
    away: bool,
    /// Where connections come in. Hosts are let in once the nodes agree on a map.
    acceptor: Acceptor,
    hosts: Connections,
    controls: HashMap<usize, ControlConnection>,
    next_connection: usize,
    next_node: usize,
    /// Room for what a host says.
    said: Vec<Said>,
    started: Instant,
    /// When it was last looked how fast nodes catch up, and for what is left over.
    looked: Instant,
    left_over: LeftOver,
    ending: Ending,
    log: Log,
    /// The log for what strangers may cause as often as they like.
    complaints: Arc<Sparing>,
}

impl Reactor {
    /// A reactor for nodes under this rule, that listens but does not run yet. If the rule has
    /// connections to other processes they are in `poll`, from [`PEERS`] on.
    pub(crate) fn new(poll: Poll, rule: Rule, listens: &[Listen], log: Log) -> Result<Reactor> {
        let control = Listen::unix(control_path(rule.dir()));
        let acceptor = Acceptor::bind(&control, listens)?;
        let cannot = |e: io::Error| Error(format!("cannot wait for events: {e}"));
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(cannot)?);
        let complaints = Arc::new(Sparing::new(log.clone()));
        let admission = match rule.together() {
            Some(together) => {
                let complaints = complaints.clone();
                Admission::start(together.home(), waker.clone(), log.clone(), complaints)?
            }
            None => None,
        };
        let mut reactor = Reactor {
            poll,
            events: Events::with_capacity(256),
            engine: Engine::new(rule, log.clone()),
            requests: Requests::default(),
            numbered: NumberedHosts::default(),
            arrivals: Arrivals::default(),
            offers: Offers::default(),
            peer_status: PeerStatus::default(),
            admission,
            serves: None,
            away: false,
            acceptor,
            hosts: Connections::new(Limits::default()),
            controls: HashMap::new(),
            next_connection: CONNECTIONS,
            next_node: 0,
            said: Vec::new(),
            started: Instant::now(),
            looked: Instant::now(),
            left_over: LeftOver::default(),
            ending: Ending::new(waker),
            log,
            complaints,
        };
        if let Some(fd) = reactor.engine.ring_fd() {
            reactor.watch(fd, RING).map_err(cannot)?;
        }
        reactor.acceptor.watch_control(reactor.poll.registry()).map_err(cannot)?;
        Ok(reactor)
    }

    /// Has the nodes' disks take as long as others.
    pub(crate) fn emulate(&mut self, emulation: Emulation) -> Result<()> {
        let timer = self.engine.emulate(emulation)?;
        self.watch(timer, EMULATED).map_err(|e| Error(format!("cannot wait for a timer: {e}")))
    }

    /// Lets hosts take so much.
    pub(crate) fn limit(&mut self, limits: Limits) {
        assert!(!self.acceptor.is_open(), "hosts are let in when it runs");
        self.acceptor.limit(limits);
        self.hosts = Connections::new(limits);
    }

    /// Serves these volumes and no others.
    pub(crate) fn serve_only(&mut self, volumes: BTreeSet<String>) {
        self.serves = Some(volumes);
    }

    /// Where hosts can connect, as URIs.
    pub(crate) fn listens(&self) -> &[String] {
        self.acceptor.addresses()
    }

    /// What stops it.
    pub(crate) fn stopper(&self) -> Stopper {
        self.ending.stopper().clone()
    }

    /// Stops when `fd` becomes readable and the stopper's flag is set: for signals.
    pub(crate) fn watch_signals(&mut self, fd: RawFd) -> Result<Arc<AtomicBool>> {
        self.watch(fd, SIGNALS).map_err(|e| Error(format!("cannot wait for signals: {e}")))?;
        Ok(self.ending.stopper().flag())
    }

    fn watch(&mut self, fd: RawFd, token: Token) -> io::Result<()> {
        self.poll.registry().register(&mut SourceFd(&fd), token, Interest::READABLE)
    }

    /// Runs until it is stopped, and says how that went.
    pub(crate) fn run(mut self) -> Result<Stopped> {
        self.engine.start_all();
        loop {
            self.round()?;
            if self.has_stopped() {
                return Ok(self.farewell());
            }
            self.wait().map_err(|e| Error(format!("cannot wait for events: {e}")))?;
        }
    }

    fn round(&mut self) -> Result<()> {
        self.engine.fire_due();
        self.do_due();
        self.receive();
        // What a control connection asks for may come about at once, and nothing else
        // would make us look again.
        loop {
            let finished = self.turn();
            self.take_peer_events();
            let progress = self.step_controls() | self.step_arrivals();
            if !finished {
                break;
            }
            if !progress && !self.engine.has_work() && !self.engine.has_answers() {
                break;
            }
        }
        self.send();
        self.look_around();
        self.tell_status();
        self.open_listeners()?;
        match self.engine.fatal.take() {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    /// Turns the nodes' crank and hands out the answers, until nothing is left, or until it
    /// has taken long enough. Says whether nothing is left.
    fn turn(&mut self) -> bool {
        loop {
            let finished = self.engine.run();
            if self.away && !self.engine.hosts_wait() {
                self.come_back();
            }
            for node in std::mem::take(&mut self.engine.stopped) {
                self.node_stopped(node);
            }
            let answers = self.engine.take_answers();
            if answers.is_empty() && !self.engine.has_work() {
                return true;
            }
            for answer in answers {
                if let Some(finished) = self.requests.finish(&mut self.engine, answer) {
                    self.hand_out(finished);
                }
            }
            if !finished {
                return false;
            }
        }
    }

    /// Looks now and then how fast nodes catch up, and for what is left over.
    fn look_around(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.looked) >= LOOKS {
            self.looked = now;
            self.engine.instances.iter_mut().for_each(|instance| instance.look_at_pace(now));
            self.delete_what_is_left_over(now);
            self.complaints.sum_up(now);
        }
        self.end_patience(now);
    }

    /// What a node had in work goes to another of this process. If there is none, hosts must
    /// look for another process: their connections end, so that nothing is refused that
    /// another node would do. Those of a host that is its own controller wait for its node.
    fn node_stopped(&mut self, node: usize) {
        if self.engine.rule.together().is_none() || self.engine.originator(0).is_some() {
            return self.requests.move_from(&mut self.engine, node);
        }
        self.away = self.engine.hosts_wait();
        // What is still to be read of a host that names its requests it may have asked elsewhere by now. It
        // comes again, and is told.
        let away = self.away;
        self.hang_up_all(|s| !away || s.is_numbered());
        self.requests.move_from(&mut self.engine, node);
    }

    /// The node that hosts waited for takes part again, or will not. A volume that takes one writer
    /// may have got another in the meantime.
    fn come_back(&mut self) {
        self.away = false;
        let (map, gone) = (self.engine.map().clone(), self.engine.originator(0).is_none());
        let alone = |s: &dyn Session| {
            s.volume().is_some_and(|v| map.volumes.get(&v).is_none_or(|v| v.takes_one_writer()))
        };
        self.hang_up_all(|s| gone || alone(s));
        self.requests.resume(&mut self.engine);
    }

    fn hang_up_all(&mut self, which: impl Fn(&dyn Session) -> bool) {
        for id in self.hosts.such(which) {
            self.hang_up(id, End::Closed);
        }
    }

    /// Lets hosts in once the nodes agree. In a cluster nodes come one after the other: hosts
    /// shall not be refused what there is for want of some patience.
    fn open_listeners(&mut self) -> Result<()> {
        if self.acceptor.is_open() || self.ending.is_on() || !self.engine.is_settled() {
            return Ok(());
        }
        let map = self.engine.map();
        let awake = map.volumes.values().all(|v| !map.lacks_nodes(v));
        let patient = self.started.elapsed() < GATHERING;
        if self.engine.rule.together().is_some() && !awake && patient {
            return Ok(());
        }
        let opened = self.acceptor.open(self.poll.registry());
        opened.map_err(|e| Error(format!("cannot wait for connections: {e}")))?;
        self.listens().iter().for_each(|at| (self.log)(&format!("listening at {at}")));
        Ok(())
    }
}
