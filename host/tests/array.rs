//! A whole array over its sockets: NBD and control.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use weft_core::policy::CHOICES;
use weft_front::nbd::Exposure;
use weft_front::nbd::client::{Client, Settings};
use weft_host::{
    Array, Control, ControlRequest, DiskAction, Handle, Listen, NodeAction, Spec, Stopped,
    VolumeCreation,
};

fn spec() -> Spec {
    Spec {
        disk_size: Some(16 << 20),
        volumes: vec![("a".into(), 8 << 20), ("b".into(), 4 << 20)],
        ..Spec::default()
    }
}

fn start(dir: &Path, spec: &Spec) -> Handle {
    let listens = [Listen::unix(dir.join("nbd.sock")), Listen::tcp("127.0.0.1:0")];
    Array::start(dir, spec, &listens, weft_host::Log::silent()).unwrap().spawn().unwrap()
}

fn open(dir: &Path, name: &str) -> Client<UnixStream> {
    Client::connect(UnixStream::connect(dir.join("nbd.sock")).unwrap(), name).unwrap()
}

fn node(control: &mut Control, action: NodeAction, node: usize) {
    control.request(&ControlRequest::Node { action, node }).unwrap();
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A volume to be made; what is not said takes the default.
#[derive(Default)]
struct NewVolume<'a> {
    layout: Option<&'a str>,
    stripe_unit: Option<u64>,
    journal: Option<bool>,
    ordering: Option<&'a str>,
    sequencer: Option<&'a str>,
    set: &'a [(&'a str, &'a str)],
}

impl NewVolume<'_> {
    fn request(self, name: &str, size: u64) -> ControlRequest {
        let one =
            |key: &str, word: Option<&str>| word.map(|word| (key.to_string(), word.to_string()));
        let own = [
            one("journal", self.journal.map(|on| if on { "on" } else { "off" })),
            one("ordering", self.ordering),
            one("sequencer", self.sequencer),
        ];
        let set = self.set.iter().filter_map(|(key, word)| one(key, Some(word)));
        ControlRequest::VolumeCreate(VolumeCreation {
            name: name.into(),
            size,
            layout: self.layout.map(Into::into),
            stripe_unit: self.stripe_unit,
            set: own.into_iter().flatten().chain(set).collect(),
            ..VolumeCreation::default()
        })
    }
}

#[test]
fn data_survives_the_loss_of_a_node_and_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let mut client = open(dir.path(), "a");
    assert_eq!(client.size(), 8 << 20);
    let data = pattern(1_000_001);
    client.write_at(12_345, &data, true).unwrap();
    for victim in [0, 3] {
        node(&mut control, NodeAction::Kill, victim);
        assert_eq!(client.read_at(12_345, data.len() as u32).unwrap(), data);
        client.write_at(5_000_000, &data[..50_000], false).unwrap();
        client.flush().unwrap();
        let shown = control.request(&ControlRequest::VolumeShow { name: "a".into() }).unwrap();
        assert_eq!(shown["volume"]["mode"], "degraded");
        assert_eq!(shown["volume"]["clients"], 1);
        node(&mut control, NodeAction::Start, victim);
        control.request(&ControlRequest::Quiesce).unwrap();
    }
    let scrub = control.request(&ControlRequest::scrub("a")).unwrap();
    assert_eq!((&scrub["verified"], scrub["mismatched"].as_u64()), (&scrub["stripes"], Some(0)));
    drop(client);
    array.shutdown().unwrap();

    let array = start(dir.path(), &spec());
    let mut client = open(dir.path(), "");
    assert_eq!(client.read_at(12_345, data.len() as u32).unwrap(), data);
    assert_eq!(client.read_at(5_000_000, 50_000).unwrap(), data[..50_000]);
    client.write_zeroes(5_000_000, 50_000).unwrap();
    client.trim(0, 8 << 20).unwrap();
    assert!(client.read_at(5_000_000, 50_000).unwrap().iter().all(|b| *b == 0));
    let extents = all_of(|at, left| client.block_status(at, left).unwrap(), |e| e.length);
    assert_eq!(extents.iter().map(|e| u64::from(e.length)).sum::<u64>(), 8 << 20);
    Control::connect(array.dir()).unwrap().request(&ControlRequest::Shutdown).unwrap();
    array.shutdown().unwrap();
}

#[test]
fn volumes_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let mut client = open(dir.path(), "b");
    client.write_at(0, &pattern(4 << 20), false).unwrap();
    let delete = ControlRequest::VolumeDelete { name: "b".into(), now: true };
    let err = control.request(&delete).unwrap_err();
    assert!(err.0.contains("1 connection uses"), "{err}");
    client.disconnect().unwrap();
    while control.request(&delete).is_err_and(|e| e.0.contains("connection uses")) {
        thread::yield_now();
    }
    let create = || {
        let (layout, stripe_unit, journal) = (Some("raid6"), Some(8192), Some(false));
        let new = NewVolume { layout, stripe_unit, journal, ..NewVolume::default() };
        new.request("c", 1_000_448)
    };
    let made = control.request(&create()).unwrap();
    assert_eq!(
        (&made["volume"]["size"], &made["volume"]["survives"]),
        (&1_000_448.into(), &2.into())
    );
    assert!(control.request(&create()).unwrap_err().0.contains("already"));
    let mut client = open(dir.path(), "c");
    assert_eq!(client.size(), 1_000_448);
    assert!(client.read_at(0, 1_000_448).unwrap().iter().all(|b| *b == 0), "the room was cleared");
    client.write_at(70_001, &pattern(4321), true).unwrap();
    assert_eq!(client.read_at(70_001, 4321).unwrap(), pattern(4321));
    let scrub = control.request(&ControlRequest::scrub("c")).unwrap();
    assert_eq!(scrub["mismatched"], 0);
    let list = control.request(&ControlRequest::VolumeList { snapshots: false }).unwrap();
    assert_eq!(list["volumes"].as_array().unwrap().len(), 2);
    array.shutdown().unwrap();
}

#[test]
fn a_stopped_node_s_connections_go_on_at_another() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    // More connections than nodes, so that every node serves one.
    let mut clients: Vec<_> = (0..6).map(|_| open(dir.path(), "a")).collect();
    node(&mut control, NodeAction::Stop, 1);
    for (n, client) in clients.iter_mut().enumerate() {
        client.write_at(n as u64 * 4096, &pattern(4096), true).unwrap();
    }
    assert_eq!(clients[0].read_at(5 * 4096, 4096).unwrap(), pattern(4096));
    let status = control.request(&ControlRequest::Status).unwrap();
    assert_eq!(status["nodes"][1]["state"], "down");
    let why = status["nodes"][1]["why"].as_str().unwrap();
    assert!(why.starts_with("it was stopped"), "{why}");
    assert_eq!(status["listens"].as_array().unwrap().len(), 2);
    let err =
        control.request(&ControlRequest::Node { action: NodeAction::Start, node: 7 }).unwrap_err();
    assert!(err.0.contains("there is no node 7"), "{err}");
    let stopped = array.stop().unwrap();
    assert_eq!(stopped, Stopped { down: vec![1], nodes: 5, ..Stopped::default() });
    assert!(Control::connect(dir.path()).unwrap_err().0.contains("no array runs"));
}

#[test]
fn without_nodes_everybody_gets_errors_and_nobody_waits() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let mut client = open(dir.path(), "a");
    client.write_at(4096, &pattern(100_000), false).unwrap();
    for n in 0..5 {
        node(&mut control, NodeAction::Kill, n);
    }
    assert!(client.read_at(4096, 4096).is_err() && client.write_at(0, &[1; 4096], false).is_err());
    let shown = control.request(&ControlRequest::VolumeShow { name: "a".into() }).unwrap();
    assert_eq!(shown["volume"]["mode"], "failed");
    let create = NewVolume::default().request("c", 1 << 20);
    assert!(control.request(&create).is_err(), "and nothing hangs");
    let stopped = array.stop().unwrap();
    assert_eq!(stopped.down, [0, 1, 2, 3, 4]);
}

#[test]
fn all_volumes_with_a_sequencer_have_one_form_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let mut set = |name: &str, what: &[(&str, &str)]| {
        let set = what.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let request =
            ControlRequest::VolumeSet { name: name.into(), set, force: false, range: None };
        control.request(&request).map(|answer| answer["volume"]["sequencer"].clone())
    };
    let mut client = open(dir.path(), "a");
    let refused = set("a", &[("sequencer", "worker-driven")]).unwrap_err().to_string();
    assert!(refused.contains("ordering=sequencer"), "{refused}");
    assert_eq!(set("a", &[("ordering", "sequencer")]).unwrap(), "centralized");
    let forms = ["partially-centralized", "originator-driven", "worker-driven", "centralized"];
    for (n, form) in forms.into_iter().enumerate() {
        assert_eq!(set("a", &[("sequencer", form)]).unwrap(), form);
        client.write_at(0, &pattern(20_000 + n), false).unwrap();
        assert_eq!(client.read_at(0, 20_000).unwrap(), pattern(20_000), "{form}");
    }
    set("a", &[("sequencer", "originator-driven")]).unwrap();
    assert_eq!(set("b", &[("ordering", "sequencer")]).unwrap(), "originator-driven", "as a is");
    assert_eq!(set("b", &[("sequencer", "worker-driven")]).unwrap(), "worker-driven");
    let shown = control.request(&ControlRequest::VolumeShow { name: "a".into() }).unwrap();
    assert_eq!(shown["volume"]["sequencer"], "worker-driven", "b's change is a's, too");
    let mut create = |ordering: Option<&str>, sequencer: Option<&str>| {
        let new = NewVolume { ordering, sequencer, ..NewVolume::default() };
        control.request(&new.request("c", 1 << 20))
    };
    for (ordering, sequencer, why) in [
        (None, "worker-driven", "ordering=sequencer"),
        (Some("sequencer"), "centralized", "is worker-driven"),
        (Some("sequencer"), "central", "choose centralized"),
    ] {
        let refused = create(ordering, Some(sequencer)).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let made = create(Some("sequencer"), None).unwrap();
    assert_eq!(made["volume"]["sequencer"], "worker-driven");
    client.write_at(0, &pattern(1000), false).unwrap();
    drop(client);
    array.shutdown().unwrap();

    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let shown = control.request(&ControlRequest::VolumeShow { name: "a".into() }).unwrap();
    assert_eq!(shown["volume"]["sequencer"], "worker-driven");
    array.shutdown().unwrap();
}

/// Where small writes are copied.
const COPIED: [(&str, &str); 3] =
    [("commit", "late"), ("ordering", "timestamps"), ("roles", "node")];

/// Every value of every choice that can be changed in use, one after the other, under a host that writes; what does not
/// go together is refused in the core's words, and nothing changes.
#[test]
fn every_choice_is_made_for_a_volume_and_changed_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let words = |what: &[(&str, &str)]| -> BTreeMap<String, String> {
        what.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    };
    let create = |what: &[(&str, &str)]| {
        NewVolume { set: what, ..NewVolume::default() }.request("c", 1 << 20)
    };
    for (what, why) in [
        (&[("commit", "limited")][..], "also set dispatch=commanded"),
        (&[("commit", "none")], "is for measurements only"),
        (&[("calculator", "balanced"), ("roles", "host")], "calculator=auto"),
        (&[("strategy", "full")], "auto, small or large"),
    ] {
        let refused = control.request(&create(what)).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let made = [("strategy", "small"), ("parity-at", "solely"), ("journal", "off")];
    let shown = control.request(&create(&made)).unwrap();
    let says =
        |shown: &serde_json::Value, key: &str| shown["volume"][key].as_str().unwrap().to_string();
    assert_eq!(
        (says(&shown, "strategy"), says(&shown, "calculator")),
        ("small".into(), "solely".into())
    );
    assert_eq!(shown["volume"]["journal"], false);
    let mut client = open(dir.path(), "a");
    let mut n = 0;
    let mut set = |what: &[(&str, &str)]| {
        let ask = ControlRequest::VolumeSet {
            name: "a".into(),
            set: words(what),
            force: true,
            range: None,
        };
        let set = control.request(&ask);
        n += 1;
        client.write_at(n * 1000, &pattern(10_000), false).unwrap();
        assert_eq!(client.read_at(n * 1000, 10_000).unwrap(), pattern(10_000), "{what:?}");
        set
    };
    // Once it has had snapshots, some values would be refused.
    for choice in CHOICES.iter().filter(|c| c.in_use && c.key != "snapshots") {
        // One parity waits or takes each write at once; of more some could do either.
        let fits = |word: &&str| choice.key != "immediate-parities" || *word == "0";
        for word in choice.words().filter(|word| *word != "limited").filter(fits) {
            // What goes with every value of it.
            let usual = match choice.key {
                "sequencer" => &[("ordering", "sequencer")][..],
                "calculator" => &[("dispatch", "collaborative")],
                "dispatch" | "roles" => &[("calculator", "auto")],
                "redundancy" if word == "copied" => &COPIED,
                "refresh" => &[("redundancy", "immediate")],
                "inline" if word != "0" => &[("roles", "controller"), ("commands", "column")],
                "burst" if word != "0s" => &[("iops", "500")],
                "commands" if word != "column" => &[("roles", "controller"), ("inline", "0")],
                _ => &[],
            };
            let to: Vec<_> = usual.iter().copied().chain([(choice.key, word)]).collect();
            let shown = set(&to).unwrap_or_else(|e| panic!("{to:?}: {e}"));
            assert_eq!(says(&shown, &choice.key.replace('-', "_")), word);
        }
    }
    set(&[("roles", "node"), ("inline", "0"), ("redundancy", "immediate")]).unwrap();
    let refused = set(&[("commit", "limited")]).unwrap_err().to_string();
    assert!(refused.contains("commit=limited conflicts with dispatch=collaborative"), "{refused}");
    let limited = set(&[("commit", "limited"), ("dispatch", "commanded")]).unwrap();
    assert!(says(&limited, "warning").contains("no journal"));
    let refused = set(&[("dispatch", "collaborative")]).unwrap_err().to_string();
    assert!(refused.contains("another commit"), "{refused}");
    set(&[("strategy", "large"), ("parity-at", "originator")]).unwrap();
    drop(client);
    array.shutdown().unwrap();

    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let shown = control.request(&ControlRequest::VolumeShow { name: "a".into() }).unwrap();
    let there = ["strategy", "calculator", "commit", "dispatch"].map(|key| says(&shown, key));
    assert_eq!(there, ["large", "originator", "limited", "commanded"]);
    // A read waits until its node takes part.
    open(dir.path(), "a").read_at(0, 4096).unwrap();
    let scrub = control.request(&ControlRequest::scrub("a")).unwrap();
    assert_eq!((&scrub["verified"], scrub["mismatched"].as_u64()), (&scrub["stripes"], Some(0)));
    array.shutdown().unwrap();
}

#[test]
fn a_volume_is_set_while_it_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let mut set = |what: &[(&str, &str)], force: bool| {
        let set = what.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        control.request(&ControlRequest::VolumeSet { name: "a".into(), set, force, range: None })
    };
    let mut client = open(dir.path(), "a");
    let mut other = open(dir.path(), "a");
    client.write_at(0, &pattern(100_000), false).unwrap();
    for (what, why) in [
        (&[("ordering", "sequencer"), ("commit", "never")][..], "late or limited"),
        (&[("ordering", "sequencer"), ("size", "1")], "cannot be set"),
        (&[("ordering", "first-come")], "callback-locks"),
        (&[("ordering", "none")], "2 connections"),
        (&[], "give a setting"),
    ] {
        let refused = set(what, false).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let set_to = set(&[("dispatch", "commanded"), ("strategy", "small")], false).unwrap();
    let shown = &set_to["volume"];
    assert_eq!((&shown["ordering"], &shown["strategy"]), (&"timestamps".into(), &"small".into()));
    assert_eq!(shown["dispatch"], "commanded");
    client.write_at(100_000, &pattern(50_000), false).unwrap();
    assert_eq!(other.read_at(0, 100_000).unwrap(), pattern(100_000));
    let forced = set(&[("ordering", "none")], true).unwrap();
    assert!(forced["volume"]["warning"].as_str().unwrap().contains("ordering=none"));
    drop(open(dir.path(), "a"));
    drop(other);
    // The connections that are gone are noticed in their own time.
    let alone = (0..200).find_map(|_| {
        thread::sleep(Duration::from_millis(10));
        set(&[("ordering", "none")], false).ok()
    });
    assert_eq!(alone.unwrap()["volume"]["unordered_sharing"], false);
    let second = UnixStream::connect(dir.path().join("nbd.sock")).unwrap();
    let refused = Client::connect(second, "a").err().expect("it takes one host").to_string();
    assert!(refused.contains("ordering=none") && refused.contains("--force"), "{refused}");
    client.write_at(0, &pattern(1000), false).unwrap();
    drop(client);
    array.shutdown().unwrap();

    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let shown = control.request(&ControlRequest::VolumeShow { name: "a".into() }).unwrap();
    assert_eq!(shown["volume"]["ordering"], "none");
    assert_eq!(shown["volume"]["dispatch"], "commanded");
    array.shutdown().unwrap();
}

#[test]
fn a_disk_is_added_and_takes_what_another_had() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let mut client = open(dir.path(), "a");
    let data = pattern(2 << 20);
    client.write_at(4096, &data, true).unwrap();
    assert_eq!(
        control.request(&ControlRequest::DiskAdd { path: None, size: None, force: false }).unwrap()
            ["node"],
        5
    );
    assert_eq!(
        control.request(&ControlRequest::DiskAdd { path: None, size: None, force: false }).unwrap()
            ["node"],
        6
    );
    control.request(&ControlRequest::disk(DiskAction::Fail, 1)).unwrap();
    let columns = |control: &mut Control, n: usize| {
        let status = control.request(&ControlRequest::Status).unwrap();
        let whole = status["volumes"][0]["mode"] == "fault-free";
        (whole, status["nodes"][n]["columns"].as_u64().unwrap())
    };
    // The new nodes are the only ones that have none of its columns yet.
    let moved = (0..6000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        columns(&mut control, 1) == (true, 0)
    });
    assert!(moved, "what was on the lost disk was not rebuilt within a minute");
    assert!(columns(&mut control, 5).1 + columns(&mut control, 6).1 > 0);
    assert_eq!(client.read_at(4096, data.len() as u32).unwrap(), data);
    drop(client);
    array.shutdown().unwrap();

    let array = start(dir.path(), &spec());
    let mut client = open(dir.path(), "a");
    let mut control = Control::connect(array.dir()).unwrap();
    assert_eq!(client.read_at(4096, data.len() as u32).unwrap(), data);
    let scrub = control.request(&ControlRequest::scrub("a")).unwrap();
    assert_eq!((&scrub["verified"], scrub["mismatched"].as_u64()), (&scrub["stripes"], Some(0)));
    assert_eq!(
        control.request(&ControlRequest::NodeList).unwrap()["nodes"].as_array().unwrap().len(),
        7
    );
    drop(client);
    array.shutdown().unwrap();
}

/// One disk is added at a time: another that is added meanwhile is refused, or gets the next number.
#[test]
fn disks_that_are_added_at_the_same_time_do_not_share_a_number() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let add = || {
        let mut control = Control::connect(array.dir()).unwrap();
        control.request(&ControlRequest::DiskAdd { path: None, size: None, force: false })
    };
    let all: Vec<_> = thread::scope(|scope| {
        let each: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
        each.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut numbers: Vec<u64> =
        all.iter().flatten().map(|added| added["node"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert!(!numbers.is_empty() && numbers.iter().copied().eq(5..5 + numbers.len() as u64));
    for refused in all.into_iter().filter_map(Result::err) {
        assert!(refused.to_string().contains("another disk is being added"), "{refused}");
    }
    let mut control = Control::connect(array.dir()).unwrap();
    let nodes = control.request(&ControlRequest::NodeList).unwrap();
    let nodes = nodes["nodes"].as_array().unwrap();
    assert!(nodes.len() == 5 + numbers.len() && nodes.iter().all(|n| n["state"] == "up"));
    array.shutdown().unwrap();
}

/// What is exposed of a range is said apart; ranges are there after a restart.
#[test]
fn ranges_have_a_redundancy_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    let show = |control: &mut Control| {
        let shown = control.request(&ControlRequest::VolumeShow { name: "a".into() }).unwrap();
        shown["volume"].clone()
    };
    let whole = show(&mut control);
    let stripe = whole["size"].as_u64().unwrap() / whole["stripes"].as_u64().unwrap();
    let mut set = |range, (key, word): (&str, &str)| {
        let set = [(key.to_string(), word.to_string())].into();
        let range = Some(range);
        let name = "a".to_string();
        control.request(&ControlRequest::VolumeSet { name, set, force: false, range })
    };
    let never = ("redundancy", "never");
    let refused = set((1, stripe), never).unwrap_err().to_string();
    assert!(refused.contains("give 0..512K"), "{refused}");
    let refused = set((0, stripe), ("flush", "redundant")).unwrap_err().to_string();
    assert!(refused.contains("whole volume") && refused.contains("exposed-for"));
    set((stripe, 2 * stripe), never).unwrap();

    let mut client = open(dir.path(), "a");
    for n in 0..4 {
        client.write_at(n * stripe, &pattern(4096), false).unwrap();
    }
    let mut control = Control::connect(array.dir()).unwrap();
    let shown = show(&mut control);
    let range = &shown["ranges"][0];
    assert_eq!((&range["offset"], &range["length"]), (&stripe.into(), &(2 * stripe).into()));
    assert_eq!(
        (&range["redundancy"], &shown["redundancy"]),
        (&"never".into(), &"immediate".into())
    );
    let exposed = &range["exposed"];
    assert!(exposed["stripes"].as_u64() >= Some(2) && exposed["bytes"].as_u64() > Some(0));
    for key in ["stripes", "bytes"] {
        assert_eq!(exposed[key], shown["exposed"][key], "all of it is in the range");
    }
    drop(client);
    array.shutdown().unwrap();

    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    control.request(&ControlRequest::Quiesce).unwrap();
    let range = &show(&mut control)["ranges"][0];
    assert_eq!(range["redundancy"], "never");
    // So far counts on: the share of the time in which it was exposed began before the restart.
    let (now, before) = (&range["exposed"], &exposed);
    assert!(now["most_bytes"].as_u64() >= before["most_bytes"].as_u64(), "{now} {before}");
    // Nothing but the disks' failures is lost while all waits: 2 M hours, five disks.
    let mttdl = now["mttdl_hours"].as_f64().unwrap();
    assert!(mttdl > 399_999.0 && now["mdlr_bytes_per_hour"].as_f64() > Some(0.0), "{mttdl}");
    array.shutdown().unwrap();
}

/// Asks about 8 MiB until all is told: an answer may cover less.
fn all_of<T>(mut ask: impl FnMut(u64, u32) -> Vec<T>, length: impl Fn(&T) -> u32) -> Vec<T> {
    let (mut at, mut told) = (0, Vec::new());
    while at < 8 << 20 {
        told.extend(ask(u64::from(at), (8 << 20) - at));
        at = told.iter().map(&length).sum();
    }
    told
}

/// Over NBD, in the context `weft:exposed`.
#[test]
fn hosts_are_told_what_is_exposed() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { volumes: vec![("a".into(), 8 << 20)], ..spec() };
    let array = start(dir.path(), &spec);
    let mut control = Control::connect(array.dir()).unwrap();
    let set = [("redundancy".to_string(), "never".to_string())].into();
    let set = ControlRequest::VolumeSet { name: "a".into(), set, force: false, range: None };
    control.request(&set).unwrap();
    let stream = UnixStream::connect(dir.path().join("nbd.sock")).unwrap();
    let settings = Settings { exposed: true, ..Settings::default() };
    let mut client = Client::connect_with(stream, "a", settings).unwrap();
    let sum = |all: &[Exposure], exposed| {
        let those = all.iter().filter(|e| e.exposed == exposed);
        those.map(|e| u64::from(e.length)).sum::<u64>()
    };
    let all = |client: &mut Client<UnixStream>| {
        all_of(|at, left| client.exposed(at, left).unwrap(), |e| e.length)
    };
    let none = all(&mut client);
    assert_eq!((sum(&none, true), sum(&none, false)), (0, 8 << 20));
    client.write_at(1 << 20, &pattern(4096), false).unwrap();
    let told = all(&mut client);
    // A row of four units.
    assert_eq!((sum(&told, true), sum(&told, false)), (4 * 4096, (8 << 20) - 4 * 4096));
    let at = client.exposed(1 << 20, 4096).unwrap();
    assert_eq!(at, [Exposure { length: 4096, exposed: true }]);
    let extents = client.block_status(1 << 20, 4096).unwrap();
    assert!(!extents[0].hole, "both are told at once");
    let refresh = ControlRequest::Refresh { volume: "a".into(), offset: 0, length: None };
    control.request(&refresh).unwrap();
    assert_eq!(sum(&all(&mut client), true), 0);
    drop(client);
    array.shutdown().unwrap();
}

/// Waits until the first line of the status is such.
fn until_said(control: &mut Control, such: impl Fn(&str) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let text = control.status().unwrap().summary().to_string();
        if such(&text) {
            return;
        }
        assert!(Instant::now() < end, "{text}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_first_line_of_the_status_names_a_disk_that_was_given_up_and_since_when() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path(), &spec());
    let mut control = Control::connect(array.dir()).unwrap();
    until_said(&mut control, |text| text == "healthy");
    control.request(&ControlRequest::disk(DiskAction::Fail, 2)).unwrap();
    until_said(&mut control, |text| {
        ["has been degraded for ", "; node 2 has been lost for ", "`weft disk replace 2`"]
            .iter()
            .all(|part| text.contains(part))
    });
    array.shutdown().unwrap();
}
