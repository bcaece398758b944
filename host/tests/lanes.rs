//! Several lanes in one process: hosts write over NBD while nodes are killed, stopped and started.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weft_front::nbd::client::Client;
use weft_host::{Array, Control, ControlRequest, Handle, Lanes, Listen, NodeAction, Spec};

const HOSTS: u64 = 4;
/// Bytes that each host has for itself.
const OWN: u64 = 2 << 20;
/// Blocks after those that all hosts write, each as a whole.
const SHARED: u64 = 32;
const BLOCK: u64 = 12 << 10;
/// The most requests of a host.
const ROUNDS: u32 = 400;

fn start(dir: &Path, lanes: usize) -> Handle {
    let spec = Spec {
        nodes: Some(5),
        disk_size: Some(24 << 20),
        volumes: vec![("a".into(), HOSTS * OWN + SHARED * BLOCK)],
        ..Spec::default()
    };
    let listens = [Listen::unix(dir.join("nbd.sock"))];
    let array = Array::start(dir, &spec, &listens, weft_host::Log::silent()).unwrap();
    array.lanes(Lanes::new(lanes).unwrap()).spawn().unwrap()
}

fn open(dir: &Path) -> Client<UnixStream> {
    Client::connect(UnixStream::connect(dir.join("nbd.sock")).unwrap(), "a").unwrap()
}

fn node(control: &mut Control, action: NodeAction, node: usize) {
    control.request(&ControlRequest::Node { action, node }).unwrap();
}

/// Waits until all nodes have all that was written.
fn until_all_are_up(control: &mut Control) {
    for _ in 0..6_000 {
        let status = control.request(&ControlRequest::Status).unwrap();
        if status["nodes"].as_array().unwrap().iter().all(|n| n["state"] == "up") {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("a node never caught up");
}

/// Writes until it is enough, and says what its own bytes are.
fn write(dir: &Path, host: u64, enough: &AtomicBool) -> Vec<u8> {
    let mut client = open(dir);
    let mut random = fastrand::Rng::with_seed(host);
    let mut own = vec![0; OWN as usize];
    for round in 0..ROUNDS {
        if enough.load(Ordering::Relaxed) && round >= 20 {
            break;
        }
        let fill = random.u8(1..);
        let len = *random.choice(&[1_000, 4_096, 40_000, 300_000]).unwrap();
        let at = random.usize(..own.len() - len);
        own[at..at + len].fill(fill);
        client.write_at(host * OWN + at as u64, &own[at..at + len], round % 7 == 0).unwrap();
        let block = HOSTS * OWN + random.u64(..SHARED) * BLOCK;
        client.write_at(block, &vec![fill; BLOCK as usize], false).unwrap();
        let at = random.usize(..own.len() - len);
        let read = client.read_at(host * OWN + at as u64, len as u32).unwrap();
        assert!(read == own[at..at + len], "host {host}, round {round}, {len} bytes at {at}");
    }
    client.flush().unwrap();
    own
}

fn lose_and_regain(control: &mut Control) {
    for (action, victim) in
        [(NodeAction::Kill, 2), (NodeAction::Stop, 1), (NodeAction::Kill, 0), (NodeAction::Stop, 4)]
    {
        node(control, action, victim);
        node(control, NodeAction::Start, victim);
        until_all_are_up(control);
    }
}

fn check(dir: &Path, own: &[Vec<u8>]) {
    let mut client = open(dir);
    for (host, own) in own.iter().enumerate() {
        let read = client.read_at(host as u64 * OWN, OWN as u32).unwrap();
        assert!(read == *own, "what host {host} wrote is not there");
    }
    for block in 0..SHARED {
        let read = client.read_at(HOSTS * OWN + block * BLOCK, BLOCK as u32).unwrap();
        assert!(read.iter().all(|b| *b == read[0]), "block {block} is of two writes");
    }
}

fn hosts_write_while_nodes_come_and_go(dir: &Path, lanes: usize, backend: &str) {
    let array = start(dir, lanes);
    let mut control = Control::connect(array.dir()).unwrap();
    let enough = AtomicBool::new(false);
    let own: Vec<Vec<u8>> = thread::scope(|scope| {
        let hosts: Vec<_> = (0..HOSTS)
            .map(|host| {
                scope.spawn({
                    let enough = &enough;
                    move || write(dir, host, enough)
                })
            })
            .collect();
        lose_and_regain(&mut control);
        enough.store(true, Ordering::Relaxed);
        hosts.into_iter().map(|host| host.join().unwrap()).collect()
    });
    control.request(&ControlRequest::Quiesce).unwrap();
    check(dir, &own);
    let scrub = control.request(&ControlRequest::scrub("a")).unwrap();
    assert_eq!((&scrub["verified"], scrub["mismatched"].as_u64()), (&scrub["stripes"], Some(0)));
    let status = control.request(&ControlRequest::Status).unwrap();
    assert_eq!(status["nodes"][0]["backend"], backend);
    let of = |key: &str| -> Vec<u64> {
        let lanes = status["lanes"].as_array().unwrap();
        lanes.iter().map(|lane: &Value| lane[key].as_u64().unwrap()).collect()
    };
    assert_eq!((of("nodes").len(), of("nodes").iter().sum()), (lanes, 5u64));
    assert!(of("inputs").iter().all(|inputs| *inputs > 0), "{status:#}");
    assert!(lanes == 1 || of("wakes")[1] > 0, "long writes are worth waking a lane for");
    array.shutdown().unwrap();
    // What was said to be written is there when nothing is remembered.
    let array = start(dir, 1);
    check(dir, &own);
    array.shutdown().unwrap();
}

#[test]
fn in_memory() {
    for lanes in [1, 2, 4] {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
        hosts_write_while_nodes_come_and_go(dir.path(), lanes, "sync");
    }
}

#[test]
fn on_a_file_system() {
    for lanes in [1, 2, 4] {
        let dir = tempfile::tempdir().unwrap();
        hosts_write_while_nodes_come_and_go(dir.path(), lanes, "uring");
    }
}
