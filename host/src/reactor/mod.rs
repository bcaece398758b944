//! The loop that everything runs in, on one thread.
//!
//! The authority, every connection and the nodes of the first lane are served by one thread. With one lane that is
//! all. To wake another core costs more than a node takes to handle a message, and a small write passes through
//! four nodes: so this thread also runs the nodes of other lanes while those rest ([`Engine`] has them). What goes
//! out goes out here, so requests and links need no locks.
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
//! - [`controls`]: control connections
//! - [`housekeeping`]: periodic work
//! - [`orphans`]: volumes whose creation or deletion was interrupted
//! - [`schedules`]: snapshots that are taken and deleted without an operator
//! - [`stop`]: the end
//!
//! What hosts ask and are told is in [`hosts`](crate::hosts).

mod accept;
mod acceptor;
mod controls;
mod events;
mod housekeeping;
mod orphans;
mod schedules;
mod starved;
mod stop;
mod upkeep;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use mio::{Poll, Waker};
use weft_bytes::memory::Pool;

use crate::cluster::Admission;
use crate::control::connections::Controls;
use crate::control::peer_status::PeerStatus;
use crate::control_client::control_path;
use crate::disk::emulated::Emulation;
use crate::disk::uring::is_newly_short_of_threads;
use crate::disk_timeout::DiskTimeout;
use crate::doors::Doors;
use crate::doors::book::Book;
use crate::doors::keeper::Keeper;
use crate::doors::vault::Vault;
use crate::engine::{Bell, Engine, Rule};
use crate::error::{Error, Result};
use crate::hosts::Hosts;
use crate::lanes::Lanes;
use crate::limits::Limits;
use crate::log::{About, Log, Sparing};
use crate::polling::{self, BusyPolling, Polling};
use crate::sessions::listen::Listen;
use crate::slow_disk_timeout::SlowDiskTimeout;

pub(crate) use events::PEERS;
pub use stop::Stopped;
pub(crate) use stop::Stopper;

use acceptor::Acceptor;
use events::{DISKS, EMULATED, Happened, Poller, SIGNALS};
use housekeeping::Housekeeping;
use starved::Starved;
use stop::Ending;

/// How soon it looks again for memory to give back, while there may be some.
const GIVES_BACK: Duration = Duration::from_millis(250);

/// Everything that runs.
pub(crate) struct Reactor {
    poller: Poller,
    engine: Engine,
    hosts: Hosts,
    /// Where connections come in. Hosts are let in once the nodes agree on a map.
    acceptor: Acceptor,
    controls: Controls,
    peer_status: PeerStatus,
    admission: Option<Admission>,
    housekeeping: Housekeeping,
    /// Whether the machine runs this process, and how much too long it slept last.
    starved: Starved,
    overslept: Duration,
    busy_polling: BusyPolling,
    polling: Polling,
    lanes: Lanes,
    /// What wakes it.
    waker: Arc<Waker>,
    ending: Ending,
    /// The log for what strangers may cause as often as they like.
    complaints: Arc<Sparing>,
    /// Who came in, and who was refused.
    book: Arc<Book>,
    /// The certificates by which hosts are served.
    keeper: Arc<Keeper>,
    /// The keys that secrets of hosts are sealed with.
    vault: Arc<Vault>,
}

impl Reactor {
    /// A reactor for nodes under this rule, that listens but does not run yet. If the rule has
    /// connections to other processes they are in `poll`, from [`PEERS`] on.
    pub(crate) fn new(poll: Poll, rule: Rule, listens: &[Listen], log: Log) -> Result<Reactor> {
        let control = Listen::unix(control_path(rule.dir()));
        let keeper = Arc::new(rule.keeper());
        let vault = Arc::new(rule.vault()?);
        let acceptor = Acceptor::bind(&control, listens, keeper.clone())?;
        let cannot = |e: io::Error| Error(format!("cannot wait for events: {e}"));
        let poller = Poller::new(poll);
        let waker = Arc::new(poller.waker().map_err(cannot)?);
        let complaints = Arc::new(Sparing::new(log.clone(), "connections"));
        let admission = match rule.together() {
            Some(together) => {
                let complaints = complaints.clone();
                Admission::start(together.home(), waker.clone(), log.clone(), complaints)?
            }
            None => None,
        };
        let wakes = waker.clone();
        // If it cannot be woken it is gone already.
        vault.wakes(Box::new(move || drop(wakes.wake())));
        let book = Book::new(log.clone());
        let mut hosts = Hosts::new(complaints.clone(), book.clone(), log.clone());
        hosts.open_secrets_with(vault.clone());
        let mut reactor = Reactor {
            poller,
            engine: Engine::new(rule, log)?,
            hosts,
            acceptor,
            controls: Controls::default(),
            peer_status: PeerStatus::default(),
            admission,
            housekeeping: Housekeeping::new(),
            starved: Starved::new(Instant::now()),
            overslept: Duration::ZERO,
            busy_polling: BusyPolling::new(Polling::default()),
            polling: Polling::default(),
            lanes: Lanes::default(),
            ending: Ending::new(waker.clone()),
            waker,
            complaints,
            book,
            keeper,
            vault,
        };
        for fd in reactor.engine.disk_fds() {
            reactor.poller.watch(fd, DISKS).map_err(cannot)?;
        }
        reactor.acceptor.watch_control(reactor.poller.registry()).map_err(cannot)?;
        Ok(reactor)
    }

    /// Has the nodes' disks take as long as others.
    pub(crate) fn emulate(&mut self, emulation: Emulation) -> Result<()> {
        let timer = self.engine.emulate(emulation)?;
        let watched = self.poller.watch(timer, EMULATED);
        watched.map_err(|e| Error(format!("cannot wait for a timer: {e}")))
    }

    /// Lets hosts take so much.
    pub(crate) fn limit(&mut self, limits: Limits) {
        assert!(!self.acceptor.is_open(), "hosts are accepted once it runs");
        self.acceptor.limit(limits);
        self.hosts.limit(limits);
    }

    /// Keeps the doors for hosts like this.
    pub(crate) fn keep_doors(&mut self, doors: &Doors, own: Option<String>) -> Result<()> {
        self.acceptor.keep_doors(doors, own)?;
        self.keeper.serve(doors.tls, self.acceptor.ips())
    }

    /// Has hosts told these addresses, instead of those at which their protocols are spoken.
    pub(crate) fn announce(&mut self, addresses: Vec<Listen>) {
        self.acceptor.announce(addresses);
    }

    /// Looks for input for a while before it sleeps, or not.
    pub(crate) fn poll(&mut self, polling: Polling) {
        self.busy_polling = BusyPolling::new(polling);
        self.polling = polling;
    }

    /// Has so many threads run the nodes.
    pub(crate) fn lanes(&mut self, lanes: Lanes) {
        self.lanes = lanes;
    }

    /// Takes out nodes whose disks are busy with one operation for longer than this.
    pub(crate) fn time_out_disks(&mut self, timeout: DiskTimeout) {
        self.engine.disk_timeout = timeout;
    }

    /// Takes out nodes whose disks are slow for longer than this.
    pub(crate) fn time_out_slow_disks(&mut self, after: SlowDiskTimeout) {
        self.engine.slow_disk_timeout = after;
    }

    /// Serves these volumes and no others.
    pub(crate) fn serve_only(&mut self, volumes: BTreeSet<String>) {
        self.hosts.serve_only(volumes);
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
        let watched = self.poller.watch(fd, SIGNALS);
        watched.map_err(|e| Error(format!("cannot wait for signals: {e}")))?;
        Ok(self.ending.stopper().flag())
    }

    /// Runs until it is stopped, and says how that went.
    pub(crate) fn run(mut self) -> Result<Stopped> {
        self.engine.start_lanes(self.lanes, Bell::of(&self.waker), self.polling)?;
        self.engine.start_all();
        loop {
            self.round()?;
            if self.has_stopped() {
                return Ok(self.farewell());
            }
            self.wait().map_err(|e| Error(format!("cannot wait for events: {e}")))?;
            let overslept = std::mem::take(&mut self.overslept);
            if let Some(line) = self.starved.look(Instant::now(), overslept) {
                self.engine.log.warn(&line);
            }
        }
    }

    fn round(&mut self) -> Result<()> {
        self.engine.fire_due();
        self.hosts.do_due(&mut self.engine);
        self.hosts.judge_claims(&self.engine);
        self.hosts.begin_what_waited(&mut self.engine, self.ending.is_on());
        self.hosts.receive(&mut self.engine);
        // What a control connection asks for may come about at once, and nothing else
        // would make us look again.
        loop {
            let finished = self.turn();
            self.take_peer_events();
            self.ask_for_reservations();
            let progress = self.step_controls()
                | self.step_arrivals()
                | self.hosts.step_reservings(&self.engine);
            if !finished {
                break;
            }
            if !progress && !self.engine.has_work() && !self.engine.has_answers() {
                break;
            }
        }
        self.hosts.send(&mut self.engine);
        self.look_around();
        self.tell_status();
        self.open_listeners()?;
        match self.engine.fatal.take() {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    fn step_arrivals(&mut self) -> bool {
        self.hosts.step_arrivals(&mut self.engine, || self.poller.number())
    }

    /// Turns the nodes' crank and hands out the answers, until nothing is left, or until it
    /// has taken long enough. Says whether nothing is left.
    fn turn(&mut self) -> bool {
        loop {
            let finished = self.engine.run();
            self.hosts.look_for_node(&mut self.engine);
            for node in std::mem::take(&mut self.engine.stopped) {
                self.hosts.node_stopped(&mut self.engine, node);
            }
            let answers = self.engine.take_answers();
            if answers.is_empty() && !self.engine.has_work() {
                return true;
            }
            for answer in answers {
                if let Some(commanded) = self.hosts.finish(&mut self.engine, answer) {
                    self.commanded(commanded);
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
        if self.housekeeping.is_time(now) {
            self.engine.look_at_pace(now);
            self.finish_orphans(now);
            self.forget_what_was_deleted(now);
            self.keep_schedules();
            self.hosts.look_around(&self.engine, now);
            self.complaints.sum_up(now);
            Pool::of_process().give_back_unused();
            self.book.sum_up(now);
            if is_newly_short_of_threads() {
                self.engine.log.warn(
                    "the kernel cannot create threads for disk operations, so they use plain system calls and are slower: raise the limit \
                     of processes (`ulimit -u`, `LimitNPROC=`, `pids.max`)",
                );
            }
        }
        self.hosts.keep_rights(&mut self.engine);
        self.hosts.ask_for_keys(&self.engine, || self.poller.number());
        self.hosts.look_at_disks(&mut self.engine);
        self.hosts.keep_promises(&mut self.engine, now);
        self.hosts.end_patience(&mut self.engine, now);
    }

    /// Lets hosts in once the nodes agree. In a cluster nodes come one after the other: hosts
    /// shall not be refused what there is for want of some patience.
    fn open_listeners(&mut self) -> Result<()> {
        if self.acceptor.is_open() || self.ending.is_on() || !self.engine.is_settled() {
            return Ok(());
        }
        let map = self.engine.map();
        let awake = map.volumes.values().all(|v| !map.lacks_nodes(v));
        let patient = self.housekeeping.is_gathering();
        if self.engine.rule.together().is_some() && !awake && patient {
            return Ok(());
        }
        let opened = self.acceptor.open(self.poller.registry());
        opened.map_err(|e| Error(format!("cannot wait for connections: {e}")))?;
        let exports = self.engine.exports();
        for at in self.listens() {
            self.engine.log.info(&format!("listening at {at}"));
            if let Some(volume) = volume_at(at).filter(|name| exports.named(name).is_none()) {
                let text = format!(
                    "there is no volume '{volume}', so hosts are refused at {at} until it is created"
                );
                self.engine.log.on(About::volume(volume)).warn(&text);
            }
        }
        Ok(())
    }

    /// Waits until something happens. What nodes have put off comes before idling.
    fn wait(&mut self) -> io::Result<()> {
        self.engine.rest();
        let busy =
            self.engine.has_work() || self.engine.has_answers() || self.hosts.has_to_receive();
        let soon = !busy && self.engine.has_soon();
        match busy || soon {
            true => {
                if !self.poller.wait(Some(Duration::ZERO))? && soon {
                    self.engine.fire_soon();
                }
            }
            false => self.idle()?,
        }
        self.take_events();
        Ok(())
    }

    /// Waits until something happens, though it be long: looks again for a while, if that pays, and sleeps.
    fn idle(&mut self) -> io::Result<()> {
        let (began, longest) = (Instant::now(), self.idle_time());
        let mut came = false;
        if longest.is_none_or(|longest| longest > polling::LONGEST) && self.busy_polling.pays(began)
        {
            while !came && began.elapsed() < polling::LONGEST {
                came = self.poller.wait(Some(Duration::ZERO))? || self.engine.has_mail();
            }
        }
        let nanos = longest.map(|longest| longest.as_nanos() as u64);
        let sleeps = !came && self.engine.may_sleep(nanos);
        if sleeps {
            let slept = Instant::now();
            self.poller.wait(longest)?;
            self.overslept = slept.elapsed().saturating_sub(longest.unwrap_or(Duration::MAX));
        }
        self.busy_polling.waited(began.elapsed(), sleeps);
        Ok(())
    }

    fn idle_time(&mut self) -> Option<Duration> {
        let due = self.engine.next_due().map(Duration::from_nanos);
        let threads = self.engine.lanes() > 1;
        // While stopping there is a time limit to look at.
        let look = self.ending.is_on().then_some(Duration::from_millis(20));
        let others = [
            self.acceptor.due(),
            self.hosts.due(),
            self.complaints_due(),
            Pool::of_process().keeps_any().then_some(GIVES_BACK),
            self.book.due(),
            self.controls.due(threads),
        ];
        due.into_iter().chain(look).chain(others.into_iter().flatten()).min()
    }

    fn take_events(&mut self) {
        self.hosts.look();
        for happened in self.poller.happened() {
            match happened {
                Happened::Peer(event) => self.engine.peer_is_ready(event),
                Happened::Connection { id, ready } => {
                    if !self.hosts.ready(id, ready) && ready.readable {
                        self.controls.receive(id);
                    }
                }
                Happened::Caller(listener) => self.acceptor.somebody_waits(listener),
            }
        }
        self.accept_all();
    }
}

/// The volume that is named in the address of a listener.
fn volume_at(uri: &str) -> Option<&str> {
    let (_, place) = uri.split_once("+unix:///")?;
    let (volume, _) = place.split_once("?socket=")?;
    Some(volume).filter(|volume| !volume.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_a_volume() {
        let volume = |listen: &str| {
            let uri = listen.parse::<Listen>().unwrap().to_string();
            volume_at(&uri).map(str::to_string)
        };
        assert_eq!(volume("vhost-user:/a/vm.sock=data@s").as_deref(), Some("data@s"));
        assert_eq!(volume("vhost-user:/a/vm.sock"), None);
        assert_eq!(volume("/a/nbd.sock"), None);
        assert_eq!(volume("127.0.0.1:10809"), None);
    }
}
