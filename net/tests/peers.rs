//! Nodes of one cluster: they talk, die, come back, stop reading.

mod common;

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use common::{Cluster, KIND, Node, PATIENCE};
use weft_core::Buffer;
use weft_core::node::{Body, Envelope, Notice};
use weft_core::store::Reached;
use weft_core::units::{NodeId, Timestamp};
use weft_net::frame::MAX_PAYLOAD;
use weft_net::transport::{Event, Limits, SendError, Transport};
use weft_net::wire::Message;

fn three_talk(tls: bool) {
    let (mut nodes, _) = Cluster::new(tls, 3).start();
    for from in 0..3u16 {
        for to in (0..3u16).filter(|to| *to != from) {
            for n in 0..100u8 {
                let chunks = vec![vec![from as u8, to as u8].into(), Bytes::new(), vec![n].into()];
                nodes[usize::from(from)].transport.send(NodeId(to), KIND, chunks).unwrap();
            }
        }
    }
    for to in 0..3u16 {
        let mut next = [0u8; 3];
        for _ in 0..200 {
            let (from, payload) = nodes[usize::from(to)].frame();
            let n = &mut next[usize::from(from)];
            assert_eq!(payload.as_ref(), [from as u8, to as u8, *n]);
            *n += 1;
        }
    }
}

#[test]
fn three_nodes_talk_both_ways_with_tls() {
    three_talk(true);
}

#[test]
fn three_nodes_talk_both_ways_without_tls() {
    three_talk(false);
}

fn large_frames(tls: bool) {
    let (mut nodes, _) = Cluster::new(tls, 2).start();
    let pattern = |seed: usize, len: usize| -> Bytes {
        (0..len).map(|i| (i * 31 + (i >> 11) + seed) as u8).collect::<Vec<u8>>().into()
    };
    let lens = [4 << 20, 1, 4 << 20, 0, (64 << 10) + 3, MAX_PAYLOAD];
    let mut waiting: VecDeque<(u16, usize)> =
        (0..lens.len()).flat_map(|i| [(0, i), (1, i)]).collect();
    let mut came = [0, 0];
    while came != [lens.len(); 2] {
        // The queue takes two of the largest; what it refuses is offered again.
        if let Some((from, i)) = waiting.pop_front() {
            match nodes[usize::from(from)].send(1 - from, pattern(i, lens[i])) {
                Ok(()) => {}
                Err(SendError::Full { .. }) => waiting.push_front((from, i)),
                Err(other) => panic!("{other}"),
            }
            if waiting.len() > 2 {
                continue;
            }
        }
        for to in 0..2 {
            while came[to] < lens.len() {
                let Some(event) = nodes[to].transport.wait_event(PATIENCE) else {
                    panic!("nothing came")
                };
                match event {
                    Event::Received { frame, .. } => {
                        assert!(frame.payload == pattern(came[to], lens[came[to]]));
                        came[to] += 1;
                    }
                    Event::Room { .. } => {}
                    other => panic!("{other:?}"),
                }
                if !waiting.is_empty() {
                    break;
                }
            }
        }
    }
}

#[test]
fn large_frames_arrive_intact_with_tls() {
    large_frames(true);
}

#[test]
fn large_frames_arrive_intact_without_tls() {
    large_frames(false);
}

#[test]
fn messages_of_nodes_go_through() {
    let (mut nodes, _) = Cluster::new(true, 2).start();
    let data = Buffer::from(vec![0xa5; 4 << 20]);
    let items = vec![(3, data.clone()), (4, Buffer::Zero(65536))];
    let body = Body::ReadReply { ts: Timestamp(9), column: 2, result: Ok(items) };
    let (from, to, notices) = (NodeId(1), NodeId(0), vec![Notice::Ack(Timestamp(8))]);
    let reached = Reached { disk: 1, life: 2, frame: 3, sequence: 4 };
    let (heard, body) = (vec![(NodeId(2), reached)], Some(body));
    let envelope = Envelope { from, to, epoch: 5, hops: 2, notices, reached, heard, body };
    let message = Message::Envelope(envelope);
    nodes[1].transport.send(to, weft_net::LETTERS, message.encode()).unwrap();
    let decoded = Message::decode(&nodes[0].frame().1).unwrap();
    assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
}

#[test]
fn what_cannot_be_a_frame_is_not_sent() {
    let (nodes, _) = Cluster::new(false, 2).start();
    let long = vec![0; MAX_PAYLOAD + 1];
    assert_eq!(nodes[0].send(1, long), Err(SendError::TooLong(MAX_PAYLOAD + 1)));
    assert_eq!(nodes[0].send(7, vec![1]), Err(SendError::Down { peer: NodeId(7) }));
    assert_eq!(nodes[0].send(0, vec![1]), Err(SendError::Down { peer: NodeId(0) }));
    let own = nodes[0].transport.send(NodeId(1), 3, Vec::new());
    assert_eq!(own, Err(SendError::Kind(3)));
}

/// Node `dies` of two is killed many times, in the middle of a stream of frames that say which
/// life they are of. The other never sees one of an earlier life after the next has come up, nor
/// one twice.
fn dies_and_comes_back(tls: bool, dies: u16) {
    let cluster = Cluster::new(tls, 2);
    let (nodes, mut addresses) = cluster.start();
    let mut nodes: VecDeque<Node> = nodes.into();
    let mut mortal = nodes.remove(usize::from(dies)).unwrap();
    let mut other = nodes.pop_front().unwrap();
    let stays = 1 - dies;
    let mut last_life = None;
    for round in 0..8u32 {
        for n in 0..200u32 {
            let payload = [round.to_le_bytes(), n.to_le_bytes()].concat();
            match mortal.send(stays, payload) {
                Ok(()) => {}
                Err(e) => panic!("{e}"),
            }
        }
        let first = other.frame();
        assert_eq!(first.1[..4], round.to_le_bytes());
        drop(mortal);
        let mut next = 1u32;
        loop {
            match other.event() {
                Event::Received { frame, .. } => {
                    assert_eq!(frame.payload[..4], round.to_le_bytes());
                    assert_eq!(frame.payload[4..], next.to_le_bytes(), "in order, each once");
                    next += 1;
                }
                Event::Down { .. } => break,
                unexpected => panic!("{unexpected:?}"),
            }
        }
        let to_the_dead = other.send(dies, vec![9]);
        assert_eq!(to_the_dead, Err(SendError::Down { peer: NodeId(dies) }));

        let mut config = cluster.config(dies, &addresses);
        if dies == 0 {
            config.listen = Some(addresses[0]);
        }
        mortal = Node::start(config);
        addresses[usize::from(dies)] = mortal.address();
        mortal.up(stays);
        let life = other.up(dies);
        assert_eq!(life, mortal.transport.life());
        assert_ne!(last_life.replace(life), Some(life));
    }
}

#[test]
fn a_killed_node_that_dials_comes_back() {
    dies_and_comes_back(true, 1);
}

#[test]
fn a_killed_node_that_is_dialled_comes_back() {
    dies_and_comes_back(true, 0);
}

#[test]
fn a_killed_node_comes_back_without_tls() {
    dies_and_comes_back(false, 1);
}

#[test]
fn what_is_sent_before_the_new_life_is_known_does_not_go_to_it() {
    let cluster = Cluster::new(true, 2);
    let (mut nodes, addresses) = cluster.start();
    nodes.pop();
    // Node 1 is back, and node 0 has not looked yet.
    let mut reborn = Node::start(cluster.config(1, &addresses));
    reborn.up(0);
    assert_eq!(nodes[0].send(1, vec![1]), Err(SendError::Down { peer: NodeId(1) }));
    nodes[0].down(1);
    nodes[0].up(1);
    nodes[0].send(1, vec![2]).unwrap();
    assert_eq!(reborn.frame().1.as_ref(), [2]);
}

#[test]
fn a_peer_that_stops_reading_stalls_nobody_and_loses_nothing() {
    let mut cluster = Cluster::new(true, 3);
    cluster.limits = Limits { queue_bytes: 1 << 20, undelivered_bytes: 1 << 20, ..cluster.limits };
    let (mut nodes, _) = cluster.start();
    let frame = |n: u32| -> Bytes {
        let mut bytes = n.to_le_bytes().to_vec();
        bytes.resize(64 << 10, 7);
        bytes.into()
    };
    // Node 2 takes no events. What it and the sockets hold is bounded, so the queue fills.
    let mut sent = 0;
    loop {
        match nodes[0].send(2, frame(sent)) {
            Ok(()) => sent += 1,
            Err(SendError::Full { waiting, .. }) => {
                assert!(waiting <= 1 << 20);
                // Full for good, when nothing of it has gone while node 1 was talked to.
                let talked = talk(&mut nodes, sent);
                match nodes[0].send(2, frame(sent)) {
                    Err(SendError::Full { waiting: still, .. }) if !talked && still == waiting => {
                        break;
                    }
                    Err(SendError::Full { .. }) => {}
                    Ok(()) => sent += 1,
                    Err(other) => panic!("{other}"),
                }
            }
            Err(other) => panic!("{other}"),
        }
        assert!(sent < 4096, "256 MiB were taken for one that does not read");
    }
    for n in 0..sent {
        let (from, payload) = nodes[2].frame();
        assert_eq!((from, payload), (0, frame(n)));
    }
    match nodes[0].event() {
        Event::Room { peer } => assert_eq!(peer, NodeId(2)),
        other => panic!("{other:?}"),
    }
    nodes[0].send(2, frame(sent)).unwrap();
    assert_eq!(nodes[2].frame().1, frame(sent));
}

/// Nodes 0 and 1 exchange a hundred messages. Returns whether node 0 was told of room meanwhile.
fn talk(nodes: &mut [Node], mark: u32) -> bool {
    let mut room = false;
    for n in 0..100u32 {
        let payload = [mark.to_le_bytes(), n.to_le_bytes()].concat();
        nodes[0].send(1, payload.clone()).unwrap();
        let (from, came) = nodes[1].frame();
        assert_eq!((from, came.as_ref()), (0, payload.as_slice()));
        nodes[1].send(0, came).unwrap();
        loop {
            match nodes[0].event() {
                Event::Room { .. } => room = true,
                Event::Received { peer, frame } => {
                    assert_eq!((peer, frame.payload.as_ref()), (NodeId(1), payload.as_slice()));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    room
}

#[test]
fn peers_come_and_go_by_order() {
    let mut cluster = Cluster::new(true, 2);
    let (mut nodes, mut addresses) = cluster.start();
    // A third node joins; the others are told of it after it has begun to dial.
    cluster.count = 3;
    let mut third = Node::start(cluster.config(2, &addresses));
    addresses.push(third.address());
    for (n, node) in nodes.iter_mut().enumerate() {
        let said = node.logged("not a node of this cluster");
        assert!(said.contains("node 2 (n2)"), "{said}");
        let peers = cluster.config(n as u16, &addresses).peers;
        let peer = peers.into_iter().find(|p| p.node == NodeId(2)).unwrap();
        node.transport.add_peer(peer);
        node.up(2);
    }
    third.take_ups(2);
    third.send(0, vec![5]).unwrap();
    assert_eq!(nodes[0].frame(), (2, Bytes::from(vec![5])));

    nodes[0].transport.remove_peer(NodeId(2));
    assert!(nodes[0].down(2).contains("removed from the list"));
    third.down(0);
    third.send(1, vec![6]).unwrap();
    assert_eq!(nodes[1].frame(), (2, Bytes::from(vec![6])));
}

#[test]
fn the_owner_may_turn_the_driver_itself() {
    let cluster = Cluster::new(true, 2);
    let mut poll = mio::Poll::new().unwrap();
    let mut events = mio::Events::with_capacity(8);
    let config = cluster.config(0, &[]);
    let first = mio::Token(7);
    let (mut zero, mut driver) =
        Transport::with_driver(config, poll.registry(), first, |_| ()).unwrap();
    let mut one = Node::start(cluster.config(1, &[zero.local_address().unwrap()]));
    let mut turn = |zero: &mut Transport| {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            assert!(driver.turn());
            if let Some(event) = zero.next_event() {
                return event;
            }
            poll.poll(&mut events, driver.patience().or(Some(PATIENCE))).unwrap();
            events.iter().for_each(|e| driver.ready(e));
        }
        panic!("nothing has come");
    };
    assert!(matches!(turn(&mut zero), Event::Up { .. }));
    one.up(0);
    one.send(0, vec![1]).unwrap();
    assert!(matches!(turn(&mut zero), Event::Received { .. }));
    zero.send(NodeId(1), KIND, vec![vec![2].into()]).unwrap();
    assert!(driver.turn());
    assert_eq!(one.frame(), (0, Bytes::from(vec![2])));
}
