//! Certificates that lapse and are renewed while nodes run.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Cluster, Node, limits, name};
use weft_core::units::NodeId;
use weft_net::identity::{Clock, Identity, LIFE, NodeKey, is_due};
use weft_net::transport::{Config, Peer};

/// In 2033.
const NOW: u64 = 2_000_000_000;

fn identity(cluster: &Cluster, node: u16, clock: &Clock) -> Arc<Identity> {
    let key = NodeKey::generate().unwrap();
    let name = name(&format!("n{node}"));
    let certificate = cluster.ca.admit(&name, &key.public(), clock.now(), LIFE).unwrap();
    Arc::new(Identity::new(cluster.ca.pem(), &certificate, &key).unwrap().with_clock(clock.clone()))
}

#[test]
fn connections_stand_while_certificates_lapse_and_new_ones_need_renewed_ones() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(true, 2);
    let time = Arc::new(AtomicU64::new(NOW));
    let shown = time.clone();
    let clock = Clock::of(move || shown.load(Ordering::Relaxed));
    let (zero, one) = (identity(&cluster, 0, &clock), identity(&cluster, 1, &clock));
    let config = |of: &Arc<Identity>, node: u16, addresses: &[_]| Config {
        limits: limits(),
        ..Config::new(of.clone(), NodeId(node), cluster.config(node, addresses).listen)
    };
    let peer = |node: u16, address| Peer {
        node: NodeId(node),
        name: name(&format!("n{node}")),
        address,
        key: None,
    };
    let peers = vec![peer(1, None)];
    let mut low = Node::start(Config { peers, ..config(&zero, 0, &[]) });
    let address = low.address();
    let peers = vec![peer(0, Some(address))];
    let mut high = Node::start(Config { peers, ..config(&one, 1, &[address]) });
    low.up(1);
    high.up(0);

    time.store(NOW + 2 * LIFE, Ordering::Relaxed);
    high.send(0, vec![1]).unwrap();
    assert_eq!(low.frame().1.as_ref(), [1], "a connection that stands is not touched");

    // A new connection is refused, and both logs say what to do.
    high.transport.remove_peer(NodeId(0));
    low.down(1);
    high.down(0);
    high.transport.add_peer(peer(0, Some(address)));
    high.logged("no connection to node 0");
    let renew = |of: &Identity| {
        assert!(is_due(of.until(), clock.now()));
        let renewed = cluster.ca.renew(&of.certificate(), None, clock.now(), LIFE).unwrap().1;
        of.renew(dir.path(), &renewed).unwrap();
    };
    renew(&zero);
    high.logged("by the other side's clock our certificate has expired");
    low.logged("weft cluster renew");

    // Both have run all the time.
    renew(&one);
    low.up(1);
    high.up(0);
    high.send(0, vec![2]).unwrap();
    assert_eq!(low.frame().1.as_ref(), [2]);
}
