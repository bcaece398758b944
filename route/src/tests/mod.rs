//! What holds of routers, over random networks and by example.

mod net;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use net::Net;
use proptest::prelude::*;
use weft_core::units::NodeId;

use crate::{
    Bug, LinkState, MOST_HOPS, MOST_RELAYED, Open, Output, Router, WINDOW, Way, Why, Word,
};

/// How many connections the shortest way from one to each has, by breadth first search.
fn distances(
    count: u16,
    links: &BTreeSet<(u16, u16)>,
    hosts: &[u16],
    from: u16,
) -> BTreeMap<u16, usize> {
    let mut far = BTreeMap::from([(from, 0)]);
    let mut ring = VecDeque::from([from]);
    while let Some(at) = ring.pop_front() {
        if far[&at] == MOST_HOPS || (at != from && hosts.contains(&at)) {
            continue;
        }
        for n in 0..count {
            if links.contains(&(at.min(n), at.max(n))) && !far.contains_key(&n) {
                far.insert(n, far[&at] + 1);
                ring.push_back(n);
            }
        }
    }
    far
}

fn check_ways(net: &Net, count: u16, hosts: &[u16]) {
    let whole = net.whole();
    for from in 0..count {
        let far = distances(count, &whole, hosts, from);
        for to in (0..count).filter(|t| *t != from) {
            match (net.routers[usize::from(from)].way(NodeId(to)), far.get(&to)) {
                (Way::Direct, Some(1)) | (Way::None, None) => {}
                // A connection that carries nothing, where there is no other.
                (Way::Direct, None) => {}
                (Way::Through(path), Some(hops)) => {
                    assert_eq!(path.len(), hops + 1, "{path:?}");
                    let on_links = path
                        .windows(2)
                        .all(|w| whole.contains(&(w[0].0.min(w[1].0), w[0].0.max(w[1].0))));
                    assert!(on_links && path[0].0 == from && path[*hops].0 == to, "{path:?}");
                }
                (way, hops) => panic!("from {from} to {to}: {way:?} and {hops:?} hops"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ways_are_the_shortest_whatever_breaks(
        count in 2u16..10,
        pairs in proptest::collection::vec((0u16..10, 0u16..10), 0..30),
        cuts in proptest::collection::vec((0u16..10, 0u16..10), 0..6),
        gone in proptest::collection::vec((0u16..10, 0u16..10), 0..4),
        host in 0u16..10,
    ) {
        let hosts = [host];
        let mut net = Net::new(count, &hosts, None);
        let mut made = BTreeSet::new();
        for (a, b) in pairs.into_iter().filter(|(a, b)| a != b && *a < count && *b < count) {
            if made.insert((a.min(b), a.max(b))) {
                net.connect_usual(a, b);
            }
        }
        net.pass(2);
        check_ways(&net, count, &hosts);
        cuts.iter().for_each(|(a, b)| net.cut(*a, *b, true));
        net.pass(6);
        gone.iter().filter(|(a, b)| *a < count && *b < count).for_each(|(a, b)| net.disconnect(*a, *b));
        net.pass(12);
        check_ways(&net, count, &hosts);
        cuts.iter().for_each(|(a, b)| net.cut(*a, *b, false));
        net.pass(70);
        check_ways(&net, count, &hosts);
        let before = net.words;
        net.pass(1);
        prop_assert!(net.words - before <= 2 * 45, "only that they are here");
    }

    #[test]
    fn whatever_comes_from_outside_costs_neither_memory_nor_a_crash(
        words in proptest::collection::vec((3u8..10, proptest::collection::vec(any::<u8>(), 0..40)), 0..200),
    ) {
        let mut net = Net::new(4, &[], None);
        [(0, 1), (1, 2), (2, 3)].iter().for_each(|(a, b)| net.connect_usual(*a, *b));
        net.pass(2);
        for (kind, bytes) in words {
            if let Ok(word) = Word::decode(kind, &bytes.into()) {
                let (again, chunks) = word.encode();
                prop_assert_eq!(&Word::decode(again, &chunks.concat().into()).unwrap(), &word);
                let now = net.now;
                net.act(1, |r, out| r.said(now, NodeId(0), word, out));
                net.settle();
            }
        }
        let (relayed, ends) = net.routers[1].circuits();
        prop_assert!(relayed <= MOST_RELAYED && ends <= 200);
    }
}

/// Five in a row.
fn row(bug: Option<Bug>) -> Net {
    let mut net = Net::new(5, &[], bug);
    (0..4).for_each(|n| net.connect_usual(n, n + 1));
    // What is connected is said with the next tick.
    net.pass(2);
    net
}

#[test]
fn a_circuit_carries_a_stream_both_ways_within_its_window() {
    let mut net = row(None);
    let near = net.open(4, 0).unwrap();
    let [(0, far, from)] = net.opened[..] else { panic!("{:?}", net.opened) };
    assert_eq!((from, net.routers[2].circuits()), (NodeId(4), (1, 0)));
    for _ in 0..20 {
        net.send(4, near, b"to and ");
        net.send(0, far, b"fro ");
    }
    assert_eq!(net.came[&(0, far)], b"to and ".repeat(20));
    assert_eq!(net.came[&(4, near)], b"fro ".repeat(20));
    let piece = vec![7; WINDOW as usize - 140];
    net.send(4, near, &piece);
    assert_eq!(net.routers[4].room(near), 0);
    net.act(0, |r, out| r.take(far, WINDOW as usize, out));
    net.settle();
    assert_eq!(net.routers[4].room(near), WINDOW as usize);
    net.act(4, |r, out| r.close(near, out));
    net.settle();
    assert_eq!(net.closed, [(0, far, Why::Ended)], "who ended it need not hear of it");
    assert!(net.routers.iter().all(|r| r.circuits() == (0, 0)));
}

#[test]
fn a_circuit_ends_with_any_of_its_connections_and_there_is_another() {
    let mut net = row(None);
    net.connect_usual(0, 4);
    net.pass(2);
    net.open(4, 1).unwrap();
    assert_eq!(net.routers[0].circuits().0, 1, "the shortest goes through 0");
    net.cut(0, 1, true);
    net.pass(6);
    assert!(net.closed.iter().all(|c| c.2 == Why::Broken) && net.closed.len() == 2);
    net.open(4, 1).unwrap();
    assert_eq!(net.routers[3].circuits().0, 1, "the other way round");
    net.restart(1, 9);
    net.settle();
    let of_four: Vec<Why> = net.closed[2..].iter().filter(|c| c.0 == 4).map(|c| c.2).collect();
    assert_eq!(of_four, [Why::Gone]);
}

#[test]
fn a_connection_that_was_bad_settles_before_it_is_used_again() {
    let mut net = row(None);
    net.connect_usual(0, 4);
    net.pass(2);
    net.cut(4, 0, true);
    net.pass(3);
    assert_eq!(net.routers[0].way(NodeId(4)), Way::Direct, "300 ms are not too long");
    net.pass(2);
    let ways = [net.routers[0].way(NodeId(4)), net.routers[4].way(NodeId(0))];
    assert!(
        ways.iter().all(|w| matches!(w, Way::Through(p) if p.len() == 5)),
        "both know: {ways:?}"
    );
    assert!(net.routers[4].is_bad(NodeId(0)));
    net.cut(4, 0, false);
    net.pass(45);
    assert!(matches!(net.routers[4].way(NodeId(0)), Way::Through(_)), "not before it has settled");
    // That it is made anew does not count for more, unless the process is.
    net.disconnect(0, 4);
    net.connect_usual(0, 4);
    net.pass(45);
    assert!(matches!(net.routers[4].way(NodeId(0)), Way::Through(_)));
    net.pass(10);
    assert_eq!(net.routers[4].way(NodeId(0)), Way::Direct);
}

#[test]
fn who_was_paused_is_in_reach_as_soon_as_it_goes_on() {
    let mut net = row(None);
    for (on, ticks) in [(true, 6), (false, 4)] {
        [(2, 3), (3, 2), (3, 4), (4, 3)].iter().for_each(|(a, b)| net.cut(*a, *b, on));
        net.pass(ticks);
    }
    assert!(matches!(net.routers[0].way(NodeId(4)), Way::Through(p) if p.len() == 5));
    assert_eq!(net.routers[3].way(NodeId(2)), Way::Direct, "though it was bad");
    // Where there is a way over good connections it is taken.
    net.connect_usual(1, 3);
    net.pass(1);
    assert!(matches!(net.routers[3].way(NodeId(2)), Way::Through(p) if p.len() == 3));
}

#[test]
fn who_starts_again_is_heard_though_it_counts_from_one() {
    let mut net = row(None);
    (0..5).for_each(|_| {
        net.disconnect(2, 3);
        net.connect_usual(2, 3);
        net.pass(2);
    });
    net.restart(3, 55);
    net.connect(2, 3, (102, 55));
    net.pass(1);
    assert!(matches!(net.routers[0].way(NodeId(3)), Way::Through(p) if p.len() == 4));
    assert_eq!(net.routers[0].link_state_of(NodeId(3)).unwrap().life, 55);
    assert!(net.routers[0].way(NodeId(4)) == Way::None, "nobody has connected it again");
}

/// A router in the middle of a row, and what it answers to a neighbour.
fn answers(word: Word) -> Vec<Output> {
    let mut net = row(None);
    let (now, mut out) = (net.now, Vec::new());
    net.routers[2].said(now, NodeId(1), word, &mut out);
    out
}

fn open(life: u64, place: u8, path: &[u16]) -> Word {
    Word::Open(Open { circuit: 5, life, place, path: path.iter().map(|p| NodeId(*p)).collect() })
}

#[test]
fn circuits_that_cannot_be_are_refused() {
    let refused = [Output::Send(NodeId(1), Word::Close { circuit: 5, why: Why::Refused })];
    assert_ne!(answers(open(104, 2, &[0, 1, 2, 3, 4])), refused);
    assert_ne!(answers(open(102, 2, &[0, 1, 2])), refused);
    for (what, word) in [
        ("a loop", open(103, 2, &[3, 1, 2, 3])),
        ("through us twice", open(103, 2, &[0, 1, 2, 1, 2, 3])),
        ("to a stranger", open(103, 2, &[0, 1, 2, 9])),
        ("from a stranger", open(103, 2, &[9, 1, 2, 3])),
        ("to whom there is no connection", open(104, 2, &[0, 1, 2, 4])),
        ("we are not there", open(104, 1, &[0, 1, 2, 3])),
        ("not from who is before us", open(103, 1, &[0, 2, 3])),
        ("from nobody", open(102, 0, &[2, 3])),
        ("beyond the end", open(102, 9, &[0, 1, 2])),
        ("to an earlier life of ours", open(101, 2, &[0, 1, 2])),
    ] {
        assert_eq!(answers(word), refused, "{what}");
    }
    let wrong = Word::Open(Open {
        circuit: 1 << 31,
        life: 102,
        place: 1,
        path: vec![NodeId(1), NodeId(2)],
    });
    let close = Word::Close { circuit: 1 << 31, why: Why::Refused };
    assert_eq!(answers(wrong), [Output::Send(NodeId(1), close)], "a number that is ours to choose");
    let carry = Word::Carry { circuit: 77, at: 0, bytes: Bytes::from_static(b"x") };
    let close = Word::Close { circuit: 77, why: Why::Refused };
    assert_eq!(answers(carry), [Output::Send(NodeId(1), close)], "bytes for no circuit");
    assert_eq!(answers(Word::Taken { circuit: 77, bytes: 1 }), []);
}

#[test]
fn a_host_relays_nothing_and_a_relay_only_so_much() {
    let mut net = Net::new(3, &[1], None);
    net.connect_usual(0, 1);
    net.connect_usual(1, 2);
    net.pass(2);
    assert_eq!(net.routers[0].way(NodeId(2)), Way::None);
    let mut net = row(None);
    for _ in 0..MOST_RELAYED + 10 {
        net.open(4, 0).unwrap();
    }
    assert_eq!(net.routers[2].circuits(), (MOST_RELAYED, 0));
    assert_eq!(net.closed.len(), 10);
}

#[test]
fn an_end_that_sends_too_much_or_twice_loses_its_circuit() {
    for (at, len) in [(0, WINDOW as usize + 1), (3, 1)] {
        let mut net = row(None);
        let circuit = net.open(4, 0).unwrap();
        let carry = Word::Carry { circuit: circuit.number, at, bytes: vec![0; len].into() };
        let now = net.now;
        net.act(3, |r, out| r.said(now, NodeId(4), carry, out));
        net.settle();
        assert!(net.closed.iter().all(|c| c.2 == Why::Spoiled) && net.closed.len() == 2, "{at}");
        assert!(net.routers.iter().all(|r| r.circuits() == (0, 0)));
    }
}

#[test]
fn old_link_states_and_those_of_strangers_change_nothing() {
    let mut net = row(None);
    let known = net.routers[2].link_state_of(NodeId(0)).unwrap().clone();
    let old = LinkState { number: known.number - 1, links: BTreeSet::new(), ..known.clone() };
    let stranger = LinkState { of: NodeId(9), ..known.clone() };
    let (now, mut out) = (net.now, Vec::new());
    for state in [old, stranger, known.clone()] {
        net.routers[2].said(now, NodeId(1), Word::LinkState(state), &mut out);
    }
    assert_eq!(
        out,
        [Output::Send(NodeId(1), Word::LinkState(known.clone()))],
        "who is behind hears"
    );
    assert_eq!(net.routers[2].link_state_of(NodeId(0)), Some(&known));
    assert_eq!(net.routers[2].link_state_of(NodeId(9)), None);
}

#[test]
fn nobody_is_reached_over_more_than_sixteen_connections() {
    let mut net = Net::new(19, &[], None);
    (0..18).for_each(|n| net.connect_usual(n, n + 1));
    net.pass(2);
    assert!(matches!(net.routers[0].way(NodeId(16)), Way::Through(p) if p.len() == 17));
    assert_eq!(net.routers[0].way(NodeId(17)), Way::None);
}

#[test]
fn deliberate_bugs_are_bugs() {
    let mut net = row(Some(Bug::RelayRepeats));
    let circuit = net.open(4, 2).unwrap();
    (0..4).for_each(|_| net.send(4, circuit, b"x"));
    let (_, far, _) = net.opened[0];
    assert_eq!(net.came[&(2, far)], b"xxxxx", "one of four twice");
    for (bug, ends) in [(None, 0), (Some(Bug::CircuitToEarlierLife), 1)] {
        let mut router = Router::new(NodeId(2), 7, true, bug);
        router.list(NodeId(1));
        let mut out = Vec::new();
        router.connected(0, NodeId(1), 5, &mut out);
        router.said(0, NodeId(1), open(6, 1, &[1, 2]), &mut out);
        assert_eq!(router.circuits().1, ends);
    }
}

#[test]
fn words_are_encoded_as_documented() {
    let hex = |w: &Word| {
        let (kind, chunks) = w.encode();
        let bytes: String = chunks.concat().iter().map(|b| format!("{b:02x}")).collect();
        format!("{kind} {bytes}")
    };
    let links = [NodeId(3), NodeId(5)].into();
    let mending = [NodeId(6)].into();
    let state = LinkState { of: NodeId(2), life: 7, number: 9, relays: true, links, mending };
    let carry = Word::Carry { circuit: 6, at: 8, bytes: Bytes::from_static(b"ab") };
    for (word, image) in [
        (Word::Here { hears: true, digest: 1 }, "3 010100000000000000"),
        (
            Word::LinkState(state),
            "4 02000700000000000000090000000000000001020000000300 0500 01000000 0600",
        ),
        (open(4, 2, &[0, 1, 2]), "5 0500000004000000000000000203000000000001000200"),
        (carry, "6 0600000008000000000000006162"),
        (Word::Taken { circuit: 6, bytes: 4 }, "7 0600000004000000"),
        (Word::Close { circuit: 6, why: Why::Gone }, "8 0600000002"),
    ] {
        let (kind, rest) = image.split_at(1);
        assert_eq!(hex(&word), format!("{kind} {}", rest.replace(' ', "")));
    }
    for (kind, bytes) in [(8, vec![0, 0, 0, 0, 9]), (3, vec![2; 9]), (9, vec![]), (7, vec![0; 9])] {
        assert!(Word::decode(kind, &bytes.into()).is_err(), "{kind}");
    }
}
