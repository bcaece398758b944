//! The directory: round trips, contradictions, the lock.

use std::collections::BTreeMap;

use weft_core::cluster::{
    Access, Attendance, Certificate, Change, KnownHost, Registrant, Reservation, ReservationKind,
    Reservations, SealedSecret, TimeAway,
};
use weft_core::policy::Setting;
use weft_core::units::{NodeId, Timestamp, VolumeId, thin_space};

use super::*;
use crate::disk::queue::DiskQueue;
use crate::volumes::{Exports, NewVolume};

fn small() -> Spec {
    Spec { disk_size: Some(16 << 20), ..Spec::default() }
}

#[test]
fn disks_that_are_too_small_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("new");
    let spec = Spec { disk_size: Some(2 << 20), ..Spec::default() };
    let refused = State::create(&new, &spec).expect_err("they are too small");
    assert!(refused.0.contains("at least 517 are needed"), "{refused}");
    assert!(!new.exists());
}

#[test]
fn what_is_stored_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec {
        volumes: vec![("a".into(), 5 << 20), ("b".into(), 0)],
        layout: Some("rs:2+1".parse().unwrap()),
        ..small()
    };
    let mut state = State::create(dir.path(), &spec).unwrap();
    let mut map = state.content.map.clone();
    map.epoch = 7;
    map.nodes[2].up = false;
    let attendance = map.attendance.entry(VolumeId(0)).or_default();
    attendance.away.insert(NodeId(2));
    let since = Timestamp::new(1_700_000_000_000_000, NodeId(4));
    attendance.stale_since.insert(NodeId(2), since);
    attendance.counts_from.insert(NodeId(3), Timestamp::new(99, NodeId(1)));
    let [from, until, again] = [50, 99, 120].map(|micros| Timestamp::new(micros, NodeId(0)));
    let was_away = TimeAway { from, until: Some(until) };
    let is_away = TimeAway { from: again, until: None };
    attendance.times_away.insert(NodeId(2), vec![was_away, is_away]);
    map.settings.rebuild_floor = Some(64 << 20);
    map.settings.rebuild_ceiling = Some(u64::MAX);
    let [old, new] = [9, 5]
        .map(|n: u64| Certificate { key: u128::MAX - u128::from(n), until: 1_900_000_000 - n });
    map.hosts.insert("web".into(), KnownHost { certificates: vec![old, new], secret: None });
    map.hosts.insert("db".into(), KnownHost { certificates: vec![new], secret: None });
    let key = u64::MAX >> 1;
    let secret = Some(SealedSecret { key, mutual: true, bytes: (0..=255).collect() });
    map.hosts.insert("new".into(), KnownHost { certificates: Vec::new(), secret });
    let lists =
        [None, Some([("web".into(), Access::ReadOnly), ("new".into(), Access::Full)].into())];
    for (volume, list) in map.volumes.values_mut().zip(lists) {
        Arc::make_mut(volume).hosts = list;
    }
    let who = Registrant { host: "iqn.a,i,0x1".into(), port: 2 };
    let first = map.volumes.values_mut().next().unwrap();
    Arc::make_mut(first).reservations = Reservations {
        version: 3,
        generation: 2,
        registered: [(who.clone(), u64::MAX)].into(),
        reservation: Some(Reservation { kind: ReservationKind::ExclusiveAccess, holder: who }),
        outcomes: Vec::new(),
        resets: 0,
        removed: Vec::new(),
        hold: None,
    };
    state.store(&map).unwrap();
    let cluster = state.content.cluster;
    drop(state);

    let state = State::open(dir.path(), &spec).unwrap();
    assert_eq!(state.content.map, map);
    assert_eq!((state.content.cluster, state.content.map.next_volume), (cluster, 2));
    assert_eq!(fs::metadata(state.disk_path(4)).unwrap().len(), 16 << 20);
}

#[test]
fn a_volume_that_was_being_made_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { volumes: vec![("a".into(), 4 << 20)], ..small() };
    let mut state = State::create(dir.path(), &spec).unwrap();
    let mut map = state.content.map.clone();
    let whole = make(&map, "b");
    let id = whole.id;
    map.next_volume = 2;
    map.volumes.insert(id, Arc::new(Volume { visible: 0, ..whole }));
    state.store(&map).unwrap();
    assert!(Exports::of(&map).named("b").is_none() && Exports::of(&map).wanted("").is_some());
    drop(state);

    let mut state = State::load(dir.path()).unwrap();
    assert_eq!(state.given_up, ["b"]);
    assert!(!state.content.map.volumes.contains_key(&id));
    let again = make(&state.content.map, "b");
    assert_ne!(again.id, id);
    map.volumes.remove(&id);
    map.volumes.insert(again.id, Arc::new(again));
    state.store(&map).unwrap();
    assert_eq!(Exports::of(&map).all().count(), 2);
    drop(state);
    let state = State::load(dir.path()).unwrap();
    assert_eq!((state.given_up.len(), state.content.map.volumes.len()), (0, 2));
}

/// A hidden volume is shown again if content would be lost with it, or another volume lies over it.
#[test]
fn a_rollback_or_deletion_that_was_cut_off_has_not_happened() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["a", "b", "c"].map(|name| (name.to_string(), 4 << 20));
    let spec = Spec { volumes: names.to_vec(), ..small() };
    let mut state = State::create(dir.path(), &spec).unwrap();
    let map = ["a", "b"].iter().enumerate().fold(state.content.map.clone(), |map, (n, _)| {
        Change::TakeSnapshots(vec![VolumeId(n as u32)], "s".into(), 9).made_on(&map)
    });
    let hide = |map: &mut ClusterMap, name: &str| {
        let volume = map.volumes.values_mut().find(|v| v.name == name).unwrap();
        Arc::make_mut(volume).visible = 0;
    };
    let mut hidden = map.clone();
    // Being rolled back; a snapshot being deleted; a volume being deleted from which a node was away once.
    ["a", "b@s", "c"].iter().for_each(|name| hide(&mut hidden, name));
    let counts_from = [(NodeId(1), Timestamp(7))].into();
    hidden.attendance.insert(VolumeId(2), Attendance { counts_from, ..Attendance::default() });
    state.store(&hidden).unwrap();
    drop(state);

    let state = State::load(dir.path()).unwrap();
    assert_eq!(state.given_up, ["c"]);
    let mut expected = map;
    expected.volumes.remove(&VolumeId(2));
    assert_eq!(
        state.content.map,
        ClusterMap { room_used: state.content.map.room_used, ..expected }
    );
    state.content.map.assert_sound();
}

/// A new volume besides those of `map`.
fn make(map: &ClusterMap, name: &str) -> Volume {
    let spec = Spec { layout: "raid6".parse().ok(), stripe_unit: Some(4096), ..Spec::default() };
    volumes::place(&NewVolume::of(&spec, name.into(), 1 << 20), map).unwrap()
}

#[test]
fn the_disks_queues_can_be_served_otherwise_the_next_time() {
    let dir = tempfile::tempdir().unwrap();
    let with = |queue: &str| Spec { queue: DiskQueue::new(Some(queue), None).ok(), ..small() };
    let order =
        |spec: &Spec| State::open(dir.path(), spec).unwrap().content.disk_options.queue.order();
    assert_eq!(order(&with("sstf")), "sstf");
    assert_eq!(order(&Spec::default()), "sstf");
    assert_eq!(order(&with("c-look")), "c-look");
    assert_eq!(order(&Spec::default()), "c-look");
    let path = dir.path().join(FILE);
    assert!(fs::read_to_string(&path).unwrap().contains("queue = \"c-look\"\n"));
    assert_eq!(order(&with("fcfs")), "fcfs");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("queue"), "{text}");
    let without = text.lines().filter(|line| !line.starts_with("checksum"));
    let wrong =
        without.collect::<Vec<_>>().join("\n").replace("nodes = ", "queue = \"bnn\"\nnodes = ");
    fs::write(&path, state_file::sealed(&(wrong + "\n"))).unwrap();
    let refused = State::load(dir.path()).unwrap_err().0;
    assert!(refused.contains("queue: bnn") && refused.contains(FILE), "{refused}");
}

#[test]
fn shorter_and_longer_states_replace_one_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = State::create(dir.path(), &small()).unwrap();
    let mut map = state.content.map.clone();
    let since = Timestamp::new(1_700_000_000_000_000, NodeId(4));
    let mut attendance = Attendance::default();
    attendance.stale_since.extend((0..5).map(|n| (NodeId(n), since)));
    let long = BTreeMap::from([(VolumeId(0), attendance)]);
    let none = BTreeMap::new();
    for (epoch, attendance) in [(1, &long), (2, &long), (3, &none), (4, &none), (5, &long)] {
        map.epoch = epoch;
        map.attendance = attendance.clone();
        state.store(&map).unwrap();
        let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(state_file::read(&text).unwrap().map, map);
    }
    assert!(dir.path().join(SPARE).exists(), "its room serves the next");
}

#[test]
fn contradictions_name_both_values() {
    let dir = tempfile::tempdir().unwrap();
    let state = State::create(dir.path(), &small()).unwrap();
    assert_eq!(state.check(&small()), Ok(()));
    let cases: [(Spec, &[&str]); 7] = [
        (Spec { nodes: Some(4), ..Spec::default() }, &["has 5 nodes, not 4;"]),
        (Spec { disk_size: Some(1 << 30), ..Spec::default() }, &["16MiB", "1GiB"]),
        (Spec { layout: "raid6".parse().ok(), ..Spec::default() }, &["raid5", "raid6"]),
        (Spec { stripe_unit: Some(4096), ..Spec::default() }, &["64KiB", "4KiB"]),
        (Spec { policy: vec![Setting::Journal(false)], ..Spec::default() }, &["journal on", "off"]),
        (Spec { volumes: vec![("vol0".into(), 4096)], ..Spec::default() }, &["not 4KiB"]),
        (Spec { volumes: vec![("x".into(), 0)], ..Spec::default() }, &["no volume 'x'"]),
    ];
    for (spec, parts) in cases {
        let err = state.check(&spec).unwrap_err();
        assert!(parts.iter().all(|p| err.0.contains(p)), "{err}");
    }
}

#[test]
fn impossible_arrays_are_not_begun() {
    let cases = [
        (Spec { disk_size: Some(5000), ..small() }, "4KiB and 8KiB"),
        (Spec { disk_size: Some(4096), ..small() }, "4KiB"),
        (Spec { nodes: Some(0), ..small() }, "0 nodes"),
        (Spec { nodes: Some(2), ..small() }, "at least 3"),
        (Spec { stripe_unit: Some(1000), ..small() }, "4KiB"),
        (Spec { volumes: vec![("v".into(), 1 << 40)], ..small() }, "does not fit"),
    ];
    for (spec, why) in cases {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("new");
        let err = State::create(&new, &spec).unwrap_err();
        assert!(err.0.contains(why), "{err}");
        assert!(!new.exists(), "nothing is left behind");
    }
}

#[test]
fn a_held_directory_is_refused_with_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let held = State::create(dir.path(), &small()).unwrap();
    let err = State::load(dir.path()).unwrap_err();
    assert!(err.0.contains(&format!("process {}", std::process::id())), "{err}");
    drop(held);
    assert!(State::load(dir.path()).is_ok());
}

#[test]
fn other_versions_and_damage_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(State::load(dir.path()).unwrap_err().0.contains("no array"));
    drop(State::create(dir.path(), &small()).unwrap());
    let path = dir.path().join("weft.toml");
    let text = fs::read_to_string(&path).unwrap();
    // What another program, or a hand that mends the checksum, has written.
    let sealed = |from: &str, to: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("checksum"));
        state_file::sealed(&(lines.collect::<Vec<_>>().join("\n").replace(from, to) + "\n"))
    };
    assert_eq!(sealed("", ""), text);
    let cases = [
        (sealed("format = 4", "format = 5"), "version 5, and this program reads versions 3 and 4"),
        (sealed("format = 4", ""), "no format version"),
        (sealed("nodes = 5", "nodes = 6"), "6 nodes but lists 5"),
        (sealed("extents = [[0, [[0, ", "extents = [[0, [[9, "), "extents"),
        (sealed("\"raid5\"", "\"raid9\""), "raid9"),
        (text.replace("\"raid5\"", "\"raid6\""), "its checksum does not match"),
        (text.replace("checksum", "#hecksum"), "its checksum is missing"),
        (text.replace("format = 4", "format = 2"), "its checksum does not match"),
        ("{".to_string(), "not TOML"),
        (String::new(), "no format version"),
        ("\0".repeat(text.len()), "not TOML"),
    ];
    for (changed, why) in cases {
        assert_ne!(changed, text, "the case changes something: {why}");
        fs::write(&path, &changed).unwrap();
        let err = State::load(dir.path()).unwrap_err();
        assert!(err.0.contains(why), "{err}");
    }
    // Whatever byte is another one.
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(State::load(dir.path()).is_err(), "byte {at} of {text}");
    }
}

/// The volumes of a family write their extents once, wherever their address spaces are.
#[test]
fn extents_of_a_family_are_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { volumes: vec![("a".into(), 5 << 20)], ..small() };
    let mut state = State::create(dir.path(), &spec).unwrap();
    let mut map = state.content.map.clone();
    let first = Volume::clone(&map.volumes[&VolumeId(0)]);
    for id in (1..40).map(VolumeId) {
        let mut volume = Volume { id, name: format!("v{}", id.0), ..first.clone() };
        for place in volume.extents.iter_mut().flat_map(|extent| &mut extent.columns) {
            place.1 += thin_space(id);
        }
        // One has another place on a disk, and one other disks.
        match id {
            VolumeId(20) => volume.extents[0].columns[1].1 += 1,
            VolumeId(30) => volume.extents[0].columns.swap(0, 1),
            _ => {}
        }
        map.volumes.insert(id, Arc::new(volume));
    }
    state.store(&map).unwrap();
    drop(state);
    let path = dir.path().join(FILE);
    let text = fs::read_to_string(&path).unwrap();
    let count = |what: &str| text.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("extents = "), count("extents_of = ")), (3, 37));
    assert_eq!(State::load(dir.path()).unwrap().content.map, map);
    for (from, to) in [
        ("extents_of = [0, ", "extents_of = [99, "),
        ("extents_of = [0, ", "extents_of = [0, 16777215"),
    ] {
        let lines = text.lines().filter(|line| !line.starts_with("checksum"));
        let text = lines.collect::<Vec<_>>().join("\n").replace(from, to) + "\n";
        fs::write(&path, state_file::sealed(&text)).unwrap();
        let err = State::load(dir.path()).unwrap_err();
        assert!(err.0.contains("which does not exist"), "{err}");
    }
}

/// A file in which all extents are written out is read.
#[test]
fn a_file_of_the_version_before_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let map = State::create(dir.path(), &small()).unwrap().content.map.clone();
    let path = dir.path().join(FILE);
    let text = fs::read_to_string(&path).unwrap().replace("format = 4", "format = 3");
    let lines = text.lines().filter(|line| !line.starts_with("checksum"));
    let text = state_file::sealed(&(lines.collect::<Vec<_>>().join("\n") + "\n"));
    fs::write(&path, &text).unwrap();
    let mut state = State::load(dir.path()).unwrap();
    assert_eq!(state.content.map, map);
    state.store(&map).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("\nformat = 4\n"));
    let without = text.lines().filter(|line| !line.starts_with("checksum"));
    drop(state);
    fs::write(&path, without.collect::<Vec<_>>().join("\n")).unwrap();
    let err = State::load(dir.path()).unwrap_err();
    assert!(err.0.contains("its checksum is missing"), "{err}");
}

/// Others on the machine read neither what hosts have stored nor what leads there.
#[test]
fn what_an_array_is_made_of_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("array");
    let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
    drop(State::create(&dir, &spec).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|f| f.unwrap().path()).collect();
    assert!(files.iter().any(|f| f.ends_with("disk-0.img")), "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}
