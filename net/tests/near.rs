//! Processes of one machine, which go on over a Unix socket.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{Cluster, KIND, PATIENCE};
use mio::{Events, Poll, Token};
use tempfile::TempDir;
use weft_core::units::NodeId;
use weft_net::frame;
use weft_net::transport::{
    Config, Driver, Event, Local, Machine, Note, Over, Reached, SOCKET, Transport,
};

/// A node that this thread turns.
struct Turned {
    transport: Transport,
    driver: Driver,
    poll: Poll,
    log: Receiver<String>,
    /// How often each peer came up and went down.
    ups: BTreeMap<u16, u32>,
    downs: u32,
    /// How many numbered frames came, one after the other, and were sent.
    came: u32,
    sent: u32,
}

impl Turned {
    fn start(config: Config) -> Turned {
        let poll = Poll::new().unwrap();
        let (said, log) = channel();
        let note = move |n: &Note| drop(said.send(n.to_string()));
        let (transport, driver) =
            Transport::with_driver(config, poll.registry(), Token(0), note).unwrap();
        let ups = BTreeMap::new();
        Turned { transport, driver, poll, log, ups, downs: 0, came: 0, sent: 0 }
    }

    fn address(&self) -> SocketAddr {
        self.transport.local_address().unwrap()
    }

    fn turn(&mut self) {
        let mut events = Events::with_capacity(64);
        self.poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        events.iter().for_each(|e| self.driver.ready(e));
        self.driver.turn();
        while let Some(event) = self.transport.next_event() {
            match event {
                Event::Up { peer, .. } => *self.ups.entry(peer.0).or_default() += 1,
                Event::Down { .. } => {
                    self.downs += 1;
                    (self.came, self.sent) = (0, 0);
                }
                Event::Received { frame, .. } => {
                    let number = u32::from_le_bytes(frame.payload[..4].try_into().unwrap());
                    assert_eq!(number, self.came, "each once and in order");
                    self.came += 1;
                }
                Event::Room { .. } => {}
                Event::Stopped { why } => panic!("{why}"),
            }
        }
    }

    /// Sends the next numbered frame.
    fn send(&mut self, to: u16) {
        let payload = [&self.sent.to_le_bytes()[..], &[7; 3000]].concat();
        if self.transport.send(NodeId(to), KIND, vec![payload.into()]).is_ok() {
            self.sent += 1;
        }
    }

    fn over(&self) -> Option<Over> {
        match self.driver.reach().first()?.by {
            Reached::Direct(over) => Some(over),
            Reached::Through(_) => None,
        }
    }
}

struct Pair {
    cluster: Cluster,
    dirs: [TempDir; 2],
    nodes: Vec<Turned>,
}

fn local(dir: &Path, machine: u128) -> Option<Local> {
    Some(Local { directory: dir.to_path_buf(), machine: Machine(machine) })
}

impl Pair {
    /// Two nodes on these machines; or by TLS in any case.
    fn on(machines: [Option<u128>; 2]) -> Pair {
        let cluster = Cluster::new(true, 2);
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut pair = Pair { cluster, dirs, nodes: Vec::new() };
        let mut addresses = Vec::new();
        for (n, machine) in machines.into_iter().enumerate() {
            let config = pair.config(n, machine, &addresses);
            pair.nodes.push(Turned::start(config));
            addresses.push(pair.nodes[n].address());
        }
        pair
    }

    fn config(&self, n: usize, machine: Option<u128>, addresses: &[SocketAddr]) -> Config {
        let local = machine.and_then(|m| local(self.dirs[n].path(), m));
        Config { local, ..self.cluster.config(n as u16, addresses) }
    }

    fn turn(&mut self) {
        self.nodes.iter_mut().for_each(Turned::turn);
        std::thread::sleep(Duration::from_micros(50));
    }

    /// Has both send until this is so.
    fn until(&mut self, what: &str, mut reached: impl FnMut(&mut Pair) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !reached(self) {
            assert!(Instant::now() < end, "{what}");
            let unheard = |p: &Pair, n: usize| p.nodes[n].sent.saturating_sub(p.nodes[1 - n].came);
            (0..2).for_each(|n| {
                if unheard(self, n) < 50 {
                    self.nodes[n].send(1 - n as u16)
                }
            });
            self.turn();
        }
    }

    fn until_both(&mut self, over: Over) {
        self.until("the way", |p| p.nodes.iter().all(|n| n.over() == Some(over)));
        self.hear(100);
    }

    /// Goes on for so many frames.
    fn hear(&mut self, frames: u32) {
        let goal: Vec<u32> = self.nodes.iter().map(|n| n.came + frames).collect();
        self.until("frames", |p| p.nodes.iter().zip(&goal).all(|(n, goal)| n.came >= *goal));
    }

    fn socket(&self) -> std::path::PathBuf {
        self.dirs[0].path().join(SOCKET)
    }
}

#[test]
fn a_session_moves_to_a_unix_socket_and_nothing_is_lost() {
    let mut pair = Pair::on([Some(5), Some(5)]);
    pair.until_both(Over::Unix);
    pair.hear(3000);
    for n in &pair.nodes {
        assert_eq!((n.downs, n.ups.values().sum::<u32>()), (0, 1));
        assert_eq!(n.log.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn other_machines_and_who_wants_tls_have_tls() {
    for machines in [[Some(5), Some(6)], [None, Some(5)], [Some(5), None]] {
        let mut pair = Pair::on(machines);
        pair.until_both(Over::Tls);
        let later = Instant::now() + Duration::from_millis(300);
        pair.until("time passes", |_| Instant::now() > later);
        pair.until_both(Over::Tls);
    }
}

#[test]
fn a_socket_that_cannot_be_reached_is_done_without_until_it_can() {
    let mut pair = Pair::on([Some(5), Some(5)]);
    // The path is nobody's here, as in a container with another file system.
    let aside = pair.dirs[0].path().join("aside");
    fs::rename(pair.socket(), &aside).unwrap();
    pair.until("an attempt", |p| p.nodes[1].log.try_iter().any(|l| l.contains(SOCKET)));
    pair.until_both(Over::Tls);
    // Then it is another process's, which is none of the cluster.
    let other = std::os::unix::net::UnixListener::bind(pair.socket()).unwrap();
    pair.until("another attempt", |_| {
        other.set_nonblocking(true).unwrap();
        other.accept().is_ok()
    });
    pair.until_both(Over::Tls);
    fs::rename(aside, pair.socket()).unwrap();
    pair.until_both(Over::Unix);
    assert_eq!(pair.nodes[1].log.try_iter().count(), 0, "it is said once");
    assert_eq!((pair.nodes[0].downs, pair.nodes[1].downs), (0, 0));
}

#[test]
fn a_process_that_starts_again_is_reached_by_a_unix_socket_again() {
    let mut pair = Pair::on([Some(5), Some(5)]);
    pair.until_both(Over::Unix);
    let address = pair.nodes[0].address();
    drop(pair.nodes.remove(0));
    // What one leaves that was killed.
    drop(std::os::unix::net::UnixListener::bind(pair.socket()).unwrap());
    let config = Config { listen: Some(address), ..pair.config(0, Some(5), &[]) };
    pair.nodes.insert(0, Turned::start(config));
    pair.until("up again", |p| p.nodes[1].ups[&0] == 2);
    assert_eq!(pair.nodes[1].downs, 1);
    pair.until_both(Over::Unix);
}

#[test]
fn one_that_answers_too_late_goes_on_over_the_first_connection() {
    let mut pair = Pair::on([Some(5), None]);
    let addresses = [pair.nodes[0].address()];
    let mut config = pair.config(1, Some(5), &addresses);
    config.limits.handshake = Duration::from_millis(400);
    pair.nodes[1] = Turned::start(config);
    pair.until("up", |p| p.nodes[1].over() == Some(Over::Tls));
    // It hears where the socket is and says hello there; the other is paused for longer than that may take.
    let end = Instant::now() + Duration::from_millis(900);
    while Instant::now() < end {
        pair.nodes[1].turn();
        std::thread::sleep(Duration::from_micros(100));
    }
    pair.hear(500);
    assert_eq!((pair.nodes[0].downs, pair.nodes[1].downs), (0, 0));
    pair.until_both(Over::Unix);
}

#[test]
fn one_that_is_stopped_and_takes_nothing_is_given_up() {
    let mut pair = Pair::on([Some(5), None]);
    let addresses = [pair.nodes[0].address()];
    let mut config = pair.config(1, Some(5), &addresses);
    config.limits.silence = Duration::from_millis(500);
    pair.nodes[1] = Turned::start(config);
    pair.until_both(Over::Unix);
    let end = Instant::now() + PATIENCE;
    while pair.nodes[1].downs == 0 {
        assert!(Instant::now() < end, "it is kept");
        (0..20).for_each(|_| pair.nodes[1].send(0));
        pair.nodes[1].turn();
        std::thread::sleep(Duration::from_millis(1));
    }
    pair.nodes[0].sent = 0;
    pair.until("up again", |p| p.nodes[1].ups[&0] == 2 && p.nodes[0].downs == 1);
    pair.until_both(Over::Unix);
}

/// Says hello over a Unix socket, and hears the answer.
fn hello(pair: &mut Pair, session: u64) -> Vec<u8> {
    let mut stream = UnixStream::connect(pair.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut payload = 42u128.to_le_bytes().to_vec();
    payload.extend(9u64.to_le_bytes());
    payload.extend(session.to_le_bytes());
    payload.extend(1u16.to_le_bytes());
    payload.extend([2]);
    payload.extend(b"n1");
    let payload = bytes::Bytes::from(payload);
    stream
        .write_all(&frame::header(1, std::slice::from_ref(&payload), frame::Way::Guarded))
        .unwrap();
    stream.write_all(&payload).unwrap();
    let mut answer = vec![0; 200];
    let len = loop {
        pair.turn();
        if let Ok(n) = stream.read(&mut answer) {
            break n;
        }
    };
    answer.truncate(len);
    answer
}

#[test]
fn a_unix_socket_begins_no_session() {
    let mut pair = Pair::on([Some(5), None]);
    pair.until_both(Over::Tls);
    for session in [0, 1 << 40] {
        let answer = hello(&mut pair, session);
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("continues a session"), "{text}");
    }
}
