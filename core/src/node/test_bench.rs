//! A node by itself, for tests that say what it hears and look at what it says.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::Buffer;
use crate::cluster::{Attendance, Extent, NodeInfo, Volume};
use crate::layout::{Geometry, LayoutSpec};
use crate::plan::{Calculators, Part, Range};
use crate::store::{DiskOp, DiskRequest, StoreConfig, Superblock};
use crate::units::ColumnSet;

pub(super) const US: NodeId = NodeId(0);
pub(super) const PEER: NodeId = NodeId(1);
pub(super) const THIRD: NodeId = NodeId(2);
pub(super) const VOLUME: VolumeId = VolumeId(1);
pub(super) const UNIT: u64 = 4096;

pub(super) fn at(time: u64) -> Timestamp {
    Timestamp::new(time, PEER)
}

/// Three nodes and a volume whose first stripe has its data at the first two and its parity at the third.
pub(super) fn map(epoch: Epoch, attendance: Attendance) -> Arc<ClusterMap> {
    let spec: LayoutSpec = "raid5".parse().unwrap();
    let geometry = Geometry::new(spec.over(3).unwrap(), UNIT);
    let columns = (0..3).map(|n| (NodeId(n), 0)).collect();
    let volume = Volume::new(VOLUME, "v", 8 * UNIT, &spec, geometry, vec![Extent::new(0, columns)]);
    let nodes = vec![NodeInfo::new(1, 100); 3];
    Arc::new(ClusterMap {
        epoch,
        nodes,
        volumes: BTreeMap::from([(VOLUME, Arc::new(volume))]),
        attendance: BTreeMap::from([(VOLUME, attendance)]),
        ..ClusterMap::default()
    })
}

/// A node on a disk that holds only lengths; what it asks of its disk is done when that is asked for.
pub(super) struct Bench {
    pub node: Node,
    /// Its clock.
    pub now: Nanos,
    pub disk: VecDeque<DiskRequest>,
    pub sent: Vec<Body>,
    pub notices: Vec<(NodeId, Notice)>,
    pub reports: Vec<MemberReport>,
    pub replies: Vec<(u64, Result<HostData, HostError>)>,
    pub logged: Vec<String>,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(NodeConfig::default())
    }

    /// With a configuration, but for the store's.
    pub fn with(config: NodeConfig) -> Bench {
        Bench::in_map(config, map(1, Attendance::default()))
    }

    /// With this as its first map.
    pub fn in_map(config: NodeConfig, map: Arc<ClusterMap>) -> Bench {
        let sectors = Superblock::JOURNAL + 4096;
        let store = StoreConfig { full: Some(Superblock::SLOT), ..StoreConfig::default() };
        let config = NodeConfig { store, ..config };
        let mut bench = Bench {
            node: Node::new(US, 1, sectors, config),
            now: 1_000_000,
            disk: VecDeque::new(),
            sent: Vec::new(),
            notices: Vec::new(),
            reports: Vec::new(),
            replies: Vec::new(),
            logged: Vec::new(),
        };
        let mut out = Vec::new();
        bench.node.start(&mut out);
        bench.take(out);
        bench.enter(map, Timestamp::ZERO);
        bench
    }

    pub fn take(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Send(envelope) => {
                    self.notices.extend(envelope.notices.into_iter().map(|n| (envelope.to, n)));
                    self.sent.extend(envelope.body);
                }
                Output::Disk(request) => self.disk.push_back(request),
                Output::Report(report) => self.reports.push(report),
                Output::Reply(number, result) => self.replies.push((number, result)),
                Output::Log(line) | Output::Damaged(line) => self.logged.push(line),
                _ => {}
            }
        }
    }

    pub fn handle(&mut self, input: Input) {
        let mut out = Vec::new();
        self.node.handle(self.now, input, &mut out);
        self.take(out);
    }

    pub fn hear(&mut self, from: NodeId, body: Body) {
        self.hear_with(from, vec![], Some(body));
    }

    pub fn hear_with(&mut self, from: NodeId, notices: Vec<Notice>, body: Option<Body>) {
        let epoch = self.node.map.epoch;
        let (reached, heard) = (Reached::default(), Vec::new());
        let envelope = Envelope { from, to: US, epoch, hops: 0, notices, reached, heard, body };
        self.handle(Input::Message(Box::new(envelope)));
    }

    pub fn enter(&mut self, map: Arc<ClusterMap>, floor: Timestamp) {
        self.handle(Input::Map(MapMessage::Enter { map, floor }));
    }

    /// The first thing that the disk is to do is done; returns whether it was a write.
    pub fn disk_works(&mut self) -> Option<bool> {
        let request = self.disk.pop_front()?;
        let (done, write) = match request.op {
            DiskOp::Read { len, .. } => (Buffer::Length(len as usize), false),
            DiskOp::Write { .. } => (Buffer::Zero(0), true),
            DiskOp::Flush | DiskOp::Discard { .. } => (Buffer::Zero(0), false),
        };
        self.handle(Input::Disk(request.id, Ok(done)));
        Some(write)
    }

    /// The peer writes the beginnings of the first two units, of which the first is on this node's disk,
    /// and the second on its own.
    pub fn begin_write(&mut self, ts: Timestamp) {
        self.begin_write_of(ts, 0, Range { offset: UNIT / 2, len: UNIT });
    }

    pub fn begin_write_of(&mut self, ts: Timestamp, stripe: u64, range: Range) {
        let in_first_unit = range.len.min(UNIT - range.offset % UNIT);
        let data = Buffer::Length(in_first_unit as usize);
        let items = vec![Item { stripe, part: Part::New, data }];
        self.hear(PEER, Body::Write { header: header_of(ts, range), items });
    }

    /// The same, and what this node is to write does not come with it.
    pub fn begin_write_without_data(&mut self, ts: Timestamp) {
        let header = header_of(ts, Range { offset: UNIT / 2, len: UNIT });
        self.hear(PEER, Body::Write { header, items: Vec::new() });
    }

    /// The write that this node, asked by a host, has told others to take part in.
    pub fn has_begun(&self) -> Timestamp {
        let begun =
            |b: &Body| if let Body::Write { header, .. } = b { Some(header.ts) } else { None };
        self.sent.iter().find_map(begun).expect("others are told to write")
    }

    pub fn has_sent(&self, what: impl Fn(&Body) -> bool) -> bool {
        self.sent.iter().any(what)
    }
}

pub(super) fn header_of(ts: Timestamp, range: Range) -> Header {
    Header {
        ts,
        volume: VOLUME,
        avoid: ColumnSet::EMPTY,
        waits: crate::plan::Waits::NONE,
        calculators: Calculators::default(),
        task: Task::Write(range),
        asker: None,
        holder: None,
    }
}
