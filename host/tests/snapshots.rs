//! Snapshots, clones and rollbacks of a whole array, over its sockets.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_front::native::{Answer, Code, Hello, NumberedRequest, Verb, Welcome};
use weft_front::nbd::client::Client;
use weft_host::status::{Status, VolumeMode};
use weft_host::{
    Array, Control, ControlRequest as Command, Handle, HostAction, Listen, Spec, VolumeCreation,
};

fn start(dir: &Path) -> Handle {
    start_with(dir, 32 << 20)
}

fn start_with(dir: &Path, disk: u64) -> Handle {
    let volumes = vec![("a".into(), 4 << 20), ("b".into(), 2 << 20)];
    let spec = Spec { disk_size: Some(disk), volumes, ..Spec::default() };
    let listens = [Listen::unix(dir.join("nbd.sock")), Listen::native_unix(dir.join("weft.sock"))];
    Array::start(dir, &spec, &listens, weft_host::Log::silent()).unwrap().spawn().unwrap()
}

fn open(dir: &Path, name: &str) -> Client<UnixStream> {
    Client::connect(UnixStream::connect(dir.join("nbd.sock")).unwrap(), name).unwrap()
}

/// Whether the export says so.
fn is_read_only(client: &Client<UnixStream>) -> bool {
    client.opened().flags & weft_front::nbd::wire::transmission::READ_ONLY != 0
}

/// What operators ask.
struct Operator(Control);

impl Operator {
    fn of(array: &Handle) -> Operator {
        Operator(Control::connect(array.dir()).unwrap())
    }

    /// The answer, or why it is refused.
    fn ask(&mut self, command: &Command) -> Result<Value, String> {
        self.0.request(command).map_err(|e| e.0)
    }

    fn snapshot(&mut self, volumes: &[&str], name: &str) -> Result<Value, String> {
        let volumes = volumes.iter().map(|name| name.to_string()).collect();
        self.ask(&Command::VolumeSnapshot { volumes, snapshot: name.into() })
    }

    fn clone(&mut self, snapshot: &str, to: &str) -> Result<Value, String> {
        self.ask(&Command::VolumeClone { snapshot: snapshot.into(), to: to.into() })
    }

    fn roll_back(&mut self, name: &str, snapshot: &str) -> Result<Value, String> {
        self.ask(&Command::VolumeRollback { name: name.into(), snapshot: snapshot.into() })
    }

    fn flatten(&mut self, name: &str) -> Result<Value, String> {
        self.ask(&Command::VolumeFlatten { name: name.into() })
    }

    fn delete(&mut self, name: &str, now: bool) -> Result<Value, String> {
        self.ask(&Command::VolumeDelete { name: name.into(), now })
    }

    fn listed(&mut self, snapshots: bool) -> Vec<String> {
        let answer = self.ask(&Command::VolumeList { snapshots }).unwrap();
        let volumes = answer["volumes"].as_array().unwrap();
        volumes.iter().map(|v| v["name"].as_str().unwrap().to_string()).collect()
    }

    fn status(&mut self) -> Status {
        self.0.status().unwrap()
    }

    /// Waits until the map has this number of volumes and snapshots, with deleted ones.
    fn waits_for(&mut self, count: usize) {
        let since = Instant::now();
        while self.status().volumes.len() != count {
            assert!(since.elapsed() < Duration::from_secs(20), "{:?}", self.status().volumes);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_snapshot_keeps_what_volumes_held_and_a_clone_goes_its_own_way() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir);
    let mut operator = Operator::of(&array);
    let (mut a, mut b) = (open(dir, "a"), open(dir, "b"));
    a.write_at(0, &[1; 300_000], false).unwrap();
    b.write_at(4096, &[2; 8192], false).unwrap();
    let taken = operator.snapshot(&["a", "b"], "s").unwrap();
    let names: Vec<&str> = taken["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a@s", "b@s"]);
    let first = &taken["snapshots"][0];
    assert_eq!(first["snapshot_of"], "a");
    assert!(first["taken"].as_str().unwrap().ends_with('Z'), "{first}");
    assert_eq!(
        (operator.listed(false), operator.listed(true)),
        (vec!["a".to_string(), "b".to_string()], vec!["a@s".to_string(), "b@s".to_string()])
    );
    // Hosts write on while they are connected.
    a.write_at(100_000, &[3; 50_000], false).unwrap();
    b.write_at(0, &[4; 8192], false).unwrap();
    let cloned = operator.clone("a@s", "c").unwrap();
    assert_eq!(
        (&cloned["volume"]["below"], &cloned["volume"]["thin"]),
        (&"a@s".into(), &true.into())
    );
    let mut c = open(dir, "c");
    c.write_at(0, &[5; 10_000], false).unwrap();
    let is = |client: &mut Client<UnixStream>, pieces: &[(u64, u32, u8)]| {
        for (offset, len, byte) in pieces {
            let read = client.read_at(*offset, *len).unwrap();
            assert!(read.iter().all(|b| b == byte), "{len} bytes at {offset} are not {byte}");
        }
    };
    is(&mut a, &[(0, 100_000, 1), (100_000, 50_000, 3), (150_000, 150_000, 1)]);
    is(&mut b, &[(0, 8192, 4), (8192, 4096, 2)]);
    is(&mut open(dir, "a@s"), &[(0, 300_000, 1), (300_000, 4096, 0)]);
    is(&mut open(dir, "b@s"), &[(0, 4096, 0), (4096, 8192, 2)]);
    is(&mut c, &[(0, 10_000, 5), (10_000, 290_000, 1)]);
    for client in [a, b, c] {
        client.disconnect().unwrap();
    }
    let back = operator.roll_back("a", "a@s").unwrap();
    assert_eq!(
        (&back["volume"]["below"], &back["volume"]["snapshots"]),
        (&"a@s".into(), &1.into())
    );
    is(&mut open(dir, "a"), &[(0, 300_000, 1)]);
    is(&mut open(dir, "c"), &[(0, 10_000, 5), (10_000, 290_000, 1)]);
    for name in ["a", "b", "c", "a@s"] {
        assert_eq!(operator.ask(&Command::scrub(name)).unwrap()["mismatched"], 0, "{name}");
    }
    array.shutdown().unwrap();
}

/// A clone becomes independent while a host writes to it and snapshots of it are taken; then its snapshot can be deleted.
#[test]
fn a_clone_that_is_flattened_needs_its_snapshot_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir);
    let mut operator = Operator::of(&array);
    let mut a = open(dir, "a");
    a.write_at(0, &[1; 2_000_000], false).unwrap();
    operator.snapshot(&["a"], "s").unwrap();
    operator.clone("a@s", "c").unwrap();
    a.write_at(0, &[2; 500_000], false).unwrap();
    a.disconnect().unwrap();
    let mut c = open(dir, "c");
    c.write_at(100_000, &[3; 100_000], false).unwrap();
    let begun = operator.flatten("c").unwrap();
    assert_eq!(begun["volume"]["name"], "c");
    operator.snapshot(&["c"], "t").unwrap();
    c.write_at(300_000, &[4; 100_000], false).unwrap();
    let since = Instant::now();
    let is_flattened = |status: &Status| {
        let c = status.volumes.iter().find(|v| v.name == "c").unwrap();
        c.flattening.is_none()
    };
    while !is_flattened(&operator.status()) {
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", operator.status().volumes);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(operator.flatten("c").unwrap_err().contains("its own snapshots alone"));
    let status = operator.status();
    let of = |name: &str| status.volumes.iter().find(|v| v.name == name).unwrap();
    assert_eq!((of("c").below.as_deref(), &of("c@t").below), (Some("c@t"), &None));
    assert!(of("c@t").used_bytes.unwrap() >= 2_000_000, "{:?}", of("c@t"));
    operator.delete("a@s", true).unwrap();
    operator.delete("a", true).unwrap();
    operator.waits_for(3);
    let is = |client: &mut Client<UnixStream>, pieces: &[(u64, u32, u8)]| {
        for (offset, len, byte) in pieces {
            let read = client.read_at(*offset, *len).unwrap();
            assert!(read.iter().all(|b| b == byte), "{len} bytes at {offset} are not {byte}");
        }
    };
    let changed = [(0, 100_000, 1), (100_000, 100_000, 3)];
    is(&mut c, &[&changed[..], &[(300_000, 100_000, 4), (400_000, 1_600_000, 1)]].concat());
    is(&mut open(dir, "c@t"), &[&changed[..], &[(200_000, 1_800_000, 1)]].concat());
    c.disconnect().unwrap();
    for name in ["b", "c", "c@t"] {
        assert_eq!(operator.ask(&Command::scrub(name)).unwrap()["mismatched"], 0, "{name}");
    }
    array.shutdown().unwrap();
}

#[test]
fn hosts_only_read_a_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir);
    let mut operator = Operator::of(&array);
    operator.snapshot(&["a"], "s").unwrap();
    let mut nbd = open(dir, "a@s");
    assert!(is_read_only(&nbd));
    for error in [nbd.write_at(0, &[1; 4096], false), nbd.trim(0, 4096), nbd.write_zeroes(0, 4096)]
    {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("EPERM") || error.contains("not permitted"), "{error}");
    }
    assert_eq!(nbd.read_at(0, 4096).unwrap(), vec![0; 4096]);
    let mut native = UnixStream::connect(dir.join("weft.sock")).unwrap();
    let hello =
        Hello { from: 1, to: 1, host: 7, oldest: 1, resumes: false, volume: "a@s".to_string() };
    native.write_all(&hello.encode()).unwrap();
    let mut welcome = [0; Welcome::LEN];
    native.read_exact(&mut welcome).unwrap();
    let (welcome, _) = Welcome::decode(&welcome).unwrap();
    assert_eq!((welcome.code, welcome.read_only), (Code::Done, true));
    let write = NumberedRequest {
        verb: Verb::Write,
        flags: 0,
        number: 1,
        oldest: 1,
        offset: 0,
        length: 4096,
        after: Vec::new(),
        data: vec![1; 4096].into(),
    };
    native.write_all(&write.encode_head()).unwrap();
    native.write_all(&write.data).unwrap();
    let mut answer = [0; Answer::LEN];
    native.read_exact(&mut answer).unwrap();
    assert_eq!(Answer::decode(&answer).unwrap().0.code, Code::NotAllowed);
    // By name only: who names none gets a volume.
    assert!(!is_read_only(&open(dir, "")));
    array.shutdown().unwrap();
}

#[test]
fn a_first_snapshot_needs_room_and_little_room_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path());
    let mut operator = Operator::of(&array);
    let all = VolumeCreation { name: "all".into(), size: 0, ..VolumeCreation::default() };
    operator.ask(&Command::VolumeCreate(all)).unwrap();
    assert_eq!(operator.status().summary().to_string(), "healthy", "all space is reserved");
    let refused = operator.snapshot(&["a"], "s").unwrap_err();
    assert!(refused.contains("all writes to volume 'a' would fail"), "{refused}");
    let thin = VolumeCreation {
        name: "thin".into(),
        size: 1 << 20,
        thin: true,
        ..VolumeCreation::default()
    };
    let made = operator.ask(&Command::VolumeCreate(thin)).unwrap();
    let warning = made["warning"].as_str().expect("a warning");
    assert!(warning.contains("100 % full: writes that need space"), "{made}");
    assert!(operator.status().summary().to_string().contains("100 % full"));
    operator.delete("thin", false).unwrap();
    assert_eq!(operator.status().summary().to_string(), "healthy", "it is written no more");
    operator.delete("all", true).unwrap();
    let taken = operator.snapshot(&["a"], "s").unwrap();
    assert_eq!(taken["warning"], Value::Null);
    array.shutdown().unwrap();
}

#[test]
fn what_cannot_be_done_is_refused_and_why_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir);
    let mut operator = Operator::of(&array);
    operator.snapshot(&["a", "b"], "s").unwrap();
    operator.clone("a@s", "c").unwrap();
    operator.ask(&Command::Hosts { action: HostAction::Create { name: "h".into() } }).unwrap();
    let name = || "a@s".to_string();
    let set = [("commit".to_string(), "early".to_string())].into();
    let unfit = [("commit", "limited"), ("dispatch", "commanded")];
    let unfit = unfit.map(|(key, value)| (key.to_string(), value.to_string())).into();
    let (to, copied) = ("x".to_string(), "b".to_string());
    let allow = HostAction::Allow { volume: name(), host: Some("h".into()), read_only: false };
    let before = operator.status().epoch;
    for (refused, why) in [
        (operator.snapshot(&["a"], "s"), "there is already a volume or snapshot 'a@s'"),
        (operator.snapshot(&["b", "a"], "s"), "'b@s'; choose another name"),
        (operator.snapshot(&["a", "a"], "t"), "'a' is given twice"),
        (operator.snapshot(&["a@s"], "t"), "name the volume, 'a'"),
        (operator.snapshot(&["a"], "t@u"), "'t@u' cannot be a snapshot's name"),
        (operator.snapshot(&["a"], ""), "cannot be a snapshot's name"),
        (operator.snapshot(&["a", "z"], "t"), "there is no volume 'z'; there are: a, b, c"),
        (operator.snapshot(&["a@t"], "t"), "volume 'a' has no snapshot 't'; it has: a@s"),
        (operator.snapshot(&[], "t"), "give the names of the volumes"),
        (operator.snapshot(&[""], "t"), "give the name of the volume"),
        (operator.clone("a", "x"), "take one first (`weft volume snapshot a NAME`)"),
        (operator.clone("a@s", "b"), "there is already a volume 'b'"),
        (operator.clone("a@s", "x@y"), "'x@y' cannot be a volume's name"),
        (operator.clone("a@t", "x"), "volume 'a' has no snapshot 't'; it has: a@s"),
        (operator.clone("z@t", "x"), "there is no volume 'z@t'; there are: a, b, c"),
        (operator.clone("", "x"), "give the name of the volume"),
        (
            operator.flatten("a"),
            "volume 'a' is no clone: it shares content with its own snapshots alone",
        ),
        (operator.flatten("a@s"), "name the volume, 'a'"),
        (operator.flatten("z"), "there is no volume 'z'"),
        (operator.flatten(""), "give the name of the volume"),
        (operator.roll_back("a", "t"), "has no snapshot 't'; it has: a@s"),
        (operator.roll_back("c", "t"), "has no snapshots; `weft volume snapshot c NAME`"),
        (operator.roll_back("a", "b@s"), "'b@s' is a snapshot of another volume than 'a'"),
        (operator.roll_back("c", "a@s"), "'a@s' is a snapshot of another volume than 'c'"),
        (operator.roll_back("a@s", "s"), "name the volume, 'a'"),
        (operator.roll_back("z", "s"), "there is no volume 'z'"),
        (operator.roll_back("", "s"), "give the name of the volume"),
        (
            operator.delete("a@s", false),
            "has the clone c; delete it first (`weft volume delete c`), or flatten it (`weft volume flatten c`)",
        ),
        (operator.delete("a", true), "has a snapshot; delete it first (`weft volume delete a@s`)"),
        (
            operator.ask(&Command::VolumeUndelete { name: name() }),
            "a deleted snapshot cannot be restored",
        ),
        (
            operator.ask(&Command::VolumeResize { name: name(), size: 8 << 20, force: false }),
            "cannot be resized; a clone of it can",
        ),
        (
            operator.ask(&Command::VolumeResize { name: "a".into(), size: 1 << 20, force: true }),
            "shares content with snapshot 'a@s' of 4 MiB, and cannot be smaller",
        ),
        (
            operator.ask(&Command::VolumeResize { name: "c".into(), size: 1 << 20, force: true }),
            "shares content with snapshot 'a@s' of 4 MiB, and cannot be smaller",
        ),
        (
            operator.ask(&Command::VolumeSet { name: name(), set, force: false, range: None }),
            "cannot be changed; a clone of it can",
        ),
        (
            operator.ask(&Command::VolumeSet {
                name: "a".into(),
                set: unfit,
                force: false,
                range: None,
            }),
            "a volume that is thin or has had snapshots cannot have commit=limited",
        ),
        (
            operator.ask(&Command::VolumeRename { name: name(), to }),
            "whose name begins with that of volume 'a'",
        ),
        (
            operator.ask(&Command::VolumeCopy {
                source: copied,
                destination: name(),
                offset: 0,
                length: 4096,
            }),
            "which does not change; copy to another volume",
        ),
        (
            operator.ask(&Command::Hosts { action: allow }),
            "can only read snapshot 'a@s'; `weft volume allow a@s h --read-only`",
        ),
    ] {
        let said = refused.expect_err(why);
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(operator.status().epoch, before, "nothing has changed");
    let (a, s) = (open(dir, "a"), open(dir, "a@s"));
    let to = || "x".to_string();
    for (refused, why) in [
        (operator.roll_back("a", "s"), "and hosts would not notice that its content changes"),
        (
            operator.ask(&Command::VolumeRename { name: "a".into(), to: to() }),
            "volume 'a', by this name",
        ),
    ] {
        let said = refused.expect_err(why);
        assert!(said.contains(why), "{said}");
    }
    a.disconnect().unwrap();
    let said = operator.ask(&Command::VolumeRename { name: "a".into(), to: to() }).unwrap_err();
    assert!(said.contains("1 connection uses snapshot 'a@s', by this name"), "{said}");
    operator.delete("c", false).unwrap();
    let said = operator.delete("a@s", false).unwrap_err();
    assert!(
        said.contains("has the deleted clone c") && said.contains("`weft volume delete c --now`"),
        "{said}"
    );
    operator.delete("c", true).unwrap();
    let said = operator.delete("a@s", false).unwrap_err();
    assert!(said.contains("1 connection uses volume 'a@s'"), "{said}");
    s.disconnect().unwrap();
    let renamed = operator.ask(&Command::VolumeRename { name: "a".into(), to: to() }).unwrap();
    assert_eq!(renamed["volume"]["below"], "x@s");
    array.shutdown().unwrap();
}

#[test]
fn snapshots_need_the_journal_and_votes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir);
    let mut operator = Operator::of(&array);
    let mut create = |name: &str, set: &[(&str, &str)]| {
        let set = set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        operator
            .ask(&Command::VolumeCreate(VolumeCreation {
                name: name.to_string(),
                size: 1 << 20,
                set,
                ..VolumeCreation::default()
            }))
            .unwrap();
    };
    create("unsafe", &[("journal", "off")]);
    create("limited", &[("commit", "limited"), ("dispatch", "commanded")]);
    let said = operator.snapshot(&["unsafe"], "s").unwrap_err();
    assert!(
        said.contains("snapshots need a journal") && said.contains("`weft volume copy unsafe NEW`"),
        "{said}"
    );
    let said = operator.snapshot(&["a", "limited"], "s").unwrap_err();
    assert!(said.contains("`weft volume set limited commit=late` enables them"), "{said}");
    assert!(operator.listed(true).is_empty());
    // And it does.
    let set = [("commit".to_string(), "late".to_string())].into();
    operator
        .ask(&Command::VolumeSet { name: "limited".into(), set, force: false, range: None })
        .unwrap();
    operator.snapshot(&["a", "limited"], "s").unwrap();
    array.shutdown().unwrap();
}

#[test]
fn what_snapshots_took_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir);
    let mut operator = Operator::of(&array);
    let slots = |operator: &mut Operator| -> u64 {
        operator.status().nodes.iter().map(|n| n.slots.unwrap().thin).sum()
    };
    let mut a = open(dir, "a");
    a.write_at(0, &[1; 500_000], false).unwrap();
    operator.snapshot(&["a"], "s").unwrap();
    a.write_at(0, &[2; 500_000], false).unwrap();
    a.disconnect().unwrap();
    operator.snapshot(&["a"], "t").unwrap();
    operator.clone("a@s", "c").unwrap();
    open(dir, "c").write_at(0, &[3; 200_000], true).unwrap();
    operator.ask(&Command::Quiesce).unwrap();
    assert!(slots(&mut operator) > 0);
    // The name of a deleted snapshot is free at once, though the volume still shows its content.
    let gone = operator.delete("a@t", false).unwrap();
    assert!(gone["seconds_left"].is_null());
    let mode = |operator: &mut Operator, name: &str| {
        let volumes = operator.status().volumes;
        volumes.into_iter().find(|v| v.name == name).map(|v| (v.mode, v.below))
    };
    assert_eq!(operator.listed(true), ["a@s"]);
    assert_eq!(
        mode(&mut operator, "a"),
        Some((VolumeMode::FaultFree, Some("a@s".to_string()))),
        "the deleted one is not named"
    );
    operator.snapshot(&["a"], "t").unwrap();
    for name in ["a@t", "c", "a@s"] {
        operator.delete(name, true).unwrap();
    }
    assert!(operator.listed(true).is_empty());
    let read = open(dir, "a").read_at(0, 500_000).unwrap();
    assert!(read.iter().all(|b| *b == 2));
    // A volume in the trash shows what lies below it, so that it can come back.
    operator.delete("a", false).unwrap();
    operator.ask(&Command::VolumeUndelete { name: "a".into() }).unwrap();
    let read = open(dir, "a").read_at(0, 500_000).unwrap();
    assert!(read.iter().all(|b| *b == 2));
    operator.delete("a", true).unwrap();
    operator.waits_for(1);
    let since = Instant::now();
    while slots(&mut operator) > 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "slots are not given back");
        std::thread::sleep(Duration::from_millis(20));
    }
    let b = &operator.status().volumes[0];
    assert_eq!((b.name.as_str(), b.mode), ("b", VolumeMode::FaultFree));
    array.shutdown().unwrap();
}

#[test]
fn disks_without_slots_have_no_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let volumes = vec![("a".into(), 1 << 20)];
    let spec = Spec { disk_size: Some(4 << 20), volumes, ..Spec::default() };
    let listens = [Listen::unix(dir.join("nbd.sock"))];
    let array = Array::start(dir, &spec, &listens, weft_host::Log::silent()).unwrap();
    let array = array.spawn().unwrap();
    let said = Operator::of(&array).snapshot(&["a"], "s").unwrap_err();
    assert!(said.contains("cannot hold snapshots: it is smaller than 8 MiB"), "{said}");
    array.shutdown().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path());
    let mut operator = Operator::of(&array);
    operator.ask(&Command::Quiesce).unwrap();
    let stop = Command::Node { action: weft_host::NodeAction::Stop, node: 1 };
    operator.ask(&stop).unwrap();
    let said = operator.snapshot(&["a"], "s").unwrap_err();
    assert!(
        said.contains("it cannot be checked whether its disk can hold snapshots; start it"),
        "{said}"
    );
    let start = Command::Node { action: weft_host::NodeAction::Start, node: 1 };
    operator.ask(&start).unwrap();
    operator.snapshot(&["a"], "s").unwrap();
    // Once it has had one, its disks are known to hold more.
    operator.ask(&stop).unwrap();
    operator.snapshot(&["a"], "t").unwrap();
    operator.ask(&start).unwrap();
    array.shutdown().unwrap();
}

/// What has changed, as `weft volume diff` asks for it.
#[test]
fn the_difference_of_snapshots_is_listed_and_nonsense_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir);
    let mut operator = Operator::of(&array);
    let mut a = open(dir, "a");
    a.write_at(0, &[1; 300_000], false).unwrap();
    operator.snapshot(&["a", "b"], "one").unwrap();
    a.write_at(100_000, &[2; 10], false).unwrap();
    operator.snapshot(&["a"], "two").unwrap();
    a.write_at(200_000, &[3; 10_000], false).unwrap();
    let mut diff = |volume: &str, since: &str, until: Option<&str>, offset| {
        let (volume, since) = (volume.to_string(), since.to_string());
        let until = until.map(str::to_string);
        operator.ask(&Command::VolumeDiff { volume, since: Some(since), until, offset })
    };
    let ranges = |answer: &Value| {
        let all = answer["ranges"].as_array().unwrap().iter();
        all.map(|r| (r["offset"].as_u64().unwrap(), r["length"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let covers = |answer: &Value, offset: u64| {
        ranges(answer).iter().any(|(from, len)| (*from..from + len).contains(&offset))
    };
    let first = diff("a", "one", Some("two"), 0).unwrap();
    assert_eq!((&first["volume"], &first["since"]), (&"a@two".into(), &"a@one".into()));
    assert!(covers(&first, 100_000) && !covers(&first, 200_000), "{first}");
    assert_eq!(first["next"], Value::Null);
    let now = diff("a", "a@one", None, 0).unwrap();
    assert!(covers(&now, 100_000) && covers(&now, 204_800), "{now}");
    assert!(ranges(&now).iter().map(|r| r.1).sum::<u64>() < 300_000, "{now}");
    let end = diff("a", "one", None, 150_000).unwrap();
    assert!(ranges(&end).iter().all(|(from, _)| *from >= 150_000), "{end}");
    for (asked, why) in [
        (("a", "three", None, 0), "volume 'a' has no snapshot 'three'; it has: a@one, a@two"),
        (("a", "b@one", None, 0), "share no content"),
        (("a", "two", Some("one"), 0), "give the earlier one first"),
        (("a", "one", Some("a@one"), 0), "is not later"),
        (("a", "one", None, 1 << 40), "'a' ends at"),
        (("x", "one", None, 0), "'x'"),
    ] {
        let (volume, since, until, offset) = asked;
        let said = diff(volume, since, until, offset).unwrap_err();
        assert!(said.contains(why), "{asked:?}: {said}");
    }
    a.disconnect().unwrap();
    array.shutdown().unwrap();
}
