//! A whole array as the disk of a virtual machine.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};
use weft_front::nbd::client::Client;
use weft_host::{Array, Control, ControlRequest, Handle, Listen, Spec};

use super::driver::{
    DISCARD, Driver, ENTRIES, FILLED, FLUSH, LONGEST, NAME, NEXT, READ, READ_ONLY, WRITE, ZEROES,
    range,
};

const SIZE: u64 = 8 << 20;

fn start(dir: &Path, more: &[&str]) -> Handle {
    let volumes = vec![("a".into(), SIZE), ("b".into(), SIZE)];
    let spec = Spec { disk_size: Some(32 << 20), volumes, ..Spec::default() };
    let mut listens = vec![Listen::unix(dir.join("nbd.sock"))];
    for address in ["vm.sock", "b.sock=b"].iter().chain(more) {
        let address = format!("vhost-user:{}/{address}", dir.display());
        listens.push(address.parse().unwrap());
    }
    Array::start(dir, &spec, &listens, weft_host::Log::silent()).unwrap().spawn().unwrap()
}

fn pattern(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|n| ((n ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn done(driver: &mut Driver, kind: u32, at: u64, data: &[u8], wanted: usize) -> Vec<u8> {
    let answer = driver.ask(0, kind, at / 512, data, wanted).unwrap();
    assert_eq!(answer.status, 0, "request {kind} at {at}");
    answer.data
}

fn status(driver: &mut Driver, kind: u32, sector: u64, data: &[u8], wanted: usize) -> u8 {
    driver.ask(0, kind, sector, data, wanted).unwrap().status
}

#[test]
fn a_disk_does_what_virtio_says() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &[]);
    for indirect in [false, true] {
        let mut driver = Driver::connect(&dir.path().join("vm.sock"), 2).unwrap();
        driver.indirect = indirect;
        assert_eq!(driver.size().unwrap(), SIZE);
        assert_eq!(driver.features & READ_ONLY, 0);
        assert_eq!(&done(&mut driver, NAME, 0, &[], 20)[..2], b"a\0");
        for (at, len) in [(0, 512), (512, 4096), (64 << 10, 200 << 10), (1 << 20, LONGEST)] {
            let data = pattern(len, at as u32);
            done(&mut driver, WRITE, at, &data, 0);
            assert!(done(&mut driver, READ, at, &[], len) == data, "{len} bytes at {at}");
        }
        done(&mut driver, FLUSH, 0, &[], 0);
        // Hosts by other protocols see the same.
        let stream = UnixStream::connect(dir.path().join("nbd.sock")).unwrap();
        let mut nbd = Client::connect(stream, "a").unwrap();
        assert!(nbd.read_at(1 << 20, LONGEST as u32).unwrap() == pattern(LONGEST, 1 << 20));
        done(&mut driver, ZEROES, 0, &range(2048, 8), 0);
        done(&mut driver, DISCARD, 0, &range(2056, 8), 0);
        assert!(nbd.read_at(1 << 20, 4096).unwrap().iter().all(|b| *b == 0));
        assert_eq!(driver.ask(1, READ, 2064, &[], 512).unwrap().status, 0, "the other queue");
        assert_eq!(status(&mut driver, READ, SIZE / 512, &[], 512), 1, "behind the end");
        assert_eq!(status(&mut driver, WRITE, u64::MAX, &[0; 512], 0), 1);
        assert_eq!(status(&mut driver, READ, 0, &[], 100), 1, "no whole sectors");
        assert_eq!(status(&mut driver, DISCARD, 0, &range(0, u32::MAX), 0), 1, "too long");
        assert_eq!(status(&mut driver, DISCARD, 0, &[0; 32], 0), 2, "two ranges");
        assert_eq!(status(&mut driver, 99, 0, &[], 512), 2, "an unknown request");
        assert_eq!(status(&mut driver, NAME, 0, &[], 0), 0, "no room for a name");
    }
    let mut other = Driver::connect(&dir.path().join("b.sock"), 1).unwrap();
    assert_eq!(&done(&mut other, NAME, 0, &[], 20)[..2], b"b\0");
    assert!(done(&mut other, READ, 0, &[], 4096).iter().all(|b| *b == 0));
    array.stop().unwrap();
}

#[test]
fn snapshots_can_be_read_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &["s.sock=a@s"]);
    let mut driver = Driver::connect(&dir.path().join("vm.sock"), 1).unwrap();
    let before = pattern(4096, 1);
    done(&mut driver, WRITE, 4096, &before, 0);
    assert!(Driver::connect(&dir.path().join("s.sock"), 1).is_err(), "there is none yet");
    let mut control = Control::connect(dir.path()).unwrap();
    let volumes = vec!["a".to_string()];
    control.request(&ControlRequest::VolumeSnapshot { volumes, snapshot: "s".into() }).unwrap();
    done(&mut driver, WRITE, 4096, &pattern(4096, 2), 0);
    let mut old = Driver::connect(&dir.path().join("s.sock"), 1).unwrap();
    assert_ne!(old.features & READ_ONLY, 0);
    assert!(done(&mut old, READ, 4096, &[], 4096) == before);
    for kind in [WRITE, ZEROES] {
        let data = if kind == WRITE { pattern(512, 3) } else { range(0, 8).to_vec() };
        assert_eq!(status(&mut old, kind, 8, &data, 0), 1);
    }
    assert_eq!(status(&mut old, FLUSH, 0, &[], 0), 0);
    array.stop().unwrap();
}

#[test]
fn a_disk_grows_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &[]);
    let mut driver = Driver::connect(&dir.path().join("vm.sock"), 1).unwrap();
    let mut control = Control::connect(dir.path()).unwrap();
    let size = 2 * SIZE;
    control
        .request(&ControlRequest::VolumeResize { name: "a".into(), size, force: false })
        .unwrap();
    driver.wait_for_change().unwrap();
    assert_eq!(driver.size().unwrap(), size);
    done(&mut driver, WRITE, size - 4096, &pattern(4096, 4), 0);
    array.stop().unwrap();
}

#[test]
fn a_restart_costs_a_pause_and_no_request() {
    let dir = tempfile::tempdir().unwrap();
    let mut array = start(dir.path(), &[]);
    let mut driver = Driver::connect(&dir.path().join("vm.sock"), 2).unwrap();
    for round in 0..4_u32 {
        for n in 0..16 {
            for queue in 0..2 {
                let data = pattern(16 << 10, round * 100 + n);
                let sector = u64::from(n) * 32 + 4096 * queue as u64;
                driver.submit(queue, WRITE, sector, &data, 0).unwrap();
                driver.kick(queue).unwrap();
            }
        }
        array.stop().unwrap();
        array = start(dir.path(), &[]);
        for queue in 0..2 {
            while driver.unanswered(queue) > 0 {
                assert_eq!(driver.wait(queue).unwrap().status, 0);
            }
        }
        for n in 0..16 {
            let data = driver.ask(1, READ, u64::from(n) * 32 + 4096, &[], 16 << 10).unwrap().data;
            assert!(data == pattern(16 << 10, round * 100 + n), "round {round}, write {n}");
        }
    }
    assert!(driver.connects > 4, "{} connections", driver.connects);
    array.stop().unwrap();
}

#[test]
fn a_queue_is_stopped_when_all_of_it_has_been_answered() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &[]);
    let mut driver = Driver::connect(&dir.path().join("vm.sock"), 2).unwrap();
    let mut asked = 0;
    for _ in 0..20 {
        for n in 0..16 {
            driver.submit(0, WRITE, n * 8, &[7; 4096], 0).unwrap();
        }
        asked += 16;
        driver.kick(0).unwrap();
        let base = driver.stop(0).unwrap();
        let mut answered = 0;
        while let Some(answer) = driver.next(0) {
            assert_eq!(answer.status, 0);
            answered += 1;
        }
        // All requests taken are answered, and nothing is answered later.
        assert_eq!(base, asked - 16 + answered);
        driver.start(0).unwrap();
        while driver.unanswered(0) > 0 {
            assert_eq!(driver.wait(0).unwrap().status, 0);
        }
    }
    array.stop().unwrap();
}

/// Waits until the process has closed a connection.
fn is_closed(socket: &UnixStream) -> bool {
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    matches!((&*socket).read(&mut [0; 64]), Ok(0) | Err(_))
}

#[test]
fn what_makes_no_sense_ends_a_queue_or_a_connection_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vm.sock");
    let array = start(dir.path(), &[]);
    let mut good = Driver::connect(&path, 1).unwrap();
    // Messages: too long; unknown; cut off; in pieces.
    for message in [
        [&1_u32.to_ne_bytes()[..], &1_u32.to_ne_bytes(), &u32::MAX.to_ne_bytes()].concat(),
        [&999_u32.to_ne_bytes()[..], &1_u32.to_ne_bytes(), &0_u32.to_ne_bytes()].concat(),
        [&8_u32.to_ne_bytes()[..], &1_u32.to_ne_bytes(), &8_u32.to_ne_bytes(), &[255; 8]].concat(),
        vec![0; 12],
    ] {
        let socket = UnixStream::connect(&path).unwrap();
        for byte in &message {
            if send(&socket, std::slice::from_ref(byte), SendFlags::NOSIGNAL).is_err() {
                break;
            }
        }
        assert!(is_closed(&socket), "{message:x?}");
    }
    // One that never takes its replies makes nobody wait.
    let deaf = UnixStream::connect(&path).unwrap();
    let question = [1_u32, 1, 0].map(u32::to_ne_bytes).concat();
    deaf.set_nonblocking(true).unwrap();
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(2)
        && send(&deaf, &question, SendFlags::NOSIGNAL).is_ok()
    {}
    assert_eq!(good.size().unwrap(), SIZE);
    // Rings.
    let mut random = fastrand::Rng::with_seed(51);
    for case in 0..40 {
        let mut bad = Driver::connect(&dir.path().join("b.sock"), 1).unwrap();
        for index in 0..ENTRIES {
            let at = if random.bool() { 1 << 30 | random.u64(0..1 << 20) } else { random.u64(..) };
            let any = random.u16(..);
            let flags = random.choice([0, NEXT, FILLED, NEXT | FILLED, any]).unwrap();
            bad.describe(0, index, at, random.u32(0..5000), flags, random.u16(0..ENTRIES + 2));
        }
        for _ in 0..random.u16(1..ENTRIES) {
            bad.offer(0, random.u16(0..ENTRIES + 2));
        }
        if case % 4 == 0 {
            bad.say_available(0, random.u16(..));
        }
        bad.kick(0).unwrap();
        assert_eq!(bad.size().unwrap(), SIZE, "messages are still heard");
        done(&mut good, WRITE, 0, &pattern(4096, case), 0);
        assert!(done(&mut good, READ, 0, &[], 4096) == pattern(4096, case));
    }
    drop(deaf);
    array.stop().unwrap();
    assert!(!fs::exists(&path).unwrap());
}
