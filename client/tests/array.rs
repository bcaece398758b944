//! The client against a whole array, over its sockets.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_client::{ErrorKind, Id, Op, Options, Volume};
use weft_host::{Array, Control, ControlRequest, Handle, Listen, NodeAction, Setting, Spec};

fn spec() -> Spec {
    Spec {
        disk_size: Some(16 << 20),
        volumes: vec![("a".into(), 8 << 20), ("b".into(), 4 << 20)],
        ..Spec::default()
    }
}

fn start(dir: &Path, spec: &Spec) -> Handle {
    let listens = [Listen::native_unix(dir.join("weft.sock")), Listen::native_tcp("127.0.0.1:0")];
    Array::start(dir, spec, &listens, weft_host::Log::silent()).unwrap().spawn().unwrap()
}

fn socket(dir: &Path) -> String {
    dir.join("weft.sock").to_str().unwrap().to_string()
}

fn open(dir: &Path) -> Volume {
    Volume::open(&[socket(dir)], "a").unwrap()
}

fn read(volume: &Volume, offset: u64, length: u32) -> Vec<u8> {
    volume.read(offset, length, &[]).unwrap().wait().unwrap().to_vec()
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn an_nbd_address_is_called_what_it_is_however_its_connection_ends() {
    let dir = tempfile::tempdir().unwrap();
    let listens = [Listen::unix(dir.path().join("nbd.sock")), Listen::tcp("127.0.0.1:0")];
    let log = weft_host::Log::silent();
    let array = Array::start(dir.path(), &spec(), &listens, log).unwrap().spawn().unwrap();
    let tcp = array.listens()[1].strip_prefix("nbd://").unwrap().to_string();
    let unix = dir.path().join("nbd.sock").to_str().unwrap().to_string();
    for address in [unix, tcp].iter().cycle().take(40) {
        let refused = Volume::open(&[address], "a").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Protocol, "{refused}");
        assert!(refused.to_string().contains("the other end uses NBD"), "{refused}");
    }
}

#[test]
fn a_server_that_greets_and_hangs_up_on_a_hello_is_called_what_it_is() {
    use std::io::Write;
    use std::net::TcpListener;
    // The hello is left unread, and the greeting is lost with the connection.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            thread::spawn(move || {
                // Who says hello first hears nothing.
                socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
                if !socket.peek(&mut [0]).is_ok_and(|n| n > 0) {
                    socket.write_all(b"NBDMAGICIHAVEOPT\0\x03").unwrap();
                    socket.set_read_timeout(None).unwrap();
                    let _ = socket.peek(&mut [0]);
                }
            });
        }
    });
    let refused = Volume::open(&[address], "a").unwrap_err();
    assert!(refused.to_string().contains("the other end uses NBD"), "{refused}");
}

#[test]
fn everything_can_be_asked_by_socket_and_by_tcp() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let addresses = array.listens().to_vec();
    assert!(addresses[0].starts_with("weft+unix:///") && addresses[1].starts_with("weft://"));
    for address in &addresses {
        let volume = Volume::open(&[address], "a").unwrap();
        assert_eq!(volume.size(), 8 << 20);
        let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let write = volume.write(12_345, data.clone(), &[]).unwrap();
        let flush = volume.flush(&[write.id()]).unwrap();
        let read_after = volume.read(12_345, 3_000_000, &[write.id(), flush.id()]).unwrap();
        assert!(read_after.wait().unwrap() == data);
        assert_eq!((flush.wait(), write.wait()), (Ok(Default::default()), Ok(Default::default())));
        volume.write_zeroes(20_000, 5_000, &[]).unwrap().wait().unwrap();
        assert_eq!(read(&volume, 19_999, 5_002)[1..5_001], [0; 5_000]);
        volume.trim(0, 1 << 20, &[]).unwrap().wait().unwrap();
        let durable = volume.submit(Op::WriteDurable(0, vec![9; 10].into()), &[]).unwrap();
        durable.wait().unwrap();
        assert_eq!(read(&volume, 0, 10), [9; 10]);
        assert_eq!(read(&volume, 6 << 20, 100_000), vec![0; 100_000], "never written");
    }
    array.shutdown().unwrap();
}

#[test]
fn completions_are_futures() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let bytes = block_on(async {
        let volume = Volume::opening(&[socket(dir.path())], "b", Options::default())?.await?;
        let write = volume.write(0, "hello", &[])?;
        let id = write.id();
        volume.room().await;
        let bytes = volume.read(0, 5, &[id])?.await?;
        write.await?;
        Ok::<_, weft_client::Error>(bytes)
    });
    assert_eq!(&bytes.unwrap()[..], b"hello");
    array.shutdown().unwrap();
}

#[test]
fn an_abort_cascades_and_says_because_of_which() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let volume = open(dir.path());
    let first = volume.write(0, vec![1; 4096], &[]).unwrap();
    let beyond = volume.write(8 << 20, vec![2; 4096], &[first.id()]).unwrap();
    let second = volume.write(4096, vec![3; 4096], &[beyond.id()]).unwrap();
    let third = volume.write(8192, vec![4; 4096], &[first.id(), second.id()]).unwrap();
    let apart = volume.write(12288, vec![5; 4096], &[first.id()]).unwrap();
    let (beyond_id, second_id) = (beyond.id(), second.id());
    let error = third.wait().unwrap_err();
    assert_eq!((error.kind(), error.because()), (ErrorKind::Aborted, Some(beyond_id)), "the root");
    let error = second.wait().unwrap_err();
    assert_eq!((error.kind(), error.because()), (ErrorKind::Aborted, Some(beyond_id)));
    assert_eq!(beyond.wait().unwrap_err().kind(), ErrorKind::OutOfRange);
    first.wait().unwrap();
    apart.wait().unwrap();
    let late = volume.write(4096, vec![6; 4096], &[second_id]).unwrap();
    assert_eq!(late.wait().unwrap_err().because(), Some(beyond_id));
    assert_eq!(read(&volume, 4096, 8192), vec![0; 8192], "neither was done");
    assert_eq!(read(&volume, 12288, 1), [5]);
    let stranger = Id { host: volume.host() ^ 1, number: 1 };
    let refused = volume.write(0, vec![1], &[stranger]).unwrap().wait().unwrap_err();
    assert_eq!((refused.kind(), refused.because()), (ErrorKind::Place, Some(stranger)));
    array.shutdown().unwrap();
}

/// Whether something can be read from a descriptor within 10 s.
fn is_readable(what: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(what, PollFlags::IN)];
    let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
    poll(&mut fds, Some(&limit)).unwrap() == 1
}

#[test]
fn an_event_loop_polls_one_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let volume = open(dir.path());
    let ended = volume.ended().unwrap();
    assert_eq!(ended.take(), None);
    let mut waiting: BTreeMap<Id, _> = (0..100)
        .map(|n| volume.write(n * 4096, vec![1; 4096], &[]).unwrap())
        .map(|write| (write.id(), write))
        .collect();
    let all = volume.submit_after_all(Op::Flush).unwrap();
    waiting.insert(all.id(), all);
    while !waiting.is_empty() {
        assert!(is_readable(&ended), "{} have not ended", waiting.len());
        while let Some(id) = ended.take() {
            let end = waiting.remove(&id).expect("each is told once");
            assert_eq!(end.get().expect("it has ended"), Ok(Default::default()));
            assert!(id.number < 101 || waiting.is_empty(), "the barrier ends last");
        }
    }
    array.shutdown().unwrap();
}

#[test]
fn waiting_ends_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let volume = open(dir.path());
    let first = volume.write(0, vec![1; 4096], &[]).unwrap();
    assert_eq!(first.wait_for(Duration::from_secs(10)), Some(Ok(Default::default())));
    assert_eq!(
        first.wait_for(Duration::ZERO),
        Some(Ok(Default::default())),
        "as often as one likes"
    );
    array.shutdown().unwrap();
    let late = volume.write(0, vec![2; 4096], &[]).unwrap();
    assert_eq!(late.wait_for(Duration::from_millis(20)), None, "nobody is there");
}

fn ordered_by(ordering: &str) -> Spec {
    Spec { policy: vec![Setting::Ordering(ordering.parse().unwrap())], ..spec() }
}

/// Nodes die and come back, and the array is restarted, under a host that writes a chain: each
/// after the one before.
fn goes_on(ordering: &str) {
    let dir = tempfile::tempdir().unwrap();
    let spec = ordered_by(ordering);
    let mut array = Some(start(dir.path(), &spec));
    let volume = open(dir.path());
    let writer = volume.clone();
    let end = Instant::now() + Duration::from_secs(3);
    let work = thread::spawn(move || {
        let (mut n, mut last, mut pending) = (0_u64, None, Vec::new());
        while Instant::now() < end {
            let after: Vec<Id> = last.into_iter().collect();
            let block = vec![(n % 255) as u8 + 1; 4096];
            let write = writer.write(n % 200 * 4096, block, &after).unwrap();
            last = Some(write.id());
            pending.push(write);
            n += 1;
            if pending.len() > 100 {
                pending.remove(0).wait().unwrap();
            }
        }
        pending.into_iter().for_each(|p| drop(p.wait().unwrap()));
        n
    });
    let mut control = Control::connect(dir.path()).unwrap();
    for victim in [1, 3] {
        thread::sleep(Duration::from_millis(300));
        control.request(&ControlRequest::Node { action: NodeAction::Kill, node: victim }).unwrap();
        thread::sleep(Duration::from_millis(200));
        control.request(&ControlRequest::Node { action: NodeAction::Start, node: victim }).unwrap();
        control.request(&ControlRequest::Quiesce).unwrap_or_default();
    }
    for _ in 0..2 {
        thread::sleep(Duration::from_millis(300));
        array.take().unwrap().stop().unwrap();
        thread::sleep(Duration::from_millis(100));
        array = Some(start(dir.path(), &spec));
    }
    let n = work.join().unwrap();
    assert!(n > 200, "{n} writes");
    for m in n - 200..n {
        let expected = vec![(m % 255) as u8 + 1; 4096];
        assert_eq!(read(&volume, m % 200 * 4096, 4096), expected, "{m} of {n}");
    }
    array.unwrap().shutdown().unwrap();
}

#[test]
fn a_host_goes_on_over_nodes_that_die_and_an_array_that_is_restarted() {
    goes_on("timestamps");
}

#[test]
fn a_host_goes_on_where_there_is_a_sequencer() {
    goes_on("sequencer");
}

#[test]
fn with_a_sequencer_requests_come_after_those_of_other_hosts() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &ordered_by("sequencer"));
    let (one, other) = (open(dir.path()), open(dir.path()));
    for n in 1..100_u64 {
        let first = one.write(n * 4096, vec![n as u8; 4096], &[]).unwrap();
        let second = other.read(n * 4096, 4096, &[first.id()]).unwrap();
        // Not sent yet: its name is known all the same.
        let later = Id { host: one.host(), number: first.id().number + 1 };
        let third = other.read(0, 4096, &[later]).unwrap();
        let fourth = one.write(0, vec![n as u8; 4096], &[second.id()]).unwrap();
        assert_eq!(fourth.id(), later);
        assert_eq!(third.wait().unwrap(), vec![n as u8; 4096]);
        assert_eq!(second.wait().unwrap(), vec![n as u8; 4096]);
        first.wait().unwrap();
        fourth.wait().unwrap();
    }
    array.shutdown().unwrap();
}

/// Also if it is refused by the client, which does not ask the array.
#[test]
fn with_a_sequencer_what_names_another_hosts_refused_request_is_aborted() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &ordered_by("sequencer"));
    let (one, other) = (open(dir.path()), open(dir.path()));
    let beyond = one.write(8 << 20, vec![1; 4096], &[]).unwrap();
    let beyond_id = beyond.id();
    assert_eq!(beyond.wait().unwrap_err().kind(), ErrorKind::OutOfRange);
    let refused = one.write(0, vec![2; 4096], &[beyond_id]).unwrap();
    let (refused_id, error) = (refused.id(), refused.wait().unwrap_err());
    assert_eq!((error.kind(), error.because()), (ErrorKind::Aborted, Some(beyond_id)));
    // The host goes on, so that the array hears of a later one of its requests.
    one.write(4096, vec![3; 4096], &[]).unwrap().wait().unwrap();
    let follows = other.write(8192, vec![4; 4096], &[refused_id]).unwrap();
    let error = follows.wait().unwrap_err();
    assert_eq!((error.kind(), error.because()), (ErrorKind::Aborted, Some(refused_id)));
    assert_eq!(read(&other, 0, 12288), [vec![0; 4096], vec![3; 4096], vec![0; 4096]].concat());
    array.shutdown().unwrap();
}

#[test]
fn a_node_takes_so_much_and_says_when_it_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let volume = open(dir.path());
    let limits = volume.limits();
    let (mut taken, mut full) = (Vec::new(), 0);
    for _ in 0..10 {
        match volume.try_submit(Op::Read(0, limits.request_bytes), &[]) {
            Ok(read) => taken.push(read),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Full);
                full += 1;
            }
        }
    }
    assert!(full > 0 && taken.len() >= 2, "{} taken, {full} not", taken.len());
    for _ in 0..20 {
        // This waits for room instead.
        taken.push(volume.read(0, limits.request_bytes, &[]).unwrap());
    }
    for read in taken {
        assert_eq!(read.wait().unwrap().len(), limits.request_bytes as usize);
    }
    let long = volume.read(0, limits.request_bytes + 1, &[]).unwrap_err();
    assert_eq!(long.kind(), ErrorKind::Invalid);
    array.shutdown().unwrap();
}

#[test]
fn what_cannot_be_opened_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let none = Volume::open(&[socket(dir.path())], "c").unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NoVolume);
    assert!(none.to_string().contains("there are: a, b"), "{none}");
    let options = Options { open_patience: Duration::from_millis(100), ..Options::default() };
    let nobody: PathBuf = dir.path().join("nobody.sock");
    let nobody = nobody.to_str().unwrap();
    let unreachable = Volume::opening(&[nobody], "a", options).unwrap().wait().unwrap_err();
    assert_eq!(unreachable.kind(), ErrorKind::Unreachable);
    assert!(unreachable.to_string().contains("nobody.sock"), "{unreachable}");
    let second = Volume::open(&[nobody, &socket(dir.path())], "a").unwrap();
    assert_eq!(read(&second, 0, 1), [0], "another address serves as well");
    array.shutdown().unwrap();
}

#[test]
fn where_nothing_orders_requests_there_is_one_host() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &ordered_by("none"));
    let volume = open(dir.path());
    let refused = Volume::open(&[socket(dir.path())], "a").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SecondWriter);
    assert!(refused.to_string().contains("--force"), "{refused}");
    drop(volume);
    // Its thread says good-bye in its own time.
    let again = (0..100).find_map(|_| {
        thread::sleep(Duration::from_millis(20));
        Volume::open(&[socket(dir.path())], "a").ok()
    });
    assert!(again.is_some());
    array.shutdown().unwrap();
}
