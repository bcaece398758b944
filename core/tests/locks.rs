//! What a worker and a lock server do when hosts do what they should not: keep locks and say
//! nothing, ask for what is not there, wake after others have gone on.

use std::sync::Arc;

use weft_core::Buffer;
use weft_core::cluster::{ClusterMap, Extent, NodeInfo, NodeKind, Volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{
    Body, Envelope, Header, HostOp, Input, Item, LockMessage, MapMessage, Node, NodeConfig, Notice,
    Output, Refusal, Task, Timer, Wanted,
};
use weft_core::order::{Lock, Ordering};
use weft_core::plan::{Calculators, Part, Range};
use weft_core::policy::{Commit, Dispatch, Policy};
use weft_core::store::{DiskOp, PlainConfig, Reached, StoreConfig};
use weft_core::units::{ColumnSet, MILLIS, Nanos, NodeId, SECTOR, Timestamp, VolumeId};

const SECTORS: u64 = 64;
const SIZE: u64 = 2 * SECTORS * SECTOR;
const V: VolumeId = VolumeId(1);
/// The node under test holds column 0 of RAID 5 over three disks, and serves locks; the hosts have
/// no disks.
const WORKER: NodeId = NodeId(0);
const HOSTS: [NodeId; 2] = [NodeId(3), NodeId(4)];

/// One node that is spoken to by hand.
struct Bench {
    node: Node,
    now: Nanos,
    out: Vec<Output>,
    config: NodeConfig,
}

impl Bench {
    fn new(ordering: Ordering) -> Bench {
        let store = StoreConfig { plain: Some(PlainConfig::default()), ..StoreConfig::default() };
        let config = NodeConfig { store, ..NodeConfig::default() };
        let node = Node::new(WORKER, 1, SECTORS, config);
        let mut bench = Bench { node, now: 1_000_000 * MILLIS, out: Vec::new(), config };
        bench.node.start(&mut bench.out);
        let floor = Timestamp::new(bench.now / 1000 - 1, WORKER);
        bench.give(Input::Map(MapMessage::Enter { map: Arc::new(map(ordering)), floor }));
        bench.out.clear();
        bench
    }

    fn give(&mut self, input: Input) {
        self.node.handle(self.now, input, &mut self.out);
    }

    fn hear(&mut self, from: NodeId, notices: Vec<Notice>, body: Option<Body>) {
        let (reached, heard) = (Reached::default(), Vec::new());
        let (to, epoch, hops) = (WORKER, 1, 1);
        let envelope = Envelope { from, to, epoch, hops, notices, reached, heard, body };
        self.give(Input::Message(Box::new(envelope)));
    }

    fn say(&mut self, from: NodeId, body: Body) {
        self.hear(from, Vec::new(), Some(body));
    }

    fn ts(&self, host: NodeId) -> Timestamp {
        Timestamp::new(self.now / 1000, host)
    }

    /// A host reads; returns the name of the transaction.
    fn read(&mut self, host: NodeId, range: Range) -> Timestamp {
        let (ts, avoid, wanted) = (self.ts(host), ColumnSet::EMPTY, Wanted::Data);
        let calculators = Calculators::default();
        self.say(
            host,
            Body::Read { ts, volume: V, range, avoid, calculators, wanted, holder: None },
        );
        ts
    }

    /// A host begins a write; returns the name of the transaction.
    fn write(&mut self, host: NodeId, range: Range) -> Timestamp {
        let (ts, task) = (self.ts(host), Task::Write(range));
        let header = Header {
            ts,
            volume: V,
            avoid: ColumnSet::EMPTY,
            waits: weft_core::plan::Waits::NONE,
            calculators: Calculators::default(),
            task,
            asker: None,
            holder: None,
        };
        self.say(host, Body::Write { header, items: Vec::new() });
        ts
    }

    /// Ends all disk operations.
    fn disk(&mut self) {
        let asked = |o: &Output| match o {
            Output::Disk(request) => Some(request.clone()),
            _ => None,
        };
        let requests: Vec<_> = self.out.iter().filter_map(asked).collect();
        self.out.retain(|o| !matches!(o, Output::Disk(_)));
        for request in requests {
            let result = match request.op {
                DiskOp::Read { len, .. } => Ok(Buffer::Zero(len as usize)),
                _ => Ok(Buffer::Zero(0)),
            };
            self.give(Input::Disk(request.id, result));
        }
    }

    /// What has been said since this was last asked.
    fn sent(&mut self) -> Vec<(NodeId, Body)> {
        let sent = std::mem::take(&mut self.out).into_iter().filter_map(|o| match o {
            Output::Send(e) => Some((e.to, e.body?)),
            _ => None,
        });
        sent.collect()
    }

    fn pass(&mut self, time: Nanos, timer: Timer) {
        self.now += time;
        self.give(Input::Timer(timer));
    }

    /// Whose transactions have had to wait since what was said was last asked.
    fn delayed(&self) -> Vec<NodeId> {
        let delayed = |o: &Output| if let Output::Delayed(n) = o { Some(*n) } else { None };
        self.out.iter().filter_map(delayed).collect()
    }

    /// Who has been granted locks.
    fn granted(&mut self) -> Vec<NodeId> {
        let grants = |b: &Body| matches!(b, Body::Lock(LockMessage::Grant { .. }));
        self.sent().into_iter().filter(|(_, b)| grants(b)).map(|(to, _)| to).collect()
    }
}

/// The first sector of the worker's column.
const FIRST: Range = Range { offset: 0, len: SECTOR };

fn map(ordering: Ordering) -> ClusterMap {
    let spec: LayoutSpec = "raid5".parse().unwrap();
    let g = Geometry::new(spec.over(3).unwrap(), SECTOR);
    let columns = (0..3).map(|n| (NodeId(n), 0)).collect();
    let policy = Policy {
        ordering,
        dispatch: Dispatch::Commanded,
        commit: Commit::Limited,
        journal: false,
        ..Policy::default()
    };
    let volume = Volume::new(V, "v", SIZE, &spec, g, vec![Extent::new(0, columns)]);
    let volume = Volume { policy, ..volume };
    let host = NodeInfo { kind: NodeKind::Host, ..NodeInfo::new(1, 0) };
    let mut nodes = vec![NodeInfo::new(1, SECTORS); 3];
    nodes.extend([host.clone(), host]);
    let volumes = [(V, Arc::new(volume))].into();
    ClusterMap { epoch: 1, nodes, volumes, next_volume: 2, ..ClusterMap::default() }
}

/// Whether a message to `host` among these is as wanted.
fn told(sent: &[(NodeId, Body)], host: NodeId, is: impl Fn(&Body) -> bool) -> bool {
    sent.iter().any(|(to, body)| *to == host && is(body))
}

#[test]
fn a_host_that_stalls_with_a_devices_lock_holds_others_up_for_a_lease_at_most() {
    let mut b = Bench::new(Ordering::DeviceLocks);
    b.read(HOSTS[0], FIRST);
    b.disk();
    assert!(told(&b.sent(), HOSTS[0], |m| matches!(m, Body::ReadReply { result: Ok(_), .. })));
    // The reader says nothing more. A writer waits, and is told after a while to begin again.
    b.now += MILLIS;
    let write = b.write(HOSTS[1], FIRST);
    assert_eq!(b.delayed(), [HOSTS[1]]);
    b.pass(b.config.lock_timeout, Timer::Locks);
    let busy =
        |m: &Body| matches!(m, Body::Vote { ts, vote: Err(Refusal::Busy), .. } if *ts == write);
    assert!(told(&b.sent(), HOSTS[1], busy));
    // When the lease is over the lock is free.
    b.pass(b.config.lease, Timer::Tick);
    b.sent();
    b.write(HOSTS[1], FIRST);
    assert!(b.delayed().is_empty());
    b.disk();
    assert!(told(&b.sent(), HOSTS[1], |m| matches!(m, Body::Part { .. })));
}

/// Those that are refused together would meet again for ever if all came back as soon as before.
#[test]
fn who_does_not_get_a_devices_lock_stays_away_longer_each_time() {
    let mut b = Bench::new(Ordering::DeviceLocks);
    let second = Range { offset: SECTOR, len: SECTOR };
    b.give(Input::Host(1, V, HostOp::Read(second)));
    for doublings in [0, 1, 2, 3, 4, 5, 6, 6, 6] {
        let sent = b.sent();
        let asked = sent.iter().find_map(|(to, body)| match body {
            Body::Read { ts, .. } => Some((*to, *ts)),
            _ => None,
        });
        let (disk, ts) = asked.expect("it is asked again");
        b.say(disk, Body::ReadReply { ts, column: 1, result: Err(Refusal::Busy) });
        let pause = b.out.iter().find_map(|o| match o {
            Output::Timer(Timer::Retry, pause) => Some(*pause),
            _ => None,
        });
        let pause = pause.expect("it pauses");
        let most = (b.config.lock_timeout / 4) << doublings;
        assert!((most / 2..=most).contains(&pause), "{pause} of {most}");
        b.pass(pause, Timer::Retry);
    }
}

#[test]
fn a_lock_that_is_given_back_goes_to_who_waits_for_it() {
    let mut b = Bench::new(Ordering::DeviceLocks);
    let read = b.read(HOSTS[0], FIRST);
    b.disk();
    b.now += MILLIS;
    b.write(HOSTS[1], FIRST);
    b.disk();
    assert!(!told(&b.sent(), HOSTS[1], |m| matches!(m, Body::Part { .. })));
    b.hear(HOSTS[0], vec![Notice::Unlock(read)], None);
    b.disk();
    assert!(told(&b.sent(), HOSTS[1], |m| matches!(m, Body::Part { .. })));
}

#[test]
fn a_write_of_a_paused_host_is_refused_when_others_have_gone_on() {
    for ordering in [Ordering::LockServer, Ordering::CallbackLocks, Ordering::Timestamps] {
        let mut b = Bench::new(ordering);
        let ts = b.ts(HOSTS[0]);
        b.now += 10 * MILLIS;
        b.read(HOSTS[1], FIRST);
        b.disk();
        b.sent();
        // What the first host had has expired meanwhile; now it wakes and goes on.
        let header = Header {
            ts,
            volume: V,
            avoid: ColumnSet::EMPTY,
            waits: weft_core::plan::Waits::NONE,
            calculators: Calculators::default(),
            task: Task::Write(FIRST),
            asker: None,
            holder: None,
        };
        let data = Buffer::from(vec![7; SECTOR as usize]);
        let items = vec![Item { stripe: 0, part: Part::New, data }];
        b.say(HOSTS[0], Body::Write { header, items });
        let refused = |m: &Body| matches!(m, Body::Vote { vote: Err(Refusal::Late(_)), .. });
        assert!(told(&b.sent(), HOSTS[0], refused), "{ordering}");
    }
}

#[test]
fn what_lies_past_the_end_is_not_touched() {
    let past = Range { offset: SIZE, len: SECTOR };
    let wraps = Range { offset: SIZE - SECTOR, len: u64::MAX };
    for ordering in [Ordering::DeviceLocks, Ordering::Timestamps] {
        let mut b = Bench::new(ordering);
        for range in [past, wraps, Range { offset: 0, len: 0 }] {
            b.read(HOSTS[0], range);
            b.write(HOSTS[0], range);
        }
        assert!(!b.out.iter().any(|o| matches!(o, Output::Disk(_))), "{ordering}");
        // All that there is is free for others.
        b.now += MILLIS;
        b.write(HOSTS[1], FIRST);
        assert!(b.delayed().is_empty(), "{ordering}");
    }
}

fn ask(id: u64, keeps: bool) -> Body {
    let locks = vec![Lock { disk: WORKER, sectors: 0..4, exclusive: true }];
    Body::Lock(LockMessage::Ask { id, locks, back: Vec::new(), keeps })
}

fn holds(held: Vec<(u64, Vec<Lock>, bool)>) -> Body {
    Body::Lock(LockMessage::Held { held })
}

#[test]
fn nobody_keeps_a_servers_lock_for_ever() {
    for ordering in [Ordering::LockServer, Ordering::CallbackLocks] {
        let mut b = Bench::new(ordering);
        (0..5).for_each(|n| b.say(NodeId(n), holds(Vec::new())));
        b.sent();
        // However it asks: how long a lease is, is not the host's to say.
        b.say(HOSTS[0], ask(1, true));
        assert_eq!(b.granted(), [HOSTS[0]]);
        b.now += MILLIS;
        b.say(HOSTS[1], ask(1, true));
        let call = |m: &Body| matches!(m, Body::Lock(LockMessage::Call { ids }) if ids == &[1]);
        assert!(told(&b.sent(), HOSTS[0], call));
        // It does not answer.
        b.pass(b.config.lease - 2 * MILLIS, Timer::LockServer);
        assert_eq!(b.granted(), []);
        b.pass(MILLIS, Timer::LockServer);
        assert_eq!(b.granted(), [HOSTS[1]]);
    }
}

#[test]
fn a_new_server_grants_nothing_until_it_has_heard_what_everybody_holds() {
    let mut b = Bench::new(Ordering::LockServer);
    b.say(HOSTS[1], ask(7, false));
    let locks = vec![Lock { disk: WORKER, sectors: 2..3, exclusive: true }];
    b.say(HOSTS[0], holds(vec![(5, locks, false)]));
    (0..3).for_each(|n| b.say(NodeId(n), holds(Vec::new())));
    assert_eq!(b.granted(), []);
    b.pass(b.config.lock_timeout, Timer::LockServer);
    let asked = |m: &Body| matches!(m, Body::Lock(LockMessage::Tell));
    assert!(told(&b.sent(), HOSTS[1], asked), "who has not said is asked again");
    b.say(HOSTS[1], holds(Vec::new()));
    assert_eq!(b.granted(), [], "the other holds it");
    let latest = b.ts(HOSTS[0]);
    b.say(HOSTS[0], Body::Lock(LockMessage::Back { ids: vec![5], latest }));
    assert_eq!(b.granted(), [HOSTS[1]]);
}
