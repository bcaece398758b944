//! The base storage transactions of shared storage's Table 1: every entry alone, and every two of
//! a mode at the same time from two hosts, under every ordering that keeps order.
//!
//! The hosts are originators that command the workers. What comes out must be what some serial
//! order of the two gives: each read sees the volume before or after the other's write, the volume
//! ends as the writes in that order leave it, and parity is true.

use weft_core::Buffer;
use weft_core::cluster::{EXTENT_COLUMN_BYTES, Place, Volume, place_volume};
use weft_core::layout::{ColumnRole, Geometry, LayoutSpec};
use weft_core::node::{HostData, HostOp, NodeConfig};
use weft_core::order::Ordering;
use weft_core::plan::{Range, Strategy, WritePlan};
use weft_core::policy::{Commit, Dispatch, Policy};
use weft_core::units::{ColumnSet, MILLIS, NodeId, SECTOR, VolumeId};
use weft_sim::world::World;

const ID: VolumeId = VolumeId(1);
/// Disks; a stripe is on the first four that the volume is given.
const DISKS: usize = 7;
const DATA: u64 = 3;
const UNIT: u64 = 2 * SECTOR;
const STRIPE: u64 = DATA * UNIT;
const STRIPES: u64 = 8;
/// The column whose disk fails, or is left.
const VICTIM: usize = 1;

/// The modes of an extent (Table 1's columns).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    FaultFree,
    Degraded,
    Reconstructing,
    Migrating,
}

/// What a task does, in terms of the stripe that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Reads the block on the failed (or left) disk.
    ReadFailed,
    /// Reads another block of that stripe.
    ReadOther,
    /// Writes part of the block on the failed (or left) disk.
    WriteFailed,
    /// Writes part of another block of that stripe.
    WriteOther,
    /// Writes two blocks of three, none of them on the failed disk where there is one.
    WriteMost,
    /// Writes a whole stripe.
    WriteStripe,
    /// Writes part of a block of a stripe whose parity is on the failed disk.
    WriteParityFailed,
}

/// The entries of Table 1 that hosts begin: mode, task, the name of the transaction, and how parity
/// comes about if it writes.
const TABLE_1: [(Mode, Task, &str, Option<Strategy>); 17] = [
    (Mode::FaultFree, Task::ReadOther, "read", None),
    (Mode::FaultFree, Task::WriteOther, "readModifyWrite", Some(Strategy::Small)),
    (Mode::FaultFree, Task::WriteMost, "largeWrite", Some(Strategy::Large)),
    (Mode::FaultFree, Task::WriteStripe, "fullStripeWrite", Some(Strategy::Full)),
    (Mode::Degraded, Task::ReadFailed, "degradedRead", None),
    (Mode::Degraded, Task::ReadOther, "read", None),
    (Mode::Degraded, Task::WriteFailed, "reconstructWrite", Some(Strategy::Large)),
    (Mode::Degraded, Task::WriteOther, "readModifyWrite", Some(Strategy::Small)),
    (Mode::Degraded, Task::WriteParityFailed, "parityFailedWrite", Some(Strategy::Small)),
    (Mode::Reconstructing, Task::ReadFailed, "degradedRead", None),
    (Mode::Reconstructing, Task::ReadOther, "read", None),
    (Mode::Reconstructing, Task::WriteFailed, "replacementWrite", None),
    (Mode::Reconstructing, Task::WriteOther, "readModifyWrite", None),
    (Mode::Reconstructing, Task::WriteParityFailed, "reconstructWrite", None),
    (Mode::Migrating, Task::ReadFailed, "read (old location)", None),
    (Mode::Migrating, Task::WriteFailed, "multiWrite", None),
    (Mode::Migrating, Task::WriteStripe, "multiWrite of a stripe", None),
];

const ORDERINGS: [Ordering; 4] =
    [Ordering::DeviceLocks, Ordering::Timestamps, Ordering::LockServer, Ordering::CallbackLocks];

fn geometry() -> Geometry {
    let spec: LayoutSpec = "raid5".parse().unwrap();
    Geometry::new(spec.over(4).unwrap(), UNIT)
}

/// A stripe in which the victim's column has data, or parity.
fn stripe(holds_data: bool) -> u64 {
    let g = geometry();
    let data = |s: &u64| matches!(g.layout.role(*s, VICTIM), ColumnRole::Data(_));
    (0..STRIPES).find(|s| data(s) == holds_data).expect("one in four holds parity")
}

/// The bytes that a task is about.
fn range(task: Task) -> Range {
    let g = geometry();
    let s = stripe(task != Task::WriteParityFailed);
    let start = s * STRIPE;
    let failed = match g.layout.role(s, VICTIM) {
        ColumnRole::Data(i) => i as u64,
        ColumnRole::Parity(_) => DATA,
    };
    let other = (0..DATA).find(|i| *i != failed).expect("three units");
    let (offset, len) = match task {
        Task::ReadFailed => (failed * UNIT, UNIT),
        Task::ReadOther => (0, 2 * UNIT),
        Task::WriteFailed => (failed * UNIT, SECTOR),
        Task::WriteOther => (other * UNIT, SECTOR),
        Task::WriteMost => (0, 2 * UNIT),
        Task::WriteStripe => (0, STRIPE),
        Task::WriteParityFailed => (0, SECTOR),
    };
    Range { offset: start + offset, len }
}

fn is_write(task: Task) -> bool {
    !matches!(task, Task::ReadFailed | Task::ReadOther)
}

fn policy(ordering: Ordering, commit: Commit) -> Policy {
    let dispatch = Dispatch::Commanded;
    Policy { ordering, commit, dispatch, journal: commit.is_voted(), ..Policy::default() }
}

struct Bench {
    world: World,
    asked: u64,
}

impl Bench {
    fn new(policy: Policy, seed: u64, config: NodeConfig) -> Bench {
        let spec: LayoutSpec = "raid5".parse().unwrap();
        let volume = |disk: u64| {
            let disks = Place::apart(&[disk; DISKS]);
            let (g, size) = (geometry(), STRIPE * STRIPES);
            let extents = place_volume(&g, size, &disks, &[], EXTENT_COLUMN_BYTES).unwrap();
            vec![Volume { policy, ..Volume::new(ID, "v", size, &spec, g, extents) }]
        };
        let world = World::new(seed, DISKS, 1200, 512, config, volume);
        let mut bench = Bench { world, asked: 0 };
        bench.rest();
        let first = bench.begin(bench.host(0), HostOp::Write(0, noise(STRIPE * STRIPES, 0).into()));
        bench.end(first);
        bench
    }

    /// A node that can be a host and holds no column.
    fn host(&self, n: usize) -> NodeId {
        let extent = &self.world.map().volumes[&ID].extents[0];
        let idle = |id: &NodeId| self.world.map().is_up(*id) && extent.place_on(*id).is_none();
        (0..DISKS as u16).map(NodeId).filter(idle).nth(n).expect("more disks than columns")
    }

    fn begin(&mut self, node: NodeId, op: HostOp) -> u64 {
        self.asked += 1;
        self.world.host(node, self.asked, ID, op);
        self.asked
    }

    fn end(&mut self, request: u64) -> HostData {
        for _ in 0..4_000_000 {
            if let Some(n) = self.world.replies.iter().position(|r| r.0 == request) {
                return self.world.replies.swap_remove(n).1.expect("it can be done");
            }
            self.world.step().expect("time goes on");
        }
        panic!("no answer");
    }

    /// Until nothing is in work and every disk has what it should have.
    fn rest(&mut self) {
        for _ in 0..4_000_000 {
            let map = self.world.map();
            let epoch = map.epoch;
            let up: Vec<NodeId> = map.up().collect();
            let whole = map
                .volumes
                .values()
                .all(|v| v.extents.iter().all(|e| e.filling.is_empty() && e.leaving.is_empty()));
            let rests =
                |n: &NodeId| self.world.status(*n).is_some_and(|s| s.quiet && s.epoch == epoch);
            if epoch > 0 && whole && up.iter().all(rests) {
                return;
            }
            self.world.step().expect("time goes on");
        }
        panic!("no rest");
    }

    /// Brings the volume into a mode.
    fn enter(&mut self, mode: Mode) {
        let victim = self.world.map().volumes[&ID].extents[0].columns[VICTIM].0;
        match mode {
            Mode::FaultFree => {}
            Mode::Degraded => self.lose(victim),
            Mode::Reconstructing => {
                self.lose(victim);
                self.world.give_up(victim);
                self.until(|e| !e.filling.is_empty());
            }
            Mode::Migrating => {
                self.world.drain(victim, true);
                self.until(|e| !e.leaving.is_empty());
            }
        }
    }

    fn lose(&mut self, node: NodeId) {
        self.world.kill(node, false);
        while self.world.map().is_up(node) {
            self.world.step().expect("time goes on");
        }
    }

    fn until(&mut self, is: impl Fn(&weft_core::cluster::Extent) -> bool) {
        while !is(&self.world.map().volumes[&ID].extents[0]) {
            self.world.step().expect("time goes on");
        }
    }

    fn wait(&mut self, time: u64) {
        self.world.call_after(time, 1);
        while self.world.step().expect("time goes on").is_none() {}
    }

    fn all(&mut self) -> Vec<u8> {
        let whole = Range { offset: 0, len: STRIPE * STRIPES };
        let request = self.begin(self.host(0), HostOp::Read(whole));
        bytes(self.end(request))
    }

    /// Reads every block from the others of its stripe, one disk after the other lost.
    fn check_parity(&mut self, content: &[u8]) {
        let request = self.begin(self.host(0), HostOp::SCRUB);
        let HostData::Scrubbed(found, _) = self.end(request) else {
            panic!("a scrub was asked for")
        };
        assert_eq!(found.mismatched, 0, "parity did not fit");
        if found.skipped > 0 {
            // A disk is lost: what it had was just read out of the others'.
            assert_eq!(self.all(), content);
        }
    }
}

fn bytes(data: HostData) -> Vec<u8> {
    let HostData::Bytes(pieces) = data else { panic!("a read was asked for: {data:?}") };
    Buffer::join(&pieces)
}

fn noise(len: u64, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i * 131 % 251) as u8 ^ seed.wrapping_mul(37)).collect()
}

fn op(task: Task, seed: u8) -> HostOp {
    let range = range(task);
    match is_write(task) {
        true => HostOp::Write(range.offset, noise(range.len, seed).into()),
        false => HostOp::Read(range),
    }
}

/// What a task answers and leaves when it has the volume for itself.
fn apply(task: Task, seed: u8, content: &mut [u8]) -> Option<Vec<u8>> {
    let range = range(task);
    let part = &mut content[range.offset as usize..range.end() as usize];
    if is_write(task) {
        part.copy_from_slice(&noise(range.len, seed));
        return None;
    }
    Some(part.to_vec())
}

/// Runs tasks at the same time, each from a host of its own, and checks that some order explains
/// what came of it.
fn run(mode: Mode, tasks: &[Task], policy: Policy, seed: u64) {
    let mut bench = Bench::new(policy, seed, config());
    bench.enter(mode);
    let begun: Vec<u64> = tasks
        .iter()
        .enumerate()
        .map(|(n, task)| bench.begin(bench.host(n), op(*task, n as u8 + 1)))
        .collect();
    let answers: Vec<Option<Vec<u8>>> = begun
        .into_iter()
        .zip(tasks)
        .map(|(request, task)| {
            let answer = bench.end(request);
            (!is_write(*task)).then(|| bytes(answer))
        })
        .collect();
    let content = bench.all();
    let orders: &[&[usize]] = if tasks.len() == 1 { &[&[0]] } else { &[&[0, 1], &[1, 0]] };
    let explains = |order: &&&[usize]| {
        let mut serial = noise(STRIPE * STRIPES, 0);
        let same = |n: &usize| apply(tasks[*n], *n as u8 + 1, &mut serial) == answers[*n];
        order.iter().all(same) && serial == content
    };
    assert!(
        orders.iter().any(|order| explains(&order)),
        "{mode:?} {tasks:?} {policy:?}, seed {seed}: no serial order explains what came of it"
    );
    if mode != Mode::Degraded {
        bench.rest();
        assert_eq!(bench.all(), content);
    }
    bench.check_parity(&content);
}

fn config() -> NodeConfig {
    NodeConfig { patience: 40 * MILLIS, place_after: 5 * MILLIS, ..NodeConfig::default() }
}

/// In which nothing is said that can wait.
fn quiet() -> NodeConfig {
    NodeConfig { notice_delay: 10_000 * MILLIS, ..config() }
}

fn tasks_of(mode: Mode) -> Vec<Task> {
    TABLE_1.iter().filter(|e| e.0 == mode).map(|e| e.1).collect()
}

fn alone_and_in_pairs(mode: Mode, commit: Commit) {
    let tasks = tasks_of(mode);
    for ordering in ORDERINGS {
        let policy = policy(ordering, commit);
        for (n, a) in tasks.iter().enumerate() {
            run(mode, &[*a], policy, 1);
            for b in &tasks[..=n] {
                for seed in 1..=2 {
                    run(mode, &[*a, *b], policy, seed);
                    run(mode, &[*b, *a], policy, seed + 10);
                }
            }
        }
    }
}

#[test]
fn fault_free() {
    alone_and_in_pairs(Mode::FaultFree, Commit::Late);
}

#[test]
fn fault_free_with_limited_atomicity() {
    alone_and_in_pairs(Mode::FaultFree, Commit::Limited);
}

#[test]
fn degraded() {
    alone_and_in_pairs(Mode::Degraded, Commit::Late);
}

#[test]
fn degraded_with_limited_atomicity() {
    alone_and_in_pairs(Mode::Degraded, Commit::Limited);
}

#[test]
fn reconstructing() {
    alone_and_in_pairs(Mode::Reconstructing, Commit::Late);
}

#[test]
fn reconstructing_with_limited_atomicity() {
    alone_and_in_pairs(Mode::Reconstructing, Commit::Limited);
}

#[test]
fn migrating() {
    alone_and_in_pairs(Mode::Migrating, Commit::Late);
}

#[test]
fn migrating_with_limited_atomicity() {
    alone_and_in_pairs(Mode::Migrating, Commit::Limited);
}

/// The strategies that Table 1's names stand for are those that the plan chooses.
#[test]
fn the_plan_chooses_table_1() {
    let g = geometry();
    for (mode, task, name, strategy) in TABLE_1 {
        let Some(strategy) = strategy else { continue };
        let lost = match mode {
            Mode::Degraded => ColumnSet::of(VICTIM),
            _ => ColumnSet::EMPTY,
        };
        let plan = WritePlan::new(&g, range(task), lost, Policy::default()).unwrap();
        assert!(
            plan.rows.iter().all(|r| r.strategy(&g) == Some(strategy)),
            "{name}: {:?}",
            plan.rows
        );
    }
}

/// Messages of one transaction that nobody hinders, from the request until everybody has heard.
fn messages(task: Task, policy: Policy) -> u64 {
    let mut bench = Bench::new(policy, 1, quiet());
    let before = bench.world.sent;
    let request = bench.begin(bench.host(1), op(task, 1));
    bench.end(request);
    let until = bench.world.now() + 20 * MILLIS;
    while bench.world.now() < until {
        bench.world.step().expect("time goes on");
    }
    bench.world.sent - before
}

/// Figures 7 and 8, and sections 4.2 to 4.5: messages there and back for each device, with those
/// that keep the order. A reply is a message.
#[test]
fn messages_are_those_of_the_paper() {
    let count = |task, ordering| messages(task, policy(ordering, Commit::Limited));
    use Ordering::{CallbackLocks, DeviceLocks, LockServer, None, Timestamps};
    // A read of two devices: there and back. Locks are given back apart (Figure 7), to the server
    // in one message (4.2.1).
    assert_eq!(count(Task::ReadOther, None), 4);
    assert_eq!(count(Task::ReadOther, Timestamps), 4);
    assert_eq!(count(Task::ReadOther, DeviceLocks), 4 + 2);
    assert_eq!(count(Task::ReadOther, LockServer), 4 + 3);
    // Called back from the host that filled the volume.
    assert_eq!(count(Task::ReadOther, CallbackLocks), 4 + 2 + 2);
    // A small write, in two phases at two devices: the order costs nothing.
    for ordering in [None, Timestamps, DeviceLocks] {
        assert_eq!(count(Task::WriteOther, ordering), 8, "{ordering}");
    }
    assert_eq!(count(Task::WriteOther, LockServer), 8 + 3);
    // A large write: one device is only read, and three are written. Those that are not read are
    // asked first where devices keep the order.
    assert_eq!(count(Task::WriteMost, None), 2 + 6);
    assert_eq!(count(Task::WriteMost, Timestamps), 2 + 6 + 6);
    assert_eq!(count(Task::WriteMost, DeviceLocks), 2 + 6 + 6 + 1);
    // A whole stripe, in one phase if nobody need be asked.
    assert_eq!(count(Task::WriteStripe, None), 8);
    assert_eq!(count(Task::WriteStripe, Timestamps), 16);
    assert_eq!(count(Task::WriteStripe, DeviceLocks), 16);
    assert_eq!(count(Task::WriteStripe, LockServer), 8 + 3);
}

/// The plan promises the same messages, and those of several stripes.
#[test]
fn the_plan_counts_what_is_sent() {
    let g = geometry();
    for ordering in [Ordering::None, Ordering::Timestamps] {
        let policy = policy(ordering, Commit::Limited);
        for task in [Task::WriteOther, Task::WriteMost, Task::WriteStripe] {
            let plan = WritePlan::new(&g, range(task), ColumnSet::EMPTY, policy).unwrap();
            assert_eq!(plan.totals(&g, policy).messages, messages(task, policy), "{task:?}");
        }
    }
    // Two stripes: the columns are asked about each, and told once.
    let across = Range { offset: STRIPE - UNIT, len: 2 * UNIT };
    let policy = policy(Ordering::Timestamps, Commit::Limited);
    let plan = WritePlan::new(&g, across, ColumnSet::EMPTY, policy).unwrap();
    let mut bench = Bench::new(policy, 1, quiet());
    let before = bench.world.sent;
    let write = HostOp::Write(across.offset, noise(across.len, 1).into());
    let request = bench.begin(bench.host(1), write);
    bench.end(request);
    assert_eq!(plan.totals(&g, policy).messages, bench.world.sent - before);
}

/// A second use of what was kept asks nobody; another host's use calls it back.
#[test]
fn kept_locks_are_used_again_and_called_back() {
    let mut bench = Bench::new(policy(Ordering::CallbackLocks, Commit::Limited), 1, quiet());
    let mut sent = |host: usize, task: Task| {
        let before = bench.world.sent;
        let request = bench.begin(bench.host(host), op(task, 1));
        bench.end(request);
        bench.world.sent - before
    };
    assert_eq!(sent(1, Task::ReadOther), 4 + 2 + 2, "called back from who filled the volume");
    assert_eq!(sent(1, Task::ReadOther), 4, "and kept");
    assert_eq!(sent(2, Task::ReadOther), 4 + 2, "read by another at the same time");
    assert_eq!(sent(1, Task::WriteOther), 8 + 2 + 2, "called back from the other reader");
}

/// Shared storage 3.2.3: a host that dies after the commit point may leave a stripe written in
/// part. It is found, and its parity is made to fit.
#[test]
fn what_a_dead_host_has_written_in_part_is_made_consistent() {
    for ordering in ORDERINGS {
        let mut repaired = 0;
        for seed in 0..900 {
            if seed >= 150 && repaired > 0 {
                break;
            }
            let steps = seed % 150;
            let mut bench = Bench::new(policy(ordering, Commit::Limited), seed, config());
            bench.world.story_length = 1000;
            let host = bench.host(1);
            bench.begin(host, op(Task::WriteOther, 1));
            for _ in 0..steps {
                bench.world.step();
            }
            // Half of what it sends last does not arrive.
            bench.world.conditions.drop_ppm = 500_000;
            for _ in 0..8 {
                bench.world.step();
            }
            bench.lose(host);
            bench.world.conditions.drop_ppm = 0;
            bench.rest();
            repaired +=
                bench.world.story.iter().filter(|line| line.contains("did not match")).count();
            let content = bench.all();
            bench.check_parity(&content);
            let mut written = noise(STRIPE * STRIPES, 0);
            let before = written.clone();
            apply(Task::WriteOther, 1, &mut written);
            assert!(content == before || content == written, "{ordering}, seed {seed}");
        }
        assert!(repaired > 0, "{ordering}: no run was cut at the bad moment");
    }
}

/// Whose clock is wrong by an hour is refused once or so, or makes others follow; nothing else.
#[test]
fn a_clock_that_is_an_hour_off_costs_a_refusal() {
    const HOUR: i64 = 3_600_000 * MILLIS as i64;
    for ordering in ORDERINGS {
        // Also where timestamps are forgotten all the time because they are too many.
        let forgetful =
            NodeConfig { timestamp_window: 40 * MILLIS, remembered_units: 1, ..config() };
        for (by, config, most) in [
            (HOUR, config(), 10),
            (-HOUR, config(), 10),
            // At most once each.
            (HOUR, forgetful, 2 * 19),
            (-HOUR, forgetful, 2 * 19),
        ] {
            let mut bench = Bench::new(policy(ordering, Commit::Late), 1, config);
            let (wrong, right) = (bench.host(0), bench.host(1));
            bench.world.shift_clock(wrong, by);
            let mut content = noise(STRIPE * STRIPES, 0);
            for n in 1..20 {
                for host in [wrong, right] {
                    // What a clock follows is as old as the other's last request was.
                    bench.wait((20 + 2 * u64::from(n)) * MILLIS);
                    let request = bench.begin(host, op(Task::WriteOther, n));
                    bench.end(request);
                    apply(Task::WriteOther, n, &mut content);
                }
            }
            assert_eq!(bench.all(), content);
            let retries = |n| bench.world.status(n).expect("it runs").counters.retries;
            let all: u64 = (0..DISKS as u16).map(|n| retries(NodeId(n))).sum();
            assert!(all <= most, "{ordering}, {by}: {all} requests were begun again");
        }
    }
}
