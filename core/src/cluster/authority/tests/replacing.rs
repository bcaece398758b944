//! A process that takes the place of one that is lost.

use super::*;

const OLD: NodeId = NodeId(3);

fn home(address: &str) -> Option<Arc<Home>> {
    let (name, labels) = ("box3".to_string(), [("box".to_string(), "b3".to_string())].into());
    Some(Arc::new(Home { name, address: address.to_string(), labels, key: None }))
}

/// Two nodes of one more process, in the place of another or not.
fn two_more(first: u16, address: &str, replaced: Option<NodeId>) -> Change {
    let one = NewNodes::one(NodeId(first));
    Change::AddNodes(NewNodes { count: 2, home: home(address), replaced, ..one })
}

fn up(a: &mut Authority, node: u16, time: u64) -> Option<Arc<ClusterMap>> {
    change(a, AuthorityInput::NodeUp(arrival(node, u64::from(node) + 1)), time)
}

/// Three nodes, and a process with nodes 3 and 4 that has columns of a volume.
fn with_old() -> Authority {
    let mut a = started("raid1", 3, 120);
    change(&mut a, two_more(3, "a:1", None), 20);
    up(&mut a, 3, 21);
    up(&mut a, 4, 22);
    change(&mut a, Change::Drain(NodeId(0), true), 30);
    for round in 0..40 {
        for n in 1..5 {
            caught_up(&mut a, n, 40 + 10 * round + u64::from(n));
        }
    }
    assert!(a.map().columns_on(OLD) > 0 && a.map().columns_on(NodeId(4)) > 0);
    a
}

fn down(a: &mut Authority, time: u64) {
    change(a, AuthorityInput::NodeDown(OLD), time);
    change(a, AuthorityInput::NodeDown(NodeId(4)), time + 1);
}

#[test]
fn what_a_lost_process_had_is_rebuilt_and_its_nodes_leave_by_themselves() {
    let mut a = with_old();
    down(&mut a, 500);
    let map = change(&mut a, two_more(5, "b:1", Some(OLD)), 510).unwrap();
    assert_eq!(map.nodes.len(), 7);
    assert!(map.nodes[3..5].iter().all(|i| i.given_up && !i.up && (i.removed || i.is_replaced())));
    assert!(map.nodes[5..7].iter().all(|i| !i.is_replaced() && i.home == home("b:1")));
    assert_eq!(map.domains("box")[3..], [3; 4], "the new ones are in the same box");
    assert!(map.columns_on(OLD) + map.columns_on(NodeId(4)) > 0, "not all has a place yet");
    up(&mut a, 5, 520);
    up(&mut a, 6, 521);
    for round in 0..40 {
        for n in [1, 2, 5, 6] {
            caught_up(&mut a, n, 530 + 10 * round + u64::from(n));
        }
    }
    let map = a.map();
    assert_eq!(map.columns_on(OLD) + map.columns_on(NodeId(4)), 0);
    assert!(
        map.columns_on(NodeId(5)) + map.columns_on(NodeId(6)) > 0,
        "the new disks have a share"
    );
    assert!(map.nodes[3..5].iter().all(|i| i.removed), "nobody has to remove them");
    assert!(map.attendance.is_empty() && map.served_by(OLD).next().is_none());
}

#[test]
fn one_that_was_replaced_does_not_come_back() {
    let mut a = with_old();
    down(&mut a, 500);
    // Its disks hold something that cannot be rebuilt before others are back.
    change(&mut a, AuthorityInput::NodeDown(NodeId(1)), 505);
    change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 506);
    let map = change(&mut a, two_more(5, "b:1", Some(OLD)), 510).unwrap();
    assert!(map.nodes[3].is_replaced() && !map.nodes[3].removed, "it holds columns");
    let mut out = Vec::new();
    a.handle(AuthorityInput::NodeUp(arrival(3, 4)), &mut out);
    assert!(out.is_empty() && a.is_settled());
    let start = [0, 3, 4].map(|n| arrival(n, u64::from(n) + 1)).to_vec();
    let mut again = Authority::new(a.map().clone());
    let map = change(&mut again, AuthorityInput::Start(start), 600).unwrap();
    assert_eq!(map.up().collect::<Vec<_>>(), [NodeId(0)]);
}

#[test]
fn a_process_that_runs_is_not_replaced() {
    let mut a = with_old();
    change(&mut a, AuthorityInput::NodeDown(OLD), 500);
    let map = change(&mut a, two_more(5, "b:1", Some(OLD)), 510).unwrap();
    assert_eq!(map.nodes.len(), 5, "its other node is up");
    assert!(map.nodes.iter().all(|i| !i.given_up && !i.is_replaced()));
    // It comes back while the change is being made.
    change(&mut a, AuthorityInput::NodeDown(NodeId(4)), 520);
    let mut out = Vec::new();
    a.handle(two_more(5, "b:1", Some(OLD)).into(), &mut out);
    let map = up(&mut a, 4, 530).unwrap();
    assert!(map.nodes.len() == 5 && map.is_up(NodeId(4)));
}
