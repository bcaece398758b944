//! An array over iSCSI: sessions that take the place of others, volumes for one host at a time, and where targets are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use weft_host::{Array, Control, ControlRequest as Command, Doors, Handle, Listen, Spec};

fn start(dir: &Path, more: &[&str]) -> Handle {
    start_with(dir, more, &Doors { no_auth: true, ..Doors::default() })
}

fn start_with(dir: &Path, more: &[&str], doors: &Doors) -> Handle {
    let volumes = vec![("a".into(), 8 << 20), ("b".into(), 4 << 20)];
    let spec = Spec { disk_size: Some(16 << 20), volumes, ..Spec::default() };
    let own = format!("iscsi:{}", dir.join("iscsi.sock").display());
    let listens = [own.as_str()].into_iter().chain(more.iter().copied());
    let listens: Vec<Listen> = listens.map(|text| text.parse().unwrap()).collect();
    let array = Array::start(dir, &spec, &listens, weft_host::Log::silent()).unwrap();
    array.with_doors(doors).unwrap().spawn().unwrap()
}

/// The names of the targets of both volumes, and where hosts can connect.
fn found(dir: &Path) -> (Vec<String>, Vec<String>) {
    let status = Control::connect(dir).unwrap().status().unwrap();
    (status.volumes.into_iter().map(|v| v.iscsi_target).collect(), status.listens)
}

/// A unit: its header, and its data.
type Unit = ([u8; 48], Vec<u8>);

struct Initiator<S> {
    stream: S,
    number: u32,
}

impl<S: Read + Write> Initiator<S> {
    /// Says who it is. Comes back with how that ended.
    fn login(stream: S, isid: u8, keys: &str) -> (Initiator<S>, u16) {
        let mut initiator = Initiator { stream, number: 1 };
        let mut head = [0; 48];
        (head[0], head[1], head[8], head[13]) = (0x43, 0x87, 0x80, isid);
        head[24..28].copy_from_slice(&1_u32.to_be_bytes());
        initiator.send(head, format!("InitiatorName=iqn.1999-01.example:h\0{keys}").as_bytes());
        let (answer, _) = initiator.receive().unwrap();
        (initiator, u16::from_be_bytes([answer[36], answer[37]]))
    }

    fn send(&mut self, mut head: [u8; 48], data: &[u8]) {
        head[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        let padding = vec![0; data.len().next_multiple_of(4) - data.len()];
        self.stream.write_all(&[&head, data, &padding].concat()).unwrap();
    }

    /// The next unit; nothing at the end of the connection.
    fn receive(&mut self) -> Option<Unit> {
        let mut head = [0; 48];
        self.stream.read_exact(&mut head).ok()?;
        let len = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        let mut data = vec![0; len.next_multiple_of(4)];
        self.stream.read_exact(&mut data).ok()?;
        data.truncate(len);
        Some((head, data))
    }

    /// A command with its data, and its answer.
    fn command(&mut self, flags: u8, cdb: &[u8], expected: u16, data: &[u8]) -> Unit {
        let mut head = [0; 48];
        (head[0], head[1], head[19]) = (1, 0x80 | flags, self.number as u8);
        head[22..24].copy_from_slice(&expected.to_be_bytes());
        head[24..28].copy_from_slice(&self.number.to_be_bytes());
        head[32..32 + cdb.len()].copy_from_slice(cdb);
        self.number += 1;
        self.send(head, data);
        self.receive().unwrap()
    }

    /// The event of an asynchronous message, and its second and third parameter.
    fn event(&mut self) -> [u8; 3] {
        let (head, _) = self.receive().expect("a message");
        assert_eq!((head[0], &head[16..20]), (0x32, &[0xff; 4][..]));
        [head[36], head[41], head[43]]
    }

    /// The sense key, code and qualifier of a command that fails.
    fn sense(&mut self, flags: u8, cdb: &[u8], data: &[u8]) -> [u8; 3] {
        let (head, sense) = self.command(flags, cdb, data.len() as u16, data);
        assert_eq!(head[3], 2, "{sense:?}");
        [sense[4], sense[14], sense[15]]
    }

    /// TARGET COLD RESET, which is answered.
    fn resets_coldly(&mut self) {
        let mut head = [0; 48];
        (head[0], head[1], head[19]) = (0x42, 0x80 | 7, 0xee);
        head[24..28].copy_from_slice(&self.number.to_be_bytes());
        self.send(head, &[]);
        let (answer, _) = self.receive().expect("an answer");
        assert_eq!((answer[0], answer[2]), (0x22, 0), "the function is complete");
    }

    fn write(&mut self, block: u8, data: &[u8]) -> u8 {
        let count = (data.len() / 512) as u8;
        self.command(0x20, &[0x2a, 8, 0, 0, 0, block, 0, 0, count], data.len() as u16, data).0[3]
    }

    fn read(&mut self, block: u8, count: u8) -> Vec<u8> {
        let expected = u16::from(count) * 512;
        self.command(0x40, &[0x28, 0, 0, 0, 0, block, 0, 0, count], expected, &[]).1
    }
}

fn connect(dir: &Path) -> UnixStream {
    UnixStream::connect(dir.join("iscsi.sock")).unwrap()
}

#[test]
fn what_one_session_writes_another_reads() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir, &[]);
    let (targets, _) = found(dir);
    let [a, b] = [&targets[0], &targets[1]].map(|target| format!("TargetName={target}\0"));
    let (mut one, status) = Initiator::login(connect(dir), 1, &a);
    assert_eq!(status, 0);
    let data: Vec<u8> = (0..4096_u32).map(|n| (n * 7 / 3) as u8).collect();
    assert_eq!(one.write(9, &data), 0);
    let (mut other, _) = Initiator::login(connect(dir), 2, &a);
    assert_eq!(other.read(9, 8), data);
    assert_eq!(other.read(17, 1), [0; 512]);
    // Several steps: what was written is verified, and unmapped after.
    let verify = [0x2f, 2, 0, 0, 0, 9, 0, 0, 8];
    assert_eq!(other.command(0x20, &verify, 4096, &data).0[3], 0);
    assert_eq!(other.command(0x20, &verify, 4096, &[1; 4096]).0[3], 2);
    let list = [&[0, 22, 0, 16, 0, 0, 0, 0][..], &[0; 7], &[9, 0, 0, 0, 4, 0, 0, 0, 0]].concat();
    assert_eq!(other.command(0x20, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24], 24, &list).0[3], 0);
    assert_eq!(one.read(9, 8), [&[0; 2048], &data[2048..]].concat());
    assert_eq!(one.command(0, &[0x35], 0, &[]).0[3], 0, "a flush");
    // The other volume has another name, and other content.
    let (mut third, _) = Initiator::login(connect(dir), 1, &b);
    assert_eq!(third.read(9, 8), [0; 4096]);
    assert_eq!(one.read(17, 1), [0; 512], "a session with another target is another session");
    let strange = Initiator::login(connect(dir), 1, "TargetName=iqn.2026-11.weft:a\0");
    assert_eq!(strange.1, 0x0203);
    array.shutdown().unwrap();
}

/// TARGET COLD RESET: all connections to the target end, and none to another. One that may only read resets itself alone.
#[test]
fn a_cold_reset_ends_the_connections_of_its_target() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir, &[]);
    let (targets, _) = found(dir);
    let [a, b] = [&targets[0], &targets[1]].map(|target| format!("TargetName={target}\0"));
    let login = |isid, target: &str| Initiator::login(connect(dir), isid, target).0;
    let (mut one, mut other, mut elsewhere) = (login(1, &a), login(2, &a), login(3, &b));
    assert_eq!(one.write(0, &[7; 512]), 0);
    one.resets_coldly();
    for session in [&mut one, &mut other] {
        assert_eq!(session.event()[0], 3, "it is dropped");
        assert!(session.receive().is_none());
    }
    assert_eq!(elsewhere.write(0, &[8; 512]), 0);
    assert_eq!(login(1, &a).read(0, 1), [7; 512]);
    let mut control = Control::connect(array.dir()).unwrap();
    let take = Command::VolumeSnapshot { volumes: vec!["a".into()], snapshot: "s".into() };
    control.request(&take).unwrap();
    let picture = control.request(&Command::VolumeShow { name: "a@s".into() }).unwrap();
    let picture = picture["volume"]["iscsi_target"].as_str().unwrap().to_string();
    let picture = format!("TargetName={picture}\0");
    let (mut one, mut other) = (login(1, &picture), login(2, &picture));
    one.resets_coldly();
    assert_eq!(one.event()[0], 3);
    assert_eq!(other.read(0, 1), [7; 512]);
    array.shutdown().unwrap();
}

#[test]
fn a_session_takes_the_place_of_its_namesake() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir, &[]);
    let target = format!("TargetName={}\0", found(dir).0[0]);
    let login = |isid| Initiator::login(connect(dir), isid, &target);
    let (mut one, _) = login(1);
    let (mut two, _) = login(2);
    assert_eq!(one.write(0, &[1; 512]), 0);
    let (mut again, status) = login(1);
    assert_eq!(status, 0);
    assert!(one.receive().is_none(), "the old one has ended");
    assert_eq!((again.read(0, 1), two.read(0, 1)), (vec![1; 512], vec![1; 512]));
    // A volume that nothing orders the requests of is for one host; a new session of that host is let in.
    drop(two);
    let set = |volume: &str| {
        let set = [("ordering".to_string(), "none".to_string())].into();
        let command = Command::VolumeSet { name: volume.into(), set, force: false, range: None };
        Control::connect(dir).unwrap().request(&command)
    };
    while set("a").is_err() {
        std::thread::yield_now();
    }
    let (mut again, status) = {
        drop(again);
        login(1)
    };
    assert_eq!((status, again.read(0, 1)), (0, vec![1; 512]));
    assert_eq!(login(2).1, 0x0202, "there is one already");
    let (mut new, status) = login(1);
    assert_eq!((status, new.read(0, 1)), (0, vec![1; 512]));
    assert!(again.receive().is_none());
    array.shutdown().unwrap();
}

#[test]
fn where_other_machines_connect_nobody_comes_in_unproved() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start_with(dir, &["iscsi:127.0.0.1:0", "iscsi:0.0.0.0:0"], &Doors::default());
    let (targets, listens) = found(dir);
    for (uri, expected) in [(&listens[1], 0), (&listens[2], 0x0201)] {
        let port = uri.rsplit_once(':').unwrap().1.parse().unwrap();
        for keys in ["SessionType=Discovery\0", &format!("TargetName={}\0", targets[0])] {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            assert_eq!(Initiator::login(stream, 1, keys).1, expected, "{uri} {keys}");
        }
    }
    let logins = Control::connect(dir).unwrap().status().unwrap().logins;
    assert_eq!((logins.accepted, logins.refused["chap"]), (1, 2));
    array.shutdown().unwrap();
}

#[test]
fn discovery_names_where_one_can_connect() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir, &["iscsi:127.0.0.1:0", "iscsi:0.0.0.0:0", "127.0.0.1:0"]);
    let (targets, listens) = found(dir);
    let port = |uri: &str| uri.rsplit_once(':').unwrap().1.to_string();
    let (loopback, any) = (port(&listens[1]), port(&listens[2]));
    let stream = TcpStream::connect(("127.0.0.1", any.parse().unwrap())).unwrap();
    let (mut initiator, status) = Initiator::login(stream, 1, "SessionType=Discovery\0");
    assert_eq!(status, 0);
    let mut head = [0; 48];
    (head[0], head[1]) = (0x44, 0x80);
    head[20..24].fill(0xff);
    initiator.send(head, b"SendTargets=All\0");
    let text = String::from_utf8(initiator.receive().unwrap().1).unwrap();
    let portals =
        format!("TargetAddress=127.0.0.1:{any},1\0TargetAddress=127.0.0.1:{loopback},1\0");
    let listed = |target: &String| format!("TargetName={target}\0{portals}");
    assert_eq!(text, targets.iter().map(listed).collect::<String>());
    array.shutdown().unwrap();
}

#[test]
fn a_snapshot_is_write_protected_and_found_by_its_name_only() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir, &[]);
    let mut control = Control::connect(dir).unwrap();
    let volumes = vec!["a".to_string()];
    control.request(&Command::VolumeSnapshot { volumes, snapshot: "s".into() }).unwrap();
    let (targets, _) = found(dir);
    let snapshot = targets.iter().find(|target| target.contains(":a.s:")).unwrap();
    let (mut initiator, status) =
        Initiator::login(connect(dir), 1, &format!("TargetName={snapshot}\0"));
    assert_eq!(status, 0);
    assert_eq!(initiator.read(0, 8), [0; 4096]);
    // DATA PROTECT, WRITE PROTECTED.
    let write = [0x2a, 8, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(initiator.sense(0x20, &write, &[1; 512]), [7, 0x27, 0]);
    let (_, pages) = initiator.command(0x40, &[0x1a, 0, 0x3f, 0, 255], 255, &[]);
    assert_eq!(pages[2] & 0x80, 0x80, "the mode pages say so");
    let (mut initiator, _) = Initiator::login(connect(dir), 2, "SessionType=Discovery\0");
    let mut head = [0; 48];
    (head[0], head[1]) = (0x44, 0x80);
    head[20..24].fill(0xff);
    initiator.send(head, b"SendTargets=All\0");
    let text = String::from_utf8(initiator.receive().unwrap().1).unwrap();
    assert!(text.contains(&targets[0]) && !text.contains(snapshot), "{text}");
    array.shutdown().unwrap();
}

#[test]
fn hosts_are_asked_to_leave_before_an_array_stops() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir, &[]);
    let target = format!("TargetName={}\0", found(dir).0[0]);
    let login = |isid| Initiator::login(connect(dir), isid, &target);
    let [(mut one, _), (mut two, _)] = [login(1), login(2)];
    let stopped = std::thread::spawn(|| array.shutdown());
    assert_eq!((one.event(), two.event()), ([1, 0, 2], [1, 0, 2]));
    // Those that are in are still served, and nobody else is let in.
    assert_eq!(one.write(3, &[7; 512]), 0);
    assert_eq!(login(3).1, 0x0301, "there is no other process");
    assert_eq!(two.read(3, 1), [7; 512]);
    let mut head = [0; 48];
    (head[0], head[1]) = (0x46, 0x80);
    one.send(head, &[]);
    assert_eq!(one.receive().map(|(head, _)| (head[0], head[2])), Some((0x26, 0)));
    assert!(one.receive().is_none());
    // The other has had time enough.
    assert_eq!(two.event(), [3, 2, 0]);
    assert!(two.receive().is_none());
    stopped.join().unwrap().unwrap();
}

#[test]
fn a_host_is_told_that_its_connection_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir, &["iscsi:127.0.0.1:0"]);
    let (targets, listens) = found(dir);
    let target = format!("TargetName={}\0", targets[0]);
    let address = listens[1].rsplit_once('/').unwrap().1.to_string();
    let (mut host, _) = Initiator::login(TcpStream::connect(address).unwrap(), 1, &target);
    assert_eq!(host.write(3, &[7; 512]), 0);
    let (address, volume) = (Some("127.0.0.1".to_string()), None);
    let disconnect = Command::HostDisconnect { address, volume };
    Control::connect(dir).unwrap().request(&disconnect).unwrap();
    assert_eq!(host.event(), [3, 2, 0]);
    assert!(host.receive().is_none());
    array.shutdown().unwrap();
}

#[test]
fn a_command_that_a_volume_stops_offering_is_unknown_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir, &[]);
    let target = format!("TargetName={}\0", found(dir).0[0]);
    let (mut host, _) = Initiator::login(connect(dir), 1, &target);
    let compare_and_write = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0];
    let data = [[0; 512], [7; 512]].concat();
    assert_eq!(host.command(0x20, &compare_and_write, 1024, &data).0[3], 0);
    let set = [("ordering".to_string(), "device-locks".to_string())].into();
    let command = Command::VolumeSet { name: "a".into(), set, force: false, range: None };
    Control::connect(dir).unwrap().request(&command).unwrap();
    assert_eq!(host.sense(0, &[0], &[]), [6, 0x3f, 3], "it is told that the unit has changed");
    assert_eq!(host.sense(0x20, &compare_and_write, &data), [5, 0x20, 0]);
    assert_eq!(host.read(3, 1), [7; 512]);
    array.shutdown().unwrap();
}
