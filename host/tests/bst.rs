//! Base storage transactions on real nodes: what shared storage's Table 1 lists, every two at the
//! same time from two hosts at two nodes, in each mode of a volume and under each ordering.
//!
//! The tasks go over stripes in turn, so that they meet the disk that is lost (or left) as data, as
//! another's data and as parity; which of Table 1's entries that makes of them is the plan's
//! business, and is tested where plans are. Some serial order must explain what comes out.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use weft_core::policy::{Dispatch, Ordering, Setting};
use weft_front::nbd::client::Client;
use weft_host::{Array, Control, ControlRequest, DiskAction, Handle, Listen, NodeAction, Spec};

const NODES: usize = 7;
const UNIT: usize = 8 << 10;
const STRIPE: usize = 3 * UNIT;
const SIZE: u64 = 96 << 20;
/// The stripes that are used are the volume's last: a rebuild or a copy comes to them last.
const STRIPES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    FaultFree,
    Degraded,
    Reconstructing,
    Migrating,
}

/// What one host does to a stripe: first byte, bytes, whether it writes.
#[derive(Clone, Copy, Debug)]
struct Task(usize, usize, bool);

const TASKS: [Task; 7] = [
    Task(0, UNIT, false),
    Task(UNIT, 2 * UNIT, false),
    Task(0, 4096, true),
    Task(UNIT, 4096, true),
    Task(2 * UNIT + 512, 1024, true),
    Task(0, 2 * UNIT, true),
    Task(0, STRIPE, true),
];

fn start(dir: &Path, ordering: Ordering) -> Handle {
    let spec = Spec {
        nodes: Some(NODES),
        disk_size: Some(80 << 20),
        volumes: vec![("v".into(), SIZE)],
        layout: Some("rs:3+1".parse().unwrap()),
        stripe_unit: Some(UNIT as u64),
        policy: vec![Setting::Dispatch(Dispatch::Commanded), Setting::Ordering(ordering)],
        ..Spec::default()
    };
    let listens = [Listen::unix(dir.join("nbd.sock"))];
    Array::start(dir, &spec, &listens, weft_host::Log::silent()).unwrap().spawn().unwrap()
}

fn open(dir: &Path) -> Client<UnixStream> {
    Client::connect(UnixStream::connect(dir.join("nbd.sock")).unwrap(), "v").unwrap()
}

fn base(stripe: usize) -> u64 {
    let last = SIZE as usize / STRIPE - STRIPES;
    ((last + stripe) * STRIPE) as u64
}

fn noise(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 131 % 251) as u8 ^ (seed * 37 + 11) as u8).collect()
}

/// Does a task; what it read, if it did.
fn act(client: &mut Client<UnixStream>, stripe: usize, task: Task, seed: usize) -> Option<Vec<u8>> {
    let (at, Task(from, len, writes)) = (base(stripe), task);
    let offset = at + from as u64;
    if writes {
        client.write_at(offset, &noise(len, seed), false).unwrap();
        return None;
    }
    Some(client.read_at(offset, len as u32).unwrap().to_vec())
}

/// What a task answers and leaves when it has the stripe for itself.
fn apply(task: Task, seed: usize, content: &mut [u8]) -> Option<Vec<u8>> {
    let Task(from, len, writes) = task;
    let part = &mut content[from..from + len];
    if writes {
        part.copy_from_slice(&noise(len, seed));
        return None;
    }
    Some(part.to_vec())
}

/// Writes what lies before the stripes that are used: what was never written is not copied.
fn fill(client: &mut Client<UnixStream>) {
    const PIECE: usize = 128 * STRIPE;
    let piece = noise(PIECE, 0);
    for at in (0..base(0)).step_by(PIECE) {
        let len = PIECE.min((base(0) - at) as usize);
        client.write_at(at, &piece[..len], false).unwrap();
    }
}

/// Has the volume go into a mode, by what is done to a node with a part of it: says which.
fn enter(control: &mut Control, mode: Mode) -> usize {
    let status = control.request(&ControlRequest::Status).unwrap();
    let has_column = |n: &usize| status["nodes"][*n]["columns"].as_u64() > Some(0);
    let victim = (0..NODES).find(has_column).expect("a node with a column");
    let mut disk = |action| control.request(&ControlRequest::disk(action, victim)).unwrap();
    match mode {
        Mode::FaultFree => {}
        Mode::Degraded => {
            let kill = ControlRequest::Node { action: NodeAction::Kill, node: victim };
            control.request(&kill).unwrap();
        }
        Mode::Reconstructing => drop(disk(DiskAction::Fail)),
        Mode::Migrating => drop(disk(DiskAction::Drain)),
    }
    // A move begins when the cluster has decided where to.
    while moves(mode) && now_is(control) != mode {
        thread::sleep(Duration::from_millis(1));
    }
    victim
}

/// Whether columns move in a mode, so that it ends by itself.
fn moves(mode: Mode) -> bool {
    matches!(mode, Mode::Reconstructing | Mode::Migrating)
}

/// If the move or rebuild is over another begins, of another disk; says so.
fn begins_anew(control: &mut Control, mode: Mode, victim: &mut usize) -> bool {
    let is_over = moves(mode) && now_is(control) != mode;
    if is_over {
        let back = match mode {
            Mode::Migrating => ControlRequest::disk(DiskAction::Undrain, *victim),
            _ => ControlRequest::disk_replace(*victim),
        };
        control.request(&back).unwrap();
        *victim = enter(control, mode);
    }
    is_over
}

/// How fast columns are moved and rebuilt: as slowly as can be, so that pairs run meanwhile, or as fast.
fn set_rates(control: &mut Control, floor: &str, ceiling: &str) {
    for (key, value) in [("rebuild-floor", floor), ("rebuild-ceiling", ceiling)] {
        let (key, value) = (key.to_string(), value.to_string());
        control.request(&ControlRequest::ClusterSet { key, value }).unwrap();
    }
}

/// The mode that the volume is in.
fn now_is(control: &mut Control) -> Mode {
    let status = control.request(&ControlRequest::Status).unwrap();
    let volume = &status["volumes"][0];
    match volume["mode"].as_str() {
        Some("fault-free") => Mode::FaultFree,
        Some("degraded") => Mode::Degraded,
        Some("reconstructing") => Mode::Reconstructing,
        Some("migrating") if volume["extents_migrating"].as_u64() > Some(0) => Mode::Migrating,
        _ => panic!("{volume}"),
    }
}

/// Two tasks at the same time on a stripe: some order of them explains what they answer and leave.
fn run_pair(
    hosts: &mut [Client<UnixStream>; 2],
    stripe: usize,
    content: &mut Vec<u8>,
    tasks: [Task; 2],
    seeds: [usize; 2],
    place: &str,
) {
    let together = Barrier::new(2);
    let answers: Vec<Option<Vec<u8>>> = thread::scope(|scope| {
        let begun = hosts.iter_mut().zip(tasks).zip(seeds).map(|((host, task), seed)| {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                act(host, stripe, task, seed)
            })
        });
        let begun: Vec<_> = begun.collect();
        begun.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let after = hosts[0].read_at(base(stripe), STRIPE as u32).unwrap();
    let explains = |order: &[usize; 2]| {
        let mut serial = content.clone();
        let same = |n: &usize| apply(tasks[*n], seeds[*n], &mut serial) == answers[*n];
        order.iter().all(same) && serial == after
    };
    assert!([[0, 1], [1, 0]].iter().any(explains), "{place}: no serial order explains it");
    *content = after.to_vec();
}

/// Every two tasks at the same time on every stripe.
fn pairs(mode: Mode) {
    for ordering in Ordering::ALL.into_iter().filter(|o| *o != Ordering::None) {
        let dir = tempfile::tempdir().unwrap();
        let array = start(dir.path(), ordering);
        let mut control = Control::connect(array.dir()).unwrap();
        let mut hosts = [open(dir.path()), open(dir.path())];
        let mut content = vec![noise(STRIPE, 0); STRIPES];
        for (stripe, content) in content.iter().enumerate() {
            hosts[0].write_at(base(stripe), content, false).unwrap();
        }
        if moves(mode) {
            fill(&mut hosts[0]);
            set_rates(&mut control, "1M", "1M");
        }
        let mut victim = enter(&mut control, mode);
        let both = TASKS.iter().enumerate();
        let pairs = both.flat_map(|(n, a)| TASKS[..=n].iter().map(|b| [*a, *b]));
        let mut seed = 0;
        for tasks in pairs {
            for (stripe, content) in content.iter_mut().enumerate() {
                let place = format!("{mode:?}, {ordering}, {tasks:?}, stripe {stripe}");
                // What ran when the move or rebuild was over already is run again during the next.
                let mut tries = 0..100;
                loop {
                    seed += 2;
                    run_pair(&mut hosts, stripe, content, tasks, [seed - 1, seed], &place);
                    if !begins_anew(&mut control, mode, &mut victim) {
                        break;
                    }
                    assert!(tries.next().is_some(), "{place}: nothing lasts as long");
                }
            }
        }
        match moves(mode) {
            true => set_rates(&mut control, "configured", "configured"),
            false => assert_eq!(now_is(&mut control), mode, "{ordering}"),
        }
        drop(hosts);
        control.request(&ControlRequest::Quiesce).unwrap();
        let scrub = control.request(&ControlRequest::scrub("v")).unwrap();
        assert_eq!(scrub["mismatched"], 0, "{mode:?}, {ordering}");
        array.shutdown().unwrap();
    }
}

#[test]
fn fault_free() {
    pairs(Mode::FaultFree);
}

#[test]
fn degraded() {
    pairs(Mode::Degraded);
}

#[test]
fn reconstructing() {
    pairs(Mode::Reconstructing);
}

#[test]
fn migrating() {
    pairs(Mode::Migrating);
}
