//! Ways round broken links: circuits through other nodes, and connections that carry nothing.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Cluster, Node, name};
use weft_core::units::NodeId;
use weft_net::transport::{Config, Event, SendError};

/// Two that only know each other's circuits, with one between them.
fn row(tls: bool) -> Vec<Node> {
    let cluster = Cluster::new(tls, 3);
    let mut addresses: Vec<SocketAddr> = Vec::new();
    let mut nodes = Vec::new();
    for n in 0..3 {
        let mut config = cluster.config(n, &addresses);
        if n == 2 {
            config.only = Some([name("n1")].into());
        }
        let node = Node::start(config);
        addresses.push(node.address());
        nodes.push(node);
    }
    nodes.iter_mut().for_each(|n| n.take_ups(2));
    nodes
}

fn goes_through(tls: bool) {
    let mut nodes = row(tls);
    let large = |seed: u8| -> Vec<u8> { (0..3 << 20).map(|i| (i >> 9) as u8 ^ seed).collect() };
    for n in 0..5u8 {
        nodes[0].send(2, large(n)).unwrap();
        nodes[2].send(0, large(n + 50)).unwrap();
    }
    for n in 0..5u8 {
        assert!(nodes[2].frame() == (0, large(n).into()), "{n}");
        assert!(nodes[0].frame() == (2, large(n + 50).into()), "{n}");
    }
}

#[test]
fn a_circuit_carries_frames_both_ways_with_tls() {
    goes_through(true);
}

#[test]
fn a_circuit_carries_frames_both_ways_without_tls() {
    goes_through(false);
}

#[test]
fn who_dies_behind_a_relay_is_down_at_once() {
    let mut nodes = row(true);
    drop(nodes.remove(0));
    nodes[0].down(0);
    let why = nodes[1].down(0);
    assert!(why.contains("its far end is disconnected"), "{why}");
}

/// A connection in between that can be told to carry nothing, and says nothing of it.
struct Wire {
    address: SocketAddr,
    mute: Arc<AtomicBool>,
}

impl Wire {
    fn to(target: SocketAddr) -> Wire {
        let listener = TcpListener::bind(common::local()).unwrap();
        let address = listener.local_addr().unwrap();
        let mute = Arc::new(AtomicBool::new(false));
        let muted = mute.clone();
        thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                let Ok(far) = TcpStream::connect(target) else { continue };
                for (mut from, mut to) in [
                    (near.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far.try_clone().unwrap(), near.try_clone().unwrap()),
                ] {
                    let muted = muted.clone();
                    thread::spawn(move || {
                        let mut bytes = vec![0; 64 << 10];
                        while let Ok(n @ 1..) = from.read(&mut bytes) {
                            while muted.load(Ordering::Relaxed) {
                                thread::sleep(Duration::from_millis(1));
                            }
                            if to.write_all(&bytes[..n]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(std::net::Shutdown::Both);
                        let _ = from.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        Wire { address, mute }
    }
}

/// Frames with numbers, and their receipt in order; anything else that comes is not what should.
struct Stream {
    sent: u32,
    came: u32,
}

impl Stream {
    fn send(&mut self, from: &Node, to: u16) {
        let payload = [&self.sent.to_le_bytes()[..], &vec![9; 5000]].concat();
        match from.transport.send(NodeId(to), common::KIND, vec![payload.into()]) {
            Ok(()) => self.sent += 1,
            Err(SendError::Full { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }

    fn take(&mut self, at: &mut Node, patience: Duration) {
        match at.transport.wait_event(patience) {
            Some(Event::Received { frame, .. }) => {
                let number = u32::from_le_bytes(frame.payload[..4].try_into().unwrap());
                assert_eq!(number, self.came, "each once and in order");
                self.came += 1;
            }
            None | Some(Event::Room { .. }) => {}
            Some(other) => panic!("{other:?}"),
        }
    }
}

/// Three nodes of which the last reaches the first over a wire that can be mute.
fn with_wire() -> (Vec<Node>, Wire) {
    let cluster = Cluster::new(true, 3);
    let config = |n, addresses: &[SocketAddr]| -> Config { cluster.config(n, addresses) };
    let first = Node::start(config(0, &[]));
    let wire = Wire::to(first.address());
    let second = Node::start(config(1, &[first.address()]));
    let third = Node::start(config(2, &[wire.address, second.address()]));
    let mut nodes = vec![first, second, third];
    nodes.iter_mut().for_each(|n| n.take_ups(2));
    (nodes, wire)
}

#[test]
fn nothing_is_lost_when_a_connection_carries_nothing_and_when_it_does_again() {
    let (mut nodes, wire) = with_wire();
    let (mut to, mut fro) = (Stream { sent: 0, came: 0 }, Stream { sent: 0, came: 0 });
    for (mute, rounds) in [(false, 200), (true, 1500), (false, 1500), (true, 700)] {
        wire.mute.store(mute, Ordering::Relaxed);
        let (target, start) = (to.sent + rounds, fro.came);
        // What is sent now arrives, over whichever connection.
        while to.came < target || fro.came < start + rounds {
            if to.sent < target + 50 {
                to.send(&nodes[2], 0);
            }
            if fro.sent < start + rounds + 50 {
                fro.send(&nodes[0], 2);
            }
            to.take(&mut nodes[0], Duration::from_millis(1));
            fro.take(&mut nodes[2], Duration::from_millis(1));
        }
    }
}
