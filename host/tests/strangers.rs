//! Hosts that send half of what they began, nothing at all, or come too often: others are served all
//! the same.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use weft_front::native::{Hello, NumberedRequest as Native, Verb, Welcome};
use weft_front::nbd::client::Client;
use weft_host::{Array, Configuration, Control, Handle, Home, Limits, Listen, Log};
use weft_host::{ControlRequest, Spec, found, join};

const MIB: usize = 1 << 20;

fn start(dir: &Path, limits: Limits, log: Log) -> Handle {
    let volumes = vec![("a".into(), 64 << 20), ("b".into(), 4 << 20)];
    let spec = Spec { disk_size: Some(32 << 20), volumes, ..Spec::default() };
    let listens = [
        Listen::unix(dir.join("nbd.sock")),
        Listen::native_unix(dir.join("weft.sock")),
        Listen::tcp("127.0.0.1:0"),
    ];
    Array::start(dir, &spec, &listens, log).unwrap().limited(limits).spawn().unwrap()
}

fn silent() -> Log {
    Log::silent()
}

fn connect(dir: &Path) -> UnixStream {
    let stream = UnixStream::connect(dir.join("nbd.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn open(dir: &Path, name: &str) -> Client<UnixStream> {
    Client::connect(connect(dir), name).unwrap()
}

/// The header of an NBD write of so many bytes at the beginning.
fn write_of(bytes: usize) -> Vec<u8> {
    let mut header = 0x2560_9513u32.to_be_bytes().to_vec();
    header.extend([0, 0, 0, 1]);
    header.extend([7; 8]);
    header.extend([0; 8]);
    header.extend((bytes as u32).to_be_bytes());
    header
}

/// Whether the other side ends the connection, however much it says before.
fn ends(stream: &mut impl Read) -> bool {
    let mut said = [0; 4096];
    loop {
        match stream.read(&mut said) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(e) => return e.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// Two hosts have the room for what is not whole; a third has to wait with its request until one has
/// finished, and those who send short ones are served meanwhile.
#[test]
fn requests_that_are_not_whole_have_so_much_room_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { incomplete: 64 << 20, ..Limits::default() };
    let array = start(dir.path(), limits, silent());
    let begin = |host: &mut Client<UnixStream>| {
        host.stream().write_all(&write_of(32 * MIB)).unwrap();
        host.stream().write_all(&vec![1; 31 * MIB]).unwrap();
    };
    let mut holders = [open(dir.path(), "a"), open(dir.path(), "a")];
    holders.iter_mut().for_each(begin);
    let one_is_done = Arc::new(AtomicBool::new(false));
    let (mut third, done) = (open(dir.path(), "a"), one_is_done.clone());
    let waits = thread::spawn(move || {
        begin(&mut third);
        assert!(done.load(Ordering::SeqCst), "it was received though there was no room");
        third.stream().write_all(&vec![1; MIB]).unwrap();
        third.stream().read_exact(&mut [0; 16]).unwrap();
    });
    let mut other = open(dir.path(), "b");
    for _ in 0..50 {
        other.write_at(0, &[5; 100_000], false).unwrap();
        thread::sleep(Duration::from_millis(4));
    }
    one_is_done.store(true, Ordering::SeqCst);
    let [first, second] = &mut holders;
    first.stream().write_all(&vec![1; MIB]).unwrap();
    first.stream().read_exact(&mut [0; 16]).unwrap();
    waits.join().unwrap();
    // What one takes that goes away is free again, and so is what one takes that waits.
    second.stream().write_all(&[1]).unwrap();
    let [_first, _second] = holders;
    let mut last = open(dir.path(), "a");
    last.write_at(0, &vec![2; 32 * MIB], false).unwrap();
    drop(last);
    array.shutdown().unwrap();
}

/// The same over the native protocol.
#[test]
fn native_requests_have_no_more_room_than_others() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { incomplete: 64 << 20, ..Limits::default() };
    let array = start(dir.path(), limits, silent());
    let come = |number: u64| {
        let mut stream = UnixStream::connect(dir.path().join("weft.sock")).unwrap();
        let volume = "a".to_string();
        let hello = Hello { from: 1, to: 1, host: number, oldest: 1, resumes: false, volume };
        stream.write_all(&hello.encode()).unwrap();
        stream.read_exact(&mut [0; Welcome::LEN]).unwrap();
        stream
    };
    let begin = |stream: &mut UnixStream| {
        let request = Native {
            verb: Verb::Write,
            flags: 0,
            number: 1,
            oldest: 1,
            offset: 0,
            length: 8 << 20,
            after: Vec::new(),
            data: Default::default(),
        };
        stream.write_all(&request.encode_head()).unwrap();
        stream.write_all(&vec![1; 7 * MIB]).unwrap();
    };
    let mut holders: Vec<UnixStream> = (1..=8).map(come).collect();
    holders.iter_mut().for_each(begin);
    let (one_is_gone, mut ninth) = (Arc::new(AtomicBool::new(false)), come(9));
    let gone = one_is_gone.clone();
    let waits = thread::spawn(move || {
        begin(&mut ninth);
        assert!(gone.load(Ordering::SeqCst), "it was received though there was no room");
    });
    thread::sleep(Duration::from_millis(200));
    one_is_gone.store(true, Ordering::SeqCst);
    drop(holders.pop());
    waits.join().unwrap();
    drop(holders);
    array.shutdown().unwrap();
}

#[test]
fn who_drips_is_sent_away_and_who_is_silent_between_requests_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let second = Duration::from_secs(1);
    let limits = Limits { handshake: second, request: second, ..Limits::default() };
    let array = start(dir.path(), limits, silent());
    let mut patient = open(dir.path(), "a");
    let drip = |mut stream: UnixStream| {
        let mut answers = stream.try_clone().unwrap();
        thread::spawn(move || {
            while stream.write_all(&[0]).is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        thread::spawn(move || assert!(ends(&mut answers), "it is still there after a minute"))
    };
    // In the handshake: an option of a thousand bytes. And in a request.
    let mut stranger = connect(dir.path());
    stranger.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\x03\xe8").unwrap();
    let mut host = open(dir.path(), "a");
    host.stream().write_all(&write_of(MIB)).unwrap();
    let sent_away = [drip(stranger), drip(host.stream().try_clone().unwrap())];
    sent_away.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(patient.read_at(0, 512).unwrap().len(), 512);
    array.shutdown().unwrap();
}

#[test]
fn connections_are_bounded_and_their_ends_make_room() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { connections: 3, connections_per_address: 2, ..Limits::default() };
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    let log = Log::new(move |_, line| kept.lock().unwrap().push(line.to_string()));
    let array = start(dir.path(), limits, log);
    let mut hosts: Vec<_> = (0..3).map(|_| open(dir.path(), "a")).collect();
    for _ in 0..100 {
        assert!(ends(&mut connect(dir.path())), "there is no room for a fourth");
    }
    let address = array.listens()[2].strip_prefix("nbd://").unwrap().to_string();
    let come = || TcpStream::connect(&address).unwrap();
    let from_one = [come(), come()].map(|s| Client::connect(s, "a").unwrap());
    assert!(ends(&mut come()), "there is no room for a third");
    drop(hosts.pop());
    let again = || Client::connect(connect(dir.path()), "a").ok();
    let host = (0..1000).find_map(|_| {
        thread::sleep(Duration::from_millis(10));
        again()
    });
    assert!(host.is_some(), "the place of one that has gone was not free within 10 s");
    drop((hosts, host, from_one));
    array.shutdown().unwrap();
    let lines = lines.lock().unwrap();
    let refused = lines.iter().filter(|l| l.contains("is refused")).count();
    assert!((1..=50).contains(&refused), "{refused} lines for 101 that were refused: {lines:?}");
}

/// More than may be without a login at once stay silent. A host that comes after them is served long before their time is
/// up, and one of them has to go for it.
#[test]
fn those_who_do_not_log_in_shut_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { handshake: Duration::from_secs(50), ..Limits::default() };
    let array = start(dir.path(), limits, silent());
    let mut strangers: Vec<_> = (0..80).map(|_| connect(dir.path())).collect();
    let began = Instant::now();
    let mut host = open(dir.path(), "a");
    assert!(began.elapsed() < Duration::from_secs(30), "it waited for {:?}", began.elapsed());
    host.write_at(0, &[1; 512], false).unwrap();
    assert!(ends(&mut strangers[0]), "who came first had to go");
    assert!(began.elapsed() < Duration::from_secs(40), "only its time was up");
    drop(strangers);
    array.shutdown().unwrap();
}

#[test]
fn of_all_volumes_only_those_are_served_that_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let volumes = vec![("a".into(), 8 << 20), ("b".into(), 4 << 20)];
    let spec = Spec { disk_size: Some(16 << 20), volumes, ..Spec::default() };
    let listens = [Listen::unix(dir.path().join("nbd.sock"))];
    let array = Array::start(dir.path(), &spec, &listens, silent()).unwrap();
    let array = array.serving(["b".to_string()]).spawn().unwrap();
    assert!(Client::connect(connect(dir.path()), "a").is_err());
    assert_eq!(open(dir.path(), "").size(), 4 << 20);
    let names = weft_front::nbd::client::list(connect(dir.path())).unwrap();
    assert_eq!(names, ["b"]);
    let mut control = Control::connect(array.dir()).unwrap();
    let all = control.request(&ControlRequest::VolumeList { snapshots: false }).unwrap();
    assert_eq!(all["volumes"].as_array().unwrap().len(), 2, "commands see all of them");
    array.shutdown().unwrap();
}

fn process(dir: &Path, name: &str, addresses: [std::net::SocketAddr; 2]) -> Configuration {
    Configuration {
        name: name.parse().unwrap(),
        dir: dir.join(name),
        disks: vec![dir.join(format!("{name}.img"))],
        disk_size: Some(32 << 20),
        address: addresses[0],
        admit: (name == "first").then_some(addresses[1]),
        metrics: None,
        page: None,
        listens: Vec::new(),
        announced: Vec::new(),
        labels: Default::default(),
        fill: Default::default(),
        disk_options: Default::default(),
        limits: Limits::default(),
        only: None,
        local: Default::default(),
        polling: Default::default(),
        patience: Default::default(),
        disk_timeout: Default::default(),
        slow_disk_timeout: Default::default(),
        doors: Default::default(),
        lanes: Default::default(),
        controller: false,
    }
}

/// More than there are places for drip into the door where processes join, and one joins.
#[test]
fn those_who_drip_shut_nobody_out_who_wants_to_join() {
    let dir = tempfile::tempdir().unwrap();
    let held: Vec<_> =
        (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let [a, b, c] = [0, 1, 2].map(|n| held[n].local_addr().unwrap());
    drop(held);
    let first = process(dir.path(), "first", [a, b]);
    found(std::slice::from_ref(&first), None, false).unwrap();
    let array = Array::node(Home::open(first).unwrap(), silent()).unwrap().spawn().unwrap();
    let mut control = Control::connect(array.dir()).unwrap();
    let token = control.request(&ControlRequest::Token { seconds: 600 }).unwrap();
    let token = token["token"].as_str().unwrap().parse().unwrap();
    let drip = |_| {
        let mut stream = TcpStream::connect(b).unwrap();
        // The beginning of what TLS would say, which never comes to its end.
        stream.write_all(&[22, 3, 1, 2]).unwrap();
        stream
    };
    let mut strangers: Vec<TcpStream> = (0..100).map(drip).collect();
    let nodes = join(&process(dir.path(), "second", [c, c]), &token, b, false).unwrap();
    assert_eq!(nodes, [1]);
    assert!(ends(&mut strangers[0]), "who came first had to go");
    array.shutdown().unwrap();
}
