use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};

use super::*;

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

fn node(ca: &CertificateAuthority, who: &str) -> Identity {
    let key = NodeKey::generate().unwrap();
    let public = PublicKey::from_bytes(key.public().as_bytes()).unwrap();
    let certificate = ca.admit(&name(who), &public, NOW, LIFE).unwrap();
    Identity::new(ca.pem(), &certificate, &key).unwrap().with_clock(Clock::of(|| NOW))
}

/// In 2033.
const NOW: u64 = 2_000_000_000;

const DAY: u64 = 86_400;

fn authority(cluster: u128) -> CertificateAuthority {
    CertificateAuthority::create(ClusterId(cluster)).unwrap()
}

/// Runs a handshake in memory. Returns what each side says, client first.
fn handshake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    dialled: ServerName<'static>,
) -> (Result<NodeName, String>, Result<Option<NodeName>, String>) {
    let mut client = ClientConnection::new(client, dialled).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    let (mut said_client, mut said_server) = (Ok(()), Ok(()));
    for _ in 0..10 {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        if said_server.is_ok() && !bytes.is_empty() {
            server.read_tls(&mut bytes.as_slice()).unwrap();
            said_server = server.process_new_packets().map(drop).map_err(|e| describe(&e));
        }
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        if said_client.is_ok() && !bytes.is_empty() {
            client.read_tls(&mut bytes.as_slice()).unwrap();
            said_client = client.process_new_packets().map(drop).map_err(|e| describe(&e));
        }
    }
    let who = |c: Option<&[CertificateDer<'_>]>| c.map(|c| peer_of(&c[0]).unwrap().1);
    (
        said_client.map(|()| who(client.peer_certificates()).unwrap()),
        said_server.map(|()| who(server.peer_certificates())),
    )
}

fn meet(
    a: &Identity,
    b: &Identity,
    dialled: &str,
) -> (Result<NodeName, String>, Result<Option<NodeName>, String>) {
    let to = server_name(a.cluster(), &name(dialled));
    handshake(a.client_config().unwrap(), b.server_config().unwrap(), to)
}

#[test]
fn nodes_of_a_cluster_learn_each_others_names() {
    let ca = authority(7);
    let (a, b) = (node(&ca, "a"), node(&ca, "box-2"));
    assert_eq!(meet(&a, &b, "box-2"), (Ok(name("box-2")), Ok(Some(name("a")))));
}

#[test]
fn strangers_are_refused_with_the_reason() {
    let ours = authority(7);
    let (a, b) = (node(&ours, "a"), node(&ours, "b"));
    let other = node(&authority(9), "b");
    let forged = node(&authority(7), "b");

    let (said, _) = meet(&a, &other, "b");
    let said = said.unwrap_err();
    assert!(said.contains(&ClusterId(9).to_string()), "{said}");
    let (said, _) = meet(&a, &forged, "b");
    assert!(said.unwrap_err().contains("authority did not sign it"));
    // One that trusts us all the same.
    let forged = Identity { ca: a.ca.clone(), ..forged };
    let (_, said) = meet(&forged, &b, "b");
    assert!(said.unwrap_err().contains("authority did not sign it"));
    let (said, _) = meet(&a, &b, "c");
    assert!(said.unwrap_err().contains("node b answers at the address of another"));
}

#[test]
fn a_server_of_another_cluster_refuses_the_client_by_name() {
    let (ours, other) = (authority(7), authority(9));
    // The client trusts us, and shows a certificate of another cluster.
    let mixed = Identity { ca: node(&ours, "x").ca, ..node(&other, "x") };
    let mixed = Identity { cluster: ClusterId(7), ..mixed };
    let (_, said) = meet(&mixed, &node(&ours, "b"), "b");
    let said = said.unwrap_err();
    assert!(said.contains("node x of cluster") && said.contains("this is cluster"), "{said}");
}

#[test]
fn who_joins_trusts_the_authority_of_its_token_alone() {
    let (ours, other) = (authority(7), authority(9));
    let mut book = TokenBook::default();
    let token = book.issue(ours.fingerprint().unwrap(), 1000, 60).unwrap();
    let token: JoinToken = token.to_string().parse().unwrap();
    let meet = |server: &Identity| {
        let to = ServerName::try_from("any.weft").unwrap();
        let config = joining_config(token.fingerprint).unwrap();
        handshake(config, server.admitting_config().unwrap(), to)
    };
    assert_eq!(meet(&node(&ours, "b")), (Ok(name("b")), Ok(None)));
    let said = meet(&node(&other, "b")).0.unwrap_err();
    assert!(said.contains("not of the token's authority"), "{said}");
}

#[test]
fn files_come_back_and_private_ones_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let ca = authority(7);
    ca.save(dir.path()).unwrap();
    assert!(matches!(ca.save(dir.path()), Err(IdentityError::File { .. })), "overwrites a key");
    let loaded = CertificateAuthority::load(dir.path()).unwrap();
    assert_eq!(loaded.cluster(), ClusterId(7));
    assert_eq!(loaded.fingerprint().unwrap(), ca.fingerprint().unwrap());

    let key = NodeKey::generate().unwrap();
    let certificate = loaded.admit(&name("n1"), &key.public(), NOW, LIFE).unwrap();
    Identity::save(dir.path(), loaded.pem(), &certificate, &key).unwrap();
    let n1 = Identity::load(dir.path()).unwrap();
    assert_eq!((n1.name().as_str(), n1.cluster()), ("n1", ClusterId(7)));
    assert_eq!(meet(&n1, &node(&ca, "n2"), "n2").1, Ok(Some(name("n1"))));

    let mode = |file: &str| fs::metadata(dir.path().join(file)).unwrap().permissions().mode();
    assert_eq!(mode("ca-key.pem") & 0o777, 0o600);
    assert_eq!(mode("node-key.pem") & 0o777, 0o600);
    let open = fs::Permissions::from_mode(0o640);
    fs::set_permissions(dir.path().join("node-key.pem"), open).unwrap();
    let said = Identity::load(dir.path()).unwrap_err();
    assert!(matches!(said, IdentityError::Exposed(_)), "{said}");
}

#[test]
fn files_of_two_clusters_do_not_mix() {
    let key = NodeKey::generate().unwrap();
    let certificate = authority(9).admit(&name("a"), &key.public(), NOW, LIFE).unwrap();
    let said = Identity::new(authority(7).pem(), &certificate, &key).unwrap_err().to_string();
    assert!(said.contains("a certificate of cluster"), "{said}");
    assert!(Identity::new("nothing", &certificate, &key).is_err());
    let missing = Identity::load(Path::new("/nonexistent")).unwrap_err().to_string();
    assert!(missing.contains("/nonexistent/ca.pem"), "{missing}");
}

#[test]
fn tokens_are_good_once_and_for_a_while() {
    let mut book = TokenBook::default();
    let token = book.issue([5; 32], 1000, 60).unwrap();
    let late = book.issue([5; 32], 1000, 60).unwrap();
    let (a, b) = (name("a"), name("b"));
    let [first, other] = [(); 2].map(|()| NodeKey::generate().unwrap().public());
    assert_eq!(book.redeem(token.id, &[0; 16], &a, &first, 1001), Err(TokenError::Unknown));
    let wrong = token.id ^ 1;
    assert_eq!(book.redeem(wrong, &token.secret, &a, &first, 1001), Err(TokenError::Unknown));
    assert_eq!(book.redeem(token.id, &token.secret, &a, &first, 1001), Ok(true));

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens");
    assert_eq!(TokenBook::load(&path).unwrap(), TokenBook::default());
    book.save(&path).unwrap();
    let mut book = TokenBook::load(&path).unwrap();
    let again = |book: &mut TokenBook, by: &NodeName, key: &PublicKey| {
        book.redeem(token.id, &token.secret, by, key, 1002)
    };
    assert_eq!(again(&mut book, &a, &first), Ok(false), "its first attempt may have broken off");
    assert_eq!(again(&mut book, &a, &other), Err(TokenError::OtherKey { by: a.clone() }));
    assert_eq!(again(&mut book, &b, &first), Err(TokenError::Used { by: a.clone() }));
    book.give_back(token.id, &other);
    assert_eq!(again(&mut book, &b, &other), Err(TokenError::Used { by: a.clone() }));
    book.give_back(token.id, &first);
    assert_eq!(again(&mut book, &b, &other), Ok(true), "it was good again");
    let mut at = |now| book.redeem(late.id, &late.secret, &b, &first, now);
    assert_eq!(at(1065), Err(TokenError::Expired { ago: 5 }));
    book.issue([5; 32], 100_000_000, 1).unwrap();
    let gone = book.redeem(late.id, &late.secret, &b, &first, 1001);
    assert_eq!(gone, Err(TokenError::Unknown));
}

/// A book of an earlier version says by whom a token was used, and not with which key.
#[test]
fn a_token_that_was_spent_before_keys_were_noted_is_spent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens");
    let mut book = TokenBook::default();
    let [spent, good] = [(); 2].map(|()| book.issue([5; 32], 1000, 60).unwrap());
    book.save(&path).unwrap();
    let add_name = |line: &str| match line.starts_with(&format!("{:016x}", spent.id)) {
        true => format!("{line} a\n"),
        false => format!("{line} \n"),
    };
    let text: String = fs::read_to_string(&path).unwrap().lines().map(add_name).collect();
    fs::write(&path, text).unwrap();
    let mut book = TokenBook::load(&path).unwrap();
    let (a, key) = (name("a"), NodeKey::generate().unwrap().public());
    let refused = book.redeem(spent.id, &spent.secret, &a, &key, 1001);
    assert_eq!(refused, Err(TokenError::OtherKey { by: a.clone() }));
    assert_eq!(book.redeem(good.id, &good.secret, &a, &key, 1001), Ok(true));
}

#[test]
fn a_certificate_lapses_and_a_renewed_one_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let ca = authority(7);
    let time = Arc::new(AtomicU64::new(NOW));
    let shown = time.clone();
    let clock = Clock::of(move || shown.load(Ordering::Relaxed));
    let [a, b] = ["a", "b"].map(|who| node(&ca, who).with_clock(clock.clone()));
    assert!((NOW + LIFE..=NOW + LIFE + DAY).contains(&a.until()), "{}", date(a.until()));
    let (to, dialled) = (server_name(a.cluster(), &name("b")), name("b"));
    let (dials, answers) = (a.client_config().unwrap(), b.server_config().unwrap());
    let meet = || handshake(dials.clone(), answers.clone(), to.clone());
    assert_eq!(meet(), (Ok(dialled.clone()), Ok(Some(name("a")))));

    time.store(NOW + LIFE + 2 * DAY, Ordering::Relaxed);
    let renewed = |of: &Identity| ca.renew(&of.certificate(), None, clock.now(), LIFE).unwrap();
    b.renew(&dir.path().join("b"), &renewed(&b).1).unwrap_err();
    assert!(meet().0.unwrap_err().contains("expired"), "what cannot be kept is not shown");
    b.renew(dir.path(), &renewed(&b).1).unwrap();
    let (said_a, said_b) = meet();
    let said = said_b.unwrap_err();
    assert!(
        said.contains("expired on 2034-05-19") && said.contains("here says 2034-05-20"),
        "{said}"
    );
    assert!(said.contains("weft cluster renew"), "{said}");
    assert!(said_a.unwrap_err().contains("by the other side's clock our certificate has expired"));

    let (who, renewed) = renewed(&a);
    assert_eq!(who.as_str(), "a");
    a.renew(dir.path(), &renewed).unwrap();
    assert_eq!(meet(), (Ok(dialled), Ok(Some(name("a")))), "with the configurations of before");
    assert_eq!(fs::read_to_string(dir.path().join("node.pem")).unwrap(), renewed);
    let said = a.renew(dir.path(), &renewed).unwrap_err();
    assert!(matches!(said, IdentityError::NoBetter { .. }), "{said}");
}

#[test]
fn nobody_renews_what_it_has_not_made_or_takes_what_is_anothers() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, other) = (authority(7), authority(7));
    let (a, b) = (node(&ours, "a"), node(&ours, "b"));
    let said = other.renew(&a.certificate(), None, NOW, LIFE).unwrap_err().to_string();
    assert!(said.contains("has not signed"), "{said}");
    let said = authority(9).renew(&a.certificate(), None, NOW, LIFE).unwrap_err().to_string();
    assert!(said.contains("this cluster is"), "{said}");
    let renewed = |ca: &CertificateAuthority, of: &Identity, life: u64| {
        ca.renew(&of.certificate(), None, NOW + DAY, life).unwrap().1
    };
    assert!(a.renew(dir.path(), &renewed(&ours, &b, LIFE)).is_err(), "another name");
    let namesake = node(&ours, "a");
    assert!(a.renew(dir.path(), &renewed(&ours, &namesake, LIFE)).is_err(), "another key");
    let forged = renewed(&other, &node(&other, "a"), LIFE);
    assert!(a.renew(dir.path(), &forged).is_err(), "another authority");
    assert!(a.renew(dir.path(), &renewed(&ours, &a, DAY)).is_err(), "it lapses sooner");
    assert!(!dir.path().join("node.pem").exists(), "nothing has changed");
    a.renew(dir.path(), &renewed(&ours, &a, LIFE)).unwrap();
}

/// Earlier versions made certificates for 200 years.
#[test]
fn a_certificate_of_200_years_is_good_and_due_and_gives_way_to_one_of_a_year() {
    let dir = tempfile::tempdir().unwrap();
    let (ca, key) = (authority(7), NodeKey::generate().unwrap());
    let old = ca.admit(&name("a"), &key.public(), NOW, 187 * LIFE).unwrap();
    let a = Identity::new(ca.pem(), &old, &key).unwrap().with_clock(Clock::of(|| NOW));
    assert_eq!(meet(&a, &node(&ca, "b"), "b").1, Ok(Some(name("a"))));
    assert!(is_due(a.until(), NOW));
    let renewed = ca.renew(&a.certificate(), None, NOW, LIFE).unwrap().1;
    let until = a.renew(dir.path(), &renewed).unwrap();
    assert!(!is_due(until, NOW) && until == a.until());
}

/// A machine whose clock shows 1970 is not locked out.
#[test]
fn a_slow_clock_locks_nobody_out() {
    let ca = authority(7);
    let slow = |who| node(&ca, who).with_clock(Clock::of(|| 17));
    assert_eq!(meet(&slow("a"), &node(&ca, "b"), "b").1, Ok(Some(name("a"))));
    assert_eq!(meet(&node(&ca, "a"), &slow("b"), "b").0, Ok(name("b")));
}

#[test]
fn tokens_tell_typing_errors() {
    let token = TokenBook::default().issue([5; 32], 1000, 60).unwrap();
    let text = token.to_string();
    assert_eq!(format!(" {} ", text.to_uppercase()).parse(), Ok(token.clone()));
    let typo = text.replacen("05", "50", 1);
    assert_eq!(typo.parse::<JoinToken>(), Err(TokenError::Typing));
    assert_eq!("weft1-12".parse::<JoinToken>(), Err(TokenError::Form));
    assert!(!format!("{token:?}").contains(&text[30..40]), "the secret is shown");
}

#[test]
fn names_and_ids_are_checked() {
    for bad in ["", "-a", "a-", "A", "a.b", "a_b", &"a".repeat(33), "é"] {
        assert!(bad.parse::<NodeName>().is_err(), "{bad}");
    }
    assert!("node-17".parse::<NodeName>().is_ok());
    let id = ClusterId::generate().unwrap();
    assert_eq!(id.to_string().parse::<ClusterId>().unwrap(), id);
    assert!("+0000000000000000000000000000007".parse::<ClusterId>().is_err());
}

#[test]
fn a_key_waits_in_a_file_for_its_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.pem");
    let key = NodeKey::generate().unwrap();
    key.save(&path).unwrap();
    assert!(key.save(&path).is_err(), "a key that is there is not overwritten");
    let same = NodeKey::load(&path).unwrap();
    assert_eq!(same.public(), key.public());
    let certificate = authority(7).admit(&name("n1"), &key.public(), NOW, LIFE).unwrap();
    assert!(same.is_of(&certificate).unwrap());
    assert!(!NodeKey::generate().unwrap().is_of(&certificate).unwrap());
    assert!(key.is_of("nothing").is_err());
}
