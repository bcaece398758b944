//! Round-trip time and throughput of the transport over loopback, with and without TLS, next to
//! a raw socket in the same run: `cargo run --release -p weft-net --example roundtrip`.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mio::{Events, Poll, Token};
use weft_core::units::NodeId;
use weft_net::frame::FIRST_KIND;
use weft_net::identity::{
    CertificateAuthority, Clock, ClusterId, Identity, LIFE, NodeKey, NodeName,
};
use weft_net::transport::{Config, Driver, Event, Peer, Security, SendError, Transport};

type Failure = Box<dyn Error + Send + Sync>;

const ROUNDS: usize = 20_000;
const WARM_UP: usize = 1_000;
const SMALL: usize = 100;
const SECTOR: usize = 4096 + 100;
const PIECE: usize = 1 << 20;
const PIECES: usize = 2_000;

const ZERO: NodeId = NodeId(0);
const ONE: NodeId = NodeId(1);

/// The median of the times of `round`.
fn median(mut round: impl FnMut() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let mut times = Vec::with_capacity(ROUNDS);
    for n in 0..ROUNDS + WARM_UP {
        let start = Instant::now();
        round()?;
        if n >= WARM_UP {
            times.push(start.elapsed());
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn show(what: &str, small: Duration, sector: Duration, rate: f64) {
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    println!("{what:<34} {:>9.1} {:>9.1} {rate:>9.0}", us(small), us(sector));
}

fn raw() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let echo = thread::spawn(move || -> Result<(), Failure> {
        for len in [SMALL, SECTOR] {
            let (mut socket, _) = listener.accept()?;
            socket.set_nodelay(true)?;
            let mut buffer = vec![0; len];
            while socket.read_exact(&mut buffer).is_ok() {
                socket.write_all(&buffer)?;
            }
        }
        let (mut socket, _) = listener.accept()?;
        let mut buffer = vec![0; 256 << 10];
        let mut left = PIECE * PIECES;
        while left > 0 {
            left -= socket.read(&mut buffer)?;
        }
        Ok(socket.write_all(&[1])?)
    });
    let ping = |len: usize| {
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let mut buffer = vec![1; len];
        median(|| {
            socket.write_all(&buffer)?;
            Ok(socket.read_exact(&mut buffer)?)
        })
    };
    let (small, sector) = (ping(SMALL)?, ping(SECTOR)?);
    let mut socket = TcpStream::connect(address)?;
    let piece = vec![1; PIECE];
    let start = Instant::now();
    for _ in 0..PIECES {
        socket.write_all(&piece)?;
    }
    socket.read_exact(&mut [0])?;
    let rate = (PIECE * PIECES) as f64 / start.elapsed().as_secs_f64() / 1e6;
    show("raw socket", small, sector, rate);
    echo.join().map_err(|_| "the echo thread panicked")?
}

/// A transport and, if its owner turns it, its driver.
struct Node(Transport, Option<(Driver, Poll, Events)>);

impl Node {
    fn start(config: Config, own_thread: bool) -> Result<Node, Failure> {
        let log = |note: &weft_net::transport::Note| eprintln!("{note}");
        if own_thread {
            return Ok(Node(Transport::start(config, || (), log)?, None));
        }
        let poll = Poll::new()?;
        let (transport, driver) = Transport::with_driver(config, poll.registry(), Token(0), log)?;
        Ok(Node(transport, Some((driver, poll, Events::with_capacity(16)))))
    }

    fn event(&mut self) -> Result<Event, Failure> {
        let Some((driver, poll, events)) = &mut self.1 else {
            let event = self.0.wait_event(Duration::from_secs(30));
            return event.ok_or_else(|| "nothing came for 30 seconds".into());
        };
        loop {
            driver.turn();
            if let Some(event) = self.0.next_event() {
                return Ok(event);
            }
            poll.poll(events, driver.patience())?;
            events.iter().for_each(|e| driver.ready(e));
        }
    }

    fn frame(&mut self) -> Result<Bytes, Failure> {
        loop {
            match self.event()? {
                Event::Received { frame, .. } => return Ok(frame.payload),
                Event::Down { why, .. } => return Err(why.into()),
                _ => {}
            }
        }
    }

    /// Sends, and waits for room if there is none.
    fn send(&mut self, to: NodeId, payload: &Bytes) -> Result<(), Failure> {
        loop {
            match self.0.send(to, FIRST_KIND, vec![payload.clone()]) {
                Err(SendError::Full { .. }) => drop(self.event()?),
                other => return Ok(other?),
            }
        }
    }
}

fn identity(ca: &CertificateAuthority, name: &NodeName) -> Result<Arc<Identity>, Failure> {
    let key = NodeKey::generate()?;
    let certificate = ca.admit(name, &key.public(), Clock::system().now(), LIFE)?;
    Ok(Arc::new(Identity::new(ca.pem(), &certificate, &key)?))
}

fn transport(what: &str, tls: bool, own_thread: bool) -> Result<(), Failure> {
    let ca = CertificateAuthority::create(ClusterId::generate()?)?;
    let names: [NodeName; 2] = ["n0".parse()?, "n1".parse()?];
    let config = |node: NodeId, peer: NodeId, address: Option<SocketAddr>| {
        let identity = identity(&ca, &names[usize::from(node.0)])?;
        let mut config = Config::new(identity, node, Some("127.0.0.1:0".parse()?));
        let name = names[usize::from(peer.0)].clone();
        config.peers = vec![Peer { node: peer, name, address, key: None }];
        if !tls {
            config.security = Security::Plain;
        }
        Ok::<_, Failure>(config)
    };
    let mut zero = Node::start(config(ZERO, ONE, None)?, own_thread)?;
    let config = config(ONE, ZERO, zero.0.local_address())?;
    let echo = thread::spawn(move || -> Result<(), Failure> {
        let mut one = Node::start(config, own_thread)?;
        for _ in 0..2 * (ROUNDS + WARM_UP) {
            let payload = one.frame()?;
            one.send(ZERO, &payload)?;
        }
        for _ in 0..PIECES {
            one.frame()?;
        }
        one.send(ZERO, &Bytes::from_static(&[1]))?;
        // Until the other has heard, and goes.
        while !matches!(one.event()?, Event::Down { .. }) {}
        Ok(())
    });
    while !matches!(zero.event()?, Event::Up { .. }) {}
    let mut ping = |len: usize| {
        let payload = Bytes::from(vec![1; len]);
        median(|| {
            zero.send(ONE, &payload)?;
            zero.frame().map(drop)
        })
    };
    let (small, sector) = (ping(SMALL)?, ping(SECTOR)?);
    let piece = Bytes::from(vec![1; PIECE]);
    let start = Instant::now();
    for _ in 0..PIECES {
        zero.send(ONE, &piece)?;
    }
    zero.frame()?;
    let rate = (PIECE * PIECES) as f64 / start.elapsed().as_secs_f64() / 1e6;
    show(what, small, sector, rate);
    drop(zero);
    echo.join().map_err(|_| "the echo thread panicked")?
}

fn main() -> Result<(), Failure> {
    println!(
        "{:<34} {:>9} {:>9} {:>9}",
        "round trip, median of 20,000", "100 B us", "4 KiB us", "MB/s"
    );
    raw()?;
    transport("plain, own thread", false, true)?;
    transport("plain, turned by the owner", false, false)?;
    transport("TLS, own thread", true, true)?;
    transport("TLS, turned by the owner", true, false)
}
