//! Real nodes on real disks, without sockets.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use weft_core::Buffer;
use weft_core::cluster::Change;
use weft_core::node::Envelope;
use weft_core::plan::Range;
use weft_core::store::{DiskOp, DiskRequest, Urgency};

use super::*;
use crate::disk::uring::Tag;
use crate::spec::Spec;
use crate::state::State;

/// How many lanes are tried.
const LANES: [usize; 3] = [1, 2, 4];

fn engine(dir: &Path, spec: &Spec, lanes: usize) -> Engine {
    let mut engine =
        Engine::new(Rule::alone(State::open(dir, spec).unwrap()), Log::silent()).unwrap();
    engine
        .start_lanes(crate::lanes::Lanes::new(lanes).unwrap(), Bell::default(), Polling::Off)
        .unwrap();
    engine.start_all();
    until(&mut engine, Engine::is_settled);
    engine
}

/// A letter that says nothing.
pub(super) fn letter(to: u16) -> Box<Envelope> {
    Box::new(Envelope {
        from: NodeId(1),
        to: NodeId(to),
        epoch: 0,
        notices: Vec::new(),
        hops: 0,
        reached: Default::default(),
        heard: Vec::new(),
        body: None,
    })
}

/// Runs until something has come about, as the reactor would.
fn until(engine: &mut Engine, reached: impl Fn(&Engine) -> bool) {
    for _ in 0..5_000 {
        engine.run();
        engine.fire_due();
        engine.fire_soon();
        engine.follow_rule();
        engine.run();
        engine.rest();
        assert_eq!(engine.fatal, None);
        if reached(engine) {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    panic!(
        "it never came about: {:?}",
        (0..engine.instances.len())
            .map(|n| (engine.instances[n].phase, engine.disk_ops(n), engine.status_of(n)))
            .collect::<Vec<_>>()
    );
}

fn ask(engine: &mut Engine, op: HostOp) -> HostData {
    let node = engine.originator(1).expect("a node runs");
    engine.submit(node, 1, VolumeId(0), op);
    until(engine, |e| e.has_answers());
    engine.take_answers().remove(0).1.unwrap()
}

fn write(engine: &mut Engine, offset: u64, fill: u8, len: usize) {
    ask(engine, HostOp::Write(offset, Buffer::from(vec![fill; len])));
}

fn assert_reads(engine: &mut Engine, offset: u64, fill: u8, len: u64) {
    let HostData::Bytes(pieces) = ask(engine, HostOp::Read(Range { offset, len })) else {
        panic!("a read is answered with bytes");
    };
    let bytes: Vec<u8> = pieces.iter().flat_map(Buffer::to_bytes).collect();
    assert!(bytes == vec![fill; len as usize], "{len} bytes at {offset} are not all {fill}");
}

#[test]
fn nodes_in_the_same_state_are_one_line() {
    let words = |nodes: &[usize]| nodes_that(nodes, "waits", "wait");
    assert_eq!(words(&[]), None);
    assert_eq!(words(&[7]).unwrap(), "node 7 waits");
    assert_eq!(words(&[0, 1, 2, 3]).unwrap(), "nodes 0 to 3 wait");
    assert_eq!(words(&[0, 1, 4, 6, 7, 8]).unwrap(), "nodes 0, 1, 4, 6 to 8 wait");
}

/// A killed node leaves operations behind at its disk, which another disk cannot replace before they have ended.
#[test]
fn a_disk_can_be_replaced_when_a_killed_node_has_left_nothing_at_it() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { nodes: Some(4), disk_size: Some(16 << 20), ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    let said = engine.may_get_disk(1).unwrap_err().to_string();
    assert!(said.contains("node 1 runs"), "{said}");
    let node = engine.originator(1).expect("a node runs");
    engine.submit(node, 1, VolumeId(0), HostOp::Write(0, Buffer::from(vec![1; 1 << 20])));
    until(&mut engine, |engine| engine.disk_ops(1) > 0);
    engine.kill_node(1, "the test kills it").unwrap();
    assert!(engine.disk_ops(1) > 0 && !engine.disk_rests(1), "nobody has asked how far they are");
    let said = engine.may_get_disk(1).unwrap_err().to_string();
    assert!(said.contains("operations in progress"), "{said}");
    until(&mut engine, |engine| engine.disk_ops(1) == 0);
    assert!(engine.disk_rests(1) && engine.may_get_disk(1).is_ok());
}

#[test]
fn a_disk_whose_file_is_removed_is_in_trouble() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { nodes: Some(4), disk_size: Some(16 << 20), ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    engine.look_for_files();
    assert!(engine.on_removed_files().is_empty());
    std::fs::remove_file(&engine.instances[1].path).unwrap();
    // The next look is not in five seconds.
    engine.instances[1].file = Default::default();
    until(&mut engine, |engine| engine.on_removed_files() == [1]);
    let trouble = engine.trouble_in_words(1).unwrap();
    assert!(trouble.contains("`weft disk drain 1`"), "{trouble}");
    assert_eq!(engine.trouble_in_words(0), None);
    write(&mut engine, 1000, 7, 300_000);
    std::fs::remove_file(&engine.instances[2].path).unwrap();
    // One look waits for a moment only.
    for _ in 0..100 {
        engine.look_for_files();
        if engine.on_removed_files() == [1, 2] {
            return;
        }
    }
    panic!("also at the end");
}

/// No process would open it again, and content is missing.
#[test]
fn a_disk_whose_file_is_cut_is_in_trouble_until_it_has_its_length() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { nodes: Some(4), disk_size: Some(16 << 20), ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    let look = |engine: &mut Engine, is_cut: bool| {
        for _ in 0..1000 {
            engine.look_for_files();
            if engine.trouble_in_words(1).is_some() == is_cut {
                return;
            }
        }
        panic!("it is not seen: {:?}", engine.trouble_in_words(1));
    };
    look(&mut engine, false);
    let path = engine.instances[1].path.clone();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(12 << 20).unwrap();
    look(&mut engine, true);
    let trouble = engine.trouble_in_words(1).unwrap();
    assert!(trouble.contains("from 16 MiB to 12 MiB"), "{trouble}");
    assert!(
        trouble.contains(&format!("`truncate -s {} {}`", 16 << 20, path.display())),
        "{trouble}"
    );
    assert_eq!(engine.trouble_in_words(0), None);
    file.set_len(16 << 20).unwrap();
    look(&mut engine, false);
}

fn loses_and_regains_a_node(dir: &Path, layout: &str, lanes: usize) {
    let spec = Spec {
        nodes: Some(4),
        disk_size: Some(16 << 20),
        layout: layout.parse().ok(),
        ..Spec::default()
    };
    let mut engine = engine(dir, &spec, lanes);
    write(&mut engine, 1000, 7, 300_000);
    assert_reads(&mut engine, 1000, 7, 300_000);
    engine.kill_node(2, "the test kills it").unwrap();
    until(&mut engine, Engine::is_settled);
    assert_reads(&mut engine, 1000, 7, 300_000);
    write(&mut engine, 5000, 8, 200_000);
    engine.start_node(2).unwrap();
    until(&mut engine, |e| e.is_quiet() && !e.map().is_stale(NodeId(2)));
    engine.kill_node(1, "the test kills it").unwrap();
    until(&mut engine, Engine::is_settled);
    assert_reads(&mut engine, 5000, 8, 200_000);
    drop(engine);

    let mut engine = self::engine(dir, &spec, lanes);
    until(&mut engine, Engine::is_quiet);
    assert_reads(&mut engine, 5000, 8, 200_000);
    let HostData::Scrubbed(found, _) = ask(&mut engine, HostOp::SCRUB) else {
        panic!("a scrub is answered with what it found");
    };
    assert_eq!((found.verified, found.mismatched), (found.stripes, 0), "{found:?}");
}

/// A disk is overwritten from outside. A scrub mends it and names it; so do the counts, until they are cleared.
#[test]
fn a_disk_that_was_damaged_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { nodes: Some(4), disk_size: Some(16 << 20), ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    write(&mut engine, 0, 7, 3 << 20);
    until(&mut engine, Engine::is_quiet);
    drop(engine);
    let path = dir.path().join("disk-2.img");
    let mut bytes = std::fs::read(&path).unwrap();
    let units = bytes.chunks_exact_mut(4096).filter(|sector| sector.iter().all(|b| *b == 7));
    let damaged = units.map(|sector| sector[9] = 8).count() as u64;
    assert!(damaged > 100, "{damaged}");
    std::fs::write(&path, bytes).unwrap();

    let mut engine = self::engine(dir.path(), &spec, 1);
    until(&mut engine, Engine::is_quiet);
    let HostData::Scrubbed(p, found) = ask(&mut engine, HostOp::SCRUB) else {
        panic!("a scrub is answered with what it found");
    };
    assert_eq!(found.mended, [(NodeId(2), p.rebuilt)].into(), "{p:?}");
    until(&mut engine, Engine::is_quiet);
    let errors = engine.errors_of(2);
    assert_eq!((errors.read, errors.write), (0, 0));
    assert!((1..=damaged).contains(&errors.mended_sectors), "{errors}");
    assert!(errors.checksum >= errors.mended_sectors && engine.errors_of(1).is_none(), "{errors}");
    engine.kill_node(2, "the test kills it").unwrap();
    assert_eq!(engine.errors_of(2), errors, "they outlast its node");
    assert_eq!(engine.clear_errors(2).unwrap(), errors);
    assert!(engine.errors_of(2).is_none());
    assert_reads(&mut engine, 0, 7, 3 << 20);
}

#[test]
fn a_node_is_lost_and_regained_in_memory() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    LANES.into_iter().for_each(|lanes| {
        loses_and_regains_a_node(&dir.path().join(lanes.to_string()), "raid5", lanes)
    });
}

#[test]
fn a_node_is_lost_and_regained_on_a_file_system() {
    let dir = tempfile::tempdir().unwrap();
    LANES.into_iter().for_each(|lanes| {
        loses_and_regains_a_node(&dir.path().join(lanes.to_string()), "rs:2+1", lanes)
    });
}

/// The map counts it as up until the others have gone on without its earlier life.
#[test]
fn a_node_that_starts_again_takes_no_requests_before_it_has_a_map() {
    for lanes in LANES {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
        let mut engine = engine(dir.path(), &spec, lanes);
        engine.kill_node(2, "the test kills it").unwrap();
        engine.start_node(2).unwrap();
        assert!(engine.map().is_up(NodeId(2)));
        engine.instances[2].phase = Phase::Running;
        assert_eq!(engine.originator(2), Some(3));
        engine.instances[2].phase = Phase::Opening;
        until(&mut engine, |e| e.originator(2) == Some(2));
    }
}

#[test]
fn the_map_is_told_while_nodes_serve_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    assert!(engine.knows_map());
    // A node has been told of a later one.
    let epoch = engine.map().epoch;
    engine.instances[1].coming = epoch + 1;
    assert!(!engine.knows_map());
    engine.instances[1].coming = epoch;
    assert!(engine.knows_map());
    (0..engine.instances.len()).for_each(|n| engine.kill_node(n, "the test kills it").unwrap());
    assert!(!engine.knows_map(), "nobody serves");
}

#[test]
fn draining_nodes_finish_what_they_have_begun() {
    for lanes in LANES {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
        let mut engine = engine(dir.path(), &spec, lanes);
        engine.submit(0, 5, VolumeId(0), HostOp::Write(0, Buffer::from(vec![1; 4096])));
        engine.drain_node(0).unwrap();
        assert_eq!(engine.originator(0), Some(1), "it takes no new requests");
        until(&mut engine, |e| e.instances[0].phase == Phase::Down && e.is_settled());
        assert!(matches!(engine.take_answers()[..], [(5, Ok(HostData::Done))]));
        assert!(engine.drain_node(0).unwrap_err().0.contains("already down"));
        assert!(engine.start_node(9).unwrap_err().0.contains("choose from 0 to 4"));
    }
}

#[test]
fn a_node_that_is_stopped_leaves_nothing_undecided_or_out_of_place() {
    for lanes in LANES {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
        let mut engine = engine(dir.path(), &spec, lanes);
        write(&mut engine, 0, 4, 300_000);
        let unfinished = engine.unfinished();
        assert!(unfinished.iter().any(|l| l.contains("finished")), "{unfinished:?}");
        engine.drain_node(0).unwrap();
        until(&mut engine, |e| e.instances[0].phase == Phase::Down);
        assert_eq!(engine.instances[0].why, "it was stopped");
        until(&mut engine, Engine::is_quiet);
        assert_eq!(engine.unfinished(), Vec::<String>::new());
        assert_reads(&mut engine, 0, 4, 300_000);
    }
}

#[test]
fn a_node_that_never_comes_to_rest_is_stopped_all_the_same() {
    // On a thread of its own it may come to rest at any time.
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    engine.submit(0, 5, VolumeId(0), HostOp::Write(0, Buffer::from(vec![1; 300_000])));
    engine.drain_node(0).unwrap();
    let patience = engine.instances[0].patience.expect("it has some");
    engine.drain_node(0).unwrap();
    assert_eq!(engine.instances[0].patience, Some(patience), "asking twice gives no more time");
    engine.instances[0].patience = Some(0);
    until(&mut engine, |e| e.instances[0].phase == Phase::Down);
    assert!(
        engine.instances[0].why.contains("other nodes finish its work"),
        "{}",
        engine.instances[0].why
    );
    assert_eq!(engine.stopped, [0], "its requests are for others to take");
    assert_eq!(engine.instances[0].patience, None);
}

#[test]
fn a_missing_or_foreign_disk_keeps_its_node_down() {
    for lanes in LANES {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
        let mut first = engine(dir.path(), &spec, lanes);
        write(&mut first, 0, 3, 70_000);
        until(&mut first, Engine::is_quiet);
        drop(first);
        let disk = dir.path().join("disk-1.img");
        std::fs::rename(&disk, dir.path().join("away")).unwrap();
        let mut second = engine(dir.path(), &spec, lanes);
        assert_eq!(second.instances[1].phase, Phase::Down);
        assert!(second.instances[1].why.contains("disk-1.img"), "{}", second.instances[1].why);
        assert_reads(&mut second, 0, 3, 70_000);
        drop(second);
        std::fs::copy(dir.path().join("disk-0.img"), &disk).unwrap();
        let mut third = engine(dir.path(), &spec, lanes);
        assert!(
            third.instances[1].why.contains("the disk of node 0"),
            "{}",
            third.instances[1].why
        );
        assert_reads(&mut third, 0, 3, 70_000);
    }
}

#[test]
fn a_map_that_cannot_be_stored_is_stored_later_and_changes_are_refused_meanwhile() {
    for lanes in LANES {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
        let mut engine = engine(dir.path(), &spec, lanes);
        write(&mut engine, 0, 3, 300_000);
        let spare = dir.path().join("weft.toml.new");
        std::fs::remove_file(&spare).unwrap();
        std::fs::create_dir(&spare).unwrap();
        let ticket = engine.change(Change::Suspect(NodeId(0), true));
        let refused = engine.outcome(ticket).unwrap().unwrap_err().0;
        assert!(refused.contains("weft.toml.new") && refused.contains("nothing was changed"));
        assert_reads(&mut engine, 0, 3, 300_000);
        engine.kill_node(1, "the test kills it").unwrap();
        until(&mut engine, |e| !e.is_settled());
        let others = |e: &Engine| (0..5).all(|n| (n == 1) != e.instances[n].runs());
        assert!(others(&engine) && !engine.is_settled());
        std::fs::remove_dir(&spare).unwrap();
        until(&mut engine, Engine::is_settled);
        assert!(others(&engine));
        assert_reads(&mut engine, 0, 3, 300_000);
        let ticket = engine.change(Change::Suspect(NodeId(0), true));
        until(&mut engine, Engine::is_settled);
        assert_eq!(engine.outcome(ticket), Some(Ok(())));
        assert!(engine.map().nodes[0].suspect);
    }
}

#[test]
fn the_first_write_may_come_after_a_loss() {
    for lanes in LANES {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
        let mut engine = engine(dir.path(), &spec, lanes);
        engine.kill_node(1, "the test kills it").unwrap();
        until(&mut engine, Engine::is_settled);
        write(&mut engine, 0, 3, 4096);
        assert_reads(&mut engine, 0, 3, 4096);
    }
}

#[test]
fn messages_without_end_let_sockets_have_their_turn() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    let letters = |engine: &mut Engine, count: usize| {
        for _ in 0..count {
            engine.lanes.own.gate.letter(letter(0));
        }
    };
    letters(&mut engine, 3 * lane::HANDFUL);
    assert!(engine.deliver_until(0), "its turn is over");
    assert!(engine.lanes.own.gate.has_work(|| true), "the rest is delivered later");
    assert!(!engine.deliver_until(Nanos::MAX));
    assert!(!engine.lanes.own.gate.has_work(|| true));
}

#[test]
fn hosts_have_answers_before_disks_are_given_what_nobody_waits_for() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    until(&mut engine, Engine::is_quiet);
    let wait = |engine: &mut Engine, urgency| {
        // Of a life that is over, so nothing comes of it when it has its turn.
        let tag = Tag { node: 0, life: u64::MAX, id: 1, urgency };
        let op = DiskOp::Read { offset: 0, len: 4096 };
        engine.lanes.own.start_disk_operation(tag, DiskRequest { id: 1, op, urgency });
    };
    wait(&mut engine, Urgency::Placing);
    engine.answer((9, Ok(HostData::Done)));
    assert!(!engine.run(), "the answer is to be given");
    assert!(!engine.lanes.own.begins_nothing(), "the disk waits for that");
    engine.run();
    assert!(engine.lanes.own.begins_nothing(), "once: there may always be an answer");
    wait(&mut engine, Urgency::Awaited);
    engine.run();
    assert!(engine.lanes.own.begins_nothing(), "a host waits for this, too");
    assert!(matches!(engine.take_answers()[..], [(9, Ok(HostData::Done))]));
}

/// The file of what parity that waits has exposed cannot be written for a while: nothing waits for that but the end.
#[test]
fn a_node_ends_while_the_directory_does_not_answer() {
    let dir = tempfile::tempdir().unwrap();
    let never = BTreeMap::from([("redundancy".to_string(), "never".to_string())]);
    let policy = crate::policy::given(&never).unwrap();
    let spec = Spec { nodes: Some(4), disk_size: Some(16 << 20), policy, ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    write(&mut engine, 0, 7, 4096);
    let measured = |e: &Engine| {
        let node = |n| e.seat(n).and_then(|seat| seat.node.as_ref());
        (0..4).filter_map(node).any(|node| node.exposed().any(|(_, exposed)| exposed.is_measured()))
    };
    assert!(measured(&engine), "there is something to write");
    // Opening a FIFO to write to it waits for somebody who reads.
    let spare = dir.path().join("exposed.toml.new");
    mknodat(CWD, &spare, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (go, wait) = channel::<()>();
    let reader = spare.clone();
    let reader = spawn(move || {
        let _ = wait.recv_timeout(Duration::from_secs(20));
        File::open(reader).map(drop)
    });
    let begun = Instant::now();
    for node in [1, 2] {
        engine.kill_node(node, "the test kills it").unwrap();
        engine.run();
        engine.follow_rule();
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    go.send(()).unwrap();
    reader.join().unwrap().unwrap();
}

/// It may be the only one that reports that earlier writes were lost.
#[test]
fn a_node_stops_when_its_copy_of_the_map_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { nodes: Some(4), disk_size: Some(16 << 20), ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    until(&mut engine, Engine::copies_are_done);
    let failed = |engine: &mut Engine| {
        let life = engine.instances[1].life;
        let tag = Tag { node: 1, life, id: copies::COPY, urgency: Urgency::Awaited };
        engine.copy_ended(tag, Err("cannot write".to_string()));
    };
    engine.keep_copies(1);
    failed(&mut engine);
    assert!(engine.instances[1].runs(), "it could not be read");
    engine.instances[1].keeper = crate::disk::map_copies::Keeper::writing();
    failed(&mut engine);
    assert!(!engine.instances[1].runs() && engine.instances[1].wanted);
    assert!(engine.instances[1].why.contains("its disk failed: cannot write"));
}

/// The disk has answered again, and cannot be opened at once.
#[test]
fn a_node_that_hung_is_tried_again_if_it_cannot_start() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { nodes: Some(4), disk_size: Some(16 << 20), ..Spec::default() };
    let mut engine = engine(dir.path(), &spec, 1);
    let path = engine.instances[1].path.clone();
    std::fs::rename(&path, dir.path().join("away")).unwrap();
    engine.take_out(1, hung::Trouble { what: "it hangs".to_string(), is_full: false });
    until(&mut engine, |engine| engine.instances[1].why.contains("No such file"));
    assert!(engine.instances[1].wanted && engine.instances[1].failures.pauses(engine.clock.now()));
}
