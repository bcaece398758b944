//! What requests cost where a controller coordinates: nodes count what the plan promises.

use weft_core::cluster::{Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostOp, NodeConfig};
use weft_core::order::sequencer::Standpoint;
use weft_core::plan::{Asked, Range, Totals, explain};
use weft_core::policy::{CalculatedAt, Commands, Policy, Roles, Setting};
use weft_core::units::{ColumnSet, NodeId, SECTOR, VolumeId};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const UNIT: u64 = 4 * SECTOR;
/// Not the controller, which is the first.
const ENDPOINT: NodeId = NodeId(2);

struct Bench {
    world: World,
    geometry: Geometry,
    policy: Policy,
    nodes: u16,
    /// Columns whose nodes are dead.
    lost: ColumnSet,
    next: u64,
}

impl Bench {
    fn new(layout: &str, nodes: usize, settings: &[Setting]) -> Bench {
        let layout: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(layout.over(nodes).unwrap(), UNIT);
        let policy = Policy::default().with(settings.iter().copied());
        let size = 8 * geometry.stripe_bytes();
        let of_volume = geometry.clone();
        let volumes = |data| {
            let rooms = Room::apart(&vec![data; nodes]);
            let extents = place_volume(&of_volume, size, &rooms, &[], size).unwrap();
            let made = Volume::new(VOLUME, "v", size, &layout, of_volume.clone(), extents);
            vec![Volume { policy, ..made }]
        };
        let world = World::new(5, nodes, 4800, 512, NodeConfig::default(), volumes);
        let (nodes, lost) = (nodes as u16, ColumnSet::EMPTY);
        let mut bench = Bench { world, geometry, policy, nodes, lost, next: 0 };
        bench.rest();
        bench
    }

    fn rest(&mut self) {
        let is_quiet = |b: &Bench, n| b.world.status(n).is_some_and(|s| s.quiet);
        self.until(|b| b.all().filter(|n| b.world.map().is_up(*n)).all(|n| is_quiet(b, n)));
    }

    /// A node dies for good.
    fn kill(&mut self, node: NodeId) {
        self.world.kill(node, false);
        self.until(|b| !b.world.map().is_up(node));
        let volume = self.world.map().volumes[&VOLUME].clone();
        assert_eq!(volume.extents.len(), 1);
        let its = volume.extents[0].column_of(node).expect("a column");
        self.lost.insert(its);
        self.rest();
        // Some nodes may not have entered the new epoch yet, so the first request may be asked for again.
        self.cost(HostOp::Write(0, vec![1; SECTOR as usize].into()));
    }

    fn all(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes).map(NodeId)
    }

    fn until(&mut self, done: impl Fn(&Bench) -> bool) {
        let limit = self.world.events + 100_000;
        while !done(self) {
            assert!(self.world.step().is_some() && self.world.events < limit, "it does not end");
        }
    }

    fn counted(&self) -> Totals {
        let mut sum = Totals::default();
        for totals in self.all().filter_map(|n| self.world.status(n)).map(|s| s.counters.totals) {
            let round_trips = sum.round_trips + totals.round_trips;
            sum += totals;
            sum.round_trips = round_trips;
        }
        sum
    }

    /// Messages, bytes on the wire and round trips of a request.
    fn cost(&mut self, op: HostOp) -> [u64; 3] {
        let before = self.counted();
        self.next += 1;
        self.world.host(ENDPOINT, self.next, VOLUME, op);
        let request = self.next;
        self.until(|b| b.world.replies.iter().any(|r| r.0 == request));
        assert!(self.world.replies.drain(..).all(|r| r.1.is_ok()));
        self.rest();
        let after = self.counted();
        [
            after.messages - before.messages,
            after.wire_bytes - before.wire_bytes,
            after.round_trips - before.round_trips,
        ]
    }

    /// Compares a read and a write of a range; returns the messages of both.
    fn agrees(&mut self, range: Range) -> [u64; 2] {
        let (g, lost) = (self.geometry.clone(), self.lost);
        let bytes = (0..range.len).map(|n| (n % 251) as u8 + 1).collect::<Vec<u8>>();
        let promised = [true, false].map(|write| {
            let from = Standpoint { nodes: 5, originators: 1, at_primary: false };
            let asked = if write { Asked::Write } else { Asked::Read };
            explain(&g, asked, range, lost, self.policy, 1 << 30, None, from).unwrap().totals
        });
        let ops = [HostOp::Write(range.offset, bytes.into()), HostOp::Read(range)];
        for (op, t) in ops.into_iter().zip(promised) {
            let what = format!("{op:?}").chars().take(40).collect::<String>();
            let counted = self.cost(op);
            let said = [t.messages, t.wire_bytes, t.round_trips];
            assert_eq!(counted, said, "{what} {range:?} by {:?}", self.policy);
        }
        promised.map(|t| t.messages)
    }
}

fn ranges(g: &Geometry) -> Vec<Range> {
    let stripe = g.stripe_bytes();
    let range = |offset, len| Range { offset, len };
    let mut all = vec![
        range(0, SECTOR),
        range(1000, 3000),
        range(UNIT - SECTOR, 2 * SECTOR),
        range(0, UNIT),
        range(0, stripe),
        range(stripe / 2, 2 * stripe),
        range(UNIT, stripe - UNIT),
    ];
    all.retain(|r| r.end() <= 8 * stripe && r.len > 0);
    all
}

#[test]
fn nodes_count_what_plans_promise() {
    for (layout, nodes) in [("raid5", 5), ("raid6", 6), ("rs:2+1", 3), ("lrc:4+2+1", 7)] {
        for roles in [Roles::Controller, Roles::Central] {
            let columns = [Some(CalculatedAt::Balanced), Some(CalculatedAt::Tree)];
            for calculated_at in [None, Some(CalculatedAt::Parity)].into_iter().chain(columns) {
                if roles == Roles::Central && calculated_at.is_some() {
                    continue;
                }
                let settings = [Setting::Roles(roles), Setting::CalculatedAt(calculated_at)];
                let mut bench = Bench::new(layout, nodes, &settings);
                for range in ranges(&bench.geometry.clone()) {
                    bench.agrees(range);
                }
                bench.kill(NodeId(1));
                for range in ranges(&bench.geometry.clone()) {
                    bench.agrees(range);
                }
            }
        }
    }
}

/// Of a lost unit nothing but its bytes goes to the endpoint. Four columns are asked, of which one solves and answers.
#[test]
fn a_lost_unit_is_solved_on_its_way() {
    for calculated_at in [None, Some(CalculatedAt::Tree)] {
        let settings = [Setting::Roles(Roles::Controller), Setting::CalculatedAt(calculated_at)];
        let mut bench = Bench::new("raid5", 5, &settings);
        bench.kill(NodeId(3));
        let g = bench.geometry.clone();
        let is_lost = |n: &u64| bench.lost.contains(g.layout.data_column(0, *n as usize));
        let unit = (0..4).find(is_lost).expect("a unit of stripe 0");
        let range = Range { offset: unit * UNIT, len: UNIT };
        bench.agrees(range);
        // Request and Done; four times Read; three times Show; Place and its ReadReply. Sums, and then the unit.
        assert_eq!(bench.cost(HostOp::Read(range)), [2 + 4 + 3 + 2, (3 + 1) * UNIT, 3]);
    }
}

/// With a command for each block the controller carries out a stripe at a time. It is asked once, and answers once.
#[test]
fn a_command_for_each_block_is_counted() {
    for calculated_at in [None, Some(CalculatedAt::Tree)] {
        let commands = Setting::Commands(Commands::Block);
        let settings =
            [Setting::Roles(Roles::Controller), Setting::CalculatedAt(calculated_at), commands];
        let mut bench = Bench::new("raid5", 5, &settings);
        let stripe = bench.geometry.stripe_bytes();
        let range = Range { offset: 0, len: 3 * stripe };
        // Of a read four columns are told of each stripe, place what they have, and answer.
        assert_eq!(bench.agrees(range)[1], 2 + 3 * 3 * 4);
        bench.agrees(Range { offset: stripe / 2, len: 2 * stripe });
        bench.kill(NodeId(1));
        bench.agrees(range);
    }
}

/// 6 + 2m messages for a small write, two fewer if it is inline, and 2 + 3c for a read.
#[test]
fn small_requests_cost_so_many_messages() {
    for (layout, nodes, m) in [("raid5", 5, 1), ("raid6", 6, 2)] {
        let roles = Setting::Roles(Roles::Controller);
        for (inline, messages) in [(0, 6 + 2 * m), (SECTOR, 4 + 2 * m)] {
            let mut bench = Bench::new(layout, nodes, &[roles, Setting::Inline(inline)]);
            let range = Range { offset: 0, len: SECTOR };
            assert_eq!(bench.agrees(range), [messages, 5]);
        }
        let mut bench = Bench::new(layout, nodes, &[roles]);
        let range = Range { offset: 0, len: 2 * UNIT };
        assert_eq!(bench.agrees(range)[1], 2 + 3 * 2);
    }
}
