//! Limits of volumes, over the sockets that hosts use. Times are only compared with what a limit makes them at least,
//! and with much longer ones.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use weft_front::native::{Code, Hello, NumberedRequest, Verb, Welcome};
use weft_front::nbd::client::{Client, ClientRequest};
use weft_host::{Array, Control, ControlRequest, Handle, Listen, Spec};

fn start(dir: &Path) -> Handle {
    let volumes = vec![("a".into(), 16 << 20), ("b".into(), 16 << 20)];
    let spec = Spec { disk_size: Some(32 << 20), volumes, ..Spec::default() };
    let listens = [Listen::unix(dir.join("nbd.sock")), Listen::native_unix(dir.join("weft.sock"))];
    Array::start(dir, &spec, &listens, weft_host::Log::silent()).unwrap().spawn().unwrap()
}

fn open(dir: &Path, volume: &str) -> Client<UnixStream> {
    let stream = UnixStream::connect(dir.join("nbd.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    Client::connect(stream, volume).unwrap()
}

fn set(control: &mut Control, words: &[(&str, &str)]) -> serde_json::Value {
    let set: BTreeMap<String, String> =
        words.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let name = "a".to_string();
    control.request(&ControlRequest::VolumeSet { name, set, force: false, range: None }).unwrap()
}

/// Requests of 4 KiB, writes and reads by turns, all at once; how long until all were answered.
fn many(client: &mut Client<UnixStream>, count: usize) -> Duration {
    let begun = Instant::now();
    send(client, count);
    receive(client, count);
    begun.elapsed()
}

fn send(client: &mut Client<UnixStream>, count: usize) {
    for n in 0..count {
        let offset = n as u64 * 4096;
        client.send(match n % 2 {
            0 => ClientRequest::Write { offset, data: vec![n as u8; 4096].into(), fua: false },
            _ => ClientRequest::Read { offset, length: 4096 },
        });
    }
    client.push().unwrap();
}

fn receive(client: &mut Client<UnixStream>, count: usize) {
    for _ in 0..count {
        let completion = client.receive().unwrap();
        assert!(completion.result.is_ok(), "{:?}", completion.result);
    }
}

/// How many requests wait for the limits of the volume.
fn waiting(control: &mut Control) -> usize {
    let status = control.status().unwrap();
    status.volumes.iter().find(|v| v.name == "a").map_or(0, |v| v.requests_limited)
}

fn until_waiting(control: &mut Control, is: impl Fn(usize) -> bool) {
    let begun = Instant::now();
    while !is(waiting(control)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} wait", waiting(control));
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_limit_delays_its_volume_alone_and_fails_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path());
    let mut control = Control::connect(array.dir()).unwrap();
    let shown = set(&mut control, &[("iops", "50")]);
    assert_eq!(shown["volume"]["iops"], "50");
    let (mut limited, mut another) = (open(dir.path(), "a"), open(dir.path(), "a"));
    let took = thread::scope(|scope| {
        let limited = scope.spawn(|| many(&mut limited, 50));
        let another = scope.spawn(|| many(&mut another, 50));
        // The neighbour has its answers while these wait.
        until_waiting(&mut control, |n| n > 0);
        many(&mut open(dir.path(), "b"), 100);
        limited.join().unwrap().max(another.join().unwrap())
    });
    // Two seconds less the tenth of a second that is saved.
    assert!(took >= Duration::from_millis(1850), "both together took {took:?}");
    // Bytes count by themselves, and a long request begins as soon as nothing is owed.
    set(&mut control, &[("iops", "none"), ("bandwidth", "4M")]);
    let begun = Instant::now();
    for n in 0..3 {
        limited.write_at(n << 22, &vec![1; 4 << 20], false).unwrap();
    }
    assert!(begun.elapsed() >= Duration::from_millis(1850), "{:?}", begun.elapsed());
    drop((limited, another));
    drop(control);
    array.shutdown().unwrap();
}

#[test]
fn a_limit_that_is_lifted_lets_go_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path());
    let mut control = Control::connect(array.dir()).unwrap();
    set(&mut control, &[("iops", "1")]);
    let mut client = open(dir.path(), "a");
    let begun = Instant::now();
    send(&mut client, 200);
    until_waiting(&mut control, |n| n > 150);
    set(&mut control, &[("iops", "none")]);
    receive(&mut client, 200);
    assert!(begun.elapsed() < Duration::from_secs(150), "{:?}", begun.elapsed());
    assert_eq!(waiting(&mut control), 0);

    // What waits for one that is gone, waits no more.
    set(&mut control, &[("iops", "1")]);
    send(&mut client, 100);
    until_waiting(&mut control, |n| n > 50);
    drop(client);
    until_waiting(&mut control, |n| n == 0);
    // An array that stops answers what waits first.
    let mut client = open(dir.path(), "a");
    send(&mut client, 100);
    until_waiting(&mut control, |n| n > 50);
    drop(control);
    let receiver = thread::spawn(move || receive(&mut client, 100));
    let begun = Instant::now();
    array.shutdown().unwrap();
    receiver.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(80), "{:?}", begun.elapsed());
}

#[test]
fn hosts_that_name_their_requests_count_too() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path());
    let mut control = Control::connect(array.dir()).unwrap();
    set(&mut control, &[("iops", "1")]);
    let mut host = native(dir.path());
    (1..=60).for_each(|n| write(&mut host, n));
    until_waiting(&mut control, |n| n > 40);
    // It goes, and what it asked is not done later.
    drop(host);
    until_waiting(&mut control, |n| n == 0);
    set(&mut control, &[("iops", "none")]);
    let mut host = native(dir.path());
    write(&mut host, 61);
    host.read_exact(&mut [0; 8]).unwrap();
    drop((host, control));
    array.shutdown().unwrap();
}

fn native(dir: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(dir.join("weft.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let volume = "a".to_string();
    let hello = Hello { from: 1, to: 1, host: 9, oldest: 1, resumes: false, volume };
    stream.write_all(&hello.encode()).unwrap();
    let mut welcome = [0; Welcome::LEN];
    stream.read_exact(&mut welcome).unwrap();
    assert_eq!(Welcome::decode(&welcome).unwrap().0.code, Code::Done);
    stream
}

fn write(host: &mut UnixStream, number: u64) {
    let request = NumberedRequest {
        verb: Verb::Write,
        flags: 0,
        number,
        oldest: 1,
        offset: number * 4096,
        length: 4096,
        after: Vec::new(),
        data: vec![number as u8; 4096].into(),
    };
    host.write_all(&request.encode_head()).unwrap();
    host.write_all(&request.data).unwrap();
}
