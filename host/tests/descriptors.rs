//! What happens when descriptors run out. The limit is that of the whole process, so this is a process
//! of its own.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use weft_front::nbd::client::Client;
use weft_host::{Array, Control, ControlRequest, Listen, NodeAction, Spec};

const LIMIT: u64 = 200;

fn connect(dir: &Path) -> UnixStream {
    let stream = UnixStream::connect(dir.join("nbd.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn is_refused(stream: &mut UnixStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(n) => n == 0,
        Err(e) => e.kind() == ErrorKind::ConnectionReset,
    }
}

/// Hosts are refused while commands still come in; when all descriptors are gone nobody is let in, and
/// as soon as there are some whoever waits is.
#[test]
fn an_array_outlives_the_want_of_descriptors() {
    let limit = Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
    let listens = [Listen::unix(dir.path().join("nbd.sock"))];
    let log = weft_host::Log::new(move |_, line| kept.lock().unwrap().push(line.to_string()));
    let array = Array::start(dir.path(), &spec, &listens, log).unwrap().spawn().unwrap();
    let mut control = Control::connect(array.dir()).unwrap();

    let mut hosts = vec![Client::connect(connect(dir.path()), "").unwrap()];
    while let Ok(host) = Client::connect(connect(dir.path()), "") {
        hosts.push(host);
    }
    assert!(hosts.len() > 10 && (hosts.len() as u64) < LIMIT / 2, "{} hosts", hosts.len());
    assert!(is_refused(&mut connect(dir.path())));
    for action in [NodeAction::Kill, NodeAction::Start] {
        let mut another = Control::connect(array.dir()).unwrap();
        another.request(&ControlRequest::Node { action, node: 3 }).unwrap();
    }
    hosts[0].write_at(0, &[1; 4096], true).unwrap();

    // Not one is left but that of the client's end.
    let mut gone: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    gone.pop();
    let mut waits = UnixStream::connect(dir.path().join("control.sock")).unwrap();
    waits.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let says = |what: &str| lines.lock().unwrap().iter().any(|l: &String| l.contains(what));
    while !says("cannot accept a connection") {
        thread::sleep(Duration::from_millis(5));
    }
    drop(gone);
    waits.write_all(b"{\"cmd\":\"volume-list\"}\n").unwrap();
    assert_eq!(waits.read(&mut [0; 10]).unwrap(), 10, "it was let in later");
    assert!(says("ulimit -n"));
    drop(hosts);
    let served = (0..1000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        Client::connect(connect(dir.path()), "").is_ok()
    });
    assert!(served, "hosts are not served again");
    control.request(&ControlRequest::Quiesce).unwrap();
    drop(control);
    array.shutdown().unwrap();
}
