//! Those that do not belong: refused, said so, and nobody else is disturbed.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use common::{Cluster, Node, PATIENCE, identity, limits, local, name};
use rustls::pki_types::ServerName;
use weft_core::units::NodeId;
use weft_net::frame;
use weft_net::identity::{CertificateAuthority, ClusterId, NodeKey, joining_config};
use weft_net::transport::{Config, Peer, Security, StartError, Transport};

/// A node of another making that dials node 0 at `address`.
fn stranger(ca: &CertificateAuthority, who: &str, number: u16, address: SocketAddr) -> Config {
    let mut config = Config::new(identity(ca, who), NodeId(number), None);
    config.limits = limits();
    config.peers =
        vec![Peer { node: NodeId(0), name: name("n0"), address: Some(address), key: None }];
    config
}

/// Nodes 0 and 1 still understand one another.
fn assert_undisturbed(nodes: &mut [Node]) {
    nodes[1].send(0, vec![1]).unwrap();
    assert_eq!(nodes[0].frame().1.as_ref(), [1]);
    nodes[0].send(1, vec![2]).unwrap();
    assert_eq!(nodes[1].frame().1.as_ref(), [2]);
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Reads what comes until the other side closes.
fn read_to_end(mut socket: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match socket.read(&mut piece) {
            Ok(0) => return all,
            Ok(n) => all.extend(&piece[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn a_node_of_another_cluster_is_refused() {
    let (mut nodes, addresses) = Cluster::new(true, 2).start();
    let other = CertificateAuthority::create(ClusterId(43)).unwrap();
    let node = Node::start(stranger(&other, "n1", 1, addresses[0]));
    // The one that dials sees the wrong certificate first.
    let said = node.logged("its certificate is for node n0 of cluster");
    assert!(said.contains(&ClusterId(42).to_string()), "{said}");
    nodes[0].logged("the other side ended the TLS handshake");
    assert_undisturbed(&mut nodes);
}

#[test]
fn a_forged_authority_is_refused() {
    let (mut nodes, addresses) = Cluster::new(true, 2).start();
    let forged = CertificateAuthority::create(ClusterId(42)).unwrap();
    let node = Node::start(stranger(&forged, "n1", 1, addresses[0]));
    node.logged("this cluster's authority did not sign it");
    assert_undisturbed(&mut nodes);
}

#[test]
fn a_client_without_certificate_is_refused() {
    let cluster = Cluster::new(true, 2);
    let (mut nodes, addresses) = cluster.start();
    let config = joining_config(cluster.ca.fingerprint().unwrap()).unwrap();
    let name = ServerName::try_from("n0.weft").unwrap();
    let tls = rustls::ClientConnection::new(config, name);
    // It does not get so far: the chain without the authority is not what who joins asks for.
    let mut stream = rustls::StreamOwned::new(tls.unwrap(), connect(addresses[0]));
    assert!(stream.write_all(b"hello").and_then(|()| stream.flush()).is_err());

    let trusting = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .dangerous()
    .with_custom_certificate_verifier(Arc::new(TrustsAll))
    .with_no_client_auth();
    let name = ServerName::try_from("n0.weft").unwrap();
    let tls = rustls::ClientConnection::new(Arc::new(trusting), name).unwrap();
    let mut stream = rustls::StreamOwned::new(tls, connect(addresses[0]));
    let _ = stream.write_all(b"hello");
    let said = stream.read(&mut [0; 10]).unwrap_err().to_string();
    assert!(said.contains("CertificateRequired"), "{said}");
    nodes[0].logged("it sent no certificate");
    assert_undisturbed(&mut nodes);
}

#[test]
fn a_wrong_version_is_refused_and_both_are_named() {
    let (mut nodes, addresses) = Cluster::new(false, 2).start();
    let mut socket = connect(addresses[0]);
    let mut header = frame::header(1, &[], frame::Way::Bare);
    header[4] = 9;
    socket.write_all(&header).unwrap();
    nodes[0].logged("uses version 9 of the protocol and this one version 3");
    let answer = read_to_end(socket);
    let text = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with(b"WEFT") && text.contains("version 9"), "{text}");
    assert_undisturbed(&mut nodes);
}

#[test]
fn garbage_is_refused_with_and_without_tls() {
    for (tls, said) in [(true, "the received data are not TLS"), (false, "not weft's protocol")] {
        let (mut nodes, addresses) = Cluster::new(tls, 2).start();
        let mut socket = connect(addresses[0]);
        socket.write_all(b"GET / HTTP/1.1\r\nHost: weft\r\n\r\n").unwrap();
        nodes[0].logged(said);
        read_to_end(socket);
        assert_undisturbed(&mut nodes);
    }
}

#[test]
fn frames_before_the_hello_are_refused() {
    let (mut nodes, addresses) = Cluster::new(false, 2).start();
    let mut socket = connect(addresses[0]);
    socket.write_all(&frame::header(16, &[], frame::Way::Bare)).unwrap();
    nodes[0].logged("a frame of kind 16 arrived at an invalid time");
    read_to_end(socket);
    let mut socket = connect(addresses[0]);
    let payload = vec![0; 5000].into();
    socket.write_all(&frame::header(1, &[payload], frame::Way::Bare)).unwrap();
    nodes[0].logged("at most 1024 are allowed here");
    read_to_end(socket);
    assert_undisturbed(&mut nodes);
}

#[test]
fn one_that_says_nothing_is_dropped_and_blocks_nobody() {
    for tls in [true, false] {
        let mut cluster = Cluster::new(tls, 2);
        let (mut nodes, addresses) = cluster.start();
        let silent = connect(addresses[0]);
        assert_undisturbed(&mut nodes);
        drop(silent);
        nodes[0].logged("the other side closed the connection");

        cluster.limits.handshake = Duration::from_millis(50);
        let impatient = Node::start(cluster.config(0, &[]));
        let silent = connect(impatient.address());
        impatient.logged("did not send its hello in time");
        read_to_end(silent);
    }
}

#[test]
fn strangers_are_bounded_in_number() {
    let mut cluster = Cluster::new(true, 2);
    cluster.limits.strangers = 4;
    let (mut nodes, addresses) = cluster.start();
    let silent: Vec<TcpStream> = (0..20).map(|_| connect(addresses[0])).collect();
    for socket in silent.into_iter().take(16) {
        read_to_end(socket);
    }
    nodes[0].logged("too many connections");
    assert_undisturbed(&mut nodes);
}

#[test]
fn a_node_with_another_name_or_number_is_refused() {
    let cluster = Cluster::new(true, 2);
    let (mut nodes, addresses) = cluster.start();
    let unlisted = Node::start(stranger(&cluster.ca, "n7", 7, addresses[0]));
    nodes[0].logged("node 7 (n7), which is not a node of this cluster");
    unlisted.logged("the other side refused: it claims to be node 7");
    let impostor = Node::start(stranger(&cluster.ca, "n7", 1, addresses[0]));
    nodes[0].logged("node 1 with the name n7, and node 1 is n1");
    impostor.logged("the other side refused");
    let mut twice = stranger(&cluster.ca, "n7", 7, addresses[0]);
    twice.peers[0].name = name("n5");
    let lost = Node::start(twice);
    lost.logged("node n0 answers at the address of another");
    assert_undisturbed(&mut nodes);
}

/// The name may be another machine's by now, and its certificate is good for months.
#[test]
fn the_certificate_of_one_that_was_replaced_is_refused_and_its_session_ends() {
    let cluster = Cluster::new(true, 2);
    let listed = |key| Peer { node: NodeId(1), name: name("n1"), address: None, key };
    let (before, after) = (NodeKey::generate().unwrap(), NodeKey::generate().unwrap());
    let mut zero = cluster.config(0, &[]);
    zero.peers = vec![listed(Some(before.public().digest()))];
    let mut zero = Node::start(zero);
    let with = |key: &NodeKey| {
        let mut config = stranger(&cluster.ca, "n1", 1, zero.address());
        config.security = Security::Tls(common::identity_of(&cluster.ca, "n1", key));
        config
    };
    let (old, new) = (with(&before), with(&after));
    let mut old = Node::start(old);
    zero.up(1);
    old.up(0);
    zero.transport.add_peer(listed(Some(after.public().digest())));
    zero.down(1);
    old.down(0);
    zero.logged("node 1 (n1), whose key differs: its certificate is for a node that was removed");
    old.logged("the other side refused: it claims to be node 1 (n1), whose key differs");
    let mut new = Node::start(new);
    zero.up(1);
    new.up(0);
    new.send(0, vec![1]).unwrap();
    assert_eq!(zero.frame().1.as_ref(), [1]);
}

/// What goes on with it may end; it does not come back.
#[test]
fn one_that_has_left_begins_no_other_session() {
    let cluster = Cluster::new(true, 2);
    let (mut nodes, addresses) = cluster.start();
    nodes[0].transport.retire_peer(NodeId(1));
    nodes[1].send(0, vec![1]).unwrap();
    assert_eq!(nodes[0].frame().1.as_ref(), [1]);
    let again = Node::start(cluster.config(1, &addresses));
    again.logged("the other side refused: it claims to be node 1 (n1), which is not a node");
    nodes[0].transport.remove_peer(NodeId(1));
    nodes[0].down(1);
}

#[test]
fn tls_on_one_side_only_is_said_on_both() {
    let cluster = Cluster::new(true, 2);
    let (mut nodes, addresses) = cluster.start();
    let mut plain = stranger(&cluster.ca, "n1", 1, addresses[0]);
    plain.security = Security::Plain;
    let _plain = Node::start(plain);
    nodes[0].logged("is TLS off on the other side?");
    assert_undisturbed(&mut nodes);

    let (mut nodes, addresses) = Cluster::new(false, 2).start();
    let safe = Node::start(stranger(&cluster.ca, "n1", 1, addresses[0]));
    nodes[0].logged("looks like TLS, which is off on this side");
    safe.logged("the received data are not TLS");
    assert_undisturbed(&mut nodes);
}

#[test]
fn who_cannot_be_reached_is_logged_and_tried_again() {
    let cluster = Cluster::new(true, 2);
    let unused = TcpListener::bind(local()).unwrap().local_addr().unwrap();
    let mut one = Node::start(cluster.config(1, &[unused]));
    one.logged("no connection to node 0");
    one.logged("refused");
    let mut config = cluster.config(0, &[]);
    config.listen = Some(unused);
    let mut zero = Node::start(config);
    one.up(0);
    zero.up(1);
}

#[test]
fn an_address_in_use_and_an_odd_identity_are_said_at_the_start() {
    let taken = TcpListener::bind(local()).unwrap();
    let cluster = Cluster::new(true, 2);
    let mut config = cluster.config(0, &[]);
    config.listen = Some(taken.local_addr().unwrap());
    let said = Transport::start(config, || (), |_| ()).err().unwrap().to_string();
    assert!(said.contains("cannot listen on 127.0.0.1"), "{said}");
    let mut config = cluster.config(0, &[]);
    config.name = name("n1");
    let said = Transport::start(config, || (), |_| ()).err().unwrap();
    assert!(matches!(said, StartError::OtherIdentity { .. }), "{said}");
}

#[derive(Debug)]
struct TrustsAll;

impl rustls::client::danger::ServerCertVerifier for TrustsAll {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
